"""Whether a policy explores is said from outside."""

import torch
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import distributions, nn
from torchrl.envs import PendulumEnv
from torchrl.envs.utils import ExplorationType, exploration_type, set_exploration_type


class Gauss(nn.Module):
    def forward(self, th):
        return th.unsqueeze(-1).tanh(), torch.ones(*th.shape, 1)


def run():
    env = PendulumEnv()
    module = TensorDictModule(Gauss(), in_keys=["th"], out_keys=["loc", "scale"])
    draw = ProbabilisticTensorDictModule(
        in_keys=["loc", "scale"], out_keys=["action"], distribution_class=distributions.Normal
    )
    policy = ProbabilisticTensorDictSequential(module, draw)
    found = {"before": str(exploration_type())}
    start = env.reset()
    start["th"], start["thdot"] = torch.tensor(0.5), torch.tensor(0.25)
    for kind in (ExplorationType.MODE, ExplorationType.MEAN, ExplorationType.DETERMINISTIC):
        with set_exploration_type(kind):
            found[kind.name] = env.rollout(3, policy, auto_reset=False, tensordict=start.clone()).exclude(
                "rng", ("next", "rng")
            )
            found[f"{kind.name} inside"] = exploration_type() is kind
    with set_exploration_type(ExplorationType.RANDOM):
        torch.manual_seed(0)
        drawn = policy(start.clone())["action"]
        torch.manual_seed(0)
        found["drawn again"] = torch.equal(drawn, policy(start.clone())["action"])
        found["drawn"] = drawn

    @set_exploration_type(ExplorationType.MODE)
    def quietly():
        return policy(start.clone())["action"]

    found["as a decorator"] = quietly()
    return found
