"""Tic-tac-toe with TorchRL's keys."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, NotInSpec, flag
from marlenv.games.env.draws import Draws
from marlenv.games.env.fused_rollout import RolloutsInMemory
from marlenv.games.env.time_step import TimeStep
from marlenv.games.env.turn_based import OPPONENT_RNG, PLIES, Opponent
from marlenv.games.fast.compiled import SOME_OVER, kernels, played, worth_compiling
from marlenv.games.fast.data_pool import DataPool
from marlenv.games.fast.step_buffers import Blank, new_memory
from marlenv.games.parts.tables import Table
from marlenv.games.tictactoe.positions import (
    AFTER,
    BOARDS,
    COUNT,
    CPU,
    NUMBERED,
    POWERS,
    RANKED,
    WEIGHTS,
    State,
    boards,
    outcomes,
    players,
    returns,
)
from marlenv.games.tictactoe.rules import TicTacToe
from marlenv.keys import NestedKey
from marlenv.specs import Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new, put, separate
from marlenv.threads import shared

DRAWING, PLAYING = 5, 10
"""Nanoseconds that a row takes one thread, about."""


def _from_shown() -> Tensor:
    """The position of a shown board: a number of digits one more than its cells, plus 3**9 where o is to move."""
    digits = torch.arange(BOARDS).unsqueeze(-1) // WEIGHTS % 3  # 0 free, 1 the other, 2 the player to move
    by_player = [torch.tensor([[0, 2, 1], [0, 1, 2]])[player][digits] for player in (0, 1)]
    return NUMBERED.on(CPU)[torch.cat([(cells * WEIGHTS).sum(-1) for cells in by_player])].to(torch.int16)


def _shown() -> Tensor:
    """The board as TorchRL's keys say it: -1 free, 1 the player to move, 0 the other; int32 ``[3**9, 3, 3]``."""
    own = (1 - 2 * players()).unsqueeze(-1)
    return torch.where(boards() == 0, -1, (boards() == own).int()).to(torch.int32).unflatten(-1, (3, 3))


def _data() -> Tensor:
    """All entries of each position side by side, as the compiled step copies them; bytes ``[3**9, 64]``.

    36 of the board, and 4 each of the turn and both rewards; 9 of the free cells; done.
    """
    order = ("board", "turn", FIRST, SECOND, "mask", "done")
    parts = [ENTRIES[name].on(CPU).flatten(1).view(torch.uint8) for name in order]
    whole = torch.cat(parts, -1)
    return torch.nn.functional.pad(whole, (0, 64 - whole.shape[-1]))


FROM_SHOWN, SHOWN_WEIGHTS, DATA = Table(_from_shown), Table(lambda: WEIGHTS.to(torch.float32)), Table(_data)
FIRST, SECOND = ("player0", "reward"), ("player1", "reward")
_ended = Table(lambda: (outcomes() != 0).unsqueeze(-1))
ENTRIES: dict[NestedKey, Table] = {
    "board": Table(_shown),
    "turn": Table(lambda: players().unsqueeze(-1).to(torch.int32)),
    "mask": Table(lambda: boards() == 0),
    "terminated": _ended,
    "done": _ended,
    "truncated": Table(lambda: torch.zeros(BOARDS, 1, dtype=torch.bool)),
    FIRST: Table(lambda: returns().narrow(1, 0, 1).clone()),
    SECOND: Table(lambda: returns().narrow(1, 1, 1).clone()),
}
"""The data of every position, in the order in which the compiled step takes them; rewards are last."""


class TicTacToeEnv(RolloutsInMemory[State]):
    """Tic-tac-toe with TorchRL's keys, for any batch of boards.

    ``make("tic_tac_toe")`` has the keys that all games have here.

    | key | shape | meaning |
    |---|---|---|
    | `board` | int32 `[*B, 3, 3]` | -1 free, 1 the player to move, 0 the other |
    | `turn` | int32 `[*B, 1]` | whose turn it is: 0 or 1 |
    | `mask` | bool `[*B, 9]` | free cells |
    | `action` | int64 `[*B]` | a cell |
    | `("player0", "reward")`, `("player1", "reward")` | `[*B, 1]` | +1 for the winner, -1 for the loser |

    Args:
        single_player: the env plays player 1, at random or with ``opponent``. What a random one draws from travels in
            the data as ``opponent_rng``.
        opponent: a policy for player 1; reads and writes the same keys.
        seat: 1 where the env plays player 0 instead.
        **options: those of :class:`~marlenv.games.TurnBasedEnv`: ``batch_size, device, illegal, max_plies, seed``. With
            ``max_plies`` the number of moves travels in the data as ``plies_played``.

    >>> env = TicTacToeEnv()
    >>> env.rollout(9, actions=torch.tensor([0, 3, 1, 4, 2]))["next", "player1", "reward"][-1]
    tensor([-1.])
    """

    def __init__(
        self,
        *,
        single_player: bool = False,
        opponent: Opponent = None,
        max_plies: int | None = None,
        **options: Any,
    ) -> None:
        self.single_player = flag("TicTacToeEnv", "single_player", single_player) or opponent is not None
        super().__init__(
            TicTacToe(),
            max_plies=max_plies,
            opponent=opponent if opponent is not None else "random" if single_player else None,
            **options,
        )
        self._plain = self.opponent is None and max_plies is None
        shape = self.batch_size
        observation = Composite(
            board=Unbounded((*shape, 3, 3), dtype=torch.int32),
            turn=Categorical(2, (*shape, 1), dtype=torch.int32),
            mask=Categorical(2, (*shape, 9), dtype=torch.bool),
            shape=shape,
        )
        if self.opponent == "random":
            observation[OPPONENT_RNG] = Unbounded((*shape, 2), dtype=torch.int64)
        if max_plies is not None:
            observation[PLIES] = Unbounded((*shape, 1), dtype=torch.int64)
        self.observation_spec, self.state_spec = observation, observation.clone()
        self.action_spec = Categorical(9, shape)
        reward = {(f"player{i}", "reward"): Unbounded((*shape, 1), dtype=torch.float32) for i in range(2)}
        self.full_reward_spec = Composite(reward, shape=shape)
        self.full_done_spec = self.flags()
        self._pool = DataPool()

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
                return State(
                    torch.full(shown.shape[:-2], FROM_SHOWN.array[int(number)], dtype=torch.int64, device="cpu")
                )
        elif (rows := self._for_kernels(tensordict)) is not None:
            code = torch.empty(shown.shape[:-2], dtype=torch.int64, device="cpu")
            if kernels("shown").read(FROM_SHOWN.array, *(x.data_ptr() for x in rows), 0, code.view(-1).numpy()):
                return State(code)
        digits = shown.flatten(-2).to(torch.float32) @ SHOWN_WEIGHTS.on(shown.device)
        number = torch.add(digits.to(torch.int64) + (BOARDS - 1) // 2, turn.squeeze(-1), alpha=BOARDS)
        try:
            return State(FROM_SHOWN[number].to(torch.int64))
        except IndexError:
            raise NotInSpec(
                f"TicTacToeEnv: a board holds -1 (free), 1 (the player to move) and 0 (the other), a turn is 0 or 1; "
                f"got boards from {int(shown.min())} to {int(shown.max())}, turns from {int(turn.min())} to "
                f"{int(turn.max())}"
            ) from None

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """What a random opponent draws from, and how many moves were played where they are limited."""
        held = (name == OPPONENT_RNG and self.opponent == "random") or (name == PLIES and self.max_plies is not None)
        value: Tensor | None = get(tensordict, name) if held else None
        return value.squeeze(-1) if value is not None and name == PLIES else value

    def act(self, tensordict: TensorDictBase, state: State) -> Tensor:
        """The cells that were chosen."""
        action = tensordict.get("action")
        return action if action.dtype == torch.int64 else self.widened(action)

    def choose(self, tensordict: TensorDictBase, state: State, action: Tensor) -> TensorDictBase:
        """Writes the cells to play."""
        put(tensordict, "action", action)
        return tensordict

    def _unit(self, state: State, draws: Draws) -> Tensor:
        return draws.one(None)

    @property
    def _offsets(self) -> tuple[int, int]:
        return 0, 0

    def write(self, step: TimeStep[State], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a time step, without root flags."""
        out = self._looked_up(step.state, rewards=step.rewards is not None)
        data = out._tensordict
        if step.opponent_rng is not None:
            [data[OPPONENT_RNG]] = separate([step.opponent_rng], held)
        if step.plies is not None:
            [data[PLIES]] = separate([step.plies.unsqueeze(-1)], held)
        if step.rewards is not None:
            for i, (group, name) in enumerate((FIRST, SECOND)):
                data[group]._tensordict[name] = step.rewards[..., i : i + 1]
        return out

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step on the CPU in which all moves are legal and nothing is over: two looks into tables."""
        action = get(tensordict, "action")
        if not self._plain or action.device.type != "cpu" or not action.numel():
            return None
        if action.dtype != torch.int64:
            action = self.widened(action)
        rows = self._for_kernels(tensordict)
        if rows is not None:
            return self._compiled_step(*rows, action.contiguous(), tensordict.batch_size, ahead=ahead)
        code = self.read(tensordict).code
        if action.numel() == 1:
            cell = int(action)
            place = int(AFTER.array[9 * int(code) + cell]) if 0 <= cell <= 8 else -1
            return None if place < 0 else self._moved_on(torch.full_like(code, place), ahead=ahead)
        low, high = action.aminmax()
        if low.item() < 0 or high.item() > 8:
            return None
        after = AFTER[torch.add(action, code, alpha=9)]
        return None if after.min().item() < 0 else self._moved_on(after.to(torch.int64), ahead=ahead)

    def _moved_on(self, code: Tensor, *, ahead: bool) -> tuple[TensorDict, TensorDict | None]:
        """The data of positions, and with new games in place of those that are over, if any is and ``ahead``."""
        data = self._looked_up(State(code))
        over = get(data, "done")
        if not ahead or over is None or not over.any():
            return data, None
        return data, self._looked_up(State(torch.where(over.squeeze(-1), 0, code)), rewards=False)

    def _for_kernels(self, tensordict: TensorDictBase) -> tuple[Tensor, Tensor] | None:
        """Boards and turns without gaps in memory, where a kernel should read them; None where not."""
        shown, turn = get(tensordict, "board"), get(tensordict, "turn")
        if shown is None or turn is None or not (shown.is_cpu and turn.is_cpu):
            return None
        count = turn.numel()
        if not (shown.dtype == turn.dtype == torch.int32 and shown.numel() == 9 * count and worth_compiling(count)):
            return None
        return shown.contiguous(), turn.contiguous()

    def _compiled_step(
        self, shown: Tensor, turn: Tensor, action: Tensor, batch: Size, *, ahead: bool
    ) -> tuple[TensorDict, TensorDict | None] | None:
        """The same in one call, with new games in place of those that are over where ``ahead``."""
        data, (rows, _) = self._lend(batch, rewards=True)
        fresh, (restarted, _) = self._lend(batch, rewards=False) if ahead else (None, (rows[:-2], []))
        tables, given = (FROM_SHOWN.array, AFTER.array, DATA.array), (x.data_ptr() for x in (shown, turn, action))
        threads = shared(turn.numel() * PLAYING)
        result = kernels("shown").step(threads, tables, *given, turn.numel(), rows, ahead, restarted)
        return (data, fresh if result == SOME_OVER else None) if result else None

    def fast_action(self, tensordict: TensorDictBase, draws: Draws) -> bool:
        """Free cells in one call, where a kernel reads the boards."""
        rows, keys = self._for_kernels(tensordict), draws.keys
        if rows is None or keys is None:
            return False
        action = torch.empty(tensordict.batch_size, dtype=torch.int64, device="cpu")
        tables, given = (FROM_SHOWN.array, COUNT.array, RANKED.array), (x.data_ptr() for x in rows)
        threads = shared(keys.size * DRAWING)
        if not kernels("shown").draw(threads, tables, *given, keys, draws.at, action.data_ptr()):
            return False
        draws.move()
        put(tensordict, "action", action)
        return True

    def fuses(self, batch: Size) -> bool:
        """Whether a rollout can be written into memory, step after step."""
        return type(self) is TicTacToeEnv and self._plain and worth_compiling(batch.numel())

    def blank_buffers(self, blank: Blank) -> list[Tensor]:
        """Memory for each of :data:`ENTRIES`."""
        examples = [table.on(CPU)[0] for table in ENTRIES.values()]
        return [blank((), tuple(one.shape), one.dtype) for one in examples]

    def data_of(self, buffers: list[Tensor], *, rewards: bool) -> TensorDict:
        """The data over memory of a step."""
        return self._planted(buffers if rewards else buffers[:-2])

    def blank_actions(self, blank: Blank) -> list[Tensor]:
        """Memory for cells."""
        return [blank((), (), torch.int64)]

    def put_actions(self, data: TensorDict, actions: Sequence[Tensor]) -> None:
        """Writes cells into the data."""
        put(data, "action", actions[0])

    def fast_rollout(
        self, steps: int, before: list[Tensor], after: list[Tensor], actions: list[Tensor], *, stops: bool
    ) -> tuple[int, int]:
        """Random play in one call."""
        draws, threads = self._draws_of(before[1].shape[:-1]), shared(steps * before[1].numel() * PLAYING)
        tables = tuple(table.array for table in (FROM_SHOWN, AFTER, DATA, COUNT, RANKED))
        memory = tuple(x.data_ptr() for x in before[:-2]), tuple(x.data_ptr() for x in after), actions[0].data_ptr()
        drawing = draws.keys, draws.at, draws.width
        count, why = played(kernels("shown").rollout(threads, steps, *memory, tables, drawing, stops), steps)
        draws.move(count)
        return count, why

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those of ``mask`` with an empty board."""
        if not self._plain:
            return None
        return self._looked_up(State(torch.where(mask, 0, self.read(tensordict).code)), rewards=False)

    def _looked_up(self, state: State, *, rewards: bool = True) -> TensorDict:
        """All data of positions, with the returns as rewards if there are any."""
        tables = ENTRIES.values() if rewards else list(ENTRIES.values())[:-2]
        return self._planted([table[state.code] for table in tables])

    def _lend(self, batch: Size, *, rewards: bool) -> tuple[TensorDict, tuple[tuple[int, ...], list[Tensor]]]:
        """Data to be written, the addresses of all entries, and the tensors there.

        Without rewards for games that begin.
        """

        def make() -> tuple[TensorDict, tuple[tuple[int, ...], list[Tensor]]]:
            rows = self.blank_buffers(new_memory(batch))
            rows = rows if rewards else rows[:-2]
            return self._planted(rows), (tuple(x.data_ptr() for x in rows), rows)

        return self._pool.take((batch, rewards, self.device), make)

    def _planted(self, values: Sequence[Tensor]) -> TensorDict:
        """Data of the values of :data:`ENTRIES`."""
        batch, device = values[1].shape[:-1], self.device
        data: dict[str, Any] = {}
        for key, value in zip(ENTRIES, values, strict=False):
            if isinstance(key, str):
                data[key] = value
            else:
                data[key[0]] = new({key[1]: value}, batch, device)
        return new(data, batch, device)
