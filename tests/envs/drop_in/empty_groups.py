"""The env of RemoveEmptySpecs' documents: groups of observations and of rewards that hold nothing."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Categorical, Composite, Unbounded
from torchrl.envs import EnvBase


class DummyEnv(EnvBase):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.observation_spec = Composite(
            observation=Unbounded((*self.batch_size, 3)),
            other=Composite(another_other=Composite(shape=self.batch_size), shape=self.batch_size),
            shape=self.batch_size,
        )
        self.action_spec = Unbounded((*self.batch_size, 3))
        self.done_spec = Categorical(2, (*self.batch_size, 1), dtype=torch.bool)
        self.full_done_spec["truncated"] = self.full_done_spec["terminated"].clone()
        self.reward_spec = Composite(
            reward=Unbounded((*self.batch_size, 1)),
            other_reward=Composite(deeper=Composite(shape=self.batch_size), shape=self.batch_size),
            shape=self.batch_size,
        )

    def _reset(self, tensordict):
        return self.observation_spec.zero().update(self.full_done_spec.zero())

    def _step(self, tensordict):
        out = TensorDict({}, batch_size=self.batch_size).update(self.observation_spec.one())
        return out.update(self.full_done_spec.zero()).update(self.full_reward_spec.zero())

    def _set_seed(self, seed):
        pass
