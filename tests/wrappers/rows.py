"""The law of wrappers of batched simulators: every row of every entry is what the raw simulator says; and how to be
without a simulator that is installed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch


def entry_of(env: Any, td: Any, agent: str, entry: Any) -> Any:
    """An agent's column of an entry, ``[B, ...]``."""
    path, i = env.tree.place[agent]
    group = td.get(path if len(path) > 1 else path[0])
    return group[:, i].get(entry)


def equal(got: torch.Tensor, want: Any, where: Any) -> None:
    want = np.asarray(want)
    got_array = got.numpy()
    assert np.array_equal(
        got_array, want.reshape(got_array.shape).astype(got_array.dtype), equal_nan=got_array.dtype.kind == "f"
    ), (where, got, want)


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes a package one that is not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without(package), *sys.meta_path])


class _Without:
    """Finds no module of a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
