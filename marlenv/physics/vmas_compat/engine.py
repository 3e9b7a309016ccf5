"""From VMAS's entities to the engine: the plan of a world, its stepper, and motions in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.physics.laws import entities as laws
from marlenv.physics.laws import shapes
from marlenv.physics.laws.integrate import Laws, Motion, Stepper
from marlenv.physics.laws.joints import Link
from marlenv.physics.laws.world_plan import WorldPlan, touching
from marlenv.physics.maths.geometry import shorten
from marlenv.physics.vmas_compat.entities import Agent, Box, Entity, Line, Sphere
from marlenv.physics.vmas_compat.pure import Motions

BODY = (
    "movable", "rotatable", "collide", "mass", "drag", "linear_friction", "angular_friction", "max_speed", "v_range",
)  # fmt: skip


LAWS = {
    "_dt", "_sub_dt", "_substeps", "_drag", "_linear_friction", "_angular_friction", "_x_semidim", "_y_semidim",
    "_collision_force", "_joint_force", "_contact_margin", "_torque_constraint_force", "_gravity",
}  # fmt: skip
"""A world's numbers, under VMAS's names; as in VMAS, steps are as long as ``_sub_dt`` says."""


def outline(shape: Any) -> shapes.Shape:
    """The engine's shape for one of a scenario file."""
    if isinstance(shape, Sphere):
        return shapes.Sphere(shape.radius)
    if isinstance(shape, Box):
        return shapes.Box(shape.length, shape.width, shape.hollow)
    if isinstance(shape, Line):
        return shapes.Line(shape.length)
    raise SpecError(f"expected a Sphere, a Box or a Line of vmas.simulator.core, got {shape!r}")


def described(entity: Entity, order: int, entities: Sequence[Entity]) -> laws.Entity:
    """An entity as the engine knows it; what it collides with is asked now."""
    options = {}
    for name in BODY:
        value = getattr(entity, name)
        if isinstance(value, Tensor):
            if value.numel() != 1 and not bool((value == value.flatten()[0]).all()):
                raise SpecError(
                    f"{entity}: {name} must be one number for all rows, got a tensor {list(value.shape)} of several; "
                    f"what differs between rows can be a gravity ([B, 2]) or a force set in process_action"
                )
            value = float(value.flatten()[0])
        options[name] = value
    kind = laws.Landmark(
        outline(entity.shape),
        collides_with=lambda other: bool(entity.collision_filter(entities[other.order])),
        **options,
    )
    return laws.Entity(f"{order}", "", kind, order)


class Engine:
    """What moves a world of VMAS's entities, as they are now.

    Args:
        world: whose.

    """

    def __init__(self, world: Any) -> None:
        entities = world.entities
        made = [described(entity, i, entities) for i, entity in enumerate(entities)]
        joints = list(world.joints)
        index = {id(entity): i for i, entity in enumerate(entities)}
        joined = [(index[id(j.entity_a)], index[id(j.entity_b)]) for j in joints]
        apart = {frozenset((str(a), str(b))) for a, b in joined}
        order = sorted(range(len(made)), key=lambda i: not made[i].dynamic)
        movers = sum(one.dynamic for one in made)
        plan = WorldPlan([made[i] for i in order], movers, touching(made, apart))
        links = [
            Link(
                made[a],
                made[b],
                at_a=j.entity_a.shape.get_delta_from_anchor(j.anchor_a),
                at_b=j.entity_b.shape.get_delta_from_anchor(j.anchor_b),
                rotate=j.rotate,
                bend=None if j.rotate or j.inferred or isinstance(j.fixed_rotation, Tensor) else j.fixed_rotation,
            )
            for j, (a, b) in zip(joints, joined, strict=True)
        ]
        self.inferred = [j for j, link in zip(joints, links, strict=True) if link.inferred]
        self.stepper = Stepper(plan, _laws(world), links)
        self.bodies = [entities[i] for i in order]
        """All entities, in the order of storage."""
        self.movers = self.bodies[:movers]
        self.still = self.bodies[movers:]
        self.acting = [isinstance(body, Agent) for body in self.movers]
        self._seen: dict[str, list[tuple[Tensor, int]]] = {}  # what does not move, and its version, in the last step

    # --- a step ----------------------------------------------------------------------------------

    def step(self, world: Any) -> None:
        """Moves all entities one step on."""
        if not self.movers:
            return
        motion, stacked = self._now()
        force, turned = self._forces(world, motion)
        torque = [self._torques(world, motion)] if turned else None
        pulls = [self._pulls(world, motion)] if any(body.gravity is not None for body in self.movers) else None
        rows = world.batch_dim
        bends = torch.stack([j.bend(rows) for j in self.inferred]) if self.inferred else None
        after = self._moved(world, motion, force, torque, pulls, bends)
        for place, body in enumerate(self.movers):
            body.state.moved(after, place)
        self._seen |= stacked

    def _moved(
        self,
        world: Any,
        motion: Motion,
        force: Tensor,
        torque: Sequence[Tensor] | None,
        pulls: Sequence[Tensor] | None,
        bends: Tensor | None,
    ) -> Motion:
        """The motion a step later: by machine code where it can be had."""
        key = self.stepper, torque is not None, pulls is not None
        engine = world._fast.engine(key, lambda: Motions(self.stepper, *key[1:], len(self.inferred)))
        if engine is None:
            return self.stepper(motion, [force], torque, pulls, bends)
        given = {"force": force.permute(2, 1, 0)}
        if torque is not None:
            given["torque"] = torque[0].unsqueeze(0).permute(2, 1, 0)
        if pulls is not None:
            given["gravity"] = pulls[0].permute(2, 1, 0)
        if bends is not None:
            given["bends"] = bends.unsqueeze(0).permute(2, 1, 0)
        after = engine[0].transition({**engine[1], **motion._asdict()}, given)[0]
        return Motion(*(after[name] for name in Motion._fields))

    def motion(self) -> Motion:
        """Where all entities are, ``[2, E, B]`` and ``[E, B]``: what the last step gave, where nothing was assigned."""
        return self._now()[0]

    def _now(self) -> tuple[Motion, dict[str, list[tuple[Tensor, int]]]]:
        """The same, and what does not move, with its versions, where it was stacked anew."""
        first = self.movers[0].state.motion
        parts, stacked = [], {}
        for name in Motion._fields:
            unmoved = first is not None and all(b.state.motion is first and b.state.clean(name) for b in self.movers)
            if unmoved and self._stood(name):
                parts.append(getattr(first, name))
                continue
            values = [getattr(body.state, name) for body in self.bodies]
            stacked[name] = [(x, x._version) for x in values[len(self.movers) :]]
            parts.append(_stacked(values))
        return Motion(*parts), stacked

    def _stood(self, name: str) -> bool:
        """Whether no entity that never moves was assigned anything since the last step."""
        held = self._seen.get(name)
        now = (getattr(body.state, name) for body in self.still)
        return held is not None and all(a is b and a._version == v for a, (b, v) in zip(now, held, strict=True))

    def _forces(self, world: Any, motion: Motion) -> tuple[Tensor, bool]:
        """The forces of actions, ``[2, M, B]``, and whether there are torques."""
        turned, forces = False, []
        for body, acts in zip(self.movers, self.acting, strict=True):
            if not acts:
                forces.append(motion.pos.new_zeros(()).expand(2, motion.pos.shape[-1]))
                continue
            state = body.state
            if body.movable and (body.max_f is not None or body.f_range is not None):
                state.force = _limited(state.force, body.max_f, body.f_range)
            forces.append(state._force.t() if body.movable else torch.zeros_like(state._force.t()))
            turned = turned or (state.turned and body.rotatable)
        return torch.stack(forces, 1), turned

    def _torques(self, world: Any, motion: Motion) -> Tensor:
        torques = []
        for body, acts in zip(self.movers, self.acting, strict=True):
            if not acts or not body.rotatable:
                torques.append(motion.rot.new_zeros(()).expand(motion.rot.shape[-1]))
                continue
            state = body.state
            if body.max_t is not None or body.t_range is not None:
                limit = min(x for x in (body.max_t, body.t_range) if x is not None)
                state._torque = state._torque.clamp(-limit, limit)
            torques.append(state._torque[:, 0])
        return torch.stack(torques)

    def _pulls(self, world: Any, motion: Motion) -> Tensor:
        zero = motion.pos.new_zeros(()).expand(2, motion.pos.shape[-1])
        return torch.stack(
            [zero if b.gravity is None else b.gravity.to(zero).expand(zero.shape[1], 2).t() for b in self.movers], 1
        )


def _stacked(values: Sequence[Tensor]) -> Tensor:
    """Values of bodies, ``[B, 2]`` or ``[B, 1]``, as the engine takes them: ``[2, E, B]`` or ``[E, B]``."""
    return torch.stack([x.t() for x in values], 1).squeeze(0)


def _limited(force: Tensor, longest: float | None, each: float | None) -> Tensor:
    if longest is not None:
        force = torch.stack(shorten(force[:, 0], force[:, 1], longest)).t()
    return force if each is None else force.clamp(-each, each)


def _laws(world: Any) -> Laws:
    gravity = torch.as_tensor(world._gravity)
    if gravity.ndim > 1:
        raise SpecError(
            f"World: its gravity must be two numbers, got {list(gravity.shape)}; gravities that differ between rows "
            f"belong to entities: entity.gravity = [B, 2]"
        )
    numbers = {name[1:]: getattr(world, name) for name in LAWS - {"_gravity", "_sub_dt", "_dt"}}
    step = world._dt if world._sub_dt == world._dt / world._substeps else world._sub_dt * world._substeps
    return Laws(gravity=tuple(gravity.tolist()), dt=step, **numbers)
