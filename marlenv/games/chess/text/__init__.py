"""Chess as people write it: positions, FEN, EPD, SAN, UCI, PGN."""
