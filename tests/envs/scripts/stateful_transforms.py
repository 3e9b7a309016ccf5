"""A transform with memory, and those that keep count of an episode."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import Compose, EnvBase, InitTracker, RewardSum, StepCounter, Transform, TransformedEnv


class Line(EnvBase):
    def __init__(self, rows=3):
        super().__init__(batch_size=[rows])
        self.observation_spec = Composite(x=Unbounded((rows, 1)), shape=[rows])
        self.action_spec = Bounded(-1, 1, (rows, 1))
        self.reward_spec = Unbounded((rows, 1))

    def _reset(self, tensordict=None, **kwargs):
        start = torch.arange(3.0).unsqueeze(-1)
        return TensorDict({"x": start}, self.batch_size)

    def _step(self, tensordict):
        x = tensordict["x"] + tensordict["action"]
        return TensorDict({"x": x, "reward": x.clone(), "done": x > 5}, self.batch_size)

    def _set_seed(self, seed):
        pass


class Best(Transform):
    """Keeps the best reward of an episode."""

    def _reset(self, tensordict, tensordict_reset):
        tensordict_reset["best"] = torch.full_like(tensordict_reset["x"], -1)
        return tensordict_reset

    def _step(self, tensordict, next_tensordict):
        next_tensordict["best"] = torch.maximum(tensordict["best"], next_tensordict["reward"])
        return next_tensordict

    def transform_observation_spec(self, observation_spec):
        observation_spec["best"] = observation_spec["x"].clone()
        return observation_spec


def run():
    env = TransformedEnv(Line(), Compose(Best(), RewardSum(), StepCounter(max_steps=7), InitTracker()))

    def policy(td):
        return td.set("action", torch.ones(3, 1))

    return {
        "short": env.rollout(20, policy),
        "long": env.rollout(9, policy, break_when_any_done=False),
        "limited": TransformedEnv(Line(), StepCounter(max_steps=2)).rollout(9, policy),
        "names": sorted(map(str, env.observation_spec.keys())),
    }
