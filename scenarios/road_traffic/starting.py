"""Where cars start: at points of random routes, one after the other and away from those that are there already."""

from __future__ import annotations

from typing import NamedTuple

import torch
from marlenv.scenarios.road_traffic.lines import Roads
from marlenv.scenarios.road_traffic.options import RoadTrafficOptions
from marlenv.scenarios.road_traffic.tracking import track
from torch import Tensor

from marlenv.constants import PerDevice, constant
from marlenv.physics import heading
from marlenv.rng import RowRNG


class Start(NamedTuple):
    """How cars start; ``[2, A, B]`` and ``[A, B]``."""

    pos: Tensor
    rot: Tensor
    vel: Tensor
    path: Tensor
    """Which route, int64."""
    ahead: Tensor
    """The next point of its center line, int64."""


class Starts:
    """Finds places.

    Args:
        options: say how far apart cars are, and how fast at most.
        roads: the routes.

    """

    def __init__(self, options: RoadTrafficOptions, roads: Roads) -> None:
        self.options, self.roads = options, roads
        self.half = not any(options.odds[1:])
        """Whether cars start in the first half of their routes."""
        line = roads.center
        route = torch.arange(line.routes).expand(line.length, -1)
        points = torch.stack(line.points(route * line.length + torch.arange(line.length).unsqueeze(1)))
        ahead = track(line, route, points.unsqueeze(1)).ahead.t().flatten()
        self._ahead = PerDevice(ahead.to)
        """Which point is the next, at every point of every route; last bits say whether that is the point itself."""

    def part(self) -> Tensor:
        """A random part of the map for each row; int64 ``[B]``."""
        s = self.options
        if len(self.roads.parts) == 1:
            return s.zeros(dtype=torch.int64)
        odds = torch.tensor(s.odds, dtype=torch.float64)
        below = (odds.cumsum(0) / odds.sum()).tolist()
        drawn = s.uniform()
        return (drawn >= below[0]).long() + (drawn >= below[1]).long()

    def all_anew(self, part: Tensor) -> Start:
        """New starts of all cars, in parts of the map int64 ``[B]``."""
        places: list[Tensor] = []
        for _ in range(self.options.n_agents):
            taken = torch.stack([place[:2] for place in places], 1) if places else None
            places.append(self._place(part, taken, None))
        return self._start(torch.stack(places, 1))

    def some_anew(self, part: Tensor, where: Tensor) -> Start:
        """New starts of the cars ``where`` (bool ``[A, B]``), away from where all others are; the rest as it is."""
        s, memory = self.options, self.options.memory
        cars = s.world.groups["agents"]
        pos, places = list(cars.planar("pos").unbind(1)), []
        for i, anew in enumerate(where):
            taken = torch.stack(pos[:i] + pos[i + 1 :], 1)
            places.append(self._place(part, taken, anew))
            pos[i] = torch.where(anew, places[i][:2], pos[i])
        new = self._start(torch.stack(places, 1))
        old = Start(cars.planar("pos"), cars.planar("rot"), cars.planar("vel"), memory.path.t(), memory.ahead.t())
        return Start(*(torch.where(where, x, y) for x, y in zip(new, old, strict=True)))

    def _place(self, part: Tensor, taken: Tensor | None, where: Tensor | None) -> Tensor:
        """A place ``[2, B]``, the route there, and which of its points it is; ``[4, B]``."""
        parts = self.roads.parts
        counts, firsts = (constant(x, part.device, torch.int64) for x in (parts, [sum(parts[:i]) for i in range(3)]))

        def propose(rng: RowRNG, tries: int, rows: Tensor | None) -> Tensor:
            here = (part if rows is None else part[rows]).clamp(0, len(parts) - 1)
            count, offset = counts[here], firsts[here]
            unit = rng.uniform(shape=(tries, 2), rows_last=True)
            path = offset + torch.minimum((unit[:, 0] * count).long(), count - 1)
            path = path.clamp(0, self.roads.center.routes - 1)
            points = self.roads.center.count(path)
            low, high = (6, points // 2) if self.half else (3, points - 5)
            at = low + torch.minimum((unit[:, 1] * (high - low)).long(), high - low - 1)
            at = at.clamp(0, self.roads.center.length - 1)
            x, y = self.roads.center.points(path * self.roads.center.length + at)
            return torch.stack((x, y, path.float(), at.float()))

        return self.options.find_room(propose, self.options.apart, taken, where)

    def _start(self, places: Tensor) -> Start:
        """Places ``[4, A, B]`` with directions, and random speeds."""
        s = self.options
        path, at = places[2].long(), places[3].long()
        line = self.roads.center
        path, at = path.clamp(0, line.routes - 1), at.clamp(0, line.length - 1)
        rot = self.roads.yaws.points(path * line.length + at)[0]
        vel = s.uniform(0, s.max_speed, s.n_agents).t() * heading(rot)
        return Start(places[:2], rot, vel, path, self._ahead[rot.device,][path * line.length + at])
