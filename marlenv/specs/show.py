"""Printing: a composite fits on a screen, one line per entry."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from marlenv.errors import SpecError
from marlenv.specs.base import TensorSpec
from marlenv.specs.dtypes import dtype_name

if TYPE_CHECKING:
    from marlenv.specs.composite import Composite

Row = tuple[str, str, str, str]


def rows(spec: Composite, depth: int = 0, skip: Collection[str] = (), note: str = "") -> list[Row]:
    """Name, shape, dtype and domain of every entry, nested ones indented."""
    from marlenv.specs.composite import Composite
    from marlenv.specs.stacked_composite import StackedComposite

    out: list[Row] = []
    for name in spec:
        if name in skip:
            continue
        try:
            child = spec[name]
        except SpecError:  # the parts of a stack may differ in more than one spec can say
            out.append((f"{'  ' * depth}{name}{note}", "", "", f"{len(spec)} unlike parts"))
            continue
        label = f"{'  ' * depth}{name}{note}"
        if isinstance(child, Composite):
            kind = f"stacked along dimension {child.dim}" if isinstance(child, StackedComposite) else ""
            out.append((label, str(list(child.shape)), "", kind))
            out += rows(child, depth + 1, note=note)
        elif child is None:
            out.append((label, "", "", "None"))
        else:
            out.append((label, str(list(child.shape)), dtype_name(child.dtype), domain(child)))
    if isinstance(spec, StackedComposite):
        for i, part in enumerate(spec.parts):
            out += rows(part, depth, skip=set(spec), note=f" (part {i} only)")
    return out


def domain(spec: TensorSpec) -> str:
    """The domain of a leaf in a few words.

    >>> from marlenv import Categorical
    >>> domain(Categorical(3))
    'Categorical n=3'
    """
    detail = spec._detail()
    return f"{type(spec).__name__} {detail}".strip()


def tree(spec: Composite) -> str:
    """The composite as an aligned table.

    >>> from marlenv import Composite, Unbounded
    >>> print(Composite(agents=Composite(reward=Unbounded((3, 1)), shape=(3,))))
    Composite []
      agents    [3]
        reward  [3, 1]  float32  Unbounded
    """
    table = rows(spec, 1)
    widths = [max((len(row[i]) for row in table), default=0) for i in range(3)]
    lines = [f"{type(spec).__name__} {list(spec.shape)}" + (f" on {spec.device}" if spec.device is not None else "")]
    for row in table:
        lines.append("  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]).rstrip())
    return "\n".join(lines)
