"""Pieces of C++: types, tables, functions and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

from marlenv.physics.jit.graph import Node

CTYPE = {"f": "F", "d": "D", "l": "L", "b": "M"}
ENTRY = {"f": "float", "d": "double", "l": "int64_t"}


def table(name: str, kind: str, table: Sequence[float]) -> str:
    """A table of numbers that are known beforehand."""
    numbers = ", ".join(str(x) if kind == "l" else f"{float(x).hex()}{'f' * (kind == 'f')}" for x in table)
    return f"static const {ENTRY[kind]} {name}[] = {{{numbers}}};"


def function(name: str, body: list[str], what: str = "PART") -> str:
    """A function with these lines; ``what`` says of which form."""
    return "\n".join((f"{what} {name}(Slot *st, Slot *s) {{", *body, "}"))


def blank(kind: str) -> str:
    """Sixteen values of a kind, all of them nothing."""
    return {"f": "cf(0)", "d": "cd(0)", "l": "cl(0)", "b": "cb(false)"}[kind]


def literal(node: Node) -> str:
    """A constant, in all of its sixteen values."""
    value = node.value
    if node.kind == "b":
        return f"cb({str(value).lower()})"
    if node.kind == "l":
        return f"cl({value}LL)" if value > -(1 << 63) else "cl(INT64_MIN)"
    number = (
        "NAN"
        if math.isnan(value)
        else "INFINITY"
        if value == float("inf")
        else "-INFINITY"
        if value == -float("inf")
        else value.hex()
    )
    return f"c{node.kind}({number}{'f' if node.kind == 'f' and number[-1].isdigit() else ''})"


__all__ = ["CTYPE", "ENTRY", "blank", "function", "literal", "table"]
