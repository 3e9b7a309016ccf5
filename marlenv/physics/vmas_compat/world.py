"""VMAS's ``World``: entities, joints, distances, and the engine's step."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError
from marlenv.physics.vmas_compat import distances
from marlenv.physics.vmas_compat.draws import current_draws
from marlenv.physics.vmas_compat.engine import LAWS, Engine
from marlenv.physics.vmas_compat.entities import Agent, Entity, Landmark, everything
from marlenv.physics.vmas_compat.pure import Fast
from marlenv.physics.vmas_compat.states import Vectorized
from marlenv.physics.vmas_compat.utils import (
    ANGULAR_FRICTION,
    COLLISION_FORCE,
    DRAG,
    JOINT_FORCE,
    LINEAR_FRICTION,
    TORQUE_CONSTRAINT_FORCE,
)

INSTEAD = {
    "_apply_action_force": "agent.state.force", "_apply_action_torque": "agent.state.torque",
    "_apply_friction_force": "linear_friction= of the entity", "_apply_gravity": "entity.gravity",
    "_apply_vectorized_enviornment_force": "collision_filter of the entities", "_integrate_state": "post_step",
    "forces_dict": "agent.state.force", "torques_dict": "agent.state.torque",
    "_vectorized_joint_constraints": "add_joint", "_sphere_sphere_vectorized_collision": "collision_filter",
    "_cast_ray_to_box": "cast_ray", "_cast_rays_to_box": "cast_rays", "_cast_ray_to_sphere": "cast_ray",
    "_cast_rays_to_sphere": "cast_rays", "_cast_ray_to_line": "cast_ray", "_cast_rays_to_line": "cast_rays",
}  # fmt: skip
"""What VMAS's World has inside, and ours has not: what a scenario can use instead."""


class World(Vectorized):
    """A plane with agents and landmarks, ``B`` times; its arguments are VMAS's."""

    def __init__(
        self,
        batch_dim: int,
        device: Any,
        dt: float = 0.1,
        substeps: int = 1,
        drag: float = DRAG,
        linear_friction: float = LINEAR_FRICTION,
        angular_friction: float = ANGULAR_FRICTION,
        x_semidim: float | None = None,
        y_semidim: float | None = None,
        dim_c: int = 0,
        collision_force: float = COLLISION_FORCE,
        joint_force: float = JOINT_FORCE,
        torque_constraint_force: float = TORQUE_CONSTRAINT_FORCE,
        contact_margin: float = 1e-3,
        gravity: Any = (0.0, 0.0),
    ) -> None:
        if batch_dim < 1:
            raise ShapeError(f"World: batch_dim must be at least 1, got {batch_dim}")
        self._version = 0
        """How often one of its laws was set."""
        super().__init__(batch_dim, torch.device(device))
        self._draws = current_draws(batch_dim, device)
        """Where random numbers come from: the env's."""
        self._agents: list[Agent] = []
        self._landmarks: list[Landmark] = []
        self._x_semidim, self._y_semidim, self._dim_p, self._dim_c = x_semidim, y_semidim, 2, dim_c
        self._dt, self._substeps, self._sub_dt, self._drag = dt, substeps, dt / substeps, drag
        self._gravity = torch.as_tensor(gravity, dtype=torch.float32, device=device)
        self._linear_friction, self._angular_friction = linear_friction, angular_friction
        self._collision_force, self._joint_force = collision_force, joint_force
        self._contact_margin, self._torque_constraint_force = contact_margin, torque_constraint_force
        self._joints: dict[frozenset[str], Any] = {}
        self._fast = Fast("none", batch_dim, self._device)
        """What of it is machine code; set by the env."""
        self._near = distances.Near()
        self._engines: dict[Any, Engine] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in LAWS:
            self._version += 1

    def __getattr__(self, name: str) -> Any:
        instead = INSTEAD.get(name)
        if instead:
            raise AttributeError(f"World.{name}: marlenv's engine has no such part; use {instead} instead")
        raise AttributeError(f"World has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"World({len(self._agents)} agents, {len(self._landmarks)} landmarks)"

    # --- what is in it ---------------------------------------------------------------------------

    def add_agent(self, agent: Agent) -> None:
        """Puts an agent into the world."""
        self._add(agent, self._agents)

    def add_landmark(self, landmark: Landmark) -> None:
        """Puts a landmark into the world."""
        self._add(landmark, self._landmarks)

    def _add(self, entity: Any, entities: list[Any]) -> None:
        wanted = "Agent" if entities is self._agents else "Landmark"
        if not isinstance(entity, Entity):
            raise TypeError(f"World.add_{wanted.lower()}: expected a {wanted}, got {type(entity).__name__}")
        entity.batch_dim = self._batch_dim
        entity.to(self._device)
        entity._spawn(dim_c=self._dim_c, dim_p=self._dim_p)
        entities.append(entity)

    def add_joint(self, joint: Any) -> None:
        """Holds two entities together."""
        if self._substeps < 2:
            raise SpecError(
                f"World.add_joint: joints need more than 1 substep, got {self._substeps}; World(substeps=5)"
            )
        if joint.landmark is not None:
            self.add_landmark(joint.landmark)
        for constraint in joint.joint_constraints:
            self._joints[frozenset((constraint.entity_a.name, constraint.entity_b.name))] = constraint

    @property
    def agents(self) -> list[Agent]:
        """All agents, scripted ones included."""
        return self._agents

    @property
    def landmarks(self) -> list[Landmark]:
        """All landmarks, bars of joints included."""
        return self._landmarks

    @property
    def entities(self) -> list[Any]:
        """Landmarks, then agents."""
        return [*self._landmarks, *self._agents]

    @property
    def policy_agents(self) -> list[Agent]:
        """The agents that a policy moves."""
        return [agent for agent in self._agents if agent.action_script is None]

    @property
    def scripted_agents(self) -> list[Agent]:
        """The agents that a script moves."""
        return [agent for agent in self._agents if agent.action_script is not None]

    @property
    def joints(self) -> Any:
        """The points at which entities are held together."""
        return self._joints.values()

    x_semidim = property(attrgetter("_x_semidim"), doc="Half the width of the world, metres; None for no walls.")
    y_semidim = property(attrgetter("_y_semidim"), doc="Half the height.")
    dt = property(attrgetter("_dt"), doc="The length of a step, seconds.")
    dim_p = property(attrgetter("_dim_p"), doc="2.")
    dim_c = property(attrgetter("_dim_c"), doc="How many channels there are.")

    # --- an episode ------------------------------------------------------------------------------

    def reset(self, env_index: int | None) -> None:
        """Everything at the origin and at rest, in one row or in all."""
        self._near.forget()
        for entity in self.entities:
            entity._reset(env_index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        for entity in self.entities:
            entity.zero_grad()

    def to(self, device: Any) -> None:
        """Moves its tensors and its entities."""
        super().to(device)
        self._engines.clear()
        self._fast = Fast(self._fast.tier, self._batch_dim, torch.device(device))
        for entity in self.entities:
            entity.to(device)

    def step(self) -> None:
        """Moves everything one step on."""
        self._engine().step(self)
        self._near.forget()
        if self._dim_c:
            for agent in self._agents:
                if not agent.silent and agent.action.c is not None:
                    agent.state.c = agent.action.c

    def _engine(self) -> Engine:
        """The engine of the entities as they are now."""
        key = self._now()
        if key not in self._engines:
            self._engines.clear()
            self._engines[key] = Engine(self)
        return self._engines[key]

    def take_engine(self, other: World) -> None:
        """What a copy of ``other`` does, so that it goes on with a copy of its engine."""
        own = list(self._engines.values())
        self._engines = {self._now(): own[0]} if list(other._engines) == [other._now()] else {}

    def _now(self) -> Any:
        """What an engine depends on: filters of collisions are asked, the rest is looked up."""
        entities = self.entities
        gravity = self._gravity if isinstance(self._gravity, Tensor) else None
        return (
            tuple((id(e), e._version) for e in entities),
            (self._version, 0 if gravity is None or gravity.is_inference() else gravity._version),
            len(self._joints),
            tuple(
                e.collision_filter(other)
                for e in entities
                if e.collide and e.collision_filter is not everything
                for other in entities
                if other is not e
            ),
        )

    # --- distances -------------------------------------------------------------------------------

    def collides(self, a: Entity, b: Entity) -> bool:
        """Whether two entities push each other when they touch; the same for all rows."""
        if a is b or not a.collides(b) or not b.collides(a):
            return False
        return any((a.movable, a.rotatable, b.movable, b.rotatable))

    def get_distance(self, entity_a: Entity, entity_b: Entity, env_index: int | None = None) -> Tensor:
        """How far apart the outlines of two entities are, negative where they overlap; ``[B]``, metres."""
        self._check_batch_index(env_index)
        gap = self._near.between(entity_a, entity_b, self._fast)[0]
        return gap.clone() if env_index is None else gap[env_index].clone()

    def is_overlapping(self, entity_a: Entity, entity_b: Entity, env_index: int | None = None) -> Tensor:
        """Whether two entities overlap; bool ``[B]``."""
        self._check_batch_index(env_index)
        over = self._near.between(entity_a, entity_b, self._fast)[1]
        return over.clone() if env_index is None else over[env_index].clone()

    def get_distance_from_point(self, entity: Entity, test_point_pos: Tensor, env_index: int | None = None) -> Tensor:
        """How far a point ``[2]`` or ``[B, 2]`` is from the outline of an entity; ``[B]``, metres."""
        self._check_batch_index(env_index)
        far = distances.from_point(entity, test_point_pos)
        return far if env_index is None else far[env_index]

    def cast_rays(
        self,
        entity: Entity,
        angles: Tensor,
        max_range: float,
        entity_filter: Callable[[Any], bool] = lambda _: False,
    ) -> Tensor:
        """How far rays from an entity go, in the directions ``angles`` ``[B, R]``, radians; ``[B, R]``, metres."""
        return distances.along_rays(entity, angles.t(), max_range, self.entities, entity_filter, self._fast).t()

    def cast_ray(
        self,
        entity: Entity,
        angles: Tensor,
        max_range: float,
        entity_filter: Callable[[Any], bool] = lambda _: False,
    ) -> Tensor:
        """How far one ray goes, in the directions ``angles`` ``[B]``, radians; ``[B]``, metres."""
        rays = angles.unsqueeze(0)
        return distances.along_rays(entity, rays, max_range, self.entities, entity_filter, self._fast)[0]
