"""The ends of episodes in TorchRL: in the flags of every group, and where rows end at different times."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict.nn import TensorDictModule

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import SliceSampler
    from torchrl.envs import RewardSum, StepCounter, TransformedEnv, check_env_specs
    from torchrl.objectives.value import GAE, TDLambdaEstimator

import marlenv
from marlenv import compact_turns, group_keys, to_torchrl
from marlenv.errors import Unsupported
from marlenv.testing.mocks import GroupedEnv

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl", "ignore:::torch", "ignore:::tensordict")
FLAGS = ("terminated", "truncated", "done")


def first_ends(**ends) -> GroupedEnv:
    """Two groups; the episode is over when the first agent is done."""
    return GroupedEnv({"red": ["r"], "blue": ["b"]}, rule="any", batch_size=(2,), **(ends or {"terminate": {"b": 3}}))


def rollout(env):
    """Nine steps, a reward of 1 in each."""

    def act(td):
        for group in ("red", "blue"):
            td[group, "action"] = torch.full((2, 1, 2), 0.5)
        return td

    return env.rollout(9, act, break_when_any_done=False)


@pytest.mark.parametrize("kind", [GAE, TDLambdaEstimator])
@pytest.mark.parametrize(
    ("ends", "targets"),
    [({"terminate": {"b": 3}}, [3.0, 2.0, 1.0]), ({"truncate": {"b": 3}}, [13.0, 12.0, 11.0])],
    ids=["terminated", "truncated"],
)
def test_returns_of_a_group_end_where_another_group_ended_the_episode(kind, ends, targets) -> None:
    """By hand: three rewards of 1 and, where the episode was cut off, a value of 10."""
    env = to_torchrl(first_ends(**ends))
    value = TensorDictModule(lambda seen: 0 * seen[..., :1] + 10, [("red", "observation")], [("red", "state_value")])
    estimator = kind(gamma=1.0, lmbda=1.0, value_network=value)
    estimator.set_keys(**group_keys(env, "red", estimator))
    data = estimator(rollout(env))
    assert data["red", "value_target"].flatten(1).tolist() == [targets * 3] * 2


def test_flags_are_the_groups_own_or_those_of_the_episode() -> None:
    data = rollout(to_torchrl(first_ends(terminate={"b": 3}, truncate={"r": 3})))["next"]
    own = {"red": (False, True, True), "blue": (True, False, True)}
    for group, wanted in own.items():
        for name, flag in zip(FLAGS, wanted, strict=True):
            assert data[group, name].flatten(1).tolist() == [[False, False, flag] * 3] * 2
    data = rollout(to_torchrl(first_ends()))
    turns = compact_turns(data)
    for group in own:
        for name in FLAGS:
            assert torch.equal(data["next", group, name].flatten(1), turns[group, "next", name].flatten(1))
            assert torch.equal(data["next", group, name].flatten(1), data["next", name].flatten(1))


def test_our_envs_own_data_stay() -> None:
    env = first_ends()
    data = rollout(env)
    assert data["next", "done"].sum() == 6
    assert not data["next", "red", "done"].any()
    theirs = to_torchrl(env)
    td = theirs.reset()
    for _ in range(3):
        stepped = theirs.step(theirs.rand_action(td))
        td = theirs.step_mdp(stepped)
    assert stepped["next", "red", "done"].all()
    assert not theirs._now()["red", "done"].any()


@pytest.mark.parametrize("pooled", [False, True], ids=["alone", "pool"])
def test_sums_and_slices_of_a_group_stay_in_the_episode(pooled: bool) -> None:
    inner = marlenv.SerialEnv(1, first_ends) if pooled else first_ends()
    sums = RewardSum([("red", "reward")], [("red", "sum")])
    env = TransformedEnv(to_torchrl(inner), sums)
    check_env_specs(env)
    data = env.rollout(9, break_when_any_done=False).reshape(2, 9)
    reward, total = data["next", "red", "reward"], data["next", "red", "sum"]
    for start in (0, 3, 6):
        torch.testing.assert_close(total[:, start : start + 3], reward[:, start : start + 3].cumsum(1))
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(18, ndim=2),
        sampler=SliceSampler(slice_len=2, end_key=("next", "red", "done")),
        batch_size=80,
    )
    buffer.extend(data)
    count = buffer.sample()["red", "observation"][:, 0, 2].reshape(-1, 2)
    assert torch.equal(count[:, 1], count[:, 0] + 1)


def test_a_reset_of_some_rows_goes_by_the_root() -> None:
    env = to_torchrl(first_ends())
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.step(env.rand_action(td)))
    td["_reset"] = torch.tensor([[True], [False]])
    for group in ("red", "blue"):
        td[group, "_reset"] = torch.tensor([[[True]], [[False]]])
    td = env.reset(td)
    assert td["red", "observation"][:, 0, 2].tolist() == [0.0, 3.0]
    assert td["red", "done"].flatten().tolist() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "transformed"])
@pytest.mark.parametrize(
    ("name", "options"), [("tic_tac_toe", {}), ("leduc_poker", {}), ("predator_prey", {"hunger": 0.1, "max_steps": 30})]
)
def test_rows_that_end_at_different_times(name: str, options, wrapped: bool) -> None:
    """Until all are done: every row is played to its end as in our own rollout."""
    ours, theirs = (marlenv.make(name, num_envs=4, seed=0, **options) for _ in range(2))
    theirs = to_torchrl(theirs)
    if wrapped:
        theirs = TransformedEnv(theirs, StepCounter())
    a, b = (env.rollout(40, break_when_all_done=True) for env in (ours, theirs))
    assert a.shape == b.shape
    lengths = 1 + a["next", "done"].flatten(1).int().argmax(1)
    assert len(set(lengths.tolist())) > 1
    assert "_neg_step" not in {key[-1] for key in b.keys(True, True) if isinstance(key, tuple)}
    for row, length in enumerate(lengths.tolist()):
        for key in a.keys(True, True):
            assert torch.equal(a[key][row, :length], b[key][row, :length]), key


def without_root(**ends) -> GroupedEnv:
    groups = {"wolves": ["w0", "w1"], "sheep": ["s0"]}
    return GroupedEnv(groups, rule="all", root_flags=False, batch_size=(2,), **ends)


def test_where_the_root_has_no_flags_their_rollout_does_not_play_on_past_the_end() -> None:
    """Ours stops where the last agent is done; TorchRL's reads the root alone."""
    ends = {"terminate": {"s0": 2}, "truncate": {"w0": 4, "w1": 3}}
    assert without_root(**ends).rollout(11, break_when_all_done=True).shape == (2, 4)
    env = to_torchrl(without_root(**ends))
    with pytest.raises(
        Unsupported, match=r"rollout\(break_when_all_done=True\) reads done flags of the root, and Grouped"
    ):
        env.rollout(11, break_when_any_done=False, break_when_all_done=True)
    assert to_torchrl(without_root(terminate={"s0": 9})).rollout(5, break_when_all_done=True).shape == (2, 5)
    data = to_torchrl(without_root(**ends)).rollout(11, break_when_any_done=False)
    ours = without_root(**ends).rollout(11, break_when_any_done=False)
    for group in ("wolves", "sheep"):
        assert torch.equal(data["next", group, "done"], ours["next", group, "done"])
