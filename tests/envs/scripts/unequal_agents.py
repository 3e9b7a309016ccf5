"""Agents of unequal shapes in one group: stacked specs, lazy data, dense stacks where sizes agree."""

import torch
from tensordict import LazyStackedTensorDict, TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs, step_mdp


class Pair(EnvBase):
    """Two agents that observe vectors of 2 and of 3 numbers."""

    def __init__(self):
        super().__init__()
        sizes = (2, 3)
        observed = [Composite(observation=Unbounded((n,)), shape=()) for n in sizes]
        acted = [Composite(action=Bounded(-1, 1, (n,)), shape=()) for n in sizes]
        paid = [Composite(reward=Unbounded((1,))) for _ in sizes]
        self.observation_spec = Composite(agents=torch.stack(observed))
        self.action_spec = Composite(agents=torch.stack(acted))
        self.reward_spec = Composite(agents=torch.stack(paid))
        self.done_spec = Composite(done=Categorical(2, (1,), dtype=torch.bool))

    def _agents(self, start):
        parts = [TensorDict({"observation": start + torch.arange(float(n))}, []) for n in (2, 3)]
        return LazyStackedTensorDict.lazy_stack(parts)

    def _reset(self, tensordict=None, **kwargs):
        self.time = 0
        return TensorDict({"agents": self._agents(0)}, [])

    def _step(self, tensordict):
        self.time += 1
        agents = self._agents(self.time)
        actions = [one["action"].sum(-1, keepdim=True) for one in tensordict["agents"].unbind(0)]
        agents.set("reward", torch.stack(actions))
        return TensorDict({"agents": agents, "done": torch.tensor([self.time >= 3])}, [])

    def _set_seed(self, seed):
        pass


def halves(td):
    for one in td["agents"].unbind(0):
        one.set("action", torch.full_like(one["observation"], 0.5))
    return td


def run():
    env = Pair()
    check_env_specs(env, return_contiguous=False)
    data = env.rollout(5, halves, return_contiguous=False)
    each = [step["next", "agents"] for step in data.unbind(0)]
    rewards = torch.stack([agents["reward"] for agents in each])
    second = [agents[1]["observation"] for agents in each]
    dense = LazyStackedTensorDict.maybe_dense_stack([agents[0] for agents in each])
    spec = env.observation_spec["agents"]
    return {
        "rewards": rewards,
        "second": torch.stack(second),
        "dense": (type(dense).__name__, dense["observation"]),
        "shapes": [tuple(spec[i]["observation"].shape) for i in range(2)],
        "next": step_mdp(data[-1])["agents"][1]["observation"],
        "in": bool(env.observation_spec.is_in(env.reset().select("agents"))),
        "zero": env.observation_spec.zero()["agents"][1]["observation"],
    }
