"""A stateless env takes any batch size."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase


class Drift(EnvBase):
    batch_locked = False

    def __init__(self):
        super().__init__(batch_size=[])
        self.observation_spec = Composite(x=Unbounded((2,)))
        self.state_spec = Composite(x=Unbounded((2,)))
        self.action_spec = Bounded(-1, 1, (2,))
        self.reward_spec = Unbounded((1,))

    def _reset(self, tensordict=None, **kwargs):
        shape = () if tensordict is None else tensordict.batch_size
        return TensorDict({"x": torch.zeros(*shape, 2)}, shape)

    def _step(self, tensordict):
        x = tensordict["x"] + tensordict["action"]
        reward = -x.norm(dim=-1, keepdim=True)
        return TensorDict(
            {"x": x, "reward": reward, "done": torch.zeros_like(reward, dtype=torch.bool)}, tensordict.shape
        )

    def _set_seed(self, seed):
        pass


def run():
    env, found = Drift(), {}
    for shape in ((), (3,), (2, 3)):

        def policy(td):
            return td.set("action", torch.linspace(-1, 1, 2).expand(*td.shape, 2).clone())

        start = env.reset(TensorDict({}, shape))
        found[str(shape)] = env.rollout(4, policy, auto_reset=False, tensordict=start)
        found[f"step {shape}"] = env.step(policy(env.reset(TensorDict({}, shape))))
    return found
