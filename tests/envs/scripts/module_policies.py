"""Policies made of tensordict's modules: one, several, with hidden entries."""

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import PendulumEnv, StepCounter, TransformedEnv


def layer(n, m, value):
    made = nn.Linear(n, m)
    nn.init.constant_(made.weight, value)
    nn.init.constant_(made.bias, value / 2)
    return made


class Features(nn.Module):
    def forward(self, th, thdot):
        return torch.stack([th.sin(), th.cos(), thdot], -1)


def start_of(env):
    data = env.gen_params(batch_size=[2]).clone()
    start = env.reset(data)
    start["th"], start["thdot"] = torch.tensor([0.5, -0.5]), torch.tensor([0.25, 1.0])
    return start


def run():
    env = TransformedEnv(PendulumEnv(), StepCounter())
    features = TensorDictModule(Features(), in_keys=["th", "thdot"], out_keys=["features"])
    hidden = TensorDictModule(layer(3, 4, 0.3), in_keys=["features"], out_keys=["hidden"])
    out = TensorDictModule(nn.Sequential(layer(4, 1, 0.1), nn.Tanh()), in_keys=["hidden"], out_keys=["action"])
    whole = TensorDictSequential(features, hidden, out)
    with torch.no_grad():
        rollout = env.rollout(4, whole, auto_reset=False, tensordict=start_of(env))
        lean = env.rollout(4, whole.select_out_keys("action"), auto_reset=False, tensordict=start_of(env))
    loss = -env.rollout(3, whole, auto_reset=False, tensordict=start_of(env))["next", "reward"].mean()
    loss.backward()
    rollout, lean = (data.exclude("rng", ("next", "rng")) for data in (rollout, lean))
    return {"rollout": rollout, "lean": lean, "gradient": hidden.module.weight.grad, "loss": loss.detach()}
