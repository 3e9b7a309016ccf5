"""A runner and its chasers: a class with helpers, ScenarioUtils, env_index both ways, info, done."""

import torch
from vmas.simulator.core import Agent, Landmark, Sphere, World
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import Color, ScenarioUtils


class Scenario(BaseScenario):
    def make_world(self, batch_dim: int, device: torch.device, **kwargs):
        self.n_agents = kwargs.pop("n_agents", 3)
        self.catch = kwargs.pop("catch", 0.12)
        ScenarioUtils.check_kwargs_consumed(kwargs)
        self.viewer_zoom = 1.5
        world = World(batch_dim, device, x_semidim=1.0, y_semidim=1.0, substeps=2)
        for i in range(self.n_agents):
            runner = i == 0
            agent = Agent(
                name=f"agent_{i}",
                shape=Sphere(0.05 if runner else 0.08),
                color=Color.GREEN if runner else Color.RED,
                max_speed=1.3 if runner else 1.0,
                u_multiplier=4.0 if runner else 3.0,
                adversary=not runner,
            )
            world.add_agent(agent)
        self.tree = Landmark(name="tree", shape=Sphere(0.15), color=Color.BLACK)
        world.add_landmark(self.tree)
        self.caught = torch.zeros(batch_dim, dtype=torch.bool, device=device)
        return world

    def reset_world_at(self, env_index: int = None):
        ScenarioUtils.spawn_entities_randomly(
            self.world.landmarks + self.world.agents, self.world, env_index, 0.25, (-0.9, 0.9), (-0.9, 0.9)
        )
        if env_index is None:
            self.near = torch.full((self.world.batch_dim,), 9.0, device=self.world.device)
        else:
            self.near[env_index] = 9.0

    def nearest(self):
        return torch.stack(
            [self.world.get_distance(self.world.agents[0], a) for a in self.world.agents[1:]], dim=-1
        ).min(-1)[0]

    def reward(self, agent: Agent):
        if agent == self.world.agents[0]:
            self.near = torch.minimum(self.near, self.nearest())
            self.caught = self.near < self.catch
        return torch.where(self.caught, 1.0, -0.01) * (1 if agent.adversary else -1)

    def observation(self, agent: Agent):
        others = [o.state.pos - agent.state.pos for o in self.world.entities if o is not agent]
        return torch.cat([agent.state.pos, agent.state.vel, *others], dim=-1)

    def done(self):
        return self.caught

    def info(self, agent: Agent):
        return {"near": self.near, "speed": agent.state.vel.norm(dim=-1, keepdim=True)}
