"""Asking players: rows gathered by player, one call each, answers checked and scattered; forfeits where they fail."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import DtypeError, IllegalAction, ShapeError, SpecError, Unsupported
from marlenv.rng import GOLDEN, RowRNG, mix_
from marlenv.tournament.games import Games
from marlenv.tournament.players import CRASH, RESIGN, TIME, Player
from marlenv.tournament.streams import streams
from marlenv.tournament.turns import Board, Positions, Turn

OVER, CUT, RESIGNED, ILLEGAL, CRASHED, OUT_OF_TIME = range(6)
ENDINGS = ("over", "move limit", "resigned", "illegal move", "crash", "out of time", "adjudicated")
"""How a game can end, by the number in ``Played.ending``; from ``"resigned"`` to ``"out of time"`` somebody forfeited
it."""
REASONS = {RESIGN: RESIGNED, CRASH: CRASHED, TIME: OUT_OF_TIME}


class Asker:
    """Asks players for actions, and keeps what they remember of each game.

    Args:
        board: what is played.
        names: of the players.
        players: in the same order.
        seed: of their randomness.
        forfeits: whether a player that fails loses the game; else the failure is raised.
        move_seconds: how long a player may think about a position; None for as long as it likes.
        game_seconds: how long about all positions of a game.
        increment: what each move adds to that.
        shape: rows and seats of the arena.
    """

    def __init__(
        self,
        board: Board,
        names: Sequence[str],
        players: Sequence[Player],
        seed: int,
        *,
        forfeits: bool,
        move_seconds: float | None,
        shape: tuple[int, int],
        game_seconds: float | None = None,
        increment: float = 0.0,
    ) -> None:
        self.board, self.names, self.players, self.seed = board, names, players, seed
        first = [next(k for k, other in enumerate(players) if other is player) for player in players]
        self._first = torch.tensor(first)  # who is entered under several names is asked once
        self._called = [" or ".join(repr(n) for n, k in zip(names, first, strict=True) if k == f) for f in first]
        self.forfeits, self.move_seconds = forfeits, move_seconds
        self.game_seconds, self.increment = game_seconds, increment
        self._keys = torch.zeros(shape, dtype=torch.int64)  # of the randomness of each seat
        self.drawn = torch.zeros(shape, dtype=torch.int64)  # how much of its randomness each seat has used
        self.used = torch.zeros(shape, dtype=torch.float64)  # seconds
        self._allowed: Tensor | None = None  # seconds that a seat may use, those for its next move not among them
        if game_seconds is not None:
            self._allowed = torch.full(shape, game_seconds, dtype=torch.float64)
        self.moves: list[list[int]] | None = None
        if any(getattr(player, "wants_moves", False) for player in players):
            self.moves = [[] for _ in range(shape[0])]
        self._memory: dict[tuple[int, int], TensorDictBase] = {}

    def begin(self, rows: Tensor, games: Games) -> None:
        """Forgets what was remembered of the games that were played in some rows.

        Args:
            rows: int64 ``[R]``.
            games: that begin there.
        """
        seats = torch.arange(self._keys.shape[1])
        self._keys[rows] = mix_(streams(self.seed, torch.tensor(games.ids), 0).unsqueeze(1) + seats * GOLDEN)
        self.drawn[rows], self.used[rows] = 0, 0
        if self._allowed is not None and self.game_seconds is not None:
            self._allowed[rows] = self.game_seconds
        if self.moves is not None:
            for row, game in zip(rows.tolist(), games, strict=True):
                self.moves[row] = list(self.board.opening(game))
        for (index, _), held in self._memory.items():
            held[rows] = self._blank(index, held[rows])

    def keep(self, mask: Tensor) -> None:
        """Drops the rows outside ``mask``."""
        self._keys, self.drawn, self.used = self._keys[mask], self.drawn[mask], self.used[mask]
        self._allowed = None if self._allowed is None else self._allowed[mask]
        if self.moves is not None:
            self.moves = [moves for moves, kept in zip(self.moves, mask.tolist(), strict=True) if kept]
        self._memory = {key: held[mask] for key, held in self._memory.items()}

    def add(self, codes: Tensor, made: Tensor) -> None:
        """Notes the moves that were made; int64 ``[B, k]``."""
        if self.moves is not None and codes.shape[-1] == 1:
            for moves, code, kept in zip(self.moves, codes[:, 0].tolist(), made.tolist(), strict=True):
                if kept:
                    moves.append(code)

    def __call__(self, positions: Positions, who: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The actions of those to move, and why there is none.

        Args:
            positions: ``K`` of them.
            who: the player in each seat; int64 ``[B, P]``.
            ids: of the games; int64 ``[B]``.

        Returns:
            Actions ``[K, ...]``, -1 where there is none, and the number of the ending that this means; int8 ``[K]``.
        """
        place = self._place(positions, None)
        mover = self._first.index_select(0, who.reshape(-1).index_select(0, place))
        found = mover.bincount().nonzero().squeeze(-1).tolist()
        failed = torch.zeros(len(place), dtype=torch.int8)
        action: Tensor | None = None
        for index in found:
            mine = None if len(found) == 1 else (mover == index).nonzero().squeeze(-1)
            answer, why = self._checked(index, positions, mine, who, ids)
            if mine is None:
                action, failed = answer.clone(), why  # players may fill one tensor again and again
            else:
                if action is None:
                    kind = torch.int64 if positions.spec is None else positions.spec.dtype
                    action = torch.zeros((len(place), *answer.shape[1:]), dtype=kind)
                action[mine], failed[mine] = answer.to(action.dtype), why
        assert action is not None
        return action, failed

    def _checked(
        self, index: int, positions: Positions, mine: Tensor | None, who: Tensor, ids: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A player's answer, and where it forfeits."""
        began = time.perf_counter()
        answer, fine, why = self._answer(index, positions, mine, ids)
        rows = len(answer)
        late = self._late(positions, mine, (time.perf_counter() - began) / max(rows, 1))
        if late is None and answer.ndim == 1 and bool(fine.all()):
            return answer, why
        flat = answer.reshape(rows, -1)[:, 0] if answer.numel() else answer.new_zeros(rows)
        if not answer.is_floating_point() and bool((flat < 0).any()):
            for said, ending in REASONS.items():
                why[flat == said] = ending
        if late is not None:
            why[late] = OUT_OF_TIME
        why[~fine & (why == 0)] = ILLEGAL
        if not self.forfeits and bool((why > RESIGNED).any()):
            self._raise(positions, mine, who, ids, answer, why)
        return torch.where((why > 0).reshape(-1, *[1] * (answer.ndim - 1)), -1, answer), why

    def _late(self, positions: Positions, mine: Tensor | None, seconds: float) -> Tensor | None:
        """Where a player that took so long for each position is out of time; bool ``[R]``, None without limits."""
        place, flat = self._place(positions, mine), self.used.view(-1)
        used = flat.index_select(0, place) + seconds
        flat.index_copy_(0, place, used)
        if self.move_seconds is None and self._allowed is None:
            return None
        late = torch.full(place.shape, self.move_seconds is not None and seconds > self.move_seconds)
        if self._allowed is not None:
            allowed = self._allowed.view(-1)[place]
            late |= used > allowed
            self._allowed.view(-1)[place] = allowed + self.increment
        return late

    def _place(self, positions: Positions, mine: Tensor | None) -> Tensor:
        """Where the numbers of seats that are asked stand, in the flat memory of ``[rows, seats]``; int64 ``[R]``."""
        place = positions.row * self.drawn.shape[1] + positions.seat
        return place if mine is None else place.index_select(0, mine)

    def _raise(
        self, positions: Positions, mine: Tensor | None, who: Tensor, ids: Tensor, answer: Tensor, why: Tensor
    ) -> None:
        k = int((why > RESIGNED).nonzero()[0])
        at = k if mine is None else int(mine[k])
        row = int(positions.row[at])
        name, game = self.names[int(who[row, positions.seat[at]])], int(ids[row])
        if int(why[k]) == ILLEGAL:
            chose = answer[k].tolist()
            legal = self.board.legal_names(positions, at)
            raise IllegalAction(f"Arena: player {name!r} chose {chose} in game {game}, where {legal} are legal")
        raise IllegalAction(
            f"Arena: player {name!r} has no move in game {game} ({ENDINGS[int(why[k])]}); forfeits=True lets it lose"
        )

    def _answer(
        self, index: int, positions: Positions, mine: Tensor | None, ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a player answers, where that is legal, and CRASHED where it fails, int8 ``[R]``: then it is asked again
        about each row alone, to see where.
        """
        try:
            answer, fine = self._asked(index, positions, mine, ids)
            return answer, fine, torch.zeros(len(answer), dtype=torch.int8)
        except Exception as error:
            if not self.forfeits or isinstance(error, (SpecError, Unsupported)):  # it would lose every game
                error.add_note(f"while player {self._called[index]} was to move")
                raise
        found: list[tuple[Tensor, Tensor] | None] = []
        every = torch.arange(len(positions.row)) if mine is None else mine
        for one in every.split(1):
            try:
                found.append(self._asked(index, positions, one, ids))
            except Exception:  # whatever a player does wrong is its own loss
                found.append(None)
        none = torch.zeros(self.board.shape(positions, 1), dtype=torch.int64), torch.zeros(1, dtype=torch.bool)
        pairs = [none if one is None else one for one in found]
        why = torch.tensor([CRASHED if one is None else 0 for one in found], dtype=torch.int8)
        return torch.cat([answer for answer, _ in pairs]), torch.cat([fine for _, fine in pairs]), why

    def _asked(self, index: int, positions: Positions, mine: Tensor | None, ids: Tensor) -> tuple[Tensor, Tensor]:
        """What a player answers, and where that is legal."""
        place = self._place(positions, mine)
        row = positions.row if mine is None else positions.row.index_select(0, mine)
        seat = positions.seat if mine is None else positions.seat.index_select(0, mine)
        rng = RowRNG.of(*(x.view(-1).index_select(0, place) for x in (self._keys, self.drawn)))
        memory = self._recall(index, positions, row, seat)
        moves, clock = None, None if self._allowed is None else (self._allowed - self.used)[row]
        if self.moves is not None and getattr(self.players[index], "wants_moves", False):
            moves = [list(self.moves[k]) for k in row.tolist()]
        turn = Turn(positions, mine, ids[row], rng, memory, moves, clock, self.increment)
        answer = self._tensor(index, self.players[index](turn))
        if answer.dtype != torch.int64:
            answer = self._number(index, positions, answer)
        want = self.board.shape(positions, len(row))
        if tuple(answer.shape) != want:
            raise ShapeError(
                f"Arena: player {self._called[index]} must return an action per row {list(want)}, got "
                f"{list(answer.shape)}"
            )
        fine = self.board.permits(positions, mine, answer)
        self.drawn.view(-1).index_copy_(0, place, rng.counter)
        if memory is not None:
            self._memory[index, positions.kind][row, seat] = memory
        return answer, fine

    def _tensor(self, index: int, said: object) -> Tensor:
        """What a player said as a tensor."""
        try:
            return torch.as_tensor(said)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DtypeError(
                f"Arena: player {self._called[index]} must return actions as a tensor, got {type(said).__name__}"
            ) from error

    def _number(self, index: int, positions: Positions, answer: Tensor) -> Tensor:
        """An answer as int64, or as it is where actions may be fractions."""
        whole = positions.spec is None or not positions.spec.dtype.is_floating_point
        if answer.is_complex() or (whole and answer.is_floating_point()):
            want = "integers (int64)" if whole else "real numbers"
            raise DtypeError(f"Arena: player {self._called[index]} must return actions as {want}, got {answer.dtype}")
        return answer if answer.is_floating_point() else answer.to(torch.int64)

    def _recall(self, index: int, positions: Positions, row: Tensor, seat: Tensor) -> TensorDictBase | None:
        """What a player remembers of some games; a copy."""
        initial = getattr(self.players[index], "memory", None)
        if initial is None:
            return None
        key = (index, positions.kind)
        if key not in self._memory:
            shape = (*self.drawn.shape, *positions.lead)
            self._memory[key] = initial.expand(*shape).clone()
        return self._memory[key][row, seat]

    def _blank(self, index: int, like: TensorDictBase) -> TensorDictBase:
        initial: TensorDictBase = self.players[index].memory  # type: ignore[attr-defined]
        return initial.expand(*like.batch_size)
