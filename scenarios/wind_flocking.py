"""Two agents fly up against the wind; the small one can hide from it behind the big one, and the other way round.

Source: ``wind_flocking`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Picture, Scenario, Sphere, VelocityController, World, alike, heading
from marlenv.physics.maths.geometry import between_lines
from marlenv.physics.maths.views import join, norm, others, total

APART = 1.0  # metres, that the agents should be
SHARED = ("dist_rew", "rot_rew", "pos_rew")
EACH = ("agent_vel_rew", "agent_energy_rew", "agent_wind_rew")


@dataclass(eq=False)
class WindFlocking(Scenario):
    """The wind pulls down; the big agent does not feel it while it is straight below the small one.

    - observation ``[B, 2, 4]``: own position and velocity, those of the other relative to the agent; as the options
      say.
    - reward, shared: how much nearer it gets to: 1 metre apart, ``desired_vel`` up, no wind, high up, side by side, no
      force.
    - ends: never.
    - VMAS: the big agent begins an episode with the wind that it felt at the end of the last one; here with the whole
      wind. And there all rows that are reset at once begin with the same agent on the left.

    Args:
        vel_shaping_factor: reward per m/s that both come nearer to the desired velocity, on average.
        dist_shaping_factor: reward per metre nearer to being 1 metre apart.
        wind_shaping_factor: reward per m/s² of wind that both feel less, on average, from the fifth step on.
        pos_shaping_factor: reward per metre that the higher one rises.
        rot_shaping_factor: reward per radian nearer to being side by side.
        energy_shaping_factor: reward per newton that both push less, on average, from the tenth step on.
        observe_rel_pos: whether agents observe where the other is.
        observe_rel_vel: whether they observe its velocity, relative to theirs.
        observe_pos: whether they observe their own position.
        use_controller: whether actions are velocities; or forces.
        wind: how hard it pulls down, m/s².
        v_range: the highest speed in each direction, m/s, from 0 on.
        desired_vel: up, m/s; left out, ``v_range``.
        f_range: the highest force in each direction, N, from 0 on.
        cover_angle_tolerance: above 0; how far the wind on the big agent grows, on a scale from 0 (it is straight below
            the small one) to 2 (straight above): with more it never feels all of the wind.
        horizon: for pictures: the height to reach in so many steps.

    """

    vel_shaping_factor: float = 1.0
    dist_shaping_factor: float = 1.0
    wind_shaping_factor: float = 1.0
    pos_shaping_factor: float = 0.0
    rot_shaping_factor: float = 0.0
    energy_shaping_factor: float = 0.0
    observe_rel_pos: bool = False
    observe_rel_vel: bool = False
    observe_pos: bool = True
    use_controller: bool = True
    wind: float = 2.0
    v_range: float = 0.5
    desired_vel: float | None = None
    f_range: float = 100.0
    cover_angle_tolerance: float = 1.0
    horizon: int = 200

    limits = {"v_range": (0, 1e6), "f_range": (0, 1e6), "cover_angle_tolerance": (1e-6, 1e6)}

    def build(self) -> World:
        world = World(drag=0, linear_friction=0.1)
        u_range = self.v_range if self.use_controller else self.f_range
        most: dict[str, Any] = {"u_range": u_range, "v_range": self.v_range, "f_range": self.f_range}
        self.agents = world.add("agents", [Agent(Sphere(r), gravity=(0.0, -self.wind), **most) for r in (0.05, 0.03)])
        self.control = VelocityController(world, self.agents, (1.5, 0.6, 0.002))
        self.wanted = self.v_range if self.desired_vel is None else self.desired_vel
        world.remember(**dict.fromkeys(SHARED, 0.0), **dict.fromkeys(EACH, torch.zeros(2)))
        world.note(**dict.fromkeys(SHARED, 0.0), **dict.fromkeys(EACH, torch.zeros(2)))
        return world

    def spawn(self) -> None:
        side = self.randint(0, 2, 1) - 0.5  # either agent is on the left
        reach = APART * side * heading(self.uniform(-torch.pi / 8, torch.pi / 8)).t()
        self.agents.pos = torch.stack((-reach, reach), 1)

    def after_spawn(self) -> None:
        self.keep(self._shapings())

    def _too_slow(self) -> Tensor:
        return norm(self.agents.vel - self.tensor([0.0, self.wanted]))

    def _shapings(self) -> dict[str, Tensor]:
        big, small = self.agents
        height = torch.maximum(big.pos[:, 1], small.pos[:, 1])
        return {
            "dist_rew": (norm(small.pos - big.pos) - APART).abs() * self.dist_shaping_factor,
            "rot_rew": between_lines(self._angle(), 0.0) * self.rot_shaping_factor,
            "pos_rew": (height - 10.0).abs() * self.pos_shaping_factor,
            "agent_vel_rew": self._too_slow() * self.vel_shaping_factor,
            "agent_energy_rew": norm(self.agents.u) * self.energy_shaping_factor,
            "agent_wind_rew": norm(self.agents.gravity) * self.wind_shaping_factor,
        }

    def _angle(self) -> Tensor:
        way = self.agents[0].pos - self.agents[1].pos
        return alike(torch.atan2, way[:, 1], way[:, 0])

    def before_step(self) -> None:
        if self.use_controller:
            self.control.drive()

    def observe(self) -> Mapping[str, Tensor]:
        agents = self.agents
        observation = [agents.pos] * self.observe_pos + [agents.vel]
        for wanted, x in ((self.observe_rel_pos, agents.pos), (self.observe_rel_vel, agents.vel)):
            observation += [others(x.unsqueeze(1) - x.unsqueeze(2))] * wanted
        return {"agents": join(*observation)}

    def rewards(self) -> Mapping[str, Tensor]:
        along = -heading(self._angle())[1]  # 1 where the big agent is straight below the small one, -1 above
        felt = (1 - along).clamp(max=self.cover_angle_tolerance) / self.cover_angle_tolerance
        self.agents[:1].gravity = (self.tensor([0.0, -self.wind]) * felt.unsqueeze(1)).unsqueeze(1)
        gain = self.gains(self._shapings())
        for name, first in (("agent_energy_rew", 10), ("agent_wind_rew", 5)):
            gain[name] = torch.where((self.steps < first).unsqueeze(1), 0.0, gain[name])
        self.note(**gain)
        vel, energy, wind = (total(gain[name]) / 2 for name in EACH)
        return {"agents": (gain["dist_rew"] + vel + gain["rot_rew"] + energy + wind + gain["pos_rew"]).unsqueeze(1)}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": self.noted(*SHARED, *EACH) | {"delta_vel_to_goal": self._too_slow()}}

    def draw(self, picture: Picture) -> None:
        """The line between the agents, and the height to reach."""
        a, b = self.agents.pos[0].tolist()
        picture.line(a, b, "black", width=1.0)
        height = self.horizon * self.world.laws.dt * self.wanted
        picture.line((-0.5, height), (0.5, height), "red", width=1.5)
