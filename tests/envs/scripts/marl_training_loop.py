"""The skeleton of a multi-agent training loop: groups by a rule, sums per agent, first steps, flattened in time."""

import torch
from mpe2 import simple_spread_v3
from tensordict.nn import TensorDictModule
from torchrl.envs import (
    Compose,
    InitTracker,
    MarlGroupMapType,
    PettingZooWrapper,
    RewardSum,
    StepCounter,
    TransformedEnv,
    check_env_specs,
    check_marl_grouping,
)
from torchrl.envs.utils import ExplorationType, set_exploration_type, step_mdp


def run():
    sim = simple_spread_v3.parallel_env(max_cycles=6)
    env = PettingZooWrapper(sim, False, MarlGroupMapType.ALL_IN_ONE_GROUP, True, True, 3)
    sums = RewardSum(in_keys=env.reward_keys, out_keys=[("agents", "episode_reward")])
    env = TransformedEnv(env, Compose(sums, StepCounter(max_steps=5), InitTracker()))
    check_env_specs(env)
    names = env.group_map["agents"]
    check_marl_grouping(env.group_map, names)

    class Actor(torch.nn.Module):
        def forward(self, observation):
            return (observation.sum(-1).abs() * 10).long() % 5

    act = TensorDictModule(Actor(), in_keys=[("agents", "observation")], out_keys=[("agents", "action")])
    env.set_seed(1)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(8, act, break_when_any_done=False)
    done = data["next", "done"]
    wide = done.unsqueeze(-1).expand(data["next", "agents", "reward"].shape)
    returns = data["next", "agents", "episode_reward"][done.squeeze(-1)]
    root = step_mdp(data[..., -1])
    steps = data["next", "step_count"].flatten().tolist()
    reward_shape, action_shape = (
        tuple(env.full_reward_spec[env.reward_key].shape),
        tuple(env.full_action_spec[env.action_key].shape),
    )
    return {
        "names": names,
        "returns": tuple(returns.shape),
        "wide": wide.sum(),
        "steps": steps,
        "init": data["is_init"].flatten().tolist(),
        "root": sorted(map(str, root.keys())),
        "shapes": (reward_shape, action_shape),
        "fake": sorted(set(env.fake_tensordict()["agents"].keys()) - {"alive"}),
    }
