"""Tic-tac-toe (https://en.wikipedia.org/wiki/Tic-tac-toe) for any batch of boards at once: rules, and TorchRL's env.

The game is so small that everything about all of its 3**9 boards is in tables; the rules look it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, ClassVar, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, NotInSpec
from marlenv.games import drawing
from marlenv.games.draws import Draws
from marlenv.games.game_env import GameEnv
from marlenv.games.memory import SOME_OVER, Pages, as_rows, for_numba, kernels
from marlenv.games.rules import Rules
from marlenv.games.tables import Table
from marlenv.games.turn_based import LUCK, Illegal, Moment, TurnBasedEnv
from marlenv.rng import RowRNG
from marlenv.specs import Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new, put, separate

LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]
BOARDS = 3**9
WEIGHTS = 3 ** torch.arange(9)
POWERS = WEIGHTS.tolist()


# --- tables: one row for each board ----------------------------------------------------------------------------------


def _order() -> Tensor:
    """Which base-3 number each position stands for: those that can be reached come first, near to each other."""
    seen, layer = [torch.zeros(1, dtype=torch.int64)], torch.zeros(1, dtype=torch.int64)
    for ply in range(9):
        digits = layer.unsqueeze(-1) // WEIGHTS % 3
        free = (digits == 0) & (_winner(_signed(digits)) < 0).unsqueeze(-1)
        layer = (layer.unsqueeze(-1) + (1 + ply % 2) * WEIGHTS)[free].unique()
        seen.append(layer)
    reached = torch.cat(seen)
    rest = torch.ones(BOARDS, dtype=torch.bool)
    rest[reached] = False
    return torch.cat((reached, rest.nonzero().flatten()))


def _signed(digits: Tensor) -> Tensor:
    return torch.tensor([0, 1, -1], dtype=torch.int8)[digits]


def _winner(board: Tensor) -> Tensor:
    """Who has three in a row, 0 or 1, -1 for nobody; int64 ``[*B]`` of boards ``[*B, 9]``."""
    sums = torch.stack([board[..., line].sum(-1) for line in LINES], -1)
    return torch.where((sums == 3).any(-1), 0, torch.where((sums == -3).any(-1), 1, -1))


def _boards() -> Tensor:
    """The cells of every position, 0 free, +1 x, -1 o; int8 ``[3**9, 9]``."""
    return _signed(ORDER.on(CPU).unsqueeze(-1) // WEIGHTS % 3)


def _legal() -> Tensor:
    return (_boards() == 0) & (_winner(_boards()) < 0).unsqueeze(-1)


def _players() -> Tensor:
    return _boards().sum(-1).clamp(0, 1)


def _after() -> Tensor:
    """The position after a cell is taken, -1 where that is illegal; int16 ``[3**9 * 9]``."""
    number, stone = ORDER.on(CPU).unsqueeze(-1), 1 + _players().unsqueeze(-1)
    after = NUMBERED.on(CPU)[(number + stone * WEIGHTS).clamp(max=BOARDS - 1)]
    return torch.where(_legal(), after, -1).flatten().to(torch.int16)


def _free_by_rank() -> Tensor:
    """The legal cells of each position in order, then 8; int8 ``[3**9 * 9]``."""
    order = torch.where(_legal(), torch.arange(9), 9).sort(-1)[0]
    return order.clamp(max=8).flatten().to(torch.int8)


def _outcomes() -> Tensor:
    full = torch.where((_boards() != 0).all(-1), 2, 0)
    return torch.where(_winner(_boards()) >= 0, 1, full).to(torch.int8)


def _returns() -> Tensor:
    winner = _winner(_boards())
    score = torch.where(winner < 0, 0.0, 1.0 - 2.0 * winner)
    return torch.stack((score, -score), -1)


def _planes() -> Tensor:
    """What both players see of each position; bool ``[3**9, 2, 3, 3, 3]``."""
    board, turn = _boards(), _players().unsqueeze(-1)
    seats = [
        torch.stack((board == own, board == -own, (turn == seat).expand(board.shape)), 1)
        for seat, own in ((0, 1), (1, -1))
    ]
    return torch.stack(seats, 1).unflatten(-1, (3, 3))


def _from_shown() -> Tensor:
    """The position of a shown board, a number whose digits are one more than its cells, plus 3**9 where o is to move."""
    digits = torch.arange(BOARDS).unsqueeze(-1) // WEIGHTS % 3  # 0 free, 1 the other, 2 the player to move
    by_player = [torch.tensor([[0, 2, 1], [0, 1, 2]])[player][digits] for player in (0, 1)]
    return NUMBERED.on(CPU)[torch.cat([(cells * WEIGHTS).sum(-1) for cells in by_player])]


def _shown() -> Tensor:
    """The board as TorchRL's keys say it: -1 free, 1 the player to move, 0 the other; int32 ``[3**9, 9]``."""
    own = (1 - 2 * _players()).unsqueeze(-1)
    return torch.where(_boards() == 0, -1, (_boards() == own).int()).to(torch.int32)


def _told() -> Tensor:
    """All that TorchRL's keys say about each position, side by side; bytes ``[3**9, 64]``.

    36 of the board, and 4 each of the turn and both returns; 9 of the free cells; terminated, done, truncated.
    """
    tables = [table.on(CPU) for table in (SHOWN, TURN, FIRST, SECOND, FREE, ENDED, ENDED)]
    told = torch.cat([table.view(torch.uint8) for table in tables], -1)
    return torch.nn.functional.pad(told, (0, 64 - told.shape[-1]))


CPU = torch.device("cpu")
ORDER = Table(_order)
NUMBERED = Table(lambda: ORDER.on(CPU).argsort())
BOARD, WINNER, LEGAL, PLAYER = Table(_boards), Table(lambda: _winner(_boards())), Table(_legal), Table(_players)
AFTER, RANKED, COUNT = Table(_after), Table(_free_by_rank), Table(lambda: _legal().sum(-1).to(torch.float32))
OUTCOME, RETURNS, PLANES, OVER = Table(_outcomes), Table(_returns), Table(_planes), Table(lambda: _outcomes() != 0)
FROM_SHOWN, SHOWN_WEIGHTS = Table(_from_shown), Table(lambda: WEIGHTS.to(torch.float32))
SHOWN, FREE = Table(_shown), Table(lambda: _boards() == 0)
TURN = Table(lambda: _players().unsqueeze(-1).to(torch.int32))
ENDED = Table(lambda: (_outcomes() != 0).unsqueeze(-1))
FIRST, SECOND = (Table(lambda seat=seat: _returns()[:, seat : seat + 1].contiguous()) for seat in (0, 1))  # type: ignore[misc]
TOLD = Table(_told)


class State(NamedTuple):
    """A position."""

    code: Tensor  # [*B] int64: the number of the position in the rules' tables; the empty board is 0

    @property
    def board(self) -> Tensor:
        """int8 ``[*B, 9]``: 0 free, +1 x, -1 o."""
        return BOARD[self.code]

    @property
    def player(self) -> Tensor:
        """int64 ``[*B]``: whose turn it is, 0 or 1."""
        return PLAYER[self.code]

    @property
    def winner(self) -> Tensor:
        """int64 ``[*B]``: 0 or 1, -1 while nobody has won."""
        return WINNER[self.code]


@dataclass(frozen=True)
class TicTacToe(Rules[State]):
    """Three in a row on a board of nine; ``x`` begins.

    The cells, which are the actions::

        0 1 2
        3 4 5
        6 7 8

    - observation: planes ``[3, 3, 3]``: own stones, the other's stones, ones if it is my turn
    - action: a cell
    - reward: +1 for three in a row, -1 for the other
    - ends: with three in a row, or a full board

    >>> rules = TicTacToe()
    >>> state = rules.start(Size([2]))
    >>> rules.legal(rules.play(state, torch.tensor([4, 0]))).sum(-1)
    tensor([8, 8])

    Source: https://en.wikipedia.org/wiki/Tic-tac-toe
    """

    players: ClassVar[tuple[str, ...]] = ("x", "o")
    outcomes: ClassVar[tuple[str, ...]] = ("", "three in a row", "board full")
    alternating: ClassVar[bool] = True
    earned_at_end: ClassVar[bool] = True

    @property
    def n_actions(self) -> int:
        return 9

    @property
    def longest(self) -> int:
        return 9

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3, 3, 3)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        return State(torch.zeros(batch_size, dtype=torch.int64, device=device))

    def position(self, board: Tensor) -> State:
        """The positions with these boards, ``[*B, 9]``: 0 free, +1 x, -1 o."""
        return State(NUMBERED[(board.long() % 3 * WEIGHTS.to(board.device)).sum(-1)])

    def player(self, state: State) -> Tensor:
        return PLAYER[state.code]

    def legal(self, state: State) -> Tensor:
        return LEGAL[state.code]

    def permits(self, state: State, action: Tensor) -> Tensor:
        within = action.clamp(0, 8)
        return (AFTER[torch.add(within, state.code, alpha=9)] >= 0) & (within == action)

    def pick(self, state: State, unit: Tensor) -> Tensor:
        if for_numba(state.code) and unit.dtype == torch.float32:
            found = torch.empty(unit.shape, dtype=torch.int64)
            kernels().look_up_pick(COUNT.array, RANKED.array, *map(as_rows, (state.code, unit, found)))
            return found
        rank = (COUNT[state.code] * unit).to(torch.int64)
        return RANKED[torch.add(rank, state.code, alpha=9)].to(torch.int64)

    def pick_from(self, state: State, key: Tensor, at: int, lanes: tuple[int, int]) -> Tensor | None:
        if not for_numba(state.code):
            return None
        found = torch.empty(key.shape, dtype=torch.int64)
        tables = COUNT.array, RANKED.array, PLAYER.array
        kernels().look_up_pick_from(*tables, as_rows(state.code), as_rows(key), at, lanes, as_rows(found))
        return found

    def play(self, state: State, action: Tensor) -> State:
        after = AFTER[torch.add(action, state.code, alpha=9)]
        return State(torch.where(after < 0, state.code, after))

    def over(self, state: State) -> Tensor:
        return OVER[state.code]

    def returns(self, state: State) -> Tensor:
        return RETURNS[state.code]

    def outcome(self, state: State) -> Tensor:
        return OUTCOME[state.code]

    def observe(self, state: State) -> Tensor:
        """Planes ``[3, 3, 3]``: own stones, the other's stones, ones if it is my turn; bool ``[*B, 2, 3, 3, 3]``."""
        return PLANES[state.code]

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``x`` and ``o``; free cells show their numbers."""
        marks = {0: drawing.faint, 1: drawing.red, -1: drawing.blue}
        cells = [marks[c]({0: str(i), 1: "x", -1: "o"}[c], color) for i, c in enumerate(BOARD[state.code].tolist())]
        return "\n---+---+---\n".join(" " + " | ".join(cells[row : row + 3]) for row in (0, 3, 6))

    def svg(self, state: State) -> str:
        """The board with crosses and circles."""
        picture = drawing.Picture(3, 3)
        for x in (1, 2):
            picture.line((x, 0.1), (x, 2.9))
            picture.line((0.1, x), (2.9, x))
        for cell, stone in enumerate(BOARD[state.code].tolist()):
            row, column = divmod(cell, 3)
            if stone > 0:
                picture.cross((column + 0.5, row + 0.5), drawing.RED)
            elif stone < 0:
                picture.ring((column + 0.5, row + 0.5), drawing.BLUE)
            else:
                picture.text((column + 0.5, row + 0.5), str(cell), drawing.FAINT)
        return picture.svg()


class TicTacToeEnv(TurnBasedEnv[State]):
    """Tic-tac-toe with TorchRL's keys, for any batch of boards.

    | key | shape | meaning |
    |---|---|---|
    | `board` | int32 `[*B, 3, 3]` | -1 free, 1 the player to move, 0 the other |
    | `turn` | int32 `[*B, 1]` | whose turn it is: 0 or 1 |
    | `mask` | bool `[*B, 9]` | free cells |
    | `action` | int64 `[*B]` | a cell |
    | `("player0", "reward")`, `("player1", "reward")` | `[*B, 1]` | +1 for the winner, -1 for the loser |

    Args:
        single_player: the env plays player 1, at random or with ``opponent``. What a random one draws from travels in the
            data as ``opponent_rng``.
        device: where the data live.
        layout: ``"torchrl"``, or ``"grouped"`` for the keys that all games have here: then this makes a
            :class:`~marlenv.GameEnv`.
        opponent: a policy for player 1; reads and writes the same keys.
        illegal: what an illegal move does: ``"raise"`` an error, or ``"lose"`` the game.

    >>> env = TicTacToeEnv()
    >>> env.rollout(9, actions=torch.tensor([0, 3, 1, 4, 2]))["next", "player1", "reward"][-1]
    tensor([-1.])
    """

    def __new__(cls, *, layout: str = "torchrl", **options: Any) -> Any:
        """The env of a layout."""
        if layout == "grouped":
            return GameEnv(TicTacToe(), **_grouped(options))
        return super().__new__(cls)

    def __init__(
        self,
        *,
        single_player: bool = False,
        device: torch.device | str | int | None = None,
        layout: str = "torchrl",
        opponent: Any = None,
        illegal: Illegal = "raise",
        batch_size: Any = None,
    ) -> None:
        self.single_player = single_player or opponent is not None
        super().__init__(
            TicTacToe(),
            batch_size=batch_size,
            device=device,
            illegal=illegal,
            opponent=opponent if opponent is not None else "random" if single_player else None,
        )
        shape = self.batch_size
        seen = Composite(
            board=Unbounded((*shape, 3, 3), dtype=torch.int32),
            turn=Categorical(2, (*shape, 1), dtype=torch.int32),
            mask=Categorical(2, (*shape, 9), dtype=torch.bool),
            shape=shape,
        )
        if self.opponent == "random":
            seen[LUCK] = Unbounded((*shape, 2), dtype=torch.int64)
        self.observation_spec, self.state_spec = seen, seen.clone()
        self.action_spec = Categorical(9, shape)
        reward = {(f"player{i}", "reward"): Unbounded((*shape, 1)) for i in range(2)}
        self.full_reward_spec = Composite(reward, shape=shape)
        self.full_done_spec = self.flags()
        self._pages = Pages()

    def read(self, tensordict: TensorDictBase) -> State:
        """The positions in the data."""
        shown, turn = get(tensordict, "board"), get(tensordict, "turn")
        if shown is None or turn is None:
            raise KeyMissing(
                f"TicTacToeEnv: expected 'board' and 'turn', the data has {sorted(map(str, tensordict.keys()))}"
            )
        if (
            shown.is_cpu and turn.numel() == 1 and not torch.compiler.is_compiling()
        ):  # in a third of the time of tensors
            number = BOARDS * turn.item() + sum(map(mul, POWERS, shown.reshape(-1).tolist())) + (BOARDS - 1) // 2
            if 0 <= number < 2 * BOARDS:
                return State(FROM_SHOWN.on(CPU)[int(number)].expand(shown.shape[:-2]).clone())
        elif shown.is_cpu and shown.dtype == turn.dtype == torch.int32:
            code = torch.empty(shown.shape[:-2], dtype=torch.int64)
            rows = for_numba(code) and (as_rows(shown, 9), as_rows(turn), as_rows(code))
            if rows and kernels().tic_tac_toe_read(FROM_SHOWN.array, *rows):
                return State(code)
        digits = shown.flatten(-2).to(torch.float32) @ SHOWN_WEIGHTS.on(shown.device)
        number = torch.add(digits.to(torch.int64) + (BOARDS - 1) // 2, turn.squeeze(-1), alpha=BOARDS)
        try:
            return State(FROM_SHOWN[number])
        except IndexError:
            raise NotInSpec(
                f"TicTacToeEnv: a board holds -1 (free), 1 (the player to move) and 0 (the other), a turn is 0 or 1; got "
                f"boards from {int(shown.min())} to {int(shown.max())}, turns from {int(turn.min())} to {int(turn.max())}"
            ) from None

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """What a random opponent draws from, if there is one."""
        value: Tensor | None = get(tensordict, name) if name == LUCK and self.opponent == "random" else None
        return value

    def act(self, tensordict: TensorDictBase, state: State) -> Tensor:
        """The cells that were chosen."""
        return tensordict.get("action")

    def choose(self, tensordict: TensorDictBase, state: State, action: Tensor) -> TensorDictBase:
        """Writes the cells to play."""
        put(tensordict, "action", action)
        return tensordict

    def _unit(self, state: State, draws: Draws) -> Tensor:
        return draws.one(None)

    @property
    def _lanes_of_seats(self) -> tuple[int, int]:
        return 0, 0

    def write(self, moment: Moment[State], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a moment, without root flags."""
        out = self._row(moment.state, rewards=moment.rewards is not None)
        data = out._tensordict
        if moment.luck is not None:
            [data[LUCK]] = separate([moment.luck], held)
        if moment.rewards is not None:
            for i in range(2):
                data[f"player{i}"]._tensordict["reward"] = moment.rewards[..., i : i + 1]
        return out

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step on the CPU in which all moves are legal and nothing is over: two looks into tables."""
        action = get(tensordict, "action")
        if self.opponent is not None or action.device.type != "cpu" or not action.numel():
            return None
        code = self.read(tensordict).code
        if for_numba(action, code):
            return self._turned(code, action, ahead=ahead)
        if action.numel() == 1:
            cell = int(action)
            place = int(AFTER.array[9 * int(code) + cell]) if 0 <= cell <= 8 else -1
            return None if place < 0 else (self._row(State(torch.full_like(code, place))), None)
        low, high = action.aminmax()
        if low.item() < 0 or high.item() > 8:
            return None
        after = AFTER[torch.add(action, code, alpha=9)]
        return None if after.min().item() < 0 else (self._row(State(after.to(torch.int64))), None)

    def _turned(self, code: Tensor, action: Tensor, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """The same in one call, looking ahead where that is asked for."""
        batch = code.shape
        data, (rows, _) = self._room(batch)
        begun, (begun_rows, _) = self._room(batch, rewards=False) if ahead else (data, (rows, _))
        chosen = as_rows(code), as_rows(action)
        what = kernels().tic_tac_toe_turn(AFTER.array, TOLD.array, *chosen, rows, ahead, begun_rows)
        return (data, begun if ahead and what == SOME_OVER else None) if what else None

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those that are marked with an empty board."""
        if self.opponent is not None:
            return None
        return self._row(State(torch.where(mask, 0, self.read(tensordict).code)), rewards=False)

    def _row(self, state: State, *, rewards: bool = True) -> TensorDict:
        """What follows from positions: all data, with the returns as rewards if there are any."""
        tables = (SHOWN, TURN, FREE, ENDED, ENDED, *((FIRST, SECOND) if rewards else ()))
        shown, turn, free, terminated, done, *earned = (table[state.code] for table in tables)
        return self._laid_out(shown, turn, free, terminated, done, torch.zeros_like(done), *earned)

    def _room(self, batch: Size, *, rewards: bool = True) -> tuple[TensorDict, tuple[tuple[int, ...], list[Tensor]]]:
        """Data that are to be written; the addresses of all that is told of positions, and the tensors there."""

        def page() -> tuple[TensorDict, tuple[tuple[int, ...], list[Tensor]]]:
            kinds = (
                (9, torch.int32),
                (1, torch.int32),
                (9, torch.bool),
                *[(1, torch.bool)] * 3,
                *[(1, torch.float32)] * 2,
            )
            rows = [torch.empty((*batch, size), dtype=dtype) for size, dtype in kinds]
            return self._laid_out(*rows[: None if rewards else -2]), (tuple(x.data_ptr() for x in rows), rows)

        return self._pages.take((batch, rewards, self.device), page)

    def _laid_out(self, shown: Tensor, turn: Tensor, free: Tensor, *columns: Tensor) -> TensorDict:
        """Data of boards, turns and masks, of terminated, done and truncated, and of two rewards if there are any."""
        batch, device = turn.shape[:-1], self.device
        data: dict[str, Any] = {"board": shown.unflatten(-1, (3, 3)), "turn": turn, "mask": free}
        data |= zip(("terminated", "done", "truncated"), columns, strict=False)
        data |= {f"player{i}": new({"reward": x}, batch, device) for i, x in enumerate(columns[3:])}
        return new(data, batch, device)


def _grouped(options: dict[str, Any]) -> dict[str, Any]:
    single = options.pop("single_player", False)
    return {**options, "opponent": options.get("opponent") or ("random" if single else None)}
