"""The numbers that other people give to the moves of chess."""
