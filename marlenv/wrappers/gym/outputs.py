"""What ``reset``, ``step`` and ``render`` of gym's envs return, in both of its generations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError, SpecError
from marlenv.wrappers.gym.vector_infos import columns

LATE = "TimeLimit.truncated"
"""Under what name infos said, before gym 0.26, that it was the time limit that ended an episode."""


def opened(out: Any) -> tuple[Any, Any]:
    """Observation and info of what a reset returned; before gym 0.26 it returned observations alone."""
    if not isinstance(out, tuple) or len(out) != 2:
        return out, {}
    if isinstance(out[1], list) and all(isinstance(info, dict) for info in out[1]):
        return out[0], columns(out[1])
    return out if isinstance(out[1], dict) else (out, {})


def outcome(out: tuple[Any, ...], *, alone: bool) -> tuple[Any, Any, Any, Any, None, Any]:
    """Observation, reward, terminated, truncated and info of what a step returned; the place of ``done`` is None.

    Before gym 0.26 there was one flag, and an info that said whether it was the time limit's; of a vector, one dict of
    arrays in gym 0.24 and 0.25. Where a vector gives an info for each row, they become arrays.

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
    infos = info if isinstance(info, dict) else columns(info)
    late = np.array(infos.get(LATE, False), dtype=bool)
    return obs, reward, np.logical_and(done, ~late), np.logical_and(done, late), None, infos


def paid(who: str, reward: Any, shape: Size, otherwise: str) -> Tensor:
    """A reward as float32 of a shape; raises ShapeError, which ends with another way, where it has another size."""
    given = np.array(reward, dtype=np.float32)
    if given.size != shape.numel():
        raise ShapeError(f"{who}: a reward must have the shape {list(shape)}, got {list(given.shape)}; {otherwise}")
    return torch.from_numpy(given.reshape(shape))


def frame(who: str, env: Any, *, modern: bool) -> Tensor:
    """What ``render`` of an env, or of the rows of a vector, draws; uint8 ``[*B, H, W, 3]``."""
    drawn = env.render() if modern else env.render(mode="rgb_array")
    if drawn is None:
        raise SpecError(f'{who}: from_pixels=True needs an env that draws; make it with render_mode="rgb_array"')
    return torch.from_numpy(np.array(drawn, dtype=np.uint8))
