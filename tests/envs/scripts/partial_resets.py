"""Some rows are reset, the others keep what they had."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Rows(EnvBase):
    def __init__(self, rows=4):
        super().__init__(batch_size=[rows])
        self.observation_spec = Composite(count=Unbounded((rows, 1)), shape=[rows])
        self.action_spec = Bounded(0, 1, (rows, 1))
        self.count = torch.zeros(rows, 1)

    def _reset(self, tensordict=None, **kwargs):
        mask = torch.ones(self.batch_size, dtype=torch.bool)
        if tensordict is not None and "_reset" in tensordict.keys():
            mask = tensordict["_reset"].squeeze(-1)
        self.count = torch.where(mask.unsqueeze(-1), torch.zeros_like(self.count), self.count)
        return TensorDict({"count": self.count.clone()}, self.batch_size)

    def _step(self, tensordict):
        self.count = self.count + tensordict["action"]
        limit = torch.arange(2.0, 2.0 + self.batch_size[0]).unsqueeze(-1)
        return TensorDict(
            {"count": self.count.clone(), "reward": self.count.clone(), "done": self.count >= limit}, self.batch_size
        )

    def _set_seed(self, seed):
        pass


def run():
    env, kept = Rows(), []

    def policy(td):
        return td.set("action", torch.ones(4, 1))

    td = env.reset()
    for _ in range(7):
        step, td = env.step_and_maybe_reset(policy(td))
        kept += [step.clone(), td.exclude("action").clone()]
    some = env.reset(
        TensorDict({**td.exclude("action").to_dict(), "_reset": torch.tensor([[True], [False], [True], [False]])}, [4])
    )
    return {"steps": kept, "some": some, "long": env.rollout(6, policy, break_when_any_done=False)}
