"""``step_mdp`` of a group whose agents act unlike and observe alike: each keeps its own action."""

from __future__ import annotations

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
