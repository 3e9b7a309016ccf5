"""PettingZoo's parallel interface: groups, keys, scripted actions."""

import torch
from pettingzoo.classic import rps_v2
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import MarlGroupMapType, check_marl_grouping

MAPS = {
    "default": None,
    "one each": MarlGroupMapType.ONE_GROUP_PER_AGENT,
    "all": MarlGroupMapType.ALL_IN_ONE_GROUP,
    "own": {"left": ["player_0"], "right": ["player_1"]},
}
MOVES = torch.tensor([[0, 1, 2, 0, 2], [0, 2, 1, 1, 2]])


def rolled(group_map, categorical_actions=False):
    env = PettingZooWrapper(
        rps_v2.parallel_env(max_cycles=5),
        group_map=group_map,
        use_mask=False,
        seed=3,
        categorical_actions=categorical_actions,
    )
    check_marl_grouping(env.group_map, ["player_0", "player_1"])
    following = env.set_seed(0)
    time = iter(range(5))

    def policy(td):
        step = next(time)
        for group, agents in env.group_map.items():
            cells = torch.stack([MOVES[int(agent[-1]), step] for agent in agents])
            td[group, "action"] = cells if env.categorical_actions else torch.nn.functional.one_hot(cells, 3)
        return td

    return {
        "rollout": env.rollout(10, policy).exclude(*left_out(env)),
        "groups": env.group_map,
        "told": [env.parallel, env.has_action_mask, following, env.done_on_any],
        "keys": sorted(map(str, [*env.action_keys, *env.reward_keys, *env.done_keys])),
        "known": "sisl/pursuit_v5" in env.available_envs,
    }


def run():
    found = {name: rolled(group_map) for name, group_map in MAPS.items()}
    return {**found, "numbers": rolled(None, categorical_actions=True)}


def left_out(env):
    """Discrete observations are one-hot in one library, and written as the actions are in the other."""
    return [(*at, group, "observation") for group in env.group_map for at in ((), ("next",)) if env.categorical_actions]
