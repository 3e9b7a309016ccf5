"""What moves a team of scripted players: their plans, remembered from step to step."""

from __future__ import annotations

import torch
from marlenv.scenarios.football.pitch import Pitch
from marlenv.scenarios.football.players import Plan, Skill, View, better_place, dribble, follow, holder, turn_ahead
from torch import Tensor

from marlenv.physics import Agent, Bodies, Scenario, World, norm

ERROR = 10.0  # metres, and m/s: of players without any precision, at most


class Coach:
    """Moves a team.

    Args:
        scenario: whose world it is.
        world: remembers what the team plans.
        team: its name.
        skill: of its players.
        pitch: where they play.
        points: of each path, for pictures.

    """

    def __init__(self, scenario: Scenario, world: World, team: str, skill: Skill, pitch: Pitch, points: int) -> None:
        self.scenario, self.team, self.skill, self.pitch, self.points = scenario, team, skill, pitch, points
        self.players = world.groups[f"agent_{team}"]
        foes = world.groups["agent_red" if team == "blue" else "agent_blue"]
        self.foes: Bodies | None = foes if len(foes) else None
        self.ball, (left, right) = world.groups["ball"][0], world.groups["nets"]
        self.own, self.target = (left, right) if team == "blue" else (right, left)
        self.aim, self.goal, self.path = (f"{team}_{what}" for what in ("aim", "goal", "path"))
        size = len(self.players)
        world.remember(**{self.aim: torch.zeros(size, 2)})
        if skill.precision != 1:
            world.remember(**{self.goal: torch.zeros(size, 2)})
        if points:
            world.remember(**{self.path: torch.zeros(4, size, 2)})
        kinds = [entity.kind for entity in self.players.entities]
        self.strength = [kind.per_action("u_multiplier") for kind in kinds if isinstance(kind, Agent)]

    def drive(self) -> None:
        """Plans, and sets the actions of the players."""
        s, memory = self.scenario, self.scenario.memory
        see = View(self.players, self.foes, self.ball, self.own.pos, self.target.pos)
        has_ball = holder(see, self.skill, s.normal).unsqueeze(-1)
        with_ball = dribble(see, self.skill)
        without = better_place(see, self.skill, self.pitch, getattr(memory, self.aim), s.normal)
        plan = Plan(*(torch.where(has_ball, a, b) for a, b in zip(with_ball, without, strict=True)))
        if self.skill.precision != 1:
            far = 1 - torch.exp(-norm(getattr(memory, self.goal) - plan.pos)).unsqueeze(-1)
            off = ERROR * (1 - self.skill.precision) * far
            count = len(self.players)
            plan = Plan(plan.pos + s.normal(count, 2) * off, plan.vel + s.normal(count, 2) * off, plan.start)
            setattr(memory, self.goal, plan.pos)
        setattr(memory, self.aim, plan.pos - self.ball.pos.unsqueeze(1))
        if self.points:
            setattr(memory, self.path, torch.stack((self.players.pos, *plan), 1))
        self.players.u = self._action(follow(see, plan, self.skill)) * s.tensor(self.strength)

    def _action(self, move: Tensor) -> Tensor:
        if len(self.strength[0]) == 2:
            return move
        return torch.cat((move, turn_ahead(self.players.rot)), -1)
