"""Two groups of different agents, each with its own flags, and none at the root: every group is reset by itself."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, OneHot, Unbounded
from torchrl.envs import EnvBase


class TwoGroups(EnvBase):
    SIZES = {"wolves": 2, "sheep": 3}

    def __init__(self, batch_size=(), limits=None):
        super().__init__(batch_size=batch_size)
        self.limits = limits or {"wolves": 2, "sheep": 3}
        batch = self.batch_size
        obs, act, rew, done = (
            Composite(shape=batch),
            Composite(shape=batch),
            Composite(shape=batch),
            Composite(shape=batch),
        )
        for group, n in self.SIZES.items():
            full = (*batch, n)
            obs[group] = Composite({"observation": Unbounded((*full, 2))}, shape=full)
            if group == "wolves":
                act[group] = Composite({"action": Bounded(-1.0, 1.0, (*full, 2))}, shape=full)
            else:
                act[group] = Composite({"action": OneHot(4, (*full, 4))}, shape=full)
            rew[group] = Composite({"reward": Unbounded((*full, 1))}, shape=full)
            done[group] = Composite(
                {
                    "done": Categorical(2, (*full, 1), dtype=torch.bool),
                    "terminated": Categorical(2, (*full, 1), dtype=torch.bool),
                },
                shape=full,
            )
        self.observation_spec, self.action_spec, self.reward_spec, self.done_spec = obs, act, rew, done
        self.t = {g: torch.zeros(*batch, n, 1) for g, n in self.SIZES.items()}

    def _reset(self, tensordict=None):
        out = TensorDict({}, self.batch_size)
        for group, n in self.SIZES.items():
            mask = None if tensordict is None else tensordict.get((group, "_reset"), None)
            self.t[group] = torch.zeros_like(self.t[group]) if mask is None else torch.where(mask, 0.0, self.t[group])
            out[group] = TensorDict(
                {"observation": self.t[group].expand(*self.batch_size, n, 2)}, [*self.batch_size, n]
            )
        return out

    def _step(self, tensordict):
        out = TensorDict({}, self.batch_size)
        for group, n in self.SIZES.items():
            self.t[group] = self.t[group] + 1
            number = torch.arange(n).view(n, 1)
            out[group] = TensorDict(
                {
                    "observation": self.t[group].expand(*self.batch_size, n, 2),
                    "reward": tensordict[group, "action"].float().sum(-1, keepdim=True),
                    "done": self.t[group] >= self.limits[group] + number,
                    "terminated": self.t[group] >= self.limits[group] + number,
                },
                [*self.batch_size, n],
            )
        return out

    def _set_seed(self, seed):
        return seed
