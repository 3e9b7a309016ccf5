"""Which games are open, leased or finished, told by stretches of their numbers.

Games are leased and finished in blocks, so a few stretches say it of millions of games, whose own rows are left as they
were written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marlenv.tournament.games import Ids


class Span(NamedTuple):
    """Games that follow one another, of which the same is true.

    Args:
        start: the number of the first.
        stop: the number behind the last, as in :class:`range`.
        state: what they are.
        owner: who has leased them.
        lease_until: how long, in seconds since 1970.
    """

    start: int
    stop: int
    state: int
    owner: str | None = None
    lease_until: float | None = None

    @property
    def size(self) -> int:
        """How many games."""
        return self.stop - self.start


def runs(ids: Ids) -> list[tuple[int, int]]:
    """The stretches of numbers that follow one another, as starts and stops.

    Args:
        ids: each once, in order; int64 ``[K]``.

    >>> runs(np.array([3, 4, 5, 9]))
    [(3, 6), (9, 10)]
    """
    if not len(ids):
        return []
    breaks = np.flatnonzero(np.diff(ids) != 1)
    starts, stops = ids[np.append(0, breaks + 1)], ids[np.append(breaks, -1)] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def holds(spans: Sequence[Span], ids: Ids) -> NDArray[np.bool_]:
    """Which numbers are in one of the spans; bool ``[K]``.

    Args:
        spans: in order.
        ids: in any order; int64 ``[K]``.

    >>> holds([Span(0, 2, 0), Span(5, 9, 0)], np.array([1, 2, 5, 9])).tolist()
    [True, False, True, False]
    """
    if len(spans) < 2:
        return (ids >= spans[0].start) & (ids < spans[0].stop) if spans else np.zeros(len(ids), dtype=bool)
    starts, stops = np.array([s.start for s in spans]), np.array([s.stop for s in spans])
    last = np.searchsorted(starts, ids, "right") - 1  # the last span that begins before
    return (last >= 0) & (ids < stops[last])


def marked(
    spans: Iterable[Span], ids: Ids, state: int, owner: str | None = None, until: float | None = None
) -> list[Span]:
    """The spans after something came true of some of their games.

    Args:
        spans: in order.
        ids: each once, in order, and all of them in spans; int64 ``[K]``.
        state: what those games are now.
        owner: who has leased them.
        until: how long.

    >>> [span[:3] for span in marked([Span(0, 9, 0)], np.array([3, 4]), 2)]
    [(0, 3, 0), (3, 5, 2), (5, 9, 0)]
    """
    if not len(ids):
        return list(spans)
    changed = [Span(start, stop, state, owner, until) for start, stop in runs(ids)]
    cuts = np.array([place for span in changed for place in (span.start, span.stop)])
    pieces = [piece for span in spans for piece in _cut(span, cuts)]
    inside = holds(changed, np.array([piece.start for piece in pieces]))
    return joined(
        piece._replace(state=state, owner=owner, lease_until=until) if change else piece
        for piece, change in zip(pieces, inside, strict=True)
    )


def _cut(span: Span, cuts: Ids) -> Iterator[Span]:
    """The parts of a span between places."""
    inner = cuts[np.searchsorted(cuts, span.start, "right") : np.searchsorted(cuts, span.stop)].tolist()
    for start, stop in zip([span.start, *inner], [*inner, span.stop], strict=True):
        if start < stop:
            yield span._replace(start=start, stop=stop)


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same in as few spans as can be.

    >>> len(joined([Span(0, 2, 1), Span(2, 5, 1), Span(5, 6, 0), Span(8, 9, 0)]))
    3
    """
    out: list[Span] = []
    for span in spans:
        if out and out[-1].stop == span.start and out[-1][2:] == span[2:]:
            out[-1] = out[-1]._replace(stop=span.stop)
        else:
            out.append(span)
    return out
