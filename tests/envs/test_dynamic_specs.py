"""Entries whose size is not known in advance (-1)."""

from __future__ import annotations

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict

from marlenv import Binary, Bounded, Composite, EnvBase, SerialEnv, TransformedEnv, Unbounded
from marlenv.errors import ContractBroken, ShapeError


class EnvWithDynamicSpec(EnvBase):
    """The example of the specification."""

    def __init__(self, max_count=5):
        super().__init__(batch_size=())
        self.observation_spec = Composite(observation=Unbounded(shape=(3, -1, 2)))
        self.action_spec = Bounded(low=-1, high=1, shape=(2,))
        self.full_done_spec = Composite(
            done=Binary(1, shape=(1,), dtype=torch.bool),
            terminated=Binary(1, shape=(1,), dtype=torch.bool),
            truncated=Binary(1, shape=(1,), dtype=torch.bool),
        )
        self.reward_spec = Unbounded((1,), dtype=torch.float)
        self.count = 0
        self.max_count = max_count

    def _observe(self):
        return TensorDict({"observation": torch.full((3, self.count + 1, 2), float(self.count))})

    def _reset(self, tensordict=None):
        self.count = 0
        return self._observe().update(self.done_spec.zero())

    def _step(self, tensordict):
        self.count += 1
        done = self.full_done_spec.zero() | (self.count >= self.max_count)
        return self._observe().update(done).update(self.full_reward_spec.zero())

    def _set_seed(self, seed):
        self.manual_seed = seed
        return seed


def test_steps_of_different_sizes_are_a_lazy_stack():
    rollout = EnvWithDynamicSpec().rollout(5, return_contiguous=False)
    assert isinstance(rollout, LazyStackedTensorDict)
    assert rollout.shape == (5,)
    assert [step["observation"].shape[1] for step in rollout.unbind(0)] == [1, 2, 3, 4, 5]
    assert [step["next", "observation"].shape[1] for step in rollout.unbind(0)] == [2, 3, 4, 5, 6]
    assert rollout["next", "done"].flatten().tolist() == [False] * 4 + [True]


def test_the_specs_decide_when_nothing_is_said():
    assert isinstance(EnvWithDynamicSpec().rollout(3), LazyStackedTensorDict)


def test_dense_rollouts_are_refused_with_a_reason():
    with pytest.raises(
        ShapeError, match=r"dynamic specs \(sizes of -1\), so steps differ in shape; pass return_contiguous=False"
    ):
        EnvWithDynamicSpec().rollout(3, return_contiguous=True)


def test_it_goes_on_after_the_end():
    rollout = EnvWithDynamicSpec(2).rollout(5, break_when_any_done=False)
    assert [step["observation"].shape[1] for step in rollout.unbind(0)] == [1, 2, 1, 2, 1]
    rollout = EnvWithDynamicSpec(2).rollout(5, break_when_all_done=True)
    assert rollout.shape == (2,)


def test_the_check_allows_sizes_to_vary_and_nothing_else():
    EnvWithDynamicSpec().check_env_specs()
    env = EnvWithDynamicSpec()
    env._observe = lambda: TensorDict({"observation": torch.zeros(3, 1, 1)})
    with pytest.raises(
        ContractBroken, match=r"observation 'observation' must have shape \[3, -1, 2\], got \[3, 1, 1\]"
    ):
        env.check_env_specs()
    env._observe = lambda: TensorDict({"observation": torch.zeros(3, 2)})
    with pytest.raises(ContractBroken, match=r"must have shape \[3, -1, 2\], got \[3, 2\]"):
        env.check_env_specs()


def test_examples_have_size_one():
    env = EnvWithDynamicSpec()
    assert env.fake_tensordict()["observation"].shape == (3, 1, 2)
    assert env.has_dynamic_specs


def test_seen_through_transforms():
    env = TransformedEnv(EnvWithDynamicSpec(), lambda td: td.set("total", td["observation"].sum().reshape(1)))
    assert env.rollout(3)["next", "total"].flatten().tolist() == [12, 36, 72]


def test_side_by_side():
    env = SerialEnv(2, EnvWithDynamicSpec)
    rollout = env.rollout(3)
    assert rollout.shape == (2, 3)
    assert rollout[1, 2]["next", "observation"].shape == (3, 4, 2)


def test_children_of_different_sizes():
    env = SerialEnv(2, EnvWithDynamicSpec, create_env_kwargs=[{"max_count": 2}, {"max_count": 3}])
    rollout = env.rollout(5, break_when_any_done=False)
    for child, limit in enumerate((2, 3)):
        steps = [rollout[child, t] for t in range(5)]
        assert [s["observation"].shape[1] for s in steps] == [1 + t % limit for t in range(5)]
        assert [s["next", "observation"].shape[1] for s in steps] == [2 + t % limit for t in range(5)]
    assert env.rollout(5, break_when_all_done=True).shape == (2, 3)
    env.check_env_specs()
