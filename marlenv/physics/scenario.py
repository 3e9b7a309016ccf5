"""What a task is: a dataclass with four methods, which speak about all rows at once.

How a scenario becomes pure functions of a state is in :mod:`marlenv.physics.simulation`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from marlenv.errors import nearest
from marlenv.physics.state import Memory
from marlenv.physics.views import rows_first
from marlenv.physics.world import World


@dataclass(eq=False)
class Scenario(ABC):
    """A task in a plane with ``B`` parallel rows.

    A scenario is a dataclass: its fields are its options, checked by name. It says what is in the world (:meth:`build`), where
    things start (:meth:`spawn`), what agents see (:meth:`observe`) and what a step is worth (:meth:`rewards`). It always
    speaks about all rows; which of them are really reset is the base's business. What must be remembered from step to step is
    declared in ``build`` with ``world.remember`` and then lives in :attr:`memory`; nothing else may be kept on ``self``.

    In a step come, in this order: actions are decoded, :meth:`before_step`, forces, the world's step, :meth:`after_step`,
    :meth:`rewards`, :meth:`observe`, :meth:`info`, :meth:`shared_info`, :meth:`over`. After a reset: :meth:`spawn`,
    :meth:`observe`, the two infos.
    """

    def __new__(cls, *_args: object, **options: object) -> Self:
        """Checks the options' names."""
        known = {field.name: field.default for field in fields(cls)}
        for name in options:
            if name not in known:
                listed = ", ".join(f"{key}={value!r}" for key, value in known.items()) or "none"
                raise TypeError(f"{cls.__name__} has no option {name!r}; {nearest(name, known)} Its options: {listed}")
        return super().__new__(cls)

    # --- what a task says ------------------------------------------------------------------------

    @abstractmethod
    def build(self) -> World:
        """The world, with everything in it. Called once; keep what ``world.add`` returns as attributes."""

    @abstractmethod
    def spawn(self) -> None:
        """Places everything. Before it, bodies rest at the origin and memory is at its start value."""

    @abstractmethod
    def observe(self) -> Mapping[str, Tensor]:
        """What the agents of each group see; ``{group: [B, A, d]}``."""

    @abstractmethod
    def rewards(self) -> Mapping[str, Tensor]:
        """What the step was worth to the agents of each group; ``{group: [B, A]}``, or ``[B, 1]`` where all get the same."""

    def over(self) -> Tensor | None:
        """Whether the task has ended; bool ``[B]``. None: it never does."""
        return None

    def info(self) -> Mapping[str, Mapping[str, Tensor]]:
        """What else is worth knowing about agents; ``{group: {name: [B, A] or [B, A, k]}}``."""
        return {}

    def shared_info(self) -> Mapping[str, Tensor]:
        """What else is worth knowing about a row; ``{name: [B] or [B, k]}``."""
        return {}

    def before_step(self) -> None:  # noqa: B027  (a hook: doing nothing is right)
        """Changes actions (``agents.u``) before they become forces, and moves scripted agents."""

    def after_step(self) -> None:  # noqa: B027
        """Runs when the world has moved and before the rewards."""

    # --- tools -----------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The world that :meth:`build` made; it is made on the first use."""
        if "_world" not in self.__dict__:
            self._world = self.build()
        return self._world

    @property
    def memory(self) -> Memory:
        """What ``world.remember`` declared, as attributes with the rows first; readable and writable."""
        return self.world.memory

    @property
    def rows(self) -> int:
        """How many rows there are: ``B``."""
        return self.world.stage.moment.rows

    @property
    def device(self) -> torch.device:
        """Where the rows live."""
        return self.world.stage.moment.rng.device

    def uniform(self, low: float | Tensor = 0.0, high: float | Tensor = 1.0, *shape: int) -> Tensor:
        """Random numbers in ``[low, high)``, different in each row; ``[B, *shape]``.

        ``low`` and ``high`` may be tensors that broadcast with the result.
        """
        unit = rows_first(self.world.stage.moment.rng.uniform(shape=shape, rows_last=True))
        return low + unit * (high - low)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers with mean 0 and variance 1, different in each row; ``[B, *shape]``."""
        return rows_first(self.world.stage.moment.rng.normal(shape=shape, rows_last=True))

    def randint(self, low: int, high: int, *shape: int) -> Tensor:
        """Random integers in ``[low, high)``, different in each row; int64 ``[B, *shape]``."""
        return rows_first(self.world.stage.moment.rng.randint(low, high, shape, rows_last=True))

    def permutation(self, n: int) -> Tensor:
        """The numbers ``0 .. n - 1`` in a random order, different in each row; int64 ``[B, n]``."""
        return self.world.stage.moment.rng.permutation(n)

    def zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Zeros; ``[B, *shape]``."""
        return torch.zeros((*shape, self.rows), dtype=dtype, device=self.device).movedim(-1, 0)

    def options(self) -> dict[str, Any]:
        """The options with their values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
