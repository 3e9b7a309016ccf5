"""What drawings of games are made with: colours of a terminal, and SVG pictures in units of one cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from torch import Tensor

RED, BLUE, GREEN, GOLD = "#c8372d", "#2f6db5", "#3b7d4f", "#d9a520"
BLACK, WHITE, INK, FAINT, PAPER, WOOD, FELT = (
    "#1d1d1f",
    "#fbfaf5",
    "#3a3a3c",
    "#a8a59b",
    "#fffdf7",
    "#dcb468",
    "#2f7d54",
)
CELL = 48  # pixels

Point = tuple[float, float]


def paint(text: str, color: bool, code: str) -> str:
    r"""Text in a colour of the terminal, if ``color``; ``code`` is what stands between ``ESC [`` and ``m``.

    >>> paint("x", True, "1;31")
    '\x1b[1;31mx\x1b[0m'
    """
    return f"\x1b[{code}m{text}\x1b[0m" if color else text


def red(text: str, color: bool) -> str:
    """Bold and red."""
    return paint(text, color, "1;31")


def blue(text: str, color: bool) -> str:
    """Bold and blue."""
    return paint(text, color, "1;34")


def yellow(text: str, color: bool) -> str:
    """Bold and yellow."""
    return paint(text, color, "1;33")


def green(text: str, color: bool) -> str:
    """Bold and green."""
    return paint(text, color, "1;32")


def bold(text: str, color: bool) -> str:
    """Bold."""
    return paint(text, color, "1")


def faint(text: str, color: bool) -> str:
    """Faint."""
    return paint(text, color, "2")


class Picture:
    """An SVG picture of ``width`` times ``height`` cells; points are (x, y), x to the right, y downwards.

    Args:
        width: in cells.
        height: in cells.
        margin: around the picture, in cells.
        ground: the colour behind it.

    >>> picture = Picture(1, 1)
    >>> picture.disc((0.5, 0.5), RED)
    >>> "<circle" in picture.svg()
    True
    """

    def __init__(self, width: float, height: float, *, margin: float = 0.5, ground: str = PAPER) -> None:
        self.size = (width + 2 * margin, height + 2 * margin)
        self.margin = margin
        self._parts: list[str] = []
        self.rect((-margin, -margin), self.size, ground)

    def _at(self, *values: float) -> list[str]:
        return [f"{round((value + self.margin) * CELL, 1):g}" for value in values]

    def rect(self, corner: Point, size: Point, fill: str, *, line: str = "none", round_by: float = 0.0) -> None:
        """A rectangle from its upper left corner."""
        x, y = self._at(*corner)
        w, h = (f"{round(s * CELL, 1):g}" for s in size)
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{round_by * CELL:g}" fill="{fill}" stroke="{line}"/>'
        )

    def line(self, start: Point, end: Point, color: str = INK, width: float = 0.04) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = self._at(*start), self._at(*end)
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}" stroke-width="{width * CELL:g}" '
            f'stroke-linecap="round"/>'
        )

    def disc(self, center: Point, fill: str, radius: float = 0.42, *, line: str = "none") -> None:
        """A filled circle."""
        x, y = self._at(*center)
        self._parts.append(f'<circle cx="{x}" cy="{y}" r="{radius * CELL:g}" fill="{fill}" stroke="{line}"/>')

    def ring(self, center: Point, color: str, radius: float = 0.3, width: float = 0.1) -> None:
        """A circle."""
        x, y = self._at(*center)
        self._parts.append(
            f'<circle cx="{x}" cy="{y}" r="{radius * CELL:g}" fill="none" stroke="{color}" '
            f'stroke-width="{width * CELL:g}"/>'
        )

    def cross(self, center: Point, color: str, reach: float = 0.28) -> None:
        """Two strokes that cross."""
        x, y = center
        self.line((x - reach, y - reach), (x + reach, y + reach), color, 0.1)
        self.line((x - reach, y + reach), (x + reach, y - reach), color, 0.1)

    def polygon(self, corners: Iterable[Point], fill: str, *, line: str = "none") -> None:
        """A filled polygon."""
        points = " ".join(",".join(self._at(*corner)) for corner in corners)
        self._parts.append(f'<polygon points="{points}" fill="{fill}" stroke="{line}"/>')

    def text(self, center: Point, words: str, color: str = INK, size: float = 0.32, *, anchor: str = "middle") -> None:
        """Words around a point, or from it on with ``anchor="start"``."""
        x, y = self._at(center[0], center[1] + 0.36 * size)
        self._parts.append(
            f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="{size * CELL:g}" fill="{color}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )

    def card(self, corner: Point, words: str, color: str, *, back: bool = False) -> None:
        """A playing card of 0.8 times 1.1 cells; its back where ``back``."""
        self.rect(corner, (0.8, 1.1), "#7b8794" if back else WHITE, line=INK, round_by=0.1)
        if not back:
            self.text((corner[0] + 0.4, corner[1] + 0.55), words, color, 0.5)

    def svg(self) -> str:
        """The picture."""
        width, height = (f"{s * CELL:g}" for s in self.size)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        )
        return "\n".join([head, *self._parts, "</svg>"])


def marks(planes: Tensor) -> list[list[str]]:
    """``x``, ``o`` and ``.`` of a board, row by row, given what its two players see.

    Args:
        planes: ``[2, >= 2, rows, columns]``, own stones and the other's first.

    >>> marks(torch.tensor([[[[1, 0]], [[0, 0]]], [[[0, 0]], [[1, 0]]]]))
    [['x', '.']]
    """
    first, second = (planes[0, which].tolist() for which in (0, 1))
    return [
        ["x" if a else "o" if b else "." for a, b in zip(*row, strict=True)] for row in zip(first, second, strict=True)
    ]


def labelled(rows: Sequence[str], letters: str, *, color: bool, numbers: Sequence[int | str] | None = None) -> str:
    """Rows of a board with numbers at the left and letters below.

    >>> print(labelled([". x", "o ."], "ab", color=False))
    2 . x
    1 o .
      a b
    """
    names = [str(n) for n in (range(len(rows), 0, -1) if numbers is None else numbers)]
    width = max(map(len, names))
    lines = [f"{faint(name.rjust(width), color)} {row}" for name, row in zip(names, rows, strict=True)]
    return "\n".join([*lines, " " * (width + 1) + faint(" ".join(letters), color)])
