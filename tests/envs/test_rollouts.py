"""Rollouts: where they stop, what they keep, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict
from twin_envs import assert_same_data, load, twins

from marlenv import Composite, EnvBase, SerialEnv, Unbounded, check_env_specs, make
from marlenv.errors import DeviceError, KeyMissing, ResetError, ShapeError, SpecError, Unsupported
from marlenv.testing.mocks import CountingEnv, GroupedEnv, UnevenEnv


def counts(rollout):
    return rollout["next", "observation"].squeeze(-1).tolist()


def test_time_is_the_last_batch_dimension_and_has_a_name():
    rollout = CountingEnv(batch_size=[2]).rollout(3)
    assert (rollout.shape, rollout.names) == (torch.Size([2, 3]), [None, "time"])


def test_it_stops_when_any_row_is_done():
    assert counts(CountingEnv(max_steps=2, batch_size=[2]).rollout(9)) == [[1, 2], [1, 2]]


def test_it_goes_on_when_asked_to():
    rollout = CountingEnv(max_steps=2, batch_size=[2]).rollout(6, break_when_any_done=False)
    assert counts(rollout) == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3]]
    assert rollout["observation"].squeeze(-1).tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(
    "how", [{"break_when_any_done": True}, {"break_when_any_done": False}, {"break_when_all_done": True}]
)
def test_it_has_the_length_asked_for(steps, how):
    assert CountingEnv(max_steps=9).rollout(steps, **how).shape == (steps,)


@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}, {"break_when_all_done": True}], ids=str)
def test_the_callback_sees_every_step(how):
    seen = []
    rollout = CountingEnv(max_steps=3).rollout(3, callback=lambda env, td: seen.append(td.clone()), **how)
    assert len(seen) == 3
    assert (torch.stack(seen) == rollout).all()


def test_given_actions_are_played():
    env = CountingEnv()
    actions = torch.linspace(-1, 1, 4).unsqueeze(-1)
    for given in (list(actions), actions, actions.numpy(), TensorDict({"action": actions}, [4])):
        assert torch.equal(env.rollout(9, actions=given)["action"], actions)
    data = [TensorDict({"action": a}, []) for a in actions]
    assert torch.equal(env.rollout(3, actions=iter(data))["action"], actions[:3])
    with pytest.raises(ValueError, match=r"CountingEnv.rollout: the actions ran out before max_steps"):
        env.rollout(9, actions=iter(data))
    with pytest.raises(ValueError, match=r"give a policy or actions, not both"):
        env.rollout(9, policy=lambda td: td, actions=data)
    for wrong in ("left", 1, torch.zeros(2, 3), TensorDict({"action": torch.zeros(2)}, [2])):
        with pytest.raises(
            ShapeError, match=r"CountingEnv.rollout: actions of step 1: expected a tensordict, or a .*got"
        ):
            CountingEnv(batch_size=[4]).rollout(9, actions=[torch.zeros(4, 1), wrong])
    with pytest.raises(
        ShapeError, match=r"actions of step 0: .* for \('agents', 'action'\) of shape \[3, 3, 2\], got 1"
    ):
        GroupedEnv(batch_size=[3]).rollout(9, actions=[1])


def test_compact_rollouts_leave_alone_what_a_callback_kept():
    kept, env = [], CountingEnv(batch_size=[2])
    data = env.rollout(3, compact=True, callback=lambda _, td: kept.append(td))
    assert [td["next", "observation"].tolist() for td in kept] == [[[1], [1]], [[2], [2]], [[3], [3]]]
    assert ("next", "observation") not in data.keys(True)


def test_what_cannot_be_is_said_before_anything_happens():
    env = CountingEnv()
    env.rollout(2)
    with pytest.raises(TypeError, match=r"CountingEnv.rollout: callback must be a function of .* got 5"):
        env.rollout(3, callback=5)
    with pytest.raises(DeviceError, match=r"CountingEnv.rollout: storing_device: 'gpu' is no device"):
        env.rollout(3, storing_device="gpu")
    for name in ("auto_reset", "break_when_any_done", "set_truncated", "trust_policy", "compact"):
        with pytest.raises(TypeError, match=rf"CountingEnv.rollout: {name} must be True or False, got 'no'"):
            env.rollout(3, **{name: "no"})
    with pytest.raises(TypeError, match=r"ScenarioEnv.rollout: compact must be True or False, got None"):
        make("simple_spread", num_envs=2).rollout(3, compact=None)
    assert env.count.tolist() == [2]


ROLLED = {
    "env": lambda: CountingEnv(batch_size=[2]),
    "scenario": lambda: make("simple_spread", num_envs=2, seed=0, compile="none"),
    "machine code": lambda: make("simple_spread", num_envs=2, seed=0),
    "game": lambda: make("tic_tac_toe", num_envs=2, seed=0),
    "pool": lambda: SerialEnv(2, CountingEnv),
}


@pytest.mark.parametrize("make_env", ROLLED.values(), ids=ROLLED)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"policy": CountingEnv}, SpecError, "the policy is the class CountingEnv; make one"),
        ({"policy": 3}, SpecError, "the policy must be callable, got int"),
        ({"tensordict": "x"}, TypeError, "expected a tensordict, got str"),
        ({"tensordict": "x", "auto_reset": False}, TypeError, "expected a tensordict, got str"),
        ({"out": 3}, TypeError, "out must be a tensordict, got int"),
        ({"out": TensorDict({}, [3, 4])}, ShapeError, r"\[2, 4\] or less of them, got \[3, 4\]"),
        ({"out": TensorDict({}, [2, 5])}, ShapeError, r"\[2, 4\] or less of them, got \[2, 5\]"),
        ({"actions": []}, ValueError, "actions must hold the actions of one step at least, got none"),
    ],
    ids=str,
)
def test_a_refused_rollout_neither_resets_nor_plays(make_env, options, error, message):
    env, called = make_env(), []
    env.reset()
    env._reset = env._step = called.append
    with pytest.raises(error, match=message):
        env.rollout(4, **options)
    assert not called


def test_a_rollout_shorter_than_out_says_so():
    out = CountingEnv(max_steps=9).rollout(3)
    with pytest.raises(ShapeError, match=r"CountingEnv.rollout: out holds 3 steps, and the rollout had 2"):
        CountingEnv(max_steps=2).rollout(9, out=out)


def test_auto_reset_off_goes_on():
    env = CountingEnv(max_steps=9)
    first = env.rollout(2)
    rest = env.rollout(2, auto_reset=False, tensordict=env.step_mdp(first[-1]))
    assert counts(rest) == [3, 4]
    over = CountingEnv(max_steps=2)
    ended = over.step_mdp(over.rollout(2)[-1])
    assert counts(over.rollout(1, auto_reset=False, tensordict=ended)) == [1]
    with pytest.raises(ResetError, match=r"auto_reset=False needs the data to go on from; pass tensordict="):
        env.rollout(2, auto_reset=False)


def test_reset_options_reach_the_env():
    env, got = CountingEnv(), {}
    whole = env._reset
    env._reset = lambda td, **options: got.update(options) or whole(td)
    env.rollout(2, level=3)
    assert got == {"level": 3}


def test_set_truncated_marks_the_last_step():
    env = CountingEnv(batch_size=[2], max_steps=9).add_truncated_keys()
    rollout = env.rollout(3, set_truncated=True)
    for flag in ("truncated", "done"):
        assert rollout["next", flag].squeeze(-1).tolist() == [[False, False, True]] * 2
    assert not rollout["next", "terminated"].any()
    with pytest.raises(
        Unsupported, match=r"set_truncated=True needs a 'truncated' flag; call env.add_truncated_keys\(\)"
    ):
        (other := CountingEnv()).rollout(3, set_truncated=True)
    assert other.count is None or not other.count.any()  # nothing was played


def test_out_is_written_into():
    env = CountingEnv()
    out = env.rollout(3).apply(torch.zeros_like)
    assert (env.rollout(3, out=out) == out).all()
    assert counts(out) == [1, 2, 3]


def test_lazy_rollouts_hold_the_same():
    env = GroupedEnv(batch_size=[2])
    env.set_seed(0)
    dense = env.rollout(3)
    env.set_seed(0)
    lazy = env.rollout(3, return_contiguous=False)
    assert (dense == lazy).all()
    assert dense.names == lazy.names


def test_arguments_that_contradict_each_other():
    env = CountingEnv()
    with pytest.raises(TypeError, match=r"break_when_any_done and break_when_all_done cannot both be True"):
        env.rollout(3, break_when_any_done=True, break_when_all_done=True)
    with pytest.raises(ValueError, match=r"max_steps must be an integer from 1 on, got 0"):
        env.rollout(0)


def test_a_policy_may_return_nothing_but_not_anything():
    env = CountingEnv()

    def writes(td):
        env.rand_action(td)

    assert env.rollout(2, writes).shape == (2,)
    with pytest.raises(TypeError, match=r"is given the tensordict and must return one, got int"):
        env.rollout(2, lambda td: 5)


class Forgetful(EnvBase):
    """Its steps lack an entry that its resets have."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(x=Unbounded((1,)), y=Unbounded((1,)))
        self.action_spec = Unbounded((1,))
        self.count = 0

    def _reset(self, tensordict):
        return TensorDict({"x": torch.zeros(1), "y": torch.zeros(1)}, [])

    def _step(self, tensordict):
        self.count += 1
        extra = {"y": torch.zeros(1)} if self.count % 2 else {}
        return TensorDict({"x": torch.zeros(1), "reward": torch.zeros(1), "done": torch.tensor([False]), **extra}, [])

    def _set_seed(self, seed):
        pass


def test_steps_that_do_not_stack_name_the_entries():
    with pytest.raises(KeyMissing, match=r"Forgetful.rollout: entries \[.*'y'.*\] are in some steps and not in others"):
        Forgetful().rollout(4, return_contiguous=True)


def test_policies_never_see_the_step_before_in_their_data():
    """What the policy writes is kept with the step it was written for."""
    env = CountingEnv()
    rollout = env.rollout(
        3, policy=lambda td: td.set("action", td["observation"] / 10).set("twice", td["observation"] * 2)
    )
    assert rollout["twice"].flatten().tolist() == [0, 2, 4]
    assert torch.allclose(rollout["action"].flatten(), torch.tensor([0.0, 0.1, 0.2]))


def test_rollouts_of_uneven_agents_are_lazy_stacks_of_dense_ones():
    rollout = UnevenEnv().rollout(3)
    assert isinstance(rollout["agents"], LazyStackedTensorDict)
    assert rollout["agents"].shape == (3, 2)
    assert [agent["action"].shape for agent in rollout["agents"].unbind(-1)] == [(3, 1), (3, 2)]


def test_empty_groups_of_rewards_do_not_stay_behind():
    """As in TorchRL, where the env of RemoveEmptySpecs' documents is rolled out; a pool of it is refused there."""
    theirs, ours = twins("empty_groups", "DummyEnv")
    play = lambda td: td.set("action", torch.zeros(3))  # noqa: E731
    mine = ours.rollout(3, play)
    assert "other_reward" in mine["next"].keys()
    assert "other_reward" not in mine.keys()
    data = theirs.rollout(3, play)
    assert "other_reward" in data["next"].keys()
    assert "other_reward" not in data.keys()
    for td in (data, mine):
        td.filter_empty_()  # of those of observations some of "next" are lost there
    assert_same_data(data, mine)
    check_env_specs(ours)
    assert SerialEnv(2, load("empty_groups", "marlenv").DummyEnv).rollout(3).shape == (2, 3)


class Spans(EnvBase):
    """Row ``i`` ends after ``i`` steps: row 0 is done when it is reset. ``count`` says how often a row was stepped."""

    handles_partial_steps = True

    def __init__(self, first: int = 0):
        super().__init__(batch_size=[3], allow_done_after_reset=True)
        self.spans = torch.arange(first, first + 3).unsqueeze(-1)
        self.observation_spec = Composite(count=Unbounded((3, 1), dtype=torch.int64), shape=(3,))
        self.action_spec = Unbounded((3, 1))
        self.reward_spec = Unbounded((3, 1))

    def _reset(self, tensordict):
        count = torch.zeros(3, 1, dtype=torch.int64)
        return TensorDict({"count": count, "done": count >= self.spans}, [3])

    def _step(self, tensordict):
        moves = tensordict.get("_step", torch.ones(3, dtype=torch.bool)).unsqueeze(-1)
        count = tensordict["count"] + moves
        return TensorDict({"count": count, "reward": moves.float(), "done": count >= self.spans}, [3])

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("first", [0, 1])
def test_rows_that_are_done_when_they_are_reset_wait_too(first):
    played = Spans(first).rollout(9, break_when_all_done=True)["next"]
    assert played["count"][:, -1].flatten().tolist() == [first, first + 1, first + 2]
    assert played["reward"].sum(1).flatten().tolist() == [first, first + 1, first + 2]
    assert played.shape == (3, first + 2)
