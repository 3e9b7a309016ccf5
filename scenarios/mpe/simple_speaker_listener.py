"""A speaker, who cannot move, tells a listener, who cannot see the goal, where to go.

Source: ``simple_speaker_listener`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Landmark, Scenario, Sphere, World, join, norm, offset

COLORS = ((0.65, 0.15, 0.15), (0.15, 0.65, 0.15), (0.15, 0.15, 0.65))


@dataclass(eq=False)
class SimpleSpeakerListener(Scenario):
    """One of three landmarks is the goal of the listener; only the speaker sees which.

    - observation: the speaker ``[B, 1, 3]`` the colour of the goal; the listener ``[B, 1, 11]`` its velocity, the landmarks
      seen from it, and what the speaker said on three channels.
    - reward, shared: minus twice the metres from the listener to the goal.
    - ends: never.
    - VMAS: all rows have the same goal, drawn when all rows are reset at once; here each row has its own, drawn at
      each of its resets.
    """

    picture = "marlenv.scenarios.parts.pictures:simple_speaker_listener"

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

    def _chosen(self) -> Tensor:
        """1 for the landmark that is the goal; ``[B, 3]``."""
        return (self.memory.goal.unsqueeze(1) == torch.arange(3, device=self.device)).float()

    def observe(self) -> Mapping[str, Tensor]:
        listener, marks = self.listener, self._chosen()
        color = (marks.unsqueeze(2) * self.tensor(COLORS)).sum(1, keepdim=True)
        return {"speaker": color, "listener": join(listener.vel, offset(listener, self.landmarks), self.speaker.said)}

    def rewards(self) -> Mapping[str, Tensor]:
        goal = (self._chosen().unsqueeze(2) * self.landmarks.pos).sum(1)
        far = norm(self.listener.pos - goal.unsqueeze(1))
        return {"speaker": -2 * far, "listener": -2 * far}
