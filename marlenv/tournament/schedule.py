"""Who plays whom: pure functions from players, and what they have played, to games.

Nothing here plays. A schedule is a sequence of :class:`Game`; what has rounds that depend on results (Swiss, knockout)
is asked again after each round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple, TypeVar

import networkx as nx
import numpy as np

from marlenv.errors import PoolError, UnknownName, nearest, whole
from marlenv.tournament.games import Game, Games
from marlenv.tournament.results import checked

Name = TypeVar("Name", str, str | None)
Chance = Literal["games", "pairs", "cycles"]
"""What has the same dice and cards: nothing, the games of a pair that sits both ways, all games of a cycle."""


def roster(names: Iterable[str], who: str, least: int = 2) -> list[str]:
    """The players, each once, and enough of them.

    Raises:
        PoolError: there are too few, two of one name, or a text in place of a list.
    """
    players = listed(names, who)
    if twice := sorted({name for name in players if players.count(name) > 1}):
        raise PoolError(f"{who}: two players of one name: {twice}; give each player a name of its own")
    if len(players) < least:
        raise PoolError(f"{who}: expected {least} players or more, got {players}")
    return players


def listed(names: Iterable[Name], who: str) -> list[Name]:
    """The players; a text is refused, which would be a player for each of its letters."""
    if isinstance(names, str):
        raise PoolError(f"{who}: expected a list of players, got the text {names!r}; write [{names!r}]")
    return list(names)


def _numbered(games: Iterable[tuple[int, tuple[str, ...]]]) -> list[Game]:
    """Games of ``(round, players)``, numbered in order."""
    return [Game(n, players, number) for n, (number, players) in enumerate(games)]


def round_robin(names: Sequence[str], *, double: bool = False, cycles: int = 1) -> Games:
    """Everybody against everybody; in each round each player plays once, or rests where the number is odd.

    Seats are as even as they can be: over a cycle nobody sits first more than once more than second.

    Args:
        names: the players.
        double: whether each pair plays from both seats.
        cycles: how often all of it is repeated; each cycle swaps the seats of the one before.

    >>> [game.players for game in round_robin(["ada", "bob", "cyd"])]
    [('bob', 'ada'), ('cyd', 'bob'), ('ada', 'cyd')]
    """
    players: list[str | None] = [*roster(names, "round_robin")]
    whole("round_robin", "cycles", cycles, 1)
    if len(players) % 2:
        players.append(None)  # who meets nobody rests
    n = len(players)
    rounds = []
    for turn in range(n - 1):  # one stays, the others move round it (circle method)
        circle = [players[-1], *(players[(turn + k) % (n - 1)] for k in range(n - 1))]
        pairs = [(circle[k], circle[n - 1 - k]) for k in range(1, n // 2)]
        pairs = [(a, b) if k % 2 else (b, a) for k, (a, b) in enumerate(pairs)]
        fixed = (circle[0], circle[n - 1])
        rounds.append([fixed if turn % 2 else fixed[::-1], *pairs])
    leg = [(turn, a, b) for turn, pairs in enumerate(rounds) for a, b in pairs if a is not None and b is not None]
    legs, size = (2 if double else 1) * cycles, len(leg)
    number = np.arange(legs * size)
    return Games(
        [seats for _, a, b in leg for seats in ((a, b), (b, a))],
        2 * (number % size) + number // size % 2,
        rounds=number // size * (n - 1) + np.array([turn for turn, _, _ in leg])[number % size],
    )


def gauntlet(challengers: Sequence[str], field: Sequence[str], *, double: bool = True) -> list[Game]:
    """Each challenger against each player of a field, who do not play each other.

    >>> [game.players for game in gauntlet(["new"], ["a", "b"])]
    [('new', 'a'), ('a', 'new'), ('new', 'b'), ('b', 'new')]
    """
    roster([*listed(challengers, "gauntlet"), *listed(field, "gauntlet")], "gauntlet")
    if not challengers or not field:
        raise PoolError(f"gauntlet: expected challengers and a field, got {list(challengers)} and {list(field)}")
    pairs = [pair for a, b in product(challengers, field) for pair in ([(a, b), (b, a)] if double else [(a, b)])]
    return _numbered(enumerate(pairs))


def focal_background(
    focal: Sequence[str],
    background: Sequence[str] | Mapping[str, Sequence[str]],
    seats: int | Sequence[str],
    focal_seats: Iterable[Sequence[int]],
) -> list[Game]:
    """Focal policies among background ones: every choice of both, for each way to seat the focal ones.

    Args:
        focal: the policies that are judged.
        background: the population that they meet, of which one takes all other seats; or a population for each role,
            of which one takes all other seats of that role.
        seats: how many seats the game has; or the role of each.
        focal_seats: the seats that focal policies take, for each of the roles to try: ``[[0], [1, 2]]``.

    >>> [game.players for game in focal_background(["me"], ["x", "y"], 3, [[0], [1, 2]])]
    [('me', 'x', 'x'), ('me', 'y', 'y'), ('x', 'me', 'me'), ('y', 'me', 'me')]
    >>> roles = ["wolf", "wolf", "sheep"]
    >>> [game.players for game in focal_background(["me"], {"wolf": ["w"], "sheep": ["a", "b"]}, roles, [[0]])]
    [('me', 'w', 'a'), ('me', 'w', 'b')]
    """
    roles = [""] * whole("focal_background", "seats", seats, 1) if isinstance(seats, int) else list(seats)
    by_role = background
    if not isinstance(by_role, Mapping):
        by_role, roles = {"": by_role}, [""] * len(roles)
    background_names = dict.fromkeys(p for names in by_role.values() for p in listed(names, "focal_background"))
    roster([*listed(focal, "focal_background"), *background_names], "focal_background")
    if lost := sorted(set(roles) - set(by_role)):
        raise PoolError(f"focal_background: no population for the roles {lost}; there are {sorted(by_role)}")
    games = []
    for taken in focal_seats:
        if not taken or not set(taken) <= set(range(len(roles))):
            raise PoolError(f"focal_background: focal seats must be some of 0..{len(roles) - 1}, got {list(taken)}")
        others = list(dict.fromkeys(role for s, role in enumerate(roles) if s not in taken))
        if not focal or not all(by_role[role] for role in others):
            raise PoolError(
                f"focal_background: expected focal and background policies, got {list(focal)} and {by_role}"
            )
        for me, them in product(focal, product(*(by_role[role] for role in others))):
            by = dict(zip(others, them, strict=True))
            games.append(tuple(me if s in taken else by[role] for s, role in enumerate(roles)))
    return _numbered(enumerate(games))


def cross_play_teams(
    policies: Sequence[str] | Mapping[str, Sequence[str]], group_map: Mapping[str, Sequence[str]]
) -> list[Game]:
    """Every way to give each group of a group map a policy; ``players`` are by agent, in the order of the map.

    Args:
        policies: for all groups, or those of each group.
        group_map: the agents of each group.

    >>> teams = cross_play_teams(["a", "b"], {"wolves": ["w0", "w1"], "sheep": ["s"]})
    >>> [game.players for game in teams]
    [('a', 'a', 'a'), ('a', 'a', 'b'), ('b', 'b', 'a'), ('b', 'b', 'b')]
    """
    sizes = [len(agents) for agents in group_map.values()]
    if not sizes or not all(sizes):
        raise PoolError(f"cross_play_teams: expected groups with agents, got {dict(group_map)}")
    if isinstance(policies, Mapping) and (lost := [group for group in group_map if group not in policies]):
        raise PoolError(f"cross_play_teams: no policies for the groups {lost}; there are some for {sorted(policies)}")
    each = [policies[group] if isinstance(policies, Mapping) else policies for group in group_map]
    for names in each:
        roster(names, "cross_play_teams", least=1)
    return _numbered(
        enumerate(tuple(p for p, size in zip(team, sizes, strict=True) for _ in range(size)) for team in product(*each))
    )


def with_openings(games: Iterable[Game], openings: int, *, paired: bool = True) -> Games:
    """Each game from each opening; ``paired``, once more with the seats turned round and the same dice and cards.

    >>> [(g.players, g.opening, g.chance) for g in with_openings([Game(0, ("a", "b"))], openings=1)]
    [(('a', 'b'), 0, 0), (('b', 'a'), 0, 0)]
    """
    whole("with_openings", "openings", openings, 1)
    return repeated(games, openings=openings, both=paired)


def repeated(
    games: Iterable[Game], *, cycles: int = 1, openings: int = 0, both: bool = False, chance: Chance = "pairs"
) -> Games:
    """All games of some cycles, each from each opening, and from both seats.

    Args:
        games: those of all cycles, one after another.
        cycles: how many they are, of as many games each.
        openings: how many there are; 0 for the start of the game.
        both: whether each is played once more with the seats turned round.
        chance: what has the same dice and cards; with ``"cycles"``, all games of a cycle from one opening.

    >>> games = repeated([Game(0, ("a", "b")), Game(0, ("b", "c"))], both=True, chance="pairs")
    >>> [(game.id, game.players, game.chance) for game in games]
    [(0, ('a', 'b'), 0), (1, ('b', 'a'), 0), (2, ('b', 'c'), 1), (3, ('c', 'b'), 1)]
    """
    once = Games.of(games)
    starts, ways = max(openings, 1), 2 if both else 1
    number = np.arange(len(once) * starts * ways)
    pair = number // ways
    game, start = np.divmod(pair, starts)
    cycle = game // max(len(once) // cycles, 1)
    known: dict[tuple[str, ...], int] = {}
    seated = [seats for one in once.lineups for seats in ((one, one[::-1]) if both else (one,))]
    place = np.array([known.setdefault(seats, len(known)) for seats in seated], np.int64)
    return Games(
        known,
        place[ways * once.lineup[game] + number % ways],
        rounds=once.rounds[game],
        openings=start if openings else None,
        chances={"games": None, "pairs": pair, "cycles": cycle * starts + start}[chance],
    )


# --- rounds that depend on results ---------------------------------------------------------------


class SwissRound(NamedTuple):
    """The pairs of a round, who sits first named first, and who rests with a point; None where the number is even."""

    pairs: list[tuple[str, str]]
    bye: str | None


class _Record(NamedTuple):
    """What a player has played: twice its points, opponents, seats in order (1 first, -1 second), rest."""

    double: int
    met: frozenset[str]
    seats: tuple[int, ...]
    rested: bool

    @property
    def must(self) -> int:
        """The seat that the player has to get: 1, -1, or 0 for either."""
        balance = sum(self.seats)
        if abs(balance) >= 2:
            return -1 if balance > 0 else 1
        return -self.seats[-1] if len(self.seats) >= 2 and self.seats[-1] == self.seats[-2] else 0

    @property
    def wants(self) -> int:
        """The seat that the player should get: 1, -1, or 0 for either."""
        balance = sum(self.seats)
        return self.must or ((balance < 0) - (balance > 0)) or (-self.seats[-1] if self.seats else 0)


def swiss_round(
    names: Sequence[str], games: Iterable[tuple[str, str, float]] = (), byes: Iterable[str] = ()
) -> SwissRound:
    """The next round of a Swiss tournament: players of like scores meet, nobody twice.

    Nobody rests more than once, sits in one seat more than twice more often than in the other, or three times in a row.
    Among the rounds that keep this, the sum of squared differences of scores is smallest, then the number of seats that
    are not those that players should get. Who rests counts as paired with a player of the lowest score.

    Args:
        names: the players, the strongest first where that is known.
        games: what was played: first seat, second seat, score of the first: 1, 0.5 or 0.
        byes: who has rested.

    Raises:
        UnknownName: a game or a rest of somebody who is not in ``names``.
        PoolError: no such round exists any more, or a game is none of two players with a score.

    >>> swiss_round(["a", "b", "c"], [("a", "b", 1)], byes=["c"])
    SwissRound(pairs=[('c', 'a')], bye='b')
    """
    players = roster(names, "swiss_round")
    records = _records(players, games, byes)
    graph = nx.Graph()
    nodes = list(range(len(players) + len(players) % 2))  # one more to rest with
    graph.add_nodes_from(nodes)
    costs = {(i, j): cost for i in nodes for j in nodes[i + 1 :] if (cost := _cost(players, records, i, j)) is not None}
    top = max(costs.values(), default=0) + 1
    graph.add_weighted_edges_from((i, j, top - cost) for (i, j), cost in costs.items())
    match = nx.max_weight_matching(graph, maxcardinality=True)
    if 2 * len(match) < len(nodes):
        raise PoolError(
            f"swiss_round: after {len(records[players[0]].met)} rounds no round of {len(players)} players is left in "
            f"which nobody meets twice, rests twice or sits in one seat too often; play fewer rounds, or a round robin"
        )
    pairs, bye = [], None
    for i, j in sorted(tuple(sorted(pair)) for pair in match):
        if j == len(players):
            bye = players[i]
        else:
            pairs.append(_seated(players[i], players[j], records))
    return SwissRound(pairs, bye)


def _records(players: list[str], games: Iterable[tuple[str, str, float]], byes: Iterable[str]) -> dict[str, _Record]:
    """What each player has played."""
    rested = set(listed(byes, "swiss_round: byes"))
    records = {p: _Record(2 * (p in rested), frozenset(), (), p in rested) for p in players}
    for name in rested - records.keys():
        raise UnknownName(f"swiss_round: no player is called {name!r}; {nearest(name, players)}")
    for first, second, score in checked(games, players, "swiss_round"):
        for me, other, seat, won in ((first, second, 1, score), (second, first, -1, 1 - score)):
            mine = records[me]
            records[me] = mine._replace(
                double=mine.double + round(2 * won), met=mine.met | {other}, seats=(*mine.seats, seat)
            )
    return records


def _cost(players: list[str], records: Mapping[str, _Record], i: int, j: int) -> int | None:
    """What it costs that two players meet, or that ``i`` rests; None where it may not be."""
    mine = records[players[i]]
    if j == len(players):
        lowest = min(record.double for record in records.values())
        return None if mine.rested else 4 * len(players) * (mine.double - lowest) ** 2
    other = records[players[j]]
    if players[j] in mine.met or (mine.must and mine.must == other.must):
        return None
    seats = 1 if mine.wants and mine.wants == other.wants else 0
    return 4 * len(players) * (mine.double - other.double) ** 2 + seats


def _seated(a: str, b: str, records: Mapping[str, _Record]) -> tuple[str, str]:
    """Two players, first seat first: who has to, who needs it more, who should; else the one who is listed first."""
    mine, other = records[a], records[b]
    for x, y in (
        (mine.must, other.must),
        (-sum(mine.seats), -sum(other.seats)),
        (mine.wants, other.wants),
    ):
        if x != y:
            return (a, b) if x > y else (b, a)
    return (a, b)


def bracket(names: Sequence[str]) -> list[str | None]:
    """The places of a knockout: neighbours meet, and the best two, listed first, meet in the last round if they win.

    Where the number is no power of two the best rest in the first round: None stands beside them.

    >>> bracket(["first", "second", "third"])
    ['first', None, 'second', 'third']
    """
    players = roster(names, "bracket")
    order = [0]
    while len(order) < len(players):
        order = [seed for low in order for seed in (low, 2 * len(order) - 1 - low)]
    return [players[seed] if seed < len(players) else None for seed in order]


def advance(places: Sequence[str | None], winners: Iterable[str]) -> list[str | None]:
    """The places of the next round of a knockout.

    Args:
        places: of this round, as :func:`bracket` or the round before gave them.
        winners: who won; who rests need not be named.

    Raises:
        PoolError: not exactly one of two neighbours won, or these are no places of a round.

    >>> advance(["first", None, "second", "third"], ["third"])
    ['first', 'third']
    """
    won, n = set(listed(winners, "advance: winners")), len(listed(places, "advance"))
    pairs = list(zip(places[::2], places[1::2], strict=False))
    if n < 2 or n & (n - 1) or (None, None) in pairs:
        raise PoolError(
            f"advance: expected 2, 4, 8, ... places, and a player in each pair of neighbours, got {list(places)}; "
            f"take those of bracket"
        )
    roster([p for p in places if p is not None], "advance", least=1)
    out: list[str | None] = []
    for pair in pairs:
        there = [p for p in pair if p is not None]
        left = there if len(there) == 1 else [p for p in there if p in won]
        if len(left) != 1:
            raise PoolError(f"advance: of {there[0]!r} and {there[-1]!r} exactly one goes on, got {left}; play it off")
        out += left
    if strangers := sorted(won - set(places)):
        raise PoolError(f"advance: {strangers} are not in this round, where {[p for p in places if p]} play")
    return out
