"""Helpers in a file beside it, rays by hand, observations with gradients of distances, two kinds of agents."""

import torch
from formation_shapes import CIRCLE, targets
from vmas.simulator.core import Agent, Box, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import Color


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, x_semidim=2, y_semidim=None)
        for i in range(4):
            world.add_agent(
                Agent(
                    f"{'big' if i < 2 else 'small'}_{i % 2}",
                    shape=Sphere(0.1 if i < 2 else 0.05),
                    color=Color.BLUE if i < 2 else (0.1, 0.9, 0.3),
                    u_noise=0.0,
                )
            )
        self.block = Landmark("block", shape=Box(0.3, 0.3), movable=True, rotatable=True)
        world.add_landmark(self.block)
        return world

    def reset_world_at(self, env_index=None):
        places = targets(4, CIRCLE, self.world.device)
        for agent, place in zip(self.world.agents, places, strict=True):
            noise = 0.1 * torch.rand((self.world.batch_dim, 2) if env_index is None else (2,), device=self.world.device)
            agent.set_pos(place + noise, batch_index=env_index)
        self.block.set_rot(torch.tensor([0.4], device=self.world.device), batch_index=env_index)

    def observation(self, agent):
        ray = self.world.cast_ray(agent, agent.state.rot.squeeze(-1) + 0.3, 2.0, lambda e: e is self.block)
        centre = torch.stack([a.state.pos for a in self.world.agents], dim=1).mean(1)
        obs = [agent.state.pos - centre, agent.state.vel, ray.unsqueeze(-1)]
        return torch.cat(obs + ([self.block.state.rot] if agent.name.startswith("big") else []), dim=-1)

    def reward(self, agent):
        places = targets(4, CIRCLE, self.world.device)
        i = self.world.agents.index(agent)
        return -(agent.state.pos - places[i]).abs().sum(-1) - self.world.get_distance(agent, self.block)
