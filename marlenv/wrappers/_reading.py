"""Values of a space as tensors: what wrappers of gym's interface read simulators with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorStack, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyMissing, ShapeError
from marlenv.keys import Path, nested
from marlenv.specs import Composite, MultiOneHot, NonTensor, OneHot, TensorSpec
from marlenv.specs.dtypes import unfit
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import new
from marlenv.wrappers._numbers import SINGLE, numbers_of
from marlenv.wrappers._space_values import encoder_of
from marlenv.wrappers._spaces import kind_of


def encoded(spec: TensorSpec, value: Any, encode: Callable[[Any], Any] | None = None) -> Any:
    """A simulator's value as its spec has it, in memory of its own; ``TensorSpec.encode`` copies arrays, no tensors.

    Args:
        spec: its spec.
        value: of the simulator.
        encode: comes first.
    """
    value = value if encode is None else encode(value)
    return spec.encode(value.clone() if isinstance(value, Tensor) else value, ignore_device=True)


def observed(who: str, spec: TensorSpec, value: Any, at: Path) -> Any:
    """A simulator's value as its spec has it, in memory of its own.

    Raises:
        KeyMissing: it has not all parts.
        DtypeError: it is no numbers, or those of another dtype that would become others.
    """
    _check_value(who, spec, value, at)
    return encoded(spec, value)


def _check_value(who: str, spec: TensorSpec, value: Any, at: Path) -> None:
    if isinstance(spec, Composite):
        if isinstance(value, Mapping):
            if not all(name in value for name in spec.keys()):
                raise lacking(who, at, list(spec.keys()), value)
            for name, one in spec.items():
                _check_value(who, one, value[name], (*at, name))
    elif spec.dtype is not None and not _holds_tensors(value):
        choices = isinstance(spec, (OneHot, MultiOneHot))
        check_numbers(f"{who}: observation {nested(at)!r}", value, torch.int64 if choices else spec.dtype)


def earned(who: str, spec: TensorSpec, reward: Any) -> Any:
    """A simulator's reward as its spec has it.

    Raises:
        DtypeError: it is no numbers, or those of another dtype that would become others.
    """
    if not isinstance(spec, Composite):
        check_numbers(f"{who}.step: the reward", reward, spec.dtype)
    return spec.encode(reward, ignore_device=True)


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(one, Tensor) for one in value)


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
        if array.dtype == object:  # a dict, for instance
            check_numbers(who, value, spec.dtype)
        given, shape = list(array.shape), list(spec.shape)
        raise ShapeError(f"{who}: the simulator gave a value of shape {given}, its space has {shape}")
    if array.dtype is not dtype:
        check_numbers(who, array, spec.dtype)
    return torch.from_numpy(np.array(array, dtype=dtype))


def read_numbers(who: str, spec: TensorSpec, value: Any) -> Tensor:
    """Numbers as their spec has them, in memory of their own; ``[1]`` and ``[]`` stand for each other.

    Raises:
        ShapeError: they have another shape.
        DtypeError: they are no numbers, or those of another dtype that would become others.
    """
    array = np.asarray(value)
    if array.shape in SINGLE and tuple(spec.shape) in SINGLE:
        array = array.reshape(spec.shape)
    return _numbers(who, torch.empty(0, dtype=spec.dtype).numpy().dtype, spec, None, array)


def _choices(who: str, spec: TensorSpec, encode: Callable[[Any], Any] | None, value: Any) -> Any:
    """Choices, which are numbers, as one-hot vectors."""
    value = value if encode is None else encode(value)
    if not isinstance(value, int):
        check_numbers(who, value, torch.int64)
    return encoded(spec, value)


def check_numbers(who: str, value: Any, dtype: torch.dtype) -> None:
    """Raises where a value is no numbers, or those of another dtype that would become others."""
    array = value if isinstance(value, Tensor) else numbers_of(value)
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
        raise lacking(who, at, list(readers), parts)
    return new({name: read(parts[name]) for name, read in readers.items()}, batch)


def check_all_there(who: str, spec: Composite, out: TensorDictBase, infos: set[Path]) -> None:
    """Raises where an observation is missing: the data would have an older one in its place.

    Args:
        who: the wrapper, for errors.
        spec: of what is observed.
        out: the data of a reset or a step.
        infos: where entries stand that are read from infos, which need not be there.
    """
    wanted, got = spec.keys(), out.keys()
    if not all(name in got for name in wanted):
        names = [name for name in wanted if name not in {where[0] for where in infos}]
        if not all(name in got for name in names):
            raise lacking(who, (), names, dict.fromkeys(name for name in names if name in got))


def lacking(who: str, at: Path, names: list[str], parts: Any) -> KeyMissing:
    """The error for a value that has not all parts of its space."""
    there = list(parts) if isinstance(parts, Mapping) else []
    missing = next(name for name in names if name not in there)
    got = there if isinstance(parts, Mapping) else type(parts).__name__
    return KeyMissing(
        f"{who}: the simulator gave no observation {nested((*at, missing))!r}; its space has the parts {names}, "
        f"got {got}"
    )
