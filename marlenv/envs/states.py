"""Putting an env, or some of its rows, into a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs.stepping import under_transforms
from marlenv.errors import DtypeError, ShapeError

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


def get_state(env: EnvBase, tensordict: TensorDictBase | None) -> TensorDictBase:
    """The body of :meth:`marlenv.EnvBase.get_state`."""
    if tensordict is not None and not isinstance(tensordict, TensorDictBase):
        raise DtypeError(
            f"{type(env).__name__}.get_state: expected the data, a tensordict, or nothing, got "
            f"{type(tensordict).__name__}"
        )
    return env._get_state(tensordict)


def set_state(
    env: EnvBase, state: TensorDictBase, mask: Tensor | None, tensordict: TensorDictBase | None
) -> TensorDictBase:
    """The body of :meth:`marlenv.EnvBase.set_state`."""
    who, batch = f"{type(env).__name__}.set_state", env.batch_size
    if not isinstance(state, TensorDictBase):
        raise DtypeError(f"{who}: expected a tensordict as env.get_state() gives it, got {type(state).__name__}")
    want = under_transforms(env).batch_size
    if state.batch_size != want and (want or env.batch_locked):
        raise ShapeError(
            f"{who}: expected a state of batch size {list(want)}, got {list(state.batch_size)}; "
            f"state.expand({list(want)}) makes many rows of one"
        )
    if mask is not None:
        if not isinstance(mask, Tensor):
            raise DtypeError(f"{who}: the mask must be a bool tensor {list(batch)}, got {type(mask).__name__}")
        if mask.dtype != torch.bool or mask.shape[: len(batch)] != batch:
            raise ShapeError(f"{who}: the mask must be bool {list(batch)}, got {mask.dtype} {list(mask.shape)}")
        state = env._state_of(state, mask, tensordict)
    out = env._set_state(state)
    if not env.gives_all_flags:
        env.plan.done.complete(out, env, "_set_state")
    env._on_reset(out)
    return out
