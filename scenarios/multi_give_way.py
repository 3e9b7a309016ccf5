"""Four agents cross where two corridors meet, which is too narrow for two of them.

Source: ``multi_give_way`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.corridor import LONG, crossing
from torch import Tensor

from marlenv.physics import Agent, Box, Landmark, Line, Neighbours, Scenario, Shape, Sphere, VelocityController, World
from marlenv.physics.maths.views import join, norm, others, total
from marlenv.physics.task.relations import gap

RADIUS = 0.16  # metres, of an agent
NEAR = 0.005  # metres that count as a collision
COLORS = ("green", "blue", "red", "gray")
ENDS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # of the corridors, one agent at each


@dataclass(eq=False)
class MultiGiveWay(Scenario):
    """Each agent goes to the end of the next corridor, and they all have to pass the middle.

    - observation ``[B, 4, 7]``: own position and velocity, the agent seen from its goal, and how far that is.
    - reward: the metres that all agents, or without ``shared_rew`` the agent itself, come nearer to their goals, times
      ``pos_shaping_factor`` (with a factor of 0, minus a ten-thousandth of the distances); ``final_reward`` while all
      are there; ``agent_collision_penalty`` for each other agent that is touched.
    - ends: never.
    - action: velocities, m/s.
    - VMAS: bodies feel walls, and box agents each other, only if the circles around both bodies overlap in some row of
      the batch; here from 6.7 mm on, whatever other rows do. It takes any number for ``n_agents`` and makes four.

    Args:
        u_range: the highest speed that actions ask for, m/s, from 0 on.
        a_range: the highest acceleration in each direction, m/s², from 0 on; with ``linear_friction`` above 0.
        obs_noise: the size of uniform noise on observations, from 0 on.
        box_agents: whether agents are boxes; or discs.
        linear_friction: m/s², from 0 on.
        min_input_norm: slower actions are 0, m/s.
        comms_range: pictures show who is within so many metres of whom, from 0 on.
        shared_rew: whether all get what all come nearer.
        n_agents: four.
        pos_shaping_factor: reward per metre.
        final_reward: in each step in which all are at their goals.
        agent_collision_penalty: for touching another.

    """

    u_range: float = 0.5
    a_range: float = 1.0
    obs_noise: float = 0.0
    box_agents: bool = False
    linear_friction: float = 0.1
    min_input_norm: float = 0.08
    comms_range: float = 5.0
    shared_rew: bool = True
    n_agents: int = 4
    pos_shaping_factor: float = 1.0
    final_reward: float = 0.01
    agent_collision_penalty: float = -0.1

    limits = {"u_range": (0, 1e6), "a_range": (0, 1e6), "obs_noise": (0, 1e6), "linear_friction": (0, 1e6),
              "comms_range": (0, 1e6), "n_agents": (4, 4), "min_input_norm": (0, 1e6)}  # fmt: skip

    def build(self) -> World:
        steps, push = (16, 10000) if self.box_agents else (5, 500)
        force, rub = self.a_range + self.linear_friction, self.linear_friction
        if not force:
            raise ValueError(
                "MultiGiveWay: a_range and linear_friction must not both be 0: nobody could move; got 0 and 0"
            )
        world = World(drag=0, dt=0.1, linear_friction=rub, substeps=steps, collision_force=push)
        shape: Shape = Box(0.32, 0.24) if self.box_agents else Sphere(RADIUS)
        kind: dict[str, Any] = {"rotatable": False, "linear_friction": rub, "u_range": self.u_range, "f_range": force}
        self.agents = world.add("agents", [Agent(shape, color=color, **kind) for color in COLORS])
        marks = [Landmark(Sphere(RADIUS / 2), collide=False, color=color) for color in COLORS]
        self.goals, self.map = world.add("goals", marks), crossing()
        self.walls = world.add("walls", [Landmark(Line(wall.length), color="black") for wall in self.map])
        dead: dict[str, Any] = {"max_speed": self.u_range, "dead_band": self.min_input_norm, "rests": True}
        self.control = VelocityController(world, self.agents, (2.0, 6.0, 0.002), **dead)
        if self.comms_range:
            Neighbours(world, self.agents, radius=self.comms_range)
        world.remember(shaping=torch.zeros(4))
        world.note(pos_rew=torch.zeros(4), final_rew=0.0, agent_collision_rew=torch.zeros(4))
        return world

    def spawn(self) -> None:
        ends = self.tensor(ENDS)
        self.agents.pos = ends * (LONG / 2 - 0.5)
        self.goals.pos = ends.roll(1, 0) * (LONG / 2 - RADIUS - 0.05)
        self.walls.pos, self.walls.rot = self.tensor([w[1:3] for w in self.map]), self.tensor([w[3] for w in self.map])

    def _far(self) -> Tensor:
        return norm(self.agents.pos - self.goals.pos)

    def after_spawn(self) -> None:
        self.memory.shaping = self._far() * self.pos_shaping_factor

    def before_step(self) -> None:
        self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        observation = join(agents.pos, agents.vel, agents.pos - self.goals.pos, self._far().unsqueeze(2))
        return {"agents": self.blur(observation, self.obs_noise)}

    def rewards(self) -> Mapping[str, Tensor]:
        far = self._far()
        gain = self.gains({"shaping": far * self.pos_shaping_factor})["shaping"]
        gain = gain if self.pos_shaping_factor else -far * 0.0001
        gain = total(gain).unsqueeze(1).expand(-1, 4) if self.shared_rew else gain
        final = self.final_reward * (far < RADIUS / 2).all(1)
        touch = others(gap(self.agents, self.agents) <= NEAR).sum(2) * self.agent_collision_penalty
        self.note(pos_rew=gain, final_rew=final, agent_collision_rew=touch)
        return {"agents": gain + touch + final.unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted("pos_rew", "final_rew", "agent_collision_rew")}
