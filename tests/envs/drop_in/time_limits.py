"""Envs that stop at a time limit of which no done spec speaks."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Limited(EnvBase):
    """Counts; cut off after 3 steps. With ``observed`` the flag stands in the observation spec."""

    def __init__(self, batch_size=(), observed=False, with_done=False):
        super().__init__(batch_size=batch_size)
        shape = (*self.batch_size, 1)
        spec = {"observation": Unbounded(shape)}
        if observed:
            spec["truncated"] = Binary(1, shape, dtype=torch.bool)
        self.observation_spec = Composite(spec, shape=self.batch_size)
        self.action_spec = Bounded(-1, 1, shape)
        self.reward_spec = Unbounded(shape)
        self.observed, self.with_done, self.n = observed, with_done, torch.zeros(shape)

    def _reset(self, tensordict=None, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.n = torch.zeros_like(self.n) if mask is None else torch.where(mask, 0.0, self.n)
        out = {"observation": self.n.clone()}
        if self.observed:
            out["truncated"] = torch.zeros_like(self.n, dtype=torch.bool)
        return TensorDict(out, self.batch_size)

    def _step(self, tensordict):
        self.n = self.n + 1
        never = torch.zeros_like(self.n, dtype=torch.bool)
        out = {"observation": self.n.clone(), "reward": self.n.clone(), "terminated": never, "truncated": self.n >= 3}
        if self.with_done:
            out["done"] = never.clone()
        return TensorDict(out, self.batch_size)

    def _set_seed(self, seed):
        pass
