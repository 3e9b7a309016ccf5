"""What a tournament is: an env, players, a schedule; read from a TOML file, checked before anything is written."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Size

from marlenv.envs.registry import load
from marlenv.errors import SpecError, UnknownName, nearest, whole
from marlenv.games import TurnBasedEnv
from marlenv.games.rules import Rules
from marlenv.registration import find, make
from marlenv.rng import RowRNG
from marlenv.tournament.engines import UCIPlayer
from marlenv.tournament.mcts import MCTSPlayer
from marlenv.tournament.play import Arena, Played
from marlenv.tournament.players import Player, random_player
from marlenv.tournament.rounds import knockout_match, swiss_pairs
from marlenv.tournament.schedule import Game, gauntlet, round_robin, with_openings

SCHEDULES = ("round_robin", "gauntlet", "swiss", "knockout")


@dataclass(frozen=True)
class Config:
    """A tournament.

    Args:
        env: a name that :func:`marlenv.make` knows.
        players: by name: ``"random"``, ``"mcts"`` or ``"module:callable"``, or a table with that as ``kind`` and
            options beside it. A function with an argument ``turn`` is a player; any other function, or a class, is
            called with the options and makes one.
        options: of the env.
        schedule: ``"round_robin"``, ``"gauntlet"`` (of ``challengers``), ``"swiss"`` or ``"knockout"``.
        double: whether each pair plays from both seats.
        cycles: how often the schedule is repeated; in a knockout, how many games (or pairs, if double) a match has.
        rounds: of a Swiss tournament.
        challengers: of a gauntlet; the other players are its field.
        openings: moves to begin with, as people of the game write them; each game is played from each, from both seats.
        rows: how many games are played at once.
        block: how many games are leased from the ledger, and written, at a time; four for each row when left out.
        max_plies: cut games off after so many moves.
        seed: of all games.
        forfeits: whether a player that fails loses the game; else the tournament stops with its error.
        move_seconds: how long a player may take for a move.
        seats: of an env: ``"groups"``, ``"agents"``, or the agents of each.
    """

    env: str
    players: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    schedule: str = "round_robin"
    double: bool = True
    cycles: int = 1
    rounds: int = 5
    challengers: tuple[str, ...] = ()
    openings: tuple[tuple[str, ...], ...] = ()
    rows: int = 1024
    block: int | None = None
    max_plies: int | None = None
    seed: int = 0
    forfeits: bool = True
    move_seconds: float | None = None
    seats: Any = None

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise SpecError(f"tournament: schedule {self.schedule!r}: {nearest(self.schedule, SCHEDULES)}")
        for name in ("cycles", "rounds", "rows"):
            whole("tournament", name, getattr(self, name), 1)
        if len(self.players) < 2:
            raise SpecError(f"tournament: expected two players or more, got {list(self.players)}")
        for name in self.challengers:
            if name not in self.players:
                raise UnknownName(
                    f"tournament: challengers: no player is called {name!r}; {nearest(name, self.players)}"
                )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Config:
        """The tournament that a table of fields describes.

        Raises:
            SpecError: a field is missing, or there is none of that name; names the nearest.
        """
        known = {f.name for f in fields(cls)}
        for name in given:
            if name not in known:
                raise SpecError(f"tournament: there is no field {name!r}; {nearest(name, known)}")
        for name in ("env", "players"):
            if name not in given:
                raise SpecError(f"tournament: the field {name!r} is missing; say which {name} play")
        if not isinstance(given["players"], Mapping):
            raise SpecError(f"tournament: players must be a table of names, got {given['players']!r}")
        values = dict(given)
        values["challengers"] = tuple(values.get("challengers", ()))
        values["openings"] = tuple(tuple(str(m) for m in moves) for moves in values.get("openings", ()))
        return cls(**values)

    @classmethod
    def read(cls, path: Path | str) -> Config:
        """The tournament that a TOML file describes."""
        try:
            given = tomllib.loads(Path(path).read_text())
        except tomllib.TOMLDecodeError as error:
            more = "; two players of one name?" if "overwrite" in str(error) else ""
            raise SpecError(f"{path}: this is no TOML: {error}{more}") from None
        try:
            return cls.of(given)
        except Exception as error:
            error.add_note(f"in {path}")
            raise

    def table(self) -> dict[str, Any]:
        """The fields, as they go into the ledger."""
        return {
            **asdict(self),
            "challengers": list(self.challengers),
            "openings": [list(moves) for moves in self.openings],
        }

    def arena(self) -> Arena:
        """What the games are played in; loads the env and the players.

        Raises:
            SpecError: a player that does not load; names it.
        """
        build = partial(make, self.env, **self.options)
        first = build()
        rules = first.rules if isinstance(first, TurnBasedEnv) else None
        game: Any = rules or build
        if find(self.env).kind == "scenario":
            game = build(num_envs=self.rows)
        if self.openings and rules is None:
            raise SpecError(f"tournament: openings are of games with rules, and {self.env!r} has none")
        openings = [read_moves(rules, moves) for moves in self.openings] if rules is not None else []
        return Arena(
            game,
            {name: load_player(name, given) for name, given in self.players.items()},
            rows=self.rows,
            openings=openings,
            max_plies=self.max_plies or getattr(first, "max_plies", None),
            seed=self.seed,
            seats=self.seats,
            forfeits=self.forfeits,
            move_seconds=self.move_seconds,
            record=rules is not None,
        )

    def games(self, played: Played) -> list[Game]:
        """The games to play next, once all that were scheduled are over; none at the end.

        Args:
            played: the games so far, all of them.
        """
        names, before = list(self.players), len(played.games)
        if self.schedule in ("round_robin", "gauntlet"):
            if before:
                return []
            field_ = [name for name in names if name not in self.challengers]
            games = (
                round_robin(names, double=self.double, cycles=self.cycles)
                if self.schedule == "round_robin"
                else [g for _ in range(self.cycles) for g in gauntlet(self.challengers, field_, double=self.double)]
            )
            number = 0
        else:
            number = played.games[-1].round + 1 if before else 0
            if self.schedule == "swiss":
                pairs = swiss_pairs(names, played) if number < self.rounds else []
            else:
                pairs = knockout_match(names, played)
            legs = [(a, b) for a, b in pairs for _ in range(self.cycles)]
            both = self.double and self.schedule == "knockout"
            legs = [seats for a, b in legs for seats in ([(a, b), (b, a)] if both else [(a, b)])]
            games = [Game(0, seats) for seats in legs]
        if self.openings:
            games = with_openings(games, len(self.openings), paired=self.schedule != "swiss")
        renumbered = enumerate(games, before)
        return [replace(g, id=k, round=number or g.round, chance=_later(g.chance, before)) for k, g in renumbered]


def _later(chance: int | None, before: int) -> int | None:
    return None if chance is None else chance + before


def read_moves(rules: Rules[Any], moves: tuple[str, ...]) -> list[int]:
    """Moves as people of the game write them, as actions."""
    state, actions = rules.start(Size([]), rng=RowRNG(0, [])), []
    for text in moves:
        actions.append(rules.read_action(state, text))
        state = rules.play(state, torch.tensor(actions[-1]))
    return actions


def load_player(name: str, given: Any) -> Player:
    """The player that a config describes.

    Raises:
        SpecError: it cannot be made; says whose it is.
    """
    table = {"kind": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    kind = table.pop("kind", None)
    if not isinstance(kind, str):
        raise SpecError(
            f"player {name!r}: expected 'random', 'mcts', 'uci', 'module:callable' or a table with kind, got {given!r}"
        )
    if kind not in KINDS and ":" not in kind:
        raise SpecError(f"player {name!r}: kind {kind!r}: {nearest(kind, KINDS)}, or module:callable")
    try:
        if kind == "random":
            return random_player
        made: Any = KINDS[kind] if kind in KINDS else load(kind)
        ready = not inspect.isclass(made) and (
            not inspect.isfunction(made) or "turn" in inspect.signature(made).parameters
        )
        made = made if ready else made(**table)
    except Exception as error:
        raise SpecError(f"player {name!r}: {kind} does not load: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise SpecError(f"player {name!r}: {kind} made {type(made).__name__}, which cannot be called")
    player: Player = made
    return player


KINDS: dict[str, Callable[..., Any]] = {"random": random_player, "mcts": MCTSPlayer, "uci": UCIPlayer}
