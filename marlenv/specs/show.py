"""Printing: a composite fits on a screen, one line per entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marlenv.specs.base import TensorSpec, dtype_name

if TYPE_CHECKING:
    from marlenv.specs.composite import Composite

Row = tuple[str, str, str, str]


def rows(spec: Composite, depth: int = 0) -> list[Row]:
    """Name, shape, dtype and domain of every entry, nested ones indented."""
    from marlenv.specs.composite import Composite

    out: list[Row] = []
    for name, child in spec.items():
        indent = "  " * depth
        if isinstance(child, Composite):
            out.append((f"{indent}{name}", str(list(child.shape)), "", ""))
            out += rows(child, depth + 1)
        elif child is None:
            out.append((f"{indent}{name}", "", "", "None"))
        else:
            out.append((f"{indent}{name}", str(list(child.shape)), dtype_name(child.dtype), domain(child)))
    return out


def domain(spec: TensorSpec) -> str:
    """The domain of a leaf in a few words."""
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
