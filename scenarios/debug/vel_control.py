"""Three agents with velocity controllers, each with another limit of what it can do.

Source: ``debug/vel_control`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, VelocityController, World, join, norm, total

MOST = 1.0  # m/s, and m/s²: of what the second agent is asked for


@dataclass(eq=False)
class VelControl(Scenario):
    """The first agent has a limit of force, the second one of acceleration along x, the third a force that it never
    needs.

    - observation ``[B, 3, 4]``: own position and velocity.
    - reward, shared: minus three times the forces that the controllers ask for, also beyond what agents have, N.
    - ends: never.
    - action: velocities, m/s.

    Args:
        green_mass: of the first agent, kg, above 0.

    """

    green_mass: float = 1.0

    limits = {"green_mass": (1e-6, 1e6)}

    def build(self) -> World:
        world = World(linear_friction=0.1, drag=0, dt=0.05, substeps=4)
        limits: list[dict[str, Any]] = [
            {"f_range": 1.1, "mass": self.green_mass, "color": "green"},
            {},
            {"f_range": 30.0},
        ]
        kinds = [Agent(name=f"agent {i}", collide=False, u_range=MOST, **limit) for i, limit in enumerate(limits)]
        self.agents = world.add("agents", kinds)
        world.add("landmark 0", Landmark(collide=False, movable=True))
        self.control = VelocityController(world, self.agents, (2.0, 6.0, 0.002), max_speed=MOST, dead_band=0.08)
        world.note(energy_expenditure=0.0)
        return world

    def spawn(self) -> None:
        self.agents.pos = (-1.0, 0.0)

    def before_step(self) -> None:
        self.control.ask()
        asked, most = self.agents.u, MOST * self.world.laws.dt
        speed = self.agents.vel[:, 1, 0]
        near = speed + (asked[:, 1, 0] - speed).clamp(-most, most)
        second = torch.stack((near, asked[:, 1, 1]), 1).unsqueeze(1)
        self.agents.u = torch.cat((asked[:, :1], second, asked[:, 2:]), 1)
        self.control.push()

    def observe(self) -> Mapping[str, Tensor]:
        return {"agents": join(self.agents.pos, self.agents.vel)}

    def rewards(self) -> Mapping[str, Tensor]:
        used = -3 * total(norm(self.agents.u))
        self.note(energy_expenditure=used)
        return {"agents": used.unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("energy_expenditure")}
