"""What a scenario remembers from step to step."""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.constants import Constants
from marlenv.errors import DtypeError, KeyMissing, nearest
from marlenv.physics.laws.state import Stage, as_tensor, fitted
from marlenv.physics.maths.views import rows_first, rows_last


class Memory:
    """What a scenario remembers from step to step, as attributes with the rows first. It is a part of the state.

    Every name is declared with its start value in ``build``: ``world.remember(gap=0.0, eaten=torch.zeros(4,
    dtype=torch.bool))``.
    """

    _stage: Stage
    _starts: Constants

    def __init__(self, stage: Stage, starts: Constants) -> None:
        object.__setattr__(self, "_stage", stage)
        object.__setattr__(self, "_starts", starts)

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._starts:
            raise AttributeError(self._unknown(name))
        return rows_first(self._stage.moment.state[f"memory.{name}"])

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._starts:
            raise KeyMissing(self._unknown(name))
        moment = self._stage.moment
        start = self._starts.on(name, moment.rng.device)
        _check_dtype(value, start.dtype, f"memory.{name}", "remember")
        x = as_tensor(value, start)
        x = fitted(x, (moment.rows, *start.shape), f"memory.{name}")
        moment.state[f"memory.{name}"] = rows_last(x).to(start.dtype).contiguous()

    def _unknown(self, name: str) -> str:
        declare = f"declare it in build with world.remember({name}=...)"
        return f"nothing called {name!r} is remembered; {declare}; {nearest(name, self._starts)}"


class Notes:
    """What a scenario notes for the rest of a step, as attributes with the rows first; it is not a part of the state.

    Every name is declared with the value that it has while nothing is noted: ``world.note(pos_rew=0.0)``.
    """

    _stage: Stage
    _blanks: Constants

    def __init__(self, stage: Stage, blanks: Constants) -> None:
        object.__setattr__(self, "_stage", stage)
        object.__setattr__(self, "_blanks", blanks)

    def __contains__(self, name: object) -> bool:
        """Whether something was noted in this step, or since the reset that is going on."""
        return name in self._stage.moment.notes

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._blanks:
            raise AttributeError(self._unknown(name))
        moment = self._stage.moment
        if name in moment.notes:
            return moment.notes[name]
        blank = self._blanks.on(name, moment.rng.device)
        return blank.unsqueeze(-1).expand(*blank.shape, moment.rows).movedim(-1, 0)

    def __setattr__(self, name: str, value: Tensor) -> None:
        if name not in self._blanks:
            raise KeyMissing(self._unknown(name))
        dtype = self._blanks[name].dtype
        _check_dtype(value, dtype, f"notes.{name}", "note")
        self._stage.moment.notes[name] = value.to(dtype)

    def _unknown(self, name: str) -> str:
        declare = f"declare it in build with world.note({name}=...)"
        return f"nothing called {name!r} is noted; {declare}; {nearest(name, self._blanks)}"


def _check_dtype(value: object, declared: torch.dtype, who: str, call: str) -> None:
    """Raises where an entry of a dtype, declared by a call of the world, cannot hold what is written to it."""
    if not isinstance(value, Tensor):
        if declared.is_floating_point:  # it holds whatever Python counts with
            return
        value = torch.tensor(value, device="cpu")
    if value.dtype is not declared and not torch.can_cast(value.dtype, declared):
        kept, got = (str(dtype).removeprefix("torch.") for dtype in (declared, value.dtype))
        start = torch.zeros((), dtype=value.dtype, device="cpu").item()
        remedy = f"world.{call}({who.partition('.')[2]}=torch.tensor({start}))"
        raise DtypeError(f"{who}: declared {kept}, got {got}; declare it with {remedy}")
