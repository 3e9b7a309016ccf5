"""VMAS's ``rendering``: what ``extra_render`` of a scenario returns, drawn on our pictures without a screen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from marlenv.physics.task.picture import Picture

Point2 = tuple[float, float]
CORNERS = 30  # of a circle


def _number(x: Any) -> float:
    return float(x)


def _point(at: Any) -> Point2:
    return _number(at[0]), _number(at[1])


class Attr:
    """What changes how a shape is drawn."""


class Transform(Attr):
    """Moves, turns and stretches a shape."""

    def __init__(self, translation: Any = (0.0, 0.0), rotation: Any = 0.0, scale: Any = (1, 1)) -> None:
        self.translation, self.rotation, self.scale = _point(translation), _number(rotation), _point(scale)

    def set_translation(self, newx: Any, newy: Any) -> None:
        """Where to; metres."""
        self.translation = _number(newx), _number(newy)

    def set_rotation(self, new: Any) -> None:
        """How far; radians."""
        self.rotation = _number(new)

    def set_scale(self, newx: Any, newy: Any) -> None:
        """By what factors."""
        self.scale = _number(newx), _number(newy)

    def of(self, at: Point2) -> Point2:
        """Where a point of the shape is drawn."""
        x, y, c, s = at[0] * self.scale[0], at[1] * self.scale[1], math.cos(self.rotation), math.sin(self.rotation)
        return x * c - y * s + self.translation[0], x * s + y * c + self.translation[1]


class Geom:
    """A shape in a picture. Abstract."""

    def __init__(self) -> None:
        self.attrs: list[Attr] = []
        self.color, self.alpha = (0.0, 0.0, 0.0), 1.0

    def add_attr(self, attr: Attr) -> None:
        """Puts a transform around those that it has."""
        self.attrs.append(attr)

    def set_color(self, r: Any, g: Any, b: Any, alpha: Any = 1) -> None:
        """Red, green, blue and opacity, in [0, 1]."""
        self.color, self.alpha = (_number(r), _number(g), _number(b)), _number(alpha)

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws it."""

    def _placed(self, points: Sequence[Point2], outer: Callable[[Point2], Point2]) -> list[Point2]:
        for attr in self.attrs:
            if isinstance(attr, Transform):
                points = [attr.of(at) for at in points]
        return [outer(at) for at in points]

    def _ink(self) -> tuple[float, float, float]:
        r, g, b = (self.alpha * max(0.0, min(1.0, x)) + (1 - self.alpha) for x in self.color)
        return r, g, b


class FilledPolygon(Geom):
    """A polygon with corners ``v``."""

    def __init__(self, v: Sequence[Any], draw_border: bool = True) -> None:
        super().__init__()
        self.v = [_point(at) for at in v]

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws it."""
        picture.polygon(self._placed(self.v, outer), self._ink(), width=0.5)


class PolyLine(Geom):
    """Lines from point to point."""

    def __init__(self, v: Sequence[Any], close: bool) -> None:
        super().__init__()
        self.v = [_point(at) for at in v]
        self.close, self.width = close, 1.0

    def set_linewidth(self, x: float) -> None:
        """Pixels."""
        self.width = x

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws it."""
        points = self._placed([*self.v, *self.v[: int(self.close)]], outer)
        for a, b in pairwise(points):
            picture.line(a, b, self._ink(), width=self.width)


class Line(PolyLine):
    """A straight line; metres, and pixels for its width."""

    def __init__(self, start: Any = (0.0, 0.0), end: Any = (0.0, 0.0), width: float = 1) -> None:
        super().__init__([start, end], close=False)
        self.width = width


class Point(Geom):
    """A dot at the origin."""

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws it."""
        picture.circle(self._placed([(0.0, 0.0)], outer)[0], 0.005, self._ink())


class Compound(Geom):
    """Shapes that belong together; their colour is its own, whatever theirs were."""

    def __init__(self, gs: Sequence[Geom]) -> None:
        super().__init__()
        self.gs = list(gs)

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws all of them."""
        for geom in self.gs:
            self._colored(geom).draw(picture, lambda at: self._placed([at], outer)[0])

    def _colored(self, geom: Geom) -> Geom:
        geom.color, geom.alpha = self.color, self.alpha
        return geom


class _Mosaic(Compound):
    """Shapes that keep their colours."""

    def _colored(self, geom: Geom) -> Geom:
        return geom


class Grid(Geom):
    """Lines at equal distances."""

    def __init__(self, spacing: float = 0.1, length: float = 50, width: float = 0.5) -> None:
        super().__init__()
        self.spacing, self.length, self.width = spacing, length, width

    def set_linewidth(self, x: float) -> None:
        """Pixels."""
        self.width = x

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws those of them that are in view."""
        reach, (left, bottom, right, top) = self.length / 2, picture.edges()
        for at in self._between(left, right):
            picture.line((at, -reach), (at, reach), (0.8, 0.8, 0.8), width=self.width)
        for at in self._between(bottom, top):
            picture.line((-reach, at), (reach, at), (0.8, 0.8, 0.8), width=self.width)

    def _between(self, low: float, high: float) -> list[float]:
        """Where lines are from ``low`` to ``high``; the first of all is at ``-length / 2``."""
        start = -self.length / 2
        first, last = math.ceil((low - start) / self.spacing), math.floor((high - start) / self.spacing)
        there = range(max(first, 0), min(last, math.ceil(self.length / self.spacing) - 1) + 1)
        return [start + k * self.spacing for k in there]


class TextLine(Geom):
    """A text; ``x`` and ``y`` are pixels of VMAS's window, and so it is not drawn on pictures of other sizes."""

    def __init__(self, text: str = "", font_size: int = 15, x: Any = 0.0, y: Any = 0.0) -> None:
        super().__init__()
        self.text, self.font_size, self.x, self.y = text, font_size, x, y

    def set_text(self, text: str, font_size: int | None = None) -> None:
        """Another text."""
        self.text, self.font_size = text, self.font_size if font_size is None else font_size


class _Label(TextLine):
    """A short text at a place of the world."""

    def __init__(self, text: str, at: Point2) -> None:
        super().__init__(text)
        self.at = at

    def draw(self, picture: Picture, outer: Callable[[Point2], Point2] = lambda at: at) -> None:
        """Draws it."""
        picture.text(outer(self.at), self.text)


def make_circle(radius: Any = 10, res: int = CORNERS, filled: bool = True, angle: float = 2 * math.pi) -> Geom:
    """A circle, or a part of one."""
    return make_ellipse(radius, radius, res, filled, angle)


def make_ellipse(
    radius_x: Any = 10, radius_y: Any = 5, res: int = CORNERS, filled: bool = True, angle: float = 2 * math.pi
) -> Geom:
    """An ellipse, or a part of one."""
    turns = [angle * k / res for k in range(res + 1)]
    points = [(math.cos(t) * _number(radius_x), math.sin(t) * _number(radius_y)) for t in turns]
    return make_polygon([*points[:-1], *([points[-1], (0.0, 0.0)] if angle < 2 * math.pi - 1e-6 else [])], filled)


def make_polygon(v: Sequence[Any], filled: bool = True, draw_border: bool = True) -> Geom:
    """A polygon."""
    return FilledPolygon(v, draw_border) if filled else PolyLine(v, close=True)


def make_polyline(v: Sequence[Any]) -> Geom:
    """Lines from point to point."""
    return PolyLine(v, close=False)


def make_capsule(length: float, width: float) -> Geom:
    """A rectangle with round ends."""
    ends = [make_circle(width / 2), make_circle(width / 2)]
    ends[1].add_attr(Transform(translation=(length, 0)))
    half = width / 2
    return Compound([make_polygon([(0, -half), (0, half), (length, half), (length, -half)]), *ends])


def render_function_util(
    f: Callable[[Any], Any],
    plot_range: Any,
    precision: float = 0.01,
    cmap_range: tuple[float, float] | None = None,
    cmap_alpha: float = 1.0,
    cmap_name: str = "viridis",
) -> Geom:
    """The values of a function of places, as squares of grey to red; ``f`` gets ``[n, 2]``."""
    ranges = (plot_range, plot_range) if isinstance(plot_range, (int, float)) else plot_range
    (x0, x1), (y0, y1) = (r if isinstance(r, (tuple, list)) else (-r, r) for r in ranges)
    step = max(precision, (x1 - x0) / 60, (y1 - y0) / 60)
    xs, ys = torch.arange(x0, x1, step), torch.arange(y0, y1, step)
    places = torch.cartesian_prod(xs, ys)
    values = torch.as_tensor(f(places.numpy())).float().reshape(len(places), -1)
    if values.shape[1] == 1:
        low, high = cmap_range or (values.min().item(), values.max().item())
        share = (values[:, 0].clamp(low, high) - low) / max(high - low, 1e-5)
        values = torch.stack((0.3 + 0.7 * share, 0.3 * (1 - share), 1 - share), -1)
    squares = []
    for (x, y), rgb in zip(places.tolist(), values.tolist(), strict=True):
        squares.append(FilledPolygon([(x, y), (x + step, y), (x + step, y + step), (x, y + step)]))
        squares[-1].set_color(rgb[0], rgb[1], rgb[2], alpha=rgb[3] if len(rgb) > 3 else cmap_alpha)
    return _Mosaic(squares)


def outline(shape: Any) -> Geom:
    """What a picture shows of a shape of a body."""
    if hasattr(shape, "radius"):
        return make_circle(shape.radius)
    if hasattr(shape, "hollow"):
        a, b = shape.length / 2, shape.width / 2
        return make_polygon([(-a, -b), (-a, b), (a, b), (a, -b)], filled=not shape.hollow)
    return Line((-shape.length / 2, 0.0), (shape.length / 2, 0.0), width=shape.width)


def placed(geom: Geom, state: Any, row: int, color: Any) -> Geom:
    """A shape where a body is, in its colour."""
    turn = state.rot[row]
    geom.add_attr(Transform(state.pos[row], turn.reshape(()) if isinstance(turn, Tensor) else turn))
    geom.set_color(*color)
    return geom


def label(text: str, at: Any) -> Geom:
    """A short text at a place of the world."""
    return _Label(text, _point(at))
