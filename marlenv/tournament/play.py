"""The arena: many games at once, of different players in each row, from a schedule to results.

``G`` are games, ``B`` rows, ``P`` seats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.envs.seeding import as_seed
from marlenv.errors import PoolError, SpecError, UnknownName, nearest, whole
from marlenv.games import TurnBasedEnv
from marlenv.games.rules import Rules
from marlenv.rng import ROW_STEP, mix_
from marlenv.tournament.adjudicate import Adjudication
from marlenv.tournament.asking import CUT, Asker
from marlenv.tournament.env_board import EnvBoard, Seats
from marlenv.tournament.games import Game, Games
from marlenv.tournament.moves import MoveLists, Moves
from marlenv.tournament.openings import Opening
from marlenv.tournament.players import Player
from marlenv.tournament.results import Results
from marlenv.tournament.rules_board import RulesBoard
from marlenv.tournament.turns import Board


class Played(NamedTuple):
    """What came out of games, in the order of the schedule."""

    games: Games
    returns: Tensor
    """What each seat earned; float ``[G, P]``."""
    plies: Tensor
    """How many moves (steps of an env) were made, those of the opening not counted; int64 ``[G]``."""
    ending: Tensor
    """How each game ended, an index into ``ENDINGS``; int8 ``[G]``."""
    culprit: Tensor
    """The seat that forfeited, by an illegal move or by failing, the first of several that did at once; int64 ``[G]``,
    -1 where none did."""
    digest: Tensor
    """A number that two games share if their moves are the same; int64 ``[G]``."""
    moves: Sequence[Moves]
    """The moves of each game, in each of them an action per seat that moved; empty unless the arena records them."""
    seconds: Tensor
    """How long the player of each seat thought, in all; of positions that it was asked about at once, each counts
    alike. float64 ``[G, P]``, and the only number here that differs when games are played again."""

    @property
    def cut(self) -> Tensor:
        """Whether a limit ended the game; bool ``[G]``."""
        return self.ending == CUT

    def take(self, which: NDArray[np.int64]) -> Played:
        """What came out of some of the games, by their places."""
        moves: Sequence[Moves] = []
        if self.moves:
            moves = self.moves.take(which) if isinstance(self.moves, MoveLists) else [self.moves[k] for k in which]
        return Played(
            self.games.take(which),
            self.returns[which],
            self.plies[which],
            self.ending[which],
            self.culprit[which],
            self.digest[which],
            moves,
            self.seconds[which],
        )

    def scores(self) -> Tensor:
        """Of games of two: 1 where the first seat won, 0.5 for a draw, 0 where it lost; ``[G]``.

        Whoever earned more won, and whoever forfeited lost.
        """
        if self.returns.shape[1] != 2:
            raise PoolError(
                f"Played.results: only games of two have a winner and a loser, got {self.returns.shape[1]} seats; "
                f"Played.pairs compares every two seats"
            )
        return pair_scores(self.returns, self.culprit, 0, 1)

    def results(self, names: Sequence[str] | None = None) -> Results:
        """The counts of games of two: whoever earned more won, and whoever forfeited lost.

        Raises:
            PoolError: the games have more seats.
        """
        scores = self.scores().numpy()
        first = self.games.first()
        place = {players: k for k, players in enumerate(first)}
        which = np.array([place.get(players, -1) for players in self.games.lineups], np.int64)[self.games.lineup]
        return Results.tally([(a, b) for a, b in first], which, scores, names)

    def pairs(self, names: Sequence[str] | None = None) -> Results:
        """The counts of every two seats of every game, as if they had played each other; for any number of seats.

        Results of one game hang together, so intervals from these counts are too narrow where seats are more than two.
        """
        seats = self.returns.shape[1]
        found: list[tuple[str, str, float]] = []
        for a in range(seats):
            for b in range(a + 1, seats):
                score = pair_scores(self.returns, self.culprit, a, b).tolist()
                rows = ((g.players[a], g.players[b], s) for g, s in zip(self.games, score, strict=True))
                found += [row for row in rows if row[0] != row[1]]
        known = list(dict.fromkeys(p for players in self.games.first() for p in players))
        return Results.of(found, known if names is None else names)


def pair_scores(returns: Tensor, culprit: Tensor, a: int, b: int) -> Tensor:
    """The score of seat ``a`` against seat ``b``; ``[G]``."""
    score = ((returns[:, a] - returns[:, b]).sign() + 1) / 2
    score = torch.where(culprit == a, 0.0, score)
    return torch.where(culprit == b, 1.0, score)


class Arena:
    """Plays games of a schedule, many at once, each player asked once per step about all rows in which it is to move.

    A row whose game is over gets the next game of the schedule at once. What happens in a game follows from the seed
    and the game's id, not from how many rows there are or what else is played.

    Args:
        game: the rules of a game; an env; or a function that makes an env, called once per row for envs that are not
            batched. Envs are seeded for each game; a batched one must give its state away, randomness included. Of the
            env of a game its rules are played, and its move limit holds.
        players: by name.
        rows: how many games are played at once; a batched env has as many as it has.
        openings: moves to begin with, or positions (:class:`Opening`), for games of rules that name an opening.
        max_plies: cut games off after so many moves, or steps of an env.
        seed: of all games.
        seats: who is a player's in an env: ``"groups"``, ``"agents"``, or the agents of each seat, all of one group;
            groups when left out, or agents where there is but one group.
        forfeits: whether a player that chooses an illegal action, fails or takes too long loses the game; else the
            error is raised. A forfeit costs -1, which the others share where the game is zero-sum; in an env it costs
            1 of what was earned.
        move_seconds: how long a player may take, per position that it is asked about.
        game_seconds: how long for all its moves of a game, each its share of those that it is asked about at once.
        increment: the seconds that each move adds to that.
        adjudicate: when games of rules are ended before their end.
        record: keep the moves.

    Raises:
        Unsupported: a player that cannot play this game at all.
        SpecError: an option is out of range; the env of a game has an opponent of its own, or lets who moves illegally
            lose, which is what ``forfeits`` say here.

    >>> from marlenv.games import TicTacToe
    >>> from marlenv.tournament.players import random_player
    >>> from marlenv.tournament.schedule import round_robin
    >>> arena = Arena(TicTacToe(), {"ada": random_player, "bob": random_player})
    >>> arena.play(round_robin(["ada", "bob"], cycles=50)).results().games
    50.0
    """

    def __init__(
        self,
        game: Rules[Any] | EnvBase | Callable[[], EnvBase],
        players: Mapping[str, Player],
        *,
        rows: int = 1024,
        openings: Sequence[Opening | Sequence[int]] = (),
        max_plies: int | None = None,
        seed: int = 0,
        seats: Seats | None = None,
        forfeits: bool = False,
        move_seconds: float | None = None,
        game_seconds: float | None = None,
        increment: float = 0.0,
        adjudicate: Adjudication | None = None,
        record: bool = False,
    ) -> None:
        whole("Arena", "rows", rows, 1)
        if max_plies is not None:
            whole("Arena", "max_plies", max_plies, 1)
        for name, seconds in (("move_seconds", move_seconds), ("game_seconds", game_seconds)):
            if seconds is not None and not seconds > 0:
                raise SpecError(f"Arena: {name} must be above 0, got {seconds}")
        if not increment >= 0:
            raise SpecError(f"Arena: increment must be 0 or more, got {increment}")
        self.names, self.players = list(players), list(players.values())
        self.rows, self.seed = rows, as_seed("Arena", seed)
        self.forfeits, self.record = forfeits, record
        self.move_seconds, self.game_seconds, self.increment = move_seconds, game_seconds, increment
        self.board = make_board(game, openings, seed, seats, adjudicate, forfeits=forfeits)
        limits = [limit for limit in (max_plies, self.board.max_plies) if limit is not None]
        self.max_plies = min(limits, default=None)
        for name, player in players.items():
            _check(name, player, getattr(self.board, "rules", None))
        self.row_steps = 0
        """How many positions were stepped."""

    @property
    def seats(self) -> dict[str, list[str]]:
        """The agents of each seat, in the order in which a game names its players."""
        return self.board.seats

    @property
    def groups(self) -> dict[str, str]:
        """The group of each seat; in a game of rules each is its own."""
        return self.board.groups

    def check(self, games: Iterable[Game]) -> None:
        """Raises where a game cannot be played: too few players, or somebody whom the arena does not have."""
        self._places(Games.of(games))

    def play(self, games: Iterable[Game], progress: Callable[[int], None] | None = None) -> Played:
        """Plays all games of a schedule.

        Args:
            games: the schedule.
            progress: called with the number of games that ended, whenever some did.

        Raises:
            SpecError: what is given is no :class:`Game`.
            UnknownName: a game of somebody who is not among the players.
            IllegalAction: a player chose an action that the rules forbid; names it and the game.
        """
        todo, seats = Games.of(games), len(self.seats)
        who, ids = self._places(todo), torch.tensor(todo.ids)
        out = blank(todo, seats)
        row = torch.arange(min(self.board.rows(self.rows), len(todo)))  # which game of the schedule each row plays
        following = len(row)
        if not len(row):
            return out
        asker = Asker(
            self.board,
            self.names,
            self.players,
            self.seed,
            forfeits=self.forfeits,
            move_seconds=self.move_seconds,
            game_seconds=self.game_seconds,
            increment=self.increment,
            shape=(len(row), seats),
        )
        record = _Record() if self.record else None
        self.board.begin(todo[:following], None)
        asker.begin(row, todo[:following])
        while len(row):
            ended = self._ended(out, row, asker)
            if len(ended):
                if progress is not None:
                    progress(len(ended))
                fresh = torch.arange(following, min(following + len(ended), len(todo)))
                following += len(fresh)
                over = False
                if len(fresh):
                    again = ended[: len(fresh)]
                    row[again] = fresh
                    following_games = todo[following - len(fresh) : following]
                    over = self.board.begin(following_games, again)
                    asker.begin(again, following_games)
                if len(fresh) < len(ended):  # nothing is left for these rows
                    keep = torch.ones_like(row, dtype=torch.bool).index_fill(0, ended[len(fresh) :], False)
                    row = row[keep]
                    asker.keep(keep)
                    self.board.keep(keep)
                if over or not len(row):
                    continue
            self._step(out, row, who[row], ids[row], asker, record)
        return out if record is None else out._replace(moves=record.by_game(out.plies))

    def _step(self, out: Played, row: Tensor, who: Tensor, ids: Tensor, asker: Asker, record: _Record | None) -> None:
        """Plays a step of all rows."""
        asked = self.board.positions()
        actions, failures = [], []
        for positions in asked:
            action, failed = asker(positions, who, ids)
            actions.append(action)
            failures.append(failed)
            for k in failed.nonzero().squeeze(-1).tolist():  # rare
                game = int(row[positions.row[k]])
                if int(out.culprit[game]) < 0 or int(positions.seat[k]) < int(out.culprit[game]):
                    out.culprit[game], out.ending[game] = positions.seat[k], failed[k]
        self.row_steps += len(row)
        codes = self.board.step(asked, actions, failures)
        made = out.culprit[row] < 0
        asker.add(codes, made)
        if any(bool(failed.any()) for failed in failures):
            row, codes = row[made], codes[made]
        digest = out.digest[row]
        for code in codes.unbind(-1):
            digest = mix_(digest * ROW_STEP + code + 1)
        out.digest[row] = digest
        plies = out.plies[row]
        out.plies[row] = plies + 1
        if record is not None:
            record.add(row.clone(), plies, codes)

    def _ended(self, out: Played, row: Tensor, asker: Asker) -> Tensor:
        """Which rows have ended, their results written down; int64 ``[E]``."""
        over, cut = self.board.over()
        forfeited = out.culprit[row] >= 0
        if self.max_plies is not None:
            cut = torch.where(~over & (out.plies[row] >= self.max_plies), CUT, cut)
        ended = (over | (cut > 0) | forfeited).nonzero().squeeze(-1)
        if len(ended):
            games = row[ended]
            returns, lost = self.board.returns(ended) + 0.0, forfeited[ended]  # so that none is -0
            if bool(lost.any()):
                returns[lost] = self.board.forfeited(returns[lost], out.culprit[games[lost]])
            out.returns[games], out.seconds[games] = returns, asker.used[ended]
            out.ending[games] = torch.where(lost, out.ending[games], cut[ended])
        return ended

    def _places(self, games: Games) -> Tensor:
        """Which player sits in each seat of some games; int64 ``[G, P]``."""
        seats, place = len(self.seats), {name: k for k, name in enumerate(self.names)}
        table = np.zeros((len(games.lineups), seats), np.int64)
        numbers = {players: k for k, players in enumerate(games.lineups)}
        for players, at in games.first().items():
            if len(players) != seats:
                raise PoolError(
                    f"Arena: game {games.ids[at]} has {len(players)} players, and the game has {seats} seats: "
                    f"{list(self.seats)}"
                )
            for name in players:
                if name not in place:
                    says = nearest(name, self.names)
                    raise UnknownName(f"Arena: game {games.ids[at]}: no player is called {name!r}; {says}")
            table[numbers[players]] = [place[name] for name in players]
        return torch.from_numpy(table[games.lineup])


def _check(name: str, player: Player, rules: Rules[Any] | None) -> None:
    """Raises SpecError for what cannot be called, and what a player with a method ``check`` says of a game that it
    cannot play.
    """
    if not callable(player):
        raise SpecError(f"Arena: player {name!r} must be something to call with a Turn, got {player!r}")
    try:
        getattr(player, "check", lambda rules: None)(rules)
    except Exception as error:
        error.add_note(f"player {name!r} cannot play this")
        raise


class _Record:
    """The moves of games as they come."""

    def __init__(self) -> None:
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, games: Tensor, plies: Tensor, codes: Tensor) -> None:
        """Notes the moves of some games, which have made so many before."""
        self._steps.append((games, plies, codes))

    def by_game(self, lengths: Tensor) -> MoveLists:
        """All of them, of games of so many moves."""
        if not self._steps:
            return MoveLists(np.zeros((0, 1), np.int64), lengths.numpy())
        starts = lengths.cumsum(0) - lengths
        games, plies, codes = map(torch.cat, zip(*self._steps, strict=True))
        return MoveLists(torch.empty_like(codes).index_copy_(0, starts[games] + plies, codes).numpy(), lengths.numpy())


def blank(games: Iterable[Game], seats: int) -> Played:
    """Results of games that were not played yet."""
    games = Games.of(games)
    n = len(games)
    whole_numbers = torch.zeros(n, dtype=torch.int64)
    return Played(
        games,
        torch.zeros(n, seats, dtype=torch.float32),
        whole_numbers.clone(),
        torch.zeros(n, dtype=torch.int8),
        torch.full((n,), -1, dtype=torch.int64),
        whole_numbers.clone(),
        [],
        torch.zeros(n, seats, dtype=torch.float64),
    )


def make_board(
    game: Any,
    openings: Sequence[Opening | Sequence[int]],
    seed: int,
    seats: Seats | None,
    adjudicate: Adjudication | None = None,
    *,
    forfeits: bool = True,
) -> Board:
    """What games are played on."""
    if not isinstance(game, (Rules, EnvBase)) and not callable(game):
        raise SpecError(f"Arena: expected rules, an env, or a function that makes one, got {type(game).__name__}")
    first = game if isinstance(game, (Rules, EnvBase)) else game()
    rules, limit = first, None
    if isinstance(first, TurnBasedEnv):
        _check_env(first, forfeits=forfeits)
        rules, limit = first.rules, first.max_plies
    if isinstance(rules, Rules):
        if seats is not None:
            raise SpecError("Arena: seats= are of envs; in a game of rules each player has one")
        return RulesBoard(rules, openings, seed, adjudicate, limit)
    if not isinstance(first, EnvBase):
        raise SpecError(f"Arena: expected an env, and {game!r} made {type(first).__name__}")
    if adjudicate is not None:
        raise SpecError(f"Arena: adjudicate= is for games of rules, and {type(first).__name__} has none")
    if openings:
        raise SpecError(f"Arena: openings are of games with rules, and {type(first).__name__} has none")
    return EnvBoard(first, None if first is game else game, seed, seats)


def _check_env(env: TurnBasedEnv[Any], *, forfeits: bool) -> None:
    """Raises SpecError where the env of a game was made to be played otherwise than in an arena."""
    if env.opponent is not None:
        raise SpecError(
            f"Arena: players sit in all seats, and {type(env).__name__} has an opponent of its own; make it without, "
            f"and let the opponent be a player"
        )
    if env.illegal == "lose" and not forfeits:
        raise SpecError(
            f"Arena: {type(env).__name__} was made with illegal='lose', and players that move illegally raise here; "
            f"say forfeits=True, or make the env without"
        )
