"""What the writer of a game takes from the shelf: sets of bits, cards, tables, drawings."""
