"""Values of a space, and flags, as tensors: what wrappers of gym's interface read simulators with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorStack
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyMissing, ShapeError
from marlenv.groups.packing import unfit
from marlenv.keys import Path, nested
from marlenv.specs import Composite, MultiOneHot, NonTensor, OneHot, TensorSpec
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import new
from marlenv.wrappers._numbers import numbers_of
from marlenv.wrappers._space_values import encoder_of
from marlenv.wrappers._spaces import kind_of

NO, YES = np.zeros(1, dtype=bool), np.ones(1, dtype=bool)


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


def encoded(spec: TensorSpec, value: Any, encode: Callable[[Any], Any] | None = None) -> Any:
    """A simulator's value as its spec has it, in memory of its own; ``TensorSpec.encode`` copies arrays, no tensors.

    Args:
        spec: its spec.
        value: of the simulator.
        encode: comes first.
    """
    value = value if encode is None else encode(value)
    return spec.encode(value.clone() if isinstance(value, Tensor) else value, ignore_device=True)


def reader_of(who: str, space: Any, spec: TensorSpec, at: Path = ()) -> Callable[[Any], Any]:
    """How a simulator's value of a space becomes a value of its spec, in memory of its own.

    Args:
        who: the wrapper, for errors.
        space: of one env, or of many.
        spec: made by :func:`marlenv.wrappers._spaces.spec_of`, with the batch in front.
        at: where the space stands in another one.

    >>> from gymnasium.spaces import Box
    >>> reader_of("Here", Box(-1, 1, (2,)), Bounded(-1, 1, (2,)))([0.5, 0])
    tensor([0.5000, 0.0000])
    """
    if isinstance(spec, Composite):
        kind = kind_of(space)
        inner = dict(space.spaces) if kind == "Dict" else {str(i): one for i, one in enumerate(space.spaces)}
        readers = {name: reader_of(who, one, spec[name], (*at, name)) for name, one in inner.items()}
        return partial(_parts, who, at, readers, kind == "Dict", Size(spec.batch_size))
    who = f"{who}: observation {nested(at)!r}" if at else who
    encode = encoder_of(space) if kind_of(space) is not None else None
    if isinstance(spec, NonTensor) and len(spec.shape) > spec.feature_dims:
        return partial(_objects, who, spec)
    if not is_plain(spec):
        choices = isinstance(spec, (OneHot, MultiOneHot))
        return partial(_choices, who, spec, encode) if choices else partial(encoded, spec, encode=encode)
    return partial(_numbers, who, torch.empty(0, dtype=spec.dtype).numpy().dtype, spec, encode)


def _numbers(who: str, dtype: Any, spec: TensorSpec, encode: Callable[[Any], Any] | None, value: Any) -> Tensor:
    array = np.asarray(value if encode is None else encode(value))
    if array.shape != spec.shape:
        given, shape = list(array.shape), list(spec.shape)
        raise ShapeError(f"{who}: the simulator gave a value of shape {given}, its space has {shape}")
    if array.dtype is not dtype:
        _check_numbers(who, array, spec.dtype)
    return torch.from_numpy(np.array(array, dtype=dtype))


def _choices(who: str, spec: TensorSpec, encode: Callable[[Any], Any] | None, value: Any) -> Any:
    """Choices, which are numbers, as one-hot vectors."""
    value = value if encode is None else encode(value)
    if not isinstance(value, int):
        _check_numbers(who, value, torch.int64)
    return encoded(spec, value)


def _check_numbers(who: str, value: Any, dtype: torch.dtype) -> None:
    """Raises where a value is no numbers, or those of another dtype that would become others."""
    array = numbers_of(value)
    wrong = f"expected numbers, got {value!r}"[:200] if array is None else unfit(array, dtype)
    if wrong:
        raise DtypeError(f"{who}: the simulator gave a value that is not in its space; {wrong}")


def _objects(who: str, spec: NonTensor, values: Sequence[Any]) -> Any:
    """An item for each row."""
    row, rows = spec[0], spec.shape[0]
    if isinstance(values, str) or len(values) != rows:
        raise ShapeError(f"{who}: the simulator gave {values!r}, expected an item for each of {rows} rows")
    return NonTensorStack(*[row.encode(value) for value in values])


def _parts(who: str, at: Path, readers: dict[str, Callable[[Any], Any]], named: bool, batch: Size, value: Any) -> Any:
    parts = value if named or not np.iterable(value) else {str(i): one for i, one in enumerate(value)}
    if not isinstance(parts, Mapping) or not readers.keys() <= parts.keys():
        raise _lacking(who, at, list(readers), parts)
    return new({name: read(parts[name]) for name, read in readers.items()}, batch)


def _lacking(who: str, at: Path, names: list[str], parts: Any) -> KeyMissing:
    """The error for a value that has not all parts of its space."""
    there = list(parts) if isinstance(parts, Mapping) else []
    missing = next(name for name in names if name not in there)
    got = there if isinstance(parts, Mapping) else type(parts).__name__
    return KeyMissing(
        f"{who}: the simulator gave no observation {nested((*at, missing))!r}; its space has the parts {names}, "
        f"got {got}"
    )
