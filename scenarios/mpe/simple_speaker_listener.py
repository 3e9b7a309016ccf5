"""A speaker, who cannot move, tells a listener, who cannot see the goal, where to go.

Source: ``simple_speaker_listener`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS
1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from marlenv.scenarios.parts.goals import chosen, place
from torch import Tensor

from marlenv.physics import Agent, Landmark, Picture, Scenario, Sphere, World, join, norm, offset

COLORS = ((0.65, 0.15, 0.15), (0.15, 0.65, 0.15), (0.15, 0.15, 0.65))


@dataclass(eq=False)
class SimpleSpeakerListener(Scenario):
    """One of three landmarks is the goal of the listener; only the speaker sees which.

    - observation: the speaker ``[B, 1, 3]`` the colour of the goal; the listener ``[B, 1, 11]`` its velocity, the
      landmarks seen from it, and what the speaker said on three channels.
    - reward, shared: minus twice the metres from the listener to the goal.
    - ends: never.
    - VMAS: all rows have the same goal, drawn when all rows are reset at once; here each row has its own, drawn at
      each of its resets.
    """

    def build(self) -> World:
        world = World(channels=3)
        kind: dict[str, Any] = {"shape": Sphere(0.075), "collide": False}
        self.speaker = world.add("speaker", [Agent(**kind, movable=False, silent=False, color="gray")])
        self.listener = world.add("listener", [Agent(**kind, color="white")])
        marks = [Landmark(Sphere(0.04), collide=False, color=color) for color in COLORS]
        self.landmarks = world.add("landmarks", marks)
        world.remember(goal=torch.tensor(0))
        return world

    def spawn(self) -> None:
        self.memory.goal = self.randint(0, 3)
        for bodies in (self.speaker, self.listener, self.landmarks):
            bodies.pos = self.uniform(-1, 1, len(bodies), 2)

    def observe(self) -> Mapping[str, Tensor]:
        listener, marks = self.listener, chosen(self.memory.goal, 3)
        color = (marks.unsqueeze(2) * self.tensor(COLORS)).sum(1, keepdim=True)
        return {"speaker": color, "listener": join(listener.vel, offset(listener, self.landmarks), self.speaker.said)}

    def rewards(self) -> Mapping[str, Tensor]:
        goal = place(self.memory.goal, self.landmarks)
        far = norm(self.listener.pos - goal.unsqueeze(1))
        return {"speaker": -2 * far, "listener": -2 * far}

    def draw(self, picture: Picture) -> None:
        """Which landmark is the goal; the listener has a light shade of its colour."""
        goal = int(self.memory.goal)
        x, y = self.landmarks.pos[0, goal].tolist()
        picture.circle((x, y), 0.07, "orange", fill="none", width=3.0)
        red, green, blue = (min(1.0, part + 0.45) for part in COLORS[goal])
        picture.paint(self.listener, torch.ones(1, 1, dtype=torch.bool), (red, green, blue))
