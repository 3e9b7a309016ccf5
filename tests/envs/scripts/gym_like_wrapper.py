"""A wrapper of a simulator of one's own with gym's interface, whose infos become entries."""

import numpy as np
import torch
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import GymLikeEnv, StepCounter, TransformedEnv, check_env_specs, default_info_dict_reader


class Walk:
    """A simulator: a walker on a line that ends at 3 or -3."""

    def reset(self, seed=None):
        self.at, self.time = 0.0, 0
        return np.array([self.at], dtype=np.float32), {"height": np.float32(0.5)}

    def step(self, action):
        self.at, self.time = self.at + float(action) - 1, self.time + 1
        info = {"height": np.float32(self.at / 2)}
        return np.array([self.at], dtype=np.float32), abs(self.at), abs(self.at) >= 3, self.time >= 6, info


class WalkWrapper(GymLikeEnv):
    def __init__(self, env=None, **kwargs):
        super().__init__(env=env, **kwargs)

    def _check_kwargs(self, kwargs):
        if "env" not in kwargs:
            raise TypeError("env is missing")

    def _build_env(self, env, **kwargs):
        return env

    def _make_specs(self, env):
        self.observation_spec = Composite(observation=Unbounded((1,)))
        self.action_spec = Categorical(3)
        self.reward_spec = Unbounded((1,))
        flags = ("done", "terminated", "truncated")
        self.done_spec = Composite({name: Categorical(2, (1,), dtype=torch.bool) for name in flags})

    def _init_env(self):
        self.reset()

    def _set_seed(self, seed):
        pass

    def _reset_output_transform(self, reset_data):
        return reset_data

    def _output_transform(self, step_outputs):
        observation, reward, terminated, truncated, info = step_outputs
        return observation, reward, terminated, truncated, terminated or truncated, info


def run():
    env = WalkWrapper(Walk())
    reader = default_info_dict_reader(["height"], spec=Composite(height=Bounded(-9, 9, ())))
    env.set_info_dict_reader(reader)
    env = TransformedEnv(env, StepCounter())
    check_env_specs(env)
    up = env.rollout(9, lambda td: td.set("action", torch.tensor(2)))
    stay = env.rollout(9, lambda td: td.set("action", torch.tensor(1)), break_when_any_done=False)
    return {"up": up, "stay": stay, "specs": sorted(map(str, env.observation_spec.keys()))}
