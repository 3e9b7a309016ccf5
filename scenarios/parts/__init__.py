"""What several tasks share and none of them is: walls of bricks, corridors, rods, colours."""
