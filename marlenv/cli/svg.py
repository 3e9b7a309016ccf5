"""SVG pictures of games as pixels, for films: the shapes that games are drawn with, by Pillow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from marlenv.errors import Unsupported
from marlenv.optional import need

FINE = 3  # canvas pixels per pixel: what makes edges smooth
PAPER = (255, 255, 255)
BEND = 8  # straight pieces of a curve

Point = tuple[float, float]
Marks = Mapping[str, str]

_STEP = re.compile(r"([MLHVCZmlhvcz])([^MLHVCZmlhvcz]*)")
_NUMBER = re.compile(r"-?\d*\.?\d+")


def pixels(svg: str, size: tuple[int, int]) -> Any:
    """A picture as large as fits into ``size`` (width, height), in its middle: uint8 ``[H, W, 3]``, a numpy array.

    Raises:
        Unsupported: it has shapes other than rect, line, circle, polygon, path and text.
    """
    numpy, image = need("numpy", "pictures"), need("PIL.Image", "pictures")
    root = ElementTree.fromstring(svg)
    wide, high = [float(n) for n in _NUMBER.findall(root.get("viewBox", ""))[2:]] or _size(root)
    scale = FINE * min(size[0] / wide, size[1] / high)
    canvas = image.new("RGB", (FINE * size[0], FINE * size[1]), PAPER)
    Pen(canvas, scale, ((FINE * size[0] - scale * wide) / 2, (FINE * size[1] - scale * high) / 2), root).draw(root)
    return numpy.asarray(canvas.reduce(FINE))


class Pen:
    """Draws the shapes of a picture.

    Args:
        canvas: to draw on.
        scale: canvas pixels per unit of the picture.
        origin: where the picture's upper left corner is on the canvas.
        root: the picture.
    """

    def __init__(self, canvas: Any, scale: float, origin: Point, root: ElementTree.Element) -> None:
        self.pen = need("PIL.ImageDraw", "pictures").Draw(canvas)
        self.fonts, self.scale, self.origin = need("PIL.ImageFont", "pictures"), scale, origin
        self.named = {one.get("id"): one for one in root.iter() if one.get("id")}

    def draw(self, node: ElementTree.Element, marks: Marks | None = None, shift: Point = (0.0, 0.0)) -> None:
        """Draws what is inside an element; ``marks`` are the attributes that it hands down."""
        for one in node:
            kind, own = one.tag.rpartition("}")[2], {**(marks or {}), **one.attrib}
            if kind == "defs":
                continue
            if kind == "use":
                dx, dy = float(own.pop("x", 0)), float(own.pop("y", 0))
                self.draw(self.named[own.pop("href").lstrip("#")], own, (shift[0] + dx, shift[1] + dy))
            elif kind in ("g", "svg"):
                self.draw(one, own, shift)
            elif kind in ("rect", "line", "circle", "polygon", "path", "text"):
                getattr(self, kind)(own, shift, one.text or "")
            else:
                raise Unsupported(
                    f"a picture with <{kind}> cannot be filmed; draw with rect, line, circle, polygon, path, text"
                )

    def at(self, x: float, y: float, shift: Point) -> Point:
        """A point on the canvas."""
        return self.origin[0] + self.scale * (x + shift[0]), self.origin[1] + self.scale * (y + shift[1])

    def ink(self, own: Marks) -> tuple[str | None, str | None, int]:
        """The colours inside and of the outline, None for none, and the outline's width."""
        fill, stroke = own.get("fill", "#000000"), own.get("stroke", "none")
        width = max(1, round(self.scale * float(own.get("stroke-width", 1))))
        return None if fill == "none" else fill, None if stroke == "none" else stroke, width

    def rect(self, own: Marks, shift: Point, _: str) -> None:
        """A rectangle, its corners rounded by ``rx``."""
        x, y, w, h, r = (float(own.get(name, 0)) for name in ("x", "y", "width", "height", "rx"))
        fill, line, width = self.ink(own)
        box = [*self.at(x, y, shift), *self.at(x + w, y + h, shift)]
        self.pen.rounded_rectangle(box, r * self.scale, fill=fill, outline=line, width=width)

    def line(self, own: Marks, shift: Point, _: str) -> None:
        """A straight line with round ends."""
        ends = [self.at(float(own[f"x{i}"]), float(own[f"y{i}"]), shift) for i in (1, 2)]
        color, width = self.ink(own)[1:]
        self.pen.line(ends, fill=color, width=width)
        if own.get("stroke-linecap") == "round":
            for x, y in ends:
                self.pen.ellipse([x - width / 2, y - width / 2, x + width / 2, y + width / 2], fill=color)

    def circle(self, own: Marks, shift: Point, _: str) -> None:
        """A circle; its outline lies on both sides of its edge."""
        fill, line, width = self.ink(own)
        (x, y), r = self.at(float(own["cx"]), float(own["cy"]), shift), self.scale * float(own["r"])
        r += width / 2 if line else 0
        self.pen.ellipse([x - r, y - r, x + r, y + r], fill=fill, outline=line, width=width)

    def polygon(self, own: Marks, shift: Point, _: str) -> None:
        """A filled polygon."""
        numbers = [float(n) for n in _NUMBER.findall(own["points"])]
        self.outline(list(zip(numbers[::2], numbers[1::2], strict=True)), own, shift, closed=True)

    def path(self, own: Marks, shift: Point, _: str) -> None:
        """Straight lines and curves."""
        for points, closed in pieces(own["d"]):
            self.outline(points, own, shift, closed=closed)

    def outline(self, points: list[Point], own: Marks, shift: Point, *, closed: bool) -> None:
        """A run of straight lines, and what they enclose."""
        where, (fill, line, width) = [self.at(x, y, shift) for x, y in points], self.ink(own)
        if len(where) > 2 and fill:
            self.pen.polygon(where, fill=fill)
        if line:
            self.pen.line([*where, where[0]] if closed else where, fill=line, width=width, joint="curve")

    def text(self, own: Marks, shift: Point, words: str) -> None:
        """Words around a point, or from it on."""
        font = self.fonts.load_default(self.scale * float(own.get("font-size", 16)))
        anchor = {"middle": "ms", "end": "rs"}.get(own.get("text-anchor", "start"), "ls")
        self.pen.text(self.at(float(own["x"]), float(own["y"]), shift), words, own.get("fill"), font, anchor=anchor)


def pieces(path: str) -> Iterator[tuple[list[Point], bool]]:
    """The runs of lines of a path, and whether each is closed; curves become straight pieces.

    >>> list(pieces("M1 2h3v4zM0 0L5 5"))
    [([(1.0, 2.0), (4.0, 2.0), (4.0, 6.0)], True), ([(0.0, 0.0), (5.0, 5.0)], False)]
    """
    run: list[Point] = []
    for letter, rest in _STEP.findall(path):
        numbers, kind = [float(n) for n in _NUMBER.findall(rest)], letter.lower()
        if kind == "z":
            yield run, True
            run = run[:1]
            continue
        if kind == "m" and len(run) > 1:
            yield run, False
        here = run[-1] if run else (0.0, 0.0)
        if kind == "m":
            run = []
        take = {"h": 1, "v": 1, "c": 6}.get(kind, 2)
        for i in range(0, len(numbers), take):
            base = here if letter.islower() else (0.0, 0.0)
            steps = points_of(kind, numbers[i : i + take], base, here)
            run += steps
            here = run[-1]
    if len(run) > 1:
        yield run, False


def points_of(kind: str, numbers: list[float], base: Point, here: Point) -> list[Point]:
    """The points that one step of a path adds."""
    if kind == "h":
        return [(base[0] + numbers[0], here[1])]
    if kind == "v":
        return [(here[0], base[1] + numbers[0])]
    ends = [(base[0] + x, base[1] + y) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
    if kind != "c":
        return ends
    corners = [here, *ends]
    weights = [[math.comb(3, k) * t**k * (1 - t) ** (3 - k) for k in range(4)] for t in _turns()]
    return [(_mixed(w, [c[0] for c in corners]), _mixed(w, [c[1] for c in corners])) for w in weights]


def _turns() -> list[float]:
    return [i / BEND for i in range(1, BEND + 1)]


def _mixed(weights: list[float], numbers: list[float]) -> float:
    return sum(w * n for w, n in zip(weights, numbers, strict=True))


def _size(root: ElementTree.Element) -> list[float]:
    return [float(root.get(name, 0)) for name in ("width", "height")]
