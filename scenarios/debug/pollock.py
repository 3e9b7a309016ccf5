"""Many agents, lines and boxes in a small room: all kinds of contacts.

Source: ``debug/pollock`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from marlenv.physics import Agent, Bodies, Box, Landmark, Lidar, Line, Scenario, Sphere, World

APART = 0.1  # metres between centres at the start: bodies may overlap


@dataclass(eq=False)
class Pollock(Scenario):
    """Agents push what lies around in a room of 2 by 2 metres.

    - observation ``[B, A, 1]``: zero; with ``lidar`` ``[B, A, 16]``: how far 16 rays go, at most 0.5 metres.
    - reward: none.
    - ends: never.
    - VMAS: bodies feel lines and boxes only if the circles around both overlap in some row of the batch; here from 6.7
      mm on, whatever other rows do.

    Args:
        n_agents: how many, from 1 on.
        n_lines: how many, from 0 on.
        n_boxes: how many, from 0 on.
        lidar: whether agents measure distances.
        vectorized_lidar: VMAS computes all rays at once with it; here they always are.

    """

    n_agents: int = 15
    n_lines: int = 15
    n_boxes: int = 15
    lidar: bool = False
    vectorized_lidar: bool = True

    may_overlap = True
    limits = {"n_agents": (1, 1000), "n_lines": (0, 1000), "n_boxes": (0, 1000)}

    def build(self) -> World:
        world = World(dt=0.1, drag=0.25, substeps=5, collision_force=500, x_semidim=1, y_semidim=1)
        kind = Agent(Sphere(0.05), u_multiplier=0.7, rotatable=True)
        line = Landmark(Line(0.3), movable=True, rotatable=True, color="black")
        box = Landmark(Box(0.2, 0.1), movable=True, rotatable=True, color="red")
        self.agents = world.add("agents", [kind] * self.n_agents)
        lines = [Landmark(**{**vars(line), "name": f"line {i}"}) for i in range(self.n_lines)]
        boxes = [Landmark(**{**vars(box), "name": f"box {i}"}) for i in range(self.n_boxes)]
        self.things: list[Bodies] = [world.add("lines", lines), world.add("boxes", boxes)]
        met = [self.agents, *self.things]
        self.rays = Lidar(world, self.agents, met, n_rays=16, max_range=0.5) if self.lidar else None
        return world

    def spawn(self) -> None:
        placed: list[Bodies] = []
        for bodies in (self.agents, *self.things):
            self.scatter(bodies, APART, away_from=placed)
            placed.append(bodies)

    def observe(self) -> Mapping[str, Tensor]:
        return {"agents": self.zeros(self.n_agents, 1) if self.rays is None else self.rays.measure()}

    def rewards(self) -> Mapping[str, Tensor]:
        return {"agents": self.zeros(1)}
