"""The world: what is in it and the laws that hold, built once by a scenario, for any number of rows on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, count
from typing import Any, overload

import torch
from torch import Tensor

from marlenv.constants import Constants
from marlenv.errors import GroupError
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.entities import LIMITS, Agent, Entity, Landmark, is_name, plain
from marlenv.physics.laws.integrate import Laws, Motion, Stepper
from marlenv.physics.laws.joints import Joint, JointOptions, Link
from marlenv.physics.laws.shapes import Box, Line
from marlenv.physics.laws.state import Place, Stage, State, single
from marlenv.physics.laws.world_plan import WorldPlan, touching
from marlenv.physics.task.memory import Memory, Notes
from marlenv.rng import RowRNG


class World:
    """A plane with bodies on it. It is described once; its state, for ``B`` rows, is a value that is passed around.

    Args:
        dt: the length of a step, seconds.
        substeps: integration steps in each step; worlds with joints need several.
        drag: the share of the velocity lost in every step, whatever ``dt``.
        linear_friction: the deceleration by friction, m/s².
        angular_friction: the same for rotations, rad/s².
        x_semidim: bodies that move are kept in ``[-x_semidim, x_semidim]``, metres; left out, there is no limit.
        y_semidim: the same for ``y``.
        channels: on how many channels the agents that are not silent speak.
        collision_force: how hard bodies push each other, newtons per metre of depth.
        joint_force: how hard joints pull, newtons per metre.
        torque_constraint_force: how hard joints that fix a rotation turn, newton metres.
        contact_margin: over how many metres a push sets in.
        gravity: an acceleration ``(x, y)`` of everything that moves, m/s².

    >>> world = World(gravity=(0.0, -9.81))
    >>> balls = world.add("balls", [Landmark(movable=True)] * 2)
    >>> balls.names
    ('ball_0', 'ball_1')

    """

    def __init__(
        self,
        *,
        dt: float = 0.1,
        substeps: int = 1,
        drag: float = 0.25,
        linear_friction: float = 0.0,
        angular_friction: float = 0.0,
        x_semidim: float | None = None,
        y_semidim: float | None = None,
        channels: int = 0,
        collision_force: float = 100.0,
        joint_force: float = 130.0,
        torque_constraint_force: float = 1.0,
        contact_margin: float = 1e-3,
        gravity: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.laws = Laws(
            dt=dt,
            substeps=substeps,
            drag=drag,
            linear_friction=linear_friction,
            angular_friction=angular_friction,
            x_semidim=x_semidim,
            y_semidim=y_semidim,
            collision_force=collision_force,
            joint_force=joint_force,
            torque_constraint_force=torque_constraint_force,
            contact_margin=contact_margin,
            gravity=gravity,
        )
        self.channels: int = plain(channels)
        LIMITS["channels"].check("World: channels", self.channels)
        self.stage = Stage()
        self.starts = Constants()
        """What is remembered: the start value of one row, by name."""
        self.groups: dict[str, Bodies] = {}
        """Everything in the world, by the name it was added with."""
        self.joints: list[Joint] = []
        """Those of them that have a bar."""
        self.links: list[Link] = []
        """What holds bodies together."""
        self.sensors: list[Any] = []
        """What was made to look around in it, for whoever draws it."""
        self.memory = Memory(self.stage, self.starts)
        self.blanks = Constants()
        """What is noted during a step: the value of one row while there is none, by name."""
        self.notes = Notes(self.stage, self.blanks)
        self._places: dict[str, Place] = {}
        self._built: Stepper | None = None

    # --- building --------------------------------------------------------------------------------

    @overload
    def add(self, name: str, what: Landmark) -> Body: ...
    @overload
    def add(self, name: str, what: Sequence[Agent] | Sequence[Landmark]) -> Bodies: ...
    def add(self, name: str, what: Landmark | Sequence[Agent] | Sequence[Landmark]) -> Bodies | Body:
        """Puts a group of agents, a group of landmarks or one landmark into the world.

        Agents of a group have the same dynamics, as many actions, and speak or are silent together. They are named in
        VMAS's and TorchRL's way (``agents``: ``agent_0``, ``agent_1``, ...) unless their descriptions say otherwise.

        Args:
            name: the group; agents are found under it in the tensordicts of the env.
            what: descriptions, in order; one landmark alone makes a :class:`~marlenv.physics.laws.bodies.Body`.

        """
        alone = isinstance(what, Landmark)
        kinds = self._kinds(name, what)
        names = [kind.name or (name if alone else f"{name.removesuffix('s')}_{i}") for i, kind in enumerate(kinds)]
        if taken := sorted(
            {n for n in names if names.count(n) > 1} | (set(names) & {e.name for e in self._entities()})
        ):
            raise GroupError(f"World.add({name!r}): names must be unique; {taken} are used twice")
        before = self._entities()
        first = AGENTS if kinds and isinstance(kinds[0], Agent) else 0
        first += len([e for e in before if kinds and isinstance(e.kind, type(kinds[0]))])
        entities = [Entity(n, name, kind, first + i) for i, (n, kind) in enumerate(zip(names, kinds, strict=True))]
        self._places[name] = Place(len(entities))
        self.groups[name] = Bodies(self.stage, name, entities, self._places[name])
        return self.groups[name][0] if alone else self.groups[name]

    def remember(self, **starts: Tensor | float) -> None:
        """Declares what the scenario remembers from step to step, each with its value in one row at the start.

        >>> World().remember(steps=torch.tensor(0), eaten=torch.zeros(4, dtype=torch.bool), gap=0.0)
        """
        self._check_open("remember")
        for name, start in starts.items():
            if name in self.starts:
                raise GroupError(f"World.remember: {name!r} is remembered already")
            self.starts[name] = (
                single(start) if isinstance(start, Tensor) else torch.tensor(start, dtype=torch.float32, device="cpu")
            )

    def note(self, **blanks: Tensor | float) -> None:
        """Declares what the scenario notes during a step, for its infos and its own later methods.

        >>> World().note(pos_rew=0.0, on_goal=torch.zeros(4, dtype=torch.bool))
        """
        self._check_open("note")
        for name, blank in blanks.items():
            self.blanks[name] = single(blank if isinstance(blank, Tensor) else torch.tensor(blank, device="cpu"))

    def join(
        self,
        a: Body,
        b: Body,
        *,
        anchor_a: tuple[float, float] = (0.0, 0.0),
        anchor_b: tuple[float, float] = (0.0, 0.0),
        rotate_a: bool = True,
        rotate_b: bool = True,
        fixed_rotation_a: float | None = None,
        fixed_rotation_b: float | None = None,
        dist: float = 0.0,
        collidable: bool = False,
        width: float = 0.0,
        mass: float = 1.0,
        collides_with: Callable[[Entity], bool] | None = None,
    ) -> Joint:
        """Holds two bodies together. They never touch each other any more, unless there is a bar between them.

        Args:
            a: one body.
            b: the other.
            anchor_a: where it is held, in [-1, 1] from one end of its outline to the other.
            anchor_b: likewise.
            rotate_a: whether ``a`` may turn against the bar (or against ``b``, when there is none).
            rotate_b: likewise.
            fixed_rotation_a: if not, how far the bar is turned against ``a``, radians; left out, as spawned.
            fixed_rotation_b: likewise.
            dist: the length of the bar between them, metres; 0 for none.
            collidable: whether others bump into the bar.
            width: of the bar, metres; 0 for a line.
            mass: of the bar, kg.
            collides_with: given the other body, whether the bar and it may touch.

        Returns:
            The joint. Its bar is placed by itself after every spawn.

        """
        self._check_open("join")
        anchor_a, anchor_b = plain(anchor_a), plain(anchor_b)
        fixed_rotation_a, fixed_rotation_b = plain(fixed_rotation_a), plain(fixed_rotation_b)
        self._check_joint((a, anchor_a, fixed_rotation_a), (b, anchor_b, fixed_rotation_b))
        options = JointOptions(
            anchor_a, anchor_b, rotate_a, rotate_b, fixed_rotation_a, fixed_rotation_b, dist, collidable, width
        )
        options.check(a.entity, b.entity, self.laws.substeps)
        at_a, at_b = a.entity.shape.anchor(*anchor_a), b.entity.shape.anchor(*anchor_b)
        if dist == 0:
            rotate = rotate_a and rotate_b
            self.links.append(Link(a.entity, b.entity, at_a=at_a, at_b=at_b, rotate=rotate, bend=fixed_rotation_a))
            return Joint(a, b, None, (self.links[-1],))
        outline = Box(length=dist, width=width) if width else Line(dist)
        kind = Landmark(
            outline,
            movable=True,
            rotatable=True,
            collide=collidable,
            collides_with=collides_with,
            mass=mass,
            color="black",
        )
        bar = self.add(self._bar_name(a, b), kind)
        ends = (-dist / 2, 0.0), (dist / 2, 0.0)
        links = (
            Link(bar.entity, a.entity, at_a=ends[0], at_b=at_a, rotate=rotate_a, bend=fixed_rotation_a),
            Link(bar.entity, b.entity, at_a=ends[1], at_b=at_b, rotate=rotate_b, bend=fixed_rotation_b),
        )
        self.links += links
        joint = Joint(a, b, bar, links)
        self.joints.append(joint)
        return joint

    def _check_open(self, method: str) -> None:
        if self._built is not None:
            raise GroupError(f"World.{method}: the world is complete; build() is the place to describe it")

    def _check_joint(self, *sides: tuple[Body, object, float | None]) -> None:
        """Raises where a side of a joint is no body of this world, or its anchor or its bend are no numbers."""
        for side, (body, anchor, bend) in zip("ab", sides, strict=True):
            if not isinstance(body, Body):
                raise TypeError(f"World.join: expected two bodies, as agents[0] is one, got {body!r}")
            who = f"World.join: {body.name!r}"
            if not any(body.entity is entity for entity in self._entities()):
                raise GroupError(f"{who} is not in this world; there are {sorted(self.groups)}")
            if not (isinstance(anchor, tuple) and [type(x) in (int, float) for x in anchor] == [True, True]):
                raise ValueError(f"{who}: anchor_{side} must be two numbers in [-1, 1], (x, y), got {anchor!r}")
            if bend is not None:
                LIMITS["fixed_rotation"].check(f"{who}: fixed_rotation_{side}", bend)

    def _bar_name(self, a: Body, b: Body) -> str:
        """``joint a b``; of more bars between the two ``joint a b 2`` and so on."""
        name, taken = f"joint {a.name} {b.name}", {*self.groups, *(entity.name for entity in self._entities())}
        return next(n for n in chain([name], (f"{name} {i}" for i in count(2))) if n not in taken)

    def _kinds(self, name: str, what: Landmark | Sequence[Agent] | Sequence[Landmark]) -> list[Agent | Landmark]:
        """The descriptions that make a group."""
        self._check_open("add")
        if not is_name(name) or name in self.groups:
            raise GroupError(
                f"World.add: a group needs a new name without dots, got {name!r}; there are {sorted(self.groups)}"
            )
        if isinstance(what, Agent) or not isinstance(what, (Landmark, Iterable)):
            raise TypeError(
                f"World.add({name!r}): expected one Landmark or a list of descriptions, as [Agent()], got {what!r}"
            )
        kinds: list[Agent | Landmark] = [what] if isinstance(what, Landmark) else list(what)
        wrong = [kind for kind in kinds if not isinstance(kind, (Agent, Landmark))]
        if wrong or len({type(kind) for kind in kinds}) > 1:
            raise TypeError(
                f"World.add({name!r}): expected descriptions, all Agent or all Landmark, got "
                f"{[type(k).__name__ for k in kinds]}"
            )
        agents = [kind for kind in kinds if isinstance(kind, Agent)]
        for at in ("dynamics", "size", "silent", "scripted", "nvec"):
            if any(getattr(kind, at) != getattr(agents[0], at) for kind in agents):
                raise GroupError(
                    f"World.add({name!r}): agents of a group share their {at}; put the others into a group of their own"
                )
        if any(not kind.silent for kind in agents) and not self.channels:
            raise GroupError(f"World.add({name!r}): agents that speak need a world with channels; World(channels=...)")
        return kinds

    def _entities(self) -> list[Entity]:
        return [entity for bodies in self.groups.values() for entity in bodies.entities]

    # --- complete --------------------------------------------------------------------------------

    @property
    def stepper(self) -> Stepper:
        """What moves this world. The first use completes it: afterwards nothing can be added."""
        if self._built is None:
            groups = sorted(self.groups.values(), key=lambda bodies: not any(e.dynamic for e in bodies.entities))
            start = movers = 0
            for bodies in groups:
                self._places[bodies.group].start = start
                start += len(bodies)
                movers = start if any(e.dynamic for e in bodies.entities) else movers
            entities = [entity for bodies in groups for entity in bodies.entities]
            held = {frozenset((link.a.name, link.b.name)) for link in self.links}
            order = {entity.name: entity.order for entity in entities}
            links = sorted(self.links, key=lambda link: sorted((order[link.a.name], order[link.b.name])))
            self._built = Stepper(WorldPlan(entities, movers, touching(entities, held)), self.laws, links)
        return self._built

    @property
    def agents(self) -> dict[str, Bodies]:
        """The groups of agents, in the order they were added."""
        return {
            name: bodies
            for name, bodies in self.groups.items()
            if bodies.entities and isinstance(bodies.entities[0].kind, Agent)
        }

    def blank(self, rng: RowRNG) -> State:
        """The state of rows in which nothing was placed yet: everything at rest at the origin, memory at its start."""
        rows, device, entities = rng.key.shape[0], rng.device, len(self.stepper.plan.entities)
        zeros = partial(torch.zeros, dtype=torch.float32, device=device)
        state = {
            "pos": zeros(2, entities, rows),
            "vel": zeros(2, entities, rows),
            "rot": zeros(entities, rows),
            "ang_vel": zeros(entities, rows),
            "rng": rng.state.movedim(0, -1).contiguous(),
            "steps": torch.zeros(rows, dtype=torch.int64, device=device),
            "over": torch.zeros(rows, dtype=torch.bool, device=device),
        }
        for name, bodies in self.agents.items():
            if self.speaks(bodies):
                state[f"comm.{name}"] = zeros(self.channels, len(bodies), rows)
        for bodies in self.groups.values():
            for name, value in bodies.own(rows, device).items():
                state[f"{name}.{bodies.group}"] = value
        if self.stepper.links is not None and len(self.stepper.links.inferred):
            state["bends"] = zeros(len(self.stepper.links.inferred), rows)
        for name in self.starts:
            start = self.starts.on(name, device)
            state[f"memory.{name}"] = start.unsqueeze(-1).repeat(*(1,) * start.ndim, rows)
        return state

    def speaks(self, bodies: Bodies) -> bool:
        """Whether a group of agents says anything."""
        return self.channels > 0 and isinstance(kind := bodies.entities[0].kind, Agent) and not kind.silent

    def settle(self) -> None:
        """Puts the bars of joints between the bodies that they join, and takes the bends of joints as they are now."""
        for joint in self.joints:
            joint.place()
        state = self.stage.moment.state
        if "bends" in state and self.stepper.links is not None:
            state["bends"] = self.stepper.links.spawned(state["rot"])

    def step(self) -> None:
        """Moves the open state one step on, under the forces and torques of the open moment."""
        moment = self.stage.moment
        state = moment.state
        stepper = self.stepper
        motion = Motion(state["pos"], state["vel"], state["rot"], state["ang_vel"])
        movers = [
            bodies
            for bodies in sorted(self.groups.values(), key=lambda b: b.start)
            if bodies.start < stepper.plan.movers
        ]
        force = [moment.forces.get(bodies.group) for bodies in movers]
        torque = [moment.torques.get(bodies.group) for bodies in movers]
        rows = moment.rows
        zero = motion.pos.new_zeros(())
        forces = [zero.expand(2, len(b), rows) if f is None else f for b, f in zip(movers, force, strict=True)]
        torques = [zero.expand(len(b), rows) if t is None else t for b, t in zip(movers, torque, strict=True)]
        turned = any(t is not None for t in torque)
        own = [state.get(f"gravity.{b.group}") for b in movers]
        pulls = [zero.expand(2, len(b), rows) if g is None else g for b, g in zip(movers, own, strict=True)]
        pulled = any(g is not None for g in own)
        moved = stepper(motion, forces, torques if turned else None, pulls if pulled else None, state.get("bends"))
        state.update(moved._asdict())


AGENTS = 1 << 20  # the order of the first agent: landmarks come before
