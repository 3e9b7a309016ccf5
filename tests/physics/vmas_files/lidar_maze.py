"""Walls and lidars with filters of entities; sensors of two kinds; dict observations; extra_render with geoms."""

import math

import torch
from vmas.simulator.core import Agent, Box, Entity, Landmark, Line, Sphere, World
from vmas.simulator.scenario import BaseScenario
from vmas.simulator.sensors import Lidar
from vmas.simulator.utils import Color, X, Y


class Scenario(BaseScenario):
    def make_world(self, batch_dim, device, **kwargs):
        world = World(batch_dim, device, drag=0.3)

        def walls(e: Entity) -> bool:
            return isinstance(e, Landmark)

        def mates(e: Entity) -> bool:
            return isinstance(e, Agent)

        for i in range(kwargs.get("n_agents", 2)):
            agent = Agent(
                name=f"agent_{i}",
                shape=Sphere(0.06),
                rotatable=True,
                sensors=[
                    Lidar(world, n_rays=10, max_range=0.7, entity_filter=walls),
                    Lidar(world, angle_start=-0.5, angle_end=0.5, n_rays=4, max_range=1.0, entity_filter=mates),
                ],
            )
            world.add_agent(agent)
        for i in range(3):
            world.add_landmark(Landmark(name=f"wall_{i}", shape=Box(length=0.8, width=0.1), color=Color.BLACK))
            world.add_landmark(Landmark(name=f"fence_{i}", shape=Line(length=0.6)))
        world.add_landmark(Landmark(name="pillar", shape=Sphere(0.2), collide=True))
        return world

    def reset_world_at(self, env_index=None):
        for i, wall in enumerate(self.world.landmarks):
            wall.set_pos(
                torch.tensor([math.cos(i), math.sin(i)], device=self.world.device) * 0.9, batch_index=env_index
            )
            wall.set_rot(torch.tensor([0.7 * i], device=self.world.device), batch_index=env_index)
        n = 1 if env_index is not None else self.world.batch_dim
        for i, agent in enumerate(self.world.agents):
            agent.set_pos(torch.rand(n, 2, device=self.world.device) * 0.3 - 0.15 + 0.3 * i, batch_index=env_index)
            agent.set_rot(torch.rand(n, 1, device=self.world.device) * 6.28, batch_index=env_index)

    def observation(self, agent):
        return {
            "pose": torch.cat([agent.state.pos, agent.state.rot], -1),
            "walls": agent.sensors[0].measure(),
            "mates": agent.sensors[1].measure(),
        }

    def reward(self, agent):
        hit = torch.zeros(self.world.batch_dim, device=self.world.device)
        for wall in self.world.landmarks:
            hit[self.world.is_overlapping(agent, wall)] -= 1.0
        return (
            hit - agent.sensors[0]._last_measurement.min(-1)[0]
            if agent.sensors[0]._last_measurement is not None
            else hit
        )

    def extra_render(self, env_index=0):
        from vmas.simulator import rendering

        geoms = []
        for agent in self.world.agents:
            line = rendering.Line((0, 0), (0.2, 0), width=2)
            xform = rendering.Transform()
            xform.set_translation(agent.state.pos[env_index][X], agent.state.pos[env_index][Y])
            xform.set_rotation(agent.state.rot[env_index])
            line.add_attr(xform)
            line.set_color(*Color.PINK.value)
            circle = rendering.make_circle(0.1, filled=False)
            circle.add_attr(xform)
            geoms += [line, circle]
        return geoms
