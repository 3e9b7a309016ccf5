"""The forms that data of a batch of worlds must have, ``[B, ...]``, and the errors of data that have others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.errors import DtypeError, KeyMissing, MarlenvError, ShapeError, SpecError, nearest
from marlenv.groups.side_by_side import COLUMNS
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.specs import Composite, NonTensor, StackedComposite, TensorSpec
from marlenv.specs.shapes import fits
from marlenv.wrappers._answers import unlike

Form = Any
"""A shape, batch included, and a dtype; a dict of forms for what is nested; None for what is not looked at."""
ROOT = "the root"
REST = "data of agents that have left are needed, too (such as zeros)"


class Place(NamedTuple):
    """Where an entry stands, for messages."""

    where: str
    """The wrapper and its method."""
    whose: str
    """The agent, or the root."""
    path: Path = ()

    def inside(self, name: str) -> Place:
        return self._replace(path=(*self.path, name))

    def __str__(self) -> str:
        what = self.whose if not self.path else f"{nested(self.path)!r} of {self.whose}"
        return f"{self.where}: {what}"


def forms(specs: Mapping[str, TensorSpec] | Composite, batch: Size) -> dict[str, Form]:
    """The forms of entries whose specs have no batch dimensions."""
    return {name: form(spec, batch) for name, spec in specs.items()}


def form(spec: TensorSpec, batch: Size) -> Form:
    """The form of one entry."""
    if isinstance(spec, StackedComposite | NonTensor) or (not isinstance(spec, Composite) and spec.dtype is None):
        return None
    return forms(spec, batch) if isinstance(spec, Composite) else (Size((*batch, *spec.shape)), spec.dtype)


def fitted(place: Place, wanted: Mapping[str, Form], got: Any) -> dict[str, Any]:
    """Entries in their forms; raises for those that are missing or too many, and for those that have others."""
    if not isinstance(got, Mapping):
        raise unlike(str(place), f"a dict of {sorted(wanted)}", got, "be")
    if got.keys() != wanted.keys():
        raise _wrong_names(place, wanted, got)
    return {name: entry(place, name, one, got[name]) for name, one in wanted.items()}


def entry(place: Place, name: str, wanted: Form, value: Any) -> Any:
    """An entry in its form; looked at closely only where it has another."""
    found = plain(wanted, value, column=name in COLUMNS and not place.path)
    return fitted_value(place.inside(name), wanted, value) if found is None else found


def plain(wanted: Form, value: Any, *, column: bool = False) -> Tensor | None:
    """A tensor that has its form, as most do; None for what is to be looked at.

    Args:
        wanted: its form.
        value: to look at.
        column: whether numbers ``[B]`` get a dimension of their own.
    """
    if type(wanted) is not tuple or type(value) is not Tensor or value.dtype is not wanted[1]:
        return None
    if value.shape == wanted[0]:
        return value
    value = value.unsqueeze(-1) if column and value.ndim == 1 else value
    return value if value.shape == wanted[0] else None


def fitted_value(place: Place, wanted: Form, value: Any) -> Any:
    """One entry in its form."""
    if wanted is None:
        return value
    if isinstance(wanted, dict):
        return fitted(place, wanted, value)
    shape, dtype = wanted
    value = _tensor(place, value)
    if value.ndim == 1 and len(place.path) == 1 and place.path[0] in COLUMNS:
        value = value.unsqueeze(-1)
    if value.shape != shape and not (value.ndim == len(shape) and fits(value.shape, shape)):
        raise _wrong_shape(place, value, shape)
    if value.dtype != dtype:
        if not holds(dtype, value.dtype):
            raise DtypeError(f"{place} must be {dtype}, got {value.dtype}")
        value = value.to(dtype)
    return value


def filled(
    place: Place, wanted: Mapping[str, Form], blank: Mapping[str, Any], got: Any, device: torch.device | None
) -> dict[str, Any]:
    """Infos in their forms, with blanks for what is missing; numbers may have a dimension of their own or not."""
    out: dict[str, Any] = {}
    got = {} if got is None else got
    if not isinstance(got, Mapping):
        raise unlike(str(place), "a dict of infos", got, "be")
    for name, one in wanted.items():
        if (found := plain(one, got.get(name), column=True)) is not None:
            out[name] = found
            continue
        value, there = got.get(name), place.inside(name)
        if one is None:
            out[name] = value
        elif isinstance(one, dict):
            out[name] = filled(there, one, blank[name], value, device)
        elif value is None:
            out[name] = blank[name].to(device).expand(one[0]).clone()
        else:
            value, shape = _tensor(there, value), one[0]
            if value.shape[:1] == shape[:1] and _sides(value.shape) == _sides(shape):
                value = value.reshape(shape)
            out[name] = fitted_value(there, one, value)
    return out


def _sides(shape: Size) -> list[int]:
    """How long what stands in a row is in each of its directions."""
    return [n for n in shape[1:] if n != 1]


def holds(dtype: torch.dtype, given: torch.dtype) -> bool:
    """Whether numbers of one dtype may be written as numbers of another: floats round.

    >>> holds(torch.float32, torch.int64), holds(torch.float32, torch.float64), holds(torch.int64, torch.uint8)
    (True, True, True)
    >>> holds(torch.bool, torch.int64), holds(torch.uint8, torch.int64), holds(torch.int64, torch.float32)
    (False, False, False)
    """
    return (dtype.is_floating_point and not given.is_complex) or torch.promote_types(dtype, given) == dtype


def _tensor(place: Place, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise unlike(str(place), "a tensor [B, ...]", value, "be")
    return value


def _wrong_shape(place: Place, value: Tensor, shape: Size) -> ShapeError:
    return ShapeError(f"{place} must have shape {list(shape)}, batch included, got {list(value.shape)}")


def _wrong_names(place: Place, wanted: Mapping[str, Form], got: Mapping[str, Any]) -> MarlenvError:
    who = f"{place.where}: {place.whose}"
    if missing := [name for name in wanted if name not in got]:
        entry = nested((*place.path, missing[0]))
        return KeyMissing(f"{who} has no {entry!r}; all rows of every entry are needed each time; {REST}")
    name = next(name for name in got if name not in wanted)
    if name == "reward" and not place.path:
        return SpecError(f"{who} got a reward, and there are none in a reset")
    if name in DONE_NAMES and not place.path:
        return SpecError(f"{who} got {name!r}; agents have flags of their own where agents_end = True")
    declared = "root_specs does" if place.whose == ROOT else "its AgentSpecs do"
    return SpecError(
        f"{who} got {nested((*place.path, name))!r}, which {declared} not declare; {nearest(name, wanted)}; declare "
        f"it, or leave it out"
    )
