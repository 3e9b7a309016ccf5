"""Where episodes are cut off at random, and what is recorded when they end, agent by agent."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import (
    Compose,
    RandomTruncationTransform,
    RecordEpisodeStats,
    StepCounter,
    TimeLimit,
    TransformedEnv,
)
from marlenv.errors import SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv


def test_random_limits_are_in_their_bounds_and_belong_to_rows() -> None:
    def played(rows: int) -> torch.Tensor:
        chain = Compose(StepCounter(), RandomTruncationTransform(4, 6, prob=0.5))
        env = TransformedEnv(CountingEnv(99, batch_size=[rows]), chain)
        env.set_seed(5)
        return env.rollout(60, break_when_any_done=False)["next"]

    many = played(40)
    lengths = many["step_count"][many["truncated"]]
    assert int(lengths.max()) == 6
    first = torch.stack([row["step_count"][row["truncated"]][0] for row in many.unbind(0)])
    later = torch.cat([row["step_count"][row["truncated"]][1:] for row in many.unbind(0)])
    assert set(first.tolist()) == {1, 2, 3, 4, 5, 6}
    assert set(later.tolist()) == {4, 5, 6}
    assert torch.equal(many["truncated"][:3], played(3)["truncated"])


def test_random_limits_reach_the_agents_as_other_limits_do() -> None:
    """Limits that are all 3, the first by hand; an agent terminates before, and one in the very step."""

    def played(*transforms: marlenv.Transform) -> tuple[TransformedEnv, TensorDict]:
        ends = {"agent_0": 2, "agent_1": 3}
        env = TransformedEnv(GroupedEnv(terminate=ends, rule="all", batch_size=[2]), Compose(*transforms))
        td = env.reset()
        td = td.set("_horizon", torch.full_like(td["_horizon"], 3)) if "_horizon" in td.keys() else td
        return env, env.rollout(7, tensordict=td, auto_reset=False, break_when_any_done=False)["next"]

    env, data = played(StepCounter(), RandomTruncationTransform(1, 3))
    want = played(TimeLimit(3))[1]
    flags = [("agents", name) for name in ("truncated", "terminated", "done")]
    for key in ["truncated", "terminated", "done", *flags]:
        assert torch.equal(data[key], want[key]), key
    assert data["agents", "truncated"][0, 2].flatten().tolist() == [False, True, True]
    env.check_env_specs()


def test_a_random_limit_may_go_into_a_union_of_another_name() -> None:
    chain = Compose(StepCounter(), RandomTruncationTransform(1, 1, done_key="over"))
    out = TransformedEnv(CountingEnv(2), chain).rollout(3)["next"]
    assert out["over"].flatten().tolist() == [True, True]
    assert out["done"].flatten().tolist() == [False, True]


def test_a_limit_that_cannot_be_drawn_is_refused_before_anything_is_played() -> None:
    with pytest.raises(SpecError, match=r"max_horizon must be an integer from 1 to 2147483648, got 2147483649"):
        RandomTruncationTransform(1, 2**31 + 1)
    TransformedEnv(CountingEnv(2), Compose(StepCounter(), RandomTruncationTransform(1, 2**31))).rollout(3)


def test_agents_that_live_when_an_episode_ends_are_recorded_with_it() -> None:
    """The first one that is done ends the episode of all; one that was not there has no record."""

    class Absent(GroupedEnv):
        def _reset(self, tensordict: TensorDict | None, **options: object) -> TensorDict:
            return self.without(super()._reset(tensordict, **options))

        def _step(self, tensordict: TensorDict) -> TensorDict:
            return self.without(super()._step(tensordict))

        def without(self, td: TensorDict) -> TensorDict:
            td["agents", "alive"][..., 2] = False
            return td

    def recorded(kind: type[GroupedEnv], **ends: dict[str, int]) -> TensorDict:
        env = TransformedEnv(kind(**ends, rule="any"), RecordEpisodeStats())
        env.set_seed(0)
        return env.rollout(4, break_when_any_done=False)["next", "agents"]

    data = recorded(GroupedEnv, truncate={"agent_0": 2})
    assert data["episode", "length"].squeeze(-1).tolist() == [[0, 0, 0], [2, 2, 2]] * 2
    assert data["episode", "outcome"].squeeze(-1).tolist() == [[0, 0, 0], [2, 2, 2]] * 2
    assert torch.allclose(data["episode", "return"][3], data["reward"][2:].sum(0))
    mixed = recorded(GroupedEnv, terminate={"agent_0": 2}, truncate={"agent_1": 2})
    assert mixed["episode", "outcome"][1].flatten().tolist()[:2] == [1, 2]  # their own
    absent = recorded(Absent, terminate={"agent_0": 2})
    assert absent["episode", "length"].squeeze(-1).tolist() == [[0, 0, 0], [2, 2, 0]] * 2


def test_an_agent_is_recorded_once_though_its_episode_goes_on() -> None:
    env = TransformedEnv(GroupedEnv(terminate={"agent_0": 1}, rule="all"), Compose(TimeLimit(3), RecordEpisodeStats()))
    record = env.rollout(3)["next", "agents", "episode"]
    assert record["length"].squeeze(-1).tolist() == [[1, 0, 0], [0, 0, 0], [0, 3, 3]]
    assert record["outcome"].squeeze(-1).tolist() == [[1, 0, 0], [0, 0, 0], [0, 2, 2]]
