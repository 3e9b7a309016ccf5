"""An agent goes to a goal, told velocities that a controller turns into forces.

Source: ``debug/goal`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, VelocityController, World, join, norm, offset

LAB = (6.0, 3.0)  # metres
NAMES = ("pos_rew", "energy_rew", "time_rew")


@dataclass(eq=False)
class Goal(Scenario):
    """One agent in a field of 6 by 3 metres goes to its goal in little time and with little force.

    - observation ``[B, 1, 6]``: own position and velocity, and the agent seen from the goal.
    - reward: the metres that the agent comes nearer to the goal, times ``pos_shaping_factor``, and ``time_rew_coeff``,
      both until it is there; minus ``energy_rew_coeff`` times the share of force that the controller
      asks for: above 1 where it asks for more than the agent has.
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
        pos_shaping_factor: reward per metre.
        time_rew_coeff: reward of each step until the agent is there.
        energy_rew_coeff: what the agent loses when the controller asks for all of its force.

    """

    u_range: float = 1.0
    a_range: float = 1.0
    obs_noise: float = 0.0
    dt_delay: int = 0
    min_input_norm: float = 0.08
    linear_friction: float = 0.1
    pos_shaping_factor: float = 1.0
    time_rew_coeff: float = -0.01
    energy_rew_coeff: float = 0.0

    limits = {"u_range": (0, 1e6), "a_range": (0, 1e6), "obs_noise": (0, 1e6), "linear_friction": (0, 1e6),
              "dt_delay": (0, 10000), "min_input_norm": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        self.f_range = self.a_range + self.linear_friction
        if not self.f_range:
            raise ValueError(
                "Goal: a_range and linear_friction must not both be 0: the agent could not move; got 0 and 0"
            )
        world = World(drag=0, dt=0.05, substeps=5)
        kind = Agent(
            Sphere(0.16), name="agent 0", color="green", linear_friction=self.linear_friction,
            f_range=self.f_range, u_range=self.u_range,
        )  # fmt: skip
        self.agents = world.add("agents", [kind])
        self.goal = world.add("goal", Landmark(Sphere(0.06), collide=False))
        self.control = VelocityController(
            world,
            self.agents,
            (2.0, 6.0, 0.002),
            max_speed=self.u_range,
            dead_band=self.min_input_norm,
            delay=self.dt_delay,
        )
        world.remember(shaping=0.0)
        world.note(**dict.fromkeys(NAMES, 0.0))
        return world

    def spawn(self) -> None:
        corner = self.tensor(LAB) / 2
        self.agents.pos = self.uniform(-corner, corner, 1, 2)
        self.goal.pos = self.uniform(-corner, corner, 2)

    def _far(self) -> Tensor:
        return norm(offset(self.agents, self.goal)).squeeze(1)

    def after_spawn(self) -> None:
        self.memory.shaping = self._far() * self.pos_shaping_factor

    def before_step(self) -> None:
        self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        return {"agents": self.blur(join(agents.pos, agents.vel, -offset(agents, self.goal)), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        far = self._far()
        reached = far < 0.06
        gain = self.gains({"shaping": far * self.pos_shaping_factor})["shaping"]
        pos, time = torch.where(reached, 0.0, gain), torch.where(reached, 0.0, self.time_rew_coeff)
        energy = -norm(self.agents.u).squeeze(1) / (math.sqrt(2) * self.f_range) * self.energy_rew_coeff
        self.note(pos_rew=pos, energy_rew=energy, time_rew=time)
        return {"agents": (pos + energy + time).unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*NAMES)}
