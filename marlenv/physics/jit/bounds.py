"""Between which numbers an expression lies, and whether it is a finite number for certain.

Everything is said of a row whose inputs are *sound*: positions, velocities, actions and the like are finite numbers,
what a scenario remembers need not be. Sums and products of sound numbers count as sound, and as integers that fit:
numbers beyond 1e18 are not looked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

INT = (-(1 << 63), (1 << 63) - 1)
INF = math.inf
LARGE = 2.0**62
ARITHMETIC = ("add", "sub", "mul", "neg", "abs", "fma", "min", "max", "floor", "ceil", "round", "trunc", "sign", "sin",
              "cos", "tan", "tanh", "sigmoid", "atan", "atan2", "softplus", "logaddexp", "erf", "hypot", "take",
              "array", "cast")  # fmt: skip
RANGES = {"sin": (-1, 1), "cos": (-1, 1), "tanh": (-1, 1), "erf": (-1, 1), "sigmoid": (0, 1), "sign": (-1, 1),
          "atan": (-2, 2), "atan2": (-4, 4), "acos": (0, 4), "asin": (-2, 2), "exp": (0, INF), "exp2": (0, INF),
          "hypot": (0, INF), "softplus": (0, INF), "cosh": (1, INF), "expm1": (-1, INF)}  # fmt: skip


class Bounds(NamedTuple):
    """The lowest and the highest value, if it is a number, and whether it is a finite number for certain."""

    low: float
    high: float
    sound: bool


class Bounded(Protocol):
    """An expression."""

    op: str
    kind: str
    args: Any
    value: Any
    low: float
    high: float
    sound: bool


def whole(kind: str, *, sound: bool = False) -> Bounds:
    """Those of any number of a type."""
    if kind == "b":
        return Bounds(0, 1, True)
    return Bounds(*INT, True) if kind == "l" else Bounds(-INF, INF, sound)


def bounds(op: str, kind: str, args: Sequence[Bounded]) -> Bounds:
    """Those of ``op(*args)``.

    >>> from types import SimpleNamespace as Node
    >>> one = Node(op="input", kind="l", low=0, high=5, sound=True)
    >>> bounds("mul", "l", [one, one])[:2]
    (0, 25)
    """
    if kind == "b" or not args:
        return whole(kind)
    low, high = _range(op, kind, args)
    if math.isnan(low) or math.isnan(high):
        low, high = -INF, INF
    if kind == "f":
        low, high = _single(low), _single(high)  # rounding keeps the order
    if kind == "l" and (low < INT[0] or high > INT[1]):
        low, high = INT  # it may have wrapped
    return Bounds(low, high, kind == "l" or _sound(op, args))


def _sound(op: str, args: Sequence[Bounded]) -> bool:
    if op == "select":
        return args[1].sound and args[2].sound
    if not all(arg.sound for arg in args):
        return False
    x, y = args[0], args[-1]
    if op in ("div", "mod", "floordiv", "rem"):
        return excludes_zero(y)
    if op in ("exp", "exp2", "expm1", "sinh", "cosh"):
        return x.high <= 88 and (op not in ("sinh", "cosh") or x.low >= -88)
    if op in ("sqrt", "log", "log2", "log10", "log1p"):
        return x.low >= 0 if op == "sqrt" else x.low > (-1 if op == "log1p" else 0)
    if op in ("asin", "acos"):
        return x.low >= -1 and x.high <= 1
    return op in ARITHMETIC


def excludes_zero(x: Bounded) -> bool:
    """Whether an expression is never zero: by its bounds, or as ``where(x.abs() > c, x, 1)`` is."""
    if x.low > 0 or x.high < 0:
        return True
    if x.op != "select":
        return False
    which, a, b = x.args
    return (excludes_zero(a) or _tells(which, a, holds=True)) and (excludes_zero(b) or _tells(which, b, holds=False))


def _tells(which: Bounded, x: Bounded, *, holds: bool) -> bool:
    """Whether a condition that holds (or not) says that an expression is not zero."""
    if which.op == "not":
        return _tells(which.args[0], x, holds=not holds)
    if len(which.args) != 2 or which.args[1].op != "const":
        return False
    size, k = which.args[0], which.args[1].value
    if size is x:
        return k == 0 and which.op == ("ne" if holds else "eq")
    if size.op != "abs" or size.args[0] is not x:
        return False
    strict, weak = ("gt", "ge") if holds else ("le", "lt")
    return (which.op == strict and k >= 0) or (which.op == weak and k > 0)


def _range(op: str, kind: str, args: Sequence[Bounded]) -> tuple[float, float]:
    if op == "select":
        args = args[1:]
    if op == "take":
        args = args[:1]
    if op in ("select", "array", "take"):
        return min(arg.low for arg in args), max(arg.high for arg in args)
    if op in RANGES:
        return RANGES[op]
    x, y = args[0], args[-1]
    if op in STRAIGHT:
        made = [STRAIGHT[op](a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
        if len(args) == 2 and x is y and op == "mul":
            made = [0, *(a for a in made if a >= 0)]
        return (math.nan, math.nan) if any(map(math.isnan, made)) else (min(made), max(made))
    if op == "fma":
        first = bounds("mul", "d", args[:2])
        return first.low + y.low, first.high + y.high
    return SPECIAL[op](kind, x, y) if op in SPECIAL else whole(kind)[:2]


def _single(x: float) -> float:
    """A number as float32."""
    return float(x) if math.isinf(x) or x == 0 else float(np.float32(x)) if abs(x) < 3.4e38 else math.copysign(INF, x)


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


STRAIGHT: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": _product,
    "min": min,
    "max": max,
}
"""Where the extremes lie at the extremes of the arguments."""


def _cast(kind: str, x: Bounded, _: Bounded) -> tuple[float, float]:
    if kind != "l" or x.kind in "lb":
        return x.low, x.high
    if not x.sound:
        return INT  # what is no number becomes the lowest integer
    low = math.trunc(x.low) if x.low > -LARGE else INT[0]
    return low, math.trunc(x.high) if x.high < LARGE else INT[1]


def _abs(kind: str, x: Bounded, _: Bounded) -> tuple[float, float]:
    if kind == "l" and x.low == INT[0]:
        return INT
    return (0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))), max(abs(x.low), abs(x.high))


def _div(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    if kind == "l" or y.low <= 0:
        return whole(kind)[:2]
    ends = [a / b for a in (x.low, x.high) for b in (y.low, y.high) if not math.isinf(a) or not math.isinf(b)]
    return min(ends, default=-INF), max(ends, default=INF)


def _mod(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    if y.low <= 0:
        return whole(kind)[:2]
    return 0, y.high - 1 if kind == "l" else y.high


def _rem(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    if y.low <= 0:
        return whole(kind)[:2]
    most = y.high - 1 if kind == "l" else y.high
    return (0 if x.low >= 0 else -most), (0 if x.high <= 0 else most)


def _floordiv(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    if kind != "l" or y.low <= 0:
        return whole(kind)[:2]
    ends = [int(a) // int(b) for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(ends), max(ends)


def _truncdiv(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    low, high = _floordiv(kind, x, y)
    return low, high + 1 if high < INT[1] else high


def _and(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    tops = [arg.high for arg in (x, y) if arg.low >= 0]
    return (0, min(tops)) if tops else INT


def _or(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    return (0, (1 << int(max(x.high, y.high)).bit_length()) - 1) if x.low >= 0 and y.low >= 0 else INT


def _shr(kind: str, x: Bounded, y: Bounded) -> tuple[float, float]:
    if not 0 <= y.low <= y.high <= 63:
        return INT
    ends = [int(a) >> int(b) for a in (x.low, x.high) for b in (y.low, y.high)]
    return min(ends), max(ends)


def _monotone(f: Callable[[float], float]) -> Callable[[str, Bounded, Bounded], tuple[float, float]]:
    def ends(kind: str, x: Bounded, _: Bounded) -> tuple[float, float]:
        return tuple(a if math.isinf(a) else f(a) for a in (x.low, x.high))  # type: ignore[return-value]

    return ends


SPECIAL: dict[str, Callable[[str, Bounded, Bounded], tuple[float, float]]] = {
    "cast": _cast,
    "abs": _abs,
    "div": _div,
    "mod": _mod,
    "rem": _rem,
    "floordiv": _floordiv,
    "truncdiv": _truncdiv,
    "and": _and,
    "or": _or,
    "xor": _or,
    "shr": _shr,
    "neg": lambda kind, x, _: (-x.high, -x.low),
    "sqrt": _monotone(lambda a: math.sqrt(max(a, 0))),
    "floor": _monotone(math.floor),
    "ceil": _monotone(math.ceil),
    "round": _monotone(round),
    "trunc": _monotone(math.trunc),
}
