"""What dm_env's simulators give and take: time steps, arrays, streams of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.specs import Categorical, Composite, OneHot, TensorSpec
from marlenv.wrappers._reading import lacking, read_numbers
from marlenv.wrappers._spaces import spec_of_array

WRAPPED = ("_env", "_environment")
"""Where the suite's wrappers, and dm_env's, have their env."""


def ends(step: Any) -> tuple[bool, bool]:
    """Whether a time step terminates, and whether it truncates: the last one does, without discount or with it.

    >>> import dm_env
    >>> ends(dm_env.termination(1.0, None)), ends(dm_env.truncation(1.0, None, discount=0.9))
    ((True, False), (False, True))
    """
    over, discount = bool(step.last()), 1.0 if step.discount is None else float(np.min(step.discount))
    return over and discount == 0, over and discount != 0


def entries(who: str, specs: Any) -> Composite:
    """The specs of what is observed; a lone array is ``"observation"``.

    Raises:
        SpecTypeError: one of them is no array of numbers.
    """
    return Composite(
        {name: spec_of_array(array, f"{who}: observation {name!r}") for name, array in named(specs).items()}
    )


def named(seen: Any) -> Any:
    """What is observed by its names; a lone array is ``"observation"``."""
    return seen if hasattr(seen, "items") else {"observation": seen}


def action_spec(who: str, array: Any, *, categorical: bool) -> TensorSpec:
    """The spec of an action: choices as numbers, or one-hot; else as its array says.

    Raises:
        SpecTypeError: it is no array of numbers.
    """
    if hasattr(array, "num_values"):
        return Categorical(int(array.num_values)) if categorical else OneHot(int(array.num_values))
    return spec_of_array(array, f"{who}: the action")


def told(array: Any, action: Any) -> Any:
    """An action in the shape and dtype of its array of dm_env, as the env takes it."""
    return np.asarray(action, dtype=array.dtype).reshape(array.shape)


def read(who: str, specs: Composite, observation: Any) -> dict[str, Tensor]:
    """What was observed, as tensors of the specs, in memory of their own.

    Raises:
        KeyMissing: an entry is not there.
        ShapeError, DtypeError: a value that does not fit its spec.
    """
    seen, names = named(observation), list(specs.keys())
    if any(name not in seen for name in names):
        raise lacking(who, (), names, seen)
    return {name: read_numbers(f"{who}: observation {name!r}", specs[name], seen[name]) for name in names}


def seed(who: str, env: Any, number: int) -> None:
    """Puts a stream of random numbers that begins with ``number`` where an env has its own."""
    stream = np.random.RandomState(number % 2**32)
    inner = env
    while wrapped := [getattr(inner, name) for name in WRAPPED if hasattr(inner, name)]:
        inner = wrapped[0]
    for owner, name in ((getattr(inner, "task", None), "_random"), (inner, "_random_state")):
        if name in getattr(owner, "__dict__", {}) or hasattr(type(owner), name):  # and not only handed on
            setattr(owner, name, stream)
            return
    raise Unsupported(f"{who}.set_seed: {type(inner).__name__} has no stream of random numbers that can be set")
