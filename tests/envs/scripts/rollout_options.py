"""What a rollout can be told."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Steps(EnvBase):
    def __init__(self, rows=2):
        super().__init__(batch_size=[rows])
        self.observation_spec = Composite(n=Unbounded((rows, 1)), shape=[rows])
        self.action_spec = Bounded(0, 2, (rows, 1))
        self.reward_spec = Unbounded((rows, 1))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"n": torch.zeros(*self.batch_size, 1)}, self.batch_size)

    def _step(self, tensordict):
        n = tensordict["n"] + tensordict["action"]
        limit = torch.arange(3.0, 3.0 + len(n)).unsqueeze(-1)
        return TensorDict({"n": n, "reward": n / 2, "done": n >= limit}, self.batch_size)

    def _set_seed(self, seed):
        pass


def run():
    env, seen = Steps(), []

    def policy(td):
        return td.set("action", torch.ones(2, 1))

    start = env.reset().set("n", torch.ones(2, 1))
    return {
        "plain": env.rollout(10, policy),
        "going on": env.rollout(6, policy, break_when_any_done=False),
        "from data": env.rollout(4, policy, auto_reset=False, tensordict=start.clone()),
        "lazy": env.rollout(2, policy, return_contiguous=False).contiguous(),
        "with a callback": env.rollout(5, policy, callback=lambda env, td: seen.append(td["n"].clone())),
        "enough of them": len(seen) >= 2,
        "stored": env.rollout(3, policy, storing_device="cpu", auto_cast_to_device=True),
        "trusted": env.rollout(3, policy, trust_policy=True),
        "one step": env.rollout(1, policy),
        "names": env.rollout(2, policy).names,
    }
