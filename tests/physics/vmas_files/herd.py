"""Collision filters, gravity of entities, v_range, hollow boxes, and a respawn in the middle of a step."""

import torch
from vmas.simulator.core import Agent, Box, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, gravity=(0.0, -0.1), y_semidim=1.2)
        pen = Landmark(
            "pen", shape=Box(1.6, 1.6, hollow=True), collision_filter=lambda e: not e.name.startswith("ghost")
        )
        world.add_landmark(pen)
        for i in range(2):
            world.add_agent(
                Agent(f"dog_{i}", shape=Sphere(0.07), u_multiplier=2.0, collision_filter=lambda e: e.movable)
            )
        self.sheep = [Landmark(f"sheep_{i}", movable=True, shape=Sphere(0.05), v_range=0.4, drag=0.5) for i in range(3)]
        self.sheep.append(Landmark("ghost", movable=True, gravity=torch.tensor([0.05, 0.1]), mass=0.3))
        for one in self.sheep:
            world.add_landmark(one)
        return world

    def reset_world_at(self, env_index=None):
        for entity in self.world.agents + self.sheep:
            self.place(entity, env_index)

    def place(self, entity, env_index):
        n = self.world.batch_dim if env_index is None else 1
        entity.set_pos(torch.zeros(n, 2, device=self.world.device).uniform_(-0.6, 0.6), batch_index=env_index)

    def post_step(self):
        out = (self.sheep[-1].state.pos.abs() > 1.0).any(-1)
        fresh = torch.rand(self.world.batch_dim, 2, device=self.world.device) - 0.5
        self.sheep[-1].state.pos = torch.where(out.unsqueeze(-1), fresh, self.sheep[-1].state.pos)
        self.sheep[-1].state.vel = torch.where(out.unsqueeze(-1), torch.zeros_like(fresh), self.sheep[-1].state.vel)

    def reward(self, agent):
        return -sum(torch.linalg.vector_norm(s.state.pos, dim=-1) for s in self.sheep)

    def observation(self, agent):
        noise = 0.01 * torch.randn(self.world.batch_dim, 2, device=self.world.device)
        return torch.cat(
            [agent.state.pos + noise, *[s.state.pos for s in self.sheep], *[s.state.vel for s in self.sheep]], -1
        )
