"""Done flags at branches of the tree, and none at the root: under other groups they are about the same agents."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv import Binary, Bounded, Composite, EnvBase, RegroupTransform, TransformedEnv, Unbounded
from marlenv.errors import GroupError

ENDS = {"red": ("x", 2), "blue": ("y", 100)}  # the one group of each branch, and after how many steps it ends


def _both(leaf: Unbounded | Bounded, name: str) -> Composite:
    parts = {
        top: Composite({sub: Composite({name: leaf.clone()}, shape=[1])}, shape=[]) for top, (sub, _) in ENDS.items()
    }
    return Composite(parts, shape=[])


class Halves(EnvBase):
    """``red/x`` has the agent a, ``blue/y`` the agent b; they see how many steps ago their branch began."""

    def __init__(self) -> None:
        super().__init__()
        self.group_map = {"red": {"x": ["a"]}, "blue": {"y": ["b"]}}
        self.full_observation_spec = _both(Unbounded((1, 1)), "observation")
        self.full_action_spec = _both(Bounded(-1, 1, (1, 1)), "action")
        self.full_reward_spec = _both(Unbounded((1, 1)), "reward")
        flags = {name: Binary(shape=(1,), dtype=torch.bool) for name in ("done", "terminated")}
        self.full_done_spec = Composite({top: Composite(flags).clone() for top in ENDS})
        self.steps = dict.fromkeys(ENDS, 0)

    def _data(self, **more: Tensor) -> TensorDict:
        data = {}
        for top, (sub, end) in ENDS.items():
            group = TensorDict({"observation": torch.full((1, 1), float(self.steps[top])), **more}, [1])
            data[top] = TensorDict({sub: group, "terminated": torch.tensor([self.steps[top] >= end])}, [])
        return TensorDict(data, [])

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        for top in ENDS:
            mask = None if tensordict is None else tensordict.get((top, "_reset"), None)
            if mask is None or bool(mask):
                self.steps[top] = 0
        return self._data()

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self.steps = {top: count + 1 for top, count in self.steps.items()}
        return self._data(reward=torch.ones(1, 1))

    def _set_seed(self, seed: int | None) -> None:
        pass


@pytest.mark.parametrize(
    ("groups", "places"),
    [
        ({"all": ["a", "b"]}, [("all", 0), ("all", 1)]),
        ({"red": {"z": ["a"]}, "blue": {"y": ["b"]}}, [(("red", "z"), 0), (("blue", "y"), 0)]),
        ({"one": ["b"], "two": ["a"]}, [("two", 0), ("one", 0)]),
    ],
    ids=["one group", "another name below", "elsewhere"],
)  # fmt: skip
def test_flags_that_stay_decide_about_the_agents_that_they_are_about(groups, places) -> None:
    data = TransformedEnv(Halves(), RegroupTransform(groups)).rollout(6, break_when_any_done=False)
    seen = [data[group]["observation"][:, row].flatten().tolist() for group, row in places]
    assert seen == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    "groups",
    [{"blue": {"x": ["a"]}, "red": {"y": ["b"]}}, {"red": {"x": ["a"], "y": ["b"]}}, {"blue": {"x": ["b", "a"]}}],
    ids=["exchanged", "one more", "both in the other"],
)  # fmt: skip
def test_flags_that_stay_above_other_agents_are_refused(groups) -> None:
    """Data of agents were merged after a reset by the flags of the others: a saw 0, 1, 2, 1, 2, 1."""
    with pytest.raises(GroupError, match=r"done flags stand at '(red|blue)', and are about \['[ab]'\]; below it the"):
        TransformedEnv(Halves(), RegroupTransform(groups))
