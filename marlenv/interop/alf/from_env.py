"""Batched environments of ALF as envs of ours. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.errors import ResetError, SpecError, Unsupported
from marlenv.interop.alf.time_step import TimeStep
from marlenv.specs import Binary, Bounded, Categorical, Composite, TensorSpec, Unbounded

WHO = "from_alf"


class EnvOfAlf(EnvBase):
    """A batched environment of ALF behind our interface; made by :func:`marlenv.from_alf`.

    Args:
        env: of ALF, or one like it.
    """

    def __init__(self, env: Any) -> None:
        self.count = int(env.batch_size)
        super().__init__(batch_size=[self.count])
        self._env = env
        observed = _spec("observation", env.observation_spec(), self.count)
        if not isinstance(observed, Composite):
            observed = Composite(observation=observed, shape=self.batch_size)
        infos = env.env_info_spec() if hasattr(env, "env_info_spec") else {}
        if infos:
            observed["info"] = _spec("env_info", infos, self.count)
        self.waits = self.count > 1 and not hasattr(env, "reset_rows")
        """Whether rows start anew in the step after their last one, when ALF says so."""
        if self.waits:
            observed["mask"] = Binary(shape=(self.count, 1), dtype=torch.bool)
        self._infos = list(infos)
        self.observation_spec = observed
        self.action_spec = _spec("action", env.action_spec(), self.count)
        if isinstance(self.action_spec, Composite):
            raise SpecError(f"{WHO}: entry 'action' is {list(self.action_spec.keys())}; one action is expected")
        rewards = tuple(env.reward_spec().shape) if hasattr(env, "reward_spec") else ()
        self.reward_spec = Unbounded((self.count, *(rewards or (1,))))
        self.done_spec = Composite(
            {name: Binary(shape=(self.count, 1), dtype=torch.bool) for name in ("done", "terminated", "truncated")},
            shape=self.batch_size,
        )
        self._over = torch.zeros(self.count, dtype=torch.bool)
        self._now = TimeStep()

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        flags = None if tensordict is None else tensordict.get("_reset", None)
        rows = torch.ones(self.count, dtype=torch.bool) if flags is None else flags.reshape(self.count).cpu()
        if bool(rows.all()) or self._now.step_type == ():
            self._now = self._env.reset()
        elif not self.waits:
            self._now = self._env.reset_rows(rows)
        else:
            self._check_resets(rows)
        self._over = self._over & ~rows
        return TensorDict(self._observed(), self.batch_size)

    def _check_resets(self, rows: Tensor) -> None:
        """Raises where rows are to start anew that ALF does not start anew."""
        ready = self._over & (self._now.is_last() | self._now.is_first()).cpu()
        if bool((rows & ~ready).any()):
            raise ResetError(
                f"{WHO}: the rows of {type(self._env).__name__} start anew by themselves in the step after their last "
                f"one, got a reset of rows {(rows & ~ready).nonzero().flatten().tolist()}, which are not over; "
                f"reset all rows, or those that are done"
            )

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        flags = tensordict.get("_step", None)
        waiting = torch.zeros(self.count, dtype=torch.bool) if flags is None else ~flags.reshape(self.count).cpu()
        if bool((waiting & ~self._over).any()):
            raise Unsupported(
                f"{WHO}: all rows of an environment of ALF are stepped at once, got a '_step' that leaves out rows "
                f"{(waiting & ~self._over).nonzero().flatten().tolist()}, which are not done"
            )
        self._now = now = self._env.step(tensordict.get("action"))
        over = torch.as_tensor(now.is_last()).reshape(self.count, 1)
        on = (torch.as_tensor(now.discount) != 0).reshape(self.count, 1)
        self._over = over.reshape(self.count).cpu() | waiting
        data = self._observed()
        data["reward"] = torch.as_tensor(now.reward).to(torch.float32).reshape(self.reward_spec.shape).clone()
        data |= {"done": over, "terminated": over & ~on, "truncated": over & on}
        return TensorDict(data, self.batch_size)

    def _observed(self) -> dict[str, Any]:
        """What is observed now; ``mask`` says whose action the next step reads."""
        nest = self._now.observation
        data = _values(nest if isinstance(nest, dict) else {"observation": nest}, self.batch_size)
        if self._infos:
            data["info"] = TensorDict(_values(self._now.env_info, self.batch_size), self.batch_size)
        if self.waits:
            data["mask"] = ~torch.as_tensor(self._now.is_last()).reshape(self.count, 1)
        return data

    def _set_seed(self, seed: int | None) -> None:
        if hasattr(self._env, "seed"):
            self._env.seed(seed)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Closes the environment."""
        if not self.is_closed and hasattr(self._env, "close"):
            self._env.close()
        super().close(raise_if_closed=raise_if_closed)


def _values(nest: Any, batch: Size) -> dict[str, Any]:
    """A nest of ALF's as data of their own, since an environment may write into its own again."""
    return {
        name: TensorDict(_values(value, batch), batch) if isinstance(value, dict) else torch.as_tensor(value).clone()
        for name, value in nest.items()
    }


def _spec(key: str, spec: Any, rows: int) -> TensorSpec:
    """A nest of ALF's specs as one of ours, with rows."""
    if isinstance(spec, dict):
        return Composite({name: _spec(f"{key}/{name}", one, rows) for name, one in spec.items()}, shape=(rows,))
    if not hasattr(spec, "shape") or not hasattr(spec, "dtype"):
        raise SpecError(f"{WHO}: entry {key!r} is {type(spec).__name__}; nests of ALF are dicts of specs here")
    shape, dtype = (rows, *spec.shape), spec.dtype
    low, high = (getattr(spec, name, None) for name in ("minimum", "maximum"))
    if dtype == torch.bool:
        return Binary(shape=shape, dtype=dtype)
    if low is None or high is None:
        return Unbounded(shape, dtype=dtype)
    low, high = (torch.as_tensor(bound, dtype=dtype) for bound in (low, high))
    if not dtype.is_floating_point and low.numel() == high.numel() == 1 and int(low) == 0:
        return Categorical(int(high) + 1, shape, dtype=dtype)
    return Bounded(low.expand(shape).clone(), high.expand(shape).clone(), shape, dtype=dtype)
