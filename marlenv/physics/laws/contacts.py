"""Contacts between bodies: what all of them have in common. Those of two shapes are in
:mod:`marlenv.physics.laws.pairs`.

A contact pushes along the line between the two closest points, softly: ``softplus`` of the depth over the contact
margin. There is no friction in a contact. The formulas and their order are those of VMAS 1.5.2
(https://github.com/proroklab/VectorizedMultiAgentSimulator), without its early exit, which looks at the whole batch.
``P`` are the pairs of one kind, ``M`` the bodies that can move.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from marlenv.physics.laws.axes import Axes
from marlenv.physics.laws.shapes import Box, Line
from marlenv.physics.laws.world_plan import Pairs, PerEntity
from marlenv.physics.maths.geometry import LINE_WIDTH, Segment, inside, length, sides
from marlenv.physics.maths.rowwise import alike, in_graph, pick, rolls

NEAREST = 1e-6  # metres; bodies closer than this have no direction to push in
AROUND = 0.02  # metres beyond the outlines in which nothing is felt any more; the width of lines is 0.0067
FEW = 0.4  # of the rows; more are not worth being taken out
LOCAL = 2.0  # metres; where bodies reach further, somebody is always near
ZERO = PerEntity([0.0])


@dataclass(frozen=True)
class Spring:
    """How hard bodies push: newtons per metre of depth, and the metres over which the push sets in."""

    stiffness: float
    margin: float


class Pose(NamedTuple):
    """Where all bodies are: ``pos`` ``[2, E, B]``, and the directions ``axes`` ``[2, Q, B]`` (:class:`.Axes`)."""

    pos: Tensor
    axes: Tensor


class Push(NamedTuple):
    """What contacts of one kind do.

    ``force`` ``[2, P, B]`` is on the first bodies, the second ones get its negative; ``twist_*`` are the torques on
    both, ``[P, B]``, None where there are none.
    """

    force: Tensor
    twist_first: Tensor | None = None
    twist_second: Tensor | None = None


class Contact(ABC):
    """All pairs of two kinds of shapes."""

    twists: ClassVar[bool] = True
    """Whether it can turn bodies."""

    def __init__(self, pairs: Pairs, axes: Axes) -> None:
        self.pairs, self.axes = pairs, axes
        reach = [a.shape.reach + b.shape.reach + AROUND for a, b in pairs.entities]
        self._reach = PerEntity([r * r for r in reach])
        self._local = max(reach) < LOCAL
        self.prepare([a.shape for a, _ in pairs.entities], [b.shape for _, b in pairs.entities])

    @abstractmethod
    def prepare(self, first: Sequence[Any], second: Sequence[Any]) -> None:
        """Keeps the constants of the shapes."""

    def nearby(self, pose: Pose) -> Tensor | None:
        """The rows in which anything is near, and outside of which all pushes are exactly zero; int64 ``[n]``, None for
        all.

        Looks at data, and so only in eager mode on the CPU.
        """
        if not self._local or in_graph() or pose.pos.device.type != "cpu" or torch.is_grad_enabled():
            return None
        found = self._near(pose).any(0).nonzero().flatten()
        return found if len(found) <= FEW * pose.pos.shape[-1] else None

    def _near(self, pose: Pose) -> Tensor:
        """Which pairs are near enough to feel each other, or nearly so; bool ``[P, B]``."""
        way = pick(pose.pos, self.pairs.first) - pick(pose.pos, self.pairs.second)
        return way[0] * way[0] + way[1] * way[1] <= self._reach.on(way)

    def felt(self, pose: Pose, spring: Spring) -> Push:
        """As :meth:`push`; where branches are recorded, with zeros chosen for pairs that are not near: all else is
        skipped there.
        """
        if not (rolls() and self.twists):  # what does not twist looks at the distance itself
            return self.push(pose, spring)
        near, push = self._near(pose), self.push(pose, spring)
        zero = ZERO.on(push.force)
        twists = (x if x is None else torch.where(near, x, zero) for x in push[1:])
        return Push(torch.where(near, push.force, zero), *twists)

    @abstractmethod
    def push(self, pose: Pose, spring: Spring) -> Push:
        """The forces and torques of all pairs."""

    @abstractmethod
    def between(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """How far apart the outlines of all pairs are, metres, and whether they overlap; ``[P, B]``, bool ``[P,
        B]``.
        """

    def stuck(self, pose: Pose, least: float) -> Tensor:
        """Which pairs lie more than ``least`` metres within each other; bool ``[P, B]``. What is inside a hollow box
        is not within it.
        """
        gap, overlap = self.between(pose)
        return overlap & (gap < -(LINE_WIDTH * self.twists + least))  # lines and boxes are met at a distance

    def outlines(self, pose: Pose) -> tuple[Tensor, Tensor]:
        """As :meth:`between`; where branches are recorded, with pairs that are not near said apart: overlaps skip all
        else there.
        """
        gap, overlap = self.between(pose)
        if rolls() and self.twists:
            overlap = torch.where(self._near(pose), overlap, torch.zeros_like(overlap))
        return gap, overlap

    def lines(self, side: int, shapes: Sequence[Line]) -> Callable[[Pose], Segment]:
        """Where the lines on one side of the pairs are."""
        places = (self.pairs.first, self.pairs.second)[side]
        along = self.axes.rows(places)
        half = PerEntity([line.length / 2 for line in shapes])
        return lambda pose: Segment(pick(pose.pos, places), pick(pose.axes, along), half.on(pose.pos))

    def boxes(self, side: int, shapes: Sequence[Box]) -> Callable[[Pose], Segment]:
        """Where the sides of the boxes on one side of the pairs are."""
        places = (self.pairs.first, self.pairs.second)[side]
        along, across = self.axes.rows(places), self.axes.rows(places, quarter=True)
        length, width = (PerEntity([getattr(box, at) / 2 for box in shapes]) for at in ("length", "width"))
        halves = PerEntity([*width.values * 2, *length.values * 2], lead=(4,))

        def at(pose: Pose) -> Segment:
            x, y = pick(pose.axes, along), pick(pose.axes, across)
            like = pose.pos
            return sides(pick(like, places), x, y, length.on(like), width.on(like), halves.on(like))

        return at


class Solid:
    """Which boxes are solid, and so push from within."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.share = PerEntity([float(not box.hollow) for box in boxes])

    def inside(self, outside: Tensor, surface: Tensor, centre: Tensor) -> tuple[Tensor, Tensor | None]:
        """The points that bodies outside are pushed away from, and how deep they lie; None when all boxes are
        hollow.
        """
        if self.share.same == 0:
            return surface, None
        way, deep = inside(outside, surface, centre)
        if self.share.same is None:
            solid = self.share.on(way)
            way, deep = way * solid, deep * solid
        return surface + way, deep


def repulsion(delta: Tensor, apart: Tensor, spring: Spring) -> Tensor:
    """The force on ``a`` that keeps it ``apart`` metres from ``b``; ``[2, P, B]``, newtons.

    Args:
        delta: from ``b`` to ``a``, ``[2, P, B]``, metres.
        apart: the distance at which they touch, ``[]``, ``[P, 1]`` or ``[P, B]``.
        spring: how hard.

    >>> delta = torch.tensor([0.1, 0.0]).reshape(2, 1, 1)
    >>> force = repulsion(delta, torch.tensor(0.3), Spring(stiffness=100.0, margin=1e-3))
    >>> [round(f, 4) for f in force.flatten().tolist()]
    [20.0, 0.0]

    """
    distance = length(delta[0], delta[1])
    felt = (distance >= NEAREST) & (distance <= apart)
    size = depth(apart - distance, spring.margin) * felt
    return spring.stiffness * delta / distance.clamp(min=NEAREST) * size


def depth(over: Tensor, margin: float) -> Tensor:
    """``margin`` times the softplus of ``over / margin``: smooth at zero, and ``over`` itself where it is large;
    metres.
    """
    return alike(_softplus, over / margin) * margin


def _softplus(x: Tensor) -> Tensor:
    if torch.is_grad_enabled() and not in_graph():
        return _Softplus.apply(x)
    return torch.logaddexp(ZERO.on(x), x)


class _Softplus(torch.autograd.Function):
    """The same, with second derivatives: those of ``logaddexp`` are not finite where bodies are far apart."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.logaddexp(ZERO.on(x), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grown: Tensor) -> Tensor:
        return grown * ctx.saved_tensors[0].sigmoid()

    @staticmethod
    def jvp(ctx: Any, moved: Tensor) -> Tensor:
        return moved * ctx.saved_tensors[0].sigmoid()


def add(pairs: Pairs, push: Push, force: Tensor, torque: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """``force`` ``[2, M, B]`` and ``torque`` ``[M, B]`` with the pushes added."""
    # A body feels its partners in their order: first those that came before it, then those after it.
    force = pairs.push_second.add(force, push.force, sign=-1)
    force = pairs.push_first.add(force, push.force)
    if torque is not None and push.twist_second is not None:
        torque = pairs.twist_second.add(torque, push.twist_second)
    if torque is not None and push.twist_first is not None:
        torque = pairs.twist_first.add(torque, push.twist_first)
    return force, torque


def single_sum(*xs: float) -> float:
    """The sum in float32, as tensors would be added."""
    total = torch.zeros((), dtype=torch.float32, device="cpu")
    for x in xs:
        total = total + torch.tensor(x, dtype=torch.float32, device="cpu")
    return float(total)
