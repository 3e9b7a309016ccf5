"""Two agents turn a rod with a weight on it until it is upright.

Source: ``debug/asym_joint`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.bricks import RADIUS
from marlenv.scenarios.parts.rods import UPRIGHT, add_weight, check_rod, direction
from torch import Tensor

from marlenv.physics import Agent, Picture, Scenario, Sphere, World, heading, join, norm, total
from marlenv.physics.maths.geometry import between_lines


@dataclass(eq=False)
class AsymJoint(Scenario):
    """The rod turns about the origin best when the agents know at which end the weight is.

    - observation ``[B, 2, 4]``: own position and velocity, and with ``observe_joint_angle`` the direction of the rod.
    - reward, shared: the radians by which the rod comes nearer to being upright, times ``rot_shaping_factor``; minus
      ``energy_reward_coeff`` times the share of its force that each agent asks for, summed over agents.
    - ends: when the rod is upright.
    - VMAS: a reset of one row puts the rods of all rows anew between their agents; all rows that are reset at once
      begin with the same agent on the left; and noise on the rod's angle turns the rod itself, and adds up. Here each
      row is on its own, and noise is noise.

    Args:
        joint_length: of the rod, metres, above 0.
        random_start_angle: whether the rod starts at any angle; or lies flat.
        observe_joint_angle: whether agents observe the direction of the rod.
        joint_angle_obs_noise: the standard deviation of Gaussian noise on it, radians, from 0 on; each agent has its
            own noise, and it needs ``observe_joint_angle``.
        asym_package: whether there is a weight on the rod.
        mass_ratio: the mass of the weight, or without one of the second agent, kg, above 0; with less than 0.03, or
            0.3 without a weight, rod and agents may fly apart, as in VMAS.
        mass_position: where the weight is on the rod: from -1, at the first agent, to 1, at the second.
        max_speed_1: of the second agent, m/s, from 0 on; left out, there is no limit.
        obs_noise: the size of uniform noise on all observations, from 0 on.
        rot_shaping_factor: reward per radian.
        energy_reward_coeff: what each agent that asks for all of its force costs both.

    """

    joint_length: float = 0.5
    random_start_angle: bool = False
    observe_joint_angle: bool = False
    joint_angle_obs_noise: float = 0.0
    asym_package: bool = True
    mass_ratio: float = 5.0
    mass_position: float = 0.75
    max_speed_1: float | None = None
    obs_noise: float = 0.2
    rot_shaping_factor: float = 1.0
    energy_reward_coeff: float = 0.08

    limits = {"joint_length": (1e-6, 1e6), "mass_ratio": (1e-6, 1e6), "max_speed_1": (0, 1e6), "obs_noise": (0, 1e6),
              "joint_angle_obs_noise": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        check_rod(self)
        steps, pull, drag = (10, 900, 0.15) if self.asym_package else (7, 400, 0.25)
        world = World(substeps=steps, joint_force=pull, drag=drag)
        second: dict[str, Any] = {"mass": 1.0 if self.asym_package else self.mass_ratio, "max_speed": self.max_speed_1}
        kinds = [
            Agent(Sphere(RADIUS), name=f"agent {i}", u_multiplier=0.8, **more) for i, more in enumerate(({}, second))
        ]
        self.agents = world.add("agents", kinds)
        self.bar = world.join(*self.agents, dist=self.joint_length).bar
        self.weight = None
        if self.asym_package:
            self.weight = add_weight(world, self.bar, self.mass_ratio, self.mass_position, collide=False)
        world.remember(off=0.0)
        world.note(rot_rew=0.0, energy_rew=0.0)
        return world

    def spawn(self) -> None:
        angle = self.uniform(-UPRIGHT, UPRIGHT) if self.random_start_angle else self.zeros()
        reach = self.joint_length / 2 * heading(angle).t() * (self.randint(0, 2, 1) * 2 - 1)
        self.agents.pos = torch.stack((-reach, reach), 1)
        if self.weight is not None:
            self.weight.pos = self.mass_position * reach

    def _off(self) -> Tensor:
        return between_lines(self.bar.rot, UPRIGHT)

    def after_spawn(self) -> None:
        self.memory.off = self._off() * self.rot_shaping_factor

    def observe(self) -> Mapping[str, Tensor]:
        observation = [self.agents.pos, self.agents.vel]
        if self.observe_joint_angle:
            observation.append(direction(self, self.bar, self.joint_angle_obs_noise))
        return {"agents": self.blur(join(*observation), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        turned = self.gains({"off": self._off() * self.rot_shaping_factor})["off"]
        energy = -total(norm(self.agents.u) / (math.sqrt(2) * 0.8)) * self.energy_reward_coeff
        self.note(rot_rew=turned, energy_rew=energy)
        return {"agents": (turned + energy).unsqueeze(1)}

    def over(self) -> Tensor:
        return self._off() <= 0.01

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("rot_rew", "energy_rew")}

    def draw(self, picture: Picture) -> None:
        """What the rod turns about."""
        picture.circle((0.0, 0.0), 0.01, "green")
