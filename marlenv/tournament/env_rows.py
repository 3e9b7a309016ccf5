"""The rows of an arena that plays on envs: those of a batched env, or an env for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import SpecError, Unsupported
from marlenv.keys import NestedKey
from marlenv.rng import RowRNG
from marlenv.transforms.env import ROWS

EPISODE = "_episode"  # how many episodes a row began before, where transforms count them


class Rows(ABC):
    """Rows in which games are begun and stepped."""

    data: TensorDictBase
    """The data to choose from, ``[S]``."""

    @abstractmethod
    def count(self, wanted: int) -> int:
        """How many games are played at once, if so many are wanted."""

    @abstractmethod
    def size(self, games: int) -> int:
        """How many rows the data have, if so many games are begun."""

    @abstractmethod
    def begin(self, rows: Tensor, keys: Tensor) -> None:
        """Begins a game in each of some rows, with the randomness of its key; int64 ``[R]`` each."""

    @abstractmethod
    def step(self, data: TensorDictBase, rows: Tensor) -> TensorDictBase:
        """Plays the actions of some rows; what came of it, ``[S]``, zeros elsewhere."""


class BatchRows(Rows):
    """The rows of a batched env, whose randomness, and that of its transforms, is part of its state.

    Args:
        env: with one batch dimension.

    Raises:
        SpecError: its randomness is not, or it does not give its state away.
    """

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.data = env.reset()
        self._rng = _randomness(env, self.data)

    def count(self, wanted: int) -> int:
        return self.env.batch_size[0]

    def size(self, games: int) -> int:
        return self.env.batch_size[0]

    def begin(self, rows: Tensor, keys: Tensor) -> None:
        mask = torch.zeros(self.env.batch_size, dtype=torch.bool)
        mask[rows] = True
        state = self._fresh(self.env.get_state(self.data).clone(), rows, keys)
        data = self.env.set_state(state, mask, self.data)
        self.data = self.env.reset(data.set("_reset", mask.unsqueeze(-1)))

    def _fresh(self, state: TensorDictBase, rows: Tensor, keys: Tensor) -> TensorDictBase:
        """The state in which some rows have drawn nothing yet from the randomness of their keys, and know of no episode
        before.
        """
        rng, number = RowRNG.of(keys, torch.zeros_like(keys)), 0
        for key in list(state.keys(True, True)):
            path, leaf = (key,) if isinstance(key, str) else key, state[key]
            if key == self._rng:
                leaf[rows] = rng.state
            elif ROWS in path and leaf.shape == (*self.env.batch_size, 2):  # a stream of a transform
                leaf[rows], number = rng.fork(0).fork(number).state, number + 1
            elif path[-1].startswith(EPISODE):
                leaf[rows] = -1
        return state

    def step(self, data: TensorDictBase, rows: Tensor) -> TensorDictBase:
        if len(rows) < len(self.data):
            mask = torch.zeros(self.env.batch_size, dtype=torch.bool)
            mask[rows] = True
            data = data.set("_step", mask)
        out = self.env.step(data)
        self.data = self.env.step_mdp(out)
        return out["next"]


class SingleRows(Rows):
    """An env for each row, without batch dimensions or with one row.

    Args:
        first: the env of the first row.
        make: makes those of the others; None if there is to be only one.
    """

    def __init__(self, first: EnvBase, make: Callable[[], EnvBase] | None) -> None:
        self.envs, self._make = [first], make
        self._batched = bool(first.batch_size)
        self._each = [self._reset(first)]
        self._entries = list(self._each[0].keys(True, True))
        self.data = torch.stack(self._each)

    def _reset(self, env: EnvBase) -> TensorDictBase:
        return self._bare(env.reset())

    def _bare(self, data: TensorDictBase) -> TensorDictBase:
        """Data of an env without their batch dimension."""
        return data[0] if self._batched else data

    def count(self, wanted: int) -> int:
        return wanted if self._make is not None else 1

    def size(self, games: int) -> int:
        return games

    def begin(self, rows: Tensor, keys: Tensor) -> None:
        for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
            if row == len(self.envs) and self._make is not None:
                self.envs.append(self._make())
                self._each.append(self._each[0])
            self.envs[row].set_seed(key & 0x7FFFFFFF)
            self._each[row] = self._reset(self.envs[row])
        self.data = torch.stack(self._each)

    def step(self, data: TensorDictBase, rows: Tensor) -> TensorDictBase:
        out = [data[0].empty()] * len(self.envs)
        for row in rows.tolist():
            full = self.envs[row].step(data[row : row + 1] if self._batched else data[row])
            following = self.envs[row].step_mdp(full).select(*self._entries)
            self._each[row], out[row] = self._bare(following), self._bare(full["next"])
        self.data = torch.stack(self._each)
        blank = torch.zeros_like(out[int(rows[0])])
        return torch.stack([blank if x.is_empty() else x for x in out])


def rows_of(env: EnvBase, make: Callable[[], EnvBase] | None) -> Rows:
    """The rows of an arena: those of a batched env, or envs of their own where a function makes one for each.

    Raises:
        SpecError: games of the env cannot be seeded one by one.
    """
    single = not env.batch_size or (make is not None and env.batch_size[0] == 1)
    return SingleRows(env, make) if single else BatchRows(env)


def _randomness(env: EnvBase, data: TensorDictBase) -> NestedKey:
    """Where the randomness of each row stands in the state of an env."""
    try:
        state = env.get_state(data)
        found = [key for key in state.keys(True, True) if (key if isinstance(key, str) else key[-1]) == "rng"]
        if len(found) == 1 and state[found[0]].shape == (*env.batch_size, 2):
            return found[0]
        why = "does not give its randomness away"
    except Unsupported:
        why = "does not give its state away"
    raise SpecError(
        f"Arena: {type(env).__name__} {why}, so games cannot be seeded one by one; give the arena a function that "
        f"makes an env without batch dimensions, or with one row"
    )
