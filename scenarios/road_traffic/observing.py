"""What cars observe: themselves, the road ahead, and other cars; ``[..., A, B]`` here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from marlenv.scenarios.road_traffic.options import RoadTrafficOptions
from marlenv.scenarios.road_traffic.tracking import corners
from torch import Tensor

from marlenv.physics import heading
from marlenv.physics.maths.geometry import length


class Cars(NamedTuple):
    """How cars are: ``[2, A, B]`` and ``[A, B]``."""

    pos: Tensor
    rot: Tensor
    vel: Tensor
    aims: Tensor
    """Points of the road ahead, ``[2, K, A, B]``, metres."""


class Observer:
    """Puts observations together.

    Args:
        options: say what of it.

    """

    def __init__(self, options: RoadTrafficOptions) -> None:
        self.options = options
        self.unit = 10 * options.agent_length
        """What lengths are measured in by cars themselves, metres; farther away nobody is seen."""
        self.gap = 3 * options.lane_width
        """What distances are measured in."""

    def own(self, cars: Cars, off: Tensor, sides: list[Tensor]) -> Iterator[Tensor]:
        """What a car knows of itself, in pieces ``[n, A, B]``.

        Args:
            cars: all of them.
            off: how far each is from its center line, metres.
            sides: how far from the lines to its left and right; or points of these, ``[2, K, A, B]``.

        """
        s = self.options
        if s.is_ego_view:
            yield (length(*cars.vel) / s.max_speed).unsqueeze(0)
        else:
            yield from (self.seen(cars, cars.pos), (cars.rot / (2 * torch.pi)).unsqueeze(0), cars.vel / s.max_speed)
        yield _flat(self.seen(cars, cars.aims))
        if s.is_observe_distance_to_center_line:
            yield (off / self.gap).unsqueeze(0)
        for side in sides:
            whole = s.is_observe_distance_to_boundaries
            yield (side / self.gap).unsqueeze(0) if whole else _flat(self.seen(cars, side))

    def others(self, cars: Cars) -> Tensor:
        """What cars know of others, ``[n, A, B]``: of the nearest, or of all with themselves."""
        s, count = self.options, cars.rot.shape[0]
        way = cars.pos.unsqueeze(1) - cars.pos.unsqueeze(2)
        apart = length(way[0], way[1])
        same = torch.eye(count, dtype=torch.bool, device=apart.device).unsqueeze(-1)
        if s.is_partial_observation:
            near, which = _nearest(torch.where(same, torch.inf, apart), s.n_nearing_agents_observed)
            far = (near >= self.unit) if s.is_apply_mask else torch.zeros_like(near, dtype=torch.bool)
        else:
            near, which, far = torch.where(same, 0.0, apart), None, None
        parts = []
        for part, blank in self._parts(cars, which):
            parts.append(part if far is None else torch.where(far, blank, part))
        if s.is_observe_distance_to_agents:
            there = near / self.gap
            parts.insert(-1, (there if far is None else torch.where(far, 1.0, there)).unsqueeze(0))
        aims = parts.pop()
        parts += [aims] * s.is_observe_ref_path_other_agents
        rows = [part.transpose(0, 1).reshape(s.n_nearing_agents_observed, -1, *part.shape[2:]) for part in parts]
        return torch.cat(rows, 1).flatten(0, 1)

    def _parts(self, cars: Cars, which: Tensor | None) -> Iterator[tuple[Tensor, float]]:
        """Pieces ``[n, M, A, B]`` about other cars, and what stands for one that is not seen."""
        s = self.options
        pos, rot, vel, aims = (self._of(x, which) for x in cars)
        if s.is_ego_view:
            rot = rot - cars.rot
            vel = length(*vel) * heading(rot)
            middle = self._turned(cars, pos)
        else:
            middle = pos
        unit = self._unit(pos)
        if s.is_observe_vertices:
            yield corners(middle, rot, s.size).transpose(0, 1).flatten(0, 1) / unit.repeat(4, 1, 1, 1), 1.0
        else:
            yield middle / unit, 1.0
            yield (rot / (2 * torch.pi)).unsqueeze(0), 0.0
        yield vel / s.max_speed, 0.0
        yield _flat(self.seen(cars, aims)), 1.0

    def _of(self, x: Tensor, which: Tensor | None) -> Tensor:
        """``x`` ``[..., A, B]`` of the cars ``which`` (int64 ``[M, A, B]``), or of all; ``[..., M, A, B]``."""
        if which is not None:
            many = x.unsqueeze(-3).expand(*x.shape[:-2], *which.shape)
            return many.gather(-2, which.expand(many.shape))
        if self.options.is_ego_view:
            return x.unsqueeze(-2).expand(*x.shape[:-1], x.shape[-2], x.shape[-1])
        return x.unsqueeze(-3)  # VMAS shows a car itself here

    def seen(self, cars: Cars, points: Tensor) -> Tensor:
        """Points ``[2, ..., A, B]`` as each car sees them, or from above."""
        if not self.options.is_ego_view:
            return points / self._unit(points)
        return self._turned(cars, points) / self.unit

    @staticmethod
    def _turned(cars: Cars, points: Tensor) -> Tensor:
        shape = (2, *(1,) * (points.ndim - 3), *cars.rot.shape)
        (x, y), (cos, sin) = points - cars.pos.reshape(shape), heading(cars.rot)
        return torch.stack((x * cos + y * sin, y * cos - x * sin))

    def _unit(self, points: Tensor) -> Tensor:
        """What coordinates are divided by, ``[2, ...]``."""
        s = self.options
        size = s.tensor([self.unit, self.unit] if s.is_ego_view else [s.world_x_dim, s.world_y_dim])
        return size.reshape(2, *(1,) * (points.ndim - 1))


def _nearest(far: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The least of ``far`` ``[M, A, B]`` in order, and which they are; ``[count, A, B]`` each."""
    order = torch.arange(len(far), device=far.device).reshape(-1, 1, 1)
    found = []
    for _ in range(count):  # fewer operations than to put all in order
        least, at = far.min(0)
        found.append((least, at))
        far = torch.where(order == at, torch.inf, far)
    least, at = (torch.stack(parts) for parts in zip(*found, strict=True))
    return least, at


def _flat(points: Tensor) -> Tensor:
    """Points ``[2, K, ...]`` as x, y, x, y, ...; ``[2 K, ...]``."""
    return points.transpose(0, 1).flatten(0, 1)
