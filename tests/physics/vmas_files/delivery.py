"""A heavy box, joints, and a bar: World options, per-entity friction, pre_step and post_step that keep history."""

import torch
from vmas.simulator.core import Agent, Box, Landmark, Sphere, World
from vmas.simulator.joints import Joint
from vmas.simulator.scenario import BaseScenario


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(
            batch_dim,
            device,
            dt=0.05,
            substeps=10,
            drag=0.1,
            linear_friction=0.02,
            angular_friction=0.01,
            collision_force=300,
            joint_force=700,
            contact_margin=2e-3,
            torque_constraint_force=0.5,
        )
        self.box = Landmark("box", shape=Box(0.4, 0.2), movable=True, rotatable=True, mass=3.0, linear_friction=0.1)
        world.add_landmark(self.box)
        for i in range(2):
            world.add_agent(Agent(f"puller_{i}", shape=Sphere(0.05), f_range=1.5, u_range=2.0, mass=0.5))
        side = (-1.0, 1.0)
        for agent, end in zip(world.agents, side, strict=True):
            world.add_joint(
                Joint(
                    agent, self.box, anchor_a=(0, 0), anchor_b=(end, 0), dist=0.2, collidable=False, width=0, mass=0.2
                )
            )
        self.goal = Landmark("goal", collide=False)
        world.add_landmark(self.goal)
        self.history = []
        return world

    def reset_world_at(self, env_index=None):
        n = self.world.batch_dim if env_index is None else 1
        self.box.set_pos(torch.zeros(n, 2, device=self.world.device), batch_index=env_index)
        for agent, x in zip(self.world.agents, (-0.4, 0.4), strict=True):
            agent.set_pos(torch.tensor([x, 0.0], device=self.world.device), batch_index=env_index)
        self.goal.set_pos(torch.empty(n, 2, device=self.world.device).uniform_(-1, 1), batch_index=env_index)
        shaping = torch.linalg.vector_norm(self.box.state.pos - self.goal.state.pos, dim=-1) * 10
        if env_index is None:
            self.shaping, self.work = shaping, torch.zeros(self.world.batch_dim, device=self.world.device)
        else:
            self.shaping[env_index] = shaping[env_index]
            self.work[env_index] = 0

    def pre_step(self):
        self.before = self.box.state.pos

    def post_step(self):
        self.moved = torch.linalg.vector_norm(self.box.state.pos - self.before, dim=-1)
        self.work = self.work + self.moved
        self.history.append(self.moved)
        self.history = self.history[-5:]

    def reward(self, agent):
        if agent is self.world.agents[0]:
            now = torch.linalg.vector_norm(self.box.state.pos - self.goal.state.pos, dim=-1) * 10
            self.rew, self.shaping = self.shaping - now, now
        return self.rew

    def observation(self, agent):
        joint = next(iter(self.world.joints))
        return torch.cat(
            [agent.state.pos, agent.state.vel, self.box.state.rot, self.goal.state.pos, joint.entity_a.state.rot], -1
        )

    def info(self, agent):
        return {"work": self.work, "recent": torch.stack(self.history or [self.work]).mean(0)}
