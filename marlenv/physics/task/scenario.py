"""What a task is: a dataclass with four methods, which speak about all rows at once.

How a scenario becomes pure functions of a state is in :mod:`marlenv.physics.simulation`.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from marlenv.constants import constant, on_cpu
from marlenv.errors import LockedScenario, ShapeError
from marlenv.options import check_options
from marlenv.physics.laws.bodies import Bodies, Body
from marlenv.physics.laws.entities import FINITE, Interval, plain
from marlenv.physics.maths.views import rows_first
from marlenv.physics.task.memory import Memory, Notes
from marlenv.physics.task.picture import Picture, View
from marlenv.physics.task.spawning import Propose, find_room, rectangle
from marlenv.physics.task.world import World
from marlenv.rng import RowRNG

KINDS: dict[object, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "str": (str,),
    "str | None": (str, NoneType),
    "float": (int, float),
    "int | None": (int, NoneType),
    "float | None": (int, float, NoneType),
    "float | Sequence[float]": (int, float, list, tuple),
}


def _is_one(value: object, kinds: tuple[type, ...]) -> bool:
    """Whether an option is of one of these types: True is no number, and in lists are numbers."""
    if isinstance(value, (list, tuple)):
        return isinstance(value, kinds) and all(isinstance(x, Real) for x in value)
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


class ScenarioMeta(ABCMeta):
    """The class of scenarios' classes: tells whether anything was assigned to one of them after it was made."""

    changed: ClassVar[object] = object()
    """Another object after each assignment to a scenario's class, and after each deletion."""

    def __setattr__(cls, name: str, value: object) -> None:
        """Assigns, and lets machine code know that it may be out of date."""
        super().__setattr__(name, value)
        ScenarioMeta.changed = object()

    def __delattr__(cls, name: str) -> None:
        """Deletes, and lets machine code know that it may be out of date."""
        super().__delattr__(name)
        ScenarioMeta.changed = object()


@dataclass(eq=False)
class Scenario(metaclass=ScenarioMeta):
    """A task in a plane with ``B`` parallel rows.

    A scenario is a dataclass: its fields are its options, checked by name. It says what is in the world
    (:meth:`build`), where things start (:meth:`spawn`), what agents see (:meth:`observe`) and what a step is worth
    (:meth:`rewards`). It always speaks about all rows; which of them are really reset is the base's business. What must
    be remembered from step to step is declared in ``build`` with ``world.remember`` and then lives in :attr:`memory`;
    once the world is built, assigning to ``self`` is an error.

    In a step come, in this order: actions are decoded, :meth:`before_step`, forces, the world's step,
    :meth:`after_step`, :meth:`rewards`, :meth:`observe`, :meth:`info`, :meth:`shared_info`, :meth:`over`,
    :meth:`end_step`. After a reset: :meth:`spawn`, joints settle, :meth:`after_spawn`, :meth:`observe`, the two infos.
    """

    may_overlap: ClassVar[bool] = False
    """Whether bodies that push each other may start within each other at every start; otherwise that is an error."""
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """The lowest and highest values of options, both ends included; numbers without limits must be finite."""
    draws_edge: ClassVar[bool] = True
    """Whether pictures show the edge of the world; False where what is in it shows where it ends."""

    def __new__(cls, *_args: object, **options: object) -> Self:
        """Checks the options' names."""
        known = {field.name: field.default for field in fields(cls)}
        check_options(cls.__name__, options, known)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Checks the options' types and values; numbers of numpy and of torch become Python's."""
        for field in fields(self):
            wanted = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
            value, kinds = getattr(self, field.name), KINDS.get(wanted)
            if kinds is not None and hasattr(value, "tolist"):
                value = plain(value)
                setattr(self, field.name, value)
            if kinds is not None and not _is_one(value, kinds):
                raise TypeError(f"{type(self).__name__}: {field.name} must be {wanted}, got {value!r}")
            numbers = [x for x in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(x, Real)]
            limits = Interval(*self.limits.get(field.name, FINITE))
            if not all(map(limits.holds, numbers)) and (field.name in self.limits or value != field.default):
                said = [] if field.name in self.limits else ["numbers must be finite"]
                said += [f"{key} in [{ends[0]}, {ends[1]}]" for key, ends in self.limits.items()]
                raise ValueError(f"{type(self).__name__}: {field.name}={value!r} is out of range; {', '.join(said)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made from the options: the world is built anew."""
        return partial(type(self), **self.options()), ()

    def __setattr__(self, name: str, value: object) -> None:
        """Raises once the world is built: what was compiled, and what is the same in all rows, would not know of it."""
        if "_world" in self.__dict__:
            declared = name in {field.name for field in fields(self)}
            remedy = (
                f"make another one: {type(self).__name__}({name}={value!r})"
                if declared
                else "what changes from step to step is declared in build, "
                f"world.remember({name}=...), and read and written as "
                f"self.memory.{name}; what holds for one step only is world.note({name}=...) and self.notes.{name}"
            )
            raise LockedScenario(
                f"{type(self).__name__}: self.{name} cannot be assigned to after the world was built; {remedy}"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Raises once the world is built."""
        if "_world" in self.__dict__:
            raise LockedScenario(f"{type(self).__name__}: self.{name} cannot be deleted after the world was built")
        object.__delattr__(self, name)

    # --- what a task says ------------------------------------------------------------------------

    @abstractmethod
    def build(self) -> World:
        """The world, with everything in it. Called once; keep what ``world.add`` returns as attributes."""

    @abstractmethod
    def spawn(self) -> None:
        """Places everything. Before it, bodies rest at the origin and memory is at its start value."""

    @abstractmethod
    def observe(self) -> Mapping[str, Tensor | dict[str, Tensor]]:
        """What the agents of each group see; ``{group: [B, A, d]}``, or ``{group: {name: [B, A, d]}}``."""

    @abstractmethod
    def rewards(self) -> Mapping[str, Tensor]:
        """What the step was worth to the agents of each group; ``{group: [B, A]}``, or ``[B, 1]`` where all get the
        same.
        """

    def over(self) -> Tensor | None:
        """Whether the task has ended; bool ``[B]``. None: it never does."""
        return None

    def alive(self) -> Mapping[str, Tensor]:
        """Who lives, where agents may die while the row goes on; ``{group: bool [B, A]}``, all of groups left out.

        All live when an episode begins. The dead observe zeros, get no reward after the step of their death, their
        actions do nothing, and they are done; who lives again begins anew. Data then have ``alive`` and ``mask``.
        """
        return {}

    def group_map(self) -> Mapping[str, Any] | None:
        """Which agents data have in which groups, nested, unless a user says otherwise: ``{team: {kind: [names]}}``.

        None: the groups are those of the world. The four methods speak of these in either case. Where each group of
        data is one of the world, nothing is slower.
        """
        return None

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        """What else is worth knowing about agents; ``{group: {name: [B, A] or [B, A, k]}}``."""
        return {}

    def shared_info(self) -> Mapping[str, Tensor]:
        """What else is worth knowing about a row; ``{name: [B] or [B, k]}``."""
        return {}

    def after_spawn(self) -> None:
        """Remembers what the first step will need, when everything is in its place."""

    def before_step(self) -> None:
        """Changes actions (``agents.u``) before they become forces, and moves scripted agents."""

    def after_step(self) -> None:
        """Runs when the world has moved and before the rewards."""

    def end_step(self) -> None:
        """Runs last in a step: what it moves is seen from the next one on."""

    def view(self) -> View | None:
        """What pictures show; None: all visible bodies within 20 metres that reach 3 metres at most, with the origin in
        the middle. Larger ones, and those that lie farther away, are drawn where they meet that.
        """
        return None

    def draw(self, picture: Picture) -> None:
        """Draws on a picture of one row what is there besides the bodies; everything here has ``B = 1``."""

    # --- tools -----------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The world that :meth:`build` made; it is made on the first use."""
        if "_world" not in self.__dict__:
            with torch.inference_mode(False), on_cpu():  # what it is made of outlives the mode
                self._world = self.build()
        return self._world

    @property
    def memory(self) -> Memory:
        """What ``world.remember`` declared, as attributes with the rows first; readable and writable."""
        return self.world.memory

    @property
    def notes(self) -> Notes:
        """What ``world.note`` declared, as attributes with the rows first: readable and writable during one step."""
        return self.world.notes

    @property
    def rows(self) -> int:
        """How many rows there are: ``B``."""
        return self.world.stage.moment.rows

    @property
    def steps(self) -> Tensor:
        """How many steps the episode has, the present one included; int64 ``[B]``."""
        return self.world.stage.moment.state["steps"]

    @property
    def device(self) -> torch.device:
        """Where the rows live."""
        return self.world.stage.moment.rng.device

    def uniform(self, low: float | Tensor = 0.0, high: float | Tensor = 1.0, *shape: int) -> Tensor:
        """Random numbers in ``[low, high)``, different in each row; ``[B, *shape]``.

        ``low`` and ``high`` may be tensors that broadcast with the result.
        """
        unit = rows_first(self.world.stage.moment.rng.uniform(shape=self._sizes("uniform", shape), rows_last=True))
        return low + unit * (high - low)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers with mean 0 and variance 1, different in each row; ``[B, *shape]``."""
        return rows_first(self.world.stage.moment.rng.normal(shape=self._sizes("normal", shape), rows_last=True))

    def randint(self, low: int, high: int, *shape: int) -> Tensor:
        """Random integers in ``[low, high)``, different in each row; int64 ``[B, *shape]``."""
        sizes = self._sizes("randint", shape)
        return rows_first(self.world.stage.moment.rng.randint(low, high, sizes, rows_last=True))

    def permutation(self, n: int) -> Tensor:
        """The numbers ``0 .. n - 1`` in a random order, different in each row; int64 ``[B, n]``."""
        return self.world.stage.moment.rng.permutation(n)

    def keep(self, values: Mapping[str, Tensor]) -> None:
        """Remembers values by name; :meth:`gains` says how much smaller they have become."""
        for name, value in values.items():
            setattr(self.memory, name, value)

    def gains(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """How much smaller values have become since they were kept, by name; keeps them."""
        gains = {name: getattr(self.memory, name) - value for name, value in values.items()}
        self.keep(values)
        return gains

    def note(self, **values: Tensor) -> None:
        """Notes values by name."""
        for name, value in values.items():
            setattr(self.notes, name, value)

    def blur(self, observation: Tensor, size: float) -> Tensor:
        """Observations ``[B, A, d]`` with uniform noise in ``[-size, size)``; as they are, where ``size`` is 0."""
        return observation + size * self.uniform(-1, 1, *observation.shape[1:]) if size else observation

    def noted(self, *names: str) -> dict[str, Tensor]:
        """Notes by name, as an info of a group takes them: ``[B, 1]`` for what all agents share."""
        notes = {name: getattr(self.notes, name) for name in names}
        return {name: x.unsqueeze(1) if x.ndim == 1 else x for name, x in notes.items()}

    def tensor(self, values: Sequence[Any]) -> Tensor:
        """Numbers as a float32 tensor where the rows live; the same for all rows."""
        numbers = constant(values, self.device, torch.float32)
        return numbers if numbers.is_cpu else numbers.clone()

    def scatter(
        self,
        bodies: Bodies | Body,
        apart: float,
        low: tuple[float, float] = (-1.0, -1.0),
        high: tuple[float, float] = (1.0, 1.0),
        away_from: Bodies | Body | Sequence[Bodies | Body] = (),
        where: Tensor | None = None,
    ) -> None:
        """Places bodies anywhere in a rectangle, one after the other, with their centres at least ``apart`` metres
        apart.

        Args:
            bodies: are placed, and keep away from each other too.
            apart: metres. Where there is no room after 64 tries, the widest gap that was found must do.
            low: the lower left corner.
            high: the upper right corner.
            away_from: what they keep away from; must have been placed already.
            where: the rows in which they are placed, bool ``[B]``; in the others they stay. All when left out.

        Raises:
            ValueError: there can be no room.

        """
        away_from = [away_from] if isinstance(away_from, (Bodies, Body)) else away_from
        bodies = bodies if isinstance(bodies, Bodies) else bodies.alone
        self._check_room(bodies, apart, high[0] - low[0], high[1] - low[1])
        others = [x if isinstance(x, Bodies) else x.alone for x in away_from]
        taken = [other.planar("pos") for other in others]
        moment = self.world.stage.moment
        for one in bodies:
            place = find_room(moment.rng, torch.cat(taken, 1) if taken else None, apart, rectangle(low, high), where)
            place = place if where is None else torch.where(where, place, one.planar("pos"))
            one.pos = place.t()
            taken.append(place.unsqueeze(1))

    def find_room(self, propose: Propose, apart: float, taken: Tensor | None, where: Tensor | None = None) -> Tensor:
        """A random place of each row that is at least ``apart`` metres away from others; ``[2 or more, B]``.

        Args:
            propose: ``propose(rng, n, rows)``: so many random places, ``[2 or more, n, B]``, the first two numbers
                coordinates; of the rows int64 ``[B]``, or None for all. It draws two numbers per place, one place after
                the other: ``rng.uniform(shape=(n, 2), rows_last=True)``.
            apart: metres. Where there is no room after 64 tries, the widest gap that was found must do.
            taken: where others are, ``[2, N, B]``; None: nowhere.
            where: the rows that need a place, bool ``[B]``.

        Raises:
            ShapeError: ``propose`` gives something else.

        """

        def proposed(rng: RowRNG, count: int, rows: Tensor | None = None) -> Tensor:
            places = propose(rng, count, rows)
            got = list(places.shape) if isinstance(places, Tensor) else type(places).__name__
            if isinstance(got, str) or len(got) != 3 or got[0] < 2 or got[1:] != [count, *rng.rows]:
                raise ShapeError(
                    f"{type(self).__name__}.find_room: propose(rng, {count}, rows) must give places "
                    f"[2 or more, {count}, {rng.rows[0]}] (numbers of a place, places, rows), got {got}"
                )
            return places

        return find_room(self.world.stage.moment.rng, taken, apart, proposed, where)

    def _check_room(self, bodies: Bodies, apart: float, wide: float, high: float) -> None:
        """Raises where no arrangement of bodies in a rectangle keeps them apart (Oler 1961,
        doi:10.4153/CMB-1961-018-7).
        """
        n, area, around = len(bodies), wide * high, 2 * (wide + high)
        if apart > 0 and n > 2 * area / (math.sqrt(3) * apart**2) + around / (2 * apart) + 1:
            options = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
            raise ValueError(
                f"{type(self).__name__}: {n} {bodies.group} do not fit into {wide:g} x {high:g} metres with "
                f"{apart:g} metres "
                f"between their centres; fewer of them, smaller ones, or more room; got {options}"
            )

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Zeros; ``[B, *shape]``."""
        return torch.zeros((*self._sizes("zeros", shape), self.rows), dtype=dtype, device=self.device).movedim(-1, 0)

    def _sizes(self, method: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Sizes that a tool was given one by one; raises where they are something else."""
        for size in shape:
            if not isinstance(size, (Integral, torch.SymInt)):
                raise TypeError(
                    f"{type(self).__name__}.{method}: sizes must be integers, one by one, such as self.zeros(3, 2); "
                    f"got {shape!r}"
                )
        return shape

    def options(self) -> dict[str, Any]:
        """The options with their values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
