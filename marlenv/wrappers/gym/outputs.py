"""What ``reset``, ``step`` and ``render`` of gym's envs return, in both of its generations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.wrappers.gym.vector_infos import columns


def opened(out: Any) -> tuple[Any, Any]:
    """Observation and info of what a reset returned; before gym 0.26 it returned observations alone."""
    if not isinstance(out, tuple) or len(out) != 2:
        return out, {}
    if isinstance(out[1], list) and all(isinstance(info, dict) for info in out[1]):
        return out[0], columns(out[1])
    return out if isinstance(out[1], dict) else (out, {})


def outcome(out: tuple[Any, ...], *, alone: bool) -> tuple[Any, Any, Any, Any, None, Any]:
    """Observation, reward, terminated, truncated and info of what a step returned; the place of ``done`` is None.

    Before gym 0.26 there was one flag, and an info that said whether it was the time limit's. Where a vector gives an
    info for each row, they become arrays.

    Args:
        out: five values, or four.
        alone: from a single env, whose flags are single bools.
    """
    if len(out) == 5:
        obs, reward, terminated, truncated, info = out
        return (
            obs,
            reward,
            bool(terminated) if alone else terminated,
            bool(truncated) if alone else truncated,
            None,
            columns(info) if isinstance(info, list) else info,
        )
    obs, reward, done, info = out
    infos = [info] if isinstance(info, dict) else info
    late = np.array([bool(one.get("TimeLimit.truncated", False)) for one in infos]).reshape(np.shape(done))
    return (
        obs,
        reward,
        np.logical_and(done, ~late),
        np.logical_and(done, late),
        None,
        info if isinstance(info, dict) else columns(infos),
    )


def frame(who: str, env: Any, *, modern: bool) -> Tensor:
    """What ``render`` of an env, or of the rows of a vector, draws; uint8 ``[*B, H, W, 3]``."""
    drawn = env.render() if modern else env.render(mode="rgb_array")
    if drawn is None:
        raise SpecError(f'{who}: from_pixels=True needs an env that draws; make it with render_mode="rgb_array"')
    return torch.from_numpy(np.array(drawn, dtype=np.uint8))
