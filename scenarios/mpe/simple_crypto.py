"""Alice sends Bob a secret that Eve, who listens, must not understand.

Source: ``simple_crypto`` of the Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275), as in VMAS 1.5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marlenv.physics import Agent, Bodies, Scenario, World, join


@dataclass(eq=False)
class SimpleCrypto(Scenario):
    """Alice and Bob share a key; what each of Bob and Eve says is what they take the secret for.

    - observation: eve ``[B, 1, n]`` what Alice said; bob ``[B, 1, 2 n]`` the key and what Alice said; alice ``[B, 1, 2
      n]`` the secret and the key; secret and key are ``n`` zeros and ones.
    - reward: Eve loses the sum of squares by which she is off the secret, Alice and Bob gain it and lose the same of
      Bob; somebody who says nothing but zeros counts as not off.
    - ends: never.
    - VMAS: agents are put in the origin when single rows are reset; here they start anywhere, as when all are.

    Args:
        dim_c: on how many channels they speak, ``n``, from 1 on.

    """

    dim_c: int = 4

    limits = {"dim_c": (1, 1000)}

    def build(self) -> World:
        world = World(channels=self.dim_c)
        kind: dict[str, Any] = {"collide": False, "movable": False, "silent": False}
        self.eve = world.add("eve", [Agent(**kind, color="red")])
        self.bob = world.add("bob", [Agent(**kind, color="blue")])
        self.alice = world.add("alice", [Agent(**kind, color="green")])
        world.remember(secret=torch.zeros(self.dim_c), key=torch.zeros(self.dim_c))
        return world

    def spawn(self) -> None:
        self.memory.key = self.randint(0, 2, self.dim_c).float()
        self.memory.secret = self.randint(0, 2, self.dim_c).float()
        for side in (self.eve, self.bob, self.alice):
            side.pos = self.uniform(-1, 1, 1, 2)

    def observe(self) -> Mapping[str, Tensor]:
        said, key, secret = self.alice.said, self.memory.key.unsqueeze(1), self.memory.secret.unsqueeze(1)
        return {"eve": said, "bob": join(key, said), "alice": join(secret, key)}

    def rewards(self) -> Mapping[str, Tensor]:
        eve, bob = self._off(self.eve), self._off(self.bob)
        return {"eve": 0.0 - eve, "bob": eve - bob, "alice": eve - bob}

    def _off(self, listener: Bodies) -> Tensor:
        """How far from the secret is what somebody said, squared; ``[B, 1]``."""
        said = listener.said
        off = ((said - self.memory.secret.unsqueeze(1)) ** 2).sum(-1)
        return torch.where((said == 0).all(-1), 0.0, off)
