"""Joints without a distance and with fixed rotations, Lines, joint entities in observations, a deepcopy of states."""

import copy

import torch
import vmas.simulator.core as core
from vmas.simulator.joints import Joint
from vmas.simulator.scenario import BaseScenario


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = core.World(batch_dim, device, substeps=8, gravity=(0.0, -0.2))
        hook = core.Landmark("hook", shape=core.Sphere(0.03), collide=False)
        rod = core.Landmark("rod", shape=core.Line(0.6), movable=True, rotatable=True, collide=False)
        for landmark in (hook, rod):
            world.add_landmark(landmark)
        world.add_agent(core.Agent("agent_0", shape=core.Box(0.1, 0.1), mass=0.5))
        world.add_joint(Joint(hook, rod, anchor_b=(-1, 0)))
        world.add_joint(
            Joint(
                rod,
                world.agents[0],
                anchor_a=(1, 0),
                rotate_a=False,
                rotate_b=False,
                fixed_rotation_a=0.3,
                fixed_rotation_b=0.3,
            )
        )
        self.rod = rod
        return world

    def reset_world_at(self, env_index=None):
        self.rod.set_pos(torch.tensor([0.3, 0.0], device=self.world.device), batch_index=env_index)
        self.world.agents[0].set_pos(torch.tensor([0.6, 0.0], device=self.world.device), batch_index=env_index)
        self.best = copy.deepcopy(self.rod.state.rot) if env_index is None else self.best

    def reward(self, agent):
        self.best = torch.maximum(self.best, self.rod.state.rot)
        return self.best.squeeze(-1)

    def observation(self, agent):
        return torch.cat([agent.state.pos, agent.state.rot, self.rod.state.rot, self.rod.state.ang_vel], -1)
