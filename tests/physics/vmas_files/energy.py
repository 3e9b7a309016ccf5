"""State of the file's own: batteries, masks, in-place writes into rows, set_pos of one row inside a step."""

import torch
from vmas.simulator.core import Agent, Landmark, World
from vmas.simulator.scenario import BaseScenario


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        self.n_agents = kwargs.get("n_agents", 2)
        world = World(batch_dim=batch_dim, device=device)
        self.charger = Landmark("charger", collide=False)
        world.add_landmark(self.charger)
        for i in range(self.n_agents):
            agent = Agent(name=f"agent_{i}", collide=i % 2 == 0)
            agent.battery = torch.ones(batch_dim, device=device)
            world.add_agent(agent)
        return world

    def reset_world_at(self, env_index=None):
        for agent in self.world.agents:
            if env_index is None:
                agent.battery = torch.ones(self.world.batch_dim, device=self.world.device)
                agent.state.pos = torch.rand(self.world.batch_dim, 2, device=self.world.device)
            else:
                agent.battery[env_index] = 1.0
                agent.state.pos[env_index] = torch.rand(2, device=self.world.device)
        self.charger.set_pos(torch.tensor([0.5, 0.5], device=self.world.device), env_index)

    def pre_step(self):
        for agent in self.world.agents:
            agent.battery = agent.battery - 0.05 * agent.action.u.abs().sum(-1)

    def post_step(self):
        for agent in self.world.agents:
            empty = agent.battery <= 0
            for row in empty.nonzero().flatten().tolist():
                agent.set_vel(torch.zeros(2, device=self.world.device), batch_index=row)
            near = torch.linalg.vector_norm(agent.state.pos - self.charger.state.pos, dim=-1) < 0.2
            agent.battery[near] = 1.0
            agent.state.pos[:, 0].clamp_(-1.5, 1.5)

    def reward(self, agent):
        return agent.battery.clamp(min=0) - 0.1 * (agent.state.pos - self.charger.state.pos).norm(dim=-1)

    def observation(self, agent):
        return torch.cat((agent.state.pos, agent.state.vel, agent.battery.unsqueeze(-1)), dim=1)

    def done(self):
        return torch.stack([a.battery <= 0 for a in self.world.agents], dim=1).all(dim=1)
