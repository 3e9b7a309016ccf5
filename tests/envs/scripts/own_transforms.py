"""Transforms of one's own: of observations, of actions, composed, cloned, asked for their parents."""

import torch
from torchrl.envs import Compose, PendulumEnv, Transform, TransformedEnv


class AddOneToObs(Transform):
    def __init__(self):
        super().__init__(in_keys=["th"], out_keys=["th_plus"])

    def _apply_transform(self, obs):
        return obs + 1

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        observation_spec["th_plus"] = observation_spec["th"].clone()
        return observation_spec


class HalveAction(Transform):
    def __init__(self):
        super().__init__(in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"])

    def _inv_apply_transform(self, action):
        return action / 2


class ScaleReward(Transform):
    def __init__(self, factor):
        super().__init__(in_keys=["reward"], out_keys=["reward"])
        self.factor = factor

    def _apply_transform(self, reward):
        return reward * self.factor


def run():
    env = TransformedEnv(PendulumEnv(), Compose(AddOneToObs(), HalveAction()))
    env.append_transform(ScaleReward(10.0))

    def policy(td):
        return td.set("action", torch.full((1,), 0.5))

    steps, td = [], env.reset()
    td["th"], td["thdot"], td["th_plus"] = torch.tensor(0.5), torch.tensor(-0.25), torch.tensor(1.5)
    for _ in range(4):
        step, td = env.step_and_maybe_reset(policy(td))
        steps.append(step.exclude("rng", ("next", "rng")))
    last = env.transform[-2:]
    try:
        TransformedEnv(PendulumEnv(), env.transform[0])
        taken = "went through"
    except Exception:
        taken = "refused"
    return {
        "steps": steps,
        "lengths": [len(env.transform), len(last), len(env.transform[1].parent.transform)],
        "parents": [env.transform[0].parent is not None, env.transform[0].clone().parent is None],
        "taken": taken,
        "seen": "th_plus" in env.observation_spec.keys(),
    }
