"""Which agents are stacked together."""

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase, MarlGroupMapType, check_marl_grouping

NAMES = ["wolf_0", "wolf_1", "sheep_0"]


class Field(EnvBase):
    def __init__(self, kind):
        super().__init__(batch_size=[2])
        self.group_map = kind.get_group_map(NAMES)
        sizes = {group: len(agents) for group, agents in self.group_map.items()}

        def spec(make):
            return Composite({g: make(n) for g, n in sizes.items()}, shape=[2])

        self.observation_spec = spec(lambda n: Composite(seen=Unbounded((2, n, 3)), shape=[2, n]))
        self.action_spec = spec(lambda n: Composite(action=Bounded(-1, 1, (2, n, 3)), shape=[2, n]))
        self.reward_spec = spec(lambda n: Composite(reward=Unbounded((2, n, 1)), shape=[2, n]))
        self.done_spec = Categorical(2, shape=(2, 1), dtype=torch.bool)

    def _reset(self, tensordict=None, **kwargs):
        return self.full_observation_spec.zero().update(self.full_done_spec.zero())

    def _step(self, tensordict):
        out = TensorDict({"done": torch.zeros(2, 1, dtype=torch.bool)}, [2])
        for group in self.group_map:
            seen = tensordict[group, "seen"] + tensordict[group, "action"]
            out[group] = TensorDict({"seen": seen, "reward": seen.sum(-1, keepdim=True)}, seen.shape[:2])
        return out

    def _set_seed(self, seed):
        pass


def rolled(kind):
    env = Field(kind)

    def policy(td):
        return td.update({g: {"action": torch.full((2, len(a), 3), 0.5)} for g, a in env.group_map.items()})

    keys = [sorted(map(str, keys)) for keys in (env.action_keys, env.reward_keys, env.done_keys)]
    return [env.group_map, env.rollout(3, policy), keys]


def run():
    kinds = (MarlGroupMapType.ALL_IN_ONE_GROUP, MarlGroupMapType.ONE_GROUP_PER_AGENT)
    found = {kind.name: rolled(kind) for kind in kinds}
    wrong = ({"a": ["wolf_0"]}, {"a": NAMES, "b": ["wolf_0"]}, {"a": [*NAMES, "cow_0"]})
    for i, group_map in enumerate(wrong):
        try:
            check_marl_grouping(group_map, NAMES)
            found[f"wrong {i}"] = "went through"
        except ValueError:
            found[f"wrong {i}"] = "refused"
    return found
