"""Agents gather samples from a field; each cell of it can be sampled once.

Source: ``sampling`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Lidar, Neighbours, Picture, Scenario, Sphere, World, join, rows_first, rows_last
from marlenv.physics.maths.rowwise import alike
from marlenv.physics.maths.views import total

AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (-1, -1), (1, -1), (-1, 1), (1, 1))


@dataclass(eq=False)
class Sampling(Scenario):
    """The field is a sum of Gaussians around random places; agents see it in the eight cells around them.

    - observation ``[B, A, 4 + R + 8]``: own position and velocity; what the lidar for agents measures; the field
      around, as a share of its highest value at a corner of a cell (so perhaps a little above 1), 0 where it was
      sampled.
    - reward: the field where the agent is (or with ``shared_rew`` the sum over agents), where nobody has sampled it.
    - ends: never.

    Args:
        n_agents: how many, from 1 on.
        shared_rew: whether all get the sum of what all sample.
        comms_range: metres; lines between agents that near are drawn.
        lidar_range: metres, from 0 on.
        agent_radius: metres, above 0, at most the width and the height of the field.
        xdim: half the width of the field, metres, a multiple of ``grid_spacing``.
        ydim: half its height, metres, likewise.
        grid_spacing: the size of a cell, metres.
        n_gaussians: how many, from 1 on.
        cov: their variance, or a list of their variances, m², above 0.
        collisions: whether agents collide and have a lidar (without, VMAS cannot run it).
        spawn_same_pos: whether all start in the middle, which needs ``collisions=False``.
        norm: whether rewards are a share of the highest value of the field.

    """

    n_agents: int = 3
    shared_rew: bool = True
    comms_range: float = 0.0
    lidar_range: float = 0.2
    agent_radius: float = 0.025
    xdim: float = 1.0
    ydim: float = 1.0
    grid_spacing: float = 0.05
    n_gaussians: int = 3
    cov: float | Sequence[float] = 0.05
    collisions: bool = True
    spawn_same_pos: bool = False
    norm: bool = True

    may_overlap = True  # agents as large as the field
    limits = dict.fromkeys(("cov", "agent_radius", "xdim", "ydim", "grid_spacing"), (1e-6, 1e6))
    limits |= dict.fromkeys(("n_agents", "n_gaussians"), (1, 1000)) | {"lidar_range": (0, 1e6), "comms_range": (0, 1e6)}

    def build(self) -> World:
        self.covs = [self.cov] * self.n_gaussians if isinstance(self.cov, (int, float)) else list(self.cov)
        counts = [2 * size / self.grid_spacing for size in (self.xdim, self.ydim)]
        self.cells, whole = tuple(map(round, counts)), all(abs(n / 2 - round(n / 2)) < 1e-9 for n in counts)
        if len(self.covs) != self.n_gaussians or (self.spawn_same_pos and self.collisions) or not whole:
            raise ValueError("Sampling: cov needs one number or n_gaussians; spawn_same_pos needs collisions=False; "
                             f"xdim and ydim must be multiples of grid_spacing; got {self.options()}")  # fmt: skip
        self.edge = (self.xdim - self.agent_radius, self.ydim - self.agent_radius)
        if self.agent_radius > 2 * min(self.xdim, self.ydim):
            raise ValueError(f"Sampling: agent_radius must be at most the size of the field, got {self.options()}")
        world = World(x_semidim=self.edge[0], y_semidim=self.edge[1])
        self.agents = world.add("agents", [Agent(Sphere(self.agent_radius), collide=self.collisions)] * self.n_agents)
        if self.collisions:
            self.lidar = Lidar(
                world, self.agents, [self.agents], n_rays=12, max_range=self.lidar_range, angle_start=0.05
            )
        if self.comms_range and self.n_agents > 1:
            Neighbours(world, self.agents, radius=self.comms_range)
        world.remember(places=torch.zeros(self.n_gaussians, 2), highest=1.0, sampled=torch.zeros(self.cells) > 0)
        world.note(sample=torch.zeros(self.n_agents))
        return world

    def spawn(self) -> None:
        size = self.tensor([self.xdim, self.ydim])
        self.memory.places = self.uniform(-size, size, self.n_gaussians, 2)
        anywhere, edge = self.uniform(-size, size, self.n_agents, 2) * (not self.spawn_same_pos), self.tensor(self.edge)
        self.agents.pos = torch.minimum(torch.maximum(anywhere, -edge), edge)

    def after_spawn(self) -> None:
        x, y = (at.clamp(-edge, edge) for at, edge in zip(self._corners(), self.edge, strict=True))
        self.memory.highest = self._field(x.reshape(-1, 1, 1), y.reshape(1, -1, 1)).amax((0, 1))

    def _corners(self) -> list[Tensor]:
        """Where the cells of each axis begin, metres; where rounding makes one too many, without it."""
        ends = zip((self.xdim, self.ydim), self.cells, strict=True)
        return [torch.arange(-d, d, self.grid_spacing, device=self.device)[:n] for d, n in ends]

    def _field(self, x: Tensor, y: Tensor) -> Tensor:
        """The field at places ``[..., B]``."""
        field = self.zeros()
        for (px, py), cov in zip(rows_last(self.memory.places), self.covs, strict=True):
            bell = alike(torch.exp, -(x - px).square() / (2 * cov)) * alike(torch.exp, -(y - py).square() / (2 * cov))
            field = field + bell / (2 * math.pi * cov)
        return field

    def _values_at(self, pos: Tensor) -> tuple[Tensor, Tensor]:
        """The field at ``[2, n, B]``, 0 where it was sampled and outside; and the cells."""
        outside = (pos[0].abs() > self.xdim) | (pos[1].abs() > self.ydim)
        x, y = (at.clamp(-edge, edge) for at, edge in zip(pos, self.edge, strict=True))
        column, row = ((at / self.grid_spacing + n / 2).long() for at, n in zip((x, y), self.cells, strict=True))
        cell = column * self.cells[1] + row
        sampled = rows_last(self.memory.sampled).flatten(0, 1).gather(0, cell)
        return torch.where(outside | sampled, 0.0, self._field(x, y)), cell

    def observe(self) -> Mapping[str, Tensor]:
        agents, pos = self.agents, self.agents.planar("pos")
        steps = self.tensor(AROUND).t().reshape(2, 1, -1, 1) * self.grid_spacing
        around = self._values_at((pos.unsqueeze(2) + steps).flatten(1, 2))[0].unflatten(0, (self.n_agents, -1))
        rays = [self.lidar.measure()] if self.collisions else []
        return {"agents": join(agents.pos, agents.vel, *rays, (around / self.memory.highest).permute(2, 0, 1))}

    def rewards(self) -> Mapping[str, Tensor]:
        sample, cell = self._values_at(self.agents.planar("pos"))
        late = [(cell[:i] == cell[i]).any(0) for i in range(self.n_agents)]  # somebody else was there first
        sample = torch.where(torch.stack(late), 0.0, sample / (self.memory.highest if self.norm else 1.0))
        flat = rows_last(self.memory.sampled).flatten(0, 1).scatter(0, cell, True)
        self.memory.sampled = rows_first(flat.unflatten(0, self.cells))
        self.notes.sample = sample.t()
        return {"agents": total(sample.t()).unsqueeze(1) if self.shared_rew else sample.t()}

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        return {"agents": {"agent_sample": self.notes.sample}}

    def draw(self, picture: Picture) -> None:
        """The field, without what was sampled."""
        x, y = (at + self.grid_spacing / 2 for at in self._corners())
        field = self._field(x.reshape(-1, 1, 1), y.reshape(1, -1, 1)) / rows_last(self.memory.highest)
        picture.heat(field.where(~rows_last(self.memory.sampled), 0.0)[..., 0], (self.xdim, self.ydim))
