"""Envs whose rows, or whose random numbers, are not their own."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import torch
from planting import OBS, fault
from sound import Sound, changed
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

# --- randomness -----------------------------------------------------------------------------------

GLOBAL = "global_generators_stay_where_they_are"
MAKING = "making_and_seeding_move_no_global_generator"
READ = "global_generators_are_not_read"
SEEDS = "equal_seeds_give_equal_episodes"
fault("torch.rand", GLOBAL, changed("_step", lambda e, td: td[OBS].add_(torch.rand(1))))
fault(
    "numpy.random in step 9", GLOBAL, changed("_step", lambda e, td: td[OBS].add_(np.random.rand()), since=9, only=True)
)
fault("random.random in resets", GLOBAL, changed("_reset", lambda e, td: td[OBS].add_(random.random())))
fault("a draw that nobody reads", GLOBAL, changed("_step", lambda e, td: torch.randn(3) is None or None, since=60))


@fault("torch.manual_seed in _set_seed", MAKING)
class SeedsTorch(Sound):
    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        torch.manual_seed(seed or 0)


@fault("torch.manual_seed in the constructor", MAKING)
class SeedsTorchWhenMade(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        torch.manual_seed(0)


@fault("a draw from torch's generator in the constructor", MAKING)
class DrawsWhenMade(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.offset = float(torch.rand(()))

    def reward(self) -> Tensor:
        return (super().reward() - self.offset).clamp(min=-10)


@fault("numpy.random.seed in the constructor", MAKING)
class SeedsNumpyWhenMade(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        np.random.seed(0)


@fault("random.seed in _set_seed", MAKING)
class SeedsPython(Sound):
    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        random.seed(seed)


fault(
    "the seed of torch's generator is read",
    READ,
    changed("_step", lambda e, td: td[OBS].add_(torch.initial_seed() % 97)),
)
fault("numpy's state is read in step 20", READ, changed("_step", lambda e, td: numpys(td), since=20, only=True))
fault("torch's generator is put back after a draw", READ, changed("_reset", lambda e, td: forked(td)))


def numpys(td: TensorDictBase) -> None:
    """Adds a number that depends on where numpy's generator stands."""
    td[OBS].add_(float(np.random.get_state()[1][0] % 89))  # type: ignore[index]


def forked(td: TensorDictBase) -> None:
    """Draws from torch's generator, and puts it back."""
    with torch.random.fork_rng(devices=[]):
        td[OBS].add_(torch.rand(1))


@fault("a generator that is not seeded", SEEDS)
class NotSeeded(Sound):
    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(int.from_bytes(os.urandom(4), "big"))


@fault("a part that is not seeded", SEEDS)
class PartlySeeded(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.noise = np.random.default_rng()

    def move(self, action: Tensor) -> None:
        super().move(action)
        self.at = self.at + torch.as_tensor(self.noise.normal(size=self.at.shape), dtype=torch.float32)


@fault("state in the class", "envs_do_not_disturb_each_other")
class SharedByAll(Sound):
    ticks = 0

    def move(self, action: Tensor) -> None:
        super().move(action)
        SharedByAll.ticks += 1
        self.at = self.at + 0.001 * SharedByAll.ticks

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        SharedByAll.ticks = 0

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        return super()._get_state(tensordict).set("ticks", torch.full((self.rows,), self.ticks))

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        SharedByAll.ticks = int(state["ticks"][0])
        return super()._set_state(state)


NEWEST: list[int] = [0]


@fault("state in the module", "envs_do_not_disturb_each_other")
class SharedByModule(Sound):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        NEWEST[0] = id(self)
        self.me = id(self)

    def move(self, action: Tensor) -> None:
        super().move(action if NEWEST[0] == self.me else -action)


@fault("another seed than was asked for", "seeds_make_a_chain")
class NoNextSeed(Sound):
    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        super().set_seed(seed, static_seed)
        return seed


# --- rows -----------------------------------------------------------------------------------------

ROWS = "rows_do_not_see_each_other"
PARTIAL = "partial_resets_keep_other_rows"
NUMBER = "rows_do_not_depend_on_their_number"


@fault("row 0 observes row 1", ROWS)
class FirstSeesSecond(Sound):
    def observe(self, ended: Tensor) -> TensorDict:
        out = super().observe(ended)
        if self.rows > 1:
            out["observation"][0] += 0.1 * self.at[1]
        return out


@fault("the last row observes the first in step 50", ROWS)
class LastSeesFirst(Sound):
    def reward(self) -> Tensor:
        reward = super().reward()
        if self.steps == 50:
            reward[-1] = reward[0]
        return reward


@fault("rewards are centred over the batch", ROWS)
class Centred(Sound):
    def reward(self) -> Tensor:
        reward = super().reward()
        return (reward - reward.mean()).clamp(-10, 10)


@fault("observations are normalised over the batch", ROWS)
class Normalised(Sound):
    def observe(self, ended: Tensor) -> TensorDict:
        out = super().observe(ended)
        return out.set("observation", out["observation"] / (1 + out["observation"].abs().max()))


@fault("rewards are divided by the number of rows", NUMBER)
class Divided(Sound):
    def reward(self) -> Tensor:
        return super().reward() / self.rows


@fault("seeds are dealt out by count", NUMBER)
class SeededByCount(Sound):
    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed((seed or 0) * self.rows)


@fault("one row is squeezed away", NUMBER)
class Squeezed(Sound):
    def reward(self) -> Tensor:
        return super().reward().squeeze().unsqueeze(-1)


@fault("_reset ignores its mask", PARTIAL)
class IgnoresMask(Sound):
    def begin(self, where: Tensor) -> None:
        super().begin(torch.ones_like(where))


@fault("_reset minds its mask for its counter only", PARTIAL)
class MindsCounterOnly(Sound):
    def begin(self, where: Tensor) -> None:
        count, limit, counter = self.count, self.limit, self.rng.counter
        super().begin(torch.ones_like(where))
        self.count, self.limit = torch.where(where, 0, count), torch.where(where, self.limit, limit)
        self.rng.counter = torch.where(where, self.rng.counter, counter)


@fault("all rows draw in a partial reset", PARTIAL)
class AllRowsDraw(Sound):
    def begin(self, where: Tensor) -> None:
        super().begin(where)
        self.rng.counter = self.rng.counter.max().expand_as(self.rng.counter).clone()


@fault("one generator draws the starts of all rows", "rows_draw_from_streams_of_their_own")
class OneGenerator(Sound):
    def begin(self, where: Tensor) -> None:
        at = self.at
        super().begin(where)
        drawn = torch.rand(self.rows, 2, 1, generator=self.generator)
        self.at = torch.where(where.reshape(-1, 1, 1), drawn, at)

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        self.generator = torch.Generator().manual_seed(seed or 0)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        state = self.generator.get_state().expand(self.rows, -1)
        return super()._get_state(tensordict).set("generator", state)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.generator.set_state(state["generator"][0].clone())
        return super()._set_state(state)


@fault("one generator draws as often as all rows need", "rows_draw_from_streams_of_their_own")
class DrawsOnDemand(OneGenerator):
    def move(self, action: Tensor) -> None:
        super().move(action)
        torch.rand(int((action > 0).sum()), generator=self.generator)


@fault("rows that go on rest for a step after a reset", PARTIAL)
class Rests(Sound):
    rest: Tensor | None = None

    def begin(self, where: Tensor) -> None:
        super().begin(where)
        self.rest = None if where.all() else ~where

    def move(self, action: Tensor) -> None:
        rest, self.rest = self.rest, None
        super().move(action if rest is None else action * ~rest.reshape(-1, 1, 1))

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        rest = torch.zeros(self.rows, dtype=torch.bool) if self.rest is None else self.rest.clone()
        return super()._get_state(tensordict).set("rest", rest)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        self.rest = state["rest"].clone()
        return super()._set_state(state)
