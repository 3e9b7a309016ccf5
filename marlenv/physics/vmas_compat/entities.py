"""VMAS's ``core``: shapes, entities, landmarks and agents, under VMAS's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError
from marlenv.physics.laws import shapes
from marlenv.physics.vmas_compat.dynamics import Dynamics, Holonomic
from marlenv.physics.vmas_compat.states import Action, AgentState, EntityState, Vectorized
from marlenv.physics.vmas_compat.utils import Color, Observable

Shape = shapes.Shape
Filter = Callable[["Entity"], bool]


def everything(_: Entity) -> bool:
    """The filter that lets everything collide."""
    return True


class _Outline:
    """What VMAS's shapes can do besides ours."""

    def circumscribed_radius(self) -> float:
        """The largest distance from the centre to the outline, metres."""
        return self.reach  # type: ignore[attr-defined]

    def get_delta_from_anchor(self, anchor: Sequence[float]) -> tuple[float, float]:
        """The point at the relative coordinates ``anchor``, metres from the centre."""
        return self.anchor(anchor[0], anchor[1])  # type: ignore[attr-defined]

    def get_geometry(self) -> Any:
        """What a picture shows of it."""
        from marlenv.physics.vmas_compat import rendering

        return rendering.outline(self)


@dataclass(frozen=True, eq=False)
class Sphere(_Outline, shapes.Sphere):
    """A disc."""


@dataclass(frozen=True, eq=False)
class Box(_Outline, shapes.Box):
    """A rectangle."""


@dataclass(frozen=True, eq=False)
class Line(_Outline, shapes.Line):
    """A segment."""

    width = 2
    """Of the stroke that draws it, pixels."""


class _Trait:
    """A property of an entity, kept under VMAS's own name with an underscore, where files of VMAS's set it, too.

    Args:
        doc: what it is.
        built: whether the engine builds on it: setting it, by either name, builds anew.

    """

    BUILT: ClassVar[set[str]] = set()
    """The names with an underscore of what the engine builds on."""

    def __init__(self, doc: str = "", *, built: bool = True) -> None:
        self.__doc__, self.built = doc, built

    def __set_name__(self, owner: type, name: str) -> None:
        self.slot = f"_{name}"
        if self.built:
            self.BUILT.add(self.slot)

    def __get__(self, entity: Entity | None, owner: type) -> Any:
        return self if entity is None else getattr(entity, self.slot)

    def __set__(self, entity: Entity, value: Any) -> None:
        setattr(entity, self.slot, value)


class Entity(Vectorized, Observable):
    """A body; use :class:`Agent` or :class:`Landmark`."""

    def __init__(
        self,
        name: str,
        movable: bool = False,
        rotatable: bool = False,
        collide: bool = True,
        density: float = 25.0,
        mass: float = 1.0,
        shape: Any = None,
        v_range: float | None = None,
        max_speed: float | None = None,
        color: Any = Color.GRAY,
        is_joint: bool = False,
        drag: float | None = None,
        linear_friction: float | None = None,
        angular_friction: float | None = None,
        gravity: Any = None,
        collision_filter: Filter = everything,
    ) -> None:
        Vectorized.__init__(self)
        Observable.__init__(self)
        self._version = 0
        """How often something was set that the engine builds on."""
        self._name, self._shape = name, Sphere() if shape is None else shape
        if not isinstance(self._shape, (Sphere, Box, Line)):
            raise SpecError(f"{name}: shape must be a Sphere, a Box or a Line of vmas.simulator.core, got {shape!r}")
        self._movable, self._rotatable, self._collide, self._density = movable, rotatable, collide, density
        self._mass, self._v_range, self._max_speed, self._color = mass, v_range, max_speed, color
        self._is_joint, self._drag, self._collision_filter = is_joint, drag, collision_filter
        self._linear_friction, self._angular_friction = linear_friction, angular_friction
        self._gravity = gravity
        if gravity is not None and not isinstance(gravity, Tensor):
            self._gravity = torch.tensor(gravity, dtype=torch.float32)
        self._goal: Any = None
        self._state: Any = EntityState()
        self._state.who = f"{self!r}.state"
        self._render: Any = None

    name = _Trait("What it is called.")
    shape = _Trait("Its outline.")
    movable = _Trait("Whether forces move it.")
    rotatable = _Trait("Whether torques turn it.")
    collide = _Trait("Whether it takes part in contacts.")
    mass = _Trait("kg; the same in all rows.")
    v_range = _Trait("Each component of the velocity is cut to this, m/s.")
    max_speed = _Trait("The length of the velocity is cut to this, m/s.")
    is_joint = _Trait("Whether it is the bar of a joint.")
    drag = _Trait("The share of the velocity lost in a step; None: the world's.")
    linear_friction = _Trait("m/s²; None: the world's.")
    angular_friction = _Trait("rad/s²; None: the world's.")
    collision_filter = _Trait("With whom it collides.")
    goal = _Trait("Another entity, for the scenario's own use.", built=False)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in _Trait.BUILT:
            self._version += 1

    @property
    def gravity(self) -> Any:
        """Its own gravity, ``[2]`` or ``[B, 2]``, m/s²; None for none."""
        return self._gravity

    @gravity.setter
    def gravity(self, value: Any) -> None:
        self._gravity = value

    @property
    def state(self) -> Any:
        """Where it is and how it moves."""
        return self._state

    @property
    def moment_of_inertia(self) -> Any:
        """Its moment of inertia, kg m²."""
        return self.shape.moment_of_inertia(self.mass)

    @property
    def color(self) -> Any:
        """Red, green and blue."""
        return self._color.value if isinstance(self._color, Color) else self._color

    @color.setter
    def color(self, color: Any) -> None:
        self._color = color

    @property
    def is_rendering(self) -> Any:
        """In which rows pictures show it, bool ``[B]``."""
        if self._render is None:
            self.reset_render()
        return self._render

    def reset_render(self) -> None:
        """Pictures show it in all rows."""
        self._render = torch.ones(self._batch_dim, dtype=torch.bool, device=self._device)

    def collides(self, entity: Entity) -> bool:
        """Whether it wants to collide with another one."""
        return self._collide and self._collision_filter(entity)

    @Vectorized.batch_dim.setter  # type: ignore[attr-defined, untyped-decorator]
    def batch_dim(self, batch_dim: int) -> None:
        """How many rows."""
        Vectorized.batch_dim.fset(self, batch_dim)  # type: ignore[attr-defined]
        self._state.batch_dim = batch_dim

    def set_pos(self, pos: Tensor, batch_index: int | None) -> None:
        """Places it, in one row or in all: ``pos`` is ``[2]``, ``[1, 2]`` or ``[B, 2]``, metres."""
        self._put("pos", pos, batch_index)

    def set_vel(self, vel: Tensor, batch_index: int | None) -> None:
        """Sets its velocity, m/s; as :meth:`set_pos`."""
        self._put("vel", vel, batch_index)

    def set_rot(self, rot: Tensor, batch_index: int | None) -> None:
        """Sets its rotation, radians; ``[1]``, ``[1, 1]`` or ``[B, 1]``."""
        self._put("rot", rot, batch_index)

    def set_ang_vel(self, ang_vel: Tensor, batch_index: int | None) -> None:
        """Sets its angular velocity, rad/s; as :meth:`set_rot`."""
        self._put("ang_vel", ang_vel, batch_index)

    def _put(self, name: str, new: Tensor, row: int | None) -> None:
        if self._batch_dim is None:
            raise SpecError(f"{self}.set_{name}: add it to a world first: world.add_agent, world.add_landmark")
        self._check_batch_index(row)
        if not isinstance(new, Tensor):
            raise TypeError(
                f"{self}.set_{name}: expected a tensor, got {type(new).__name__}; torch.tensor(...) makes one"
            )
        new = new.to(self._device)
        if row is None:
            whole = new.ndim > 1 and new.shape[0] == self._batch_dim
            setattr(self._state, name, new if whole else new.repeat(self._batch_dim, 1))
        else:
            held = getattr(self._state, name)
            try:
                held[row] = new
            except RuntimeError:
                raise ShapeError(
                    f"{self}.set_{name}: for one row (batch_index={row}) expected [{held.shape[1]}], "
                    f"got {list(new.shape)}"
                ) from None
        self.notify_observers(batch_index=row)

    def _spawn(self, dim_c: int, dim_p: int) -> None:
        self._state._spawn(dim_c, dim_p)

    def _reset(self, env_index: int | None) -> None:
        self._state._reset(env_index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        self._state.zero_grad()

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        super().to(device)
        self._state.to(device)

    def render(self, env_index: int = 0) -> list[Any]:
        """What a picture of a row shows of it."""
        if not self.is_rendering[env_index]:
            return []
        from marlenv.physics.vmas_compat import rendering

        color = self.color
        if isinstance(color, Tensor) and color.ndim > 1:
            color = color[env_index]
        return [rendering.placed(self.shape.get_geometry(), self.state, env_index, color)]

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.__dict__.get('_name', '?')!r}"


class Landmark(Entity):
    """A body without a will of its own."""

    def __init__(
        self,
        name: str,
        shape: Any = None,
        movable: bool = False,
        rotatable: bool = False,
        collide: bool = True,
        density: float = 25.0,
        mass: float = 1.0,
        v_range: float | None = None,
        max_speed: float | None = None,
        color: Any = Color.GRAY,
        is_joint: bool = False,
        drag: float | None = None,
        linear_friction: float | None = None,
        angular_friction: float | None = None,
        gravity: Any = None,
        collision_filter: Filter = everything,
    ) -> None:
        super().__init__(
            name, movable, rotatable, collide, density, mass, shape, v_range, max_speed, color, is_joint, drag,
            linear_friction, angular_friction, gravity, collision_filter,
        )  # fmt: skip


class Agent(Entity):
    """A body with actions."""

    def __init__(
        self,
        name: str,
        shape: Any = None,
        movable: bool = True,
        rotatable: bool = True,
        collide: bool = True,
        density: float = 25.0,
        mass: float = 1.0,
        f_range: float | None = None,
        max_f: float | None = None,
        t_range: float | None = None,
        max_t: float | None = None,
        v_range: float | None = None,
        max_speed: float | None = None,
        color: Any = Color.BLUE,
        alpha: float = 0.5,
        obs_range: float | None = None,
        obs_noise: float | None = None,
        u_noise: Any = 0.0,
        u_range: Any = 1.0,
        u_multiplier: Any = 1.0,
        action_script: Callable[[Any, Any], None] | None = None,
        sensors: Sequence[Any] | None = None,
        c_noise: float = 0.0,
        silent: bool = True,
        adversary: bool = False,
        drag: float | None = None,
        linear_friction: float | None = None,
        angular_friction: float | None = None,
        gravity: Any = None,
        collision_filter: Filter = everything,
        render_action: bool = False,
        dynamics: Dynamics | None = None,
        action_size: int | None = None,
        discrete_action_nvec: list[int] | None = None,
    ) -> None:
        super().__init__(
            name, movable, rotatable, collide, density, mass, shape, v_range, max_speed, color, False, drag,
            linear_friction, angular_friction, gravity, collision_filter,
        )  # fmt: skip
        if obs_range == 0.0 and sensors is not None:
            raise SpecError(f"{self}: an agent with obs_range=0 is blind and has no sensors, got {sensors}")
        self.obs_range, self.obs_noise = obs_range, obs_noise if obs_noise is not None else 0
        self.f_range, self.max_f, self.t_range, self.max_t = f_range, max_f, t_range, max_t
        self.action_script, self.c_noise, self.silent, self.adversary = action_script, c_noise, silent, adversary
        self._alpha, self._render_action = alpha, render_action
        self.dynamics = Holonomic() if dynamics is None else dynamics
        self.dynamics.agent = self
        self._size(action_size, discrete_action_nvec)
        self._action = Action(u_range, u_multiplier, u_noise, self.action_size)
        self._state = AgentState()
        self._state.who, self._action.who = f"{self!r}.state", f"{self!r}.action"
        self._sensors: list[Any] = []
        for sensor in sensors or ():
            self.add_sensor(sensor)

    obs_range = _Trait("How far it sees, for the scenario's own use.", built=False)
    obs_noise = _Trait("Of what it sees, likewise.", built=False)
    f_range = _Trait("Each component of the force of its action is cut to this, newtons.", built=False)
    max_f = _Trait("The length of that force is cut to this, newtons.", built=False)
    t_range = _Trait("The torque of its action is cut to this, newton metres.", built=False)
    max_t = _Trait("Likewise.", built=False)
    action_script = _Trait("What moves it, if no policy does.", built=False)
    c_noise = _Trait("The standard deviation of noise on what it says.", built=False)
    silent = _Trait("Whether it says nothing.", built=False)
    adversary = _Trait("Whose side it is on, for the scenario's own use.", built=False)

    def _size(self, size: int | None, nvec: list[int] | None) -> None:
        """How many numbers its physical action has, and how many choices each."""
        if nvec is not None and (not all(n > 1 for n in nvec) or size not in (None, len(nvec))):
            raise SpecError(
                f"{self}: discrete_action_nvec must have numbers above 1, action_size={size} of them, got {nvec}"
            )
        if size is None:
            size = self.dynamics.needed_action_size if nvec is None else len(nvec)
        self.action_size: int = size
        """How many numbers its physical action has."""
        self.discrete_action_nvec = [3] * size if nvec is None else list(nvec)

    def add_sensor(self, sensor: Any) -> None:
        """Gives it a sensor."""
        sensor.agent = self
        self._sensors.append(sensor)

    @property
    def sensors(self) -> list[Any]:
        """Its sensors."""
        return self._sensors

    @property
    def action(self) -> Action:
        """Its action in this step."""
        return self._action

    @property
    def u_range(self) -> Any:
        """Its actions lie in ``[-u_range, u_range]``."""
        return self._action.u_range

    @property
    def u_multiplier(self) -> Any:
        """Its actions are multiplied by this."""
        return self._action.u_multiplier

    @property
    def u_noise(self) -> Any:
        """The standard deviation of noise on its actions."""
        return self._action.u_noise

    @Entity.batch_dim.setter  # type: ignore[untyped-decorator]
    def batch_dim(self, batch_dim: int) -> None:
        """How many rows."""
        Entity.batch_dim.fset(self, batch_dim)
        self._action.batch_dim = batch_dim

    def action_callback(self, world: Any) -> None:
        """Runs its script, which sets its action."""
        assert self.action_script is not None
        self.action_script(self, world)
        u, who = self._action.u, f"{self}: its action_script"
        if u is None or u.shape[1] != self.action_size:
            got = None if u is None else list(u.shape)
            raise ShapeError(f"{who} must set action.u to [B, {self.action_size}], got {got}")
        if (self.silent or not world.dim_c) and self._action.c is not None:
            raise SpecError(f"{who} sets action.c, but the agent is silent or the world has no channels (dim_c)")
        if u.device.type == "cpu" and bool(
            (u / self._action.u_multiplier_tensor).abs().gt(self._action.u_range_tensor).any()
        ):
            raise SpecError(f"{who} sets actions beyond u_range={self.u_range}")

    def _spawn(self, dim_c: int, dim_p: int) -> None:
        if not dim_c and not self.silent:
            raise SpecError(f"{self}: silent=False needs a world with channels; World(..., dim_c=...)")
        super()._spawn(0 if self.silent else dim_c, dim_p)

    def _reset(self, env_index: int | None) -> None:
        self._action._reset(env_index)
        self.dynamics.reset(env_index)
        super()._reset(env_index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        self._action.zero_grad()
        self.dynamics.zero_grad()
        super().zero_grad()

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        super().to(device)
        self._action.to(device)
        for sensor in self._sensors:
            sensor.to(device)

    def render(self, env_index: int = 0) -> list[Any]:
        """What a picture of a row shows of it."""
        geoms = super().render(env_index)
        if not geoms:
            return geoms
        for geom in geoms:
            geom.set_color(*self.color, alpha=self._alpha)
        for sensor in self._sensors:
            geoms += sensor.render(env_index=env_index)
        if self._render_action:
            from marlenv.physics.vmas_compat import rendering

            start = self._state.pos[env_index]
            arrow = self._state.force[env_index] * 10 * self.shape.circumscribed_radius()
            geoms.append(rendering.Line(start, start + arrow, width=2))
            geoms[-1].set_color(*self.color)
        return geoms
