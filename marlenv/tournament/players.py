"""Who plays: anything that chooses an action for each of many positions at once.

``R`` are the rows that a player is asked about: games in which it is to move. ``A`` are the agents of a seat, where
seats of an env have several; the dimension is missing elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from marlenv.errors import BadIndex, DtypeError, IllegalAction, KeyMissing, ShapeError, SpecError, Unsupported
from marlenv.games.rules import picked
from marlenv.keys import NestedKey, nested, path
from marlenv.tournament.turns import Turn

RESIGN, CRASH, TIME = -1, -2, -3
"""What a player answers in place of an action that it does not have: it gives up, it failed, it took too long."""


class Player(Protocol):
    """Anything that chooses actions: called with a :class:`Turn`, returns int64 ``[R]``, or what the env's actions are.

    A player with an attribute ``memory``, a tensordict without batch dimensions, gets one of its own in ``turn.memory``
    for each game and seat; what it writes there it finds at its next turn of the game. One with a method ``check`` is
    asked before anything is played: it is given the rules, None in an env, and raises Unsupported if it cannot play.
    """

    def __call__(self, turn: Turn, /) -> Tensor:
        """The action in each row."""


def random_player(turn: Turn) -> Tensor:
    """Plays any legal action, all equally likely; any within the bounds where actions are numbers."""
    turn = turn.lent()
    if turn.rules is not None and not turn.rules.simultaneous:
        return turn.rules.pick(turn.state, turn.rng.uniform())
    if turn.legal is not None:
        return picked(turn.legal, turn.rng.uniform(shape=turn.legal.shape[1:-1]))
    spec = turn.spec
    low, high = getattr(spec, "low", None), getattr(spec, "high", None)
    if spec is None or low is None or high is None or not bool(torch.isfinite(low).all() & torch.isfinite(high).all()):
        raise Unsupported(f"random_player: actions have no bounds to choose between, got {spec}; give it bounded ones")
    unit = turn.rng.uniform(shape=spec.shape[1:], dtype=spec.dtype)
    return low + unit * (high - low)


class TabularPlayer:
    """Plays by a table of chances.

    Args:
        row: says which row of the table each position is in; takes a :class:`Turn`, returns int64 ``[R]``.
        table: ``[rows, n]``, weights of the actions; those of illegal ones are not read.

    Raises:
        SpecError: the table is none, has no column for each action, or there is no such row.
        IllegalAction: a row has no weight on any legal action.

    >>> from marlenv.games import MatrixGame
    >>> mostly_rock = TabularPlayer(lambda turn: torch.zeros_like(turn.seat), torch.tensor([[0.8, 0.1, 0.1]]))
    >>> from marlenv.tournament import Arena, Game
    >>> game = MatrixGame("rock_paper_scissors")
    >>> Arena(game, {"rocky": mostly_rock}).play([Game(0, ("rocky", "rocky"))]).plies
    tensor([1])
    """

    def __init__(self, row: Callable[[Turn], Tensor], table: Tensor) -> None:
        if not isinstance(table, Tensor) or table.is_complex():
            got = table.dtype if isinstance(table, Tensor) else type(table).__name__
            raise SpecError(f"TabularPlayer: expected a tensor of weights [rows, n], real numbers, got {got}")
        if table.ndim != 2 or not bool(((table >= 0) & table.isfinite()).all()):
            raise SpecError(
                f"TabularPlayer: expected a table of weights [rows, n], finite and none negative, got "
                f"{list(table.shape)}"
            )
        self.row, self.table = row, table

    def __call__(self, turn: Turn) -> Tensor:
        legal = turn.lent().legal
        row = self._row(turn, legal)
        if legal is None:
            return turn.rng.choice(self.table[row])
        weights = self.table[row] * legal
        action = turn.rng.choice(weights)
        nothing = weights.gather(-1, action.unsqueeze(-1)).squeeze(-1) == 0
        if bool(nothing.any()) and bool((nothing := nothing & legal.any(-1)).any()):  # agents whose action is not read
            raise IllegalAction(
                f"TabularPlayer: row {int(row[nothing][0])} of the table has no weight on any legal action, where "
                f"{legal[nothing][0].nonzero().flatten().tolist()[:20]} are legal"
            )
        return action

    def _row(self, turn: Turn, legal: Tensor | None) -> Tensor:
        """The row of the table for each position."""
        row = torch.as_tensor(self.row(turn))
        if row.dtype == torch.bool or row.is_floating_point() or row.is_complex():
            raise DtypeError(f"TabularPlayer: row must return integers, the numbers of rows, got {row.dtype}")
        if legal is not None and (*row.shape, self.table.shape[1]) != tuple(legal.shape):
            raise ShapeError(
                f"TabularPlayer: actions are {list(legal.shape)} (rows, what there is to choose from), got rows "
                f"{list(row.shape)} of a table with {self.table.shape[1]} columns; expected a row for each, and a "
                f"column for each choice"
            )
        low, high = map(int, row.aminmax())
        if low < 0 or high >= len(self.table):
            raise BadIndex(
                f"TabularPlayer: row returned {low if low < 0 else high}, and the table has {len(self.table)} rows"
            )
        return row.to(torch.int64)


class ModulePlayer:
    """Plays what a tensordict module writes, which needs to know nothing of groups or seats.

    Args:
        module: reads ``"observation"`` ``[R, ...]``, ``"action_mask"`` bool ``[R, n]`` and ``"seat"`` int64 ``[R]``
            of a tensordict, and writes the action. In an env it reads what the env shows to the agents of the seat,
            ``[R, ...]``, or ``[R, A, ...]`` where they are several.
        action_key: where it writes it.
        group: the group whose name the module's keys begin with, as policies have them that were trained on an env:
            it then reads ``(group, "observation")`` and writes ``(group, "action")``.
        memory: what a recurrent module keeps from turn to turn, by key: its values when a game begins, without batch
            dimensions (``"hidden": torch.zeros(64)``). The module reads the key, and writes it or ``("next", key)``;
            ``"is_init"`` bool ``[R, 1]`` is True in the first turn of a game.
        observation_dtype: observations that the rules of a game give as bool come as this: what the env had that a
            policy was trained on, see :class:`~marlenv.GameEnv`. Those of chess are 23 planes, and its masks bool; the
            words that its env shows are ``board`` and ``moves`` of ``turn.state``, for players that are functions.

    Raises:
        SpecError: the module goes on from what it wrote at its last turn, and ``memory`` has no such key.

    >>> player = ModulePlayer(lambda td: td.set("action", td["action_mask"].int().argmax(-1)))
    >>> from marlenv.games import TicTacToe
    >>> from marlenv.tournament import Arena, Game
    >>> Arena(TicTacToe(), {"first": player}).play([Game(0, ("first", "first"))]).returns
    tensor([[ 1., -1.]])
    """

    def __init__(
        self,
        module: Callable[[TensorDictBase], TensorDictBase],
        action_key: NestedKey = "action",
        *,
        group: NestedKey = (),
        memory: Mapping[str, Tensor] | None = None,
        observation_dtype: torch.dtype = torch.float32,
    ) -> None:
        self.module, self.observation_dtype = module, observation_dtype
        self._front = (group,) if isinstance(group, str) else tuple(group)
        self.action_key = action_key
        self._kept = tuple(memory or ())
        self._check_memory()
        self.memory: TensorDictBase | None = None
        if memory:
            self.memory = TensorDict({**memory, "is_init": torch.ones(1, dtype=torch.bool)})

    def _check_memory(self) -> None:
        """Raises where the keys of the module say that it is recurrent, and nothing is kept for it."""
        if not isinstance(self.module, TensorDictModuleBase):
            return
        front, written = self._front, {path(key) for key in self.module.out_keys}
        read = [path(key)[len(front) :] for key in self.module.in_keys if path(key)[: len(front)] == front]
        states = [nested(key) for key in read if {("next", *front, *key), (*front, "next", *key)} & written]
        lost = [key for key in states if key not in self._kept]
        if lost or (("is_init",) in read and not self._kept):
            raise SpecError(
                f"ModulePlayer: the module is recurrent, it reads {lost or 'is_init'}; pass what it keeps from turn to "
                f"turn, memory={{{', '.join(f'{key!r}: torch.zeros(...)' for key in lost or ['hidden'])}}}, as it is "
                f"when a game begins, without batch dimensions"
            )

    def __call__(self, turn: Turn) -> Tensor:
        data = turn.data.copy()
        if turn.rules is not None and data["observation"].dtype == torch.bool:
            data["observation"] = data["observation"].to(self.observation_dtype)
        if turn.memory is not None:
            data.update(turn.memory)
        if self._front:
            data = TensorDict({nested(self._front): data}, turn.seat.shape)
        given = data.copy()
        try:
            with torch.no_grad():
                out = self.module(data)
        except Exception as error:
            told = [f"{key!r} {value.dtype} {list(value.shape)}" for key, value in given.items(True, True)]
            error.add_note(f"ModulePlayer: the module was given {', '.join(told)}")
            raise
        action: Any = out.get(self._key(self.action_key), None)
        if action is None:
            raise KeyMissing(f"ModulePlayer: the module wrote no {self.action_key!r}; name its key with action_key=")
        if turn.memory is not None:
            for key in self._kept:
                following = out.get(self._key(("next", key)), None)
                following = out.get(("next", self._key(key)), None) if following is None else following
                turn.memory.set_(key, out.get(self._key(key)) if following is None else following)
            turn.memory["is_init"].fill_(False)
        return torch.as_tensor(action)

    def _key(self, key: Any) -> Any:
        """A key of the module under its group."""
        return nested((*self._front, *((key,) if isinstance(key, str) else key)))
