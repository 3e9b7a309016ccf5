"""A world model as an env."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.data import Composite, Unbounded
from torchrl.envs import ModelBasedEnvBase


class Imagined(ModelBasedEnvBase):
    def __init__(self, world_model, batch_size):
        super().__init__(world_model, device="cpu", batch_size=batch_size)
        self.observation_spec = Composite(hidden=Unbounded((*self.batch_size, 4)), shape=self.batch_size)
        self.state_spec = Composite(hidden=Unbounded((*self.batch_size, 4)), shape=self.batch_size)
        self.action_spec = Unbounded((*self.batch_size, 1))
        self.reward_spec = Unbounded((*self.batch_size, 1))

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"hidden": torch.ones(*self.batch_size, 4)}, self.batch_size)


def filled(layer, value):
    for parameter in layer.parameters():
        nn.init.constant_(parameter, value)
    return layer


class Join(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = filled(nn.Linear(5, 4), 0.1)

    def forward(self, hidden, action):
        return self.layer(torch.cat([hidden, action], -1))


def run():
    transition = TensorDictModule(Join(), in_keys=["hidden", "action"], out_keys=["hidden"])
    reward = TensorDictModule(filled(nn.Linear(4, 1), 0.5), in_keys=["hidden"], out_keys=["reward"])
    env = Imagined(TensorDictSequential(transition, reward), batch_size=[3])
    policy = TensorDictModule(filled(nn.Linear(4, 1), 0.2), in_keys=["hidden"], out_keys=["action"])
    with torch.no_grad():
        rollout = env.rollout(5, policy)
    trained = env.rollout(3, policy)["next", "reward"].sum()
    trained.backward()
    return {"rollout": rollout, "gradient": policy.module.weight.grad, "keys": env.state_keys}
