"""What we need of tensordict's unchecked interface, in one place.

Building and reading tensordicts through the checked interface costs more than most envs. The env layer's own data is
right by construction, so it goes around the checks; data that users pass in goes through them first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Size, Tensor

NON_TENSOR = (NonTensorData, NonTensorStack)


def new(data: dict[str, Any], batch_size: Size, device: torch.device | None = None) -> TensorDict:
    """A tensordict around ``data``, which must have the batch size; nothing is checked or copied."""
    return TensorDict._new_unsafe(data, batch_size=batch_size, device=device, names=None)


def raw(td: Any) -> dict[str, Any] | None:
    """The dict inside a plain, unlocked tensordict; None for every other kind."""
    return td._tensordict if type(td) is TensorDict and not td._is_locked else None


def entries(td: TensorDictBase) -> Iterator[tuple[str, Any]]:
    """The entries of one level; non-tensor data comes wrapped."""
    plain = raw(td)
    if plain is not None:
        return iter(list(plain.items()))
    return ((name, td._get_str(name, None)) for name in list(td.keys()))


def get(td: TensorDictBase, name: str) -> Any:
    """One entry of one level, or None; non-tensor data comes wrapped."""
    plain = raw(td)
    return td._get_str(name, None) if plain is None else plain.get(name)


def put(td: TensorDictBase, name: str, value: Any) -> None:
    """Writes one entry of one level."""
    plain = raw(td)
    if plain is None:
        td.set(name, value)
    else:
        plain[name] = value


def drop(td: TensorDictBase, name: str) -> Any:
    """Removes and returns one entry of one level, or None."""
    plain = raw(td)
    return td.pop(name, None) if plain is None else plain.pop(name, None)


def is_nested(value: Any) -> bool:
    """Whether an entry is a tensordict of its own (and not wrapped non-tensor data)."""
    return isinstance(value, TensorDictBase) and not isinstance(value, NON_TENSOR)


def shallow(td: TensorDictBase) -> TensorDictBase:
    """A tensordict with the same leaves, at all levels: writing entries to it does not touch ``td``."""
    plain = td._tensordict if type(td) is TensorDict else None
    if plain is None:
        return td.copy()
    data = {k: shallow(v) if is_nested(v) else v for k, v in plain.items()}
    out = new(data, td.batch_size, td.device)
    if td._has_names():
        out.names = td.names
    return out


def choose(mask: Tensor, yes: Any, no: Any, batch_ndim: int) -> Any:
    """``yes`` where the mask is True, else ``no``, entry by entry.

    A mask that has the leading dimensions of an entry goes element by element; otherwise its dimensions behind the
    batch are united first, as for a flag ``[*B, 1]`` beside data ``[*B, d]``.

    Args:
        mask: bool ``[*B, ...]``.
        yes: a tensor, a tensordict or non-tensor data ``[*B, ...]``.
        no: likewise.
        batch_ndim: the number of dimensions in ``*B``.
    """
    if isinstance(yes, Tensor):
        if yes.shape[: mask.ndim] != mask.shape:
            mask = rows(mask, batch_ndim)
        return torch.where(mask.reshape(*mask.shape, *[1] * (yes.ndim - mask.ndim)), yes, no)
    if isinstance(yes, NON_TENSOR):
        return _choose_data(rows(mask, batch_ndim), yes, no)
    if isinstance(yes, LazyStackedTensorDict) or isinstance(no, LazyStackedTensorDict):
        dim = yes.stack_dim if isinstance(yes, LazyStackedTensorDict) else no.stack_dim
        flat = rows(mask, batch_ndim)
        parts = zip(yes.unbind(dim), no.unbind(dim), strict=True)
        if dim < flat.ndim:
            chosen = [choose(m, a, b, flat.ndim - 1) for m, (a, b) in zip(flat.unbind(dim), parts, strict=True)]
        else:
            chosen = [choose(flat, a, b, flat.ndim) for a, b in parts]
        return LazyStackedTensorDict(*chosen, stack_dim=dim)
    data = {}
    for name, value in entries(yes):
        other = get(no, name)
        data[name] = value if other is None else choose(mask, value, other, batch_ndim)
    for name, value in entries(no):
        data.setdefault(name, value)
    return new(data, yes.batch_size, yes.device)


def rows(mask: Tensor, batch_ndim: int) -> Tensor:
    """A flag ``[*B, ...]`` as one bool per row of the batch; ``[*B]``."""
    if mask.ndim == batch_ndim:
        return mask
    if mask.shape[batch_ndim:].numel() == 1:
        return mask.reshape(mask.shape[:batch_ndim])
    return mask.flatten(batch_ndim).any(-1)


def _choose_data(mask: Tensor, yes: Any, no: Any) -> Any:
    if mask.ndim == 0:
        return yes if bool(mask) else no
    parts = zip(mask.unbind(0), yes.unbind(0), no.unbind(0), strict=True)
    return NonTensorStack(*[_choose_data(m, a, b) for m, a, b in parts])
