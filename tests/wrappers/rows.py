"""Laws of wrappers of batched simulators: every row of every entry is what the raw simulator says, copies and states go
on as the env does; and how to be without a simulator that is installed.
"""

from __future__ import annotations

import copy
import pickle
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


def copies_go_on(env: Any, td: Any) -> None:
    """A copy, for which nothing is compiled again, and one out of a pickle step and reset as their env does."""
    copied, unpickled = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    assert copied._functions is env._functions
    step, anew = env.step(td.clone()), env.reset()
    for twin in (copied, unpickled):
        assert twin._env is not env._env
        assert bool((twin.step(td.clone()) == step).all())
        assert bool((twin.reset() == anew).all())


def state_is_a_value(env: Any) -> None:
    """What follows on a state follows on it again."""
    td = env.step_mdp(env.rand_step(env.reset()))
    state, action = env.get_state(), env.rand_action(td.clone()).select(*env.action_keys)
    first = env.step(action.clone())["next"]
    second = env.step(env.set_state(state).update(action))["next"]
    assert bool((first == second).all())


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
