"""Seeds, random actions, and generators that nobody touches."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_actions import equal
from tensordict import TensorDict
from torchrl_oracle import seed_generator

from marlenv import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    EnvBase,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    RandomPolicy,
    RewardSum,
    SerialEnv,
    TransformedEnv,
    Unbounded,
)
from marlenv import make as make_env
from marlenv.envs.seeding import fresh_seed, next_seed
from marlenv.errors import DtypeError
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv, UnevenEnv


def global_generators():
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()


MAKERS = {
    "counting": CountingEnv,
    "grouped": lambda: GroupedEnv(batch_size=[3], terminate={"agent_0": 2}),
    "masked": lambda: MaskedEnv(batch_size=[3]),
    "uneven": UnevenEnv,
    "serial": lambda: SerialEnv(2, GroupedEnv),
    "transformed": lambda: TransformedEnv(GroupedEnv(), RewardSum()),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("seed", [None, 0])
def test_no_global_generator_is_read_or_moved(make, seed):
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    env = make()
    if seed is not None:
        env.set_seed(seed)
    before = global_generators()
    td = env.rand_step(env.reset())
    env.step_and_maybe_reset(env.rand_action(env.step_mdp(td)))
    first = env.rollout(5, break_when_any_done=False)
    env.check_env_specs()
    assert global_generators() == before
    if seed is not None:
        torch.manual_seed(99), np.random.seed(99), random.seed(99)
        twin = make()
        twin.set_seed(seed)
        twin.step_and_maybe_reset(twin.rand_action(twin.step_mdp(twin.rand_step(twin.reset()))))
        second = twin.rollout(5, break_when_any_done=False)
        assert equal(first, second)


def test_the_seed_chain_is_torchrls():
    seed = 0
    for _ in range(10):
        assert next_seed(seed) == seed_generator(seed)
        seed = next_seed(seed)


def test_unseeded_envs_differ():
    assert fresh_seed() != fresh_seed()
    assert not torch.equal(CountingEnv().rand_action()["action"], CountingEnv().rand_action()["action"])


def test_set_seed_returns_the_next_one():
    env = CountingEnv()
    assert env.set_seed(5) == next_seed(5)
    assert env.set_seed(5, static_seed=True) == 5
    assert env.set_seed(None) is None


@pytest.mark.parametrize("make", [CountingEnv, lambda: make_env("hex", num_envs=2)])
def test_seeds_are_integers_of_any_sign_and_size(make):
    for seed in (-1, 2**70, np.int64(5)):
        assert 0 <= make().set_seed(seed) < 2**32
    for seed in ("x", 1.5, True):
        with pytest.raises(DtypeError, match=f"seed must be an int, got {seed!r}"):
            make().set_seed(seed)
    with pytest.raises(DtypeError, match="GameEnv: seed must be an int, got 'x'"):
        make_env("hex", seed="x")


class Acting(EnvBase):
    """An env of any action specs; does nothing."""

    def __init__(self, batch, **specs):
        super().__init__(batch_size=batch)
        self.observation_spec = Composite(shape=self.batch_size)
        spec = Composite(specs)
        self.action_spec = spec.expand(*self.batch_size) if self.batch_size else spec

    def _reset(self, tensordict):
        return TensorDict({}, self.batch_size)

    def _step(self, tensordict):
        raise NotImplementedError

    def _set_seed(self, seed):
        pass


KINDS = {
    "bounded": lambda: Bounded(-2, 3, (2,)),
    "integers": lambda: Bounded(-2, 3, (2,), dtype=torch.int64),
    "unbounded": lambda: Unbounded((2,)),
    "categorical": lambda: Categorical(5),
    "one hot": lambda: OneHot(4),
    "multi": lambda: MultiCategorical([2, 3]),
    "multi one hot": lambda: MultiOneHot([2, 3]),
    "binary": lambda: Binary(3),
    "double": lambda: Bounded(0, 1, (1,), dtype=torch.float64),
}


@pytest.mark.parametrize("kind", KINDS)
def test_row_i_draws_the_same_in_a_batch_of_any_size(kind):
    drawn = {}
    for batch in ([], [1], [8], [64]):
        env = Acting(batch, x=KINDS[kind](), g=Composite(y=Unbounded((2, 1)), shape=(2,)))
        env.set_seed(7)
        drawn[tuple(batch)] = [env.rand_action() for _ in range(70)]
        env.full_action_spec.assert_is_in(drawn[tuple(batch)][-1])
    for key in ("x", ("g", "y")):
        alone, one, eight, many = ([td[key] for td in drawn[b]] for b in ((), (1,), (8,), (64,)))
        for a, b, c, d in zip(alone, one, eight, many, strict=True):
            assert torch.equal(a, b[0])
            assert torch.equal(a, c[0])
            assert torch.equal(c, d[:8])
        assert not all(torch.equal(eight[0], e) for e in eight[1:])


def test_uneven_actions_are_the_same_in_a_batch_of_any_size():
    for batch in ([], [3]):
        env = UnevenEnv() if not batch else SerialEnv(3, UnevenEnv)
        env.set_seed(7)
        td = env.rand_action()
        env.full_action_spec.assert_is_in(td)


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_random_actions_do_not_depend_on_how_they_are_asked_for(cuts):
    """The stream goes on across resets, steps and rollouts."""
    env, twin = CountingEnv(batch_size=[2]), CountingEnv(batch_size=[2])
    env.set_seed(3), twin.set_seed(3)
    whole = torch.stack([twin.rand_action()["action"] for _ in range(sum(cuts))])
    parts = []
    for n in cuts:
        env.reset()
        parts += [env.rand_action()["action"] for _ in range(n)]
    assert torch.equal(torch.stack(parts), whole)


def test_random_actions_are_spread_over_the_domain():
    env = Acting([512], x=Bounded(-1, 1, (2,)), c=Categorical(4))
    env.set_seed(0)
    td = env.rand_action()
    assert abs(td["x"].mean()) < 0.1
    assert abs(td["x"].std() - 3**-0.5) < 0.05
    assert (td["c"].bincount(minlength=4) - 128).abs().max() < 45
    assert abs(torch.corrcoef(torch.stack([td["x"][:, 0], td["x"][:, 1]]))[0, 1]) < 0.15


class Masked(Acting):
    """Emits a mask beside its action: the legal values."""

    def __init__(self, batch, spec, mask, name="action_mask"):
        super().__init__(batch, action=spec)
        self.observation_spec = Composite({name: Binary(shape=mask.shape, dtype=torch.bool)}, shape=self.batch_size)
        self.mask, self.name = mask, name

    def _reset(self, tensordict):
        return TensorDict({self.name: self.mask}, self.batch_size)


@pytest.mark.parametrize("kind", ["categorical", "one hot", "multi", "multi one hot"])
def test_random_actions_are_legal_under_emitted_masks(kind):
    spec = {
        "categorical": Categorical(5),
        "one hot": OneHot(5),
        "multi": MultiCategorical([2, 3]),
        "multi one hot": MultiOneHot([2, 3]),
    }[kind]
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand((40, 5), generator=generator) > 0.5
    mask[:, 0] |= ~mask[:, :2].any(-1)
    mask[:, 2] |= ~mask[:, 2:].any(-1)
    env = Masked([40], spec, mask)
    env.set_seed(0)
    for _ in range(20):
        action = env.rand_action(env.reset())["action"]
        chosen = spec.to_one_hot(action)
        assert not (chosen & ~mask).any()
    env.rand_action()  # without data: no mask, no fault


def test_masks_with_nothing_legal_survive():
    mask = torch.zeros(3, 4, dtype=torch.bool)
    env = Masked([3], Categorical(4), mask)
    td = env.rand_action(env.reset())
    assert ((td["action"] >= 0) & (td["action"] < 4)).all()
    assert not env.mask.any()


def test_masks_keep_rows_independent():
    drawn = []
    for others in (0, 3):
        mask = torch.tensor([[True, False, True, True]] + [[True, False, False, False]] * others)
        env = Masked([1 + others], Categorical(4), mask)
        env.set_seed(5)
        drawn.append([env.rand_action(env.reset())["action"][0].item() for _ in range(20)])
    assert drawn[0] == drawn[1]


def test_masks_follow_the_state():
    """USERS (b) 24: a random step after a step sees the new mask."""
    env = MaskedEnv(batch_size=[4])
    env.set_seed(0)
    rollout = env.rollout(6)
    assert (rollout["next", "reward"] == 1).all()


def test_random_policies_and_cpu_draws():
    torch.manual_seed(0)
    spec = Composite(agents=Composite(action=Categorical(3, shape=(2,)), shape=(2,)))
    td = RandomPolicy(spec)(TensorDict({}, [5]))
    assert td["agents", "action"].shape == (5, 2)
    batched = RandomPolicy(Categorical(3, shape=(5,)), action_key=("a", "b"))(TensorDict({}, [5]))
    assert batched["a", "b"].shape == (5,)
    rollout = CountingEnv().rollout(3, RandomPolicy(CountingEnv().action_spec))
    assert rollout["action"].shape == (3, 1)


def test_actions_stay_where_they_are_when_the_env_moves():
    env = CountingEnv()
    env.set_seed(1)
    first = env.rand_action()["action"]
    env.set_seed(1)
    env.to("cpu")
    assert torch.equal(env.rand_action()["action"], first)
