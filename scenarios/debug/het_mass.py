"""Two agents of different and unknown masses go as fast as their energy is worth.

Source: ``debug/het_mass`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Scenario, World, join, norm, total

MOST = 1.0  # N
PRICE = 0.17  # of an agent's whole force


@dataclass(eq=False)
class HetMass(Scenario):
    """A heavy agent and a light one run along a line; nobody is told how heavy they are in this episode.

    - observation ``[B, 2, 4]``: own position and velocity.
    - reward, shared: the higher of the two speeds, minus what their forces cost.
    - ends: never.
    - action: a force, of which only the part along x acts, N.
    - VMAS: all rows that are reset at once have the same masses, and a reset of one row gives the others its own.

    Args:
        green_mass: of the first agent, kg, above 0; at least ``mass_noise``.
        blue_mass: of the second one, kg, above 0; at least ``mass_noise``.
        mass_noise: by how much the masses of an episode differ from these at most, kg, from 0 on.

    """

    green_mass: float = 4.0
    blue_mass: float = 2.0
    mass_noise: float = 1.0

    limits = {"green_mass": (1e-6, 1e6), "blue_mass": (1e-6, 1e6), "mass_noise": (0, 1e6)}

    def build(self) -> World:
        masses = torch.tensor([float(self.green_mass), float(self.blue_mass)])
        if self.mass_noise > masses.min():
            raise ValueError(
                f"HetMass: mass_noise must be at most green_mass and blue_mass, or masses would be negative, got "
                f"mass_noise={self.mass_noise!r}, green_mass={self.green_mass!r}, blue_mass={self.blue_mass!r}"
            )
        world = World()
        kinds = [Agent(name=f"agent {i}", collide=False, color=color) for i, color in enumerate(("green", "blue"))]
        self.agents = world.add("agents", kinds)
        world.remember(mass=masses)
        world.note(max_speed=0.0, energy_expenditure=0.0)
        return world

    def spawn(self) -> None:
        self.memory.mass = self.memory.mass + self.mass_noise * (1 - 2 * self.uniform(0, 1, 2))  # never 0
        self.agents.pos = self.uniform(-1, 1, 2, 2)

    def before_step(self) -> None:
        force = self.agents.u.clamp(-MOST, MOST) * self.tensor([1.0, 0.0])
        self.note(energy_expenditure=-PRICE * total(norm(force) / (2**0.5 * MOST)))
        self.agents.u = force / self.memory.mass.unsqueeze(-1)  # what moves a body of 1 kg alike

    def observe(self) -> Mapping[str, Tensor]:
        return {"agents": join(self.agents.pos, self.agents.vel)}

    def rewards(self) -> Mapping[str, Tensor]:
        self.note(max_speed=norm(self.agents.vel).amax(1))
        return {"agents": (self.notes.max_speed + self.notes.energy_expenditure).unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("max_speed", "energy_expenditure")}
