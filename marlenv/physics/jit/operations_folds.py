"""Operations that look along dimensions: sums, extremes, orders, norms and matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from marlenv.physics.jit.graph import TYPES, Untraceable
from marlenv.physics.jit.tracer import Call, Cells, handles

Dims = Any
NEUTRAL = {"add": 0, "mul": 1, "or": False, "and": True}
TRUTH = {"add": "or", "mul": "and", "min": "and", "max": "or"}


def fold(call: Call, op: str, kind: str, x: Cells, dims: Sequence[int]) -> Cells:
    """``op`` over all entries along some dimensions, which have size 1 afterwards."""
    op = TRUTH.get(op, op) if kind == "b" else op
    for dim in dims:
        if not x.shape[dim]:
            blank = np.empty([1 if d == dim else n for d, n in enumerate(x.shape)], dtype=object)
            blank[...] = call.graph.const(NEUTRAL[op], kind)
            x = blank
            continue
        parts = np.split(x, x.shape[dim], axis=dim)
        x = parts[0]
        for part in parts[1:]:
            x = call.map(op, kind, x, part)
    return x


# --- sums ----------------------------------------------------------------------------------------


@handles("sum")
def _sum(call: Call, self: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Cells:
    return fold(call, "add", call.kind, call.cells(self, call.kind), call.dims(self, dim))


@handles("nansum")
def _nansum(call: Call, self: Tensor, dim: Dims, keepdim: bool, dtype: Any) -> Cells:
    x, kind = call.cells(self, call.kind), call.kind
    return fold(
        call,
        "add",
        kind,
        call.map("select", kind, call.map("ne", "b", x, x), call.const(0, kind), x),
        call.dims(self, dim),
    )


@handles("prod")
def _prod(call: Call, self: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Cells:
    return fold(call, "mul", call.kind, call.cells(self, call.kind), call.dims(self, dim))


@handles("mean")
def _mean(call: Call, self: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Cells:
    return _average(call, call.cells(self, call.kind), call.dims(self, dim))


def _average(call: Call, x: Cells, dims: Sequence[int], less: float = 0) -> Cells:
    count = math.prod(x.shape[d] for d in dims) - less
    return call.map("div", call.kind, fold(call, "add", call.kind, x, dims), call.const(max(count, 0), call.kind))


def _spread(call: Call, x: Tensor, dim: Dims, correction: float | None) -> tuple[Cells, Cells]:
    """The variance along dimensions, and the mean."""
    kind, dims = call.kind, call.dims(x, dim)
    cells = call.cells(x, kind)
    mean = _average(call, cells, dims)
    away = call.map("sub", kind, cells, mean)
    return _average(call, call.map("mul", kind, away, away), dims, 1 if correction is None else correction), mean


@handles("var")
def _var(call: Call, self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Cells:
    return _spread(call, self, dim, correction)[0]


@handles("std")
def _std(call: Call, self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Cells:
    return call.map("sqrt", call.kind, _spread(call, self, dim, correction)[0])


@handles("var_mean")
def _var_mean(call: Call, self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> list[Cells]:
    return list(_spread(call, self, dim, correction))


@handles("std_mean")
def _std_mean(call: Call, self: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> list[Cells]:
    var, mean = _spread(call, self, dim, correction)
    return [call.map("sqrt", call.kind, var), mean]


@handles("any")
def _any(call: Call, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Cells:
    return call.cast(fold(call, "or", "b", call.cells(self, "b"), call.dims(self, dim)), call.kind)


@handles("all")
def _all(call: Call, self: Tensor, dim: Dims = None, keepdim: bool = False) -> Cells:
    return call.cast(fold(call, "and", "b", call.cells(self, "b"), call.dims(self, dim)), call.kind)


@handles("count_nonzero")
def _count_nonzero(call: Call, self: Tensor, dim: Dims) -> Cells:
    return fold(call, "add", "l", call.cast(call.cells(self, "b"), "l"), call.dims(self, dim))


def _running(call: Call, op: str, x: Cells, dim: int) -> Cells:
    parts = [x.take(i, axis=dim) for i in range(x.shape[dim])]
    for i in range(1, len(parts)):
        parts[i] = call.map(op, call.kind, parts[i - 1], parts[i])
    return np.stack(parts, axis=dim) if parts else x


@handles("cumsum")
def _cumsum(call: Call, self: Tensor, dim: int, dtype: Any) -> Cells:
    return _running(call, "add", call.cells(self, call.kind), call.along(self, dim))


@handles("cumprod")
def _cumprod(call: Call, self: Tensor, dim: int, dtype: Any) -> Cells:
    return _running(call, "mul", call.cells(self, call.kind), call.along(self, dim))


# --- norms ---------------------------------------------------------------------------------------


def _norm(call: Call, x: Cells, p: float, dims: Sequence[int]) -> Cells:
    kind = call.kind
    if p == 2:
        return call.map("sqrt", kind, fold(call, "add", kind, call.map("mul", kind, x, x), dims))
    size = call.map("abs", kind, x)
    if math.isinf(p):
        return fold(call, "max" if p > 0 else "min", kind, size, dims)
    if p == 0:
        return fold(call, "add", kind, call.cast(call.map("ne", "b", x, call.const(0, kind)), kind), dims)
    if p == 1:
        return fold(call, "add", kind, size, dims)
    whole = fold(call, "add", kind, call.map("pow", kind, size, call.const(p, kind)), dims)
    return call.map("pow", kind, whole, call.const(1 / p, kind))


@handles("linalg_vector_norm")
def _vector_norm(call: Call, self: Tensor, ord: float, dim: Dims, keepdim: bool, dtype: Any) -> Cells:
    return _norm(call, call.cells(self, call.kind), ord, call.dims(self, dim))


@handles("norm")
def _old_norm(
    call: Call, self: Tensor, p: float | None, dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Cells:
    return _norm(call, call.cells(self, call.kind), 2 if p is None else p, call.dims(self, dim))


@handles("_cdist_forward")
def _distances(call: Call, x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Cells:
    return _between(call, x1, x2, p)


def _between(call: Call, x1: Tensor, x2: Tensor, p: float) -> Cells:
    """The distances of all pairs of points."""
    call.along(x1, -1), call.along(x2, -1)
    away = call.map("sub", call.kind, np.expand_dims(call.cells(x1), -2), np.expand_dims(call.cells(x2), -3))
    if math.isinf(p):  # eager mode passes over NaN here, and here only
        away = call.map("select", call.kind, call.map("ne", "b", away, away), call.const(0, call.kind), away)
    return _norm(call, away, p, [away.ndim - 1])[..., 0]


@handles("_euclidean_dist")
def _lengths(call: Call, x1: Tensor, x2: Tensor) -> Cells:
    return _between(call, x1, x2, 2)


# --- extremes and orders -------------------------------------------------------------------------


@handles("amax")
def _amax(call: Call, self: Tensor, dim: Dims, keepdim: bool) -> Cells:
    return fold(call, "max", call.kind, call.cells(self), call.dims(self, dim))


@handles("amin")
def _amin(call: Call, self: Tensor, dim: Dims, keepdim: bool) -> Cells:
    return fold(call, "min", call.kind, call.cells(self), call.dims(self, dim))


@handles("aminmax")
def _aminmax(call: Call, self: Tensor, dim: int | None, keepdim: bool) -> list[Cells]:
    x, dims = call.cells(self), call.dims(self, dim)
    return [fold(call, op, call.kind, x, dims) for op in ("min", "max")]


def _before(call: Call, kind: str, one: Cells, other: Cells, *, down: bool) -> Cells:
    """Whether an entry comes strictly before another one in an order in which NaN is the largest."""
    if kind == "b":
        one, other, kind = call.cast(one, "l"), call.cast(other, "l"), "l"
    if kind == "l":
        return call.map("gt" if down else "lt", "b", one, other)
    not_after = call.map("not", "b", call.map("le" if down else "ge", "b", one, other))
    real = (
        other if down else one
    )  # what is NaN comes before nothing in ascending order, after nothing in descending order
    return call.map("and", "b", not_after, call.map("eq", "b", real, real))


def _best(call: Call, x: Tensor, dim: int | None, *, most: bool) -> tuple[Cells, Cells]:
    """The first of the largest (or smallest) entries along a dimension, and where it is; NaN is both."""
    dims, kind = call.dims(x, dim), TYPES[x.dtype]
    cells = call.cells(x).reshape(-1) if dim is None else call.cells(x)
    along = 0 if dim is None or not x.ndim else dims[0]
    parts = [cells.take(i, axis=along) for i in range(cells.shape[along])] if cells.ndim else [cells]
    best, at = parts[0], np.broadcast_to(call.const(0, "l"), parts[0].shape)
    for i, one in enumerate(parts[1:], 1):
        if most or kind in "lb":
            better = _before(call, kind, one, best, down=most)
        else:  # the first NaN stays
            better = call.map("not", "b", call.map("ge", "b", one, best))
            better = call.map("and", "b", better, call.map("eq", "b", best, best))
        best = call.map("select", kind, better, one, best)
        at = call.map("select", "l", better, call.const(i, "l"), at)
    return best, at


@handles("argmax")
def _argmax(call: Call, self: Tensor, dim: int | None, keepdim: bool) -> Cells:
    return _best(call, self, dim, most=True)[1]


@handles("argmin")
def _argmin(call: Call, self: Tensor, dim: int | None, keepdim: bool) -> Cells:
    return _best(call, self, dim, most=False)[1]


def _extreme(op: str) -> Callable[..., Any]:
    def handler(call: Call, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return fold(call, op, call.kind, call.cells(self), call.dims(self, None))
        return list(_best(call, self, dim, most=op == "max"))

    return handler


handles("max")(_extreme("max"))
handles("min")(_extreme("min"))


def _sorted(call: Call, x: Tensor, dim: int, *, down: bool) -> tuple[Cells, Cells]:
    """Entries in order, and where they were; equal ones stay in the order they had, and NaN is the largest."""
    dim, kind = call.along(x, dim), TYPES[x.dtype]
    cells = np.moveaxis(call.cells(x), dim, 0) if x.ndim else call.cells(x).reshape(1)
    values = [cells[i : i + 1] for i in range(len(cells))]
    places = [np.broadcast_to(call.const(i, "l"), values[i].shape) for i in range(len(values))]
    for end in range(len(values) - 1, 0, -1):
        for i in range(end):
            a, b = values[i], values[i + 1]
            swap = _before(call, kind, b, a, down=down)
            values[i], values[i + 1] = call.map("select", kind, swap, b, a), call.map("select", kind, swap, a, b)
            p, q = places[i], places[i + 1]
            places[i], places[i + 1] = call.map("select", "l", swap, q, p), call.map("select", "l", swap, p, q)
    if not values:
        return call.cells(x), call.cells(x)
    one, two = (np.moveaxis(np.concatenate(parts), 0, dim) for parts in (values, places))
    return one, two


@handles("sort")
def _sort(call: Call, self: Tensor, dim: int, descending: bool, stable: bool | None = None) -> list[Cells]:
    return list(_sorted(call, self, dim, down=descending))


@handles("topk")
def _topk(call: Call, self: Tensor, k: int, dim: int, largest: bool, sorted: bool) -> list[Cells]:
    return [x.take(range(k), axis=dim) for x in _sorted(call, self, dim, down=largest)]


@handles("kthvalue")
def _kthvalue(call: Call, self: Tensor, k: int, dim: int, keepdim: bool) -> list[Cells]:
    return [x.take(k - 1, axis=dim) for x in _sorted(call, self, dim, down=False)]


@handles("median")
def _median(call: Call, self: Tensor, dim: int | None = None, keepdim: bool = False) -> list[Cells]:
    """The lower one of two in the middle; NaN where there is any."""
    if dim is None:
        raise Untraceable("takes rows apart or puts them together (median); say along which dimension")
    values, places = _sorted(call, self, dim, down=False)
    kind, n = TYPES[self.dtype], self.shape[dim]
    middle, last = ([x.take(i, axis=dim) for x in (values, places)] for i in ((n - 1) // 2, n - 1))
    if kind in "lb":
        return middle
    odd = call.map("ne", "b", last[0], last[0])  # NaN comes last, the first of them is wanted
    found = call.map("select", kind, odd, last[0], middle[0])
    at = middle[1]
    for i in range(n - 1, -1, -1):
        one = call.cells(self).take(i, axis=call.along(self, dim))
        at = call.map("select", "l", call.map("ne", "b", one, one), call.const(i, "l"), at)
    return [found, at]


def _running_best(call: Call, x: Tensor, dim: int, *, most: bool) -> list[Cells]:
    """The largest so far, and where the last of such is."""
    dim, kind = call.along(x, dim), TYPES[x.dtype]
    parts = [call.cells(x).take(i, axis=dim) for i in range(x.shape[dim])]
    order = "l" if kind == "b" else kind
    best, at = [parts[0]], [np.broadcast_to(call.const(0, "l"), parts[0].shape)]
    for i, one in enumerate(parts[1:], 1):
        was = best[-1]
        better = call.map("ge" if most else "le", "b", call.cast(one, order), call.cast(was, order))
        if kind in "fd":
            better = call.map("or", "b", better, call.map("ne", "b", one, one))
        best.append(call.map("select", kind, better, one, was))
        at.append(call.map("select", "l", better, call.const(i, "l"), at[-1]))
    return [np.stack(best, dim), np.stack(at, dim)]


@handles("cummax")
def _cummax(call: Call, self: Tensor, dim: int) -> list[Cells]:
    return _running_best(call, self, dim, most=True)


@handles("cummin")
def _cummin(call: Call, self: Tensor, dim: int) -> list[Cells]:
    return _running_best(call, self, dim, most=False)


# --- exponentials along a dimension --------------------------------------------------------------


def _shifted(call: Call, x: Tensor, dims: Sequence[int]) -> tuple[Cells, Cells, Cells]:
    """Entries less the largest one where that is finite, the exponentials' sum, and what was taken away."""
    kind, cells = call.kind, call.cells(x, call.kind)
    most = fold(call, "max", kind, cells, dims)
    wide = call.map("eq", "b", call.map("abs", kind, most), call.const(float("inf"), kind))
    most = call.map("select", kind, wide, call.const(0, kind), most)
    less = call.map("sub", kind, cells, most)
    return less, fold(call, "add", kind, call.map("exp", kind, less), dims), most


@handles("_softmax")
def _softmax(call: Call, self: Tensor, dim: int, half_to_float: bool) -> Cells:
    kind, dims = call.kind, [call.along(self, dim)]
    less = call.map("sub", kind, call.cells(self, kind), fold(call, "max", kind, call.cells(self, kind), dims))
    grown = call.map("exp", kind, less)
    return call.map("div", kind, grown, fold(call, "add", kind, grown, dims))


@handles("_log_softmax")
def _log_softmax(call: Call, self: Tensor, dim: int, half_to_float: bool) -> Cells:
    kind, dims = call.kind, [call.along(self, dim)]
    less = call.map("sub", kind, call.cells(self, kind), fold(call, "max", kind, call.cells(self, kind), dims))
    whole = fold(call, "add", kind, call.map("exp", kind, less), dims)
    return call.map("sub", kind, less, call.map("log", kind, whole))


@handles("logsumexp")
def _logsumexp(call: Call, self: Tensor, dim: Dims, keepdim: bool) -> Cells:
    _, whole, most = _shifted(call, self, call.dims(self, dim))
    return call.map("add", call.kind, call.map("log", call.kind, whole), most)


# --- products of matrices ------------------------------------------------------------------------


def _product(call: Call, a: Tensor, b: Tensor, *, left: str = "takes rows apart or puts them together") -> Cells:
    """``[..., n, k]`` times ``[..., k, m]``."""
    call.along(a, -1, left), call.along(b, -2, left)
    one, two = call.cells(a, call.kind), call.cells(b, call.kind)
    terms = call.map("mul", call.kind, np.expand_dims(one, -1), np.expand_dims(two, -3))
    return fold(call, "add", call.kind, terms, [terms.ndim - 2])[..., 0, :]


@handles("mm", "bmm")
def _mm(call: Call, self: Tensor, mat2: Tensor) -> Cells:
    return _product(call, self, mat2)


def _added(call: Call, x: Tensor, product: Cells, beta: float, alpha: float) -> Cells:
    kind = call.kind
    if alpha != 1:
        product = call.map("mul", kind, product, call.const(alpha, kind))
    if beta == 0:
        return product  # what is added is not looked at, as in eager mode
    cells = call.cells(x, kind)
    return call.map("add", kind, product, cells if beta == 1 else call.map("mul", kind, cells, call.const(beta, kind)))


@handles("addmm")
def _addmm(call: Call, self: Tensor, mat1: Tensor, mat2: Tensor, beta: float, alpha: float) -> Cells:
    return _added(call, self, _product(call, mat1, mat2), beta, alpha)


@handles("baddbmm")
def _baddbmm(call: Call, self: Tensor, batch1: Tensor, batch2: Tensor, beta: float, alpha: float) -> Cells:
    return _added(call, self, _product(call, batch1, batch2), beta, alpha)


@handles("mv")
def _mv(call: Call, self: Tensor, vec: Tensor) -> Cells:
    return _applied(call, self, vec)


@handles("addmv")
def _addmv(call: Call, self: Tensor, mat: Tensor, vec: Tensor, beta: float, alpha: float) -> Cells:
    return _added(call, self, _applied(call, mat, vec), beta, alpha)


def _applied(call: Call, a: Tensor, x: Tensor) -> Cells:
    call.along(a, -1), call.along(x, 0)
    terms = call.map("mul", call.kind, call.cells(a, call.kind), call.cells(x, call.kind))
    return fold(call, "add", call.kind, terms, [1])[:, 0]


@handles("linalg_cross")
def _cross(call: Call, self: Tensor, other: Tensor, dim: int) -> Cells:
    dim, kind = call.along(self, dim), call.kind
    pairs = zip(np.broadcast_arrays(call.cells(self, kind), call.cells(other, kind)), (0, 0), strict=True)
    a, b = ([x.take(i, axis=dim) for i in range(3)] for x, _ in pairs)

    def part(i: int, j: int) -> Cells:
        return call.map("sub", kind, call.map("mul", kind, a[i], b[j]), call.map("mul", kind, a[j], b[i]))

    return np.stack([part(1, 2), part(2, 0), part(0, 1)], dim)
