"""Operations on every entry by itself, and the list of the other files whose handlers the tracer knows.

A handler gets the arguments of its operation by name (:func:`marlenv.physics.jit.tracer.handles`) and says in
expressions what eager mode computes, in eager mode's order where that changes the last bit: NaN goes through minima and
maxima, integers wrap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.physics.jit import operations_folds, operations_lookups, operations_views
from marlenv.physics.jit.graph import TYPES, Untraceable
from marlenv.physics.jit.tracer import Call, Cells, handles

FILES = (operations_views, operations_folds, operations_lookups)
"""Where the other handlers are."""

# --- of one number -------------------------------------------------------------------------------

WHOLE = ("floor", "ceil", "trunc", "round")  # of integers they are the integers
ONE = ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log",
       "log2", "log10", "log1p", "erf", "sigmoid", "neg", "abs", "sign", "floor", "ceil", "trunc")  # fmt: skip


def _one(op: str) -> Any:
    def handler(call: Call, self: Tensor) -> Cells:
        x = call.cells(self, call.kind)
        if call.kind == "b":
            return x  # of truth values only sign, abs and their like are left
        return x if op in WHOLE and call.kind == "l" else call.map(op, call.kind, x)

    return handler


for _name in ONE:
    handles(_name)(_one(_name))
handles("sgn")(_one("sign"))


@handles("round")
def _round(call: Call, self: Tensor, decimals: int = 0) -> Cells:
    x = call.cells(self, call.kind)
    if call.kind == "l" or decimals == 0:
        return x if call.kind == "l" else call.map("round", call.kind, x)
    unit = call.const(10.0 ** abs(decimals), call.kind)
    there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return call.map(back, call.kind, call.map("round", call.kind, call.map(there, call.kind, x, unit)), unit)


@handles("_to_copy", "clone")
def _cast(call: Call, self: Tensor, dtype: Any = None) -> Cells:
    return call.cells(self, call.kind)


@handles("frac")
def _fraction(call: Call, self: Tensor) -> Cells:
    x = call.cells(self)
    return call.map("sub", call.kind, x, call.map("trunc", call.kind, x))


@handles("reciprocal")
def _reciprocal(call: Call, self: Tensor) -> Cells:
    return call.map("div", call.kind, call.const(1.0, call.kind), call.cells(self, call.kind))


@handles("rsqrt")
def _rsqrt(call: Call, self: Tensor) -> Cells:
    root = call.map("sqrt", call.kind, call.cells(self, call.kind))
    return call.map("div", call.kind, call.const(1.0, call.kind), root)


@handles("isnan")
def _isnan(call: Call, self: Tensor) -> Cells:
    x = call.cells(self)
    return (
        np.broadcast_to(call.const(False, "b"), call.shape) if TYPES[self.dtype] in "lb" else call.map("ne", "b", x, x)
    )


@handles("isinf")
def _isinf(call: Call, self: Tensor) -> Cells:
    kind = TYPES[self.dtype]
    if kind in "lb":
        return np.broadcast_to(call.const(False, "b"), call.shape)
    return call.map("eq", "b", call.map("abs", kind, call.cells(self)), call.const(float("inf"), kind))


def _is_infinite(value: float) -> Any:
    def handler(call: Call, self: Tensor) -> Cells:
        kind = TYPES[self.dtype]
        return call.map(
            "eq", "b", call.cells(self, "f" if kind in "lb" else kind), call.const(value, "f" if kind in "lb" else kind)
        )

    return handler


handles("isposinf")(_is_infinite(float("inf")))
handles("isneginf")(_is_infinite(-float("inf")))


def _times(factor: float) -> Any:
    return lambda call, self: call.map("mul", call.kind, call.cells(self, call.kind), call.const(factor, call.kind))


handles("deg2rad")(_times(math.pi / 180))
handles("rad2deg")(_times(180 / math.pi))


@handles("nan_to_num")
def _nan_to_num(
    call: Call, self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Cells:
    x, kind = call.cells(self), call.kind
    if kind in "lb":
        return x
    most = torch.finfo(call.dtype).max
    for value, new in (
        (float("inf"), most if posinf is None else posinf),
        (-float("inf"), -most if neginf is None else neginf),
    ):
        x = call.map("select", kind, call.map("eq", "b", x, call.const(value, kind)), call.const(new, kind), x)
    return call.map("select", kind, call.map("ne", "b", x, x), call.const(nan or 0.0, kind), x)


@handles("relu")
def _relu(call: Call, self: Tensor) -> Cells:
    return call.map("max", call.kind, call.cells(self), call.const(0, call.kind))


@handles("leaky_relu")
def _leaky_relu(call: Call, self: Tensor, negative_slope: float) -> Cells:
    x, kind = call.cells(self), call.kind
    slow = call.map("mul", kind, x, call.const(negative_slope, kind))
    return call.map("select", kind, call.map("gt", "b", x, call.const(0, kind)), x, slow)


@handles("elu")
def _elu(call: Call, self: Tensor, alpha: float, scale: float, input_scale: float) -> Cells:
    x, kind = call.cells(self), call.kind
    low = call.map("expm1", kind, call.map("mul", kind, x, call.const(input_scale, kind)))
    low = call.map("mul", kind, low, call.const(alpha * scale, kind))
    high = call.map("mul", kind, x, call.const(scale, kind))
    return call.map("select", kind, call.map("le", "b", x, call.const(0, kind)), low, high)


@handles("silu")
def _silu(call: Call, self: Tensor) -> Cells:
    x = call.cells(self)
    return call.map("mul", call.kind, x, call.map("sigmoid", call.kind, x))


@handles("gelu")
def _gelu(call: Call, self: Tensor, approximate: str) -> Cells:
    x, kind = call.cells(self), call.kind

    def times(a: Cells, b: float) -> Cells:
        return call.map("mul", kind, a, call.const(b, kind))

    if approximate == "none":
        bent = call.map("erf", kind, times(x, 0.5**0.5))
    else:
        cube = call.map("mul", kind, call.map("mul", kind, x, x), x)
        bent = call.map("tanh", kind, times(call.map("add", kind, x, times(cube, 0.044715)), 0.7978845608028654))
    return call.map("mul", kind, times(x, 0.5), call.map("add", kind, bent, call.const(1, kind)))


@handles("softplus")
def _softplus(call: Call, self: Tensor, beta: float, threshold: float) -> Cells:
    x, kind = call.cells(self), call.kind
    steep = call.map("mul", kind, x, call.const(beta, kind))
    soft = call.map("div", kind, call.map("logaddexp", kind, steep, call.const(0, kind)), call.const(beta, kind))
    return call.map("select", kind, call.map("gt", "b", steep, call.const(threshold, kind)), x, soft)


@handles("hardtanh")
def _hardtanh(call: Call, self: Tensor, min_val: float, max_val: float) -> Cells:
    return _limited(call, call.cells(self), min_val, max_val)


# --- of two numbers ------------------------------------------------------------------------------

TRUTH = {"add": "or", "mul": "and", "min": "and", "max": "or"}  # what arithmetic does to truth values


def _two(call: Call, op: str, one: Cells, two: Cells, kind: str) -> Cells:
    return call.map(TRUTH[op] if kind == "b" else op, kind, one, two)


@handles("mul")
def _mul(call: Call, self: Any, other: Any) -> Cells:
    return _two(call, "mul", call.cells(self, call.kind), call.cells(other, call.kind), call.kind)


@handles("add")
def _add(call: Call, self: Any, other: Any, alpha: float) -> Cells:
    return _two(call, "add", call.cells(self, call.kind), _scaled(call, other, alpha), call.kind)


@handles("sub")
def _sub(call: Call, self: Any, other: Any, alpha: float) -> Cells:
    return call.map("sub", call.kind, call.cells(self, call.kind), _scaled(call, other, alpha))


@handles("rsub")
def _rsub(call: Call, self: Any, other: Any, alpha: float) -> Cells:
    return call.map("sub", call.kind, call.cells(other, call.kind), _scaled(call, self, alpha))


def _scaled(call: Call, x: Any, by: float) -> Cells:
    cells = call.cells(x, call.kind)
    return cells if by == 1 else _two(call, "mul", cells, call.const(by, call.kind), call.kind)


@handles("minimum")
def _minimum(call: Call, self: Any, other: Any) -> Cells:
    return _two(call, "min", call.cells(self, call.kind), call.cells(other, call.kind), call.kind)


@handles("maximum")
def _maximum(call: Call, self: Any, other: Any) -> Cells:
    return _two(call, "max", call.cells(self, call.kind), call.cells(other, call.kind), call.kind)


def _without_nan(op: str) -> Any:
    def handler(call: Call, self: Any, other: Any) -> Cells:
        a, b, kind = call.cells(self, call.kind), call.cells(other, call.kind), call.kind
        found = _two(call, op, a, b, kind)
        if kind in "lb":
            return found
        found = call.map("select", kind, call.map("ne", "b", a, a), b, found)
        return call.map("select", kind, call.map("ne", "b", b, b), a, found)

    return handler


handles("fmin")(_without_nan("min"))
handles("fmax")(_without_nan("max"))


def _limited(call: Call, x: Cells, low: Any, high: Any) -> Cells:
    for limit, op in ((low, "max"), (high, "min")):
        if limit is not None:
            x = _two(call, op, x, call.cells(limit, call.kind), call.kind)
    return x


@handles("clamp")
def _clamp(call: Call, self: Tensor, min: Any, max: Any) -> Cells:
    return _limited(call, call.cells(self, call.kind), min, max)


@handles("clamp_min")
def _clamp_min(call: Call, self: Tensor, min: Any) -> Cells:
    return _limited(call, call.cells(self, call.kind), min, None)


@handles("clamp_max")
def _clamp_max(call: Call, self: Tensor, max: Any) -> Cells:
    return _limited(call, call.cells(self, call.kind), None, max)


@handles("div")
def _div(call: Call, self: Any, other: Any, rounding_mode: str | None = None) -> Cells:
    kind = call.kind
    x, y = call.cells(self, kind), call.cells(other, kind)
    if rounding_mode == "floor":
        return call.map("floordiv", kind, x, _divisor(call, y))
    if rounding_mode == "trunc":
        return (
            call.map("truncdiv", "l", x, _divisor(call, y))
            if kind == "l"
            else call.map("trunc", kind, call.map("div", kind, x, y))
        )
    return call.map("div", kind, x, y)


@handles("floor_divide")
def _floor_divide(call: Call, self: Any, other: Any) -> Cells:
    return call.map("floordiv", call.kind, call.cells(self, call.kind), _divisor(call, call.cells(other, call.kind)))


@handles("remainder")
def _remainder(call: Call, self: Any, other: Any) -> Cells:
    return call.map("mod", call.kind, call.cells(self, call.kind), _divisor(call, call.cells(other, call.kind)))


@handles("fmod")
def _fmod(call: Call, self: Any, other: Any) -> Cells:
    return call.map("rem", call.kind, call.cells(self, call.kind), _divisor(call, call.cells(other, call.kind)))


def _divisor(call: Call, cells: Cells) -> Cells:
    """What an integer is divided by: never 0, as eager mode raises there."""
    for node in cells.reshape(-1).tolist() if call.kind == "l" else ():
        if node.low <= 0 <= node.high:
            raise Untraceable(f"divides integers by what may be 0 ({call.name}); use n.clamp(min=1), or floats")
    return cells


@handles("pow")
def _power(call: Call, self: Any, exponent: Any) -> Cells:
    kind = call.kind
    x = call.cells(self, kind)
    if isinstance(exponent, Tensor) or not isinstance(self, Tensor):
        if kind == "l":
            raise Untraceable("raises integers to powers that are data; use floats")
        return call.map("pow", kind, x, call.cells(exponent, kind))
    if exponent in (0.5, -0.5, -1, -2) and kind != "l":
        x = call.map("sqrt", kind, x) if abs(exponent) == 0.5 else call.map("mul", kind, x, x) if exponent == -2 else x
        return x if exponent == 0.5 else call.map("div", kind, call.const(1, kind), x)
    if exponent == 0:
        return np.broadcast_to(call.const(1, kind), call.shape)
    if float(exponent).is_integer() and 0 < exponent <= 64 and (kind == "l" or exponent <= 4):
        out = x
        for _ in range(int(exponent) - 1):
            out = call.map("mul", kind, out, x)
        return out
    if kind == "l":
        raise Untraceable(f"raises integers to the power of {exponent}; it can be 0 to 64")
    return call.map("pow", kind, x, call.const(exponent, kind))


@handles("atan2")
def _atan2(call: Call, self: Any, other: Any) -> Cells:
    return call.map("atan2", call.kind, call.cells(self, call.kind), call.cells(other, call.kind))


@handles("logaddexp")
def _logaddexp(call: Call, self: Any, other: Any) -> Cells:
    return call.map("logaddexp", call.kind, call.cells(self, call.kind), call.cells(other, call.kind))


@handles("hypot")
def _hypot(call: Call, self: Any, other: Any) -> Cells:
    return call.map("hypot", call.kind, call.cells(self, call.kind), call.cells(other, call.kind))


# --- comparisons and truth values ----------------------------------------------------------------


def _compared(op: str) -> Any:
    def handler(call: Call, self: Any, other: Any) -> Cells:
        like = [torch.empty_like(x, device="meta") if isinstance(x, Tensor) and x.ndim == 0 and type(x) is Tensor
                else torch.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x
                for x in (self, other)]  # fmt: skip
        kind = TYPES[torch.result_type(*like)]
        kind = "l" if kind == "b" else kind
        return call.map(op, "b", call.cells(self, kind), call.cells(other, kind))

    return handler


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    handles(_name)(_compared(_name))


def _joined(op: str, kind: str | None) -> Any:
    return lambda call, self, other: call.map(
        op, kind or call.kind, call.cells(self, kind or call.kind), call.cells(other, kind or call.kind)
    )


for _name, _op in (("and", "and"), ("or", "or"), ("xor", "xor")):
    handles(f"bitwise_{_name}")(_joined(_op, None))
    handles(f"logical_{_name}")(_joined(_op, "b"))


@handles("logical_not")
def _logical_not(call: Call, self: Tensor) -> Cells:
    return call.map("not", "b", call.cells(self, "b"))


@handles("bitwise_not")
def _bitwise_not(call: Call, self: Tensor) -> Cells:
    x = call.cells(self)
    return call.map("not", "b", x) if call.kind == "b" else call.map("xor", "l", x, call.const(-1, "l"))


def _shift(op: str) -> Any:
    def handler(call: Call, self: Any, other: Any) -> Cells:
        by = call.cells(other, "l")
        if call.dtype != torch.int64 or any(node.low < 0 or node.high > 62 for node in by.reshape(-1).tolist()):
            raise Untraceable("shifts by what may be less than 0 or more than 62, or other integers than int64")
        return call.map(op, "l", call.cells(self, "l"), by)

    return handler


handles("__rshift__", "bitwise_right_shift")(_shift("shr"))
handles("__lshift__", "bitwise_left_shift")(_shift("shl"))


# --- of three numbers ----------------------------------------------------------------------------


@handles("where")
def _where(call: Call, condition: Tensor, self: Any, other: Any) -> Cells:
    kind = call.kind
    return call.map("select", kind, call.cells(condition, "b"), call.cells(self, kind), call.cells(other, kind))


@handles("masked_fill")
def _masked_fill(call: Call, self: Tensor, mask: Tensor, value: Any) -> Cells:
    kind = call.kind
    return call.map("select", kind, call.cells(mask, "b"), call.cells(value, kind), call.cells(self, kind))


@handles("addcmul")
def _addcmul(call: Call, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: float) -> Cells:
    kind = call.kind
    product = call.map("mul", kind, _scaled(call, tensor1, value), call.cells(tensor2, kind))
    return call.map("add", kind, call.cells(self, kind), product)


@handles("addcdiv")
def _addcdiv(call: Call, self: Tensor, tensor1: Tensor, tensor2: Tensor, value: float) -> Cells:
    kind = call.kind
    quotient = call.map("div", kind, _scaled(call, tensor1, value), call.cells(tensor2, kind))
    return call.map("add", kind, call.cells(self, kind), quotient)


@handles("lerp")
def _lerp(call: Call, self: Tensor, end: Tensor, weight: Any) -> Cells:
    kind = call.kind
    a, b, w = call.cells(self, kind), call.cells(end, kind), call.cells(weight, kind)
    way = call.map("sub", kind, b, a)
    near = call.map("add", kind, a, call.map("mul", kind, w, way))
    far = call.map("sub", kind, b, call.map("mul", kind, way, call.map("sub", kind, call.const(1, kind), w)))
    small = call.map("lt", "b", call.map("abs", kind, w), call.const(0.5, kind))
    return call.map("select", kind, small, near, far)
