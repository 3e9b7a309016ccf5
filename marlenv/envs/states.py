"""Putting an env, or some of its rows, into a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import DtypeError, ShapeError

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase


def set_state(
    env: EnvBase, state: TensorDictBase, mask: Tensor | None, tensordict: TensorDictBase | None
) -> TensorDictBase:
    """The body of :meth:`marlenv.EnvBase.set_state`."""
    who, batch = f"{type(env).__name__}.set_state", env.batch_size
    if not isinstance(state, TensorDictBase):
        raise DtypeError(f"{who}: expected a tensordict as env.get_state() gives it, got {type(state).__name__}")
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape[: len(batch)] != batch:
            raise ShapeError(f"{who}: the mask must be bool {list(batch)}, got {mask.dtype} {list(mask.shape)}")
        state = env._state_of(state, mask, tensordict)
    out = env.plan.done.complete(env._set_state(state))
    env._on_reset(out)
    return out
