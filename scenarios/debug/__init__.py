"""Small worlds that show one part of the engine each, under the names that VMAS gave them."""
