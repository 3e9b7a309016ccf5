"""A tournament as one page that needs nothing else: standings, crosstable, warnings, replays of games on a board."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader  # torch needs it and brings it
from markupsafe import Markup

from marlenv.errors import PoolError, ShapeError, Unsupported, whole
from marlenv.files import whole_file
from marlenv.text_table import shortened
from marlenv.tournament.asking import ENDINGS
from marlenv.tournament.by_game import met, rate_games, results_of
from marlenv.tournament.config import Config
from marlenv.tournament.cross_play import cross_play, team_returns
from marlenv.tournament.defects import defects
from marlenv.tournament.export import board_of, positions
from marlenv.tournament.files import placed
from marlenv.tournament.plan import verdict
from marlenv.tournament.play import Played
from marlenv.tournament.ratings import Draws, Ratings, elo_points
from marlenv.tournament.response import response
from marlenv.tournament.results import Results
from marlenv.tournament.store import Ledger


def standings(
    played: Played, names: list[str], level: float = 0.95, *, draws: Draws = "davidson", seat: bool | None = None
) -> tuple[list[dict[str, str]], str]:
    """The table of a tournament, the best first, and why there are no ratings where there are none.

    A game counts once for each player in it, however many seats it has; the returns are those of each seat.

    Args:
        played: the games.
        names: all players.
        level: of the intervals.
        draws: as of :func:`rate`.
        seat: as of :func:`rate`.
    """
    if not played.games:
        return [], "no game is finished yet"
    results = results_of(played, names)
    try:
        ratings: Ratings | None = rate_games(played, names, draws=draws, seat=seat)
        note = ""
    except PoolError as error:
        ratings, note = None, f"no ratings: {error}"
    earned: dict[str, list[float]] = {name: [] for name in names}
    games = dict.fromkeys(names, 0)
    for game, returns in zip(played.games, played.returns.tolist(), strict=True):
        for name in set(game.players):
            games[name] += 1
        for name, mine in zip(game.players, returns, strict=True):
            earned[name].append(mine)
    share = results.points / np.maximum(results.played, 1)
    key = share if ratings is None else np.nan_to_num(ratings.elo, nan=-np.inf)
    rows = []
    bounds = None if ratings is None else (*ratings.wald(level), *ratings.ranks(level))
    for k in np.lexsort((-share, -key)).tolist():
        row = {"player": names[k]}
        if ratings is not None and bounds is not None:
            low, high, best, worst = (column[k] for column in bounds)
            row["Elo"] = elo_points(ratings.elo[k])
            row[f"{100 * level:g} %"] = f"{elo_points(low)} {elo_points(high)}"
            row["rank"] = f"{best:.0f}-{worst:.0f}"
        mine = earned[names[k]]
        row |= {"games": f"{games[names[k]]}", "score": f"{100 * share[k]:.1f}%" if results.played[k] else "-"}
        row["mean return"] = f"{np.mean(mine):.3g}" if mine else "-"
        rows.append(row)
    return rows, note


def write_report(
    ledger: Ledger,
    path: Path,
    *,
    level: float = 0.95,
    replays: int = 100,
    draws: Draws = "davidson",
    seat: bool | None = None,
) -> None:
    """Writes the page of a tournament.

    Args:
        ledger: of the tournament.
        path: of the page.
        level: of the intervals.
        replays: how many games can be replayed, those of all pairings in turn.
        draws: as of :func:`rate`.
        seat: as of :func:`rate`.

    Raises:
        SpecError: the number of replays is below 0.
        PoolError: there is no folder for the page, or it is one, or the ledger.
    """
    whole("report", "replays", replays, 0)
    path = placed("report", Path(path), ledger.path)
    config, played = Config.kept(ledger), ledger.played()
    names = list(config.players)
    rows, note = standings(played, names, level, draws=draws, seat=seat)
    results = results_of(played, names) if played.games else Results(tuple(names))
    once = met(played, names) if played.games else results
    order, shown = [row["player"] for row in rows], _replays(ledger, played, replays)
    pages = Environment(loader=PackageLoader("marlenv.tournament", "page"), autoescape=True)
    pages.filters["shortened"] = shortened
    text = pages.get_template("report.html").render(
        title=config.env,
        config=config,
        counts=ledger.counts(),
        rows=rows,
        note=note,
        verdict=verdict(config, played, level),
        warnings=defects(played, once) if played.games else [],
        names=order,
        cross=_cross(results, order),
        graph=response(once, order, level),
        accounts=_accounts(played, order),
        teams=_teams(played) if config.schedule in ("teams", "focal") else [],
        gap=_gap(played, level) if config.schedule == "teams" else "",
        scale=Ratings.scale,
        schedule=_schedule(ledger, played),
        seats=_by_seat(played, results),
        endings=_endings(played),
        plot=_plot(rows, level),
        replays=Markup(json.dumps(shown).replace("<", "\\u003c")),
        no_replays=_why_none(shown, played, replays),
    )
    with whole_file("report", path) as draft:
        draft.write_text(text, encoding="utf-8")


def _cross(results: Results, order: list[str]) -> list[list[str]]:
    """Each player and its mean score against each other, as text, in the order of the standings."""
    place, table = {name: k for k, name in enumerate(results.names)}, results.crosstable()
    cells = [[table[place[a], place[b]] for b in order] for a in order]
    text = [["" if np.isnan(x) else f"{100 * x:.0f}%" for x in line] for line in cells]
    return [[name, *line] for name, line in zip(order, text, strict=True)]


def _by_seat(played: Played, results: Results) -> list[tuple[str, int, int, int]]:
    """Won, drawn and lost by who sat first; only for games of two."""
    if not played.games or played.returns.shape[1] != 2:
        return []
    first, second = results.counts.sum(1), results.counts.sum(0)[:, ::-1]
    lines = [("first", first.sum(0)), ("second", second.sum(0))]
    return [(name, *(int(x) for x in counts)) for name, counts in lines]  # type: ignore[misc]


def _endings(played: Played) -> list[tuple[str, int]]:
    counts = np.bincount(played.ending.numpy(), minlength=len(ENDINGS))
    return [(name, int(n)) for name, n in zip(ENDINGS, counts, strict=True) if n]


def _accounts(played: Played, order: list[str]) -> list[list[str]]:
    """Of each player: games, forfeits by their reason, how long it thought about a game."""
    games, seconds = dict.fromkeys(order, 0), dict.fromkeys(order, 0.0)
    forfeits: dict[str, dict[str, int]] = {name: {} for name in order}
    ends = zip(played.games, played.ending.tolist(), played.culprit.tolist(), played.seconds.tolist(), strict=True)
    for game, ending, culprit, used in ends:
        for name in set(game.players):
            games[name] += 1
        for name, one in zip(game.players, used, strict=True):
            seconds[name] += one
        if culprit >= 0:
            mine = forfeits[game.players[culprit]]
            mine[ENDINGS[ending]] = mine.get(ENDINGS[ending], 0) + 1
    return [
        [
            name,
            f"{games[name]}",
            ", ".join(f"{why}: {count}" for why, count in sorted(forfeits[name].items())) or "none",
            _time(seconds[name] / max(games[name], 1)),
        ]
        for name in order
    ]


def _time(seconds: float) -> str:
    """A time with a unit in which it is no long number."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def _teams(played: Played, most: int = 200) -> list[list[str]]:
    """The mean return of each seat, for each way in which players were seated; the first of them."""
    by_team: dict[tuple[str, ...], list[list[float]]] = {}
    for game, returns in zip(played.games, played.returns.tolist(), strict=True):
        by_team.setdefault(game.players, []).append(returns)
    return [
        [" - ".join(team), f"{len(returns)}", ", ".join(f"{x:.3g}" for x in np.mean(returns, 0))]
        for team, returns in list(by_team.items())[:most]
    ]


def _gap(played: Played, level: float) -> str:
    """What playing with oneself is worth, where everybody played with everybody."""
    try:
        found = cross_play(team_returns(played)[1], level=level)
    except (PoolError, ShapeError):
        return ""
    low, high = found.interval
    sure = f"{low:.3g} to {high:.3g}" if np.isfinite(low) else "of these two; what others would do they do not say"
    return (
        f"With themselves policies return {found.self_play:.3g} on average, with others {found.cross_play:.3g}: "
        f"a gap of {found.gap:.3g} ({sure})."
    )


def _schedule(ledger: Ledger, played: Played, most: int = 500) -> dict[str, Any]:
    """The games as they were scheduled, the first of them, with what came out."""
    done = {game.id: k for k, game in enumerate(played.games)}
    games, lines = ledger.games(), []
    for game in games[:most]:
        k = done.get(game.id)
        out = "to play" if k is None else ", ".join(f"{x:.3g}" for x in played.returns[k].tolist())
        opening = "" if game.opening is None else f"{game.opening}"
        lines.append([f"{game.id}", f"{game.round}", " - ".join(game.players), opening, out])
    return {"lines": lines, "more": len(games) - len(lines)}


def _plot(rows: list[dict[str, str]], level: float) -> dict[str, list[dict[str, Any]]]:
    """Where the marks and the scale of the rating plot stand, in percent of its width; empty without ratings."""
    if not rows or "Elo" not in rows[0]:
        return {}
    values = [[float(x) for x in (row["Elo"], *row[f"{100 * level:g} %"].split())] for row in rows]
    finite = [x for line in values for x in line if np.isfinite(x)] or [0.0]
    low, high = min(finite), max(finite)
    width = max(high - low, 1.0)

    def at(x: float) -> float:
        return float(np.clip(3 + 94 * (x - low) / width, 0, 100))

    lines = [
        {"name": row["player"], "at": at(elo) if np.isfinite(elo) else None, "low": at(a), "high": at(b)}
        for row, (elo, a, b) in zip(rows, values, strict=True)
    ]
    size = 10.0 ** np.floor(np.log10(width / 2))
    step = size * max(k for k in (1, 2, 5) if k * size <= width / 2)
    marks = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
    return {"lines": lines, "marks": [{"at": at(x), "name": f"{x + 0.0:+.0f}" if x else "0"} for x in marks]}


def _replays(ledger: Ledger, played: Played, count: int) -> dict[str, Any]:
    """Games to step through: pictures, each kept once, and for each game which follow each other."""
    board = board_of(ledger)
    out: dict[str, Any] = {"pictures": [], "games": []}
    if board is None or not played.moves:
        return out
    place: dict[str, int] = {}
    for k in _in_turn(played, count):
        game = played.games[k]
        states, moves = positions(board, game, played.moves[k])
        names = [""]
        for state, move in zip(states, moves, strict=False):
            names.append(_move_name(board.rules, state, move))
        frames = []
        for state in states:
            picture = _picture(board.rules, state)
            frames.append(place.setdefault(picture, len(place)))
        ending, culprit = int(played.ending[k]), int(played.culprit[k])
        out["games"].append(
            {
                "id": game.id,
                "players": list(game.players),
                "returns": [round(x, 3) for x in played.returns[k].tolist()],
                "ending": ENDINGS[ending] + (f" ({game.players[culprit]})" if culprit >= 0 else ""),
                "frames": frames,
                "moves": names,
            }
        )
    out["pictures"] = list(place)
    return out


def _why_none(shown: dict[str, Any], played: Played, count: int) -> str:
    """What stands in place of replays; of a page that has some, where its script does not run."""
    if shown["games"]:
        return "Replays need JavaScript."
    if not played.games:
        return "No game is finished yet."
    return "No replays were asked for." if count < 1 else "This env keeps no positions to replay."


def _in_turn(played: Played, count: int) -> list[int]:
    """Some games: the first of each pairing, then the second of each, and so on."""
    by_pairing: dict[tuple[str, ...], list[int]] = {}
    for k, game in enumerate(played.games):
        by_pairing.setdefault(game.players, []).append(k)
    longest = max(map(len, by_pairing.values()), default=0)
    turns = (own[n] for n, own in product(range(longest), by_pairing.values()) if n < len(own))
    return [k for k, _ in zip(turns, range(count), strict=False)]


def _move_name(rules: Any, state: Any, move: Any) -> str:
    moves = move if isinstance(move, list) else [move]
    return " ".join(rules.action_name(state, m) for m in moves)


def _picture(rules: Any, state: Any) -> str:
    """A position as SVG, or drawn with characters."""
    try:
        return str(rules.svg(state))
    except Unsupported:
        return "text:" + rules.show(state)
