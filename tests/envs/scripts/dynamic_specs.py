"""An observation that grows: sizes of -1, and rollouts that cannot be stacked."""

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs


class Growing(EnvBase):
    def __init__(self, most=4):
        super().__init__(batch_size=())
        self.observation_spec = Composite(seen=Unbounded(shape=(-1, 2)))
        self.action_spec = Bounded(low=-1, high=1, shape=(2,))
        flag = Binary(1, shape=(1,), dtype=torch.bool)
        self.full_done_spec = Composite(done=flag, terminated=flag.clone(), truncated=flag.clone())
        self.reward_spec = Unbounded((1,))
        self.most = most

    def _reset(self, tensordict=None, **kwargs):
        self.count = 0
        return TensorDict({"seen": torch.zeros(1, 2), **self.full_done_spec.zero()})

    def _step(self, tensordict):
        self.count += 1
        seen = torch.full((self.count + 1, 2), float(self.count)) + tensordict["action"]
        flags = TensorDict(self.full_done_spec.zero()) | (self.count >= self.most)
        return TensorDict({"seen": seen, **flags, **self.full_reward_spec.zero()})

    def _set_seed(self, seed):
        pass


def run():
    env = Growing()
    check_env_specs(env, return_contiguous=False)
    rollout = env.rollout(9, lambda td: td.set("action", torch.full((2,), 0.25)), return_contiguous=False)
    shape = tuple(env.observation_spec["seen"].shape)
    return {"shape": shape, "length": len(rollout), "steps": list(rollout.unbind(0)), "kind": type(rollout).__name__}
