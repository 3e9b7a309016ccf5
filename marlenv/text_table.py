"""Tables of text, and how wide terminals show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any
from unicodedata import category, east_asian_width


def table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), *, right: Sequence[int] = ()) -> str:
    """Rows as aligned columns.

    Args:
        rows: the cells.
        header: the first line, with a rule below.
        right: the columns that are aligned to the right.

    >>> print(table([["a", 1.5], ["bb", 10]], ["name", "n"], right=[1]))
    name    n
    ----  ---
    a     1.5
    bb     10
    """
    body = [[str(cell) for cell in row] for row in rows]
    lines = [list(header), *body] if header else body
    if not lines:
        return ""
    widths = [max(width(line[i]) for line in lines) for i in range(len(lines[0]))]
    if header:
        lines.insert(1, ["-" * w for w in widths])

    def fit(cell: str, i: int) -> str:
        gap = " " * (widths[i] - width(cell))
        return gap + cell if i in right else cell + gap

    return "\n".join("  ".join(fit(cell, i) for i, cell in enumerate(line)).rstrip() for line in lines)


def width(text: str) -> int:
    r"""How many columns a text takes: letters of Chinese and pictures two, marks on letters none.

    >>> width("ada"), width("狼と羊"), width("🐺"), width("e\u0301")
    (3, 6, 2, 1)
    """
    return len(text) if text.isascii() else sum(map(_letter_width, text))


def _letter_width(letter: str) -> int:
    if category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def shortened(text: str, most: int) -> str:
    """A text of so many columns at most, with a gap in the middle: names often begin alike and end apart.

    >>> shortened("checkpoint_of_wolves_000100", 20), shortened("ada", 20)
    ('checkpoin…ves_000100', 'ada')
    """
    if width(text) <= most:
        return text
    front = (most - 1) // 2
    return f"{_beginning(text, front)}…{_beginning(text[::-1], most - 1 - front)[::-1]}"


def _beginning(text: str, most: int) -> str:
    """As much of a text as fits into so many columns."""
    return text[: sum(size <= most for size in accumulate(map(_letter_width, text)))]
