"""Masks of actions: what is legal by the action spec and by random actions, whatever the mask is called and becomes."""

from __future__ import annotations

import pickle

import pytest
import torch

from marlenv import (
    ActionMask,
    BatchSizeTransform,
    Binary,
    Bounded,
    Categorical,
    Compose,
    Composite,
    ExcludeTransform,
    ParallelEnv,
    RegroupTransform,
    RenameTransform,
    RewardSum,
    SelectTransform,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    Unbounded,
    make,
)
from marlenv.errors import KeyMissing, SpecError
from marlenv.testing.mocks import CountingEnv, MaskedEnv


def test_the_action_spec_follows_the_mask():
    env = TransformedEnv(MaskedEnv(n=4, batch_size=[2]), ActionMask())
    td = env.reset()
    for _ in range(4):
        legal = td["action_mask"]
        for _ in range(10):
            drawn = env.action_spec.rand()
            assert legal.gather(-1, drawn.unsqueeze(-1)).all()
        td = env.step_mdp(env.step(td.set("action", drawn)))
    env.check_env_specs()


class Legal(MaskedEnv):
    """Its mask has a name that nobody would guess, and may be of numbers."""

    def __init__(self, batch_size=(), flags=torch.bool, **options):
        super().__init__(batch_size=batch_size, **options)
        shape = (*self.batch_size, self.n)
        mask = Binary(shape=shape, dtype=flags) if flags == torch.bool else Bounded(0, 1, shape, dtype=flags)
        self.observation_spec = Composite(
            observation=Unbounded((*self.batch_size, 1)), legal=mask, shape=self.batch_size
        )

    def _reset(self, tensordict, **options):
        return self.renamed(super()._reset(tensordict, **options))

    def _step(self, tensordict):
        return self.renamed(super()._step(tensordict))

    def renamed(self, out):
        return out.set("legal", out.pop("action_mask").to(self.observation_spec["legal"].dtype))


LATER = {
    "nothing": list,
    "a copy of the mask": lambda: [RenameTransform(["legal"], ["allowed"], create_copy=True)],
    "the mask renamed": lambda: [RenameTransform(["legal"], ["allowed"])],
    "the mask left out": lambda: [ExcludeTransform("legal")],
    "all but the observation left out": lambda: [SelectTransform("observation")],
    "the action renamed": lambda: [RenameTransform([], [], ["action"], ["move"])],
    "both": lambda: [RenameTransform(["legal"], ["allowed"], ["action"], ["move"]), RewardSum()],
}


@pytest.mark.parametrize("flags", [torch.bool, torch.int8])
@pytest.mark.parametrize("rows", [[], [3]])
@pytest.mark.parametrize("later", LATER)
def test_a_mask_of_any_name_is_obeyed_by_random_actions(flags, rows, later):
    """The reward is 1 for what is legal."""
    env = TransformedEnv(Legal(rows, flags, max_steps=4), Compose(ActionMask(mask_key="legal"), *LATER[later]()))
    env.check_env_specs()
    for one in (env, TransformedEnv(env, StepCounter(), auto_unwrap=False), pickle.loads(pickle.dumps(env))):
        assert (one.rollout(12, break_when_any_done=False)["next", "reward"] == 1).all()
    bare = Legal(rows, flags, max_steps=4)
    bare.set_seed(0)
    blind = bare.rollout(40, break_when_any_done=False)["next", "reward"]
    assert (blind == -1).any(), "without the transform nobody knows of the mask"


@pytest.mark.slow
def test_a_pool_of_envs_with_masks_of_any_name_obeys_them():
    makers = [lambda n=n: TransformedEnv(Legal(max_steps=n), ActionMask(mask_key="legal")) for n in (3, 5)]
    for pool in (SerialEnv(2, makers), ParallelEnv(2, makers)):
        assert (pool.rollout(12, break_when_any_done=False)["next", "reward"] == 1).all()
        pool.check_env_specs()
        pool.close()


def test_masks_of_kept_and_reset_rows():
    env = TransformedEnv(SerialEnv(2, MaskedEnv, create_env_kwargs=[{"max_steps": 1}, {"max_steps": 9}]), ActionMask())
    td = env.reset()
    _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert torch.equal(env.action_spec.mask, td["action_mask"])
    assert td["action_mask"][:, 0].tolist() == [True, False]


def test_faults_of_action_masks():
    with pytest.raises(
        KeyMissing, match=r"ActionMask: no observation or state entry 'action_mask'; the env has \['observation'\]"
    ):
        TransformedEnv(CountingEnv(), ActionMask())
    with pytest.raises(KeyMissing, match=r"ActionMask: no action entry 'act'; the env has \['action'\]"):
        TransformedEnv(MaskedEnv(), ActionMask(action_key="act"))
    game, of_x = make("tic_tac_toe"), ActionMask(("x", "action"), ("x", "action_mask"))
    with pytest.raises(SpecError, match=r"ActionMask: later transforms leave no action \('x', 'action'\), .* after th"):
        TransformedEnv(game, Compose(of_x, RegroupTransform({"p": ["x", "o"]})))
    grid = BatchSizeTransform(reshape_fn=lambda td: td.reshape(2, 3))
    with pytest.raises(SpecError, match=r"the batch size \[2, 3\], and its mask has \[6\]; put ActionMask after them"):
        TransformedEnv(MaskedEnv(batch_size=[6]), Compose(ActionMask(), grid))
    continuous = CountingEnv()
    continuous.observation_spec = Composite(
        observation=Unbounded((1,)), action_mask=Categorical(2, (1,), dtype=torch.bool)
    )
    with pytest.raises(SpecError, match=r"ActionMask: the action must be discrete with a mask, got Bounded"):
        TransformedEnv(continuous, ActionMask())
