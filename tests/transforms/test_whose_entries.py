"""Which entries are read, told and measured: said by the class or the caller, or refused by name."""

from __future__ import annotations

import re

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor, nn

import marlenv
from marlenv import ObservationNorm, RewardScaling, RewardSum, StepCounter, Transform, TransformedEnv
from marlenv.errors import KeyMissing, SpecError, SpecTypeError
from marlenv.testing.mocks import CountingEnv

OBSERVATION = ("agents", "observation")


class Twice(Transform):
    """Doubles what the env is told."""

    on = "action"

    def _inv_apply_transform(self, state: Tensor) -> Tensor:
        return 2 * state


@pytest.mark.parametrize("given", [(), (None,)])
def test_what_is_told_must_be_named(given: tuple[None, ...]) -> None:
    said = "Twice: on = 'action' is what the env is told, and in_keys_inv must name it, such as in_keys_inv=env.action_"
    with pytest.raises(SpecError, match=re.escape(said)):
        TransformedEnv(CountingEnv(), Twice(*given))
    env = TransformedEnv(CountingEnv(), Twice(in_keys_inv=["action"]))
    assert env.transform.inv(TensorDict({"action": torch.ones(1)}))["action"] == 2
    TransformedEnv(CountingEnv(), Twice([], None, [])).rollout(2)


OWED = ("state", "opening_rewards")


def opposed() -> marlenv.EnvBase:
    """Tic-tac-toe against a random opponent."""
    return marlenv.make("tic_tac_toe", num_envs=4, seed=0, opponent="random")


def spread(rows: int) -> TransformedEnv:
    """simple_spread with a norm of its observations, not yet measured."""
    norm = ObservationNorm(in_keys=[OBSERVATION], standard_normal=True)
    return TransformedEnv(marlenv.make("simple_spread", num_envs=rows, seed=0), norm)


@pytest.mark.parametrize("rows", [2, 4, 5])
def test_statistics_of_single_rows_or_steps_are_refused(rows: int) -> None:
    """With as many rows as steps they had been taken, and equal rows had observed unequal numbers."""
    env = spread(rows)
    said = r"would differ by row or by step, \[\d, 3, 14\] for values of \[3, 14\]; average over both, "
    with pytest.raises(SpecError, match=said + r"reduce_dim=\(0, 1\), cat_dim=1"):
        env.transform.init_stats(4)
    assert not env.transform.initialized
    data = env.base_env.rollout(6)[OBSERVATION]
    env.base_env.set_seed(0)
    env.transform.init_stats(6 * rows, (0, 1), 1)
    assert env.transform.loc.shape == (3, 14)
    one = spread(1)
    one.transform.loc, one.transform.scale = env.transform.loc, env.transform.scale
    seen = (data - env.transform.loc) / env.transform.scale
    assert torch.allclose(one.transform(TensorDict({OBSERVATION: data.clone()}))[OBSERVATION], seen)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"reduce_dim": 7}, SpecError, "the dimensions [4, 4, 3, 14], of which reduce_dim and keep_dims name some"),
        ({"reduce_dim": (0, 1), "cat_dim": 1, "keep_dims": (0, 9)}, SpecError, "got [9]"),
        ({"reduce_dim": (0, 1), "cat_dim": 1, "keep_dims": (0, 1)}, SpecError, "[1, 1, 3, 14] for values of [3, 14]"),
        ({"key": "x"}, KeyMissing, "ObservationNorm: no entry 'x'; the observations are"),
    ],
)  # fmt: skip
def test_measures_that_do_not_fit(options: dict[str, object], error: type[Exception], said: str) -> None:
    env = spread(4)
    with pytest.raises(error, match=re.escape(said)):
        env.transform.init_stats(4, **options)


def test_a_policy_of_observations_reads_the_same_one_behind_transforms() -> None:
    seen: list[float] = []

    def policy(observation: Tensor) -> Tensor:
        seen.append(observation.item())
        return observation / 10

    env = CountingEnv(9).append_transform(RewardScaling(0.0, 10.0)).append_transform(RewardSum())
    env.rollout(3, policy)
    assert seen == [0, 1, 2]


def test_policies_that_do_not_say_what_they_read() -> None:
    brain = nn.Linear(14, 2)
    plain = marlenv.make("simple_spread", num_envs=4, seed=0)
    env = plain.append_transform(StepCounter())
    want = plain.rollout(3, brain)
    said = (
        r"takes arguments \['input'\], but .* \['step_count', \('agents', 'observation'\)\]; name arguments after keys "
    )
    with pytest.raises(SpecError, match=said + r"\(step_count, observation, agents_observation\), or wrap it"):
        env.rollout(3, brain)
    for policy in (
        lambda observation: brain(observation) + 0,
        lambda agents_observation: brain(agents_observation) + 0,
        lambda step_count, observation: brain(observation + 0 * step_count.sum()),
        lambda count, seen: brain(seen),
    ):
        env.set_seed(0)
        assert torch.equal(env.rollout(3, policy)["agents", "action"], want["agents", "action"])


@pytest.mark.parametrize("answer", [torch.tensor([2, 2, 2]), torch.tensor([1, 0, 1]), torch.ones(3)])
@pytest.mark.parametrize("kind", ["skip", "switch"])
def test_conditions_are_bools(kind: str, answer: Tensor) -> None:
    made = marlenv.ConditionalSkip(lambda td: answer)
    if kind == "switch":
        made = marlenv.ConditionalPolicySwitch(lambda td: td.set("action", torch.zeros(3, 1)), lambda td: answer)
    said = rf"must give a bool or a tensor of bools, got one of {answer.dtype}"
    with pytest.raises(SpecTypeError, match=said):
        CountingEnv(9, batch_size=[3]).append_transform(made).rollout(3)


def test_what_a_step_reads_again_is_no_observation_to_norm() -> None:
    """What the opponent's first move earned is told in the state: normalised, it was added to all rewards."""
    env = marlenv.make("tic_tac_toe", num_envs=4, seed=0, opponent="random")
    normed = TransformedEnv(
        marlenv.make("tic_tac_toe", num_envs=4, seed=0, opponent="random"), ObservationNorm(1.0, 2.0)
    )
    want, got = (one.rollout(6, break_when_any_done=False) for one in (env, normed))
    assert torch.equal(got["next", "x", "reward"], want["next", "x", "reward"])
    assert torch.equal(got["next", "x", "observation"], 2 * want["next", "x", "observation"] + 1)
    assert set(normed.transform.in_keys).isdisjoint(env.state_keys)


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda keys: ObservationNorm(1.0, 2.0, keys),
        lambda keys: marlenv.ClipTransform(keys, low=0.5),
        lambda keys: marlenv.CatFrames(2, -1, keys),
        lambda keys: marlenv.UnsqueezeTransform(-1, in_keys=keys),
        lambda keys: marlenv.ObservationDelay(1, keys),
        marlenv.VecNormV2,
    ],
    ids=["norm", "clip", "frames", "unsqueeze", "delay", "statistics"],
)
def test_a_position_that_is_named_and_would_be_changed_is_refused(make, pool) -> None:
    """What the opponent's first move earned changed, and with it all rewards; or steps ended in bare errors."""
    base = opposed() if not pool else marlenv.SerialEnv(2, opposed)
    with pytest.raises(SpecError, match=r"\('state', 'opening_rewards'\) is part of a position, .* give out_keys of"):
        TransformedEnv(base, make([("x", "observation"), OWED]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ObservationNorm(1.0, 2.0, [OWED], ["owed"]),
        lambda: marlenv.UnsqueezeTransform(-1, in_keys=[OWED], in_keys_inv=[OWED]),
        lambda: marlenv.DTypeCastTransform(torch.float32, torch.float64, [OWED], None, [OWED]),
        lambda: marlenv.RenameTransform(["state"], ["position"], ["state"], ["position"]),
    ],
    ids=["beside it", "undone", "cast and back", "renamed and back"],
)
def test_a_position_that_the_env_finds_as_it_was_may_be_named(make) -> None:
    want = opposed().rollout(6, break_when_any_done=False)
    got = TransformedEnv(opposed(), make()).rollout(6, break_when_any_done=False)
    assert torch.equal(got["next", "x", "reward"], want["next", "x", "reward"])
    assert bool(want["next", "x", "reward"].any())
