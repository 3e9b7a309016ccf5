"""Speakers and listeners, scripted agents and noise."""

import torch
from vmas.simulator.core import Agent, Landmark, Sphere, World
from vmas.simulator.dynamics.static import Static
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import Color


def wander(agent, world):
    to = world.landmarks[0].state.pos - agent.state.pos
    agent.action.u = torch.clamp(to * 2, -agent.u_range, agent.u_range)


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, dim_c=3)
        world.add_agent(Agent("speaker", movable=False, silent=False, dynamics=Static(), action_size=2, collide=False))
        world.add_agent(Agent("listener", silent=True, u_multiplier=[2.0, 3.0], u_range=[1.0, 0.5]))
        world.add_agent(Agent("talker", silent=False, color=Color.YELLOW))
        world.add_agent(Agent("dog", shape=Sphere(0.1), action_script=wander, u_range=0.6))
        for i in range(3):
            world.add_landmark(Landmark(f"place_{i}", collide=False, color=Color.PURPLE))
        return world

    def reset_world_at(self, env_index=None):
        if env_index is None:
            self.aim = torch.randint(0, 3, (self.world.batch_dim,), device=self.world.device)
        else:
            self.aim[env_index] = torch.randint(0, 3, (1,), device=self.world.device)[0]
        for entity in self.world.entities:
            shape = (1, 2) if env_index is not None else (self.world.batch_dim, 2)
            entity.set_pos(torch.randn(shape, device=self.world.device) * 0.5, batch_index=env_index)

    def observation(self, agent):
        if agent.name == "speaker":
            return torch.nn.functional.one_hot(self.aim, 3).float()
        heard = [a.state.c for a in self.world.policy_agents if not a.silent and a is not agent]
        return torch.cat([agent.state.vel, *[p.state.pos - agent.state.pos for p in self.world.landmarks], *heard], -1)

    def reward(self, agent):
        places = torch.stack([p.state.pos for p in self.world.landmarks], 1)
        aim = places[torch.arange(self.world.batch_dim, device=self.world.device), self.aim]
        dog = self.world.scripted_agents[0]
        return (
            -(self.world.agents[1].state.pos - aim).pow(2).sum(-1) - 0.1 * self.world.is_overlapping(agent, dog).float()
        )
