"""A chain of agents falls over boxes: all kinds of contacts, and joints.

Source: ``debug/waterfall`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Body, Box, Landmark, Line, Scenario, Sphere, World, distance, join, offset

RADIUS, APART = 0.04, 0.1  # metres: of agents, and between them


@dataclass(eq=False)
class Waterfall(Scenario):
    """Agents hang on each other by rods, the last one on a box; five boxes and a floor lie below them.

    - observation ``[B, A, 4 + 2 n]``: own position and velocity; the ``n`` landmarks, rods included, seen from the
      agent.
    - reward: minus the metres to the middle of the floor.
    - ends: never.
    - VMAS: boxes, rods and floor feel others only if the circles around both bodies overlap in some row of the batch;
      here from 6.7 mm on, whatever other rows do. And there a reset of one row bends the joints of all rows anew.

    Args:
        n_agents: how many, from 1 on.
        joints: whether they hang on each other.

    """

    n_agents: int = 5
    joints: bool = True

    limits = {"n_agents": (1, 1000)}

    def build(self) -> World:
        world = World(substeps=5, collision_force=500)
        self.agents = world.add("agents", [Agent(Sphere(RADIUS), u_multiplier=0.7)] * self.n_agents)
        self.things: list[Body] = []
        if self.joints:
            rod: dict[str, Any] = {"dist": APART, "collidable": True, "anchor_a": (1.0, 0.0), "anchor_b": (-1.0, 0.0)}
            pairs = zip(self.agents, list(self.agents)[1:], strict=False)
            bars = [world.join(a, b, **rod).bar for a, b in pairs]
            kind = Landmark(Box(2 * RADIUS, 0.3), movable=True, rotatable=True, color="green")
            self.last = world.add("joined landmark", kind)
            bar = world.join(self.agents[-1], self.last, **rod, rotate_a=False, rotate_b=False).bar
            self.things += [*bars, self.last, bar]
        box = Landmark(Box(0.3, 0.1), movable=True, rotatable=True, color="red")
        self.boxes = world.add("landmarks", [box] * 5)
        self.floor = world.add("floor", Landmark(Line(2.0), color="black"))
        self.things += [*self.boxes, self.floor]
        return world

    def spawn(self) -> None:
        step = APART + 2 * RADIUS
        self.agents.pos = self.tensor([[step * i - 0.2, 1.0] for i in range(self.n_agents)])
        if self.joints:
            self.last.pos = (step * self.n_agents - 0.2, 1.0)
        side = [1 if i % 2 else -1 for i in range(5)]
        self.boxes.pos = self.tensor([[0.2 * s, 0.6 - 0.3 * i] for i, s in enumerate(side)])
        self.boxes.rot = self.tensor([s * torch.pi / 4 for s in side])
        self.floor.pos = (0.0, -1.0)

    def observe(self) -> Mapping[str, Tensor]:
        things = [offset(self.agents, thing) for thing in self.things]
        return {"agents": join(self.agents.pos, self.agents.vel, *things)}

    def rewards(self) -> Mapping[str, Tensor]:
        return {"agents": -distance(self.agents, self.floor)}
