"""Nested keys: observations, actions, rewards and flags under names of their own, and ``step_mdp`` over them."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import step_mdp


class Nested(EnvBase):
    def __init__(self):
        super().__init__(batch_size=[2])
        self.observation_spec = Composite(
            data=Composite(deep=Composite(x=Unbounded((2, 3)), shape=[2]), shape=[2]), shape=[2]
        )
        self.action_spec = Composite(data=Composite(act=Bounded(-1, 1, (2, 3)), shape=[2]), shape=[2])
        self.reward_spec = Composite(data=Composite(gain=Unbounded((2, 1)), shape=[2]), shape=[2])
        flag = Categorical(2, shape=(2, 1), dtype=torch.bool)
        self.done_spec = Composite(data=Composite(done=flag, terminated=flag.clone(), shape=[2]), shape=[2])

    def _out(self, x, **more):
        done = x.sum(-1, keepdim=True) > 4
        data = {"deep": {"x": x}, "done": done, "terminated": done.clone(), **more}
        return TensorDict({"data": data}, batch_size=[2])

    def _reset(self, tensordict=None, **kwargs):
        return self._out(torch.zeros(2, 3))

    def _step(self, tensordict):
        x = tensordict["data", "deep", "x"] + tensordict["data", "act"]
        return self._out(x, gain=x.mean(-1, keepdim=True))

    def _set_seed(self, seed):
        pass


def run():
    env = Nested()

    def policy(td):
        return td.set(("data", "act"), torch.full((2, 3), 0.5))

    step = env.step(policy(env.reset()))
    return {
        "keys": [env.action_key, env.reward_key, env.action_keys, env.reward_keys, env.done_keys, env.reset_keys],
        "spec of the reward": tuple(env.full_reward_spec["data", "gain"].shape),
        "rollout": env.rollout(9, policy),
        "all": step_mdp(step, exclude_action=False),
        "little": step_mdp(step, keep_other=False, exclude_reward=True, exclude_done=True),
        "rewarded": step_mdp(
            step,
            exclude_reward=False,
            reward_keys=env.reward_keys,
            done_keys=env.done_keys,
            action_keys=env.action_keys,
        ),
    }
