"""The games of a tournament: those that its config schedules, and in tournaments of rounds those of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.tournament.config import Config
from marlenv.tournament.games import NONE, Game, Games
from marlenv.tournament.play import Arena, Played
from marlenv.tournament.ratings import elo_points
from marlenv.tournament.rounds import knockout_final, knockout_match, match_counts, swiss_pairs
from marlenv.tournament.schedule import cross_play_teams, focal_background, gauntlet, repeated, round_robin

OF_ROUNDS = ("swiss", "knockout", "match")  # which depend on those before
OF_TWO = ("round_robin", "gauntlet", *OF_ROUNDS)


def following(config: Config, arena: Arena, played: Played) -> Games:
    """The games to play next, once all that were scheduled are over; none at the end.

    Args:
        config: of the tournament.
        arena: in which it is played.
        played: the games so far, all of them.

    Raises:
        SpecError: the schedule does not fit the seats of the game.

    >>> from marlenv.tournament.play import blank
    >>> config = Config.of({"env": "tic_tac_toe", "players": {"ada": "random", "bob": "random"}})
    >>> [game.players for game in following(config, config.arena(), blank([], 2))]
    [('ada', 'bob'), ('bob', 'ada')]
    """
    before, seats = len(played.games), list(arena.seats)
    if config.schedule in OF_TWO and len(seats) != 2:
        raise SpecError(
            f"tournament: {config.schedule} is for games of two, and {config.env!r} has the seats {seats}; "
            f"say schedule = 'teams' or 'focal'"
        )
    number = played.games[-1].round + 1 if before else 0
    games = repeated(
        _cycles(config, arena.groups, played, number),
        cycles=config.cycles,
        openings=len(config.openings),
        both=config.double and config.schedule in ("round_robin", "gauntlet", "knockout", "match"),
        chance=config.chance,
    )
    if before:
        chances = np.where(games.chances == NONE, NONE, games.chances + before)
        games = Games(games.lineups, games.lineup, games.ids + before, games.rounds, games.openings, chances)
    arena.check(games)
    return games


def _cycles(config: Config, groups: dict[str, str], played: Played, number: int) -> Games:
    """The games of all cycles, each once; of the round of that number."""
    if config.schedule == "round_robin" and not number:
        return round_robin(list(config.players), cycles=config.cycles)
    games = Games.of(_cycle(config, groups, played, number))
    return games.take(np.tile(np.arange(len(games)), config.cycles))


def _cycle(config: Config, groups: dict[str, str], played: Played, number: int) -> list[Game]:
    """The games of a cycle, where all cycles have the same."""
    names = list(config.players)
    if config.schedule in OF_ROUNDS:
        if config.schedule == "knockout":
            pairs = knockout_match(names, played)
        elif config.schedule == "match":
            going = config.sprt is None or config.test().decide(sprt_counts(config, played)) == "go on"
            pairs = [(names[0], names[1])] if number < config.rounds and going else []
        else:
            pairs = swiss_pairs(names, played) if number < config.rounds else []
        return [Game(0, pair, round=number) for pair in pairs]
    if number:
        return []
    others = [name for name in names if name not in (config.challengers or config.focal)]
    if config.schedule == "gauntlet":
        return gauntlet(config.challengers, others, double=False)
    by_group = _populations(config, groups)
    if config.schedule == "teams":
        return _teams(by_group, groups)
    return _focal(config, by_group, groups)


def sprt_counts(config: Config, played: Played) -> list[int]:
    """The counts of a match, as its sequential test takes them."""
    return match_counts(list(config.players), played, pairs=config.double)


def verdict(config: Config, played: Played, level: float = 0.95) -> str:
    """What the sequential test of a match says, and how strong that makes the first player; who won a knockout; else
    "".

    >>> from marlenv.tournament.play import blank
    >>> verdict(Config.of({"env": "chess", "players": {"a": "random", "b": "random"}}), blank([], 2))
    ''
    """
    if config.schedule == "knockout":
        return _champion(config, played)
    if config.sprt is None or not played.games:
        return ""
    test, counts, names = config.test(), sprt_counts(config, played), list(config.players)
    if not any(counts):  # no pair of games is finished yet
        return ""
    every = config.cycles * max(len(config.openings), 1)
    found = test.estimate(counts, level, every=every)
    says = test.decide(counts).replace("go on", "neither stronger nor not, so far,")
    return (
        f"{names[0]!r} is {says} by the test of {test.elo0:g} "
        f"against {test.elo1:g} points: {elo_points(found.elo)} ({elo_points(found.low)} to {elo_points(found.high)}) "
        f"over {names[1]!r}, in points of the score with draws as halves"
    )


def _champion(config: Config, played: Played) -> str:
    """Who won a knockout; "" while it goes on."""
    final = knockout_final(list(config.players), played, _games_of_a_match(config))
    if final is None:
        return ""
    how = f"{final.won:g} to {final.lost:g} against {final.loser!r} in the last round"
    if final.won == final.lost:
        how = f"level with {final.loser!r} in the last round, and listed higher"
    return f"{final.winner!r} won the knockout ({how})"


def _games_of_a_match(config: Config) -> int:
    return config.cycles * max(len(config.openings), 1) * (2 if config.double else 1)


def _populations(config: Config, groups: dict[str, str]) -> dict[str, list[str]]:
    """Who can play each group."""
    known = list(dict.fromkeys(groups.values()))
    for name in config.populations:
        if name not in known:
            raise UnknownName(f"tournament: populations: there is no group {name!r}; {nearest(name, known)}")
    return {group: list(config.populations.get(group, config.players)) for group in known}


def _teams(by_group: dict[str, list[str]], groups: dict[str, str]) -> list[Game]:
    seats = {group: [seat for seat in groups if groups[seat] == group] for group in by_group}
    order = [seat for of_group in seats.values() for seat in of_group]
    place = [order.index(seat) for seat in groups]
    return [replace(g, players=tuple(g.players[k] for k in place)) for g in cross_play_teams(by_group, seats)]


def _focal(config: Config, by_group: dict[str, list[str]], groups: dict[str, str]) -> list[Game]:
    if not config.focal:
        raise SpecError("tournament: the schedule 'focal' needs the field focal: the players that are judged")
    roles, seats, games = config.roles or tuple((group,) for group in by_group), list(groups), list[Game]()
    background = {group: [p for p in names if p not in config.focal] for group, names in by_group.items()}
    for role in roles:
        taken = _seats_of(role, groups)
        mine = [name for name in config.focal if all(name in by_group[groups[seats[s]]] for s in taken)]
        if not mine:
            raise SpecError(f"tournament: roles: no focal player is in the populations of {list(role)}")
        if empty := sorted({groups[s] for k, s in enumerate(seats) if k not in taken and not background[groups[s]]}):
            raise SpecError(f"tournament: nobody is left to play {empty} beside focal players in {list(role)}")
        games += focal_background(mine, background, [groups[seat] for seat in seats], [taken])
    return games


def _seats_of(role: Sequence[str], groups: dict[str, str]) -> list[int]:
    """The seats that are meant by names of groups or seats."""
    known = list(dict.fromkeys([*groups, *groups.values()]))
    for name in role:
        if name not in known:
            raise UnknownName(f"tournament: roles: there is no group or seat {name!r}; {nearest(name, known)}")
    return [k for k, (seat, group) in enumerate(groups.items()) if seat in role or group in role]
