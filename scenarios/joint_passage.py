"""Two agents, joined by a rod with a weight on it, turn it upright, carry it through a gap and turn it to its goal.

Source: ``joint_passage`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.bricks import RADIUS
from marlenv.scenarios.parts.rod import Rod
from marlenv.scenarios.parts.rods import check_length, check_rod, direction
from torch import Tensor

from marlenv.physics import (
    Agent,
    Picture,
    Scenario,
    Sphere,
    VelocityController,
    World,
    heading,
    join,
    norm,
    offset,
    total,
)

NEAR = 0.005  # metres that count as a collision
PARTS = ("pos_rew", "rot_rew", "collision_rew", "energy_rew")


@dataclass(eq=False)
class JointPassage(Scenario):
    """A wall of bricks has gaps that are narrower than the rod; agents start below it, the goal is above.

    - observation ``[B, 2, 8 + 2 n]``: own position and velocity; the agent seen from goal and ``n`` gaps; the direction
      of the goal, and with ``observe_joint_angle`` that of the rod.
    - reward, shared: the metres and radians that the rod comes nearer to the nearest gap and to being upright, or, when
      it has passed, to the goal; ``collision_reward`` for each thing touched; minus ``energy_reward_coeff`` times the
      share of the full force that each agent asks for, summed over agents.
    - ends: when the rod lies on its goal.
    - action: forces, or with ``use_controller`` velocities.
    - VMAS: a row is done only when the rods of all rows are at their goals; bodies feel rod, bricks and border only
      if the circles around both overlap in some row of the batch; a reset of one row puts the rods of all rows anew
      between their agents; all rows that are reset at once begin with the same agent on the left; and noise on the
      rod's angle turns the rod itself, and adds up. Here each row is on its own, bodies are felt from 6.7 mm on, and
      noise is noise.

    Args:
        n_passages: how many gaps, from 1 to 14 (of 14 bricks).
        fixed_passage: whether they are in the middle; or anywhere but in the place of the rightmost brick, as in VMAS,
            perhaps two in one place.
        joint_length: of the rod, metres, above 0, at most 0.8, the room between border and wall; at most 1.93, the
            width of the world, where it neither starts at any angle nor its goal has any.
        random_start_angle: whether the rod starts at any angle; or lies flat.
        random_goal_angle: whether its goal has any angle; or lies flat.
        observe_joint_angle: whether agents observe the direction of the rod.
        joint_angle_obs_noise: the standard deviation of Gaussian noise on it, radians, from 0 on; each agent has its
            own noise, and it needs ``observe_joint_angle``.
        asym_package: whether there is a weight on the rod.
        mass_ratio: the mass of the weight, or without one of the second agent, kg, above 0; with less than 0.03, or
            0.3 without a weight, rod and agents may fly apart, as in VMAS.
        mass_position: where the weight is on the rod: from -1, at the first agent, to 1, at the second.
        max_speed_1: of the second agent, m/s, from 0 on; left out, there is no limit.
        pos_shaping_factor: reward per metre.
        rot_shaping_factor: reward per radian.
        collision_reward: for each thing touched.
        energy_reward_coeff: what each agent that asks for all of its force costs both; with ``use_controller`` one may
            ask for more than it has, and costs more.
        all_passed_rot: whether the rod turns to its goal when both agents have passed; or when its middle has.
        obs_noise: the size of uniform noise on all observations, from 0 on.
        use_controller: whether actions are velocities.

    """

    n_passages: int = 1
    fixed_passage: bool = True
    joint_length: float = 0.5
    random_start_angle: bool = True
    random_goal_angle: bool = True
    observe_joint_angle: bool = False
    joint_angle_obs_noise: float = 0.0
    asym_package: bool = True
    mass_ratio: float = 5.0
    mass_position: float = 0.75
    max_speed_1: float | None = None
    pos_shaping_factor: float = 1.0
    rot_shaping_factor: float = 1.0
    collision_reward: float = 0.0
    energy_reward_coeff: float = 0.0
    all_passed_rot: bool = True
    obs_noise: float = 0.0
    use_controller: bool = False

    draws_edge = False
    limits = {"n_passages": (1, 14), "joint_length": (1e-6, 1.93), "mass_ratio": (1e-6, 1e6),
              "max_speed_1": (0, 1e6), "obs_noise": (0, 1e6), "joint_angle_obs_noise": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        check_rod(self)
        check_length(self)
        steps, pull, push, drag = (10, 900, 2500, 0.15) if self.asym_package else (7, 400, 1500, 0.25)
        forces: dict[str, Any] = {"joint_force": pull, "collision_force": push, "drag": drag}
        world = World(x_semidim=1, y_semidim=1, substeps=steps, **forces)
        bodies = ((1.0, None), (1.0 if self.asym_package else self.mass_ratio, self.max_speed_1))
        kinds = [Agent(Sphere(RADIUS), mass=m, max_speed=v, u_multiplier=0.8, f_range=0.8) for m, v in bodies]
        weight = (self.mass_ratio, self.mass_position) if self.asym_package else None
        self.rod = Rod(world, kinds, self.joint_length, weight, 0.1476, self.n_passages, fixed=self.fixed_passage)
        self.agents = self.rod.agents
        self.control = VelocityController(world, self.agents, (2.0, 10.0, 1e-5), rests=True)
        world.remember(before=0.0, behind=0.0, upright=0.0, turned=0.0, passed=torch.tensor(False))
        world.note(**dict.fromkeys((*PARTS, "passed"), 0.0))
        return world

    def spawn(self) -> None:
        self.rod.spawn(self, any_start=self.random_start_angle, any_goal=self.random_goal_angle)

    def _shapings(self) -> dict[str, Tensor]:
        far, bent = self.rod.off()
        bent = {name: x * self.rot_shaping_factor for name, x in bent.items()}
        return {name: x * self.pos_shaping_factor for name, x in far.items()} | bent

    def after_spawn(self) -> None:
        self.keep(self._shapings())

    def before_step(self) -> None:
        if self.use_controller:
            self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents, rod = self.agents, self.rod
        observation = [agents.pos, agents.vel, offset(rod.goal, agents), -offset(agents, rod.bricks.gaps)]
        observation.append(heading(rod.goal.rot.unsqueeze(1)).permute(1, 2, 0))
        if self.observe_joint_angle:
            observation.append(direction(self, rod.bar, self.joint_angle_obs_noise))
        return {"agents": self.blur(join(*observation), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        memory, gain = self.memory, self.gains(self._shapings())
        passed, both = self.rod.bar.pos[:, 1] > 0, (self.agents.pos[..., 1] > 0.1).all(1)
        pos = torch.where(passed, gain["behind"], gain["before"])
        rot = torch.where(both if self.all_passed_rot else passed, gain["turned"], gain["upright"])
        hits = self.collision_reward * self.rod.hits(NEAR) if self.collision_reward else self.zeros()
        energy = -total(norm(self.agents.u) / (math.sqrt(2) * 0.8)) * self.energy_reward_coeff
        self.note(pos_rew=pos, rot_rew=rot, collision_rew=hits, energy_rew=energy, passed=both & ~memory.passed)
        memory.passed = memory.passed | both
        return {"agents": (pos + rot + hits + energy).unsqueeze(1)}

    def over(self) -> Tensor:
        far, bent = self.rod.off()
        return (far["behind"] <= 0.01) & (bent["turned"] <= 0.01)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*PARTS, "passed")}

    def draw(self, picture: Picture) -> None:
        """Where the agents are when the rod is at its goal."""
        self.rod.draw(picture)
