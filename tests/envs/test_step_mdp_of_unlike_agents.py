"""``step_mdp`` of a group whose agents act unlike and observe alike: each keeps its own action."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict

from marlenv import step_mdp


def test_actions_of_other_sizes_stay_with_their_agents() -> None:
    agents = [TensorDict({"action": torch.full((n,), float(n)), "observation": torch.zeros(2)}, []) for n in (2, 3)]
    group = TensorDict({"observation": torch.ones(2, 2)}, [2])
    td = TensorDict({"a": LazyStackedTensorDict(*agents, stack_dim=0), "next": {"a": group}}, [])
    out = step_mdp(td)
    for n, one in zip((2, 3), out["a"].unbind(0), strict=True):
        assert one["action"].tolist() == [n] * n
        assert one["observation"].tolist() == [1, 1]
    assert td["next", "a"] is not out["a"]
    assert isinstance(td["next", "a"], TensorDict)


def test_actions_of_other_sizes_alone_are_taken_as_torchrl_takes_them() -> None:
    """With keep_other=False a Python list of tensors stood in the data as if it were an entry."""
    agents = [TensorDict({"action": torch.full((n,), float(n)), "other": torch.zeros(2)}, []) for n in (2, 3)]
    group = TensorDict({"observation": torch.ones(2, 2)}, [2])
    root = {"a": LazyStackedTensorDict(*agents, stack_dim=0), "b": LazyStackedTensorDict(*agents, stack_dim=0)}
    td = TensorDict({**root, "next": {"a": group}}, [])
    keys: list[Any] = [("a", "action"), ("b", "action")]
    out = step_mdp(td, keep_other=False, exclude_action=False, action_keys=keys)
    for name, seen in (("a", {"action", "observation"}), ("b", {"action"})):
        assert isinstance(out[name], LazyStackedTensorDict)
        for n, one in zip((2, 3), out[name].unbind(0), strict=True):
            assert set(one.keys()) == seen
            assert one["action"].tolist() == [n] * n
    assert isinstance(td["next", "a"], TensorDict)
    theirs = pytest.importorskip("torchrl.envs.utils").step_mdp(
        td, keep_other=False, exclude_action=False, action_keys=keys
    )
    for mine, other in zip(out["a"].unbind(0), theirs["a"].unbind(0), strict=True):
        assert mine["action"].equal(other["action"])
