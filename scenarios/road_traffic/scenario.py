"""Cars drive on the roads of a small town, and keep to their lanes and off each other.

Source: ``road_traffic`` of VMAS 1.5.2 (Bettini et al. 2022, arXiv:2207.03530), after Xu et al. 2024, arXiv:2408.07644;
the map is that of the Cyber-Physical Mobility Lab (Kloock et al. 2021, arXiv:2004.10063).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from marlenv.scenarios.parts.colors import distinct
from marlenv.scenarios.road_traffic.drawing import draw_aims, draw_lanes
from marlenv.scenarios.road_traffic.lines import Roads
from marlenv.scenarios.road_traffic.observing import Cars, Observer
from marlenv.scenarios.road_traffic.options import RoadTrafficOptions
from marlenv.scenarios.road_traffic.reward import worth
from marlenv.scenarios.road_traffic.starting import Start, Starts
from marlenv.scenarios.road_traffic.watching import Watch
from torch import Tensor

from marlenv.physics import Agent, Box, KinematicBicycle, Picture, View, World, join, rows_first, rows_last


@dataclass(eq=False)
class RoadTraffic(RoadTrafficOptions):
    """Each car follows a route of its own; there are no contacts, whoever crashes is penalised.

    - observation: own speed; points of the route ahead; how far the car is from its center line, and from the lines to
      its left and right; for each of the nearest cars, the nearest first: its corners, its velocity (its speed in
      the direction that it faces, as in VMAS also while it reverses), how far it is.
      Places and velocities are those that the car sees, in units of ten lengths of a car and of ``max_speed``,
      distances in units of three lanes; with noise. Cars that are ten lengths away are ones and zeros.
    - reward: for getting ahead and for speed, times the way to the points ahead; penalties near lines and other cars,
      off the center line, for sudden steering, for crossing a line and for a crash.
    - ends: when a car crashes into another one or crosses a line at the side of its lanes; in testing mode never.
    - action: a speed, m/s, and the angle of the front wheels, radians.
    - VMAS: a reset of one row makes a car's steering in the other rows seem steady for a step; the first step after it
      is compared with the last one of the episode before. Where ``threshold_near_other_agents_c2c_high`` is so large
      that cars are near themselves, they are as far away as the farthest two cars of all rows, and a metre.

    Args:
        n_agents: how many cars, from 2 on, above ``n_nearing_agents_observed``; on a part of the map to 10, and to 5
            where lanes merge or part, or may.
        map_type: ``"1"``, the whole map, where routes are loops; ``"3"``, a part of it, where who leaves it or comes
            in from its end starts anew.
        scenario_probabilities: of the parts of the map: the crossing, where lanes merge, where they part. Where it is
            surely the crossing, cars start in the first half of their routes, also on the whole map.
        map_file_path: a file in the format of CommonRoad with lanelets of the same numbers; left out, the map of the
            lab.
        is_testing_mode: whether cars that crash, or cross a line, start anew by themselves, and no episode ends.
        dt: of a step, seconds, above 0.
        world_x_dim: cars go no further to the right, metres, above 0.
        world_y_dim: nor up, metres, above 0.
        agent_width: of a car, metres, above 0.
        agent_length: metres, above 0.
        l_f: from the middle to the front axle, metres, from 0 on; left out, half the length.
        l_r: to the rear axle, metres, from 0 on; left out, the rest of the length.
        max_steering_angle: radians, above 0, at most 1.57, just below a quarter turn; above
            ``threshold_change_steering``.
        max_speed: m/s, above 0.
        lane_width: metres, above 0; distances are measured in it.
        n_points_short_term: how many points of the route ahead, from 1 on.
        sample_interval_ref_path: every how manieth point of the center line, from 1 on.
        reward_progress: for getting ahead, percent.
        reward_vel: for speed, percent.
        reward_reach_goal: for reaching the end of a route, percent.
        threshold_change_steering: how much steering in a step costs nothing, degrees, from 0 on, below
            ``max_steering_angle``.
        threshold_near_boundary_high: from which distance on it costs nothing to be near a line, metres; left out, 0.9
            of what is left beside a car.
        threshold_near_boundary_low: up to which it costs most, metres.
        threshold_near_other_agents_c2c_high: the same for the middles of other cars; left out, a length and a width.
        threshold_near_other_agents_c2c_low: likewise; left out, half of it.
        n_stored_steps: how many steps VMAS remembers, from 1 on; with 1, sudden steering costs nothing.
        is_partial_observation: whether cars observe the nearest others; else all, themselves among them.
        n_nearing_agents_observed: how many, from 1 on, below ``n_agents``.
        is_ego_view: whether as they see them; else as seen from above, in units of the world's size.
        is_apply_mask: whether those that are ten lengths away are left out.
        is_observe_vertices: whether others have corners; else a place and a direction.
        is_observe_distance_to_agents: whether cars observe how far away others are.
        is_observe_distance_to_boundaries: whether how far lines are; else points of them.
        is_observe_distance_to_center_line: whether how far off they are themselves.
        is_observe_ref_path_other_agents: whether the points ahead of others too.
        n_points_nearing_boundary: how many points of lines, from 1 on.
        is_add_noise: whether there is noise.
        noise_level: up to which number it goes, uniformly from 0; left out, a fifth of a car's width.
        is_visualize_short_term_path: whether pictures show the points ahead.

    """

    draws_edge = False

    def build(self) -> World:
        world = World(dt=self.dt, x_semidim=self.world_x_dim, y_semidim=self.world_y_dim)
        self.roads = Roads(self.map_type, self.map_file_path, self.n_points_short_term * self.sample_interval_ref_path)
        front, rear = self.axles
        steered = KinematicBicycle(l_f=front, l_r=rear, max_steering_angle=self.max_steering_angle)
        box, fast, reach = Box(*self.size), self.max_speed, (self.max_speed, self.max_steering_angle)
        self.cars = world.add("agents", [
            Agent(box, collide=False, u_range=reach, max_speed=fast, dynamics=steered, color=color)
            for color in distinct(self.n_agents)
        ])  # fmt: skip
        self.starts, self.observer = Starts(self, self.roads), Observer(self)
        self.watch, whole = Watch(self, self.roads, world, self.cars), torch.zeros(self.n_agents, dtype=torch.int64)
        world.remember(path=whole, ahead=whole, part=torch.tensor(0))
        world.remember(turned=torch.zeros(self.n_agents), turned_before=torch.zeros(self.n_agents))
        return world

    def spawn(self) -> None:
        self.memory.part = self.starts.part()
        self._place(self.starts.all_anew(rows_last(self.memory.part)))

    def _place(self, start: Start) -> None:
        self.cars.pos, self.cars.vel = start.pos.permute(2, 1, 0), start.vel.permute(2, 1, 0)
        self.cars.rot = start.rot.t()
        self.memory.path, self.memory.ahead = start.path.t(), start.ahead.t()

    def before_step(self) -> None:
        self.watch.begin()

    def rewards(self) -> Mapping[str, Tensor]:
        self.watch.look()
        memory, before = self.memory, self.notes.before.permute(2, 1, 0)[:2]
        ways = self.watch.aims(memory.ahead) - before.unsqueeze(1)
        reward = worth(self, self.cars, before, ways, self.roads.lane_width)
        memory.turned_before, memory.turned = memory.turned, self.cars.u[..., 1] / self.max_steering_angle
        memory.ahead = self.notes.on
        return {"agents": rows_first(reward)}

    def observe(self) -> Mapping[str, Tensor]:
        self.watch.look()
        pos, rot, vel = (self.cars.planar(at) for at in ("pos", "rot", "vel"))
        cars = Cars(pos, rot, vel, self.watch.aims(self.notes.on))
        own = self.observer.own(cars, rows_last(self.notes.off), self.watch.sides())
        seen = join(*(part.permute(2, 1, 0) for part in (*own, self.observer.others(cars))))
        return {"agents": seen + self.noise * self.uniform(0, 1, *seen.shape[1:]) if self.noise else seen}

    def over(self) -> Tensor:
        self.watch.look()
        return (self.notes.crash | self.notes.crossed).any(1) & (not self.is_testing_mode)

    def end_step(self) -> None:
        anew = self.notes.entry | self.notes.exit
        if self.is_testing_mode:
            anew = anew | self.notes.crash | self.notes.crossed
        elif self.roads.loops:
            return
        anew = anew & ~self.over().unsqueeze(1)
        self._place(self.starts.some_anew(rows_last(self.memory.part), rows_last(anew)))

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        self.watch.look()
        size, notes, u = self.tensor([self.world_x_dim, self.world_y_dim]), self.notes, self.cars.u
        turn, gap = self.cars.rot % (2 * torch.pi), self.observer.gap
        aims = self.watch.aims(notes.on) / size.reshape(2, 1, 1, 1)
        return {"agents": {
            "pos": self.cars.pos / size, "vel": self.cars.vel / self.max_speed,
            "rot": (torch.where(turn > torch.pi, turn - 2 * torch.pi, turn) / (2 * torch.pi)).unsqueeze(-1),
            "act_vel": u[..., 0] / self.max_speed, "act_steer": u[..., 1] / self.max_steering_angle,
            "ref": aims.transpose(0, 1).flatten(0, 1).permute(2, 1, 0), "distance_ref": notes.off / gap,
            "distance_left_b": notes.left / gap, "distance_right_b": notes.right / gap,
            "is_collision_with_agents": notes.crash.float(),
            "is_collision_with_lanelets": notes.crossed.any(1, keepdim=True).float(),
        }}  # fmt: skip

    def view(self) -> View:
        return View(self.world_x_dim / 2, self.world_y_dim / 2, self.world_x_dim / 2, self.world_y_dim / 2)

    def draw(self, picture: Picture) -> None:
        """Lanes, and with an option the road ahead of cars."""
        draw_lanes(picture, self.roads.sides)
        if self.is_visualize_short_term_path:
            draw_aims(picture, self.cars, self.watch.aims(self.memory.ahead))
