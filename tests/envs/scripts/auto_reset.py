"""An env that resets itself when it is done."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Again(EnvBase):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Bounded(0, 1, (1,))
        self.reward_spec = Unbounded((1,))
        self.count = torch.zeros(1)

    def _reset(self, tensordict=None, **kwargs):
        if tensordict is not None and "_reset" in tensordict.keys():
            return tensordict.copy()
        self.count = torch.zeros(1)
        return TensorDict({"count": self.count.clone()})

    def _step(self, tensordict):
        self.count = self.count + tensordict["action"]
        out = TensorDict({"count": self.count.clone(), "reward": self.count.clone(), "done": self.count >= 3})
        if out["done"].any():
            self.count = torch.full((1,), 0.5)
            out["count"] = self.count.clone()
        return out

    def _set_seed(self, seed):
        pass


def run():

    def policy(td):
        return td.set("action", torch.ones(1))

    found = {}
    for replace in (True, False):
        env = Again(auto_reset=True, auto_reset_replace=replace)
        found[f"replace={replace}"] = env.rollout(9, policy, break_when_any_done=False)
    return found
