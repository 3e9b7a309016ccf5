"""A large and a small agent, joined by a rod, turn it so that each passes through the gap that it fits.

Source: ``joint_passage_size`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.bricks import RADIUS, WIDTH, above, below
from marlenv.scenarios.parts.rods import UPRIGHT, add_weight, check_rod, direction, draw_ends, place_border, touches
from marlenv.scenarios.parts.two_gaps import TwoGaps
from torch import Tensor

from marlenv.physics import Agent, Landmark, Line, Picture, Scenario, Sphere, VelocityController, World
from marlenv.physics.maths.geometry import between_lines, heading
from marlenv.physics.maths.views import join, norm, total

LARGE = 3 * RADIUS  # metres, of the second agent
NEAR = 0.005  # metres that count as a collision
PARTS = ("pos_rew", "rot_rew", "collision_rew", "energy_rew")


@dataclass(eq=False)
class JointPassageSize(Scenario):
    """A wall of bricks has a gap of two bricks and one of one; the rod stands below it, its goal is above.

    - observation ``[B, 2, 12]``: own position and velocity; the agent seen from the goal, from the large gap and from
      the small one; the direction of the goal, and with ``observe_joint_angle`` that of the rod.
    - reward, shared: the metres that the rod comes nearer to the middle between the gaps (times the square of
      ``pos_shaping_factor``, the start times the factor itself, as in VMAS: with a factor ``f`` other than 1 the first
      step adds the metres at the start, times ``f - f²``), or, when it has passed, to the goal; how much nearer it
      comes to the direction in which both fit (minus a cosine, or with ``middle_angle_180`` radians);
      ``collision_reward`` for each brick that agents and weight touch, and each border that the last of them does;
      minus ``energy_reward_coeff`` times the force that each agent asks for, in units of √2 N, that of the largest
      action, summed over agents.
    - ends: when the rod lies on its goal.
    - action: forces, or with ``use_vel_controller`` velocities.
    - VMAS: a row is done only when the rods of all rows are at their goals; bodies feel bricks and border only if the
      circles around both overlap in some row of the batch; a reset of one row puts the rods of all rows anew between
      their agents; and noise on the rod's angle turns the rod itself, and adds up. Here each row is on its own, bodies
      are felt from 6.7 mm on, and noise is noise.

    Args:
        fixed_passage: whether the gaps are always in the same place; or anywhere.
        joint_length: of the rod, metres, above 0, at most 0.6, the room between border and wall.
        random_start_angle: nothing, as in VMAS: the rod stands upright, either agent on top.
        random_goal_angle: whether its goal has any angle; or lies flat.
        observe_joint_angle: whether agents observe the direction of the rod.
        joint_angle_obs_noise: the standard deviation of Gaussian noise on it, radians, from 0 on; each agent has its
            own noise, and it needs ``observe_joint_angle``.
        asym_package: whether there is a weight on the rod.
        mass_ratio: the mass of the weight, or without one of the second agent, kg, above 0; with less than 0.03, or
            0.3 without a weight, rod and agents may fly apart, as in VMAS.
        mass_position: where the weight is on the rod: from -1, at the first agent, to 1, at the second.
        max_speed_1: of the second agent, m/s, from 0 on; left out, there is no limit.
        pos_shaping_factor: reward per metre; its square before the rod has passed.
        rot_shaping_factor: reward per radian, or cosine.
        collision_reward: for each thing touched.
        energy_reward_coeff: what each agent costs both whose action is the largest; with ``use_vel_controller`` one
            may ask for more force, and costs more.
        obs_noise: the size of uniform noise on all observations, from 0 on.
        n_passages: 3 or 4 bricks are missing: with 4 both gaps are of two.
        middle_angle_180: whether the rod may lie either way when it passes.
        use_vel_controller: whether actions are velocities.

    """

    fixed_passage: bool = False
    joint_length: float = 0.52
    random_start_angle: bool = False
    random_goal_angle: bool = False
    observe_joint_angle: bool = False
    joint_angle_obs_noise: float = 0.0
    asym_package: bool = False
    mass_ratio: float = 1.0
    mass_position: float = 0.75
    max_speed_1: float | None = None
    pos_shaping_factor: float = 1.0
    rot_shaping_factor: float = 1.0
    collision_reward: float = 0.0
    energy_reward_coeff: float = 0.0
    obs_noise: float = 0.0
    n_passages: int = 3
    middle_angle_180: bool = False
    use_vel_controller: bool = False

    draws_edge = False
    limits = {"n_passages": (3, 4), "joint_length": (1e-6, 0.6), "mass_ratio": (1e-6, 1e6), "max_speed_1": (0, 1e6),
              "obs_noise": (0, 1e6), "joint_angle_obs_noise": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        check_rod(self)
        steps, pull, push, drag = (10, 700, 2500, 0.15) if self.asym_package else (5, 400, 1500, 0.25)
        world = World(x_semidim=1, y_semidim=1, substeps=steps, joint_force=pull, collision_force=push, drag=drag)
        bodies = ((RADIUS, 1.0, None), (LARGE, 1.0 if self.asym_package else self.mass_ratio, self.max_speed_1))
        self.agents = world.add("agents", [Agent(Sphere(r), mass=m, max_speed=v, f_range=10) for r, m, v in bodies])
        self.bar = world.join(*self.agents, dist=self.joint_length).bar
        weights = [(self.mass_ratio, self.mass_position)] * self.asym_package
        self.carried = [add_weight(world, self.bar, *weight).alone for weight in weights]
        self.goal = world.add("joint_goal", Landmark(Line(self.joint_length), collide=False, color="green"))
        self.border = world.add("walls", [Landmark(Line(2 + 2 * RADIUS), color="black")] * 4)
        self.wall = TwoGaps(world, self.n_passages)
        self.control = VelocityController(world, self.agents, (2.0, 10.0, 1e-5), rests=True)
        world.remember(before=0.0, behind=0.0, turned=0.0, passed=torch.tensor(False))
        world.note(**dict.fromkeys((*PARTS, "passed"), 0.0))
        return world

    def spawn(self) -> None:
        up = self.joint_length / 2 * heading(self.zeros() + UPRIGHT).t() * (self.randint(0, 2, 1) * 2 - 1)
        angle = self.uniform(-UPRIGHT, UPRIGHT) if self.random_goal_angle else self.zeros() + math.pi
        middle = self.uniform(*below(up, LARGE), 2)
        self.goal.pos = self.uniform(*above(self.joint_length / 2 * heading(angle).t(), LARGE), 2)
        self.goal.rot, self.agents.pos = angle, torch.stack((middle - up, middle + up), 1)
        for weight in self.carried:
            weight.pos = (middle + self.mass_position * up).unsqueeze(1)
        place_border(self, self.border)
        self.wall.spawn(self, fixed=self.fixed_passage)

    def _shapings(self, again: float) -> dict[str, Tensor]:
        """How far the rod is off; the way to the gaps counts ``again`` times in a step."""
        pos, rot, way = self.bar.pos, self.bar.rot, self.memory.way
        before = norm(pos - (self.memory.large + self.memory.small) / 2) * self.pos_shaping_factor * again
        off = between_lines(rot, way) if self.middle_angle_180 else -(heading(rot) * heading(way)).sum(0)
        behind = norm(pos - self.goal.pos) * self.pos_shaping_factor
        return {"before": before, "behind": behind, "turned": off * self.rot_shaping_factor}

    def after_spawn(self) -> None:
        self.keep(self._shapings(1.0))

    def before_step(self) -> None:
        if self.use_vel_controller:
            self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents, places = self.agents, (self.goal.pos, self.memory.large, self.memory.small)
        observation = [agents.pos, agents.vel, *(agents.pos - place.unsqueeze(1) for place in places)]
        observation.append(direction(self, self.goal, 0.0))
        if self.observe_joint_angle:
            observation.append(direction(self, self.bar, self.joint_angle_obs_noise))
        return {"agents": self.blur(join(*observation), self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        memory, gain = self.memory, self.gains(self._shapings(self.pos_shaping_factor))
        both, hits = (self.agents.pos[..., 1] > WIDTH / 2).all(1), self.zeros()
        pos = torch.where(self.bar.pos[:, 1] > 0, gain["behind"], gain["before"])
        if self.collision_reward:
            bodies, walls = [self.agents, *self.carried], self.wall.bricks.walls
            count = touches(bodies, walls, NEAR) + touches([bodies[-1][-1:]], [self.border], NEAR)
            hits = count * self.collision_reward
        energy = -total(norm(self.agents.u) / math.sqrt(2)) * self.energy_reward_coeff
        self.note(pos_rew=pos, rot_rew=gain["turned"], collision_rew=hits, energy_rew=energy)
        self.notes.passed, memory.passed = both & ~memory.passed, memory.passed | both
        return {"agents": (pos + gain["turned"] + hits + energy).unsqueeze(1)}

    def over(self) -> Tensor:
        off = between_lines(self.bar.rot, self.goal.rot)
        return (norm(self.bar.pos - self.goal.pos) <= 0.01) & (off <= 0.01)

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*PARTS, "passed")}

    def draw(self, picture: Picture) -> None:
        """Where the agents are when the rod is at its goal."""
        draw_ends(picture, self.goal, self.joint_length)
