"""Envs in series: their attributes, seeds, and rows that end at different times."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, SerialEnv, StepCounter, TransformedEnv


class Count(EnvBase):
    def __init__(self, limit=3):
        super().__init__()
        self.limit, self.count = limit, 0
        self.observation_spec = Composite(count=Unbounded((1,)))
        self.action_spec = Bounded(0, 1, (1,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict=None, **kwargs):
        self.count = 0
        return TensorDict({"count": torch.zeros(1)})

    def _step(self, tensordict):
        self.count += 1
        count = torch.full((1,), float(self.count))
        flags = {"done": count >= self.limit, "terminated": count >= self.limit}
        return TensorDict({"count": count, "reward": count * tensordict["action"], **flags})

    def _set_seed(self, seed):
        self.seeded = seed


def run():
    env = SerialEnv(3, [lambda n=n: Count(n) for n in (2, 3, 4)])
    following = env.set_seed(5)

    def policy(td):
        return td.set("action", torch.full((3, 1), 0.5))

    limits = list(env.limit)
    long = env.rollout(7, policy, break_when_any_done=False)
    short = env.rollout(7, policy)
    counted = TransformedEnv(SerialEnv(2, Count), StepCounter(max_steps=2))

    def half(td):
        return td.set("action", torch.full((2, 1), 0.5))

    td = env.reset()
    td["_reset"] = torch.tensor([[True], [False], [True]])
    some = env.reset(td)
    return {
        "next seed": following,
        "seeds": list(env.seeded),
        "limits": limits,
        "long": long,
        "short": short,
        "counted": counted.rollout(5, half),
        "some": some,
        "shape": tuple(env.action_spec.shape),
    }
