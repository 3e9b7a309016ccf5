"""A bicycle, or car, among boxes that move as they like.

Source: ``debug/kinematic_bicycle`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from marlenv.physics import Agent, Bodies, Box, HolonomicWithRotation, KinematicBicycle, Scenario, World, join


@dataclass(eq=False)
class KinematicBicycleScenario(Scenario):
    """The first agent steers a bicycle, the others push and turn boxes of the same size.

    - observation ``[B, A, 4]``: own position and velocity.
    - reward: none.
    - ends: never.
    - VMAS: boxes push each other only if the circles around them overlap in some row of the batch; here from 6.7 mm
      on, whatever other rows do.

    Args:
        n_agents: how many, the bicycle among them, from 1 on.
        width: of all bodies, metres, above 0.
        l_f: from the centre of gravity to the front axle, metres, from 0 on; with ``l_r`` above 0.
        l_r: to the rear axle, metres, from 0 on.
        max_steering_angle: radians, from 0 to 1.57, just below a quarter turn.
        max_speed: m/s, from 0 on.

    """

    n_agents: int = 2
    width: float = 0.1
    l_f: float = 0.1
    l_r: float = 0.1
    max_steering_angle: float = math.radians(30)
    max_speed: float = 1.0

    limits = {
        "n_agents": (1, 1000),
        "width": (1e-6, 1e6),
        "l_f": (0, 1e6),
        "l_r": (0, 1e6),
        "max_steering_angle": (0, 1.57),  # beyond a quarter turn the front wheel steers the other way
        "max_speed": (0, 1e6),
    }

    def build(self) -> World:
        world = World(substeps=10, collision_force=500)
        box = Box(self.l_f + self.l_r, self.width)
        steered = KinematicBicycle(
            l_f=self.l_f, l_r=self.l_r, max_steering_angle=self.max_steering_angle, integration="euler"
        )
        reach = (self.max_speed, self.max_steering_angle)
        bicycle = Agent(box, u_range=reach, max_speed=self.max_speed, dynamics=steered)
        self.sides = {"bicycle": world.add("bicycle", [bicycle])}
        pushed, names = HolonomicWithRotation(), [f"holo_rot_{i}" for i in range(1, self.n_agents)]
        push = (1.0, 1.0, 0.001)
        boxes = [Agent(box, name=name, u_multiplier=push, dynamics=pushed, color="green") for name in names]
        if boxes:
            self.sides["holo_rot"] = world.add("holo_rot", boxes)
        return world

    def spawn(self) -> None:
        placed: list[Bodies] = []
        for side in self.sides.values():
            self.scatter(side, 0.1, away_from=placed)
            placed.append(side)

    def observe(self) -> Mapping[str, Tensor]:
        return {name: join(side.pos, side.vel) for name, side in self.sides.items()}

    def rewards(self) -> Mapping[str, Tensor]:
        return {name: self.zeros(1) for name in self.sides}
