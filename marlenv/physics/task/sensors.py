"""What agents measure: distances along rays, and who is near.

A sensor is made in ``build`` and measures in ``observe``. It knows in advance which bodies can be met.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.errors import whole
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.entities import Color
from marlenv.physics.laws.shapes import Box, Line, Shape, Sphere
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.physics.maths.geometry import heading, length
from marlenv.physics.maths.rays import hit_box, hit_disc, hit_line
from marlenv.physics.maths.rowwise import EntityIndex, pick
from marlenv.physics.maths.views import rows_first
from marlenv.physics.task.checks import bodies_of, each_body, number
from marlenv.physics.task.world import World


class Lidar:
    """Rays around each agent, and how far each goes until it meets something.

    Args:
        world: where the agents are.
        agents: who looks around.
        targets: what the rays meet; agents never meet their own. As in VMAS, rays that start inside a box, hollow or
            not, go through its sides, and those that start inside a disc and pass its middle measure how far its rim
            lies behind them, below 0.
        n_rays: how many rays.
        max_range: how far they go, metres; what they measure where they meet nothing.
        angle_start: the direction of the first ray, against that of the agent, radians.
        angle_end: the direction of the last one; left out, or after a full turn, rays go all around.
        color: of the points where rays end, for drawing.

    >>> from marlenv.physics import Agent
    >>> world = World()
    >>> agents = world.add("agents", [Agent()] * 2)
    >>> Lidar(world, agents, [agents], n_rays=4).angles
    (0.0, 1.5707963705062866, 3.1415927410125732, 4.71238899230957)
    """

    def __init__(
        self,
        world: World,
        agents: Bodies | Body,
        targets: Bodies | Body | Iterable[Bodies | Body],
        *,
        n_rays: int = 8,
        max_range: float = 1.0,
        angle_start: float = 0.0,
        angle_end: float | None = None,
        color: Color = "gray",
    ) -> None:
        n_rays, angle_start = whole("Lidar", "n_rays", n_rays, 1), number("Lidar", "angle_start", angle_start)
        angle_end = 2 * math.pi + angle_start if angle_end is None else number("Lidar", "angle_end", angle_end)
        round_about = (angle_start - angle_end) % (2 * math.pi) < 1e-5
        angles = torch.linspace(angle_start, angle_end, n_rays + round_about, dtype=torch.float32, device="cpu")[
            :n_rays
        ]
        self.agents, self.color = bodies_of(world, "Lidar", "agents", agents), color
        self.max_range = number("Lidar", "max_range", max_range, 0.0)
        self.angles: tuple[float, ...] = tuple(angles.tolist())
        """The directions of the rays against that of the agent, radians."""
        self._angles = PerEntity(self.angles, lead=(n_rays,))
        self._views = _views(self.agents, each_body(world, "Lidar", "targets", targets))
        world.sensors.append(self)

    @property
    def n_rays(self) -> int:
        """How many rays each agent has."""
        return len(self.angles)

    def measure(self) -> Tensor:
        """How far the rays go; ``[B, A, R]``, metres."""
        rot, pos = self.agents.planar("rot"), self.agents.planar("pos")
        angle = self._angles.on(rot).reshape(-1, 1, 1) + rot
        rays = heading(angle).unsqueeze(3)  # [2, R, A, 1, B]
        best = angle.new_full((), self.max_range).expand(angle.shape)
        for view in self._views:
            best = torch.minimum(best, view.hits(pos, rays, self.max_range).amin(2))
        return best.permute(2, 1, 0)


@dataclass(frozen=True)
class Near:
    """Who is near, the nearest first."""

    index: Tensor
    """Which of the others; int64 ``[B, A, k]``."""
    mask: Tensor
    """Whether there is one; bool ``[B, A, k]``. Where not, the rest means nothing."""
    offset: Tensor
    """Where it is, seen from the agent; ``[B, A, k, 2]``, metres. Zero where there is none."""
    distance: Tensor
    """How far away its centre is; ``[B, A, k]``, metres. Zero where there is none."""


class Edges(NamedTuple):
    """A graph per row, for message passing; a scenario emits it as ``shared_info`` with ``edges()._asdict()``."""

    edge_index: Tensor
    """From whom to whom, as indices in their groups; int64 ``[B, 2, A * k]``, sources, then targets."""
    edge_mask: Tensor
    """Which of the edges there are; bool ``[B, A * k]``."""


class Neighbours:
    """Who is near each agent: the nearest others, within a radius and in sight; and the graph that they make.

    Args:
        world: where they are.
        agents: who looks around.
        others: whom they look for; each other when left out.
        k: how many of the nearest; all when left out, and 0 where there are no others.
        radius: how far they look, metres; left out, everywhere.
        blocked_by: bodies through whose outlines nobody sees, from within or from outside; nobody hides behind itself.

    >>> from marlenv.physics import Agent
    >>> world = World()
    >>> agents = world.add("agents", [Agent()] * 5)
    >>> Neighbours(world, agents, k=2, radius=0.5).k
    2
    """

    def __init__(
        self,
        world: World,
        agents: Bodies | Body,
        others: Bodies | Body | None = None,
        *,
        k: int | None = None,
        radius: float | None = None,
        blocked_by: Bodies | Body | Iterable[Bodies | Body] = (),
    ) -> None:
        self.agents = bodies_of(world, "Neighbours", "agents", agents)
        self.others = self.agents if others is None else bodies_of(world, "Neighbours", "others", others)
        self.radius = None if radius is None else number("Neighbours", "radius", radius, 0.0)
        there = {body.name for body in self.agents.entities}
        most = len(self.others) - min(1, sum(body.name in there for body in self.others.entities))
        self.k = most if k is None else whole("Neighbours", f"k, of {most} others,", k, min(1, most), most)
        """How many of the nearest."""
        views = _views(self.agents, each_body(world, "Neighbours", "blocked_by", blocked_by))
        self._blocks = [(view, view.is_one_of(self.others)) for view in views]
        same = [[float(a is b) for b in self.others.entities] for a in self.agents.entities]
        self._self = PerEntity([x for row in same for x in row], lead=(len(self.agents),))
        world.sensors.append(self)

    def measure(self) -> Near:
        """Who is near each agent."""
        here, there = self.agents.planar("pos"), self.others.planar("pos")
        if not self.k:
            nobody = here[0].unsqueeze(1)[:, :0]  # [A, 0, B]
            far = rows_first(nobody)
            return Near(far.to(torch.int64), far.bool(), torch.stack((far, far), -1), far)
        way = there.unsqueeze(1) - here.unsqueeze(2)  # [2, A, M, B]
        far = length(way[0], way[1])
        seen = self._in_sight(here, way, far)
        order = torch.where(seen, far, math.inf).sort(dim=1, stable=True)[1][:, : self.k]
        mask = seen.gather(1, order)
        near = far.gather(1, order) * mask
        offset = way.gather(2, order.unsqueeze(0).expand(2, -1, -1, -1)) * mask
        return Near(rows_first(order), rows_first(mask), offset.permute(3, 1, 2, 0), rows_first(near))

    def edges(self) -> Edges:
        """The communication graph: from each neighbour to the agent that hears it."""
        near = self.measure()
        target = torch.arange(len(self.agents), device=near.index.device).reshape(-1, 1).expand_as(near.index)
        return Edges(torch.stack((near.index, target), 1).flatten(2), near.mask.flatten(1))

    def _in_sight(self, here: Tensor, way: Tensor, far: Tensor) -> Tensor:
        """Who is seen at all; bool ``[A, M, B]``."""
        seen = (far >= 0) if self.radius is None else far <= self.radius
        if self._self.same != 0:
            seen = seen & (self._self.on(far) == 0)
        rays = (way / far).transpose(1, 2).unsqueeze(3)  # [2, M, A, 1, B]
        for view, own in self._blocks:
            hits = view.hits(here, rays, math.inf, leaving=True)
            if own.same != 0:
                hits = torch.where(own.on(hits) > 0, math.inf, hits)
            seen = seen & (hits.amin(2).transpose(0, 1) >= far)
        return seen


class View:
    """Bodies of one kind of shape as several agents see them: the same number for each.

    Args:
        kind: the shape.
        seen: for each agent, whom it sees.

    """

    def __init__(self, kind: type[Shape], seen: Sequence[Sequence[Body]]) -> None:
        most = max(map(len, seen))
        self.kind, self.agents = kind, len(seen)
        slots = [[*bodies, *[bodies[0]] * (most - len(bodies))] for bodies in seen]  # twice the same changes no minimum
        bodies = list({id(body.entity): body for row in slots for body in row}.values())
        number = {id(body.entity): i for i, body in enumerate(bodies)}
        self.bodies = bodies
        self._rows = slots
        self.slots = EntityIndex([number[id(body.entity)] for row in slots for body in row])
        shapes = [body.entity.shape for row in slots for body in row]
        lead = (len(seen),)
        if kind is Sphere:
            self.sizes = [PerEntity([shape.reach for shape in shapes], lead)]
        else:
            names = ("length", "width") if kind is Box else ("length",)
            self.sizes = [PerEntity([getattr(shape, name) / 2 for shape in shapes], lead) for name in names]

    def hits(self, pos: Tensor, rays: Tensor, far: float, *, leaving: bool = False) -> Tensor:
        """How far rays go until they meet each body; ``[R, A, M, B]``.

        Args:
            pos: where the agents are, ``[2, A, B]``.
            rays: directions, ``[2, R, A, 1, B]``.
            far: what rays that miss get, metres.
            leaving: whether rays from inside meet the outline where they leave it.

        """
        centres = self._slotted(torch.stack([body.planar("pos") for body in self.bodies], 1))
        way = (centres - pos.unsqueeze(2)).unsqueeze(1)  # [2, 1, A, M, B]
        sizes = [size.on(pos) for size in self.sizes]
        if self.kind is Sphere:
            return hit_disc(way, rays, sizes[0], far, leaving=leaving)
        along = heading(torch.stack([body.planar("rot") for body in self.bodies]))
        along = self._slotted(along).unsqueeze(1)
        if self.kind is Line:
            return hit_line(way, rays, along, sizes[0], far)
        return hit_box(way, rays, along, sizes[0], sizes[1], far, leaving=leaving)

    def is_one_of(self, bodies: Bodies) -> PerEntity:
        """Which of the bodies that each agent sees is which of some others: 1 or 0, for tensors ``[R, A, M, B]``."""
        same = [[[float(b.entity is one) for b in row] for row in self._rows] for one in bodies.entities]
        return PerEntity([x for one in same for row in one for x in row], (len(bodies), self.agents))

    def _slotted(self, x: Tensor) -> Tensor:
        """``[2, n, B]`` as ``[2, A, M, B]``."""
        return pick(x, self.slots).unflatten(1, (self.agents, -1))


def _views(agents: Bodies, bodies: Sequence[Body]) -> list[View]:
    views = []
    for kind in (Box, Sphere, Line):
        seen = [
            [b for b in bodies if isinstance(b.entity.shape, kind) and b.entity is not me] for me in agents.entities
        ]
        if any(seen):
            if not all(seen):
                blind = next(me.name for me, row in zip(agents.entities, seen, strict=True) if not row)
                raise ValueError(
                    f"{blind!r} alone has nothing of a kind to see that others see; give it a sensor of its own"
                )
            views.append(View(kind, seen))
    return views
