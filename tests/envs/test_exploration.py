"""Policies of every form, exploration types, and what they are told when they fit nowhere."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

from marlenv import (
    Bounded,
    Composite,
    EnvBase,
    ExplorationType,
    PendulumEnv,
    RandomPolicy,
    Unbounded,
    exploration_mode,
    exploration_type,
    set_exploration_mode,
    set_exploration_type,
)
from marlenv.errors import SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv


def tenth(x):
    return x / 10


class TakesTensor(nn.Module):
    def forward(self, x):
        return x / 10


class TakesNamed(nn.Module):
    def forward(self, observation):
        return observation / 10


class TakesTensorDict(nn.Module):
    def forward(self, tensordict):
        return tensordict.set("action", tensordict["observation"] / 10)


class TakesAnnotated(nn.Module):
    def forward(self, anything: TensorDictBase) -> TensorDictBase:
        return anything.set("action", anything["observation"] / 10)


class Callable:
    def __call__(self, td):
        return td.set("action", td["observation"] / 10)


def annotated(inputs: TensorDictBase) -> TensorDictBase:
    return inputs.set("action", inputs["observation"] / 10)


def returns_another(td):
    return TensorDict({"action": td["observation"] / 10}, td.batch_size)


POLICIES = {
    "tensordict module": TensorDictModule(tenth, in_keys=["observation"], out_keys=["action"]),
    "sequence": TensorDictSequential(TensorDictModule(tenth, in_keys=["observation"], out_keys=["action"])),
    "function of td": lambda td: td.set("action", td["observation"] / 10),
    "function of whatever": lambda x: x.set("action", x["observation"] / 10),
    "annotated function": annotated,
    "another tensordict": returns_another,
    "callable object": Callable(),
    "module of tensors": TakesTensor(),
    "module of named tensors": TakesNamed(),
    "module of td": TakesTensorDict(),
    "annotated module": TakesAnnotated(),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("how", [{}, {"break_when_any_done": False}, {"auto_cast_to_device": True}], ids=str)
def test_every_form_of_policy_plays(policy, how):
    rollout = CountingEnv(max_steps=4).rollout(3, policy, **how)
    assert torch.allclose(rollout["action"].flatten(), torch.tensor([0.0, 0.1, 0.2]))


def test_several_observations_are_handed_over_by_name_or_in_order():
    class Two(CountingEnv):
        def __init__(self):
            super().__init__()
            self.observation_spec = Composite(a=Unbounded((1,)), b=Unbounded((1,)))

        def _reset(self, tensordict):
            return TensorDict({"a": torch.tensor([0.1]), "b": torch.tensor([0.3])}, [])

        def _step(self, tensordict):
            return self._reset(None).update(super()._step(tensordict).exclude("observation"))

    in_order = TensorDictModule(nn.Identity(), in_keys=["a"], out_keys=["action"])
    assert Two().rollout(1, in_order)["action"].item() == pytest.approx(0.1)

    class ByName(nn.Module):
        def forward(self, b, a):
            return b - a

    assert Two().rollout(1, ByName())["action"].item() == pytest.approx(0.2)


def test_grouped_policies_write_nested_actions():
    env = GroupedEnv()
    net = TensorDictModule(nn.Linear(3, 2), in_keys=[("agents", "observation")], out_keys=[env.action_key])
    assert env.rollout(2, net)["agents", "action"].shape == (2, 3, 2)


def test_wrong_policies_are_told_what_to_do():
    with pytest.raises(SpecError, match=r"CountingEnv.rollout: the policy must be callable, got int"):
        CountingEnv().rollout(2, 3)

    class Greedy(nn.Module):
        def forward(self, observation, memory):
            return observation

    with pytest.raises(
        SpecError,
        match=r"takes arguments \['observation', 'memory'\], but the env has the observation keys \['observation'\]; "
        r"name arguments after keys \(observation\), or wrap it: TensorDictModule\(policy",
    ):
        CountingEnv().rollout(2, Greedy())


def test_a_policy_that_writes_no_action_is_told_so():
    with pytest.raises(KeyError, match=r"CountingEnv.step: no action under 'action'"):
        CountingEnv().rollout(2, lambda td: td)


def test_random_policy_reads_keys_of_composites():
    spec = Composite(agents=Composite(action=Bounded(-1, 1, (3, 2)), shape=(3,)))
    torch.manual_seed(0)
    td = RandomPolicy(spec)(TensorDict({}, []))
    assert td["agents", "action"].shape == (3, 2)


class Explores(TensorDictModule):
    """Writes the exploration type that it is called under."""

    def __init__(self):
        super().__init__(nn.Identity(), in_keys=["observation"], out_keys=["action"])

    def forward(self, td):
        return td.set("action", torch.tensor([float(exploration_type() is ExplorationType.RANDOM)]))


def test_exploration_types_reach_the_policy():
    env = CountingEnv()
    with set_exploration_type(ExplorationType.RANDOM):
        assert env.rollout(1, Explores())["action"].item() == 1
        with set_exploration_type(ExplorationType.MODE):
            assert env.rollout(1, Explores())["action"].item() == 0
        assert exploration_type() is ExplorationType.RANDOM


def test_exploration_types_are_tensordicts():
    from tensordict.nn import InteractionType

    assert ExplorationType is InteractionType
    for name in ("MODE", "MEAN", "MEDIAN", "RANDOM", "DETERMINISTIC"):
        with set_exploration_type(ExplorationType[name]):
            assert exploration_type().name == name
            assert exploration_mode() == name.lower()


def test_the_older_spelling_warns():
    with pytest.warns(DeprecationWarning, match="use set_exploration_type"), set_exploration_mode("mean"):
        assert exploration_mode() == "mean"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with set_exploration_mode(ExplorationType.RANDOM):
            assert exploration_type() is ExplorationType.RANDOM


def test_env_base_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        EnvBase()


def test_a_random_policy_takes_the_spec_of_the_env_that_it_meets():
    policy, env = RandomPolicy(), PendulumEnv()
    with pytest.raises(
        RuntimeError, match=r"RandomPolicy: there is no action spec; pass action_spec=..., or call set_"
    ):
        policy(env.reset())
    assert env.full_action_spec.is_in(env.rollout(3, policy)[0].select("action"))
    spec = policy.action_spec
    policy.set_action_spec_from_env(PendulumEnv())
    assert policy.action_spec is spec
