"""Between the spaces of gym and gymnasium, the arrays of dm_env, and our specs.

Spaces are known by their class's name, so either library will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from marlenv.errors import MarlenvError, SpecError, SpecTypeError
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
)
from marlenv.wrappers._conversions import taught_spec

WIDER = {np.dtype("uint16"): "int32", np.dtype("uint32"): "int64", np.dtype("uint64"): "int64"}
"""Unsigned types that torch computes badly with, and the next signed ones."""
INT64_MAX = np.iinfo(np.int64).max


def torch_dtype(dtype: Any) -> torch.dtype:
    """The torch dtype of a numpy dtype; those of :data:`WIDER` become wider."""
    name = WIDER.get(np.dtype(dtype), np.dtype(dtype).name)
    return getattr(torch, name)


def spec_of(space: Any, *, categorical: bool = True, device: torch.device | None = None) -> TensorSpec:
    """The spec of a space.

    Args:
        space: a gym or gymnasium space.
        categorical: discrete values as numbers; else as one-hot vectors.
        device: where the values live.

    Raises:
        SpecError: a space of a class that is not known.

    >>> from gymnasium.spaces import Box, Discrete
    >>> spec_of(Box(-1, 1, (3,))), spec_of(Discrete(4), categorical=False)
    (Bounded([3], float32, -1..1), OneHot([4], int64, n=4))
    """
    if (taught := taught_spec(space, categorical, device)) is not None:
        return taught
    if (name := kind_of(space)) is not None:
        return _KNOWN[name](space, categorical, device)
    raise SpecError(
        f"spec_of: no conversion for a space of type {type(space).__name__}; known are {sorted(_KNOWN)}; "
        f"teach it with register_gym_spec_conversion"
    )


def kind_of(space: Any) -> str | None:
    """The kind of a space, such as ``"Box"``, whichever library it is of; None for a kind that is not known."""
    return next((cls.__name__ for cls in type(space).__mro__ if cls.__name__ in _KNOWN), None)


def _box(space: Any, categorical: bool, device: Any) -> TensorSpec:
    dtype = torch_dtype(space.dtype)
    if dtype == torch.bool:
        return Binary(shape=space.shape, dtype=torch.bool, device=device)
    if (
        not np.isfinite(np.asarray(space.low, dtype=np.float64)).any()
        and not np.isfinite(np.asarray(space.high, np.float64)).any()
    ):
        return Unbounded(space.shape, dtype=dtype, device=device)
    if space.dtype == np.uint64 and (np.asarray(space.high) > INT64_MAX).any():
        raise SpecError(
            f"spec_of: torch computes with whole numbers up to {INT64_MAX}, got a Box of uint64 up to "
            f"{np.max(space.high)}; give it a lower high, or another dtype"
        )
    low, high = (torch.as_tensor(np.array(end), dtype=dtype) for end in (space.low, space.high))
    return Bounded(low, high, space.shape, dtype=dtype, device=device)


def _discrete(space: Any, categorical: bool, device: Any) -> TensorSpec:
    n = int(space.n)
    return Categorical(n, device=device) if categorical else OneHot(n, dtype=torch_dtype(space.dtype), device=device)


def _multi_discrete(space: Any, categorical: bool, device: Any) -> TensorSpec:
    nvec = np.asarray(space.nvec)
    if categorical:
        return MultiCategorical(torch.as_tensor(nvec.astype(np.int64)), device=device, remove_singleton=False)
    if nvec.ndim != 1:
        raise SpecError(f"spec_of: MultiDiscrete of shape {list(nvec.shape)} has no one-hot form; use categorical=True")
    return MultiOneHot(nvec.tolist(), dtype=torch_dtype(space.dtype), device=device)


def _multi_binary(space: Any, categorical: bool, device: Any) -> TensorSpec:
    return Binary(shape=tuple(space.shape), dtype=torch_dtype(space.dtype), device=device)


def _dict(space: Any, categorical: bool, device: Any) -> TensorSpec:
    if odd := [name for name in space.spaces if not isinstance(name, str)]:
        raise SpecTypeError(
            f"the keys of a space that is a Dict must be texts, got {odd[0]!r}; rename them in a wrapper of the "
            f"simulator's, or make it a Tuple"
        )
    return Composite(
        {name: spec_of(one, categorical=categorical, device=device) for name, one in space.spaces.items()},
        device=device,
    )


def _tuple(space: Any, categorical: bool, device: Any) -> TensorSpec:
    return Composite(
        {str(i): spec_of(one, categorical=categorical, device=device) for i, one in enumerate(space.spaces)},
        device=device,
    )


def _text(space: Any, categorical: bool, device: Any) -> TensorSpec:
    return NonTensor((), example_data="", device=device)


_KNOWN: dict[str, Callable[[Any, bool, Any], TensorSpec]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Dict": _dict,
    "Tuple": _tuple,
    "Text": _text,
}


def spec_called(who: str, what: str, space: Any, *, categorical: bool) -> TensorSpec:
    """:func:`spec_of`, whose errors say whose space it is.

    Args:
        who: the wrapper.
        what: what of it, such as ``"action of agent 'a'"``.
        space: the space.
        categorical: as of :func:`spec_of`.
    """
    try:
        return spec_of(space, categorical=categorical)
    except MarlenvError as error:
        error.args = (f"{who}: {what}: {error}",)
        raise


def spec_of_array(array: Any, who: str = "spec_of_array") -> TensorSpec:
    """The spec of a ``dm_env`` array; numbers get one dimension.

    Args:
        array: the array.
        who: whose it is, for errors.

    Raises:
        SpecTypeError: it is none of numbers.
    """
    if not hasattr(array, "shape") or np.dtype(array.dtype).kind not in "biuf":
        raise SpecTypeError(f"{who}: expected a dm_env array of numbers, got {array!r}; nested ones must be flattened")
    shape, dtype = tuple(array.shape) or (1,), torch_dtype(array.dtype)
    if not hasattr(array, "minimum"):
        return Unbounded(shape, dtype=dtype)
    low, high = (
        torch.as_tensor(np.array(np.broadcast_to(x, array.shape)).reshape(shape))
        for x in (array.minimum, array.maximum)
    )
    return Bounded(low.to(dtype), high.to(dtype), shape, dtype=dtype)
