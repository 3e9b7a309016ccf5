"""What VMAS's entities hold, under VMAS's names: positions and so on, rows first.

The values are those of the motion that the engine computed in the last step, ``[2, E, B]``, read when they are asked
for; what a scenario assigns, or writes into them, is taken over by the next step. A tensor that a scenario holds on to
never changes by a later step.

Positions are contiguous ``[B, 2]``, as VMAS's are: ``torch.linalg.vector_norm`` takes 16 times as long for others
(1,024 rows), and has another last bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marlenv.errors import NeedsReset, ShapeError


def in_row(index: int, new: Any, old: Tensor) -> Tensor:
    """``old`` ``[B, ...]`` with row ``index`` replaced, as a new tensor.

    >>> in_row(1, 0.0, torch.ones(3)).tolist()
    [1.0, 0.0, 1.0]
    """
    out = old.clone()
    out[index] = new
    return out


def emptied(x: Tensor, index: int | None) -> Tensor:
    """``x`` with zeros in row ``index``, or everywhere."""
    return torch.zeros_like(x) if index is None else in_row(index, 0, x)


class Rows(int):
    """How many rows there are, as a number that is known for that whatever else is as many."""


class Vectorized:
    """VMAS's ``TorchVectorizedObject``: something with ``B`` rows on a device."""

    who = ""
    """Whose it is, for messages."""

    def __init__(self, batch_dim: int | None = None, device: Any = None) -> None:
        self._batch_dim: Any = batch_dim
        self._device = device

    def __repr__(self) -> str:
        return self.who or type(self).__name__

    @property
    def batch_dim(self) -> Any:
        """How many rows, ``B``; settable once."""
        return None if self._batch_dim is None else Rows(self._batch_dim)

    @batch_dim.setter
    def batch_dim(self, batch_dim: int) -> None:
        if self._batch_dim is not None:
            raise ShapeError(f"{self}: it has {self._batch_dim} rows already; an entity belongs to one world")
        self._batch_dim = batch_dim

    @property
    def device(self) -> Any:
        """Where its tensors live."""
        return self._device

    @device.setter
    def device(self, device: Any) -> None:
        self._device = device

    def _check_batch_index(self, batch_index: int | None) -> None:
        if batch_index is not None and not 0 <= batch_index < self._batch_dim:
            raise IndexError(f"{self}: batch_index must be in [0, {self._batch_dim - 1}] or None, got {batch_index}")

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        self._device = device
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))

    def _accept(self, what: str, value: Any, width: int | None = None) -> Tensor:
        """A value that a scenario assigns, on our device; float32, as the engine computes."""
        if self._batch_dim is None:
            raise NeedsReset(f"{self}.{what}: add the entity to a world before setting its state")
        expected = f"[{self._batch_dim}, {width or '...'}]"
        if not isinstance(value, Tensor):
            raise TypeError(f"{self}.{what}: expected a tensor {expected}, got {type(value).__name__}")
        if not value.ndim or value.shape[0] != self._batch_dim or (width and value.shape[1:] != (width,)):
            raise ShapeError(f"{self}.{what}: expected {expected}, got {list(value.shape)}")
        if value.dtype == torch.float32 and value.device == torch.device(self._device):
            return value
        return value.to(self._device, torch.float32)


class _Held:
    """``pos``, ``vel``, ``rot`` or ``ang_vel`` of a state."""

    def __init__(self, width: int, doc: str) -> None:
        self.width, self.__doc__ = width, doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, state: EntityState | None, owner: type) -> Any:
        if state is None:
            return self
        x = state.values.get(self.name)
        if x is None and state.motion is not None:
            x = getattr(state.motion, self.name)[..., state.place, :]
            x = x.t().contiguous() if self.width == 2 else x.unsqueeze(-1)
            state.values[self.name], state.taken[self.name] = x, (x, x._version)
        return x

    def __set__(self, state: EntityState, value: Tensor) -> None:
        state.values[self.name] = state._accept(self.name, value, self.width)


class _Kept:
    """A quantity that is kept under VMAS's own name with an underscore, as it was assigned; None before that."""

    def __init__(self, doc: str, width: int | None = None) -> None:
        self.__doc__, self.width = doc, width

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.slot = name, f"_{name}"

    def __get__(self, holder: Vectorized | None, owner: type) -> Any:
        return self if holder is None else getattr(holder, self.slot)

    def __set__(self, holder: Vectorized, value: Tensor) -> None:
        setattr(holder, self.slot, holder._accept(self.name, value, self.width))


class EntityState(Vectorized):
    """Where a body is and how it moves, rows first."""

    NAMES = ("pos", "vel", "rot", "ang_vel")

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Tensor] = {}
        """What is known, rows first."""
        self.taken: dict[str, tuple[Tensor, int]] = {}
        """What of it was read from :attr:`motion`, with the versions that the tensors had then."""
        self.motion: Any = None
        """What the last step of the world gave; None before it, and for bodies that never move."""
        self.place = -1
        """The place in it."""

    pos = _Held(2, "Position ``[B, 2]``, metres.")
    vel = _Held(2, "Velocity ``[B, 2]``, metres per second.")
    rot = _Held(1, "Rotation ``[B, 1]``, radians.")
    ang_vel = _Held(1, "Angular velocity ``[B, 1]``, radians per second.")

    def moved(self, motion: Any, place: int) -> None:
        """Takes over where a step has brought the body."""
        self.motion, self.place = motion, place
        self.values, self.taken = {}, {}

    def clean(self, name: str) -> bool:
        """Whether a quantity is as the last step gave it: nothing was assigned, nothing written into it in place."""
        x = self.values.get(name)
        if self.motion is None or x is None:
            return self.motion is not None
        taken = self.taken.get(name)
        return taken is not None and taken[0] is x and taken[1] == x._version

    def _spawn(self, dim_c: int, dim_p: int) -> None:
        for name, width in (("pos", dim_p), ("vel", dim_p), ("rot", 1), ("ang_vel", 1)):
            setattr(self, name, torch.zeros(self._batch_dim, width, dtype=torch.float32, device=self._device))

    def _reset(self, env_index: int | None) -> None:
        for name in self.NAMES:
            setattr(self, name, emptied(getattr(self, name), env_index))

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        for name in self.NAMES:
            setattr(self, name, getattr(self, name).detach())

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        values = {name: getattr(self, name) for name in self.NAMES} if self._batch_dim is not None else {}
        super().to(device)
        self.motion = None
        self.values = {name: x.to(device) for name, x in values.items() if x is not None}
        self.taken = {}


class AgentState(EntityState):
    """The same of an agent, with what it says and with the force and torque of its action."""

    def __init__(self) -> None:
        super().__init__()
        self._c: Tensor | None = None
        self._force: Any = None
        self._torque: Any = None
        self.turned = False
        """Whether anybody has had a hand in the torque; else it is zero."""

    c = _Kept("What it said in the last step, ``[B, C]``; None for the silent.")
    force = _Kept("The force of its action, ``[B, 2]``, newtons.", 2)

    @property
    def torque(self) -> Any:
        """The torque of its action, ``[B, 1]``, newton metres."""
        self.turned = True  # whoever has it may write into it
        return self._torque

    @torque.setter
    def torque(self, value: Tensor) -> None:
        self.turned = True
        self._torque = self._accept("torque", value, 1)

    def _spawn(self, dim_c: int, dim_p: int) -> None:
        if dim_c:
            self.c = torch.zeros(self._batch_dim, dim_c, dtype=torch.float32, device=self._device)
        self._force = torch.zeros(self._batch_dim, dim_p, dtype=torch.float32, device=self._device)
        self._torque = torch.zeros(self._batch_dim, 1, dtype=torch.float32, device=self._device)
        super()._spawn(dim_c, dim_p)

    def _reset(self, env_index: int | None) -> None:
        if self._c is not None:
            self._c = emptied(self._c, env_index)
        self._force = emptied(self._force, env_index)
        self._torque = emptied(self._torque, env_index)
        self.turned = self.turned and env_index is not None
        super()._reset(env_index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        self._c = None if self._c is None else self._c.detach()
        self._force, self._torque = self._force.detach(), self._torque.detach()
        super().zero_grad()


class Action(Vectorized):
    """The action of an agent in this step."""

    def __init__(self, u_range: Any, u_multiplier: Any, u_noise: Any, action_size: int) -> None:
        super().__init__()
        self.u_range, self.u_multiplier, self.u_noise, self.action_size = u_range, u_multiplier, u_noise, action_size
        for name in ("u_range", "u_multiplier", "u_noise"):
            value = getattr(self, name)
            if isinstance(value, list) and len(value) != action_size:
                raise ShapeError(
                    f"Agent: {name} must be one number or a list of {action_size}, one for each of the action, "
                    f"got {value}"
                )
        self._u: Tensor | None = None
        self._c: Tensor | None = None
        self._tensors: dict[str, Tensor] = {}

    u = _Kept("The physical action, ``[B, n]``.")
    c = _Kept("What is said, ``[B, C]``.")

    @property
    def u_range_tensor(self) -> Tensor:
        """The range of every number of the action, ``[n]``."""
        return self._each("u_range")

    @property
    def u_multiplier_tensor(self) -> Tensor:
        """What every number of the action is multiplied by, ``[n]``."""
        return self._each("u_multiplier")

    @property
    def u_noise_tensor(self) -> Tensor:
        """The noise of every number of the action, ``[n]``."""
        return self._each("u_noise")

    def numbers(self, name: str) -> list[float]:
        """``u_range``, ``u_multiplier`` or ``u_noise``, one number for each of the action."""
        value = getattr(self, name)
        return [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)] * self.action_size

    def _each(self, name: str) -> Tensor:
        if name not in self._tensors:
            self._tensors[name] = torch.tensor(self.numbers(name), dtype=torch.float32, device=self._device)
        return self._tensors[name]

    def _reset(self, env_index: int | None) -> None:
        self._u = None if self._u is None else emptied(self._u, env_index)
        self._c = None if self._c is None else emptied(self._c, env_index)

    def zero_grad(self) -> None:
        """Cuts the graph of gradients."""
        self._u = None if self._u is None else self._u.detach()
        self._c = None if self._c is None else self._c.detach()

    def to(self, device: Any) -> None:
        """Moves its tensors."""
        self._tensors = {}
        super().to(device)
