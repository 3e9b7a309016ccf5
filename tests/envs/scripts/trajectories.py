"""A long rollout is cut into episodes."""

import torch
from tensordict import TensorDict
from torchrl.collectors.utils import split_trajectories
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import terminated_or_truncated


class Short(EnvBase):
    def __init__(self):
        super().__init__(batch_size=[2])
        self.observation_spec = Composite(n=Unbounded((2, 1)), shape=[2])
        self.action_spec = Bounded(0, 1, (2, 1))
        self.reward_spec = Unbounded((2, 1))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"n": torch.zeros(2, 1)}, [2])

    def _step(self, tensordict):
        n = tensordict["n"] + 1
        done = n >= torch.tensor([[2.0], [3.0]])
        return TensorDict({"n": n, "reward": n.clone(), "done": done}, [2])

    def _set_seed(self, seed):
        pass


def run():
    env = Short()
    rollout = env.rollout(7, lambda td: td.set("action", torch.ones(2, 1)), break_when_any_done=False)
    cut = split_trajectories(rollout, prefix="cut")
    named = rollout.clone()
    named["ids"] = rollout["n"].long() * 0 + torch.arange(2).reshape(2, 1, 1)
    flags = rollout["next"].select("done", "terminated").clone()
    any_done = terminated_or_truncated(flags, key="_reset")
    return {
        "rollout": rollout,
        "cut": cut,
        "as nested": split_trajectories(rollout, as_nested=False)["mask"],
        "by id": split_trajectories(named, trajectory_key="ids")["next", "reward"].sum(),
        "ended": bool(any_done),
        "flags": flags.get("_reset", None),
    }
