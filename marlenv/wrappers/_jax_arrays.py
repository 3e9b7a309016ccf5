"""Between JAX and torch: arrays without copies where both sides allow it, and JAX's trees of arrays as tensordicts."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from marlenv.errors import KeyMissing, ShapeError
from marlenv.keys import nested
from marlenv.optional import need
from marlenv.specs import Composite, Unbounded
from marlenv.wrappers._numbers import no_number
from marlenv.wrappers._spaces import WIDER, torch_dtype

WHO = "a wrapper of a simulator of JAX"
WHOLE = "give it as an env of the same task and size gave it"
SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}
"""Unsigned types that torch computes badly with, and the signed ones with as many bits, in which states are held."""


def to_torch(array: Any) -> Tensor:
    """A JAX array as a tensor on the same memory."""
    return from_dlpack(array)


def to_wider(array: Any) -> Tensor:
    """A JAX array of numbers that are looked at, as a tensor; unsigned ones as the next signed ones that hold them."""
    tensor, wider = to_torch(array), WIDER.get(array.dtype)
    return tensor if wider is None else tensor.to(getattr(torch, wider))


def to_jax(tensor: Tensor) -> Any:
    """A tensor as a JAX array: on the same memory, or as a copy where JAX has no such dtype (int64, float64)."""
    return need("jax.dlpack", WHO).from_dlpack(tensor.detach().contiguous())


def on_host(data: Any) -> Any:
    """A tensor, or a tensordict, where JAX can read it: on the CPU, unless JAX has another device."""
    return data.cpu() if need("jax", WHO).default_backend() == "cpu" else data


def tree_to_td(tree: Any, rows: int, *, held: bool) -> TensorDict:
    """A tree of arrays ``[B, ...]`` as a tensordict ``[B]`` of copies; entries are called by the way to them.

    Args:
        tree: the arrays.
        rows: how many rows there are.
        held: the tree is a state, whose unsigned numbers come as signed ones with the same bits; otherwise they come as
            wider ones with the same values.
    """
    lax = need("jax.lax", WHO)
    out = TensorDict({}, batch_size=[rows])
    for way, leaf in _leaves(tree):
        signed = SIGNED.get(leaf.dtype.name) if held else None
        out[way] = to_wider(leaf if signed is None else lax.bitcast_convert_type(leaf, signed)).clone()
    return out


def spec_of_tree(tree: Any, *, held: bool) -> Composite:
    """The spec of what :func:`tree_to_td` makes of a tree of arrays, or of their shapes, of one row."""
    found = Composite()
    for way, leaf in _leaves(tree):
        dtype = torch_dtype(SIGNED.get(leaf.dtype.name, leaf.dtype) if held else leaf.dtype)
        found[way] = Unbounded(tuple(leaf.shape), dtype=dtype)
    return found


def td_to_tree(td: TensorDictBase, like: Any, where: str, *, one_row: bool) -> Any:
    """The state that :func:`tree_to_td` made a tensordict of.

    Args:
        td: its entries.
        like: a tree of the same structure, for names, shapes and dtypes.
        where: who reads it, for messages.
        one_row: ``like`` is of one row, without a dimension of rows.

    Raises:
        KeyMissing, ShapeError: an entry is not there, or has another shape: the state is not of this task.
    """
    util, lax = need("jax.tree_util", WHO), need("jax.lax", WHO)
    leaves, structure = util.tree_flatten_with_path(like)
    back = []
    for way, leaf in leaves:
        name = tuple(_name(step) for step in way)
        tensor, lead = td.get(name, None), td.batch_size if one_row else ()
        if tensor is None:
            raise KeyMissing(f"{where}: the state has no {nested(name)!r}; {WHOLE}")
        if tensor.shape != (want := (*lead, *leaf.shape)):
            raise ShapeError(
                f"{where}: {nested(name)!r} of the state must have shape {list(want)}, got {list(tensor.shape)}; "
                f"{WHOLE}"
            )
        array = to_jax(tensor.clone())
        unsigned = leaf.dtype.name in SIGNED
        back.append(lax.bitcast_convert_type(array, leaf.dtype) if unsigned else array.astype(leaf.dtype))
    return util.tree_unflatten(structure, back)


def check_rewards(who: str, rewards: Tensor | None) -> None:
    """Raises if a reward ``[B, ...]`` is not a number; on a GPU looking would take as long as a step."""
    if rewards is not None and rewards.device.type == "cpu" and bool(rewards.isnan().any()):
        row = int(rewards.isnan().nonzero()[0, 0])
        raise no_number(who, rewards[row].tolist(), f" in row {row}")


def row_keys(seed: int, resets: Tensor) -> Any:
    """The random key of every row, made of a seed, the row and how often it was reset (``resets [B]``)."""
    jax = need("jax", WHO)
    random, counts = jax.random, to_jax(resets.to(torch.int32))
    first = random.PRNGKey(seed % (1 << 32))
    fold = jax.vmap(lambda row, count: random.fold_in(random.fold_in(first, row), count))
    return fold(jax.numpy.arange(len(resets)), counts)


def _leaves(tree: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The arrays of a tree, each with the way to it."""
    found = need("jax.tree_util", WHO).tree_flatten_with_path(tree)[0]
    return [(tuple(_name(step) for step in way), leaf) for way, leaf in found]


def _name(step: Any) -> str:
    """One step of the way to a leaf: an attribute, a key or an index."""
    return str(next(getattr(step, kind) for kind in ("name", "key", "idx") if hasattr(step, kind)))
