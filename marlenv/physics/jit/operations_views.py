"""Operations that arrange numbers: views, what puts tensors together, and new ones of the same shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.tracer import APART, Call, Cells, Layout, Traced, handles

# --- views ---------------------------------------------------------------------------------------


@handles("view", "_unsafe_view")
def _view(call: Call, self: Tensor, size: Any) -> Cells:
    return _reshaped(call, self)


@handles("unsqueeze", "squeeze")
def _squeeze(call: Call, self: Tensor, dim: Any = None) -> Cells:
    return _reshaped(call, self)


def _reshaped(call: Call, x: Tensor) -> Cells:
    """The same numbers in the same order; says where the rows are now."""
    if not isinstance(x, Traced):
        raise Untraceable(f"{call.name} of a tensor that is not data")
    call.layout = _moved(x.shape, x.joined, call.outs[0].shape, call.graph.rows)
    return x.cells.reshape(call.shape)


def _moved(old: Size, layout: Layout, new: Size, rows: int) -> Layout:
    """What is joined with the rows after a change of shape in which no number moves."""
    before = [d for d, n in enumerate(old) if n and n % rows == 0]
    after = [d for d, n in enumerate(new) if n and n % rows == 0]
    if not before or not after or 0 in old:
        return APART
    lead = math.prod(old[: before[0]]) * layout[0]  # numbers of a row between one row and the next
    outer, rest = divmod(lead, math.prod(new[: after[0]]))
    inner, odd = divmod(new[after[0]] // rows, outer or 1)
    if not outer or rest or odd:
        raise Untraceable(f"mixes rows with other dimensions: {_named(old, rows)} as {_named(new, rows)}")
    return outer, inner


def _named(shape: Sequence[int], rows: int) -> str:
    sizes = [("B" if n == rows else f"{n // rows} * B") if n and n % rows == 0 else str(n) for n in shape]
    return f"[{', '.join(sizes)}]"


@handles("permute")
def _permute(call: Call, self: Tensor, dims: Sequence[int]) -> Cells:
    return call.cells(self).transpose([d % self.ndim for d in dims])


@handles("transpose")
def _transpose(call: Call, self: Tensor, dim0: int, dim1: int) -> Cells:
    return call.cells(self).swapaxes(dim0, dim1) if self.ndim else call.cells(self)


@handles("t")
def _t(call: Call, self: Tensor) -> Cells:
    return call.cells(self).T


@handles("expand")
def _expand(call: Call, self: Tensor, size: Sequence[int], implicit: bool) -> Cells:
    return np.broadcast_to(call.cells(self), call.shape)


@handles("select")
def _select(call: Call, self: Tensor, dim: int, index: int) -> Cells:
    return call.cells(self).take(index, axis=call.along(self, dim, "takes one row"))


@handles("slice")
def _slice(call: Call, self: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Cells:
    dim, x = dim % self.ndim, call.cells(self)
    if call.outs[0].shape == self.shape:
        return x  # all of it, as in x[:]
    dim = call.along(self, dim, "takes some of the rows")
    return x[(*[slice(None)] * dim, slice(start, end, step))]


@handles("slice_scatter")
def _slice_scatter(
    call: Call, self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Cells:
    if src.shape == self.shape:
        return call.cells(src, call.kind)
    x, dim = call.cells(self).copy(), call.along(self, dim, "writes some of the rows")
    x[(*[slice(None)] * dim, slice(start, end, step))] = call.cells(src, call.kind)
    return x


@handles("select_scatter")
def _select_scatter(call: Call, self: Tensor, src: Tensor, dim: int, index: int) -> Cells:
    x, dim = call.cells(self).copy(), call.along(self, dim, "writes one row")
    np.moveaxis(x, dim, 0)[index] = call.cells(src, call.kind)
    return x


@handles("unbind")
def _unbind(call: Call, self: Tensor, dim: int) -> list[Cells]:
    x, dim = call.cells(self), call.along(self, dim)
    return [x.take(i, axis=dim) for i in range(x.shape[dim])]


@handles("split")
def _split(call: Call, self: Tensor, split_size: Any, dim: int) -> list[Cells]:
    return _parted(call, self, dim)


@handles("split_with_sizes")
def _split_with_sizes(call: Call, self: Tensor, split_sizes: Any, dim: int) -> list[Cells]:
    return _parted(call, self, dim)


def _parted(call: Call, x: Tensor, dim: int) -> list[Cells]:
    dim = call.along(x, dim)
    ends = np.cumsum([out.shape[dim] for out in call.outs])[:-1]
    return list(np.split(call.cells(x), ends, axis=dim))


@handles("diagonal")
def _diagonal(call: Call, self: Tensor, offset: int, dim1: int, dim2: int) -> Cells:
    call.along(self, dim1), call.along(self, dim2)
    return call.cells(self).diagonal(offset, dim1, dim2)


@handles("unfold")
def _unfold(call: Call, self: Tensor, dimension: int, size: int, step: int) -> Cells:
    dim, x = call.along(self, dimension), call.cells(self)
    starts = range(0, x.shape[dim] - size + 1, step) if x.ndim else ()
    return np.stack([np.moveaxis(x.take(range(i, i + size), axis=dim), dim, -1) for i in starts], dim)


# --- other orders --------------------------------------------------------------------------------


@handles("flip")
def _flip(call: Call, self: Tensor, dims: Sequence[int]) -> Cells:
    return np.flip(call.cells(self), tuple(call.along(self, d, "turns the rows around") for d in dims))


@handles("roll")
def _roll(call: Call, self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Cells:
    x = call.cells(self)
    if not dims:
        for d in range(self.ndim):
            call.along(self, d, "moves numbers from row to row")
        return np.roll(x, shifts[0])
    for shift, dim in zip(shifts, dims, strict=True):
        x = np.roll(x, shift, call.along(self, dim, "moves numbers from row to row"))
    return x


@handles("repeat")
def _repeat(call: Call, self: Tensor, repeats: Sequence[int]) -> Cells:
    rows, lead = call.graph.rows, len(repeats) - self.ndim
    for d, times in enumerate(repeats):
        old = self.shape[d - lead] if d >= lead else 1
        if old and old % rows == 0 and times != 1:
            raise Untraceable("repeats the rows")
        if times % rows == 0 and times != rows:
            raise Untraceable("joins the rows of a repeated tensor with other dimensions")
        if times == rows and old != 1:
            raise Untraceable("joins the rows of a repeated tensor with other dimensions")
    return np.tile(call.cells(self), [1 if n == rows else n for n in repeats])


@handles("tril")
def _tril(call: Call, self: Tensor, diagonal: int) -> Cells:
    return _triangle(call, self, diagonal, below=True)


@handles("triu")
def _triu(call: Call, self: Tensor, diagonal: int) -> Cells:
    return _triangle(call, self, diagonal, below=False)


def _triangle(call: Call, x: Tensor, diagonal: int, *, below: bool) -> Cells:
    call.along(x, -1), call.along(x, -2)
    kept = torch.ones(x.shape[-2:], dtype=torch.bool, device="cpu")
    kept = (kept.tril if below else kept.triu)(diagonal)
    return np.where(kept.numpy(), call.cells(x), call.const(0, call.kind))


# --- putting tensors together --------------------------------------------------------------------


@handles("cat")
def _cat(call: Call, tensors: Sequence[Tensor], dim: int) -> Cells:
    parts = [x for x in tensors if x.shape != (0,)]  # which fits everywhere
    for x in parts:
        call.along(x, dim, "puts rows together")
    if not parts:
        return np.empty(call.shape, object)
    return np.concatenate([call.cells(x, call.kind) for x in parts], axis=dim)


@handles("stack")
def _stack(call: Call, tensors: Sequence[Tensor], dim: int) -> Cells:
    return np.stack([call.cells(x, call.kind) for x in tensors], axis=dim)


@handles("constant_pad_nd")
def _pad(call: Call, self: Tensor, pad: Sequence[int], value: float) -> Cells:
    x = call.cells(self)
    for back in range(len(pad) // 2):  # sizes come from the last dimension on; negative ones cut
        left, right = pad[2 * back], pad[2 * back + 1]
        if not left and not right:
            continue
        dim = call.along(self, -1 - back, "adds rows")
        x = x[(*[slice(None)] * dim, slice(max(-left, 0), x.shape[dim] - max(-right, 0)))]
        widths = [(max(left, 0), max(right, 0)) if d == dim else (0, 0) for d in range(x.ndim)]
        blank: Any = call.graph.const(value or 0, call.kind)
        x = np.pad(x, widths, constant_values=blank)
    return x


# --- new ones ------------------------------------------------------------------------------------


def _filled(call: Call, value: Any) -> Cells:
    return np.broadcast_to(call.cells(value, call.kind), call.shape)


@handles("zero")
def _zero(call: Call, self: Tensor) -> Cells:
    return _filled(call, 0)


@handles("fill")
def _fill(call: Call, self: Tensor, value: Any) -> Cells:
    return _filled(call, value)


@handles("copy")
def _copy(call: Call, self: Tensor, src: Tensor) -> Cells:
    return _filled(call, src)


@handles("zeros_like", "empty_like")
def _zeros_like(call: Call, self: Tensor, dtype: Any) -> Cells:
    return _filled(call, 0)


@handles("ones_like")
def _ones_like(call: Call, self: Tensor, dtype: Any) -> Cells:
    return _filled(call, 1)


@handles("full_like")
def _full_like(call: Call, self: Tensor, fill_value: Any, dtype: Any) -> Cells:
    return _filled(call, fill_value)


@handles("new_zeros", "new_empty")
def _new_zeros(call: Call, self: Tensor, size: Any, dtype: Any) -> Cells:
    return _filled(call, 0)


@handles("new_ones")
def _new_ones(call: Call, self: Tensor, size: Any, dtype: Any) -> Cells:
    return _filled(call, 1)


@handles("new_full")
def _new_full(call: Call, self: Tensor, size: Any, fill_value: Any, dtype: Any) -> Cells:
    return _filled(call, fill_value)
