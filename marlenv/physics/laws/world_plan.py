"""All that is known about a world before its first step: who can move, who can touch whom, every constant.

A plan holds no state. Entities are stored group by group, those that can move first, so that both a group and the
movers are slices of ``[E, B]``; contacts are summed in the order landmarks, then agents, as they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from marlenv.constants import PerDevice
from marlenv.physics.laws.entities import Description, Entity
from marlenv.physics.laws.shapes import Box, Line, Sphere
from marlenv.physics.maths.rowwise import EntityIndex, deposit, in_graph, pick

HUGE = 1e30  # stands for "no limit" where an infinity would turn into NaN in a gradient

RANK = {Sphere: 0, Line: 1, Box: 2}
KINDS = (
    (Sphere, Sphere),
    (Line, Sphere),
    (Line, Line),
    (Box, Sphere),
    (Box, Line),
    (Box, Box),
)  # in order of evaluation


class PerEntity:
    """Constants of entities (or pairs) that meet tensors ``[n, B]``, on whatever device those are.

    Args:
        values: the numbers.
        lead: further dimensions before them; ``values`` then lists all ``prod(lead) * n``.

    >>> PerEntity([2, 2]).on(torch.zeros(())), PerEntity([2, 3]).on(torch.zeros(())).shape
    (tensor(2.), torch.Size([2, 1]))

    """

    __slots__ = ("_made", "lead", "same", "values")

    def __init__(self, values: Sequence[float], lead: Sequence[int] = ()) -> None:
        self.values = tuple(float(v) for v in values)
        self.lead = tuple(lead)
        self.same = self.values[0] if len(set(self.values)) == 1 else None
        """The value that all have, if they have one."""
        self._made = PerDevice(self._make)

    def on(self, like: Tensor) -> Tensor:
        """The numbers on the device and in the dtype of ``like``; ``[*lead, n, 1]``, or ``[]`` when all are equal."""
        if self.same is not None and in_graph():
            return torch.full((), self.same, device=like.device, dtype=like.dtype)  # a constant that compilers fold
        return self._made[like.device, like.dtype]

    def _make(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        made = torch.tensor(self.values, device=device, dtype=dtype)
        return made[0] if self.same is not None else made.reshape(*self.lead, -1, 1)


class Side:
    """Where one side of the pairs feels their forces (or torques): only bodies that move (or turn) do.

    Args:
        places: the places of the bodies, one per pair; None for one that feels nothing.

    """

    __slots__ = ("felt", "into")

    def __init__(self, places: Sequence[int | None]) -> None:
        self.into = EntityIndex([place for place in places if place is not None])
        """The places of the bodies that feel something."""
        self.felt = (
            None if None not in places else EntityIndex([k for k, place in enumerate(places) if place is not None])
        )
        """The pairs in which they do; None for all."""

    def add(self, total: Tensor, x: Tensor, sign: int = 1) -> Tensor:
        """``total`` ``[..., M, B]`` with ``sign`` times ``x`` ``[..., P, B]`` added.

        >>> Side([None, 0]).add(torch.zeros(1, 1), torch.tensor([[2.0], [3.0]]))
        tensor([[3.]])
        """
        if not len(self.into):
            return total
        return deposit(total, self.into, x if self.felt is None else pick(x, self.felt), sign)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of two kinds of shapes that may touch, in the order in which their forces are summed.

    ``first`` and ``second`` are their places among all entities; ``push_*`` and ``twist_*`` where forces and torques
    go.
    """

    entities: tuple[tuple[Entity, Entity], ...]
    first: EntityIndex
    second: EntityIndex
    push_first: Side
    push_second: Side
    twist_first: Side
    twist_second: Side


class WorldPlan:
    """The static analysis of a world's entities.

    Args:
        entities: all of them, in storage order.
        movers: how many of them, from the start, can move or turn.
        touching: the pairs of entities, lower ``order`` first, that may touch, in the order of summation.

    """

    def __init__(self, entities: Sequence[Entity], movers: int, touching: Sequence[tuple[Entity, Entity]]) -> None:
        self.entities = tuple(entities)
        self.movers = movers
        self.place = {entity.name: i for i, entity in enumerate(self.entities)}
        self.pairs = {kinds: tabled([*found.values()], self.place) for kinds, found in by_shape(touching).items()}
        moving = [entity.kind for entity in self.entities[:movers]]
        self.movable = [kind.movable for kind in moving]
        self.rotatable = [kind.rotatable for kind in moving]
        self.mass = PerEntity([kind.mass for kind in moving])
        self.inertia = PerEntity([kind.shape.moment_of_inertia(kind.mass) for kind in moving])

    def moving(self, f: Callable[[Description], float]) -> PerEntity:
        """``f`` of the description of every mover."""
        return PerEntity([f(entity.kind) for entity in self.entities[: self.movers]])


def by_shape(
    pairs: Iterable[tuple[Entity, Entity]],
) -> dict[tuple[type, type], dict[int, tuple[Entity, Entity]]]:
    """Pairs by the kinds of their shapes, in order of evaluation, numbered; boxes come first in a pair, then lines."""
    found: dict[tuple[type, type], dict[int, tuple[Entity, Entity]]] = {kinds: {} for kinds in KINDS}
    for i, pair in enumerate(pairs):
        a, b = sorted(pair, key=lambda entity: -RANK[type(entity.shape)])  # stable: equal shapes keep their order
        found[type(a.shape), type(b.shape)][i] = (a, b)
    return {kinds: pairs for kinds, pairs in found.items() if pairs}


def tabled(pairs: Sequence[tuple[Entity, Entity]], place: Mapping[str, int]) -> Pairs:
    """Pairs of two kinds of shapes, given the places of the entities."""
    first, second = ([place[pair[side].name] for pair in pairs] for side in (0, 1))
    movable, rotatable = (
        [[getattr(pair[side].kind, at) for pair in pairs] for side in (0, 1)] for at in ("movable", "rotatable")
    )

    def side(places: list[int], felt: list[bool]) -> Side:
        return Side([place if yes else None for place, yes in zip(places, felt, strict=True)])

    return Pairs(
        entities=tuple(pairs),
        first=EntityIndex(first),
        second=EntityIndex(second),
        push_first=side(first, movable[0]),
        push_second=side(second, movable[1]),
        twist_first=side(first, rotatable[0]),
        twist_second=side(second, rotatable[1]),
    )


def touching(entities: Sequence[Entity], apart: Container[frozenset[str]] = ()) -> list[tuple[Entity, Entity]]:
    """The pairs of entities that may ever touch, in the order of :attr:`Entity.order`.

    Args:
        entities: all of them.
        apart: pairs of names that never touch, because a joint holds them.

    """
    ordered = sorted(entities, key=lambda entity: entity.order)
    pairs = [pair for pair in combinations(ordered, 2) if frozenset(e.name for e in pair) not in apart]
    return [(a, b) for a, b in pairs if (a.dynamic or b.dynamic) and _meets(a, b) and _meets(b, a)]


def _meets(one: Entity, other: Entity) -> bool:
    return one.kind.collide and (one.kind.collides_with is None or bool(one.kind.collides_with(other)))
