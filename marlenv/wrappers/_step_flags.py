"""The flags of a step as a simulator of gym's interface tells them: checked, completed, and as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.specs.dtypes import unfit
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._numbers import numbers_of

NO, YES = np.zeros(1, dtype=bool), np.ones(1, dtype=bool)


def flags_of(who: str, terminated: Any, truncated: Any, done: Any) -> tuple[Any, Any, Any, bool]:
    """The three flags of a step as bool tensors, those that the others imply among them, and whether an episode ends.

    Args:
        who: the wrapper, for errors.
        terminated: of one env, or of many; None where there is no such flag.
        truncated: the same; stays None where nothing tells it.
        done: the same.

    Raises:
        SpecTypeError: a flag is none.
        SpecError: there are no flags, or ``done`` is not ``terminated | truncated``.

    >>> flags_of("Here", None, True, None)
    (tensor([False]), tensor([True]), tensor([True]), True)
    """
    terminated, truncated, done = _checked(who, terminated, truncated, done)
    return flag_of(terminated), flag_of(truncated), flag_of(done), bool(np.any(done))


def flag_of(value: Any) -> Tensor | None:
    """A simulator's flag as a bool tensor, ``[1]`` or ``[B]``, in memory of its own; None stays None.

    >>> flag_of(np.array([0.0, 1.0]))
    tensor([False,  True])
    """
    if value is None:
        return None
    if type(value) is bool or np.ndim(value) == 0:
        return torch.from_numpy((YES if value else NO).copy())
    return torch.from_numpy(np.array(value, dtype=bool).reshape(-1))


def _checked(who: str, terminated: Any, truncated: Any, done: Any) -> tuple[Any, Any, Any]:
    """The three flags of a step, those that the others imply among them; None for a time limit that is not told."""
    flags = {"terminated": terminated, "truncated": truncated, "done": done}
    given = {name: _flags(who, name, value) for name, value in flags.items() if value is not None}
    if not given:
        raise SpecError(f"{who}.step: the simulator gave no flags; terminated=False says that an episode goes on")
    done = given.get("done")
    truncated = given.get("truncated")
    terminated = given.get("terminated", False if done is None else done if truncated is None else done & ~truncated)
    if truncated is None and done is not None:
        truncated = done & ~terminated
    over = terminated if truncated is None else terminated | truncated
    if done is not None and np.any(done != over):
        raise SpecError(
            f"{who}.step: done is {done}, with terminated={terminated} and truncated={truncated}; it must be "
            f"terminated | truncated, as it is when None"
        )
    return _plain(terminated), _plain(truncated), _plain(over)


def _flags(who: str, name: str, value: Any) -> Any:
    """A flag of one env, or those of many."""
    numbers = numbers_of(value)
    if numbers is None or unfit(numbers, torch.bool):
        raise unlike(f"{who}.step: {name}", "True or False", value, "be")
    return numbers.astype(bool)[()]


def _plain(flag: Any) -> Any:
    return bool(flag) if isinstance(flag, np.bool_) else flag
