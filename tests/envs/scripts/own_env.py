"""An env of one's own: specs, a seed, a check, a rollout."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs, step_mdp


class Walk(EnvBase):
    def __init__(self, length=4, device="cpu"):
        super().__init__(device=device, batch_size=[])
        self.length = length
        self.observation_spec = Composite(place=Bounded(-10, 10, shape=(1,)), parity=Categorical(2, shape=(1,)))
        self.action_spec = Bounded(-1, 1, shape=(1,))
        self.reward_spec = Unbounded(shape=(1,))
        self.done_spec = Categorical(2, shape=(1,), dtype=torch.bool)

    def _observed(self):
        return {"place": self.place.clone(), "parity": (self.place.round() % 2).to(torch.int64)}

    def _reset(self, tensordict, **kwargs):
        self.place = torch.rand(1, generator=self.generator)
        return TensorDict(self._observed(), batch_size=[])

    def _step(self, tensordict):
        self.place = self.place + tensordict["action"]
        done = self.place > self.length
        return TensorDict({**self._observed(), "reward": self.place.clone(), "done": done}, batch_size=[])

    def _set_seed(self, seed):
        self.generator = torch.Generator().manual_seed(seed or 0)


def run():
    env = Walk()
    following = env.set_seed(7)
    check_env_specs(env)
    env.set_seed(7)
    rollout = env.rollout(10, lambda td: td.set("action", torch.full((1,), 0.75)))
    first = env.reset()
    step = env.step(first.set("action", torch.ones(1)))
    return {"next seed": following, "rollout": rollout, "step": step, "following": step_mdp(step)}
