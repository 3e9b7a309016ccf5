"""Tensordicts compared entry by entry: tensors bit for bit, and what is no tensor too."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.keys import NestedKey, nested
from marlenv.tensordicts import entries, is_nested, parts


def leaves(td: TensorDictBase) -> dict[NestedKey, Any]:
    """Every leaf of a tensordict by key: tensors, and what is no tensor as it was given.

    Inside a lazy stack the number of the part is one of the names: ``("agents", "1", "observation")``.

    >>> leaves(TensorDict({"a": {"x": torch.ones(2)}, "text": "e4"}, []))
    {('a', 'x'): tensor([1., 1.]), 'text': 'e4'}
    """
    found: dict[NestedKey, Any] = {}
    _collect(td, (), found)
    return found


def _collect(td: TensorDictBase, prefix: tuple[str, ...], found: dict[NestedKey, Any]) -> None:
    if (stacked := parts(td)) is not None:
        for i, part in enumerate(stacked):
            _collect(part, (*prefix, str(i)), found)
        return
    for name, value in entries(td):
        if is_nested(value):
            _collect(value, (*prefix, name), found)
        else:
            found[nested((*prefix, name))] = value if isinstance(value, Tensor) else _plain(value)


def _plain(value: Any) -> Any:
    """Non-tensor data without their wrapping."""
    return value.tolist() if hasattr(value, "tolist") else value


def same(a: Any, b: Any) -> bool:
    """Whether two leaves are equal bit for bit; NaN equals NaN."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return not isinstance(a, Tensor) and not isinstance(b, Tensor) and type(a) is type(b) and _equal(a, b)
    if a.is_nested or b.is_nested:
        return a.is_nested == b.is_nested and all(same(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True))
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    if a.is_meta:  # nothing is there to be compared
        return True
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())  # noqa: PLR0124
    return torch.equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    """Whether two objects are equal, arrays by all of their values."""
    found = a == b
    return bool(found.all()) if hasattr(found, "all") else bool(found)


def differences(a: TensorDictBase, b: TensorDictBase) -> list[str]:
    """The entries in which two tensordicts differ, or that one of them lacks.

    >>> differences(TensorDict({"x": torch.ones(1), "move": "e4"}), TensorDict({"x": torch.ones(1), "move": "d4"}))
    ['move']
    """
    ones, others = leaves(a), leaves(b)
    missing = sorted(str(k) for k in ones.keys() ^ others.keys())
    return missing + [str(k) for k, x in ones.items() if k in others and not same(x, others[k])]
