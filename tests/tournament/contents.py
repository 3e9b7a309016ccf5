"""What a ledger holds, in a form that two of them can be compared by."""

from __future__ import annotations

from dataclasses import astuple

from marlenv.tournament.store import Ledger


def content(ledger: Ledger) -> list[tuple[object, ...]]:
    """All that is known of each game, but for how long players thought; None where it is not finished."""
    played = ledger.played()
    columns = (played.returns, played.plies, played.ending, played.culprit, played.digest)
    rows = zip(*(column.tolist() for column in columns), played.moves, strict=True)
    results = dict(zip(played.games.ids.tolist(), rows, strict=True))
    assert len(results) == len(played.games) == ledger.counts()["finished"]
    return [(*astuple(game), *results.get(game.id, (None,) * 6)) for game in ledger.games()]
