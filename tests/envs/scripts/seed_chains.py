"""A seed leads to the next one, the same in every library."""

import torch
from torchrl.envs import PendulumEnv, SerialEnv, TransformedEnv
from torchrl.envs.transforms import StepCounter


def run():
    env, chain, seed = PendulumEnv(), [], 3
    for _ in range(5):
        seed = env.set_seed(seed)
        chain.append(seed)
    found = {"chain": chain, "static": env.set_seed(11, static_seed=True)}
    for rows in (1, 3):
        many = SerialEnv(rows, PendulumEnv)
        found[f"{rows} in series"] = [many.set_seed(0), many.set_seed(12345)]
    found["transformed"] = TransformedEnv(PendulumEnv(), StepCounter()).set_seed(3)
    env.set_seed(1)
    one = env.reset()
    env.set_seed(1)
    found["repeats"] = torch.equal(one["th"], env.reset()["th"])
    return found
