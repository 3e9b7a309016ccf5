"""Random places for bodies that keep away from others, row by row and without a loop that waits for the last row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from marlenv.physics.maths.rowwise import in_graph, put_rows, repeat, rolls, take_rows
from marlenv.rng import RowRNG

FIRST, TRIES = 8, 64  # places tried at once by all rows; places tried at all

Propose: TypeAlias = "Callable[[RowRNG, int, Tensor | None], Tensor]"
"""So many random places for some rows (int64, or None for all), ``[2 or more, n, B]``: coordinates, and what else is to
be known of a place. It uses two numbers of each row for each of them, one place after the other."""


def rectangle(low: tuple[float, float], high: tuple[float, float]) -> Propose:
    """Places anywhere between the lower left and the upper right corner of a rectangle."""

    def propose(rng: RowRNG, count: int, rows: Tensor | None = None) -> Tensor:
        unit = rng.uniform(shape=(count, 2), rows_last=True)
        return torch.stack([lo + unit[:, i] * (hi - lo) for i, (lo, hi) in enumerate(zip(low, high, strict=True))])

    return propose


def find_room(
    rng: RowRNG,
    taken: Tensor | None,
    apart: float,
    propose: Propose,
    where: Tensor | None = None,
) -> Tensor:
    """A random place that keeps away from others; ``[2 or more, B]``, as it is proposed.

    It is the first of 64 random ones that is far enough from all others, and so uniform where there is room; when there
    is none, the one that is farthest away from its nearest neighbour. The numbers that a row uses are the same in any
    batch.

    Args:
        rng: of ``B`` rows; every row uses 128 numbers.
        taken: the others, ``[2, N, B]``.
        apart: how far away, metres.
        propose: random places.
        where: bool ``[B]``; the others need no place, and get any.

    >>> here = torch.zeros(2, 1, 3)
    >>> place = find_room(RowRNG(rows=[3]), here, apart=0.5, propose=rectangle((-1, -1), (1, 1)))
    >>> bool((place.norm(dim=0) >= 0.5).all())
    True

    """
    start = rng.counter
    if taken is None or not taken.shape[1]:
        place = propose(rng, 1, None)[:, 0]
    elif rolls():
        place = _search(rng, taken, apart, propose)
    elif in_graph() or not rng.key.numel() or rng.device.type != "cpu":
        place = _first(propose(rng, TRIES, None), taken, apart)[0]
    else:  # nearly all rows are done after the first tries; the others try on by themselves
        place, found = _first(propose(rng, FIRST, None), taken, apart)
        found = found if where is None else found | ~where
        if not bool(found.all()):
            again = (~found).nonzero().flatten()
            rest = RowRNG.from_state(torch.stack((rng.key[again], start[again]), -1))
            found_later = _first(propose(rest, TRIES, again), take_rows(taken, again), apart)[0]
            place = put_rows(place, again, found_later)
    rng.counter = start + 2 * TRIES
    return place


def _search(rng: RowRNG, taken: Tensor, apart: float, propose: Propose) -> Tensor:
    """What :func:`_first` finds among all tries, one after the other."""

    def attempt(i: Tensor, so_far: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        place, best, found = so_far
        one = RowRNG.from_state(torch.stack((rng.key, rng.counter + 2 * i), -1))
        there = propose(one, 1, None)
        way = there[:2] - taken
        room = (way[0] * way[0] + way[1] * way[1]).amin(0)
        better = ~found & (room > best)
        return torch.where(better, there[:, 0], place), torch.where(better, room, best), found | (room >= apart * apart)

    lost = taken.new_full((), -1.0).expand(taken.shape[-1])
    nowhere = torch.zeros_like(propose(RowRNG.from_state(torch.stack((rng.key, rng.counter), -1)), 1, None)[:, 0])
    start = (nowhere, lost, torch.zeros_like(lost, dtype=torch.bool))
    return repeat(TRIES, attempt, start, stop=True)[0]


def _first(places: Tensor, taken: Tensor, apart: float) -> tuple[Tensor, Tensor]:
    """The first place with room, or else the roomiest, ``[2 or more, B]``; and whether it has room, bool ``[B]``."""
    way = places[:2].unsqueeze(2) - taken.unsqueeze(1)  # [2, count, N, B]
    room = (way[0] * way[0] + way[1] * way[1]).amin(1)
    enough = room >= apart * apart
    rank = torch.arange(places.shape[1], 0, -1, device=places.device).unsqueeze(-1)
    score = torch.where(enough, rank + 1e6, room)  # any place with room before any without, the first before the later
    best = score.argmax(0)
    return places.gather(1, best.expand(len(places), 1, -1)).squeeze(1), enough.any(0)
