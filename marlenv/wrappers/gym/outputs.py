"""What ``reset``, ``step`` and ``render`` of gym's envs return, in both of its generations."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError, SpecError
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._numbers import is_flag, is_number, no_number, numbers_of
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


def outcome(out: tuple[Any, ...], *, alone: bool, who: str = "GymWrapper") -> tuple[Any, Any, Any, Any, None, Any]:
    """Observation, reward, terminated, truncated and info of what a step returned; the place of ``done`` is None.

    Before gym 0.26 there was one flag, and an info that said whether it was the time limit's; of a vector, one dict of
    arrays in gym 0.24 and 0.25. Where a vector gives an info for each row, they become arrays.

    Args:
        out: five values, or four.
        alone: from a single env, whose flags are single bools.
        who: the wrapper, for errors.

    Raises:
        SpecTypeError: a flag of a single env is none.
    """
    if len(out) == 5:
        obs, reward, terminated, truncated, info = out
        return (
            obs,
            reward,
            terminated if not alone or type(terminated) is bool else _flag(who, "terminated", terminated),
            truncated if not alone or type(truncated) is bool else _flag(who, "truncated", truncated),
            None,
            columns(info) if isinstance(info, list) else info,
        )
    obs, reward, done, info = out
    done = _flag(who, "done", done) if alone else done
    infos = info if isinstance(info, dict) else columns(info)
    late = np.array(infos.get(LATE, False), dtype=bool)
    return obs, reward, np.logical_and(done, ~late), np.logical_and(done, late), None, infos


def _flag(who: str, name: str, value: Any) -> bool:
    """A flag of a single env."""
    if not is_flag(value):
        raise unlike(f"{who}.step: {name}", "True or False", value, "be")
    return bool(value)


def paid(who: str, reward: Any, shape: Size, otherwise: str) -> Tensor:
    """A reward as float32 of a shape.

    Raises:
        SpecError: it is not a number.
        ShapeError: it has another size; ends with another way.
    """
    if type(reward) is not float or isnan(reward):
        numbers = reward if isinstance(reward, (int, float)) else numbers_of(reward)
        if numbers is None or not is_number(numbers):
            raise no_number(who, reward, _row(numbers, shape))
        reward = numbers
    given = np.array(reward, dtype=np.float32)
    if given.size != shape.numel():
        raise ShapeError(f"{who}: a reward must have the shape {list(shape)}, got {list(given.shape)}; {otherwise}")
    return torch.from_numpy(given.reshape(shape))


def _row(rewards: Any, shape: Size) -> str:
    """The first row of a vector whose reward is not a number, in words."""
    return f" in row {np.argwhere(np.isnan(rewards))[0][0]}" if len(shape) > 1 and np.ndim(rewards) else ""


def frame(who: str, env: Any, *, modern: bool) -> Tensor:
    """What ``render`` of an env, or of the rows of a vector, draws; uint8 ``[*B, H, W, 3]``."""
    drawn = env.render() if modern else env.render(mode="rgb_array")
    if drawn is None or (isinstance(drawn, (list, tuple)) and any(one is None for one in drawn)):
        raise SpecError(f'{who}: from_pixels=True needs an env that draws; make it with render_mode="rgb_array"')
    try:
        picture = np.array(drawn)
    except ValueError:  # parts of other sizes
        picture = np.array(None)
    whole = picture.dtype == np.uint8
    if picture.dtype.kind in "iu" and not whole and picture.size:
        whole = picture.min() >= 0 and picture.max() < 256
    if not whole or picture.shape[-1] != 3 or picture.ndim != 3 + hasattr(env, "num_envs"):
        got = f"{picture.dtype} {list(picture.shape)}" if picture.ndim else type(drawn).__name__
        raise SpecError(
            f"{who}: from_pixels=True needs pictures of whole numbers from 0 to 255, [H, W, 3], as an env draws them "
            f'that was made with render_mode="rgb_array"; got {got}'
        )
    return torch.from_numpy(picture.astype(np.uint8, copy=False))
