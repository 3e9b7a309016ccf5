"""What a file says of an agent, checked: tensors of all rows, of the shapes and under the names that they had first."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.errors import ShapeError


class Form(NamedTuple):
    """A value of an agent, without rows."""

    shape: torch.Size
    dtype: torch.dtype


def form_of(*values: Any) -> Any:
    """The form of a value, or of nested dicts of them; of several, all names together, in dtypes that hold all.

    >>> form_of({"speed": torch.zeros(3)}, {"near": torch.zeros(3, 2)})["near"].shape
    torch.Size([2])
    """
    first = values[0]
    if isinstance(first, Tensor):
        dtypes = [value.dtype for value in values if isinstance(value, Tensor)]
        return Form(first.shape[1:], functools.reduce(torch.promote_types, dtypes))
    names = dict.fromkeys(name for value in values if isinstance(value, Mapping) for name in value)
    return {
        name: form_of(*(value[name] for value in values if isinstance(value, Mapping) and name in value))
        for name in names
    }


def own(value: Any, form: Any, rows: int, who: str, *, all_names: bool) -> Any:
    """A tensor, or nested dicts of them, in memory of its own: the next agent's turn may change it.

    Args:
        value: what came.
        form: what is expected; None for anything.
        rows: how many rows there are, ``B``.
        who: for messages.
        all_names: whether no name of a dict may be missing.

    Raises:
        ShapeError: it is something else.

    """
    if isinstance(value, Mapping) and (form is None or isinstance(form, dict)):
        _check_names(value, form, who, all_names)
        return {
            name: own(one, None if form is None else form[name], rows, f"{who}[{name!r}]", all_names=all_names)
            for name, one in value.items()
        }
    if isinstance(value, Tensor) and value.ndim and value.shape[0] == rows:
        if form is None or form == (value.shape[1:], value.dtype):
            return value.clone()
        alike = isinstance(form, Form) and (value.shape[1:] or (1,)) == (form.shape or (1,))
        if alike and torch.can_cast(value.dtype, form.dtype):
            return value.to(form.dtype, copy=True)
    raise ShapeError(f"{who}: expected {_expected(form, rows)}, got {_got(value)}")


def _check_names(value: Mapping[str, Any], form: Any, who: str, all_names: bool) -> None:
    if form is None:
        return
    more = [name for name in value if name not in form]
    less = [name for name in form if name not in value] if all_names else []
    if more or less:
        raise ShapeError(
            f"{who}: expected the names {list(form)}, as after the first reset and a first step, got "
            f"{list(value)}; let it say all of its names from the first reset on"
        )


def _expected(form: Any, rows: int) -> str:
    if form is None:
        return f"a tensor [B, ...] with B = {rows}, or a dict of them"
    if isinstance(form, dict):
        return f"a dict with the names {list(form)}, as before"
    return f"{str(form.dtype)[6:]} {['B', *form.shape]} with B = {rows}, as before".replace("'B'", "B")


def _got(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype)[6:]} {list(value.shape)}"
    if isinstance(value, Mapping):
        return f"a dict with the names {list(value)}"
    return f"{type(value).__name__} {value!r}" if isinstance(value, (int, float)) else type(value).__name__
