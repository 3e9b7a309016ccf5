"""The lines along all routes of a map as tables of points, in which a route and a point are a number."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from marlenv.scenarios.road_traffic.roads import PARTS, lanelets, routes
from torch import Tensor

from marlenv.constants import PerDevice


class Lines:
    """A line of each of ``P`` routes as one table of ``L`` points, filled up with further ones.

    Args:
        lines: ``[n, 2]`` each.
        length: ``L``.
        ahead: how many of the further points go on straight ahead; the rest is the last of them again.

    """

    def __init__(self, lines: Sequence[Tensor], length: int, ahead: int = 0) -> None:
        self.length = length
        filled = [_filled(line, length, ahead) for line in lines]
        counts = torch.tensor([len(line) for line in lines])
        flat = torch.cat(filled)
        self._flat = [PerDevice(lambda device, i=i: flat[:, i].contiguous().to(device)) for i in (0, 1)]
        self._counts = PerDevice(counts.to)
        self.most = int(counts.max())
        self.routes = len(lines)

    def points(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """The points at places ``route * L + k``, int64 ``[...]``: x and y, ``[...]`` each; metres."""
        x, y = (table[at.device,] for table in self._flat)
        return x[at], y[at]

    def count(self, path: Tensor) -> Tensor:
        """How many points the lines of routes (int64 ``[...]``) really have; ``[...]``."""
        return self._counts[path.device,][path]


def _filled(line: Tensor, length: int, ahead: int) -> Tensor:
    on = line[-1] + torch.arange(1, ahead + 1).unsqueeze(1) * (line[-1] - line[-2])
    line = torch.cat((line, on))
    return torch.cat((line, line[-1].expand(length - len(line), 2)))


class Roads:
    """The routes of a type of map, one table for all parts.

    Args:
        map_type: ``"1"`` or ``"3"``.
        path: of a file of another map.
        ahead: by how many points center lines go on straight ahead.

    """

    def __init__(self, map_type: str, path: str | None, ahead: int) -> None:
        known = lanelets(path)
        self.sides = sorted({tuple((x, y) for x, y in side.tolist()) for sides in known.values() for side in sides})
        """The lines at the sides of lanelets, for pictures; metres."""
        parts = [routes(known, part) for part in PARTS[map_type]]
        self.parts = [len(part) for part in parts]
        """How many routes each part has."""
        every = [one for part in parts for one in part]
        length = max(len(one.center) for one in every) + ahead + 2
        length = max(length, *(len(line) for one in every for line in one[1:]))
        self.center = Lines([one.center for one in every], length, ahead)
        self.left, self.right = (Lines([one[i] for one in every], length) for i in (1, 2))
        yaws = [torch.atan2(*one.center.diff(dim=0).flip(1).unbind(1)) for one in every]
        self.yaws = Lines([torch.stack((yaw, yaw), 1) for yaw in yaws], length)
        """In which direction center lines go from each point on, radians."""
        self.loops = all(one.loop for one in every)
        widths = torch.cat([(left - right).norm(dim=1) for left, right in known.values()])
        self.lane_width = float(widths.mean())
        """Of lanelets on average, metres."""
