"""Two teams of fighters, archers and healers fight until one of them is gone.

Source: own design; the idea is that of SMAX (Rutherford et al. 2023, arXiv:2311.10090).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.units import ARCHER, FIGHTER, HEALER, KINDS
from torch import Tensor

from marlenv.physics import Agent, Bodies, Picture, Scenario, Sphere, World, distance, join, offset, others, total

TEAMS = {"red": "blue", "blue": "red"}


@dataclass(eq=False)
class Skirmish(Scenario):
    """Units drive or act: fighters and archers hurt the nearest of the other team, healers heal their own.

    An action is a force and a number; above 0 the unit has no force in that step, so that it coasts on as far as drag
    lets it, and acts on a target within its reach: for a healer the most hurt of the others of its team. All act at
    once. A unit without health is dead (``alive``, ``mask``, ``done``): it stays where it fell, its actions do nothing,
    and it observes zeros and gets nothing. Names of units say their kind (``red_healer_0``), for a ``group_map`` with
    groups of kinds within teams.

    - observation ``[B, A, 8 + 3 (2 A - 1)]``: own position and velocity, health (a share), kind (fighter, archer,
      healer); for the others of the team, then for the other team: where they are, seen from the unit, and their
      health; metres, m/s.
    - reward, shared by a team: the share of its health that the other team lost in the step, minus what the own team
      lost; ``prize`` for the last enemy's death, minus ``prize`` for that of the own last unit.
    - ends: when a team is gone.

    Args:
        n_fighters: in each team, from 1 on.
        n_archers: in each team, from 0 on.
        n_healers: in each team, from 0 on.
        semidim: half the width and height of the world, metres, above 0.
        prize: the reward for the end.

    """

    n_fighters: int = 2
    n_archers: int = 2
    n_healers: int = 1
    semidim: float = 1.2
    prize: float = 1.0

    limits = {"n_fighters": (1, 1000), "n_archers": (0, 1000), "n_healers": (0, 1000), "semidim": (1e-6, 1e6)}

    def build(self) -> World:
        counts = {FIGHTER: self.n_fighters, ARCHER: self.n_archers, HEALER: self.n_healers}
        units = [(kind, f"{kind.name}_{i}") for kind, count in counts.items() for i in range(count)]
        self.kinds = [kind for kind, _ in units]
        world = World(x_semidim=self.semidim, y_semidim=self.semidim)
        how: dict[str, Any] = {"action_size": 3, "u_multiplier": (2.0, 2.0, 1.0), "collide": False}
        self.teams: dict[str, Bodies] = {
            team: world.add(team, [Agent(Sphere(k.radius), name=f"{team}_{n}", color=team, **how) for k, n in units])
            for team in TEAMS
        }
        full = torch.tensor([kind.health for kind in self.kinds])
        world.remember(red=full, blue=full)
        world.note(red=0.0)
        return world

    def spawn(self) -> None:
        for team, side in (("red", -1), ("blue", 1)):
            at = self.uniform(-0.3, 0.3, len(self.kinds), 2) + self.tensor([side * 0.6, 0.0])
            self.teams[team].pos = at * self.semidim

    def before_step(self) -> None:
        for team, units in self.teams.items():
            dead = (getattr(self.memory, team) <= 0).unsqueeze(-1)
            still = (units.u[..., 2:] > 0) | dead
            units.u = torch.cat((torch.where(still, 0.0, units.u[..., :2]), units.u[..., 2:]), -1)
            units.vel = torch.where(dead, 0.0, units.vel)

    def after_step(self) -> None:
        health = {team: getattr(self.memory, team) for team in TEAMS}
        full = self._each("health")
        deeds = {team: self._deeds(team, health[team], health[foe]) for team, foe in TEAMS.items()}
        lost = {}
        for team, foe in TEAMS.items():
            after = torch.minimum((health[team] + deeds[team][1] - deeds[foe][0]).clamp(min=0), full)
            lost[team] = total(health[team] - after) / total(full)
            setattr(self.memory, team, after)
        gone = {team: (getattr(self.memory, team) <= 0).all(1).float() for team in TEAMS}
        self.notes.red = lost["blue"] - lost["red"] + self.prize * (gone["blue"] - gone["red"])

    def _each(self, what: str) -> Tensor:
        """A number of each unit's kind; ``[A]``."""
        return self.tensor([getattr(kind, what) for kind in self.kinds])

    def _deeds(self, team: str, own: Tensor, foes: Tensor) -> tuple[Tensor, Tensor]:
        """What a team takes from the health of the others, and gives to its own; ``[B, A]`` each."""
        units, enemies = self.teams[team], self.teams[TEAMS[team]]
        acts = ((units.u[..., 2] > 0) & (own > 0)).unsqueeze(-1)  # [B, A, 1]
        reach, strength = self._each("reach").unsqueeze(-1), self._each("strength").unsqueeze(-1)
        heals = self.tensor([kind is HEALER for kind in self.kinds]).unsqueeze(-1) > 0
        far = distance(units, enemies)
        hit = self._least(far, acts & ~heals & (far <= reach) & (foes > 0).unsqueeze(1))
        share = (own / self._each("health")).unsqueeze(1).expand(-1, len(self.kinds), -1)
        themselves = self.tensor(torch.eye(len(self.kinds), device="cpu").tolist()) > 0
        near = (distance(units, units) <= reach) & ~themselves
        helped = self._least(share, acts & heals & near & (share > 0))
        return total(hit * strength, 1), total(helped * strength, 1)

    @staticmethod
    def _least(x: Tensor, which: Tensor) -> Tensor:
        """1 where ``x [B, A, M]`` is least for an agent among ``which``, in parts where several are; else 0."""
        least = which & (x <= torch.where(which, x, torch.inf).amin(2, keepdim=True))
        return least / total(least.float()).clamp(min=1).unsqueeze(2)

    def observe(self) -> Mapping[str, Tensor]:
        seen, count, full = {}, len(self.kinds), self._each("health")
        kinds = self.tensor([[kind is which for which in KINDS] for kind in self.kinds])
        for team, foe in TEAMS.items():
            units, own, foes = self.teams[team], getattr(self.memory, team) / full, getattr(self.memory, foe) / full
            about = [
                torch.cat((offset(units, there), x[:, None, :, None].expand(-1, count, -1, -1)), -1)
                for there, x in ((units, own), (self.teams[foe], foes))
            ]
            kind = kinds.expand(self.rows, -1, -1)
            seen[team] = join(units.pos, units.vel, own, kind, others(about[0]), about[1])
        return seen

    def rewards(self) -> Mapping[str, Tensor]:
        return {"red": self.notes.red.unsqueeze(1), "blue": 0.0 - self.notes.red.unsqueeze(1)}

    def over(self) -> Tensor:
        return (self.memory.red <= 0).all(1) | (self.memory.blue <= 0).all(1)

    def alive(self) -> Mapping[str, Tensor]:
        return {team: getattr(self.memory, team) > 0 for team in TEAMS}

    def draw(self, picture: Picture) -> None:
        """A cross on healers; the dead are gray."""
        for team, units in self.teams.items():
            picture.paint(units, getattr(self.memory, team) <= 0, "gray")
            for (x, y), kind in zip(units.pos[0].tolist(), self.kinds, strict=True):
                if kind is HEALER:
                    picture.line((x - 0.1, y), (x + 0.1, y), team)
                    picture.line((x, y - 0.1), (x, y + 0.1), team)
