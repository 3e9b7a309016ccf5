"""Between JAX and torch, for ``JaxMARLWrapper``: arrays without copies where both sides allow it, and JAX's trees of
arrays as tensordicts.
"""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from marlenv.optional import need

WHO = "JaxMARLWrapper"


def to_torch(array: Any) -> Tensor:
    """A JAX array as a tensor on the same memory."""
    return from_dlpack(array)


def to_jax(tensor: Tensor) -> Any:
    """A tensor as a JAX array: on the same memory, or as a copy where JAX has no such dtype (int64, float64)."""
    return need("jax.dlpack", WHO).from_dlpack(tensor.detach().contiguous())


def tree_to_td(tree: Any, rows: int) -> TensorDict:
    """A tree of arrays ``[B, ...]`` as a tensordict ``[B]`` of copies; entries are called by the way to them.

    Unsigned numbers, which torch computes badly with, come as signed ones with the same bits.
    """
    util, lax = need("jax.tree_util", WHO), need("jax.lax", WHO)
    out = TensorDict({}, batch_size=[rows])
    for way, leaf in util.tree_flatten_with_path(tree)[0]:
        signed = lax.bitcast_convert_type(leaf, "int32") if leaf.dtype.name == "uint32" else leaf
        out[tuple(_name(step) for step in way)] = to_torch(signed).clone()
    return out


def td_to_tree(td: TensorDictBase, like: Any) -> Any:
    """The tree that :func:`tree_to_td` made a tensordict of.

    Args:
        td: its entries.
        like: a tree of the same structure, for names and dtypes.
    """
    util, lax = need("jax.tree_util", WHO), need("jax.lax", WHO)
    leaves, structure = util.tree_flatten_with_path(like)
    back = []
    for way, leaf in leaves:
        array = to_jax(td.get(tuple(_name(step) for step in way)).clone())
        unsigned = leaf.dtype.name == "uint32"
        back.append(lax.bitcast_convert_type(array, "uint32") if unsigned else array.astype(leaf.dtype))
    return util.tree_unflatten(structure, back)


def _name(step: Any) -> str:
    """One step of the way to a leaf: an attribute, a key or an index."""
    return str(next(getattr(step, kind) for kind in ("name", "key", "idx") if hasattr(step, kind)))
