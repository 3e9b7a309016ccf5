"""An agent runs around a circle.

Source: ``debug/circle_trajectory`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.directions import unit
from torch import Tensor

from marlenv.physics import Agent, Picture, Scenario, Sphere, VelocityController, View, World, join, norm, total

RADIUS = 1.5  # metres, of the circle


@dataclass(eq=False)
class CircleTrajectory(Scenario):
    """One agent stays on a circle of 1.5 metres around the origin and runs along it, against the clock.

    - observation ``[B, 1, 6]``: own position, velocity, and position once more.
    - reward: minus the root of the metres from the circle, and half the speed along it.
    - ends: never.
    - action: velocities, m/s.
    - VMAS: actions that are late when an episode ends act in the next one.

    Args:
        u_range: the highest speed that actions ask for, m/s, from 0 on.
        a_range: the highest acceleration in each direction, m/s², from 0 on; with ``linear_friction`` above 0.
        obs_noise: the size of uniform noise on observations, from 0 on.
        dt_delay: actions act so many steps late, from 0 on.
        min_input_norm: slower ones are 0, m/s.
        linear_friction: m/s², from 0 on.

    """

    u_range: float = 1.0
    a_range: float = 1.0
    obs_noise: float = 0.0
    dt_delay: int = 0
    min_input_norm: float = 0.08
    linear_friction: float = 0.1

    limits = {"u_range": (0, 1e6), "a_range": (0, 1e6), "obs_noise": (0, 1e6), "linear_friction": (0, 1e6),
              "dt_delay": (0, 10000), "min_input_norm": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        force = self.a_range + self.linear_friction
        if not force:
            raise ValueError(
                "CircleTrajectory: a_range and linear_friction must not both be 0: the agent could not move; "
                "got 0 and 0"
            )
        world = World(linear_friction=self.linear_friction, dt=0.05, drag=0)
        self.agents = world.add("agents", [Agent(Sphere(0.16), f_range=force, u_range=self.u_range)])
        self.control = VelocityController(
            world,
            self.agents,
            (2.0, 6.0, 0.002),
            max_speed=self.u_range,
            dead_band=self.min_input_norm,
            delay=self.dt_delay,
        )
        world.note(pos_rew=0.0, dot_product=0.0)
        return world

    def spawn(self) -> None:
        self.agents.pos = self.uniform(-RADIUS, RADIUS, 1, 2)

    def before_step(self) -> None:
        self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": self.blur(join(agents.pos, agents.vel, agents.pos), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        pos, vel = self.agents.pos.squeeze(1), self.agents.vel.squeeze(1)
        off = pos - unit(pos) * RADIUS
        far = norm(off)
        outside = torch.where(norm(pos) < RADIUS, -1.0, 1.0).unsqueeze(1)
        ahead = unit(torch.stack((-off[:, 1], off[:, 0]), 1) * outside)
        self.note(pos_rew=0.0 - far**0.5, dot_product=0.5 * total(ahead * vel))
        return {"agents": (self.notes.pos_rew + self.notes.dot_product).unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "dot_product")}

    def view(self) -> View:
        """The circle and the agent, unless it is far away."""
        far = min(20.0, 0.25 + max(RADIUS, self.agents.pos.abs().max().item()))
        return View(far, far)

    def draw(self, picture: Picture) -> None:
        """The circle."""
        picture.circle((0.0, 0.0), RADIUS, "black", fill="none")
