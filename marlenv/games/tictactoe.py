"""Tic-tac-toe (https://en.wikipedia.org/wiki/Tic-tac-toe) for any batch of boards at once: rules, and TorchRL's env.

Cells are numbered

    0 1 2
    3 4 5
    6 7 8
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.games.rules import Rules
from marlenv.games.turn_based import GameEnv, Illegal, Moment, TurnBasedEnv
from marlenv.rng import RowRNG
from marlenv.specs import Categorical, Composite, Unbounded

LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]]


class State(NamedTuple):
    """A position."""

    board: Tensor  # [*B, 9] int8: 0 empty, +1 stone of player 0, -1 stone of player 1
    player: Tensor  # [*B] int64: whose turn it is
    winner: Tensor  # [*B] int64: 0 or 1, -1 while nobody has won


@dataclass(frozen=True)
class TicTacToe(Rules[State]):
    """Three in a row on a board of nine; ``x`` begins.

    >>> rules = TicTacToe()
    >>> state = rules.start(Size([2]))
    >>> rules.legal(rules.play(state, torch.tensor([4, 0]))).sum(-1)
    tensor([8, 8])
    """

    players: ClassVar[tuple[str, ...]] = ("x", "o")
    outcomes: ClassVar[tuple[str, ...]] = ("", "three in a row", "board full")

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
        turn = torch.zeros(batch_size, dtype=torch.int64, device=device)
        return State(torch.zeros((*batch_size, 9), dtype=torch.int8, device=device), turn, turn - 1)

    def player(self, state: State) -> Tensor:
        return state.player

    def legal(self, state: State) -> Tensor:
        return (state.board == 0) & (state.winner < 0).unsqueeze(-1)

    def play(self, state: State, action: Tensor) -> State:
        stone = (1 - 2 * state.player).to(torch.int8).unsqueeze(-1)
        going = ~self.over(state)
        cell = torch.arange(9, device=action.device) == action.unsqueeze(-1)
        board = torch.where(cell & going.unsqueeze(-1), stone, state.board)
        won = (lines(board) == 3 * stone).any(-1) & going
        return State(
            board, torch.where(going, 1 - state.player, state.player), torch.where(won, state.player, state.winner)
        )

    def over(self, state: State) -> Tensor:
        return (state.winner >= 0) | (state.board != 0).all(-1)

    def returns(self, state: State) -> Tensor:
        score = torch.where(state.winner < 0, 0.0, 1.0 - 2.0 * state.winner)
        return torch.stack((score, -score), -1)

    def outcome(self, state: State) -> Tensor:
        full = torch.where((state.board != 0).all(-1), 2, 0)
        return torch.where(state.winner >= 0, 1, full).to(torch.int8)

    def observe(self, state: State) -> Tensor:
        """Planes ``[3, 3, 3]``: own stones, the other's stones, ones if it is my turn; ``[*B, 2, 3, 3, 3]`` float32."""
        seats = []
        for seat, stone in ((0, 1), (1, -1)):
            mine, theirs = state.board == stone, state.board == -stone
            turn = (state.player == seat).unsqueeze(-1).expand(mine.shape)
            seats.append(torch.stack((mine, theirs, turn), -2))
        planes = torch.stack(seats, -3).to(torch.float32)
        return planes.reshape(*planes.shape[:-1], 3, 3)

    def show(self, state: State, *, color: bool = False) -> str:
        """The board with ``x`` and ``o``; free cells show their numbers."""
        marks = [{0: str(i), 1: "x", -1: "o"}[int(c)] for i, c in enumerate(state.board)]
        if color:
            paint = {"x": "\x1b[1;31mx\x1b[0m", "o": "\x1b[1;34mo\x1b[0m"}
            marks = [paint.get(m, f"\x1b[2m{m}\x1b[0m") for m in marks]
        return "\n---+---+---\n".join(" " + " | ".join(marks[r : r + 3]) for r in (0, 3, 6))


def lines(board: Tensor) -> Tensor:
    """The sums of the eight lines; int8 ``[*B, 8]``."""
    rows = board.unflatten(-1, (3, 3))
    corners = torch.stack(
        (board[..., 0] + board[..., 4] + board[..., 8], board[..., 2] + board[..., 4] + board[..., 6]), -1
    )
    return torch.cat((_sum3(rows.unbind(-1)), _sum3(rows.unbind(-2)), corners), -1)


def _sum3(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] + parts[1] + parts[2]


class TicTacToeEnv(TurnBasedEnv):
    """Tic-tac-toe with TorchRL's keys, for any batch of boards.

    | key | shape | meaning |
    |---|---|---|
    | `board` | int32 `[*B, 3, 3]` | -1 free, 1 the player to move, 0 the other |
    | `turn` | int32 `[*B, 1]` | whose turn it is: 0 or 1 |
    | `mask` | bool `[*B, 9]` | free cells |
    | `action` | int64 `[*B]` | a cell |
    | `("player0", "reward")`, `("player1", "reward")` | `[*B, 1]` | +1 for the winner, -1 for the loser |

    Args:
        single_player: the env plays player 1, at random or with ``opponent``.
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
        self.observation_spec, self.state_spec = seen, seen.clone()
        self.action_spec = Categorical(9, shape)
        reward = {(f"player{i}", "reward"): Unbounded((*shape, 1)) for i in range(2)}
        self.full_reward_spec = Composite(reward, shape=shape)
        self.full_done_spec = self.flags()

    def read(self, tensordict: TensorDictBase) -> State:
        player = tensordict.get("turn").squeeze(-1).long()
        shown = tensordict.get("board").flatten(-2)
        mine = (1 - 2 * player).unsqueeze(-1)
        board = torch.where(shown < 0, 0, torch.where(shown == 1, mine, -mine)).to(torch.int8)
        won = (lines(board).abs() == 3).any(-1)
        return State(board, player, torch.where(won, 1 - player, -1))

    def act(self, tensordict: TensorDictBase, state: State) -> Tensor:
        return tensordict.get("action")  # type: ignore[no-any-return]

    def write(self, moment: Moment[State]) -> TensorDict:
        state = moment.state
        mine = (1 - 2 * state.player).unsqueeze(-1)
        shown = torch.where(state.board == 0, -1, torch.where(state.board == mine, 1, 0)).to(torch.int32)
        batch = state.player.shape
        data: dict[str, Any] = {
            "board": shown.unflatten(-1, (3, 3)),
            "turn": state.player.unsqueeze(-1).to(torch.int32),
            "mask": state.board == 0,
        }
        if moment.rewards is not None:
            for i, reward in enumerate(moment.rewards.unbind(-1)):
                data[f"player{i}"] = TensorDict({"reward": reward.unsqueeze(-1)}, batch_size=batch)
        return TensorDict(data, batch_size=batch)


def _grouped(options: dict[str, Any]) -> dict[str, Any]:
    single = options.pop("single_player", False)
    return {**options, "opponent": options.get("opponent") or ("random" if single else None)}
