"""A ``truncated`` that a step gives ends the episode whether or not a done spec speaks of it, as in TorchRL."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict
from twin_envs import assert_same_data, load, twins

from marlenv import Binary, Composite, RewardSum, SerialEnv, StepCounter, TransformedEnv, check_env_specs
from marlenv.errors import ContractBroken, DtypeError, ShapeError
from marlenv.testing import CountingEnv, run_contract

FLAGS = ("done", "terminated", "truncated")


def make(*args, **kwargs):
    return load("time_limits", "marlenv").Limited(*args, **kwargs)


def wait(td):
    return td.set("action", torch.zeros(*td.batch_size, 1))


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("batch_size", [(), (2,)])
@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}], ids=str)
def test_rollouts_are_those_of_torchrl(observed, batch_size, how):
    theirs, ours = twins("time_limits", "Limited", batch_size, observed)
    mine = ours.rollout(7, wait, **how)
    assert mine["next", "done"].flatten()[:3].tolist() == [False, False, True]
    assert_same_data(theirs.rollout(7, wait, **how), mine)


@pytest.mark.parametrize(
    "around",
    [
        lambda: SerialEnv(1, make),
        lambda: TransformedEnv(make(), RewardSum()),
        lambda: TransformedEnv(make(), StepCounter(100)),
        lambda: make().add_truncated_keys(),
    ],
    ids=["pool", "transform", "step counter", "declared"],
)
def test_pools_and_transforms_end_there_too(around):
    data = around().rollout(7, wait, break_when_any_done=False)["next"]
    assert data["done"].flatten().tolist() == [False, False, True, False, False, True, False]
    assert torch.equal(data["truncated"], data["done"])
    assert not data["terminated"].any()


def test_the_flag_of_a_group_is_heeded():
    class Groups(CountingEnv):
        def __init__(self):
            super().__init__(max_steps=100)
            flag = Binary(shape=(2, 1), dtype=torch.bool)
            self.set_spec_lock_(False)
            self.full_done_spec = Composite(g=Composite(terminated=flag, shape=(2,)))

        def _step(self, tensordict):
            out = super()._step(tensordict).exclude(*FLAGS)
            flags = {"terminated": [[False], [True]], "truncated": [[True], [False]]}
            return out.set("g", TensorDict({name: torch.tensor(flag) for name, flag in flags.items()}, [2]))

    env = Groups()
    following = env.step(env.rand_action(env.reset()))["next", "g"]
    assert {name: following[name].flatten().tolist() for name in FLAGS} == {
        "done": [True, True], "terminated": [False, True], "truncated": [True, False],
    }  # fmt: skip
    assert "truncated" not in env.step_mdp(env.step(env.rand_action(env.reset())))["g"].keys()


@pytest.mark.parametrize(
    ("flag", "error", "text"),
    [
        (torch.ones(1), DtypeError, r"^Wrong\._step: 'truncated' must be torch.bool, got torch.float32"),
        (torch.ones(3).bool(), ShapeError, r"^Wrong\._step: 'truncated' must have shape \[1\], got \[3\]"),
    ],
)
def test_flags_that_are_none_are_named(flag, error, text):
    class Wrong(load("time_limits", "marlenv").Limited):
        def _step(self, tensordict):
            return super()._step(tensordict).set("truncated", flag)

    with pytest.raises(error, match=text):
        Wrong().rollout(1)


def test_the_check_names_the_spec_that_they_belong_to():
    with pytest.raises(ContractBroken, match=r"in no spec: .*'truncated'.*; add them to done_spec or drop them"):
        check_env_specs(make())
    env = make()
    env.full_done_spec = Composite(terminated=env.full_done_spec["done"].clone(), truncated=env.full_done_spec["done"])
    check_env_specs(env)  # done as told
    assert env.rollout(7)["next", "done"].flatten().tolist() == [False, False, True]


def test_a_reward_in_no_spec_belongs_to_the_reward_spec():
    class Unpaid(load("time_limits", "marlenv").Limited):
        def __init__(self):
            super().__init__()
            self.set_spec_lock_(False)
            self.full_reward_spec = Composite()

    with pytest.raises(
        ContractBroken, match=r"; add 'reward' to reward_spec and 'truncated' to done_spec, or drop them"
    ):
        check_env_specs(Unpaid())


@pytest.mark.parametrize("observed", [False, True])
def test_a_limit_that_done_does_not_say_is_found(observed):
    """``done`` is what the env says it is: False, in these."""
    with pytest.raises(ContractBroken, match=r"done .* is False where 'truncated' is True|in no spec"):
        check_env_specs(make((), observed, with_done=True), steps=5)
    if observed:
        verdicts = {r.name: r.verdict for r in run_contract(lambda: make((2,), True, with_done=True))}
        assert verdicts["done_has_a_cause"] == "broken"
        assert {r.verdict for r in run_contract(lambda: make((2,), True)) if r.name == "done_has_a_cause"} == {"held"}
