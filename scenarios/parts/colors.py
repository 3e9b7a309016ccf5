"""Colours that can be told apart: those that VMAS gives to the first agents, and further ones."""

from __future__ import annotations

import colorsys

FIRST = (
    (0.22, 0.49, 0.72),
    (1.0, 0.5, 0.0),
    (0.3, 0.69, 0.29),
    (0.97, 0.51, 0.75),
    (0.6, 0.31, 0.64),
    (0.89, 0.1, 0.11),
    (0.87, 0.87, 0.0),
)
GOLDEN = 0.618034  # of a turn of hues: wherever one stops, no two are near each other


def distinct(n: int) -> list[tuple[float, float, float]]:
    """So many colours, no two of them alike: red, green and blue in [0, 1].

    >>> distinct(2), len(set(distinct(100)))
    ([(0.22, 0.49, 0.72), (1.0, 0.5, 0.0)], 100)
    """
    more = [
        colorsys.hsv_to_rgb(i * GOLDEN % 1, (1.0, 0.6)[i % 2], (0.85, 0.6)[i // 2 % 2]) for i in range(n - len(FIRST))
    ]
    return [*FIRST, *more][:n]
