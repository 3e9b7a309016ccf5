"""Values of a space, and flags, as tensors: what wrappers of gym's interface read simulators with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorStack
from torch import Size, Tensor

from marlenv.errors import ShapeError
from marlenv.specs import Composite, NonTensor, TensorSpec
from marlenv.specs.plain import is_plain
from marlenv.tensordicts import new
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


def reader_of(who: str, space: Any, spec: TensorSpec) -> Callable[[Any], Any]:
    """How a simulator's value of a space becomes a value of its spec, in memory of its own.

    Args:
        who: the wrapper, for errors.
        space: of one env, or of many.
        spec: made by :func:`marlenv.wrappers._spaces.spec_of`, with the batch in front.

    >>> from gymnasium.spaces import Box
    >>> reader_of("Here", Box(-1, 1, (2,)), Bounded(-1, 1, (2,)))([0.5, 0])
    tensor([0.5000, 0.0000])
    """
    if isinstance(spec, Composite):
        kind = kind_of(space)
        inner = dict(space.spaces) if kind == "Dict" else {str(i): one for i, one in enumerate(space.spaces)}
        readers = {name: reader_of(who, one, spec[name]) for name, one in inner.items()}
        return partial(_parts, readers, kind == "Dict", Size(spec.batch_size))
    encode = encoder_of(space) if kind_of(space) is not None else None
    if isinstance(spec, NonTensor) and len(spec.shape) > spec.feature_dims:
        return partial(_objects, who, spec)
    if not is_plain(spec):
        return partial(encoded, spec, encode=encode)
    return partial(_numbers, who, torch.empty(0, dtype=spec.dtype).numpy().dtype, spec.shape, encode)


def _numbers(who: str, dtype: Any, shape: Size, encode: Callable[[Any], Any] | None, value: Any) -> Tensor:
    array = np.array(value if encode is None else encode(value), dtype=dtype)
    if array.shape != shape:
        raise ShapeError(f"{who}: the simulator gave a value of shape {list(array.shape)}, its space has {list(shape)}")
    return torch.from_numpy(array)


def _objects(who: str, spec: NonTensor, values: Sequence[Any]) -> Any:
    """An item for each row."""
    row, rows = spec[0], spec.shape[0]
    if isinstance(values, str) or len(values) != rows:
        raise ShapeError(f"{who}: the simulator gave {values!r}, expected an item for each of {rows} rows")
    return NonTensorStack(*[row.encode(value) for value in values])


def _parts(readers: dict[str, Callable[[Any], Any]], named: bool, batch: Size, value: Any) -> Any:
    parts = value if named else {str(i): one for i, one in enumerate(value)}
    return new({name: read(parts[name]) for name, read in readers.items()}, batch)
