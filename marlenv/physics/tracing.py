"""From PyTorch code to the expressions of one row: runs a function on tensors that hold expressions instead of numbers.

The dimension of the rows has the size :data:`ROWS`, which nothing else has; in the arrays of expressions its size is 1. What
the code would need to look at data for, or what mixes rows, cannot be traced and raises :class:`Untraceable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.physics.expressions import TYPES, Graph, Node, Untraceable

ROWS = 4099  # a prime that is the size of nothing else
CHOICES = 128  # entries that an index from the data chooses among by comparing; more are looked up in memory
PLACES = 1 << 14  # comparisons of a scatter

Cells: TypeAlias = "np.ndarray[Any, Any]"
"""Expressions in the shape of a tensor; the dimension of the rows has size 1."""


class Traced(Tensor):
    """A tensor of expressions."""

    cells: Cells
    graph: Graph

    @staticmethod
    def __new__(cls: type[Traced], cells: Cells, shape: Sequence[int], dtype: torch.dtype, graph: Graph) -> Traced:
        """Expressions that look like a tensor of a shape and a dtype."""
        made: Traced = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype, device=torch.device("cpu"))
        made.cells, made.graph = cells, graph
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Traced({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Does on expressions what ``func`` does on numbers."""
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1]
        if name in ("detach", "alias", "lift_fresh_copy", "contiguous"):
            return Traced(args[0].cells, args[0].shape, args[0].dtype, args[0].graph)
        if name == "_local_scalar_dense":
            raise Untraceable("looks at a number of the data; use torch.where instead of if")
        graph = next(x.graph for x in _flat((*args, *kwargs.values())) if isinstance(x, Traced))
        like = func(*_meta(args), **{key: _meta(x) for key, x in kwargs.items() if key != "device"})
        outs = [like] if isinstance(like, Tensor) else list(like)
        call = _Call(graph, args, kwargs, [squeezed(x.shape) for x in outs], outs[0].dtype if outs else torch.float32)
        if name in ELEMENTWISE:
            cells = [_elementwise(call, *ELEMENTWISE[name])]
        elif name in HANDLERS:
            made = HANDLERS[name](call)
            cells = made if isinstance(made, list) else [made]
        else:
            raise Untraceable(f"uses {func}, which is not known here")
        new = [
            Traced(cell.reshape(squeezed(x.shape)), x.shape, x.dtype, graph)
            for cell, x in zip(cells, outs, strict=True)
        ]
        return new[0] if isinstance(like, Tensor) else new


class _Call:
    """A call of an operation: its arguments, and the shapes and the dtype of what comes out."""

    def __init__(
        self, graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: list[Size], dtype: torch.dtype
    ) -> None:
        self.graph, self.args, self.kwargs, self.shapes, self.dtype = graph, args, kwargs, shapes, dtype

    @property
    def kind(self) -> str:
        return TYPES[self.dtype]

    def get(self, at: int, name: str, default: Any = None) -> Any:
        """An argument by place or name."""
        return self.args[at] if len(self.args) > at else self.kwargs.get(name, default)

    def cells(self, at: int = 0, kind: str | None = None) -> Cells:
        """An argument as expressions, of a type."""
        return cells_of(self.graph, self.args[at], kind)

    def map(self, op: str, kind: str, *xs: Cells) -> Cells:
        """``op`` on every entry."""
        return _each(lambda *nodes: self.graph.make(op, kind, *nodes), *xs)

    def dims(self, at: int, name: str) -> tuple[int, ...]:
        """The dimensions that an argument names, counted from the start; all when it is left out."""
        dims, ndim = self.get(at, name), self.args[0].ndim
        dims = range(ndim) if dims is None else [dims] if isinstance(dims, int) else dims
        return tuple(d % ndim for d in dims) or tuple(range(ndim))


def _flat(xs: Any) -> list[Any]:
    return [y for x in xs for y in (x if isinstance(x, (list, tuple)) else (x,))]


def _meta(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_meta(y) for y in x)
    if not isinstance(x, Tensor):
        return x
    wrapped = not isinstance(x, Traced) and x.ndim == 0 and x.device.type == "cpu"
    return torch.empty_like(x, device="meta") if wrapped else torch.empty(x.shape, dtype=x.dtype, device="meta")


def squeezed(shape: Size) -> Size:
    """A shape with 1 where the rows are."""
    return Size(1 if n == ROWS else n for n in shape)


def _each(f: Callable[..., Node], *xs: Cells) -> Cells:
    made = np.frompyfunc(f, len(xs), 1)(*xs)
    return made if isinstance(made, np.ndarray) else np.array(made, dtype=object)


def cells_of(graph: Graph, x: Any, kind: str | None = None) -> Cells:
    """Numbers, tensors and traced tensors as expressions of a type."""
    if isinstance(x, Traced):
        made = x.cells
    elif isinstance(x, Tensor):
        made = _constants(graph, x)
    else:
        own = "b" if isinstance(x, bool) else "l" if isinstance(x, int) else "d"
        made = np.array(graph.const(x, kind or own), dtype=object)
    return made if kind is None else _each(lambda node: graph.cast(node, kind), made)


def _constants(graph: Graph, x: Tensor) -> Cells:
    for dim, size in enumerate(x.shape):
        if size == ROWS:
            if not bool((x == x.narrow(dim, 0, 1)).all()):
                raise Untraceable("makes a tensor by itself that differs from row to row")
            x = x.narrow(dim, 0, 1)
    kind, out = TYPES[x.dtype], np.empty(x.numel(), dtype=object)
    out[:] = [graph.const(value, kind) for value in x.reshape(-1).tolist()]
    return out.reshape(tuple(x.shape))


# --- elementwise operations ----------------------------------------------------------------------

ELEMENTWISE: dict[str, tuple[str, str]] = {
    **{name: (name, "own") for name in ("sqrt", "sin", "cos", "tan", "exp", "log", "log1p", "floor", "ceil", "trunc", "round", "neg", "abs",
                                        "sign", "atan2", "atan", "tanh", "sigmoid", "div", "mul", "logaddexp", "minimum", "maximum")},
    **{name: (name, "common") for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "bitwise_and": ("and", "own"),
    "bitwise_or": ("or", "own"),
    "bitwise_xor": ("xor", "own"),
    "logical_and": ("and", "bool"),
    "logical_or": ("or", "bool"),
    "logical_xor": ("xor", "bool"),
    "__and__": ("and", "own"),
    "__or__": ("or", "own"),
    "__rshift__": ("shr", "own"),
    "bitwise_right_shift": ("shr", "own"),
    "bitwise_not": ("not", "own"),
    "logical_not": ("not", "bool"),
}  # fmt: skip
ELEMENTWISE["minimum"], ELEMENTWISE["maximum"] = ("min", "own"), ("max", "own")


def _elementwise(call: _Call, op: str, kinds: str) -> Cells:
    n = sum(not isinstance(x, str) and x is not None for x in call.args)
    xs: list[Any] = list(call.args[:n])
    if kinds == "common":
        kind = TYPES[torch.result_type(*(_meta(x) if isinstance(x, Tensor) else x for x in xs))]
    else:
        kind = "b" if kinds == "bool" else call.kind
    nodes = [cells_of(call.graph, x, kind) for x in xs]
    if op == "div" and call.kwargs.get("rounding_mode"):
        mode = call.kwargs["rounding_mode"]
        if kind == "l":
            return call.map("floordiv", kind, *nodes)
        return call.map(mode, kind, call.map("div", kind, *nodes))
    if op == "mul" and kind == "b":
        op = "and"
    if op == "not" and kind == "l":
        return call.map("xor", "l", nodes[0], cells_of(call.graph, -1, "l"))
    return call.map(op, "b" if kinds == "common" else kind, *nodes)


def _add(call: _Call, sign: str = "add") -> Cells:
    kind = call.kind
    one, two = call.cells(0, kind), call.cells(1, kind)
    if (alpha := call.kwargs.get("alpha", 1)) != 1:
        two = call.map("mul", kind, two, cells_of(call.graph, alpha, kind))
    return call.map("or" if kind == "b" else sign, kind, one, two)


def _rsub(call: _Call) -> Cells:
    return call.map("sub", call.kind, call.cells(1, call.kind), call.cells(0, call.kind))


def _where(call: _Call) -> Cells:
    return call.map("select", call.kind, call.cells(0, "b"), call.cells(1, call.kind), call.cells(2, call.kind))


def _clamp(call: _Call) -> Cells:
    out = call.cells(0, call.kind)
    for at, name, op in ((1, "min", "max"), (2, "max", "min")):
        limit = call.get(at, name)
        if limit is not None:
            out = call.map(op, call.kind, out, cells_of(call.graph, limit, call.kind))
    return out


def _power(call: _Call) -> Cells:
    power, x = call.args[1], call.cells(0, call.kind)
    if not isinstance(power, (int, float)) or power not in (0.5, 1, 2, 3, 4):
        raise Untraceable(f"raises to the power of {power}; it can be 0.5, 1, 2, 3 or 4")
    if power == 0.5:
        return call.map("sqrt", call.kind, x)
    out = x
    for _ in range(int(power) - 1):
        out = call.map("mul", call.kind, out, x)
    return out


def _modulo(call: _Call) -> Cells:
    kind = call.kind
    x, n = call.cells(0, kind), call.cells(1, kind)
    return call.map("mod", kind, x, n)


def _floor_divide(call: _Call) -> Cells:
    kind = call.kind
    x, n = call.cells(0, kind), call.cells(1, kind)
    return call.map("floordiv", "l", x, n) if kind == "l" else call.map("floor", kind, call.map("div", kind, x, n))


def _reciprocal(call: _Call) -> Cells:
    return call.map("div", call.kind, cells_of(call.graph, 1.0, call.kind), call.cells(0, call.kind))


def _rsqrt(call: _Call) -> Cells:
    root = call.map("sqrt", call.kind, call.cells(0, call.kind))
    return call.map("div", call.kind, cells_of(call.graph, 1.0, call.kind), root)


def _cast(call: _Call) -> Cells:
    return call.cells(0, call.kind)


def _addcmul(call: _Call) -> Cells:
    kind = call.kind
    return call.map("add", kind, call.cells(0, kind), call.map("mul", kind, call.cells(1, kind), call.cells(2, kind)))


# --- views, and what puts tensors together -------------------------------------------------------


def _view(call: _Call) -> Cells:
    return call.cells().reshape(call.shapes[0])


def _permute(call: _Call) -> Cells:
    return call.cells().transpose([d % call.args[0].ndim for d in call.args[1]])


def _transpose(call: _Call) -> Cells:
    return call.cells().swapaxes(call.get(1, "dim0", 0), call.get(2, "dim1", 1))


def _t(call: _Call) -> Cells:
    return call.cells().T


def _expand(call: _Call) -> Cells:
    return np.broadcast_to(call.cells(), call.shapes[0])


def _along(call: _Call, dim: int) -> int:
    dim %= call.args[0].ndim
    if call.args[0].shape[dim] == ROWS:
        raise Untraceable("takes rows apart or puts them together")
    return dim


def _select(call: _Call) -> Cells:
    dim = _along(call, call.args[1])
    return call.cells().take(call.args[2], axis=dim)


def _slice(call: _Call) -> Cells:
    dim, x = call.get(1, "dim", 0) % call.args[0].ndim, call.cells()
    start, stop, step = call.get(2, "start"), call.get(3, "end"), call.get(4, "step", 1)
    if call.args[0].shape[dim] == ROWS:
        if (start or 0) == 0 and (stop is None or stop >= ROWS):
            return x
        raise Untraceable("takes some of the rows")
    return x[(*[slice(None)] * dim, slice(start, stop, step))]


def _slice_scatter(call: _Call) -> Cells:
    x, dim = call.cells().copy(), _along(call, call.get(2, "dim", 0))
    at = slice(call.get(3, "start"), call.get(4, "end"), call.get(5, "step", 1))
    x[(*[slice(None)] * dim, at)] = call.cells(1, call.kind)
    return x


def _select_scatter(call: _Call) -> Cells:
    x, dim = call.cells().copy(), _along(call, call.args[2])
    x[(*[slice(None)] * dim, call.args[3])] = call.cells(1, call.kind)
    return x


def _unbind(call: _Call) -> list[Cells]:
    dim = _along(call, call.get(1, "dim", 0))
    x = call.cells()
    return [x.take(i, axis=dim) for i in range(x.shape[dim])]


def _split(call: _Call) -> list[Cells]:
    dim, x = _along(call, call.get(2, "dim", 0)), call.cells()
    ends = np.cumsum([shape[dim] for shape in call.shapes])[:-1]
    return list(np.split(x, ends, axis=dim))


def _parts(call: _Call) -> list[Cells]:
    return [cells_of(call.graph, x, call.kind) for x in call.args[0]]


def _cat(call: _Call) -> Cells:
    dim = call.get(1, "dim", 0)
    parts = [(x, cells) for x, cells in zip(call.args[0], _parts(call), strict=True) if x.numel()]
    if any(x.shape[dim] == ROWS for x, _ in parts):
        raise Untraceable("puts rows together")
    return np.concatenate([cells for _, cells in parts], axis=dim) if parts else np.empty(call.shapes[0], object)


def _stack(call: _Call) -> Cells:
    return np.stack(_parts(call), axis=call.get(1, "dim", 0))


def _pad(call: _Call) -> Cells:
    x, sizes = call.cells(), list(call.args[1])
    widths = [(0, 0)] * (x.ndim - len(sizes) // 2)
    widths += [(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 2, -1, -2)]
    blank: Any = call.graph.const(call.get(2, "value", 0) or 0, call.kind)
    return np.pad(x, widths, constant_values=blank)


def _filled(call: _Call, value: float) -> Cells:
    out = np.empty(call.shapes[0], dtype=object)
    out[...] = call.graph.const(value, call.kind)
    return out


def _full(call: _Call) -> Cells:
    return _filled(call, call.args[-1])


def _repeat(call: _Call) -> Cells:
    times = [1 if n == ROWS else n for n in call.args[1]]
    return np.tile(call.cells(), times)


def _flip(call: _Call) -> Cells:
    return np.flip(call.cells(), call.dims(1, "dims"))


# --- what looks along a dimension ----------------------------------------------------------------


def _folding(op: str, kind: str | None = None) -> Callable[[_Call], Cells]:
    def fold(call: _Call) -> Cells:
        own = kind or call.kind
        x, dims = call.cells(0, own), [_along(call, dim) for dim in call.dims(1, "dim")]
        what = "or" if own == "b" and op == "add" else op
        for dim in sorted(dims, reverse=True):
            parts = [x.take(i, axis=dim) for i in range(x.shape[dim])]
            if not parts:
                x = np.full(np.delete(x.shape, dim), call.graph.const(what == "and", own), dtype=object)
                continue
            x = parts[0]
            for part in parts[1:]:
                x = call.map(what, own, x, part)
        return x

    return fold


def _best(op: str) -> Callable[[_Call], tuple[Cells, Cells]]:
    """The first of the largest (or smallest) entries along a dimension, and where it is."""

    def find(call: _Call) -> tuple[Cells, Cells]:
        dim = _along(call, call.get(1, "dim", 0))
        kind = TYPES[call.args[0].dtype]
        x = call.cells()
        best, at = x.take(0, axis=dim), None
        for i in range(x.shape[dim]):
            here = cells_of(call.graph, i, "l")
            if at is None:
                at = np.broadcast_to(here, best.shape)
                continue
            one = x.take(i, axis=dim)
            better = call.map(op, "b", one, best)
            best = call.map("select", kind, better, one, best)
            at = call.map("select", "l", better, here, at)
        assert at is not None
        return best, at

    return find


def _arg(op: str) -> Callable[[_Call], Cells]:
    return lambda call: _best(op)(call)[1]


def _with_place(op: str) -> Callable[[_Call], list[Cells]]:
    return lambda call: list(_best(op)(call))


def _sorted(call: _Call) -> list[Cells]:
    """In ascending or descending order, equal entries in the order they had, and where they were."""
    stable = call.kwargs
    dim = _along(call, stable.get("dim", -1) if "dim" in stable or len(call.args) < 2 else call.args[-2])
    down = bool(stable.get("descending", False))
    kind = TYPES[call.args[0].dtype]
    x = np.moveaxis(call.cells(), dim, 0)
    values = [x[i] for i in range(x.shape[0])]
    places = [np.broadcast_to(cells_of(call.graph, i, "l"), x.shape[1:]) for i in range(len(values))]
    for end in range(len(values) - 1, 0, -1):
        for i in range(end):
            a, b = values[i], values[i + 1]
            swap = call.map("lt" if down else "gt", "b", a, b)
            values[i], values[i + 1] = call.map("select", kind, swap, b, a), call.map("select", kind, swap, a, b)
            p, q = places[i], places[i + 1]
            places[i], places[i + 1] = call.map("select", "l", swap, q, p), call.map("select", "l", swap, p, q)
    return [np.moveaxis(np.stack(parts), 0, dim) for parts in (values, places)]


def _cumsum(call: _Call) -> Cells:
    dim = _along(call, call.args[1])
    x = call.cells(0, call.kind)
    parts = [x.take(i, axis=dim) for i in range(x.shape[dim])]
    for i in range(1, len(parts)):
        parts[i] = call.map("add", call.kind, parts[i - 1], parts[i])
    return np.stack(parts, axis=dim)


def _gather(call: _Call) -> Cells:
    dim = _along(call, call.args[1])
    x, at = np.moveaxis(call.cells(), dim, 0), np.moveaxis(call.cells(2), dim, 0)
    x = x[(slice(None), *(slice(0, n) for n in at.shape[1:]))]
    return np.moveaxis(_chosen(call, x, at), 0, dim)


def _chosen(call: _Call, x: Cells, at: Cells) -> Cells:
    """``x[at]`` along the first dimension, entry by entry."""
    kind = TYPES[call.args[0].dtype]
    if x.shape[0] > CHOICES:
        return _looked_up(call.graph, kind, x, at)
    out = np.broadcast_to(x[0], at.shape)
    for i in range(1, x.shape[0]):
        here = call.map("eq", "b", at, cells_of(call.graph, i, "l"))
        out = call.map("select", kind, here, np.broadcast_to(x[i], at.shape), out)
    return out


def _looked_up(graph: Graph, kind: str, x: Cells, at: Cells) -> Cells:
    """The same by a look into memory, where all entries are put."""
    out = np.empty(at.shape, dtype=object)
    for rest in np.ndindex(at.shape[1:]):
        whole = graph.make("array", kind, *x[(slice(None), *rest)])
        for k in range(at.shape[0]):
            out[(k, *rest)] = graph.make("take", kind, whole, at[(k, *rest)])
    return out


def _index(call: _Call) -> Cells:
    indices = [None if i is None else i for i in call.args[1]]
    used = [(d, i) for d, i in enumerate(indices) if i is not None]
    if len(used) != 1 or isinstance(used[0][1], Traced):
        if all(not isinstance(i, Traced) for _, i in used):
            return call.cells()[tuple(slice(None) if i is None else i.numpy() for i in indices)]
        raise Untraceable("indexes with a tensor that differs from row to row; use gather")
    dim, index = used[0]
    return call.cells().take(
        index.numpy().nonzero()[0] if index.dtype == torch.bool else index.numpy(), axis=_along(call, dim)
    )


def _index_select(call: _Call) -> Cells:
    if isinstance(call.args[2], Traced):
        raise Untraceable("picks with an index that differs from row to row; use gather")
    return call.cells().take(call.args[2].numpy(), axis=_along(call, call.args[1]))


def _index_add(call: _Call) -> Cells:
    dim, out, x = _along(call, call.args[1]), call.cells().copy(), call.cells(3, call.kind)
    sign = "sub" if call.kwargs.get("alpha", 1) == -1 else "add"
    front, add = np.moveaxis(out, dim, 0), np.moveaxis(x, dim, 0)
    for k, i in enumerate(call.args[2].tolist()):
        front[i] = call.map(sign, call.kind, front[i], add[k])
    return out


def _scatter(call: _Call) -> Cells:
    dim, kind = _along(call, call.args[1]), call.kind
    x, at = np.moveaxis(call.cells().copy(), dim, 0), np.moveaxis(call.cells(2), dim, 0)
    value = np.broadcast_to(
        np.moveaxis(call.cells(3, kind), dim, 0) if isinstance(call.args[3], Tensor) else call.cells(3, kind), at.shape
    )
    if x.shape[0] * at.shape[0] > PLACES:
        raise Untraceable(f"writes to {at.shape[0]} of {x.shape[0]} entries by data; the product can be {PLACES}")
    for k in range(at.shape[0]):
        for i in range(x.shape[0]):
            here = call.map("eq", "b", at[k], cells_of(call.graph, i, "l"))
            x[i] = call.map("select", kind, here, value[k], x[i])
    return np.moveaxis(x, 0, dim)


def _norm(call: _Call) -> Cells:
    dims = [_along(call, d) for d in call.dims(2, "dim")]
    x = call.cells(0, call.kind)
    x = call.map("mul", call.kind, x, x)
    for dim in sorted(dims, reverse=True):
        parts = [x.take(i, axis=dim) for i in range(x.shape[dim])]
        x = parts[0]
        for part in parts[1:]:
            x = call.map("add", call.kind, x, part)
    return call.map("sqrt", call.kind, x)


def _mean(call: _Call) -> Cells:
    count = math.prod(call.args[0].shape[d] for d in call.dims(1, "dim"))
    return call.map("div", call.kind, _folding("add")(call), cells_of(call.graph, count, call.kind))


HANDLERS: dict[str, Callable[[_Call], Any]] = {
    "add": _add, "sub": lambda call: _add(call, "sub"), "rsub": _rsub, "where": _where, "clamp": _clamp, "clamp_min": _clamp,
    "pow": _power, "remainder": _modulo, "floor_divide": _floor_divide, "reciprocal": _reciprocal, "rsqrt": _rsqrt,
    "_to_copy": _cast, "clone": _cast, "addcmul": _addcmul,
    "view": _view, "_unsafe_view": _view, "reshape": _view, "unsqueeze": _view, "squeeze": _view, "permute": _permute,
    "transpose": _transpose, "t": _t, "expand": _expand, "select": _select, "slice": _slice, "unbind": _unbind,
    "split": _split, "split_with_sizes": _split, "slice_scatter": _slice_scatter, "select_scatter": _select_scatter,
    "cat": _cat, "stack": _stack, "constant_pad_nd": _pad, "repeat": _repeat, "flip": _flip,
    "zeros_like": lambda call: _filled(call, 0), "ones_like": lambda call: _filled(call, 1),
    "new_zeros": lambda call: _filled(call, 0), "new_ones": lambda call: _filled(call, 1),
    "full_like": _full, "new_full": _full,
    "sum": _folding("add"), "amin": _folding("min"), "amax": _folding("max"), "any": _folding("or", "b"),
    "all": _folding("and", "b"), "prod": _folding("mul"), "mean": _mean,
    "argmax": _arg("gt"), "argmin": _arg("lt"), "sort": _sorted, "cumsum": _cumsum, "gather": _gather,
    "index": _index, "index_select": _index_select, "index_add": _index_add, "scatter": _scatter, "linalg_vector_norm": _norm,
}  # fmt: skip


def traced(graph: Graph, shape: Sequence[int], dtype: torch.dtype, row_dim: int) -> Traced:
    """A tensor of new inputs of the graph, numbered in order.

    Args:
        graph: gets the inputs.
        shape: with any size where the rows are.
        dtype: of the numbers.
        row_dim: where the rows are.

    """
    sizes = list(shape)
    sizes[row_dim] = 1
    start = sum(node.op == "input" for node in graph.nodes)
    cells = np.empty(math.prod(sizes), dtype=object)
    cells[:] = [graph.input(start + i, TYPES[dtype]) for i in range(len(cells))]
    full = [ROWS if d == row_dim % len(sizes) else n for d, n in enumerate(sizes)]
    return Traced(cells.reshape(sizes), full, dtype, graph)
