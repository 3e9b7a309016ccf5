"""Transforms that know where in its episode a row is."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from marlenv.errors import SpecError
from marlenv.keys import NestedKey, beside
from marlenv.specs import Composite, Unbounded
from marlenv.transforms.base import Kind, Transform


class _PerLevel(Transform):
    """A transform with one entry beside the done flags of every level. Abstract."""

    def join(self, env: object) -> None:
        """Finds the levels."""
        self.levels: list[NestedKey] = [group[0] for group in env.done_keys_groups]  # type: ignore[attr-defined]


class StepCounter(_PerLevel):
    """Counts the steps of the episode and cuts it off after ``max_steps``.

    Writes ``step_count`` (int64, the shape of the done flag) beside the done flags of every level: 0 after a reset, 1
    after the first step. With ``max_steps`` it adds ``truncated`` flags, and ``done`` becomes the union. A time limit
    truncates; what has terminated by itself does not become truncated.

    Args:
        max_steps: the longest episode; no limit when left out.
        truncated_key: the name of the flag.
        step_count_key: the name of the counter.
        update_done: whether ``done`` becomes the union.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(max_steps=9), StepCounter(max_steps=2))
    >>> env.rollout(5)["next", "truncated"].squeeze(-1)
    tensor([False,  True])
    """

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str = "truncated",
        step_count_key: str = "step_count",
        update_done: bool = True,
    ) -> None:
        super().__init__()
        if max_steps is not None and max_steps < 1:
            raise SpecError(f"StepCounter: max_steps must be at least 1, got {max_steps}")
        if not isinstance(truncated_key, str) or not isinstance(step_count_key, str):
            raise SpecError("StepCounter: the keys are names (strings); they are written beside every done flag")
        self.max_steps, self.update_done = max_steps, update_done
        self.truncated_key, self.step_count_key = truncated_key, step_count_key

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the counters, and the flags if there is a limit."""
        for key in self.levels:
            flag = specs["done"][key]
            count = Unbounded(flag.shape, dtype=torch.int64, device=flag.device)
            specs["observation"][beside(key, self.step_count_key)] = count
            if self.max_steps is not None:
                specs["done"][beside(key, self.truncated_key)] = flag.clone()

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            done = tensordict_reset.get(key)
            tensordict_reset.set(beside(key, self.step_count_key), torch.zeros_like(done, dtype=torch.int64))
            if self.max_steps is not None and beside(key, self.truncated_key) not in tensordict_reset.keys(True):
                tensordict_reset.set(beside(key, self.truncated_key), torch.zeros_like(done))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            where = beside(key, self.step_count_key)
            count = tensordict.get(where) + 1
            next_tensordict.set(where, count)
            if self.max_steps is None:
                continue
            cut = count >= self.max_steps
            terminated = next_tensordict.get(beside(key, "terminated"), None)
            if terminated is not None:
                cut = cut & ~terminated
            before = next_tensordict.get(beside(key, self.truncated_key), None)
            cut = cut if before is None else cut | before
            next_tensordict.set(beside(key, self.truncated_key), cut)
            if self.update_done:
                done = beside(key, "done")
                next_tensordict.set(done, next_tensordict.get(done) | cut)
        return next_tensordict

    def __repr__(self) -> str:
        return f"StepCounter(max_steps={self.max_steps})"


class InitTracker(_PerLevel):
    """Marks the first step of every episode: ``is_init`` beside the done flags, True after a reset.

    Args:
        init_key: the name of the flag.

    >>> TransformedEnv(marlenv.testing.CountingEnv(), InitTracker()).rollout(3)["is_init"].squeeze(-1)
    tensor([ True, False, False])
    """

    def __init__(self, init_key: str = "is_init") -> None:
        super().__init__()
        if not isinstance(init_key, str):
            raise SpecError(
                f"InitTracker: init_key is a name (string), written beside every done flag; got {init_key!r}"
            )
        self.init_key = init_key

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the flags."""
        for key in self.levels:
            where = beside(key, self.init_key)
            if where in specs["observation"]:
                raise SpecError(f"InitTracker: the env observes {where!r} already; choose another init_key")
            specs["observation"][where] = specs["done"][key].clone()

    def _reset(self, tensordict: TensorDictBase | None, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            tensordict_reset.set(beside(key, self.init_key), torch.ones_like(tensordict_reset.get(key)))
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.levels:
            next_tensordict.set(beside(key, self.init_key), torch.zeros_like(next_tensordict.get(key)))
        return next_tensordict
