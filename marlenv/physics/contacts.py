"""Forces between bodies that touch: one class per pair of shapes, all pairs of a kind at once.

A contact pushes along the line between the two closest points, softly: ``softplus`` of the depth over the contact margin.
There is no friction in a contact. The formulas and their order are those of VMAS 1.5.2
(https://github.com/proroklab/VectorizedMultiAgentSimulator), without its early exit, which looks at the whole batch.
``P`` are the pairs of one kind, ``M`` the bodies that can move.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from marlenv.physics.geometry import length
from marlenv.physics.lanes import alike, pick
from marlenv.physics.plan import Column, Pairs
from marlenv.physics.shapes import Sphere

NEAREST = 1e-6  # metres; bodies closer than this have no direction to push in
ZERO = Column([0.0])


@dataclass(frozen=True)
class Spring:
    """How hard bodies push: newtons per metre of depth, and the metres over which the push sets in."""

    stiffness: float
    margin: float


class Pose(NamedTuple):
    """Where all bodies are: ``pos`` ``[2, E, B]``, and cosine and sine of their rotations, ``[E, B]``."""

    pos: Tensor
    cos: Tensor | None
    sin: Tensor | None


class Push(NamedTuple):
    """What contacts of one kind do.

    ``force`` ``[2, P, B]`` is on the first bodies, the second ones get its negative; ``twist_*`` are the torques on both,
    ``[P, B]``, None where there are none.
    """

    force: Tensor
    twist_first: Tensor | None = None
    twist_second: Tensor | None = None


class Contact(ABC):
    """All pairs of two kinds of shapes."""

    twists: ClassVar[bool] = True
    """Whether it can turn bodies."""

    def __init__(self, pairs: Pairs, spring: Spring) -> None:
        self.pairs, self.spring = pairs, spring

    @abstractmethod
    def push(self, pose: Pose) -> Push:
        """The forces and torques of all pairs."""


class SphereSphere(Contact):
    """Two discs."""

    twists: ClassVar[bool] = False

    def __init__(self, pairs: Pairs, spring: Spring) -> None:
        super().__init__(pairs, spring)
        self.apart = Column([_sum(_radius(a.shape), _radius(b.shape)) for a, b in pairs.entities])

    def push(self, pose: Pose) -> Push:
        """Along the line of centres."""
        delta = pick(pose.pos, self.pairs.first) - pick(pose.pos, self.pairs.second)
        return Push(repulsion(delta, self.apart.on(delta), self.spring))


CONTACTS: dict[tuple[type, type], type[Contact]] = {(Sphere, Sphere): SphereSphere}


def repulsion(delta: Tensor, apart: Tensor, spring: Spring) -> Tensor:
    """The force on ``a`` that keeps it ``apart`` metres from ``b``; ``[2, P, B]``, newtons.

    Args:
        delta: from ``b`` to ``a``, ``[2, P, B]``, metres.
        apart: the distance at which they touch, ``[]``, ``[P, 1]`` or ``[P, B]``.
        spring: how hard.

    >>> delta = torch.tensor([0.1, 0.0]).reshape(2, 1, 1)
    >>> force = repulsion(delta, torch.tensor(0.3), Spring(stiffness=100.0, margin=1e-3))
    >>> [round(f, 4) for f in force.flatten().tolist()]
    [20.0, 0.0]

    """
    distance = length(delta[0], delta[1])
    felt = (distance >= NEAREST) & (distance <= apart)
    size = depth(apart - distance, spring.margin) * felt
    return spring.stiffness * delta / distance.clamp(min=NEAREST) * size


def depth(over: Tensor, margin: float) -> Tensor:
    """``margin`` times the softplus of ``over / margin``: smooth at zero, and ``over`` itself where it is large; metres."""
    return alike(_softplus, over / margin) * margin


def _softplus(x: Tensor) -> Tensor:
    return torch.logaddexp(ZERO.on(x), x)


def add(pairs: Pairs, push: Push, force: Tensor, torque: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """``force`` ``[2, M, B]`` and ``torque`` ``[M, B]`` with the pushes added."""
    # A body feels its partners in their order: first those that came before it, then those after it.
    force = pairs.push_second.add(force, push.force, sign=-1)
    force = pairs.push_first.add(force, push.force)
    if torque is not None and push.twist_second is not None:
        torque = pairs.twist_second.add(torque, push.twist_second)
    if torque is not None and push.twist_first is not None:
        torque = pairs.twist_first.add(torque, push.twist_first)
    return force, torque


def _radius(shape: object) -> float:
    return shape.radius if isinstance(shape, Sphere) else 0.0


def _sum(*xs: float) -> float:
    """The sum in float32, as tensors of radii would be added."""
    total = torch.zeros(())
    for x in xs:
        total = total + torch.tensor(x, dtype=torch.float32)
    return float(total)
