"""Notes in every step where cars are on their routes, and what they touch; ``[..., A, B]`` here."""

from __future__ import annotations

import torch
from marlenv.scenarios.road_traffic.lines import Roads
from marlenv.scenarios.road_traffic.options import RoadTrafficOptions
from marlenv.scenarios.road_traffic.tracking import corners, crashes, crosses, further, track
from torch import Tensor

from marlenv.physics import Bodies, World, join, rows_first, rows_last


class Watch:
    """Looks once in a step, and notes.

    ``on``, ``on_left`` and ``on_right`` are the next points of the center line and of the lines to the left and right,
    ``off``, ``left`` and ``right`` how far away these lines are, metres; ``crash``, ``crossed``, ``entry`` and ``exit``
    who touches another car, a line at a side, or the beginning or the end of its route.

    Args:
        options: say how large cars are, and how many points they see.
        roads: the routes.
        world: notes.
        cars: of it.

    """

    def __init__(self, options: RoadTrafficOptions, roads: Roads, world: World, cars: Bodies) -> None:
        self.options, self.roads, self.cars = options, roads, cars
        whole = torch.zeros(len(cars), dtype=torch.int64)
        world.note(before=torch.zeros(len(cars), 3), **dict.fromkeys(("on", "on_left", "on_right"), whole))
        world.note(**{at: torch.zeros(len(cars)) for at in ("off", "left", "right")})
        world.note(**dict.fromkeys(("crash", "crossed", "entry", "exit"), whole > 0))

    def begin(self) -> None:
        """Notes how cars are before the step."""
        self.options.note(before=join(self.cars.pos, self.cars.rot))

    @property
    def path(self) -> Tensor:
        """Which route each car has, int64 ``[A, B]``."""
        return rows_last(self.options.memory.path).clamp(0, self.roads.center.routes - 1)

    def look(self) -> None:
        """Notes everything, unless it was noted."""
        s, roads = self.options, self.roads
        if "off" in s.notes:
            return
        path, pos, rot = self.path, self.cars.planar("pos"), self.cars.planar("rot")
        outline, middle = corners(pos, rot, s.size), pos.unsqueeze(1)
        old = s.notes.before.permute(2, 1, 0) if "before" in s.notes else torch.cat((pos, rot.unsqueeze(0)))
        center = track(roads.center, path, middle)
        sides = [track(line, path, torch.cat((middle, outline), 1), outline) for line in (roads.left, roads.right)]
        near = [torch.minimum(x.distance[0] - s.agent_width / 2, x.distance[1:].amin(0)) for x in sides]
        gates = self._gates(path, outline)
        found = {
            "on": center.ahead, "on_left": sides[0].ahead, "on_right": sides[1].ahead,
            "off": center.distance[0], "left": near[0], "right": near[1],
            "crash": crashes(outline, corners(old[:2], old[2], s.size)), "entry": gates[0], "exit": gates[1],
            "crossed": sides[0].crossed | sides[1].crossed,
        }  # fmt: skip
        s.note(**{name: rows_first(x) for name, x in found.items()})

    def _gates(self, path: Tensor, outline: Tensor) -> list[Tensor]:
        """Who touches the line across the beginning and the end of its route; nobody, where routes are loops."""
        if self.roads.loops:
            return [torch.zeros_like(path, dtype=torch.bool)] * 2
        sides = self.roads.left, self.roads.right
        ends = [[line.points(path * line.length + i) for line in sides] for i in (0, sides[0].length - 1)]
        return [crosses(outline, list(a), list(b)) for a, b in ends]

    def aims(self, ahead: Tensor) -> Tensor:
        """The points of center lines beyond those ``ahead`` (int64 ``[B, A]``); ``[2, K, A, B]``, metres."""
        s, path = self.options, self.path
        return further(self.roads.center, path, rows_last(ahead) + 1, s.n_points_short_term,
                       s.sample_interval_ref_path, self._turn_at(path))  # fmt: skip

    def sides(self) -> list[Tensor]:
        """What cars observe of the lines at their sides: how far away they are, or points of them."""
        s, path = self.options, self.path
        if s.is_observe_distance_to_boundaries:
            return [rows_last(x) for x in (s.notes.left, s.notes.right)]
        shift = torch.where(s.steps == 0, 1, -2)
        return [
            further(line, path, rows_last(on) + shift, s.n_points_nearing_boundary, 1, self._turn_at(path))
            for line, on in ((self.roads.left, s.notes.on_left), (self.roads.right, s.notes.on_right))
        ]

    def _turn_at(self, path: Tensor) -> Tensor | None:
        return self.roads.center.count(path) if self.roads.loops else None
