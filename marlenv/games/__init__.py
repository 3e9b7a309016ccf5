"""Turns and rules: board and card games for any batch of positions at once."""
