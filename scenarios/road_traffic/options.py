"""The options of road traffic, and which of them go together."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marlenv.scenarios.parts.rules import refuse

from marlenv.physics import Scenario

MANY, LARGE, TINY = 1000, 1e6, 1e-6
PART_ONLY = (10, 5)  # cars at most: at the crossing, and where lanes merge or part


@dataclass(eq=False)
class RoadTrafficOptions(Scenario, ABC):
    """What :class:`~marlenv.scenarios.road_traffic.scenario.RoadTraffic` describes. Abstract."""

    n_agents: int = 20
    map_type: str = "1"
    scenario_probabilities: float | Sequence[float] = (1.0, 0.0, 0.0)
    map_file_path: str | None = None
    is_testing_mode: bool = False
    dt: float = 0.05
    world_x_dim: float = 4.5
    world_y_dim: float = 4.0
    agent_width: float = 0.08
    agent_length: float = 0.16
    l_f: float | None = None
    l_r: float | None = None
    max_steering_angle: float = math.radians(35)
    max_speed: float = 1.0
    lane_width: float = 0.15
    n_points_short_term: int = 3
    sample_interval_ref_path: int = 2
    reward_progress: float = 10
    reward_vel: float = 5
    reward_reach_goal: float = 0
    threshold_change_steering: float = 10
    threshold_near_boundary_high: float | None = None
    threshold_near_boundary_low: float = 0
    threshold_near_other_agents_c2c_high: float | None = None
    threshold_near_other_agents_c2c_low: float | None = None
    n_stored_steps: int = 5
    is_partial_observation: bool = True
    n_nearing_agents_observed: int = 2
    is_ego_view: bool = True
    is_apply_mask: bool = True
    is_observe_vertices: bool = True
    is_observe_distance_to_agents: bool = True
    is_observe_distance_to_boundaries: bool = True
    is_observe_distance_to_center_line: bool = True
    is_observe_ref_path_other_agents: bool = False
    n_points_nearing_boundary: int = 5
    is_add_noise: bool = True
    noise_level: float | None = None
    is_visualize_short_term_path: bool = True

    limits = {
        "n_agents": (2, MANY), **dict.fromkeys(("dt", "max_speed"), (TINY, LARGE)), "max_steering_angle": (TINY, 1.57),
        **dict.fromkeys(("world_x_dim", "world_y_dim", "agent_width", "agent_length", "lane_width"), (TINY, LARGE)),
        **dict.fromkeys(("l_f", "l_r", "scenario_probabilities", "threshold_change_steering"), (0, LARGE)),
        **dict.fromkeys(("n_points_short_term", "sample_interval_ref_path", "n_stored_steps"), (1, MANY)),
        **dict.fromkeys(("n_nearing_agents_observed", "n_points_nearing_boundary"), (1, MANY)),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        n, near, odds, file = self.n_agents, self.n_nearing_agents_observed, self.odds, self.map_file_path
        whole, part, most = not self.is_partial_observation, self.map_type == "3", PART_ONLY[any(odds[1:])]
        all_free = self.n_stored_steps > 1 and math.radians(self.threshold_change_steering) >= self.max_steering_angle
        refuse(self, (
            (self.map_type not in ("1", "3"), "map_type must be '1' or '3' ('2' fails in VMAS; it is '1' until then)"),
            (file is not None and not Path(file).is_file(), "map_file_path must be the path of a file"),
            (len(odds) != 3 or sum(odds) <= 0, "scenario_probabilities must be three numbers, not all 0"),
            (part and n > most, f"n_agents must be at most {most} with this map_type and scenario_probabilities"),
            (near >= n, "n_nearing_agents_observed must be below n_agents"),
            (whole and (n % near if self.is_ego_view else near != 1), "n_nearing_agents_observed must divide n_agents "
             "if not is_partial_observation, or be 1 if not is_ego_view"),
            (self.size[0] <= 0, "l_f and l_r must not both be 0"),
            (all_free, "threshold_change_steering (degrees) must be below max_steering_angle (radians)"),
            *((low == high, f"threshold_near_{at}_high must differ from threshold_near_{at}_low")
              for at, (low, high) in (("boundary", self.near_line), ("other_agents_c2c", self.near_car))),
        ))  # fmt: skip

    @property
    def odds(self) -> tuple[float, ...]:
        """How probable each part of the map is; not together 1."""
        found = self.scenario_probabilities
        return tuple(found) if isinstance(found, Sequence) else (found,)

    @property
    def axles(self) -> tuple[float, float]:
        """From the middle to the front axle and to the rear one, metres."""
        front = self.agent_length / 2 if self.l_f is None else self.l_f
        return front, self.agent_length - front if self.l_r is None else self.l_r

    @property
    def size(self) -> tuple[float, float]:
        """Length and width of a car, metres."""
        return sum(self.axles), self.agent_width

    @property
    def apart(self) -> float:
        """How far from each other cars start, metres."""
        return 1.2 * math.hypot(*self.size)

    @property
    def near_line(self) -> tuple[float, float]:
        """From where on, and up to where, it costs more and more to be near a line, metres."""
        high = self.threshold_near_boundary_high
        high = (self.lane_width - self.agent_width) / 2 * 0.9 if high is None else high
        return self.threshold_near_boundary_low, high

    @property
    def near_car(self) -> tuple[float, float]:
        """The same for the middles of other cars."""
        low, high = self.threshold_near_other_agents_c2c_low, self.threshold_near_other_agents_c2c_high
        both = self.agent_length + self.agent_width
        return both / 2 if low is None else low, both if high is None else high

    @property
    def noise(self) -> float:
        """The largest number that is added to what cars see."""
        return self.is_add_noise * (0.2 * self.agent_width if self.noise_level is None else self.noise_level)
