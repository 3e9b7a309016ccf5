"""A picture of one row of a world, in metres: what a scenario draws itself on, and what every picture shows.

Drawn with Pillow, without a screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from marlenv.errors import ShapeError, nearest
from marlenv.optional import need
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.dynamics import Holonomic, Static
from marlenv.physics.laws.entities import COLORS, Agent, Color, Entity
from marlenv.physics.laws.shapes import Box, Line, Sphere
from marlenv.physics.task.sensors import Lidar, Neighbours

Point: TypeAlias = "tuple[float, float]"

FINE = 3  # canvas pixels per pixel: what makes edges smooth
DOT = 4  # pixels; the radius of what marks the front of thin bodies
PAPER = (250, 250, 250)
FAINT = (205, 205, 210)


class View(NamedTuple):
    """How much of the world a picture shows, and what is in its middle."""

    wide: float
    """From the middle to the left and right edges, metres."""
    high: float
    """To the upper and lower ones, metres."""
    x: float = 0.0
    """Of the middle, metres."""
    y: float = 0.0
    """Likewise."""


class Picture:
    """A canvas in metres.

    Args:
        size: width and height, pixels.
        view: what it shows.

    """

    def __init__(self, size: tuple[int, int], view: View) -> None:
        self._image_module, self._draw_module = need("PIL.Image", "pictures"), need("PIL.ImageDraw", "pictures")
        self.size = size
        self._hidden: set[str] = set()
        self._paint: dict[str, Color] = {}
        self.scale = FINE * min(size[0] / (2 * view.wide), size[1] / (2 * view.high))
        """Canvas pixels per metre."""
        self._left, self._top = size[0] * FINE / 2 - view.x * self.scale, size[1] * FINE / 2 + view.y * self.scale
        self._canvas = self._image_module.new("RGB", (size[0] * FINE, size[1] * FINE), PAPER)
        self._pen = self._draw_module.Draw(self._canvas)

    # --- what a scenario says --------------------------------------------------------------------

    def hide(self, bodies: Bodies, where: Tensor) -> None:
        """Leaves out the bodies ``where`` (bool ``[1, A]``)."""
        self._hidden |= set(_chosen("hide", bodies, where))

    def paint(self, bodies: Bodies, where: Tensor, color: Color) -> None:
        """Gives the bodies ``where`` (bool ``[1, A]``) another colour."""
        self._paint |= dict.fromkeys(_chosen("paint", bodies, where), color)

    def circle(
        self,
        at: Point,
        radius: float,
        color: Color,
        *,
        fill: Literal["full", "tint", "none"] = "full",
        width: float = 1.5,
    ) -> None:
        """A circle; metres, and pixels for the width of its rim."""
        if not radius >= 0:
            raise ValueError(f"Picture.circle: radius must be 0 metres or more, got {radius!r}")
        (x, y), r, ink = self._pixel(at), radius * self.scale, _rgb(color)
        inner = {"full": ink, "tint": _paler(ink), "none": None}[fill]
        rim = _darker(ink) if fill == "full" else ink
        self._pen.ellipse((x - r, y - r, x + r, y + r), fill=inner, outline=rim, width=max(1, round(width * FINE)))

    def line(self, a: Point, b: Point, color: Color, *, width: float = 2.0) -> None:
        """A straight line; metres, and pixels for its width."""
        self._pen.line((*self._pixel(a), *self._pixel(b)), fill=_rgb(color), width=max(1, round(width * FINE)))

    def path(self, points: Sequence[Point], color: Color, *, width: float = 2.0) -> None:
        """Straight lines from point to point; metres, and pixels for their width."""
        left, top, scale = self._left, self._top, self.scale
        pixels = [number for x, y in points for number in (left + x * scale, top - y * scale)]
        self._pen.line(pixels, fill=_rgb(color), width=max(1, round(width * FINE)))

    def polygon(self, corners: Sequence[Point], color: Color, *, filled: bool = True, width: float = 1.5) -> None:
        """A polygon; metres, and pixels for the width of its sides."""
        ink, pixels = _rgb(color), [self._pixel(corner) for corner in corners]
        if len(pixels) < 2:
            raise ValueError(f"Picture.polygon: corners must be two points at least, got {corners!r}")
        if filled:
            self._pen.polygon(pixels, fill=ink)
        rim = _darker(ink) if filled else ink
        self._pen.line([*pixels, pixels[0], pixels[1]], fill=rim, width=max(1, round(width * FINE)), joint="curve")

    def text(self, at: Point, words: str, color: Color = "black") -> None:
        """A short text in the middle of a place; metres."""
        if not isinstance(words, str):
            raise TypeError(f"Picture.text: words must be a string, such as str({words!r}), got {words!r}")
        self._pen.text(self._pixel(at), words, fill=_rgb(color), anchor="mm", font_size=12 * FINE)

    def heat(self, values: Tensor, half: Point, color: Color = (0.2, 0.55, 0.45)) -> None:
        """Values in [0, 1] ``[nx, ny]`` as colours of a rectangle of ``2 * half`` metres about the origin."""
        if values.ndim != 2:
            raise ShapeError(f"Picture.heat: values must be [nx, ny], those of one row, got {list(values.shape)}")
        if not (half[0] > 0 and half[1] > 0):
            raise ValueError(f"Picture.heat: half must be two numbers of metres above 0, got {half!r}")
        share = values.clamp(0, 1).t().flip(0).unsqueeze(-1)
        ink, paper = torch.tensor(_rgb(color)), torch.tensor(PAPER)
        pixels = (paper + (ink - paper) * share).round().to(torch.uint8).contiguous().numpy()
        (left, top), (right, bottom) = self._pixel((-half[0], half[1])), self._pixel((half[0], -half[1]))
        spread = self._image_module.fromarray(pixels).resize((round(right - left), round(bottom - top)))
        self._canvas.paste(spread, (round(left), round(top)))

    def edges(self) -> tuple[float, float, float, float]:
        """The left, lower, right and upper edges of the picture, metres."""
        left, top, (wide, high) = self._left, self._top, (FINE * n for n in self.size)
        return -left / self.scale, (top - high) / self.scale, (wide - left) / self.scale, top / self.scale

    # --- what every picture shows ----------------------------------------------------------------

    def border(self, x: float | None, y: float | None) -> None:
        """The edge of the world, so many metres from its middle; None for no edge."""
        if x is None and y is None:
            return
        outside = 2 * max(map(abs, self.edges()))
        x, y = outside if x is None else x, outside if y is None else y
        self.polygon([(-x, -y), (x, -y), (x, y), (-x, y)], _share(FAINT), filled=False, width=1.0)

    def sensor(self, sensor: object) -> None:
        """The rays of a lidar, or who hears whom."""
        if isinstance(sensor, Lidar):
            for body, far in zip(sensor.agents, sensor.measure()[0].tolist(), strict=True):
                (x, y), rot = body.pos[0].tolist(), body.rot[0].item()
                ends = [
                    (x + d * math.cos(a + rot), y + d * math.sin(a + rot))
                    for a, d in zip(sensor.angles, far, strict=True)
                ]
                for end in ends:
                    self.line((x, y), end, _share(FAINT), width=0.7)
                for end, d in zip(ends, far, strict=True):
                    if d < sensor.max_range - 1e-5:
                        self.circle(end, 2.5 * FINE / self.scale, sensor.color, width=0.5)
        if isinstance(sensor, Neighbours):
            edges, there = sensor.edges()
            at = [bodies.pos[0].tolist() for bodies in (sensor.others, sensor.agents)]
            for (a, b), yes in zip(edges[0].t().tolist(), there[0].tolist(), strict=True):
                if yes:
                    self.line(at[0][a], at[1][b], "orange", width=1.2)

    def bodies(self, bodies: Sequence[Body]) -> None:
        """Bodies as they lie: goals under obstacles under agents, large ones under small ones."""
        for body in sorted(bodies, key=lambda body: (*_layer(body.entity), -body.entity.shape.reach)):
            kind = body.entity.kind
            if kind.visible and body.name not in self._hidden:
                self._body(body, self._paint.get(body.name, kind.color))

    def speech(self, groups: Iterable[tuple[str, Bodies]]) -> None:
        """What was said, as bars above the speakers."""
        for _, bodies in groups:
            for body, words in zip(bodies, bodies.said[0].tolist(), strict=True):
                x, y = body.pos[0].tolist()
                step, low = 0.03, y + body.entity.shape.reach + 0.03
                left = x - step * len(words) / 2
                for i, word in enumerate(words):
                    a, b = left + i * step, left + (i + 0.8) * step
                    top = low + 0.01 + 0.1 * max(0.0, min(1.0, word))
                    self.polygon([(a, low), (b, low), (b, top), (a, top)], "purple", width=0.5)

    def pixels(self) -> Any:
        """The picture; uint8 ``[H, W, 3]``, a numpy array."""
        small = self._canvas.reduce(FINE)
        return (
            torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
            .reshape(self.size[1], self.size[0], 3)
            .numpy()
        )

    def _body(self, body: Body, color: Color) -> None:
        (x, y), rot, shape = body.pos[0].tolist(), body.rot[0].item(), body.entity.shape
        c, s = math.cos(rot), math.sin(rot)
        if isinstance(shape, Sphere):
            solid = body.entity.kind.collide or isinstance(body.entity.kind, Agent)
            self.circle((x, y), shape.radius, color, fill="full" if solid else "tint")
        elif isinstance(shape, Line):
            a, b = shape.length / 2 * c, shape.length / 2 * s
            self.line((x - a, y - b), (x + a, y + b), color, width=3.0)
        elif isinstance(shape, Box):
            ends = [(i * shape.length / 2, j * shape.width / 2) for i, j in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
            corners = [(x + u * c - v * s, y + u * s + v * c) for u, v in ends]
            self.polygon(corners, color, filled=not shape.hollow, width=3.0 if shape.hollow else 1.5)
        if _steers(body.entity):
            if isinstance(shape, Line) or (isinstance(shape, Box) and shape.hollow):  # no room for a line on it
                front = x + shape.length / 2 * c, y + shape.length / 2 * s
                self.circle(front, DOT * FINE / self.scale, _share(_darker(_rgb(color))))
                return
            reach = max(shape.length / 2 if isinstance(shape, Box) else shape.reach, 0.05)
            self.line((x, y), (x + reach * c, y + reach * s), _share(PAPER))

    def _pixel(self, at: Point) -> Point:
        return self._left + at[0] * self.scale, self._top - at[1] * self.scale


def _layer(entity: Entity) -> tuple[bool, bool]:
    return isinstance(entity.kind, Agent), entity.kind.collide


def _steers(entity: Entity) -> bool:
    return isinstance(entity.kind, Agent) and not isinstance(entity.kind.dynamics, (Holonomic, Static))


def _chosen(method: str, bodies: Bodies, where: Tensor) -> list[str]:
    """The names of the bodies ``where``; raises where it is not one truth value for each."""
    if where.shape != (1, len(bodies)):
        raise ShapeError(
            f"Picture.{method}: where must be [1, {len(bodies)}], one value for each of {bodies}, "
            f"got {list(where.shape)}"
        )
    return [name for name, yes in zip(bodies.names, where[0].tolist(), strict=True) if yes]


def _rgb(color: Color) -> tuple[int, int, int]:
    if isinstance(color, str) and color not in COLORS:
        raise ValueError(f"Picture: there is no color {color!r}; {nearest(color, COLORS)}, or three numbers in [0, 1]")
    r, g, b = COLORS[color] if isinstance(color, str) else _three(color)
    return round(255 * r), round(255 * g), round(255 * b)


def _three(color: object) -> list[float]:
    try:
        numbers = [float(x) for x in color]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != 3 or not all(0 <= round(x, 6) <= 1 for x in numbers):
        raise ValueError(f"Picture: a color is one of {sorted(COLORS)} or three numbers in [0, 1], got {color!r}")
    return numbers


def _share(ink: tuple[int, int, int]) -> tuple[float, float, float]:
    return ink[0] / 255, ink[1] / 255, ink[2] / 255


def _paler(ink: tuple[int, int, int]) -> tuple[int, int, int]:
    return (ink[0] + 3 * PAPER[0]) // 4, (ink[1] + 3 * PAPER[1]) // 4, (ink[2] + 3 * PAPER[2]) // 4


def _darker(ink: tuple[int, int, int]) -> tuple[int, int, int]:
    return ink[0] * 3 // 5, ink[1] * 3 // 5, ink[2] * 3 // 5
