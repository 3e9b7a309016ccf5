"""The arithmetic of one row as a graph of scalar expressions: equal ones are one node, constants are folded.

A node is a number of one row at one moment. Folding keeps the roundings of float32; what it may change is the sign of a
zero. The types are those of :data:`TYPES`: ``f`` float32, ``d`` float64, ``l`` an integer, ``b`` a truth value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from marlenv.errors import Unsupported
from marlenv.physics.jit.bounds import Bounds, bounds, whole
from marlenv.rng import signed

TYPES = {
    torch.float32: "f",
    torch.float64: "d",
    torch.int64: "l",
    torch.int32: "l",
    torch.int16: "l",
    torch.int8: "l",
    torch.uint8: "l",
    torch.bool: "b",
}
DTYPES = ", ".join(str(dtype).removeprefix("torch.") for dtype in TYPES)
ROWS = (4099, 4111)
"""Two primes that are the size of nothing else; a scenario is traced with as many rows."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
COMMUTING = {"add", "mul", "and", "or", "xor", "eq", "ne"}
FOLDED: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "abs": abs,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shr": operator.rshift,
    "shl": operator.lshift,
    "min": np.minimum,
    "max": np.maximum,
    "floordiv": operator.floordiv,
    "truncdiv": lambda x, y: -(-x // y) if (x < 0) != (y < 0) else x // y,
    "mod": operator.mod,
    "rem": np.fmod,
    "not": lambda x: not x,
    "select": lambda c, a, b: a if c else b,
    "div": np.divide,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sign": np.sign,
    "atan2": np.arctan2,
    "atan": np.arctan,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log2": np.log2,
    "log10": np.log10,
    "pow": np.power,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
}


class Untraceable(Unsupported):
    """A function that cannot be turned into expressions of single rows."""


class LooksAtData(Untraceable):
    """A function whose Python needs numbers that only rows have."""


class TooLarge(Untraceable):
    """A function of more expressions than somebody wants to wait for."""


class Node:
    """An expression.

    Args:
        op: what it does with its arguments; ``"const"`` and ``"input"`` have none.
        kind: its type.
        args: the arguments.
        value: of a constant, or the number of an input.
        at: its place in the graph; arguments come before what uses them.
        between: its lowest and highest value, and whether it is a finite number for certain.

    """

    __slots__ = ("args", "at", "high", "kind", "low", "op", "sound", "value")

    def __init__(self, op: str, kind: str, args: tuple[Node, ...], value: Any, at: int, between: Bounds) -> None:
        self.op, self.kind, self.args, self.value, self.at = op, kind, args, value, at
        self.low, self.high, self.sound = between

    def __repr__(self) -> str:
        return f"{self.op}{self.at}" if self.op != "const" else repr(self.value)


class Loop:
    """A loop over some values: in every round all of them are replaced.

    Args:
        count: of rounds.
        index: the number of the round, an expression of the body.
        phis: the values at the start of a round, expressions of the body.
        inits: what they are before the first one.

    """

    def __init__(self, count: int, index: Node, phis: list[Node], inits: list[Node]) -> None:
        self.count, self.index, self.phis, self.inits = count, index, phis, inits
        self.nexts: list[Node] = []
        """What they are after a round."""
        self.stop: Node | None = None
        """Where there is nothing left to do; the loop ends when that is so in all rows."""


class Graph:
    """Expressions, each made once.

    Args:
        largest: raises :class:`Untraceable` when there are more.
        rows: how many rows there seem to be.

    >>> graph = Graph()
    >>> x = graph.input(0, "f")
    >>> graph.make("mul", "f", x, graph.const(1.0, "f")) is x
    True
    """

    def __init__(self, largest: int = 1 << 20, rows: int = ROWS[0]) -> None:
        self.largest, self.rows = largest, rows
        self.nodes: list[Node] = []
        self.loops: list[Loop] = []
        self.tables: dict[tuple[str, tuple[Any, ...]], int] = {}
        """Numbers that are the same for all rows, of one type, and which table that is."""
        self._known: dict[Any, Node] = {}

    def const(self, value: float, kind: str) -> Node:
        """A constant, rounded to its type."""
        exact = rounded(value, kind)
        between = None if math.isnan(exact) else Bounds(exact, exact, math.isfinite(exact))
        return self._node("const", kind, (), exact, between)

    def input(self, number: int, kind: str, *, sound: bool = False) -> Node:
        """What comes from outside under a number; ``sound`` if it is always a finite number."""
        return self._node("input", kind, (), number, whole(kind, sound=sound))

    def begin(self, count: int, inits: list[Node]) -> Loop:
        """A loop without a body; :meth:`result` gives what it leaves when it has one."""
        number = len(self.loops)
        phis = [
            self._node("phi", node.kind, (), (number, k), whole(node.kind, sound=node.sound))
            for k, node in enumerate(inits)
        ]
        index = self._node("phi", "l", (), (number, -1), Bounds(0, max(count - 1, 0), True))
        self.loops.append(Loop(count, index, phis, inits))
        return self.loops[-1]

    def result(self, loop: Loop, k: int) -> Node:
        """The value number ``k`` after a loop."""
        if loop.nexts[k] is loop.phis[k]:
            return loop.inits[k]
        number = self.loops.index(loop)
        ends = loop.inits[k], loop.nexts[k]
        between = whole(ends[0].kind, sound=ends[0].sound and ends[1].sound)
        return self._node("out", ends[0].kind, ends, (number, k), between)

    def make(self, op: str, kind: str, *args: Node) -> Node:
        """The expression ``op(*args)``, or a simpler one of the same value."""
        if all(arg.op == "const" for arg in args) and op in FOLDED:
            with np.errstate(all="ignore"):
                return self.const(FOLDED[op](*(_exact(arg) for arg in args)), kind)
        if op in COMMUTING and args[0].op == "const":
            args = (args[1], args[0])
        elif op in SWAPPED and args[0].op == "const":
            op, args = SWAPPED[op], (args[1], args[0])
        simpler = self._simpler(op, kind, args)
        return self._node(op, kind, args, None) if simpler is None else simpler

    def look(self, kind: str, table: tuple[Any, ...], at: Node) -> Node:
        """The entry of a table of finite numbers that an index in its range names."""
        if at.op == "const":
            return self.const(table[at.value], kind)
        number = self.tables.setdefault((kind, table), len(self.tables))
        return self._node("look", kind, (at,), number, Bounds(min(table), max(table), True))

    def cast(self, x: Node, kind: str) -> Node:
        """``x`` as another type."""
        if x.kind == kind:
            return x
        if x.op == "const":
            return self.const(x.value, kind)
        if kind == "b":
            return self.make("ne", "b", x, self.const(0, x.kind))
        return self._node("cast", kind, (x,), None)

    def wrap(self, x: Node, low: int, count: int) -> Node:
        """An integer as one of the ``count``, a power of two, that begin at ``low``."""
        if low <= x.low and x.high < low + count:
            return x
        start = self.const(low, "l")
        rest = self.make("and", "l", self.make("sub", "l", x, start), self.const(count - 1, "l"))
        return self.make("add", "l", rest, start)

    # --- the inside ------------------------------------------------------------------------------

    def _node(self, op: str, kind: str, args: tuple[Node, ...], value: Any, between: Bounds | None = None) -> Node:
        bits = repr(value) if op == "const" else value  # 0.0 and -0.0 are two constants, NaN is one
        key = (op, kind, tuple(arg.at for arg in args), bits)
        node = self._known.get(key)
        if node is None:
            between = bounds(op, kind, args) if between is None else between
            node = self._known[key] = Node(op, kind, args, value, len(self.nodes), between)
            self.nodes.append(node)
            if len(self.nodes) > self.largest:
                raise TooLarge(f"is too large: more than {self.largest} expressions")
        return node

    def _simpler(self, op: str, kind: str, args: tuple[Node, ...]) -> Node | None:
        last = args[-1]
        k = last.value if last.op == "const" else None
        x = args[0]
        if op in ("add", "sub", "or", "xor") and k == 0 and k is not None:
            return x
        if op == "sub" and x.op == "const" and x.value == 0 and (kind == "l" or math.copysign(1, x.value) < 0):
            return self.make("neg", kind, last)  # 0.0 - x is how people write a minus that never shows as -0.0
        if op == "add" and last.op == "neg":
            return self.make("sub", kind, x, last.args[0])
        if op == "sub" and last.op == "neg":
            return self.make("add", kind, x, last.args[0])
        if op in ("mul", "div") and k == 1:
            return x
        if op == "mul" and k == -1:
            return self.make("neg", kind, x)
        if op in ("mul", "and") and k == 0 and k is not None and x.sound:
            return last
        if op == "and" and k is True:
            return x
        if op == "or" and k is True:
            return last
        if op == "neg" and x.op == "neg":
            return x.args[0]
        if op == "not" and x.op == "not":
            return x.args[0]
        if op == "select":
            return self._choice(args)
        if op in ("and", "or", "min", "max") and x is last:
            return x
        if op == "logaddexp" and x.op == "const" and x.value == 0:
            return self.make("softplus", kind, last)
        if op in COMPARISONS and k is not None and kind == "b":
            return self._compared(op, x, last)
        return self._length(op, kind, args)

    def _choice(self, args: tuple[Node, ...]) -> Node | None:
        which, a, b = args
        if which.op == "const":
            return a if which.value else b
        if a is b:
            return a
        if a.kind == "b" and a.op == "const":
            return self.make("or", "b", which, b) if a.value else self.make("and", "b", self.make("not", "b", which), b)
        if a.kind == "b" and b.op == "const":
            return self.make("or", "b", self.make("not", "b", which), a) if b.value else self.make("and", "b", which, a)
        if a.kind == "b":
            return self.make(
                "or", "b", self.make("and", "b", which, a), self.make("and", "b", self.make("not", "b", which), b)
            )
        return None

    def _compared(self, op: str, x: Node, with_: Node) -> Node | None:
        """Comparisons of lengths, without the square root."""
        k = with_.value
        if x.op == "sqrt" and x.kind == "f" and abs(k) < 1e18 and op in ("lt", "le", "gt", "ge"):
            below, square = op in ("lt", "le"), x.args[0]
            if k < 0:
                return self.const(not below, "b") if below or x.sound else None
            if below and square.low < 0:
                return None  # what has no root is below nothing
            return self.make(op, "b", x.args[0], self.const(_square(op, k), "f"))
        if x.op == "max" and x.args[1].op == "const" and op in ("lt", "le", "gt", "ge"):
            holds, below = COMPARISONS[op](x.args[1].value, k), op in ("lt", "le")
            if holds == below:
                return self.make(op, "b", x.args[0], with_)
            return self.const(not below, "b") if below or x.args[0].sound else None
        if x.op == "cast" and x.args[0].kind == "b":
            return {("ne", 0): x.args[0], ("gt", 0): x.args[0], ("eq", 1): x.args[0]}.get((op, k))
        return None

    def _length(self, op: str, kind: str, args: tuple[Node, ...]) -> Node | None:
        """The square of a length rounds once, as in eager mode (:func:`marlenv.physics.maths.geometry.length`)."""
        if op != "max" or kind != "f" or args[0].op != "add" or args[1].op != "const":
            return None
        one, two = args[0].args
        if one.op != "mul" or two.op != "mul" or one.args[0] is not one.args[1] or two.args[0] is not two.args[1]:
            return None
        return self.make("max", kind, self._node("fma", kind, (two.args[0], two.args[0], one), None), args[1])


def rounded(value: Any, kind: str) -> Any:
    """A Python number with the bits of a type."""
    if kind == "f":
        with np.errstate(all="ignore"):
            return float(np.float32(value))
    if kind == "d":
        return float(value)
    if kind == "b":
        return bool(value)
    if isinstance(value, float) and not -(2.0**63) <= value < 2.0**63:
        return -(1 << 63)  # as processors say of what is no int64
    return signed(int(value))


def _exact(node: Node) -> Any:
    """The value of a constant, for arithmetic that rounds as its type does."""
    return {"f": np.float32, "d": np.float64}.get(node.kind, lambda x: x)(node.value)


def _square(op: str, k: float) -> float:
    """The ``q`` for which ``sqrt(x) op k`` is ``x op q``, in float32."""
    single = np.float32(k)
    with np.errstate(all="ignore"):
        q = np.float32(single * single)
    upward, downward = np.float32(np.inf), np.float32(0)
    if op in ("le", "gt"):  # the largest x whose root is not above k
        while np.sqrt(q) > single:
            q = np.nextafter(q, downward)
        while np.sqrt(np.nextafter(q, upward)) <= single:
            q = np.nextafter(q, upward)
    else:  # the smallest x whose root is not below k
        while np.sqrt(q) < single:
            q = np.nextafter(q, upward)
        while q > 0 and np.sqrt(np.nextafter(q, downward)) >= single:
            q = np.nextafter(q, downward)
    return float(q)
