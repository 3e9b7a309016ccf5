"""What players observe: everything as if their team played to the right."""

from __future__ import annotations

import torch
from marlenv.scenarios.football.options import FootballOptions
from marlenv.scenarios.football.scores import Score
from torch import Tensor

from marlenv.physics import Bodies, World, others


class Observer:
    """Remembers the forces of a step, and tells teams what they observe.

    Args:
        options: of the game.
        world: remembers.

    """

    def __init__(self, options: FootballOptions, world: World) -> None:
        self.options, self.ball = options, world.groups["ball"][0]
        self.teams = {team: world.groups[f"agent_{team}"] for team in ("blue", "red")}
        self.forces = {f"{team}_force": side for team, side in self.teams.items() if len(side)}
        world.remember(ball_force=torch.zeros(2), **{name: torch.zeros(len(x), 2) for name, x in self.forces.items()})

    def keep(self) -> None:
        """Remembers the forces of this step."""
        memory = self.options.memory
        for name, side in self.forces.items():
            setattr(memory, name, side.u[..., :2])
        memory.ball_force = self.ball.alone.u[:, 0]

    def parts(self, team: str, score: Score) -> dict[str, list[Tensor]]:
        """What a team observes, in pieces, by name."""
        s, memory, own = self.options, self.options.memory, self.teams[team]
        way, foe = s.tensor([score.way, 1.0]), "red" if team == "blue" else "blue"
        at, speed, force = ((x * way).unsqueeze(1) for x in (self.ball.pos, self.ball.vel, memory.ball_force))
        pos, vel, aim = own.pos * way, own.vel * way, score.goal * way
        rot = [own.rot if team == "blue" else own.rot - torch.pi] * s.enable_shooting
        push = getattr(memory, f"{team}_force") * way
        parts = {"obs": [push, pos - at, vel - speed, at - aim, speed, force, *rot], "pos": [pos - aim], "vel": [vel]}
        if s.observe_adversaries and len(self.teams[foe]):
            parts["adversaries"] = [self._about(own, self.teams[foe], getattr(memory, f"{foe}_force"), way)]
        if s.observe_teammates:
            parts["teammates"] = [others(self._about(own, own, getattr(memory, f"{team}_force"), way))]
        return parts

    def _about(self, team: Bodies, rest: Bodies, force: Tensor, way: Tensor) -> Tensor:
        """What each of a team observes of others, with their forces; ``[B, A, M, 8]``."""
        pos, vel = (
            (getattr(team, at) * way).unsqueeze(2) - (getattr(rest, at) * way).unsqueeze(1) for at in ("pos", "vel")
        )
        own = [(x * way).unsqueeze(1).expand(-1, len(team), -1, -1) for x in (rest.vel, force)]
        return torch.cat((pos, vel, *own), -1)
