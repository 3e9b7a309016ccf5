"""Envs of one's own whose specs are nested by group."""

from __future__ import annotations

import pytest
import torch
from marlenv.groups import GroupTree
from tensordict import TensorDict

from marlenv import Bounded, Composite, EnvBase, SerialEnv, StepCounter, TransformedEnv, Unbounded
from marlenv.errors import GroupError
from marlenv.testing.contract import run_contract

MAP = {"a": ["x", "y"]}


class Own(EnvBase):
    """A group of two; told its groups by an argument, or by an attribute."""

    def __init__(self, group_map=MAP, by_argument=True) -> None:
        super().__init__(**({"group_map": group_map} if by_argument else {}))
        if not by_argument:
            self.group_map = group_map
        level = lambda **entries: Composite(a=Composite(entries, shape=(2,)))  # noqa: E731
        self.observation_spec = level(observation=Unbounded((2, 3)))
        self.action_spec = level(action=Bounded(-1, 1, (2, 1)))
        self.reward_spec = level(reward=Unbounded((2, 1)))

    def _reset(self, tensordict):
        return TensorDict({"a": TensorDict({"observation": torch.zeros(2, 3)}, [2])})

    def _step(self, tensordict):
        acted = tensordict["a", "action"]
        return TensorDict(
            {
                "a": TensorDict({"observation": acted.repeat(1, 3), "reward": acted.clone()}, [2]),
                "done": torch.zeros(1) > 0,
            }
        )

    def _set_seed(self, seed) -> None: ...


@pytest.mark.parametrize("by_argument", [True, False])
def test_the_tree_follows_from_the_map(by_argument: bool) -> None:
    for env in (
        Own(by_argument=by_argument),
        TransformedEnv(Own(by_argument=by_argument), StepCounter()),
        SerialEnv(2, Own, create_env_kwargs={"by_argument": by_argument}),
    ):
        assert env.group_map == MAP
        assert env.tree == GroupTree(MAP)
    assert {r.verdict for r in run_contract(lambda: Own(by_argument=by_argument))} <= {"held", "skipped"}


def test_a_map_that_the_specs_do_not_follow_breaks_the_contract() -> None:
    for wrong, says in (({"a": ["x"]}, "group 'a' has 1 agents"), ({"b": ["x", "y"]}, "group 'b' is in no spec")):
        broken = [r.says for r in run_contract(lambda wrong=wrong: Own(wrong)) if r.verdict == "broken"]
        assert any(says in one for one in broken), broken


def test_a_map_that_is_none_is_refused() -> None:
    with pytest.raises(GroupError, match="agent names must be unique|more than one place"):
        Own({"a": ["x"], "b": ["x"]})
