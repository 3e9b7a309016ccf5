"""An env that costs next to nothing: 3 agents in one group. What is left is the cost of the env layer."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Cheap(EnvBase):
    def __init__(self, batch_size=(32,)):
        super().__init__(batch_size=batch_size)
        batch = (*self.batch_size, 3)
        group = lambda name, spec: Composite({"agents": Composite({name: spec}, shape=batch)}, shape=self.batch_size)
        self.observation_spec = group("observation", Unbounded((*batch, 8)))
        self.action_spec = group("action", Bounded(-1, 1, (*batch, 2)))
        self.reward_spec = group("reward", Unbounded((*batch, 1)))
        flags = {
            n: Binary(1, shape=(*self.batch_size, 1), dtype=torch.bool) for n in ("done", "terminated", "truncated")
        }
        self.done_spec = Composite(flags, shape=self.batch_size)
        self.seen, self.paid = torch.zeros((*batch, 8)), torch.zeros((*batch, 1))
        self.over = torch.zeros((*self.batch_size, 1), dtype=torch.bool)

    def _reset(self, tensordict=None, **_):
        batch = self.batch_size
        agents = TensorDict({"observation": self.seen}, [*batch, 3])
        return TensorDict({"agents": agents, "done": self.over, "terminated": self.over, "truncated": self.over}, batch)

    def _step(self, tensordict):
        batch = self.batch_size
        agents = TensorDict({"observation": self.seen, "reward": self.paid}, [*batch, 3])
        return TensorDict({"agents": agents, "done": self.over, "terminated": self.over, "truncated": self.over}, batch)

    def _set_seed(self, seed):
        pass
