"""The options of football, and which of them go together."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from marlenv.scenarios.football.teams import ATTACKER, KEEPER, ROLES
from marlenv.scenarios.parts.rules import refuse

from marlenv.physics import Scenario

MANY, LARGE, TINY = 1000, 1e6, 1e-6


@dataclass(eq=False)
class FootballOptions(Scenario, ABC):
    """What :class:`~marlenv.scenarios.football.scenario.Football` describes. Abstract."""

    n_blue_agents: int = 3
    n_red_agents: int = 3
    ai_red_agents: bool = True
    ai_blue_agents: bool = False
    physically_different: bool = False
    spawn_in_formation: bool = False
    only_blue_formation: bool = True
    formation_agents_per_column: int = 2
    randomise_formation_indices: bool = False
    formation_noise: float = 0.2
    n_traj_points: int = 0
    ai_strength: float | Sequence[float] = 1.0
    ai_decision_strength: float | Sequence[float] = 1.0
    ai_precision_strength: float | Sequence[float] = 1.0
    disable_ai_red: bool = False
    agent_size: float = 0.025
    goal_size: float = 0.35
    goal_depth: float = 0.1
    pitch_length: float = 3.0
    pitch_width: float = 1.5
    ball_mass: float = 0.25
    ball_size: float = 0.02
    u_multiplier: float = 0.1
    enable_shooting: bool = False
    u_rot_multiplier: float = 0.0003
    u_shoot_multiplier: float = 0.6
    shooting_radius: float = 0.08
    shooting_angle: float = torch.pi / 2
    max_speed: float = 0.15
    ball_max_speed: float = 0.3
    dense_reward: bool = True
    pos_shaping_factor_ball_goal: float = 10.0
    pos_shaping_factor_agent_ball: float = 0.1
    distance_to_ball_trigger: float = 0.4
    scoring_reward: float = 100.0
    observe_teammates: bool = True
    observe_adversaries: bool = True
    dict_obs: bool = False

    draws_edge = False
    limits = {
        "n_blue_agents": (1, MANY), "n_red_agents": (0, MANY), "n_traj_points": (0, MANY),
        "formation_agents_per_column": (1, MANY), "max_speed": (0, LARGE), "ball_max_speed": (0, LARGE),
        **dict.fromkeys(("agent_size", "goal_size", "goal_depth", "pitch_length", "pitch_width"), (TINY, LARGE)),
        **dict.fromkeys(("ball_mass", "ball_size"), (TINY, LARGE)),
        **dict.fromkeys(("ai_strength", "ai_decision_strength", "ai_precision_strength"), (0, 1)),
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = {at: getattr(self, at) for at in ("ai_strength", "ai_decision_strength", "ai_precision_strength")}
        small = self.agent_size + min(own.radius for own in ROLES)
        slow, weak = self.max_speed + KEEPER.speed, self.u_multiplier + KEEPER.force
        backwards = self.enable_shooting and self.u_shoot_multiplier + ATTACKER.shot < 0
        no_wall = self.pitch_width / 2 <= self.agent_size + self.goal_size / 2
        no_room = self.pitch_length / 2 + self.goal_depth <= self.agent_size
        unpaired = [at for at, x in pairs.items() if isinstance(x, Sequence) and len(x) != 2]
        unlike = self.physically_different
        refuse(self, (
            (self.ai_red_agents and self.ai_blue_agents, "ai_blue_agents and ai_red_agents leave nobody to learn"),
            (not self.ai_red_agents and not self.n_red_agents, "n_red_agents must be 1 with ai_red_agents=False"),
            (unlike and self.n_blue_agents != 5, "physically_different needs n_blue_agents=5"),
            (unlike and small <= 0, "agent_size must be above 0.005 with physically_different, for small attackers"),
            (unlike and slow < 0, "max_speed must be 0.1 at least with physically_different, for a slow keeper"),
            (unlike and weak < 0, "u_multiplier must be 0.05 at least with physically_different, for a weak keeper"),
            (unlike and backwards,
             "u_shoot_multiplier must be 0.2 at least with physically_different and enable_shooting, for attackers"),
            (no_wall, "pitch_width leaves no wall beside goals of goal_size and players of agent_size"),
            (no_room, "pitch_length leaves no room for agent_size with goals of goal_depth"),
            (unpaired, f"{' and '.join(unpaired)} must be a number, or that of blue and that of red"),
        ))  # fmt: skip

    def skill(self, team: str) -> tuple[float, float, float]:
        """How fast, how wise and how precise scripted players of a team are."""
        both = (self.ai_strength, self.ai_decision_strength, self.ai_precision_strength)
        speed, decision, precision = (x[team == "red"] if isinstance(x, Sequence) else x for x in both)
        return speed, decision, precision
