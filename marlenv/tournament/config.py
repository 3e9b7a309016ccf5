"""What a tournament is: an env, players, a schedule; read from a TOML file, checked before anything is written."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from marlenv.envs.registry import load
from marlenv.errors import SpecError, UnknownName, nearest, whole
from marlenv.games import TurnBasedEnv
from marlenv.games.rules import Rules
from marlenv.registration import find, make
from marlenv.tournament.adjudicate import Adjudication, check_material, material
from marlenv.tournament.engines import UCIPlayer
from marlenv.tournament.gtp import GTPPlayer
from marlenv.tournament.mcts import MCTSPlayer
from marlenv.tournament.openings import FEN, Opening, read_opening, read_suite
from marlenv.tournament.play import Arena, make_board
from marlenv.tournament.players import Player, random_player
from marlenv.tournament.schedule import Chance
from marlenv.tournament.sequential import SPRT
from marlenv.tournament.turns import Board

if TYPE_CHECKING:
    from marlenv.tournament.store import Ledger

KINDS_OF_VALUES: dict[str, tuple[tuple[type, ...], str]] = {
    "env": ((str,), "a text"),
    "schedule": ((str,), "a text"),
    "chance": ((str,), "a text"),
    "players": ((Mapping,), "a table"),
    "options": ((Mapping,), "a table"),
    "double": ((bool,), "true or false"),
    "forfeits": ((bool,), "true or false"),
    "sprt": ((Mapping,), "a table"),
    "adjudicate": ((Mapping,), "a table"),
    "move_seconds": ((int, float), "a number"),
    "game_seconds": ((int, float), "a number"),
    "increment": ((int, float), "a number"),
    "seed": ((int,), "a whole number"),
}
ROUNDS = 5
"""When nobody says how many; of few players in a Swiss tournament half as many, as later ones may be impossible."""
ONE_SEATING = ("swiss", "teams", "focal")
"""Schedules that say by themselves who sits where."""
SCHEDULES = ("round_robin", "gauntlet", "swiss", "knockout", "focal", "teams", "match")


@dataclass(frozen=True)
class Config:
    """A tournament.

    Args:
        env: a name that :func:`marlenv.make` knows.
        players: by name: ``"random"``, ``"mcts"``, ``"uci"``, ``"gtp"`` or ``"module:callable"``, or a table with that
            as ``kind`` and options beside it. A function with an argument ``turn`` is a player; any other function, or
            a class, is called with the options and makes one.
        options: of the env.
        schedule: ``"round_robin"``, ``"gauntlet"`` (of ``challengers``), ``"swiss"``, ``"knockout"``, ``"focal"``
            (``focal`` policies among the others), ``"teams"`` (every way to give each group a policy) or ``"match"``
            (of two, in rounds, until ``sprt`` is decided).
        double: whether each pair plays from both seats; not in a Swiss tournament, which balances seats itself, nor
            with ``"teams"`` and ``"focal"``, which say who sits where.
        cycles: how often the schedule is repeated; in a knockout, how many games (or pairs, if double) a match has.
        rounds: of a Swiss tournament; of a match, at most. 5 when left out; in a Swiss tournament of eight players or
            fewer half as many as there are players: whatever the results, so many can be paired.
        sprt: the fields of :class:`SPRT`, for a match that ends as soon as it is clear whether the first player is
            stronger.
        challengers: of a gauntlet; the other players are its field.
        focal: the players that are judged; the others are the background.
        roles: the groups or seats that focal players take, one choice after another; each group alone if left out.
        populations: who can play which group; everybody everything if left out.
        openings: how games begin, each as a list of moves, the first of which may be ``"fen ..."``; or the name of a
            file (``.epd``, ``.pgn``, or text with an opening in each line). Each game is played from each.
        opening_plies: how many moves are taken from each game of a PGN file, or line of a text file.
        chance: what has the same dice and cards: ``"pairs"``, the games of a pair that sits both ways; ``"cycles"``,
            all games of a cycle; or ``"games"``, none.
        rows: how many games are played at once.
        block: how many games are leased from the ledger, and written, at a time; eight for each row when left out.
        max_plies: cut games off after so many moves.
        seed: of all games.
        forfeits: whether a player that fails loses the game; else the tournament stops with its error.
        move_seconds: how long a player may take for a move.
        game_seconds: how long for all its moves of a game.
        increment: the seconds that each move adds to that.
        adjudicate: when games end before their end: a table with the fields of :class:`Adjudication`; the score of
            ``win`` and ``draw`` is ``"material"`` (of chess) or ``"module:function"``.
        seats: of an env: ``"groups"``, ``"agents"``, or the agents of each.
    """

    env: str
    players: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    schedule: str = "round_robin"
    double: bool = True
    cycles: int = 1
    rounds: int = None  # type: ignore[assignment]  # a number in every config
    sprt: dict[str, float] | None = None
    challengers: tuple[str, ...] = ()
    focal: tuple[str, ...] = ()
    roles: tuple[tuple[str, ...], ...] = ()
    populations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    openings: tuple[tuple[str, ...], ...] = ()
    opening_plies: int | None = None
    chance: Chance = "pairs"
    rows: int = 1024
    block: int | None = None
    max_plies: int | None = None
    seed: int = 0
    forfeits: bool = True
    move_seconds: float | None = None
    game_seconds: float | None = None
    increment: float = 0.0
    adjudicate: dict[str, Any] | None = None
    seats: Any = None

    def __post_init__(self) -> None:
        self._check_values()
        if self.schedule not in SCHEDULES:
            raise SpecError(f"tournament: schedule {self.schedule!r}: {nearest(self.schedule, SCHEDULES)}")
        if len(self.players) < 2:
            raise SpecError(f"tournament: expected two players or more, got {list(self.players)}")
        if self.rounds is None:
            half = (len(self.players) + 1) // 2 if self.schedule == "swiss" else ROUNDS
            object.__setattr__(self, "rounds", min(ROUNDS, half))
        if self.chance not in get_args(Chance):
            raise SpecError(f"tournament: chance {self.chance!r}: {nearest(self.chance, get_args(Chance))}")
        if self.sprt is not None:
            self.test()
            if self.schedule != "match":
                raise SpecError(f"tournament: sprt is for schedule 'match', got {self.schedule!r}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        """Raises where fields do not fit the schedule or each other."""
        if self.schedule == "swiss" and self.rounds > self._most_rounds():
            raise SpecError(
                f"tournament: in a Swiss tournament nobody meets twice, so {len(self.players)} players have rounds for "
                f"{self._most_rounds()}, got rounds = {self.rounds}"
            )
        if self.schedule == "match" and len(self.players) != 2:
            raise SpecError(f"tournament: a match is between two players, got {list(self.players)}")
        named = {"challengers": self.challengers, "focal": self.focal}
        named |= {f"populations: {group}": names for group, names in self.populations.items()}
        for where, names in named.items():
            for name in names:
                if name not in self.players:
                    raise UnknownName(
                        f"tournament: {where}: no player is called {name!r}; {nearest(name, self.players)}"
                    )
        for name, schedule in (("challengers", "gauntlet"), ("focal", "focal"), ("roles", "focal")):
            if getattr(self, name) and self.schedule != schedule:
                raise SpecError(f"tournament: {name} are for schedule {schedule!r}, got {self.schedule!r}")

    def check_used(self) -> None:
        """Raises where a field is given that nothing reads; asked of new tournaments, not of ledgers that exist.

        Raises:
            SpecError: names the field, and what it is for.
        """
        rounds = self.rounds != ROUNDS  # which stands in the ledgers of all schedules
        for name, given, schedules in (
            ("populations", bool(self.populations), ("teams", "focal")),
            ("rounds", rounds, ("swiss", "match")),
        ):
            if given and self.schedule not in schedules:
                says = " and ".join(map(repr, schedules))
                raise SpecError(f"tournament: {name} are for the schedules {says}, got {self.schedule!r}")
        if not self.double and self.schedule in ONE_SEATING:
            raise SpecError(
                f"tournament: double = false is for schedules of pairs that can play from both seats, got "
                f"{self.schedule!r}; leave it out"
            )
        if self.increment and self.game_seconds is None:
            raise SpecError(f"tournament: increment is for clocks with game_seconds, got increment = {self.increment}")
        if self.opening_plies is not None and not self.openings:
            raise SpecError(f"tournament: opening_plies are for openings, got opening_plies = {self.opening_plies}")
        for words in self.openings:
            moves = [word for word in words if not word.startswith(FEN)]
            if self.opening_plies is not None and len(moves) > self.opening_plies:
                raise SpecError(
                    f"tournament: opening_plies cut the openings of a file, and here {list(words)} is given as a list, "
                    f"of {len(moves)} moves, with opening_plies = {self.opening_plies}; shorten it yourself"
                )

    def _most_rounds(self) -> int:
        """How many rounds of a Swiss tournament there can be: nobody meets or rests twice."""
        return len(self.players) - 1 + len(self.players) % 2

    def _check_values(self) -> None:
        """Raises where a field holds what it cannot mean, before anything is loaded or written."""
        for name, (kinds, says) in KINDS_OF_VALUES.items():
            value = getattr(self, name)
            left_out = value is None and name in ("sprt", "adjudicate", "move_seconds", "game_seconds")
            if not left_out and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
                raise SpecError(f"tournament: {name} must be {says}, got {value!r}")
        for name in ("cycles", "rounds", "rows", "block", "max_plies", "opening_plies"):
            value = getattr(self, name)
            if value is not None or name in ("cycles", "rows"):
                whole("tournament", name, value, 1)
        for where, table in (("sprt", self.sprt), ("adjudicate", self.adjudicate)):
            for name, value in (table or {}).items():
                if name != "score" and (isinstance(value, bool) or not isinstance(value, (int, float))):
                    raise SpecError(f"tournament: {where}: {name} must be a number, got {value!r}")

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: Path | str = ".") -> Config:
        """The tournament that a table of fields describes.

        Args:
            given: the fields.
            folder: where the files are that it names.

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
        openings = values.get("openings", ())
        if isinstance(openings, str):
            openings = read_suite(Path(folder) / openings, values.get("opening_plies"))
        values["openings"] = _tuples("openings", openings)
        values["roles"] = _tuples("roles", values.get("roles", ()))
        populations = values.get("populations", {})
        if not isinstance(populations, Mapping):
            raise SpecError(f"tournament: populations must be a table of names by group, got {populations!r}")
        groups = zip(populations, _tuples("populations", [*populations.values()]), strict=True)
        values["populations"] = dict(groups)
        for name in ("challengers", "focal"):
            if not isinstance(given := values.get(name, ()), (list, tuple)):
                raise SpecError(f"tournament: {name} must be given as a list of names in brackets, got {given!r}")
            (values[name],) = _tuples(name, [given])
        return cls(**values)

    @classmethod
    def read(cls, path: Path | str) -> Config:
        """The tournament that a TOML file describes."""
        try:
            given = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except (FileNotFoundError, IsADirectoryError):
            raise SpecError(f"{path}: there is no such file; expected the TOML file of a tournament") from None
        except UnicodeDecodeError:
            raise SpecError(
                f"{path}: this is no TOML; a ledger is gone on with by `resume`, and TOML is text in UTF-8"
            ) from None
        except tomllib.TOMLDecodeError as error:
            more = "; two players of one name?" if "overwrite" in str(error) else ""
            raise SpecError(f"{path}: this is no TOML: {error}{more}") from None
        with _named(path):
            return cls.of(given, Path(path).parent)

    @classmethod
    def kept(cls, ledger: Ledger) -> Config:
        """The tournament that a ledger is of; errors name the file."""
        with _named(ledger.path):
            return cls.of(ledger.config)

    def table(self) -> dict[str, Any]:
        """The fields, as they go into the ledger."""
        table: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return table

    def test(self) -> SPRT:
        """The sequential test of a match."""
        known = [f.name for f in fields(SPRT)]
        for name in self.sprt or {}:
            if name not in known:
                raise SpecError(f"tournament: sprt: there is no field {name!r}; {nearest(name, known)}")
        if self.sprt is None or not {"elo0", "elo1"} <= self.sprt.keys():
            raise SpecError(f"tournament: sprt needs elo0 and elo1, got {self.sprt}")
        return SPRT(**self.sprt)

    def game(self) -> tuple[Any, Rules[Any] | None]:
        """What is played, as an arena takes it, and the rules if it has any."""
        build = partial(make, self.env, **self.options)
        if find(self.env).kind == "scenario":
            return build(num_envs=self.rows), None
        first = build()
        if isinstance(first, TurnBasedEnv):
            return first, first.rules
        return build, None

    def board(self) -> Board:
        """What games are played on."""
        game, rules = self.game()
        return make_board(game, self._openings(rules), self.seed, self.seats, self._adjudication(rules))

    def arena(self) -> Arena:
        """What the games are played in; loads the env and the players.

        Raises:
            SpecError: a player that does not load; names it.
        """
        game, rules = self.game()
        return Arena(
            game,
            {name: load_player(name, given) for name, given in self.players.items()},
            rows=self.rows,
            openings=self._openings(rules),
            max_plies=self.max_plies,
            seed=self.seed,
            seats=self.seats,
            forfeits=self.forfeits,
            move_seconds=self.move_seconds,
            game_seconds=self.game_seconds,
            increment=self.increment,
            adjudicate=self._adjudication(rules),
            record=rules is not None,
        )

    def _adjudication(self, rules: Rules[Any] | None) -> Adjudication | None:
        if self.adjudicate is None:
            return None
        table, known = dict(self.adjudicate), [f.name for f in fields(Adjudication)]
        for name in table:
            if name not in known:
                raise SpecError(f"tournament: adjudicate: there is no field {name!r}; {nearest(name, known)}")
        score = table.pop("score", "material")
        if score != "material" and (not isinstance(score, str) or ":" not in score):
            raise SpecError(f"tournament: adjudicate: score must be 'material' or 'module:function', got {score!r}")
        by_score = not self.adjudicate.keys().isdisjoint(("score", "win", "draw"))
        if by_score and score == "material":
            check_material(rules)
        return Adjudication((material if score == "material" else load(score)) if by_score else None, **table)

    def _openings(self, rules: Rules[Any] | None) -> list[Opening]:
        if self.openings and rules is None:
            raise SpecError(f"tournament: openings are of games with rules, and {self.env!r} has none")
        return [read_opening(rules, words) for words in self.openings] if rules is not None else []


@contextmanager
def _named(path: Path | str) -> Iterator[None]:
    """Errors note the file in which a config stands."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {path}")
        raise


def _tuples(where: str, given: Any) -> tuple[tuple[str, ...], ...]:
    """Lists of texts as tuples."""
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in given):
        raise SpecError(f"tournament: {where} must be given as lists of names in brackets, got {given!r}")
    return tuple(tuple(str(word) for word in one) for one in given)


def load_player(name: str, given: Any) -> Player:
    """The player that a config describes.

    Raises:
        SpecError: it cannot be made; says whose it is.
    """
    table = {"kind": given} if isinstance(given, str) else dict(given) if isinstance(given, Mapping) else {}
    kind = table.pop("kind", None)
    if not isinstance(kind, str):
        raise SpecError(
            f"player {name!r}: expected 'random', 'mcts', 'uci', 'gtp', 'module:callable' or a table with kind, "
            f"got {given!r}"
        )
    if kind not in KINDS and ":" not in kind:
        raise SpecError(f"player {name!r}: kind {kind!r}: {nearest(kind, KINDS)}, or module:callable")
    if kind == "random":
        if table:
            raise SpecError(f"player {name!r}: random takes no options, got {', '.join(table)}")
        return random_player
    try:
        made: Any = KINDS[kind] if kind in KINDS else load(kind)
        ready = not inspect.isclass(made) and (
            not inspect.isfunction(made) or "turn" in inspect.signature(made).parameters
        )
        made = made if ready else made(**table)
    except Exception as error:
        raise SpecError(f"player {name!r}: {kind} does not load: {type(error).__name__}: {error}") from error
    if ready and table:
        raise SpecError(
            f"player {name!r}: {kind} is a player itself and takes no options, got {', '.join(table)}; name a function "
            f"or a class that makes players from them"
        )
    if not callable(made):
        raise SpecError(f"player {name!r}: {kind} made {type(made).__name__}, which cannot be called")
    player: Player = made
    return player


KINDS: dict[str, Callable[..., Any]] = {"random": random_player, "mcts": MCTSPlayer, "uci": UCIPlayer, "gtp": GTPPlayer}
