"""What we need of tensordict's unchecked interface, in one place.

Building and reading tensordicts through the checked interface costs more than most envs. The env layer's own data is
right by construction, so it goes around the checks; data that users pass in goes through them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    TensorDictBase,
    is_tensorclass,
)
from tensordict.utils import _StringOnlyDict
from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling as is_compiling  # the half of it that costs nothing

from marlenv.errors import ShapeError

NON_TENSOR = (NonTensorData, NonTensorStack)

FEW = 16
"""So many flags are looked at fastest one by one."""


def new(data: dict[str, Any], batch_size: Size, device: torch.device | None = None) -> TensorDict:
    """A tensordict around ``data``, which must have the batch size; nothing is checked or copied."""
    if is_compiling():
        return TensorDict._new_unsafe(data, batch_size=batch_size, device=device, names=None)
    td = TensorDict.__new__(TensorDict)  # what _new_unsafe does, in a fifth of its time
    td._device, td._batch_size, td._td_dim_names = device, batch_size, None
    td._tensordict = _StringOnlyDict(data)
    return td


def nest(data: Mapping[str, Any], batch_size: Size, device: torch.device | None = None) -> TensorDict:
    """Nested dicts as nested tensordicts of one batch size; nothing is checked or copied."""
    inner = {k: nest(v, batch_size, device) if isinstance(v, dict) else v for k, v in data.items()}
    return new(inner, batch_size, device)


def placed(td: TensorDict, device: torch.device) -> TensorDict:
    """What ``td.to(device)`` gives of data without names, in a tenth of its time where they are on the CPU already.

    >>> placed(new({"a": torch.zeros(2)}, Size([2])), torch.device("cpu")).device
    device(type='cpu')
    """
    if device.type == "cpu":
        data: dict[str, Any] = {}
        for name, value in td._tensordict.items():
            if type(value) is Tensor and value.is_cpu:
                data[name] = value
            elif type(value) is TensorDict and not value._is_locked:
                data[name] = placed(value, device)
            else:
                break
        else:
            return new(data, td.batch_size, device)
    return td.to(device)


def raw(td: Any) -> dict[str, Any] | None:
    """The dict inside a plain, unlocked tensordict; None for every other kind."""
    return td._tensordict if type(td) is TensorDict and not td._is_locked else None


def entries(td: TensorDictBase) -> Iterator[tuple[str, Any]]:
    """The entries of one level, as :func:`get` gives them."""
    plain = raw(td)
    if plain is not None:
        return iter(list(plain.items()))
    return ((name, get(td, name)) for name in list(td.keys()))


def get(td: TensorDictBase, name: str) -> Any:
    """One entry of one level, or None; non-tensor data comes wrapped, values that do not stack as a list of them."""
    if type(td) is TensorDict and not td._is_locked:
        return td._tensordict.get(name)
    if (rows_of := parts(td)) is not None:
        values = [get(part, name) for part in rows_of]
        if all(isinstance(v, Tensor) for v in values) and len({v.shape for v in values}) > 1:
            return values
    return None if isinstance(td, Tensor) else td._get_str(name, None)


def fetch(td: TensorDictBase, key: str | tuple[str, ...]) -> Any:
    """The entry under a nested key, or None; as :func:`get` gives it."""
    if isinstance(key, str):
        return get(td, key)
    for name in key:
        td = get(td, name)
        if td is None:
            return None
    return td


def write(td: TensorDictBase, key: str | tuple[str, ...], value: Any) -> None:
    """Writes the entry under a nested key; the value must have the batch size of the place."""
    if isinstance(key, str):
        put(td, key, value)
        return
    node: Any = td
    for name in key[:-1]:
        node = get(node, name)
        if node is None:
            td.set(key, value)
            return
    put(node, key[-1], value)


def store(td: TensorDictBase, key: str | tuple[str, ...], value: Any) -> None:
    """Writes like ``td.set``; a plain tensor that fits as it is takes the short way there."""
    inside = home(td, key, value)
    if inside is None:
        td.set(key, value)
    else:
        inside[key if isinstance(key, str) else key[-1]] = value


def home(td: TensorDictBase, key: str | tuple[str, ...], value: Any) -> dict[str, Any] | None:
    """The dict that a plain tensor is written into under a nested key; None where ``td.set`` would do more."""
    node: Any = td
    for step in () if isinstance(key, str) else key[:-1]:
        node = get(node, step) if type(node) is TensorDict else None
    inside = raw(node)
    if inside is None or type(value) is not Tensor:
        return None
    size, device = node._batch_size, node._device  # by their names, in half the time
    return inside if value.shape[: len(size)] == size and (device is None or device == value.device) else None


def plant(td: TensorDictBase | dict[str, Any], where: Sequence[str], value: Any) -> None:
    """Writes the entry at a path, of a tensordict or a dict.

    What is missing on the way is made: dicts in a dict, tensordicts with the batch size of the one above in a
    tensordict.
    """
    if isinstance(td, dict):
        for name in where[:-1]:
            td = td.setdefault(name, {})
        td[where[-1]] = value
        return
    for name in where[:-1]:
        below = get(td, name)
        if not is_nested(below):
            below = new({}, td.batch_size, td.device)
            put(td, name, below)
        td = below
    put(td, where[-1], value)


def split(td: TensorDictBase) -> list[TensorDictBase]:
    """The rows along the first dimension: new tensordicts whose leaves are views."""
    plain = td._tensordict if type(td) is TensorDict else None
    if plain is None:
        return [one.copy() for one in td.unbind(0)]
    rows_of: list[dict[str, Any]] = [{} for _ in range(td.batch_size[0])]
    for name, value in plain.items():
        column = value.unbind(0) if type(value) is Tensor else split(value) if is_nested(value) else value.unbind(0)
        for row, one in zip(rows_of, column, strict=True):
            row[name] = one
    batch = td.batch_size[1:]
    return [new(row, batch, td.device) for row in rows_of]


def parts(td: Any) -> list[TensorDictBase] | None:
    """The tensordicts inside a lazy stack, such as the agents of a group of unequal ones; None for every other kind."""
    return td.tensordicts if type(td) is LazyStackedTensorDict else None


def columns(td: TensorDictBase, dim: int) -> Sequence[TensorDictBase]:
    """The tensordicts side by side along ``dim``, those inside where it is a lazy stack along it."""
    inside = parts(td)
    return inside if inside is not None and td.stack_dim == dim else td.unbind(dim)


def lazy(tds: Iterable[TensorDictBase], dim: int) -> LazyStackedTensorDict:
    """A lazy stack along ``dim``."""
    return LazyStackedTensorDict(*tds, stack_dim=dim)


def put(td: TensorDictBase, name: str, value: Any) -> None:
    """Writes one entry of one level; a list of values that do not stack goes to the parts one by one."""
    if type(td) is TensorDict and not td._is_locked:
        td._tensordict[name] = value
    elif type(value) is list:
        for part, one in zip(td.tensordicts, value, strict=True):
            put(part, name, one)
    else:
        td.set(name, value)


def drop(td: TensorDictBase, name: str) -> Any:
    """Removes and returns one entry of one level, or None."""
    plain = raw(td)
    return td.pop(name, None) if plain is None else plain.pop(name, None)


def is_nested(value: Any) -> bool:
    """Whether an entry is a tensordict or a tensorclass of its own (and not a tensor, or wrapped non-tensor data)."""
    kind = type(value)
    if kind is Tensor or kind is TensorDict:
        return kind is TensorDict
    return (isinstance(value, TensorDictBase) or is_tensorclass(value)) and not isinstance(value, NON_TENSOR)


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


def copy_over(td: TensorDictBase, values: TensorDictBase) -> None:
    """Copies values into the tensors of ``td``, entry by entry; they may have one row where it has many.

    >>> td = TensorDict({"a": torch.zeros(2), "b": TensorDict({"c": torch.zeros(2)}, [2])}, [2])
    >>> copy_over(td, TensorDict({"a": torch.ones(1), "b": TensorDict({"c": torch.ones(1)}, [1])}, [1]))
    >>> td["a"], td["b", "c"]
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    for name, one in entries(td):
        if is_nested(one):
            copy_over(one, get(values, name))
        else:
            one.copy_(get(values, name))


def unite(td: TensorDictBase, more: TensorDictBase) -> TensorDictBase:
    """Writes the entries of ``more`` into ``td``, level by level, and returns it; a lazily stacked group stays one."""
    agents, others = parts(td), parts(more)
    if agents is not None and others is not None:
        for one, other in zip(agents, columns(more, td.stack_dim), strict=True):
            unite(one, other)
        return td
    for name, value in entries(more):
        mine = get(td, name)
        if is_nested(mine) and is_nested(value):
            stacked = type(mine) is TensorDict and type(value) is not TensorDict
            value = unite(value, mine) if stacked else unite(mine, value)
        put(td, name, value)
    return td


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
        if yes.shape != no.shape:
            return _choose_whole(rows(mask, batch_ndim), yes, no)
        if yes.shape[: mask.ndim] != mask.shape:
            mask = rows(mask, batch_ndim)
        return torch.where(mask.reshape((*mask.shape, *[1] * (yes.ndim - mask.ndim))), yes, no)
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
    out = new(data, yes.batch_size, yes.device)
    return type(yes).from_tensordict(out) if is_tensorclass(yes) else out


def name_last(td: TensorDictBase, name: str) -> None:
    """Names the last batch dimension, in what is nested too: ``refine_names`` in a tenth of its time."""
    if not _named(td, [*(None,) * (td.ndim - 1), name]):
        td.refine_names(..., name)


def _named(td: TensorDictBase, names: list[str | None]) -> bool:
    """Names the first dimensions of plain tensordicts without names; whether they all were such."""
    data = raw(td)
    if data is None or td._td_dim_names is not None or is_compiling():
        return False
    if not all(_named(x, names) for x in data.values() if type(x) is not Tensor):
        return False
    td._td_dim_names = [*names, *(None,) * (len(td.batch_size) - len(names))]
    return True


def anything(flags: Tensor) -> bool:
    """Whether any flag is True."""
    count = flags.numel()
    if count == 1:
        return bool(flags)
    if flags.is_cpu and type(flags) is Tensor and not is_compiling():
        if count <= FEW and flags.ndim == 2 and flags.shape[1] == 1:
            return [True] in flags.tolist()  # in a fifth of the time of any()
        return bool(np.count_nonzero(flags.numpy()))  # in half of it
    return bool(flags.any())


def separate(values: Iterable[Tensor], held: Iterable[Tensor] = ()) -> list[Tensor]:
    """The tensors; copies of those that share memory with one before them or with what is held, or that are expanded.

    >>> x = torch.zeros(3)
    >>> a, b = separate([x, x[1:]])
    >>> b.fill_(1), a
    (tensor([1., 1.]), tensor([0., 0., 0.]))
    """
    if is_compiling():
        return [x.clone() for x in values]
    taken = {x.untyped_storage().data_ptr() for x in held}
    out = []
    for x in values:
        where = x.untyped_storage().data_ptr()
        if where in taken or expanded(x):
            x = x.clone()
        else:
            taken.add(where)
        out.append(x)
    return out


def expanded(x: Tensor) -> bool:
    """Whether several entries of a tensor are one number in memory, as after ``expand``."""
    steps = x.stride()
    return 0 in steps and any(step == 0 and size > 1 for size, step in zip(x.shape, steps, strict=True))


def rows(mask: Tensor, batch_ndim: int) -> Tensor:
    """A flag ``[*B, ...]`` as one bool per row of the batch; ``[*B]``."""
    if mask.ndim == batch_ndim:
        return mask
    if mask.shape[batch_ndim:].numel() == 1:
        return mask.reshape(mask.shape[:batch_ndim])
    return mask.flatten(batch_ndim).any(-1)


def _choose_whole(mask: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """One of two values of different sizes, as dynamic entries have; all rows must want the same one."""
    if bool(mask.all()):
        return yes
    if not bool(mask.any()):
        return no
    raise ShapeError(
        f"rows of different sizes cannot be one tensor: some rows have {list(yes.shape)}, others {list(no.shape)}; "
        f"envs "
        f"with dynamic sizes and several rows must give all rows one size, or stand side by side in a SerialEnv"
    )


def _choose_data(mask: Tensor, yes: Any, no: Any) -> Any:
    if mask.ndim == 0:
        return yes if bool(mask) else no
    parts = zip(mask.unbind(0), yes.unbind(0), no.unbind(0), strict=True)
    return NonTensorStack(*[_choose_data(m, a, b) for m, a, b in parts])
