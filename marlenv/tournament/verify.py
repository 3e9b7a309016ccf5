"""Are games what their seed says? Some are played again, and those that come out otherwise are told."""

from __future__ import annotations

from marlenv.errors import whole
from marlenv.tournament.config import Config
from marlenv.tournament.store import Ledger


def verify(ledger: Ledger, count: int = 20) -> list[str]:
    """Warnings about games that come out otherwise when they are played again, and who plays in all of them.

    A player that draws from a generator of its own, thinks by the clock or has changed since makes games that no seed
    gives back.

    Args:
        ledger: of the tournament; nothing is written into it.
        count: how many finished games are played again, spread over the schedule.
    """
    whole("verify", "count", count, 1)
    played = ledger.played(moves=False)
    total = len(played.games)
    some = sorted({k * total // count for k in range(count)}) if total else []
    games = [played.games[k] for k in some]
    again = Config.kept(ledger).arena().play(games)
    other = [g for g, k, digest in zip(games, some, again.digest, strict=True) if digest != played.digest[k]]
    if not other:
        return []
    named = set(other[0].players).intersection(*(game.players for game in other))
    who = " or ".join(repr(name) for name in sorted(named or {p for game in other for p in game.players}))
    return [
        f"{len(other)} of {len(games)} games came out otherwise when they were played again, "
        f"such as game {other[0].id}: {who} does not play by the seed; draw from turn.rng alone, "
        f"and limit engines by nodes or depth"
    ]
