"""Drones seen from above: torques tilt them, and the tilt moves them.

Source: ``debug/drone`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Drone, Scenario, World, join, tilted


@dataclass(eq=False)
class DroneScenario(Scenario):
    """Drones hover with twice the thrust that they need, and are turned by their actions; as in VMAS a tilt gives them
    a velocity rather than an acceleration, see :class:`~marlenv.physics.Drone`.

    - observation ``[B, A, 4]``: own position and velocity.
    - reward: none.
    - ends: when any drone rolls or pitches by more than 30 degrees.

    Args:
        n_agents: how many, from 1 on.

    """

    n_agents: int = 2

    limits = {"n_agents": (1, 1000)}

    def build(self) -> World:
        world = World(substeps=10)
        kind = Agent(dynamics=Drone(), action_size=3, u_range=1e-5)
        self.drones = world.add("drone", [kind] * self.n_agents)
        return world

    def spawn(self) -> None:
        self.scatter(self.drones, 0.1)

    def before_step(self) -> None:
        torque = self.drones.u
        thrust = torch.full_like(torque[..., :1], Drone.g)
        self.drones.u = join(thrust, torque)

    def observe(self) -> Mapping[str, Tensor]:
        return {"drone": join(self.drones.pos, self.drones.vel)}

    def rewards(self) -> Mapping[str, Tensor]:
        return {"drone": self.zeros(1)}

    def over(self) -> Tensor:
        return tilted(self.drones).any(1)
