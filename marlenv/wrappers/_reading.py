"""Values of a space, and flags, as tensors: what wrappers of gym's interface read simulators with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError
from marlenv.specs import Composite, TensorSpec
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
        return _composite(who, space, spec)
    encode = encoder_of(space) if kind_of(space) is not None else None
    if not is_plain(spec):
        return lambda value: spec.encode(value if encode is None else encode(value), ignore_device=True)
    dtype, shape = torch.empty(0, dtype=spec.dtype).numpy().dtype, spec.shape

    def read(value: Any) -> Tensor:
        array = np.array(value if encode is None else encode(value), dtype=dtype)
        if array.shape != shape:
            raise ShapeError(
                f"{who}: the simulator gave a value of shape {list(array.shape)}, its space has {list(shape)}"
            )
        return torch.from_numpy(array)

    return read


def _composite(who: str, space: Any, spec: Composite) -> Callable[[Any], Any]:
    kind = kind_of(space)
    inner = dict(space.spaces) if kind == "Dict" else {str(i): one for i, one in enumerate(space.spaces)}
    readers = {name: reader_of(who, one, spec[name]) for name, one in inner.items()}
    batch = Size(spec.batch_size)

    def read(value: Any) -> Any:
        parts = value if kind == "Dict" else {str(i): one for i, one in enumerate(value)}
        return new({name: one(parts[name]) for name, one in readers.items()}, batch)

    return read
