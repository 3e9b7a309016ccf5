"""The same source text run twice: as it was written, for torchrl, and with the imports changed, for marlenv."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torchrl_oracle  # imported here so that the sources import it quietly
from tensordict import TensorDictBase, is_non_tensor, is_tensor_collection

__all__ = ["LIBRARIES", "assert_same_data", "assert_same_specs", "load", "ported", "twins"]

SOURCES = Path(__file__).parent / "drop_in"
LIBRARIES = ("torchrl", "marlenv")
assert torchrl_oracle


def ported(source: str) -> str:
    """The text with its torchrl imports changed to marlenv's."""
    return re.sub(r"from torchrl[\w.]* import", "from marlenv import", source)


@cache
def load(name: str, library: str) -> Any:
    """The names that a source file of ``drop_in`` defines, in one of the two libraries."""
    source = (SOURCES / f"{name}.py").read_text()
    scope: dict[str, Any] = {"__name__": f"{name}_for_{library}"}
    exec(compile(ported(source) if library == "marlenv" else source, f"{name}.py ({library})", "exec"), scope)
    return SimpleNamespace(**scope)


def twins(name: str, make: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """An env of ``drop_in`` made in both libraries: torchrl's, then ours."""
    theirs, ours = (getattr(load(name, library), make)(*args, **kwargs) for library in LIBRARIES)
    return theirs, ours


def assert_same_data(theirs: Any, ours: Any, where: tuple[str, ...] = ()) -> None:
    """Asserts that two tensordicts have the same keys, shapes, dtypes, names and values (NaN equals NaN)."""
    if is_non_tensor(theirs):
        assert is_non_tensor(ours), (where, type(ours))
        assert theirs.tolist() == ours.tolist(), (where, theirs, ours)
        return
    if not is_tensor_collection(theirs):
        if isinstance(theirs, torch.Tensor):
            assert isinstance(ours, torch.Tensor), (where, type(ours))
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), (where, ours.shape, theirs.shape)
            assert torch.equal(theirs.isnan(), ours.isnan()), where
            assert torch.equal(theirs.nan_to_num(), ours.nan_to_num()), (where, theirs, ours)
        else:
            assert theirs == ours, where
        return
    assert isinstance(ours, TensorDictBase) or is_tensor_collection(ours), (where, type(ours))
    assert ours.batch_size == theirs.batch_size, (where, ours.batch_size, theirs.batch_size)
    assert ours.names == theirs.names, (where, ours.names, theirs.names)
    assert set(ours.keys()) == set(theirs.keys()), (where, sorted(ours.keys()), sorted(theirs.keys()))
    for key in theirs.keys():
        assert_same_data(theirs.get(key), ours.get(key), (*where, key))


def assert_same_specs(theirs: Any, ours: Any, where: tuple[str, ...] = ()) -> None:
    """Asserts that two specs have the same entries, shapes, dtypes and kinds."""
    if hasattr(theirs, "keys"):
        assert tuple(ours.shape) == tuple(theirs.shape), (where, ours.shape, theirs.shape)
        assert set(ours.keys()) == set(theirs.keys()), (where, list(ours), list(theirs))
        for key in theirs.keys():
            assert_same_specs(theirs[key], ours[key], (*where, key))
        return
    assert (tuple(ours.shape), ours.dtype) == (tuple(theirs.shape), theirs.dtype), where
    kinds = {"UnboundedContinuous": "Unbounded", "UnboundedDiscrete": "Unbounded", "BoundedContinuous": "Bounded"}
    kinds |= {"BoundedDiscrete": "Bounded"}
    kind = type(theirs).__name__
    assert type(ours).__name__ == kinds.get(kind, kind), where
