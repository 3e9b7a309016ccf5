"""Faults that wrappers could have, planted into them: a comparison with the raw simulator must notice each."""

from __future__ import annotations

from typing import Any

import pytest
import torch


def agents_are_swapped(env: Any, out: Any) -> None:
    """The first two agents get each other's data; rows where there are no agents."""
    dim = len(env.batch_size)
    for path in env.tree.groups if hasattr(env, "tree") else ():
        node = out.get(path)
        for name in list(node.keys(True, True)):
            node[name] = _swapped(node[name], dim)
    if not hasattr(env, "tree"):
        for name in list(out.keys(True, True)):
            out[name] = _swapped(out[name], 0)


def truncation_is_dropped(env: Any, out: Any) -> None:
    """Whatever ends an episode terminates it."""
    for name in _ending_with(out, "truncated"):
        where = name[:-1] if isinstance(name, tuple) else ()
        out[(*where, "terminated")] = out[(*where, "done")].clone()
        out[name] = torch.zeros_like(out[name])


def rewards_come_late(env: Any, out: Any) -> None:
    """Every step pays what the one before was worth."""
    held = env.__dict__.setdefault("_held_rewards", {})
    for name in _ending_with(out, "reward"):
        now, out[name] = out[name].clone(), held.get(name, torch.zeros_like(out[name]))
        held[name] = now


FAULTS = [agents_are_swapped, truncation_is_dropped, rewards_come_late]


def broken(cls: type[Any], fault: Any) -> type[Any]:
    """A class whose steps have a fault."""

    class Broken(cls):  # type: ignore[misc]
        def _step(self, tensordict: Any) -> Any:
            out = super()._step(tensordict)
            fault(self, out)
            return out

    return Broken


def is_noticed(compare: Any, *args: Any) -> None:
    """Whether a comparison fails at a number, and not for want of episodes."""
    with pytest.raises(AssertionError) as found:
        compare(*args)
    assert "ends" not in str(found.traceback[-1].statement), found.traceback[-1].statement


def _swapped(value: Any, dim: int) -> Any:
    order = torch.arange(value.shape[dim])
    order[:2] = torch.tensor([1, 0])
    return value.index_select(dim, order)


def _ending_with(out: Any, word: str) -> list[Any]:
    keys = list(out.keys(True, True))
    return [key for key in keys if (key if isinstance(key, str) else key[-1]) == word]
