"""Velocity controllers, max_f, discrete_action_nvec, random and numpy, shared goals per reset."""

import random

import numpy as np
import torch
from vmas.simulator.controllers.velocity_controller import VelocityController
from vmas.simulator.core import Agent, Landmark, Line, Sphere, World
from vmas.simulator.heuristic_policy import BaseHeuristicPolicy
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import TorchUtils


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, drag=0, linear_friction=0.1)
        self.colors = list(np.random.permutation(4))
        for i in range(3):
            agent = Agent(
                f"pilot_{i}",
                shape=Sphere(0.04),
                max_f=2.0,
                u_range=0.5,
                discrete_action_nvec=[5, 3],
                mass=1.0 + 0.1 * float(self.colors[i]),
            )
            agent.controller = VelocityController(agent, world, [2, 6, 0.002], "standard")
            agent.label = random.choice("abc")
            world.add_agent(agent)
            world.add_landmark(Landmark(f"bar_{i}", shape=Line(0.4), rotatable=True))
        return world

    def reset_world_at(self, env_index=None):
        order = torch.randperm(3).tolist()
        for i, agent in enumerate(self.world.agents):
            agent.controller.reset(env_index)
            agent.goal = self.world.landmarks[order[i]]
            agent.set_pos(
                torch.tensor([0.3 * i, np.random.uniform(-0.1, 0.1)], dtype=torch.float32), batch_index=env_index
            )
        for bar in self.world.landmarks:
            bar.set_pos(
                torch.zeros((1, 2) if env_index is not None else (self.world.batch_dim, 2)).uniform_(-1, 1),
                batch_index=env_index,
            )

    def process_action(self, agent):
        agent.action.u = TorchUtils.clamp_with_norm(agent.action.u, agent.u_range)
        still = torch.linalg.vector_norm(agent.action.u, dim=-1) < 0.08
        agent.action.u[still] = 0
        agent.controller.process_force()

    def reward(self, agent):
        return -self.world.get_distance_from_point(agent.goal, agent.state.pos)

    def observation(self, agent):
        return torch.cat(
            [agent.state.pos, agent.state.vel, agent.goal.state.pos - agent.state.pos, agent.goal.state.rot], -1
        )


class HeuristicPolicy(BaseHeuristicPolicy):
    def compute_action(self, observation, u_range):
        return observation[:, 4:6].clamp(-u_range, u_range)
