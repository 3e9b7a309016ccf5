"""Vehicles of all dynamics, one of the file's own; process_action; rotations; TorchUtils."""

import torch
from vmas.simulator.core import Agent, Box, World
from vmas.simulator.dynamics.common import Dynamics
from vmas.simulator.dynamics.diff_drive import DiffDrive
from vmas.simulator.dynamics.forward import Forward
from vmas.simulator.dynamics.holonomic_with_rot import HolonomicWithRotation
from vmas.simulator.dynamics.kinematic_bicycle import KinematicBicycle
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.utils import TorchUtils


class Boat(Dynamics):
    @property
    def needed_action_size(self):
        return 2

    def process_action(self):
        ahead = torch.zeros(self.agent.batch_dim, 2, device=self.agent.device)
        ahead[:, 0] = self.agent.action.u[:, 0]
        self.agent.state.force = TorchUtils.rotate_vector(ahead, self.agent.state.rot)
        self.agent.state.torque[:, 0] = 0.01 * self.agent.action.u[:, 1]


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, substeps=3)
        bike = KinematicBicycle(world, width=0.1, l_f=0.1, l_r=0.1, max_steering_angle=0.5)
        kinds = {
            "diff": DiffDrive(world),
            "bike": bike,
            "boat": Boat(),
            "free": HolonomicWithRotation(),
            "push": Forward(),
        }
        for name, dynamics in kinds.items():
            world.add_agent(
                Agent(name, shape=Box(0.2, 0.1), dynamics=dynamics, max_t=0.02, render_action=True, mass=2.0)
            )
        return world

    def reset_world_at(self, env_index=None):
        n = self.world.batch_dim if env_index is None else 1
        for i, agent in enumerate(self.world.agents):
            agent.set_pos(torch.rand(n, 2, device=self.world.device) - 0.5 + 0.3 * i, batch_index=env_index)
            agent.set_rot(torch.rand(n, 1, device=self.world.device) * 3, batch_index=env_index)
            agent.set_vel(torch.tensor([0.1, 0.0], device=self.world.device), batch_index=env_index)

    def process_action(self, agent):
        if agent.name == "free":
            agent.action.u[:, 2] *= 0.05
        self.effort = agent.action.u.abs().sum(-1)

    def reward(self, agent):
        gaps = [self.world.get_distance(agent, other) for other in self.world.agents if other is not agent]
        return torch.stack(gaps, -1).amin(-1) - 0.01 * self.effort

    def observation(self, agent):
        return torch.cat([agent.state.pos, agent.state.rot, agent.state.vel, agent.state.ang_vel], dim=-1)
