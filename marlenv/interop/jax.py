"""JAX: the data of rollouts as its arrays, and arrays as data, by dlpack.

Tested with JAX 0.10.2 (https://docs.jax.dev), which is imported on use.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor
from torch.utils.dlpack import from_dlpack

from marlenv.errors import DtypeError, ShapeError, SpecError, SpecTypeError
from marlenv.optional import need
from marlenv.tensordicts import new

WIDE = {torch.int64: torch.int32, torch.uint64: torch.uint32, torch.float64: torch.float32}
"""What JAX makes of dtypes with 64 bits, unless it is told to keep them."""


def to_jax(td: TensorDictBase) -> dict[str, Any]:
    """Data as nested dicts of JAX's arrays, which look at the same memory wherever JAX can.

    JAX can where a tensor fills its memory, in any order of dimensions, at an address that JAX likes; the rest, and
    what it makes narrower, is copied. Arrays do not change: do not write into the data as long as you use them.

    Args:
        td: the data of a reset, a step or a rollout.

    Raises:
        SpecTypeError: it is no tensordict.
        SpecError: an entry has no tensor; the text says which.
        DtypeError: whole numbers with 64 bits are too large for JAX's 32; ``jax.config.update("jax_enable_x64", True)``
            keeps 64.
        MissingExtra: JAX is not installed.

    >>> data = marlenv.make("simple_spread", num_envs=4, seed=0).rollout(10)
    >>> to_jax(data)["agents"]["observation"].shape
    (4, 10, 3, 14)
    """
    if not isinstance(td, TensorDictBase):
        raise SpecTypeError(f"to_jax: expected a tensordict, got {type(td).__name__}")
    keep = bool(need("jax", "marlenv.to_jax").config.jax_enable_x64)
    return _arrays(td, "", need("jax.dlpack", "marlenv.to_jax"), keep)


def _arrays(td: TensorDictBase, at: str, dlpack: Any, keep: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in td.keys():
        key = f"{at}{name}"
        try:
            value = td.get(name)
        except RuntimeError as error:  # a lazy stack of unequal shapes
            raise SpecError(
                f"to_jax: the agents of entry {key!r} differ in shape, which JAX has not; pad them (unequal='pad')"
            ) from error
        if isinstance(value, TensorDictBase):
            out[name] = _arrays(value, f"{key}/", dlpack, keep)
        elif isinstance(value, Tensor):
            out[name] = dlpack.from_dlpack(_fitting(value.detach(), key, keep))
        else:
            raise SpecError(f"to_jax: entry {key!r} is {type(value).__name__}, which JAX has no array for; exclude it")
    return out


def _fitting(value: Tensor, key: str, keep: bool) -> Tensor:
    """A tensor that JAX takes as it is."""
    narrow = None if keep else WIDE.get(value.dtype)
    if narrow is not None:
        if not narrow.is_floating_point and value.numel():
            ends, limits = value.aminmax(), torch.iinfo(narrow)
            if int(ends.min) < limits.min or int(ends.max) > limits.max:
                raise DtypeError(
                    f"to_jax: entry {key!r} has {value.dtype} numbers beyond {narrow}, which JAX would cut off; "
                    f'jax.config.update("jax_enable_x64", True) keeps them'
                )
        value = value.to(narrow)
    return value if _fills_memory(value) else value.contiguous()


def _fills_memory(value: Tensor) -> bool:
    """Whether a tensor's elements lie one after another, in some order of its dimensions."""
    expected = 1
    for stride, size in sorted((s, n) for s, n in zip(value.stride(), value.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def from_jax(arrays: Mapping[str, Any], batch_size: Sequence[int] = ()) -> TensorDictBase:
    """Nested dicts of JAX's arrays as data, which look at the same memory; clone what you write into.

    Args:
        arrays: nested dicts.
        batch_size: the leading dimensions that all of them have.

    Raises:
        SpecTypeError: there are no dicts, an entry is no array, or is one that ``jax.jit`` is tracing; the text says
            which.
        ShapeError: the batch size is no list of sizes, or an entry does not begin with it.
        DtypeError: PyTorch has no dtype for an entry.

    >>> import jax.numpy as jnp
    >>> from_jax({"agents": {"action": jnp.zeros((4, 3, 2))}}, [4])["agents", "action"].shape
    torch.Size([4, 3, 2])
    """
    if not isinstance(arrays, Mapping):
        raise SpecTypeError(f"from_jax: expected nested dicts of arrays, got {type(arrays).__name__}; name the entry")
    try:
        batch = Size(batch_size)
    except TypeError as error:
        raise ShapeError(f"from_jax: batch_size must be a list of sizes, such as [4], got {batch_size!r}") from error
    return _tensors(arrays, batch, "")


def _tensors(arrays: Mapping[str, Any], batch: Size, at: str) -> TensorDictBase:
    out: dict[str, Any] = {}
    for name, value in arrays.items():
        key = f"{at}{name}"
        if not isinstance(name, str):
            raise SpecTypeError(f"from_jax: names of entries must be texts, got {name!r} in {at or 'the root'}")
        if isinstance(value, Mapping):
            out[name] = _tensors(value, batch, f"{key}/")
            continue
        tensor = _tensor(value, key)
        if tensor.shape[: len(batch)] != batch:
            raise ShapeError(
                f"from_jax: entry {key!r} must begin with the batch size {list(batch)}, got {list(tensor.shape)}"
            )
        out[name] = tensor
    return new(out, batch)


def _tensor(value: Any, key: str) -> Tensor:
    """An array as a tensor of the same memory."""
    if not hasattr(value, "__dlpack__"):
        raise SpecTypeError(
            f"from_jax: entry {key!r} must be an array of numbers, got {type(value).__name__}; jax.numpy.asarray makes "
            f"one, and jax.random.key_data of random keys"
        )
    jax = sys.modules.get("jax")  # who holds a tracer has imported it
    if jax is not None and isinstance(value, jax.core.Tracer):
        raise SpecTypeError(
            f"from_jax: entry {key!r} is traced by JAX, and has no numbers yet; call from_jax outside of jax.jit"
        )
    try:
        return from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DtypeError(
            f"from_jax: entry {key!r}, of {value.dtype}, cannot become a tensor: {error}; convert it, or leave it out"
        ) from error
