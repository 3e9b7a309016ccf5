"""Three teams of scouts and guards claim the cells of a floor.

Source: own design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.floor import KINDS, PALE, TEAMS, around
from torch import Tensor

from marlenv.physics import (
    Agent,
    Bodies,
    Box,
    Landmark,
    Picture,
    Scenario,
    Sphere,
    World,
    distance,
    join,
    offset,
    others,
    total,
)


@dataclass(eq=False)
class Territory(Scenario):
    """A cell goes to the team that is stronger there than each of the others; else it stays whose it was.

    All who reach the middle of a cell are there: scouts, which are fast, count 1, guards 2. Groups are nested, kinds
    within teams: ``("red", "scouts")``, ``("red", "guards")``, and so on. Nobody owns a cell when an episode begins.

    - observation ``[B, A, 4 + 25 + 2 (3 M - 1)]`` with ``M`` agents in a team: own position and velocity; of the 5 x 5
      cells around, column by column from the lower left, 1 where a cell is of the own team or outside, 0 where it is
      nobody's, -1 where it is of another team; the others of the group, the rest of the team, then the next team and
      the one after it (red, green, blue, red), scouts first: where they are, seen from the agent; metres, m/s.
    - reward, shared by a team: the share of all cells that it gained in the step, minus the mean of what the other two
      gained; an episode adds up to its lead at the end.
    - ends: when a team owns the share ``victory`` of all cells.

    Args:
        n_scouts: in each team, from 1 on.
        n_guards: in each team, from 1 on.
        n_cells: in a line of the floor, from 1 to 100.
        semidim: half the width and height of the floor, metres, above 0.
        scout_reach: how near to the middle of a cell a scout is there, metres, from 0 on.
        guard_reach: the same of a guard.
        victory: the share of cells that ends it, above 0.

    """

    n_scouts: int = 2
    n_guards: int = 1
    n_cells: int = 8
    semidim: float = 1.0
    scout_reach: float = 0.15
    guard_reach: float = 0.3
    victory: float = 0.75

    limits = dict.fromkeys(("n_scouts", "n_guards"), (1, 1000)) | dict.fromkeys(("semidim", "victory"), (1e-6, 1e6))
    limits |= dict.fromkeys(("scout_reach", "guard_reach"), (0, 1e6)) | {"n_cells": (1, 100)}

    def build(self) -> World:
        world = World(x_semidim=self.semidim, y_semidim=self.semidim)
        side = 2 * self.semidim / self.n_cells
        cell = Landmark(Box(side, side), collide=False, color=(0.9, 0.9, 0.9))
        self.cells = world.add("cells", [cell] * self.n_cells**2)
        counts = {"scouts": self.n_scouts, "guards": self.n_guards}
        self.teams: dict[str, dict[str, Bodies]] = {
            team: {
                name: world.add(
                    f"{team}_{name}",
                    [Agent(Sphere(kind.radius), collide=False, u_multiplier=kind.force, color=team)] * counts[name],
                )
                for name, kind in KINDS.items()
            }
            for team in TEAMS
        }
        world.remember(**dict.fromkeys(TEAMS, torch.zeros(self.n_cells**2, dtype=torch.bool)))
        return world

    def group_map(self) -> Mapping[str, Any]:
        return {team: {name: list(some.names) for name, some in kinds.items()} for team, kinds in self.teams.items()}

    def spawn(self) -> None:
        line = ((torch.arange(self.n_cells, device=self.device) + 0.5) / self.n_cells * 2 - 1) * self.semidim
        self.cells.pos = torch.cartesian_prod(line, line).expand(self.rows, -1, -1)
        for i, kinds in enumerate(self.teams.values()):
            angle = math.pi * (0.5 + 2 * i / len(TEAMS))
            home = self.tensor([math.cos(angle), math.sin(angle)])
            for some in kinds.values():
                some.pos = self.semidim * (0.6 * home + self.uniform(-0.2, 0.2, len(some), 2))

    def observe(self) -> Mapping[str, Tensor]:
        seen, owned = {}, {team: getattr(self.memory, team).float() for team in TEAMS}
        for team, (a, b) in TEAMS.items():
            worth = owned[team] - owned[a] - owned[b]
            for name, some in self.teams[team].items():
                cells = around(some.planar("pos"), worth, self.n_cells, self.semidim)
                mates = [others(offset(some, some))] * (len(some) > 1)
                mates += [offset(some, x) for kind, x in self.teams[team].items() if kind != name]
                foes = [offset(some, x) for foe in (a, b) for x in self.teams[foe].values()]
                seen[f"{team}_{name}"] = join(some.pos, some.vel, cells, *mates, *foes)
        return seen

    def rewards(self) -> Mapping[str, Tensor]:
        strength = {team: self._strength(team) for team in TEAMS}
        wins = {t: (strength[t] > strength[a]) & (strength[t] > strength[b]) for t, (a, b) in TEAMS.items()}
        gained = {}
        for team, (a, b) in TEAMS.items():
            before = getattr(self.memory, team)
            now = wins[team] | (before & ~wins[a] & ~wins[b])
            gained[team] = total(now.float() - before.float()) / self.n_cells**2
            setattr(self.memory, team, now)
        lead = {team: gained[team] - (gained[a] + gained[b]) / 2 for team, (a, b) in TEAMS.items()}
        return {f"{team}_{kind}": lead[team].unsqueeze(1) for team in TEAMS for kind in KINDS}

    def _strength(self, team: str) -> Tensor:
        """Of a team at each cell, ``[B, n]``."""
        reaches = {"scouts": self.scout_reach, "guards": self.guard_reach}
        there = [
            total((distance(some, self.cells) <= reaches[name]).float(), 1) * KINDS[name].strength
            for name, some in self.teams[team].items()
        ]
        return there[0] + there[1]

    def over(self) -> Tensor:
        shares = [total(getattr(self.memory, team).float()) / self.n_cells**2 for team in TEAMS]
        return (torch.stack(shares) >= self.victory).any(0)

    def draw(self, picture: Picture) -> None:
        """Cells in a pale colour of their team."""
        for team, pale in PALE.items():
            picture.paint(self.cells, getattr(self.memory, team), pale)
