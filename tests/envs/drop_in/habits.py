"""Envs with the habits of TorchRL's users: rewards in resets, sizes that change, no specs, nested rewards, resets of their own."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torch import nn
from torchrl.data import Bounded, Composite, Unbounded
from torchrl.envs import EnvBase, ModelBasedEnvBase


class Count(EnvBase):
    """Counts; the reward is the action."""

    def __init__(self, batch_size=(), limit=3, **options):
        super().__init__(batch_size=batch_size, **options)
        shape = (*self.batch_size, 1)
        self.observation_spec = Composite(observation=Unbounded(shape), shape=self.batch_size)
        self.action_spec = Bounded(-1, 1, shape)
        self.reward_spec = Unbounded(shape)
        self.limit, self._secret, self.n = limit, 7, torch.zeros(shape)

    def _helper(self):
        return self.limit

    def _reset(self, tensordict=None, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.n = torch.zeros_like(self.n) if mask is None else torch.where(mask, 0.0, self.n)
        return TensorDict({"observation": self.n.clone()}, self.batch_size)

    def _step(self, tensordict):
        self.n = self.n + 1
        out = {"observation": self.n.clone(), "reward": tensordict["action"].clone(), "done": self.n >= self.limit}
        return TensorDict(out, self.batch_size)

    def _set_seed(self, seed):
        pass


class RewardsInResets(Count):
    def _reset(self, tensordict=None, **kwargs):
        return super()._reset(tensordict, **kwargs).set("reward", torch.full_like(self.n, 5.0))


class ResetsItself(Count):
    def _step(self, tensordict):
        out = super()._step(tensordict)
        if out["done"].any():
            self.n = torch.where(out["done"], 0.0, self.n)
            out["observation"] = self.n.clone()
        return out

    def _reset(self, tensordict=None, **kwargs):
        if tensordict is not None and "_reset" in tensordict.keys():
            return tensordict.copy()
        return super()._reset(None)


class SilentReward(Count):
    """Returns a reward that it has no spec for, or none."""

    def __init__(self, batch_size=(2,), gives=True):
        EnvBase.__init__(self, batch_size=batch_size)
        shape = (*self.batch_size, 1)
        self.observation_spec = Composite(observation=Unbounded(shape), shape=self.batch_size)
        self.action_spec = Unbounded(shape)
        self.limit, self.gives, self.n = torch.tensor([[2.0], [4.0]]), gives, torch.zeros(shape)

    def _step(self, tensordict):
        out = super()._step(tensordict)
        return out if self.gives else out.exclude("reward")


class Nothing(EnvBase):
    """Says nothing at all."""

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({}, self.batch_size)

    def _step(self, tensordict):
        return TensorDict({}, self.batch_size)

    def _set_seed(self, seed):
        pass


class Growing(EnvBase):
    """Observations that grow by one with every step."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded((3, -1)))
        self.action_spec, self.reward_spec, self.n = Bounded(-1, 1, (1,)), Unbounded((1,)), 0

    def _reset(self, tensordict=None, **kwargs):
        self.n = 0
        return TensorDict({"observation": torch.zeros(3, 1)}, [])

    def _step(self, tensordict):
        self.n += 1
        seen = torch.full((3, self.n + 1), float(self.n))
        return TensorDict(
            {"observation": seen, "reward": tensordict["action"], "done": torch.tensor([self.n >= 3])}, []
        )

    def _set_seed(self, seed):
        pass


class TwoRewards(EnvBase):
    """A reward per agent and one of the team."""

    def __init__(self):
        super().__init__()
        of_agents = lambda **specs: Composite(agents=Composite(**specs, shape=(2,)))
        self.observation_spec = of_agents(observation=Unbounded((2, 1)))
        self.action_spec = of_agents(action=Bounded(-1, 1, (2, 1)))
        rewards = of_agents(reward=Unbounded((2, 1)))
        rewards["team"] = Composite(reward=Unbounded((1,)))
        self.reward_spec = rewards

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({"agents": TensorDict({"observation": torch.zeros(2, 1)}, [2])}, [])

    def _step(self, tensordict):
        act = tensordict["agents", "action"]
        agents = TensorDict({"observation": act, "reward": act}, [2])
        team = TensorDict({"reward": act.sum(0)}, [])
        return TensorDict({"agents": agents, "team": team, "done": torch.tensor([False])}, [])

    def _set_seed(self, seed):
        pass


class AnySize(EnvBase):
    """The state is in the data, and any batch size is taken where it has none of its own."""

    batch_locked = False

    def __init__(self, batch_size=()):
        super().__init__(batch_size=batch_size)
        shape = (*self.batch_size, 1)
        self.observation_spec = Composite(x=Unbounded(shape), shape=self.batch_size)
        self.state_spec = self.observation_spec.clone()
        self.action_spec, self.reward_spec = Bounded(-1, 1, shape), Unbounded(shape)

    def _reset(self, tensordict=None, **kwargs):
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        return TensorDict({"x": torch.zeros(*batch, 1)}, batch)

    def _step(self, tensordict):
        act = tensordict["action"]
        out = {"x": tensordict["x"] + act, "reward": act, "done": torch.zeros(act.shape, dtype=torch.bool)}
        return TensorDict(out, tensordict.batch_size)

    def _set_seed(self, seed):
        pass


class UnlockedByNew(Count):
    def __new__(cls, *args, **kwargs):
        return super().__new__(cls, *args, _batch_locked=False, **kwargs)


class Model(nn.Module):
    def forward(self, tensordict):
        return tensordict.set("x", tensordict["x"] + tensordict["action"]).set("reward", tensordict["action"])


class Imagined(ModelBasedEnvBase):
    def __init__(self, **options):
        super().__init__(Model(), **options)
        shape = (*self.batch_size, 1)
        self.observation_spec = Composite(x=Unbounded(shape), shape=self.batch_size)
        self.state_spec = self.observation_spec.clone()
        self.action_spec, self.reward_spec = Unbounded(shape), Unbounded(shape)

    def _reset(self, tensordict=None, **kwargs):
        return TensorDict({}, self.batch_size, device=self.device).update(self.state_spec.zero())
