"""What an author of a scenario writes with: the world, the scenario, sensors, distances, places to begin in."""
