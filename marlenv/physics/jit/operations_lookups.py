"""Operations that read or write the entries that indices name.

Eager mode raises for an index that is out of range; machine code cannot, so that only indices that are in range for
certain are taken: constants, comparisons, ``clamp``, ``argmax``, ``sort``, ``randint``, remainders of positive numbers
and what is made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.physics.jit.graph import TYPES, Graph, Untraceable
from marlenv.physics.jit.tracer import Call, Cells, Traced, handles

CHOICES = 128  # entries that an index from the data chooses among by comparing; more are looked up in memory
LISTED = 16  # numbers that are the same for all rows; more are a table
PLACES = 1 << 14  # comparisons of a scatter


def _in_range(call: Call, at: Cells, size: int, *, low: int = 0) -> Cells:
    """Indices that are in range for certain."""
    for node in at.reshape(-1).tolist():
        if node.low < low or node.high >= size:
            raise Untraceable(
                f"reads or writes entries by an index that may not be one of 0 to {size - 1} ({call.name}); "
                f"say so with index.clamp(0, {size - 1})"
            )
    return at


def _chosen(call: Call, x: Cells, at: Cells, kind: str) -> Cells:
    """``x[at]`` along the first dimension, entry by entry; the other dimensions of both fit."""
    if x.shape[0] > CHOICES:
        return _looked_up(call.graph, kind, x, at)
    out = np.broadcast_to(x[:1], np.broadcast_shapes(x[:1].shape, at.shape))
    for i in range(1, x.shape[0]):
        here = call.map("eq", "b", at, call.const(i, "l"))
        out = call.map("select", kind, here, x[i : i + 1], out)
    return out


def _looked_up(graph: Graph, kind: str, x: Cells, at: Cells) -> Cells:
    """The same by a look into memory, where all entries are put."""
    shape = np.broadcast_shapes(x.shape[1:], at.shape[1:])
    x, at = np.broadcast_to(x, (len(x), *shape)), np.broadcast_to(at, (len(at), *shape))
    out = np.empty(at.shape, dtype=object)
    for rest in np.ndindex(at.shape[1:]):
        whole = graph.make("array", kind, *x[(slice(None), *rest)])
        for k in range(at.shape[0]):
            out[(k, *rest)] = graph.make("take", kind, whole, at[(k, *rest)])
    return out


@handles("gather")
def _gather(call: Call, self: Tensor, dim: int, index: Tensor) -> Cells:
    dim = call.along(self, dim)
    x, at = np.moveaxis(call.cells(self), dim, 0), np.moveaxis(call.cells(index), dim, 0)
    x = x[(slice(None), *(slice(0, n) for n in at.shape[1:]))]
    return np.moveaxis(_chosen(call, x, _in_range(call, at, len(x)), call.kind), 0, dim)


@handles("embedding")
def _embedding(call: Call, weight: Tensor, indices: Tensor) -> Cells:
    call.along(weight, 0)
    at = _in_range(call, call.cells(indices), weight.shape[0])
    x = call.cells(weight).reshape(weight.shape[0], *[1] * at.ndim, -1)
    return _chosen(call, x, at[None, ..., None], call.kind)[0]


@handles("index_select")
def _index_select(call: Call, self: Tensor, dim: int, index: Tensor) -> Cells:
    return call.cells(self).take(_constant(index, "picks"), axis=call.along(self, dim))


def _constant(index: Tensor, what: str) -> Any:
    if isinstance(index, Traced):
        raise Untraceable(f"{what} entries with an index that is data; use gather or torch.where")
    return index.numpy()


# --- x[i, j] -------------------------------------------------------------------------------------


def _places(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices, with masks as the places where they are True."""
    out: list[Tensor | None] = []
    for i in indices:
        if i is None or i.dtype not in (torch.bool, torch.uint8):
            out.append(i)
        elif isinstance(i, Traced):
            raise Untraceable("picks entries with a mask that is data, so that their number is data; use torch.where")
        else:
            out += i.nonzero().unbind(1)
    return out


@handles("index", "_unsafe_index", indices=_places)
def _index(call: Call, self: Tensor, indices: Sequence[Tensor | None]) -> Cells:
    named = list(indices)
    used = [d for d, i in enumerate(named) if i is not None]
    rows = [d for d in used if self.shape[d] == call.graph.rows and _is_every_row(named[d], call.graph.rows)]
    for d in used:
        if d not in rows:
            call.along(self, d, "takes some of the rows")
    if not rows and not any(isinstance(i, Traced) for i in named):
        return call.cells(self)[tuple(slice(None) if i is None else i.numpy() for i in named)]
    used = [d for d in used if d not in rows]
    rest = [d for d in range(self.ndim) if d not in used and d not in rows]
    if _is_table(self, used):
        return _found_in(call, self, _linear(call, [named[d] for d in used], self.shape))
    straight = [d for d in range(self.ndim) if d in used or d in rows]
    lead = straight[0] if straight == list(range(straight[0], straight[-1] + 1)) else 0
    x = call.cells(self).transpose([*used, *rows, *rest])
    sizes, others = x.shape[: len(used)], x.shape[len(used) + len(rows) :]
    shape = np.broadcast_shapes(*(_size(call, i) for i in named if i is not None))
    at = _linear(call, [named[d] for d in used], sizes)
    x = x.reshape(-1, *[1] * len(shape), *others)
    at = np.broadcast_to(at, shape)[(None, ..., *[None] * len(others))]
    found = np.broadcast_to(_chosen(call, x, at, call.kind)[0], (*shape, *others))
    return np.moveaxis(found, range(len(shape)), range(lead, lead + len(shape)))


def _is_table(x: Tensor, used: Sequence[int]) -> bool:
    """Whether all dimensions of a list of finite numbers that are the same for all rows are indexed."""
    listed = not isinstance(x, Traced) and len(used) == x.ndim and x.numel() > LISTED
    return listed and x.dtype != torch.bool and bool(x.isfinite().all())


def _found_in(call: Call, x: Tensor, at: Cells) -> Cells:
    """The entries ``at`` of a table."""
    table = tuple(x.flatten().tolist())
    out = np.empty(at.shape, dtype=object)
    for place in np.ndindex(at.shape):
        out[place] = call.graph.look(call.kind, table, at.item(place))
    return np.broadcast_to(out, call.shape)


def _is_every_row(index: Tensor | None, rows: int) -> bool:
    """Whether an index says each row by its number, as ``torch.arange(B)`` does."""
    if index is None or isinstance(index, Traced) or index.numel() != rows:
        return False
    return torch.equal(index.flatten(), torch.arange(rows, device="cpu"))


def _size(call: Call, index: Tensor) -> tuple[int, ...]:
    return tuple(1 if n == call.graph.rows else n for n in index.shape)


def _linear(call: Call, indices: Sequence[Tensor | None], sizes: Sequence[int]) -> Cells:
    """Indices of several dimensions as one; negative ones count from the end."""
    at = call.const(0, "l")
    for index, size in zip(indices, sizes, strict=True):
        one = _in_range(call, call.cells(index, "l"), size, low=-size)
        if any(node.low < 0 for node in one.reshape(-1).tolist()):
            below = call.map("lt", "b", one, call.const(0, "l"))
            one = call.map("select", "l", below, call.map("add", "l", one, call.const(size, "l")), one)
        at = call.map("add", "l", call.map("mul", "l", at, call.const(size, "l")), one)
    return at


# --- writing -------------------------------------------------------------------------------------


@handles("index_add")
def _index_add(call: Call, self: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float) -> Cells:
    kind, dim, out = call.kind, call.along(self, dim), call.cells(self).copy()
    front, new = np.moveaxis(out, dim, 0), np.moveaxis(call.cells(source, kind), dim, 0)
    if alpha not in (1, -1):
        new = call.map("mul", kind, new, call.const(alpha, kind))
    sign = "sub" if alpha == -1 else "or" if kind == "b" else "add"
    for k, i in enumerate(_constant(index, "adds to").reshape(-1).tolist()):
        front[i] = call.map(sign, kind, front[i : i + 1], new[k : k + 1])[0]
    return out


@handles("index_copy")
def _index_copy(call: Call, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Cells:
    dim, out = call.along(self, dim), call.cells(self).copy()
    np.moveaxis(out, dim, 0)[_constant(index, "writes")] = np.moveaxis(call.cells(source, call.kind), dim, 0)
    return out


@handles("index_fill")
def _index_fill(call: Call, self: Tensor, dim: int, index: Tensor, value: Any) -> Cells:
    dim, out = call.along(self, dim), call.cells(self).copy()
    np.moveaxis(out, dim, 0)[_constant(index, "writes")] = call.cells(value, call.kind)
    return out


@handles("scatter")
def _scatter(
    call: Call, self: Tensor, dim: int, index: Tensor, src: Any = None, value: Any = None, reduce: str | None = None
) -> Cells:
    op = None if reduce is None else {"add": "add", "multiply": "mul"}[reduce]
    return _scattered(call, self, dim, index, value if src is None else src, op)[0]


@handles("scatter_add")
def _scatter_add(call: Call, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Cells:
    return _scattered(call, self, dim, index, src, "add")[0]


@handles("scatter_reduce")
def _scatter_reduce(
    call: Call, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool
) -> Cells:
    op = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}[reduce]
    x, count = _scattered(call, self, dim, index, src, op, anew=not include_self)
    if reduce != "mean":
        return x
    if call.kind == "l":
        return call.map("floordiv", "l", x, call.map("max", "l", count, call.const(1, "l")))
    return call.map("div", call.kind, x, call.cast(call.map("max", "l", count, call.const(1, "l")), call.kind))


def _scattered(
    call: Call, self: Tensor, dim: int, index: Tensor, src: Any, op: str | None, *, anew: bool = False
) -> tuple[Cells, Cells]:
    """``self`` with ``src`` written or reduced into the entries that ``index`` names, one after the other; and how many
    numbers each entry is made of. With ``anew`` its old value is not one of them.
    """
    dim, kind = call.along(self, dim), call.kind
    x, at = call.cells(self).copy(), np.moveaxis(call.cells(index), dim, 0)
    count = np.full(x.shape, call.graph.const(0 if anew else 1, "l"), dtype=object)
    some = (slice(None), *(slice(0, n) for n in at.shape[1:]))
    whole, counted = np.moveaxis(x, dim, 0)[some], np.moveaxis(count, dim, 0)[some]  # views: x and count are written
    size = len(whole)
    if size * len(at) > PLACES:
        raise Untraceable(f"writes to {len(at)} of {size} entries by data; the product can be {PLACES}")
    _in_range(call, at, size)
    new = (
        np.moveaxis(call.cells(src, kind), dim, 0)[(slice(0, len(at)), *some[1:])]
        if isinstance(src, Tensor)
        else call.cells(src, kind)
    )
    new = np.broadcast_to(new, at.shape)
    for k in range(len(at)):
        for i in range(size):
            here = call.map("eq", "b", at[k : k + 1], call.const(i, "l"))
            old, one, times = whole[i : i + 1], new[k : k + 1], counted[i : i + 1]
            if op is not None:
                joined = call.map(
                    {"add": "or", "mul": "and", "max": "or", "min": "and"}[op] if kind == "b" else op, kind, old, one
                )
                first = call.map("eq", "b", times, call.const(0, "l"))
                one = call.map("select", kind, first, one, joined)
            whole[i : i + 1] = call.map("select", kind, here, one, old)
            counted[i : i + 1] = call.map("add", "l", times, call.cast(here, "l"))
    return x, count


# --- sets ----------------------------------------------------------------------------------------


@handles("isin")
def _isin(
    call: Call,
    elements: Any = None,
    test_elements: Any = None,
    test_element: Any = None,
    assume_unique: bool = False,
    invert: bool = False,
) -> Cells:
    x = elements
    tests = test_elements if test_element is None else test_element
    if isinstance(tests, Traced):
        raise Untraceable("looks for what is data (isin); compare with == and any")
    kind = TYPES[
        torch.result_type(x, tests)
        if not isinstance(x, Traced)
        else torch.promote_types(x.dtype, torch.as_tensor(tests).dtype)
    ]
    kind = "l" if kind == "b" else kind
    found, cells = call.const(False, "b"), call.cells(x, kind)
    for one in call.cells(tests, kind).reshape(-1):
        found = call.map("or", "b", found, call.map("eq", "b", cells, np.array(one, dtype=object)))
    found = np.broadcast_to(found, call.shape)
    return call.map("not", "b", found) if invert else found


@handles("bucketize")
def _bucketize(call: Call, self: Tensor, boundaries: Tensor, out_int32: bool, right: bool) -> Cells:
    if isinstance(boundaries, Traced):
        raise Untraceable("sorts into boundaries that are data (bucketize); compare with them and sum")
    kind = TYPES[torch.promote_types(self.dtype, boundaries.dtype)]
    found, cells = call.const(0, "l"), call.cells(self, kind)
    for one in call.cells(boundaries, kind):
        beyond = call.map("gt" if right else "ge", "b", np.array(one, dtype=object), cells)
        found = call.map("add", "l", found, call.cast(call.map("not", "b", beyond), "l"))
    return np.broadcast_to(found, call.shape)
