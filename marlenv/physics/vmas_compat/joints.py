"""VMAS's ``joints``: two entities held together, with a bar between them where there is a distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marlenv.physics.laws.joints import JointOptions
from marlenv.physics.vmas_compat.entities import Box, Landmark, Line
from marlenv.physics.vmas_compat.states import in_row
from marlenv.physics.vmas_compat.utils import Color, Observer, TorchUtils

ENOUGH = 2  # substeps; that the world has them is checked when the joint is added


class JointConstraint:
    """A point of one entity held at a point of another one."""

    def __init__(
        self,
        entity_a: Any,
        entity_b: Any,
        anchor_a: tuple[float, float] = (0.0, 0.0),
        anchor_b: tuple[float, float] = (0.0, 0.0),
        dist: float = 0.0,
        rotate: bool = True,
        fixed_rotation: Any = None,
    ) -> None:
        self.entity_a, self.entity_b, self.anchor_a, self.anchor_b = entity_a, entity_b, anchor_a, anchor_b
        self.dist, self.rotate = dist, rotate
        self.inferred = not rotate and fixed_rotation is None
        """Whether its rotation is that of the last placing."""
        self.fixed_rotation = 0.0 if rotate else fixed_rotation

    def get_delta_anchor(self, entity: Any) -> Tensor:
        """From the centre of an entity to where it is held, ``[B, 2]``."""
        anchor = self.anchor_a if entity is self.entity_a else self.anchor_b
        pos = entity.state.pos
        delta = torch.tensor(entity.shape.get_delta_from_anchor(anchor), dtype=pos.dtype, device=pos.device)
        rot = entity.state.rot.clone()  # gradients need it as it is, and other placings write into it
        return TorchUtils.rotate_vector(delta.expand(pos.shape), rot)

    def pos_point(self, entity: Any) -> Tensor:
        """Where an entity is held, ``[B, 2]``."""
        return entity.state.pos + self.get_delta_anchor(entity)

    def bend(self, rows: int) -> Tensor:
        """How far the first is turned against the second, ``[B]``."""
        x = self.fixed_rotation
        if x is None:  # never placed
            x = self.entity_a.state.rot - self.entity_b.state.rot
        return x.reshape(-1).expand(rows) if isinstance(x, Tensor) else self.entity_a.state.rot.new_full((rows,), x)

    def infer(self, angle: Tensor, row: int | None) -> None:
        """Takes the rotation over from a placing in one row, or in all, with the bar at ``angle`` ``[B, 1]``."""
        new, held = angle - self.entity_b.state.rot, self.fixed_rotation
        self.fixed_rotation = in_row(row, new[row], held) if row is not None and isinstance(held, Tensor) else new

    def render(self, env_index: int = 0) -> list[Any]:
        """Nothing: a constraint has no length."""
        return []


class Joint(Observer):
    """Holds two entities together."""

    def __init__(
        self,
        entity_a: Any,
        entity_b: Any,
        anchor_a: tuple[float, float] = (0.0, 0.0),
        anchor_b: tuple[float, float] = (0.0, 0.0),
        rotate_a: bool = True,
        rotate_b: bool = True,
        dist: float = 0.0,
        collidable: bool = False,
        width: float = 0.0,
        mass: float = 1.0,
        fixed_rotation_a: float | None = None,
        fixed_rotation_b: float | None = None,
    ) -> None:
        options = JointOptions(
            anchor_a, anchor_b, rotate_a, rotate_b, fixed_rotation_a, fixed_rotation_b, dist, collidable, width
        )
        options.check(entity_a, entity_b, ENOUGH)
        self.entity_a, self.entity_b, self.rotate_a, self.rotate_b = entity_a, entity_b, rotate_a, rotate_b
        self.fixed_rotation_a, self.fixed_rotation_b = fixed_rotation_a, fixed_rotation_b
        self.landmark: Any = None
        """The bar; None without a distance."""
        if dist == 0:
            both = rotate_a and rotate_b
            one = JointConstraint(entity_a, entity_b, anchor_a, anchor_b, rotate=both, fixed_rotation=fixed_rotation_a)
            self.joint_constraints = [one]
            return
        self.landmark = Landmark(
            f"joint {entity_a.name} {entity_b.name}",
            Box(dist, width) if width else Line(dist),
            movable=True,
            rotatable=True,
            collide=collidable,
            mass=mass,
            color=Color.BLACK,
            is_joint=True,
        )
        ends = (
            ((-1.0, 0.0), entity_a, anchor_a, rotate_a, fixed_rotation_a),
            ((1.0, 0.0), entity_b, anchor_b, rotate_b, fixed_rotation_b),
        )
        self.joint_constraints = [
            JointConstraint(self.landmark, entity, end, anchor, rotate=rotates, fixed_rotation=fixed)
            for end, entity, anchor, rotates, fixed in ends
        ]
        for entity in (entity_a, entity_b):
            entity.subscribe(self)

    def notify(self, observable: Any, *args: Any, batch_index: int | None = None, **kwargs: Any) -> None:
        """Puts the bar between the entities, in one row or in all."""
        first, second = self.joint_constraints
        a, b = first.pos_point(self.entity_a), second.pos_point(self.entity_b)
        way, middle = b - a, (a + b) / 2
        angle = torch.atan2(way[:, 1], way[:, 0]).unsqueeze(-1)
        where = slice(None) if batch_index is None else batch_index
        self.landmark.set_pos(middle[where], batch_index)
        self.landmark.set_rot(angle[where], batch_index)
        for constraint in self.joint_constraints:
            if constraint.inferred:
                constraint.infer(angle, batch_index)
