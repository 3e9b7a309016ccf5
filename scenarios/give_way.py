"""Two agents swap places through a corridor that is too narrow for both; one must wait in a bay.

Source: ``give_way`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.corridor import LONG, corridor
from torch import Tensor

from marlenv.physics import Agent, Box, Landmark, Line, Scenario, Shape, Sphere, VelocityController, World
from marlenv.physics.maths.views import join, norm, others, total
from marlenv.physics.task.relations import gap, offset

RADIUS = 0.16  # metres, of an agent
NEAR = 0.005  # metres that count as a collision
EACH = ("energy_rew", "agent_collision_rew", "obstacle_collision_rew")


@dataclass(eq=False)
class GiveWay(Scenario):
    """Agents start at the two ends of the corridor, each with its goal at the other end.

    - observation ``[B, 2, 4]``: own position and velocity, and with ``observe_rel_pos`` where it is seen from the
      other.
    - reward: the metres that both come nearer to their goals, times ``pos_shaping_factor``; ``final_reward`` while both
      are there; the penalties for touching the other, a bay or another wall; minus ``energy_rew_coeff`` times the
      share of its force that the agent asks for.
    - ends: with ``done_on_completion``, when both are at their goals.
    - VMAS: agents feel a wall, and are punished for it, only if the circles around both bodies overlap in some row of
      the batch; here from 6.7 mm on, whatever other rows do. There all rows that are reset at once start at the same
      places, and actions that are late when an episode ends act in the next one.

    Args:
        v_range: the highest speed in each direction, m/s, from 0 on.
        a_range: the highest acceleration in each direction, m/s², from 0 on; with ``linear_friction`` above 0.
        obs_noise: the size of uniform noise on observations, from 0 on.
        box_agents: whether agents are boxes; or discs.
        linear_friction: m/s², from 0 on.
        mirror_passage: whether there is a second bay.
        done_on_completion: whether the task ends when both are at their goals.
        observe_rel_pos: whether agents observe where they are seen from each other.
        pos_shaping_factor: reward per metre.
        final_reward: in each step in which both are at their goals.
        energy_rew_coeff: what an agent loses when it asks for all of its force.
        agent_collision_penalty: for touching the other.
        passage_collision_penalty: for each wall of a bay that is touched.
        obstacle_collision_penalty: for each other wall that is touched.
        use_velocity_controller: whether actions are velocities; or forces.
        min_input_norm: with the controller, slower ones are 0, m/s.
        dt_delay: with the controller, actions act so many steps late, from 0 on.

    """

    v_range: float = 0.5
    a_range: float = 1.0
    obs_noise: float = 0.0
    box_agents: bool = False
    linear_friction: float = 0.1
    mirror_passage: bool = False
    done_on_completion: bool = False
    observe_rel_pos: bool = False
    pos_shaping_factor: float = 1.0
    final_reward: float = 0.01
    energy_rew_coeff: float = 0.0
    agent_collision_penalty: float = 0.0
    passage_collision_penalty: float = 0.0
    obstacle_collision_penalty: float = 0.0
    use_velocity_controller: bool = True
    min_input_norm: float = 0.08
    dt_delay: int = 0

    limits = {"v_range": (0, 1e6), "a_range": (0, 1e6), "obs_noise": (0, 1e6), "linear_friction": (0, 1e6),
              "dt_delay": (0, 10000), "min_input_norm": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        steps, push = (16, 10000) if self.box_agents else (5, 500)
        world = World(drag=0, dt=0.05, linear_friction=self.linear_friction, substeps=steps, collision_force=push)
        shape: Shape = Box(0.32, 0.24) if self.box_agents else Sphere(RADIUS)
        self.f_range, pid = self.a_range + self.linear_friction, self.use_velocity_controller
        if not self.f_range:
            raise ValueError("GiveWay: a_range and linear_friction must not both be 0: nobody could move; got 0 and 0")
        most: dict[str, Any] = {"u_range": self.v_range if pid else self.f_range, "v_range": self.v_range}
        kind: dict[str, Any] = {"rotatable": False, "f_range": self.f_range, **most}
        self.agents = world.add("agents", [Agent(shape, color=c, **kind) for c in ("blue", "green")])
        marks = [Landmark(Sphere(RADIUS / 2), collide=False, color=c) for c in ("blue", "green")]
        self.goals, self.map = world.add("goals", marks), corridor(mirrored=self.mirror_passage)
        self.walls = world.add("walls", [Landmark(Line(wall.length), color="black") for wall in self.map])
        dead: dict[str, Any] = {"max_speed": self.v_range, "dead_band": self.min_input_norm, "rests": True}
        dead["delay"] = self.dt_delay
        self.control = VelocityController(world, self.agents, (2.0, 6.0, 0.002), **dead) if pid else None
        world.remember(shaping=torch.zeros(2))
        world.note(reached=torch.tensor(False), pos_rew=0.0, final_rew=0.0, **dict.fromkeys(EACH, torch.zeros(2)))
        return world

    def spawn(self) -> None:
        ends = self.tensor([[0.5 - LONG / 2, 0], [LONG / 2 - 0.5, 0]])
        self.agents.pos = ends + self.uniform(-0.02, 0.02, 2, 2)
        self.goals.pos = self.tensor([[LONG / 2 - RADIUS - 0.05, 0], [RADIUS + 0.05 - LONG / 2, 0]])
        self.walls.pos, self.walls.rot = self.tensor([w[1:3] for w in self.map]), self.tensor([w[3] for w in self.map])

    def after_spawn(self) -> None:
        self.memory.shaping = norm(self.agents.pos - self.goals.pos) * self.pos_shaping_factor

    def before_step(self) -> None:
        if self.control is not None:
            self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        observation = join(self.agents.pos, self.agents.vel)
        observation = (
            join(observation, others(-offset(self.agents, self.agents))) if self.observe_rel_pos else observation
        )
        return {"agents": self.blur(observation, self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        notes, far = self.notes, norm(self.agents.pos - self.goals.pos)
        notes.reached = (far < RADIUS / 2).all(1)
        shaping = far * self.pos_shaping_factor
        notes.pos_rew, self.memory.shaping = total(self.memory.shaping - shaping), shaping
        notes.final_rew = self.final_reward * notes.reached
        touch = others(gap(self.agents, self.agents) <= NEAR)
        notes.agent_collision_rew = total(touch.float()) * self.agent_collision_penalty
        if self.passage_collision_penalty or self.obstacle_collision_penalty:
            cost = (self.obstacle_collision_penalty, self.passage_collision_penalty)
            hits = gap(self.agents, self.walls) <= NEAR
            notes.obstacle_collision_rew = total(hits * self.tensor([cost[wall.bay] for wall in self.map]))
        notes.energy_rew = -norm(self.agents.u) / (math.sqrt(2) * self.f_range) * self.energy_rew_coeff
        own = notes.obstacle_collision_rew + notes.agent_collision_rew + notes.energy_rew
        return {"agents": (notes.pos_rew + notes.final_rew).unsqueeze(1) + own}

    def over(self) -> Tensor:
        return self.notes.reached & self.done_on_completion

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "final_rew", *EACH)}
