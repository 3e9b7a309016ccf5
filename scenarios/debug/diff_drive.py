"""A robot with two wheels among agents that move and turn as they like.

Source: ``debug/diff_drive`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from marlenv.physics import Agent, Bodies, DiffDrive, HolonomicWithRotation, Picture, Scenario, World, heading, join


@dataclass(eq=False)
class DiffDriveScenario(Scenario):
    """The first agent drives on two wheels, the others are pushed and turned.

    - observation ``[B, A, 4]``: own position and velocity.
    - reward: none.
    - ends: never.
    - action: of the first agent the speed forwards (m/s) and the angular velocity (rad/s); of the others a force (N)
      and a thousand times a torque (N m).

    Args:
        n_agents: how many, the one with wheels among them, from 1 on.

    """

    n_agents: int = 2

    limits = {"n_agents": (1, 1000)}

    def build(self) -> World:
        world = World(substeps=10)
        self.sides: dict[str, Bodies] = {"diff_drive": world.add("diff_drive", [Agent(dynamics=DiffDrive())])}
        pushed, push = HolonomicWithRotation(), (1.0, 1.0, 0.001)
        names = [f"holo_rot_{i}" for i in range(1, self.n_agents)]
        if names:
            kinds = [Agent(name=name, u_multiplier=push, dynamics=pushed, color="green") for name in names]
            self.sides["holo_rot"] = world.add("holo_rot", kinds)
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

    def draw(self, picture: Picture) -> None:
        """Where agents point to."""
        for side in self.sides.values():
            ends = side.pos + 0.1 * heading(side.rot).permute(1, 2, 0)
            for start, end in zip(side.pos[0].tolist(), ends[0].tolist(), strict=True):
                picture.line(tuple(start), tuple(end), "black")
