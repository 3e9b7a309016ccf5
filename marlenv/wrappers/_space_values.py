"""Between values of gym's spaces and values of our specs: choices counted from 0, tuples as dicts by place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from marlenv.errors import SpecError
from marlenv.wrappers._spaces import WIDER, kind_of

Convert = Callable[[Any], Any]


def encoder_of(space: Any) -> Convert | None:
    """How a simulator's value of a space becomes a value of its spec; None where it is one already.

    >>> from gymnasium.spaces import Discrete, Tuple
    >>> encoder_of(Tuple([Discrete(3, start=2), Discrete(2)]))((4, 1))
    {'0': 2, '1': 1}
    """
    kind, inner = kind_of(space), _inner(space, encoder_of)
    if kind == "Tuple":
        return partial(_encode_tuple, inner)
    if kind == "Dict":
        return partial(_each, inner) if any(inner.values()) else None
    return partial(_moved, by=-_start(space)) if np.any(_start(space)) else None


def decoder_of(space: Any) -> Convert | None:
    """How a value of a space's spec becomes the simulator's; None where it is one already.

    >>> from gymnasium.spaces import Discrete, Tuple
    >>> decoder_of(Tuple([Discrete(3, start=2), Discrete(2)]))({"0": 2, "1": 1})
    (4, 1)
    """
    kind, inner = kind_of(space), _inner(space, decoder_of)
    if kind == "Tuple":
        return partial(_decode_tuple, inner)
    if kind == "Dict":
        return partial(_each, inner) if any(inner.values()) else None
    convert = partial(_moved, by=_start(space)) if np.any(_start(space)) else None
    dtype = _own_dtype(space)
    return convert if dtype is None else partial(_typed, convert, dtype)


def can_be_masked(space: Any) -> bool:
    """Whether the values of a space are numbers of choices, some of which may be illegal."""
    return kind_of(space) in ("Discrete", "MultiDiscrete")


def mask_length(space: Any) -> int:
    """The length of the mask of a space's legal values: of all its choices, one after the other.

    >>> from gymnasium.spaces import Discrete, MultiDiscrete
    >>> mask_length(Discrete(4)), mask_length(MultiDiscrete([2, 3]))
    (4, 5)
    """
    kind = kind_of(space)
    if kind == "Discrete":
        return int(space.n)
    if kind == "MultiDiscrete":
        return int(np.asarray(space.nvec).sum())
    raise SpecError(f"action_mask: actions of a {type(space).__name__} space cannot be masked; numbers of choices can")


def _inner(space: Any, of: Callable[[Any], Convert | None]) -> dict[str, Convert | None]:
    """The conversions of a space's parts, by name or by place."""
    parts = getattr(space, "spaces", {})
    named = parts.items() if kind_of(space) == "Dict" else enumerate(parts)
    return {str(name): of(one) for name, one in named}


def _start(space: Any) -> Any:
    """The smallest choice of a discrete space; 0 for every other space."""
    start = getattr(space, "start", 0) if kind_of(space) in ("Discrete", "MultiDiscrete") else 0
    return np.asarray(start, dtype=np.int64) if np.ndim(start) else int(start)


def _own_dtype(space: Any) -> Any:
    """The dtype of a space whose spec has another, since torch lacks it or counts choices in int64; else None."""
    kind, dtype = kind_of(space), getattr(space, "dtype", None)
    other = dtype in WIDER if kind == "Box" else kind in ("Discrete", "MultiDiscrete") and dtype != np.int64
    return dtype if other else None


def _moved(value: Any, by: Any) -> Any:
    return value + by


def _typed(convert: Convert | None, dtype: Any, value: Any) -> Any:
    return np.asarray(_applied(convert, value)).astype(dtype)[()]  # a number, and no array of it


def _each(inner: dict[str, Convert | None], values: Any) -> dict[str, Any]:
    return {name: _applied(inner.get(name), value) for name, value in values.items()}


def _encode_tuple(inner: dict[str, Convert | None], values: Any) -> dict[str, Any]:
    each = zip(inner.items(), values, strict=False)  # what is missing is missed under its name by whoever reads it
    return {name: _applied(convert, value) for (name, convert), value in each}


def _decode_tuple(inner: dict[str, Convert | None], values: Any) -> tuple[Any, ...]:
    return tuple(_applied(convert, values[name]) for name, convert in inner.items())


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
