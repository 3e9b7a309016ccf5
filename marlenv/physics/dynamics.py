"""What an action does to the body of an agent: actions in, force and torque out.

``u`` is ``[n, A, B]`` here (numbers of the action, agents of the group, rows), a force ``[2, A, B]`` in newtons, a torque
``[A, B]`` in newton metres.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

if TYPE_CHECKING:
    from marlenv.physics.state import Bodies


@dataclass(frozen=True)
class Dynamics(ABC):
    """How the numbers of an action become a force and a torque; shared by the agents of a group."""

    size: ClassVar[int]
    """How many numbers of the action it reads; further ones are the scenario's affair."""

    @abstractmethod
    def drive(self, u: Tensor, agents: Bodies) -> tuple[Tensor | None, Tensor | None]:
        """The force and the torque of this step; None for none.

        Args:
            u: ``[n, A, B]``, n at least :attr:`size`.
            agents: the group, as it stands before the step.

        """


@dataclass(frozen=True)
class Holonomic(Dynamics):
    """The action is the force, in any direction."""

    size: ClassVar[int] = 2

    def drive(self, u: Tensor, agents: Bodies) -> tuple[Tensor | None, Tensor | None]:
        """The first two numbers."""
        return u[:2], None


@dataclass(frozen=True)
class HolonomicWithRotation(Dynamics):
    """The action is the force and the torque."""

    size: ClassVar[int] = 3

    def drive(self, u: Tensor, agents: Bodies) -> tuple[Tensor | None, Tensor | None]:
        """The first two numbers, and the third."""
        return u[:2], u[2]


@dataclass(frozen=True)
class Rotation(Dynamics):
    """The action is the torque; nothing pushes the agent."""

    size: ClassVar[int] = 1

    def drive(self, u: Tensor, agents: Bodies) -> tuple[Tensor | None, Tensor | None]:
        """The first number."""
        return None, u[0]


@dataclass(frozen=True)
class Static(Dynamics):
    """The action does nothing to the body."""

    size: ClassVar[int] = 0

    def drive(self, u: Tensor, agents: Bodies) -> tuple[Tensor | None, Tensor | None]:
        """Neither force nor torque."""
        return None, None
