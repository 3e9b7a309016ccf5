"""The directions that bodies point in: computed once for all who ask, and only for bodies whose turning matters."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from marlenv.physics.laws.entities import Entity
from marlenv.physics.laws.shapes import Box
from marlenv.physics.laws.world_plan import PerEntity
from marlenv.physics.maths.geometry import heading
from marlenv.physics.maths.rowwise import EntityIndex, pick


class Axes:
    """The directions of some bodies: of all, and for boxes also a quarter turn further.

    Bodies that no torque turns keep theirs during a step: they are computed once.

    Args:
        entities: all entities, in storage order.
        places: the places of those whose directions are needed.

    """

    def __init__(self, entities: tuple[Entity, ...], places: Iterable[int]) -> None:
        wanted = [
            (at, q) for at in sorted(set(places)) for q in (False, True)[: 1 + isinstance(entities[at].shape, Box)]
        ]
        turning = [(at, q) for at, q in wanted if entities[at].kind.rotatable]
        still = [(at, q) for at, q in wanted if not entities[at].kind.rotatable]
        self._at = {which: k for k, which in enumerate([*turning, *still])}
        self._turning, self._still = _Part(turning), _Part(still)

    def rows(self, places: EntityIndex, *, quarter: bool = False) -> EntityIndex:
        """Where the directions of the bodies at ``places`` are."""
        return EntityIndex([self._at[place, quarter] for place in places.at])

    def still(self, rot: Tensor) -> Tensor:
        """The directions of what does not turn, ``[2, S, B]``, from all rotations ``[E, B]``."""
        return self._still.directions(rot)

    def all(self, rot: Tensor, still: Tensor) -> Tensor:
        """All directions, ``[2, Q, B]``.

        Args:
            rot: rotations ``[E, B]`` or ``[M, B]``; that of bodies that do not move is not read.
            still: what :meth:`still` gave in this step.

        """
        if not self._turning.angles:
            return still
        turning = self._turning.directions(rot)
        return turning if not self._still.angles else torch.cat((turning, still), 1)


class _Part:
    """Directions asked for: of which bodies, and whether a quarter turn further."""

    def __init__(self, which: list[tuple[int, bool]]) -> None:
        self.angles = EntityIndex([at for at, _ in which])
        self.offset = PerEntity([math.pi / 2 * quarter for _, quarter in which] or [0.0])

    def directions(self, rot: Tensor) -> Tensor:
        angle = pick(rot, self.angles)
        return heading(angle if self.offset.same == 0 else angle + self.offset.on(rot))
