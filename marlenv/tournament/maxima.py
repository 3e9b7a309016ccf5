"""Whether games have likeliest strengths at all: a matter of which outcomes were seen, never of how large numbers get.

``R`` are sets of games, ``n`` players. The likelihood has no maximum where strengths ``d``, the seat's worth ``s`` and
draws' weight ``q`` can run away together and make no game less likely than another outcome of it. With
``D = d_i - d_j + s`` for ``i`` who sits first, that is so where ``D >= 2 q`` in every pairing that was won,
``D <= -2 q`` where it was lost, and ``-2 q <= D <= 2 q`` where it was drawn: bounds on differences, which can hold at
once unless they add up to more than 0 around some circle of players.
"""

from __future__ import annotations

import numpy as np

from marlenv.tournament.likelihood import Array, Flags
from marlenv.tournament.results import DRAW, LOSS, WIN

TINY = 1e-9  # sums of bounds are 0, or further from it than one over twice the number of players


def seat_is_free(counts: Array) -> Flags:
    """Whether games would fit as well, or better, with a seat's worth without bound; bool ``[R]``.

    Args:
        counts: ``[R, n, n, 3]``.

    >>> both, first = [[[0, 0, 0], [1, 0, 1]], [[1, 0, 1], [0, 0, 0]]], [[[0, 0, 0], [1, 0, 1]], [[0, 0, 0], [0, 0, 0]]]
    >>> seat_is_free(np.array([both, first])).tolist()  # where one player always sits first, nothing tells
    [False, True]
    """
    free = np.zeros(len(counts), dtype=bool)
    for seat in (1.0, -1.0):
        bounds, _ = _bounds(counts, np.full(len(counts), seat), 0.0)
        free |= np.array([not circle for circle in circles(bounds)], dtype=bool)
    return free


def draws_are_free(counts: Array, *, seat: bool) -> Flags:
    """Whether games would fit as well, or better, with a weight of draws without bound; bool ``[R]``.

    Args:
        counts: ``[R, n, n, 3]``.
        seat: whether a seat may be worth something, which then may grow too.

    >>> won = np.array([[[[0, 0, 0], [2, 5, 0]], [[0, 0, 0], [0, 0, 0]]]])  # two wins and five draws of one player
    >>> draws_are_free(won, seat=False).tolist(), draws_are_free(won[..., ::-1] + won, seat=False).tolist()
    ([True], [False])
    """
    open_ = np.arange(len(counts))
    free, worth = np.zeros(len(counts), dtype=bool), np.zeros(len(counts))
    low, high = np.full(len(counts), -np.inf), np.full(len(counts), np.inf)
    while len(open_):
        bounds, slopes = _bounds(counts[open_], worth[open_], 1.0)
        going = []
        for k, circle, bound, slope in zip(open_.tolist(), circles(bounds), bounds, slopes, strict=True):
            if not circle:
                free[k] = True
                continue
            edges = circle, circle[1:] + circle[:1]
            over, by = float(bound[edges].sum()), float(slope[edges].sum())
            if not seat or not by:  # no worth of the seat mends that
                continue
            worth[k] -= over / by  # where this circle adds up to 0
            low[k], high[k] = (low[k], worth[k]) if by > 0 else (worth[k], high[k])
            if low[k] <= high[k] + TINY:
                going.append(k)
        open_ = np.array(going, dtype=int)
    return free


def circles(bounds: Array) -> list[list[int]]:
    """Circles of players around which bounds add up to more than 0, so that no strengths fulfil them; one for each set,
    empty where there is none.

    Args:
        bounds: ``[R, n, n]``, by how much the row must at least be stronger than the column; -inf for no matter.
    """
    n = bounds.shape[-1]
    pairs = (bounds + np.swapaxes(bounds, -1, -2)).reshape(len(bounds), -1)
    worst = pairs.argmax(-1)
    over = pairs[np.arange(len(pairs)), worst] > TINY
    out: list[list[int]] = [list(divmod(int(w), n)) if o else [] for w, o in zip(worst, over, strict=True)]
    rest = np.flatnonzero(~over)
    strength, before = np.zeros((len(rest), n)), np.zeros((len(rest), n), dtype=int)
    rising = np.ones((len(rest), n), dtype=bool)
    for _ in range(n):  # strengths that chains of so many bounds ask for (Bellman 1958, Ford 1956)
        asked = bounds[rest] + strength[:, None]
        most = asked.max(-1)
        rising = most > strength + TINY
        strength, before = np.where(rising, most, strength), np.where(rising, asked.argmax(-1), before)
        if not rising.any():
            break
    for row in np.flatnonzero(rising.any(-1)).tolist():  # still: a chain of so many goes in a circle
        out[rest[row]] = _circle(before[row].tolist(), int(rising[row].argmax()))
    return out


def _circle(before: list[int], at: int) -> list[int]:
    """The circle that a chain of bounds ends in."""
    for _ in before:
        at = before[at]
    circle = [at]
    while (at := before[at]) != circle[0]:
        circle.append(at)
    return circle


def _bounds(counts: Array, seat: Array, far: float) -> tuple[Array, Array]:
    """By how much each player must be stronger than each other, and how that grows with the seat's worth; ``[R, n, n]``
    each.

    Args:
        counts: ``[R, n, n, 3]``.
        seat: its worth, ``[R]``.
        far: twice the weight of draws.
    """
    seen = counts > 0
    drawn = np.where(seen[..., DRAW], -far, -np.inf)
    first = np.where(seen[..., WIN], far, drawn) - seat[:, None, None]
    second = np.swapaxes(np.where(seen[..., LOSS], far, drawn) + seat[:, None, None], -1, -2)
    return np.maximum(first, second), np.where(first >= second, -1.0, 1.0)
