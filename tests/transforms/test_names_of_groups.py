"""Groups of agents renamed, chosen and left out; and entries put together that a reset does not give, or do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import Compose, ExcludeTransform, RenameTransform, TransformedEnv
from marlenv.errors import GroupError, ShapeError, SpecError
from marlenv.specs import Composite, Unbounded
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv

TEAMS = {"red": ["r0", "r1"], "blue": ["b0"]}
SEEN: list[Any] = [("red", "observation"), ("blue", "observation")]
REMEMBERING: dict[str, Callable[[], Any]] = {
    "sum": marlenv.RewardSum,
    "late": lambda: marlenv.ObservationDelay(1, SEEN),
    "count": lambda: marlenv.StepCounter(4),
    "stats": marlenv.RecordEpisodeStats,
}


def teams(root_flags: bool = True) -> GroupedEnv:
    return GroupedEnv(TEAMS, terminate={"r0": 3}, truncate={"b0": 5}, batch_size=[2], root_flags=root_flags)


def crimson() -> RenameTransform:
    return RenameTransform(["red"], ["crimson"], ["red"], ["crimson"])


def played(env: Any, steps: int = 7) -> TensorDict:
    def act(td: TensorDict) -> TensorDict:
        for key, leaf in env.full_action_spec.items(True, True):
            td.set(key, torch.full(leaf.shape, 0.5))
        return td

    env.check_env_specs()
    env.set_seed(3)
    data = env.rollout(steps, act, break_when_any_done=False)
    return data.exclude(*[key for key in data.keys(True, True) if key[-1][0] == "_" or key[0] == "_"])


def moved(td: TensorDict) -> TensorDict:
    """Data with the name of a group changed by hand."""
    after = td["next"].copy().set("crimson", td["next", "red"]).exclude("red")
    return td.exclude("next", "red").set("crimson", td["red"]).set("next", after)


def test_a_renamed_group_is_known_by_its_new_name() -> None:
    env = TransformedEnv(teams(), Compose(crimson(), marlenv.AgentIndex()))
    env.check_env_specs()
    assert env.group_map == {"crimson": ["r0", "r1"], "blue": ["b0"]}
    assert "red" not in env.reset().keys()
    alone = TransformedEnv(GroupedEnv(TEAMS), crimson())
    assert [*marlenv.to_pettingzoo_parallel(alone).reset()[0]] == ["r0", "r1", "b0"]
    want = played(TransformedEnv(teams(), marlenv.RegroupTransform({"all": ["r0", "b0", "r1"]})))
    again = played(TransformedEnv(teams(), Compose(crimson(), marlenv.RegroupTransform({"all": ["r0", "b0", "r1"]}))))
    assert not differences(again, want)


def test_the_groups_of_a_tree_move_with_the_level_above_them() -> None:
    base = GroupedEnv({"all": {"red": ["r0"], "blue": ["b0"]}, "others": ["x"]})
    env = TransformedEnv(base, RenameTransform(["all"], ["both"], ["all"], ["both"]))
    env.check_env_specs()
    assert env.group_map == {"both": {"red": ["r0"], "blue": ["b0"]}, "others": ["x"]}
    assert env.tree.place["b0"] == (("both", "blue"), 0)


@pytest.mark.parametrize("name", REMEMBERING)
@pytest.mark.parametrize("root_flags", [True, False])
def test_what_is_remembered_of_a_group_follows_it_to_its_new_name(name: str, root_flags: bool) -> None:
    plain = played(TransformedEnv(teams(root_flags), REMEMBERING[name]()))
    env = TransformedEnv(teams(root_flags), Compose(REMEMBERING[name](), crimson()))
    assert not differences(played(env), moved(plain))


@pytest.mark.parametrize("name", REMEMBERING)
def test_a_group_that_is_left_out_changes_nothing_of_the_others(name: str) -> None:
    plain = played(TransformedEnv(teams(), REMEMBERING[name]()))
    env = TransformedEnv(teams(), Compose(REMEMBERING[name](), ExcludeTransform("red")))
    data = played(env)
    assert not differences(data["next"].exclude("red"), plain["next"].exclude("red"))
    assert not [key for key in data["next"].keys(True, True) if key[0] == "red"]
    assert env.group_map == {"blue": ["b0"]}
    with pytest.raises(GroupError, match=r"unknown agents \['r0', 'r1'\]; known: \['b0'\]"):
        env.append_transform(marlenv.RegroupTransform({"all": ["r0", "r1", "b0"]}))


@pytest.mark.parametrize("keys", [(["red"], ["crimson"]), ([], [], ["red"], ["crimson"])])
def test_a_group_with_two_names_is_refused(keys: Any) -> None:
    with pytest.raises(SpecError, match=r"RenameTransform: 'red' is a group of agents, .* 'crimson' in in_keys"):
        TransformedEnv(teams(), RenameTransform(*keys))


@pytest.mark.parametrize("kept", [{}, {"keep_rewards": False, "keep_dones": False}])
def test_a_group_that_is_chosen_stays_whole(kept: Any) -> None:
    plain = played(teams())
    env = TransformedEnv(teams(), marlenv.SelectTransform("red", **kept))
    data = played(env)
    first = 3  # then the row ends, which without flags of the root it does not
    assert not differences(data[:, :first]["red"], plain[:, :first]["red"])
    assert not differences(data[:, :first]["next", "red"], plain[:, :first]["next", "red"])
    assert "observation" not in data.get(("next", "blue"), TensorDict()).keys()


class TwoRewards(CountingEnv):
    """Its observation as one reward, and 10 as another."""

    def __init__(self) -> None:
        super().__init__(4)
        self.reward_spec = Composite(r1=Unbounded((1,)), r2=Unbounded((1,)))

    def _step(self, tensordict: TensorDict) -> TensorDict:
        out = super()._step(tensordict).exclude("reward")
        return out.update({"r1": out["observation"].clone(), "r2": torch.full((1,), 10.0)})


@pytest.mark.parametrize("both", [
    lambda: marlenv.CatTensors(["r1", "r2"], "reward"),
    lambda: Compose(marlenv.Stack(["r1", "r2"], "reward"), marlenv.SqueezeTransform(-2, in_keys=["reward"])),
])  # fmt: skip
def test_rewards_are_put_together_where_a_reset_gives_none(both: Callable[[], Any]) -> None:
    env = TransformedEnv(TwoRewards(), both())
    env.check_env_specs()
    assert env.rollout(3)["next", "reward"].tolist() == [[1, 10], [2, 10], [3, 10]]
    env.append_transform(marlenv.LineariseRewards(["reward"], weights=[1.0, 0.5]))
    data = env.rollout(3)
    assert data["next", "reward"].tolist() == [[6], [7], [8]]
    stored = marlenv.CatTensors(["r1", "r2"], "reward")(TwoRewards().rollout(3))
    assert stored["next", "reward"].tolist() == [[1, 10], [2, 10], [3, 10]]


def test_what_cannot_be_stacked_is_refused_by_name() -> None:
    spec = Composite(a=Unbounded((1,)), b=Unbounded((2,)))
    base = CountingEnv()
    base.observation_spec = spec
    with pytest.raises(SpecError, match=r"Stack: the entries must have one shape, .* their shapes are \[\[1\], \[2\]"):
        TransformedEnv(base, marlenv.Stack(["a", "b"], "c", dim=-2))
    base.observation_spec = Composite(a=Unbounded((1,)), b=Unbounded((1,)))
    with pytest.raises(SpecError, match=r"Stack: .* -4 be a dimension of their stack"):
        TransformedEnv(base, marlenv.Stack(["a", "b"], "c", dim=-4))


def test_a_target_has_the_shape_of_the_rewards() -> None:
    with pytest.raises(ShapeError, match=r"TargetReturn: target_return must .* 'reward', \[2, 1\]; got \[3\]"):
        TransformedEnv(CountingEnv(3, batch_size=[2]), marlenv.TargetReturn(torch.tensor([5.0, 7.0, 6.0])))
    per_row = torch.tensor([[5.0], [7.0]], dtype=torch.float64)
    env = TransformedEnv(CountingEnv(3, batch_size=[2]), marlenv.TargetReturn(per_row))
    env.check_env_specs()
    assert env.rollout(2)["next", "target_return"].squeeze(-1).tolist() == [[4, 3], [6, 5]]
