"""Predators live on prey: who is caught or starves dies, and both have young.

Source: own design; predator and prey after Lotka (1920, doi:10.1073/pnas.6.7.410).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from marlenv.physics import Agent, Bodies, Picture, Scenario, Sphere, World, distance, join, offset, others, total

FED = 0.8  # energy from which a predator has young


@dataclass(eq=False)
class PredatorPrey(Scenario):
    """A predator catches the prey within its reach, which dies; one without energy starves.

    The dead (``alive``, ``mask``, ``done``) may be born again from the next step on, in the place of their group that
    they had: prey anywhere, the likelier the more of them live; a predator beside the one with most energy, of which it
    gets half.

    - observation: own position and velocity; of predators their energy; for the others of the group, then for the
      other group: where they are, seen from the agent, and 1, or zeros for the dead; metres, m/s.
    - reward: a predator gets 1 for prey, shared with others that reach it, and loses 1 when it starves; prey gets
      ``life`` in every step, but -1 in that in which it is caught.
    - ends: when no predator lives, or no prey.

    Args:
        n_predators: how many live at once, from 1 on.
        n_prey: how many live at once, from 1 on.
        reach: of predators, metres, from 0 on.
        hunger: the energy that a predator loses in a step, from 0 to 1; it begins with 1.
        meal: the energy of prey, from 0 to 1; nobody has more than 1.
        birth: how likely dead prey is born again in a step while nearly all live, from 0 to 1.
        life: the reward of prey for a step.
        semidim: half the width and height of the world, metres, above 0.

    """

    n_predators: int = 3
    n_prey: int = 6
    reach: float = 0.12
    hunger: float = 0.01
    meal: float = 0.4
    birth: float = 0.05
    life: float = 0.01
    semidim: float = 1.0

    limits = {
        **dict.fromkeys(("n_predators", "n_prey"), (1, 1000)),
        **dict.fromkeys(("hunger", "meal", "birth"), (0, 1)),
        "reach": (0, 1e6),
        "semidim": (1e-6, 1e6),
    }

    def build(self) -> World:
        world = World(x_semidim=self.semidim, y_semidim=self.semidim)
        hunter = Agent(Sphere(0.06), collide=False, u_multiplier=2.0, color="red")
        self.predators = world.add("predators", [hunter] * self.n_predators)
        hunted = Agent(Sphere(0.04), collide=False, u_multiplier=1.5, color="green")
        self.prey = world.add("prey", [hunted] * self.n_prey)
        world.remember(energy=torch.ones(self.n_predators), free=torch.ones(self.n_prey, dtype=torch.bool))
        world.note(hunters=torch.zeros(self.n_predators), hunted=torch.zeros(self.n_prey))
        return world

    def spawn(self) -> None:
        for bodies in (self.predators, self.prey):
            bodies.pos = self.uniform(-self.semidim, self.semidim, len(bodies), 2)

    def alive(self) -> Mapping[str, Tensor]:
        return {"predators": self.memory.energy > 0, "prey": self.memory.free}

    def after_step(self) -> None:
        energy, free = self.memory.energy, self.memory.free
        hunts = (energy > 0).unsqueeze(2) & free.unsqueeze(1) & (distance(self.predators, self.prey) <= self.reach)
        hunters = total(hunts.float(), 1)
        caught = hunters > 0
        meals = total(hunts / hunters.clamp(min=1).unsqueeze(1))
        left = (energy - self.hunger + self.meal * meals).clamp(0, 1)
        left = torch.where(energy > 0, left, 0.0)
        self.note(hunters=meals - ((energy > 0) & (left <= 0)).float(), hunted=self.life - (1 + self.life) * caught)
        self._bear(left, free & ~caught)

    def _bear(self, energy: Tensor, free: Tensor) -> None:
        """Who of those that were dead before the step is born again, given who lives after the hunt."""
        starved, eaten = self.memory.energy <= 0, ~self.memory.free
        share = total(free.float()).unsqueeze(1) / self.n_prey
        born = eaten & (self.uniform(0, 1, self.n_prey) < self.birth * share)
        self._place(self.prey, born, self.uniform(-self.semidim, self.semidim, self.n_prey, 2), free)
        self.memory.free = free | born
        parent = self._first((energy >= energy.amax(1, keepdim=True)) & (energy > FED))
        child = self._first(starved) & parent.any(1, keepdim=True)
        parent = parent & child.any(1, keepdim=True)
        half = total(parent * energy).unsqueeze(1) / 2
        there = total(self.predators.pos * parent.unsqueeze(-1), 1).unsqueeze(1)
        self._place(self.predators, child, there, energy > 0)
        self.memory.energy = torch.where(parent | child, half, energy)

    def _place(self, bodies: Bodies, born: Tensor, there: Tensor, lives: Tensor) -> None:
        """The born rest where they are born; the dead rest where they died."""
        bodies.pos = torch.where(born.unsqueeze(-1), there, bodies.pos)
        bodies.vel = torch.where((lives & ~born).unsqueeze(-1), bodies.vel, 0.0)

    @staticmethod
    def _first(which: Tensor) -> Tensor:
        """The first of each row that is True, alone; bool ``[B, A]``."""
        found = torch.zeros_like(which[:, 0])
        out = []
        for one in which.unbind(1):
            out.append(one & ~found)
            found = found | one
        return torch.stack(out, 1)

    def observe(self) -> Mapping[str, Tensor]:
        predators, prey, alive = self.predators, self.prey, self.alive()
        sides = {"predators": (predators, prey, [self.memory.energy]), "prey": (prey, predators, [])}
        return {
            name: join(
                side.pos,
                side.vel,
                *own,
                others(self._seen(side, side, alive[name])),
                self._seen(side, rest, alive["prey" if side is predators else "predators"]),
            )
            for name, (side, rest, own) in sides.items()
        }

    @staticmethod
    def _seen(side: Bodies, rest: Bodies, lives: Tensor) -> Tensor:
        """Where each of the living is and 1, seen from each of a side, ``[B, A, M, 3]``; zeros for the dead."""
        there = lives[:, None, :, None].float().expand(-1, len(side), -1, -1)
        return torch.cat((offset(side, rest), torch.ones_like(there)), -1) * there

    def rewards(self) -> Mapping[str, Tensor]:
        return {"predators": self.notes.hunters, "prey": self.notes.hunted}

    def over(self) -> Tensor:
        return ~(self.memory.energy > 0).any(1) | ~self.memory.free.any(1)

    def draw(self, picture: Picture) -> None:
        """The dead are left out; a ring is a predator's reach, pale where it is hungry."""
        for name, bodies in (("predators", self.predators), ("prey", self.prey)):
            picture.hide(bodies, ~self.alive()[name])
        for (x, y), energy in zip(self.predators.pos[0].tolist(), self.memory.energy[0].tolist(), strict=True):
            if energy > 0:
                picture.circle((x, y), self.reach, (1.0, 1 - energy, 1 - energy), fill="none", width=1.0)
