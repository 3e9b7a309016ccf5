"""An env with something for every transform: floats, doubles, integers, pictures; at the root, in a group, or in two."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase


class Studio(EnvBase):
    SHAPES = {"observation": (3,), "precise": (2,), "whole": (2,), "pixels": (4, 6, 3)}
    DTYPES = {"precise": torch.float64, "whole": torch.int64, "pixels": torch.uint8}

    def __init__(self, groups=None, batch_size=(), limit=3, goals=1, choices=0):
        super().__init__(batch_size=batch_size)
        self.groups, self.limit, self.goals, self.choices = groups or {(): None}, limit, goals, choices
        batch = self.batch_size
        obs, act, rew = (Composite(shape=batch) for _ in range(3))
        for group, agents in self.groups.items():
            lead = batch if agents is None else (*batch, agents)
            leaves = {}
            for name, shape in self.SHAPES.items():
                dtype = self.DTYPES.get(name, torch.float32)
                if name == "pixels":
                    leaves[name] = Bounded(0, 255, (*lead, *shape), dtype=dtype)
                else:
                    leaves[name] = Unbounded((*lead, *shape), dtype=dtype)
            actions = {"action": Bounded(-1.0, 3.0, (*lead, 2))}
            if choices:
                actions["choice"] = Categorical(choices, lead, dtype=torch.int64)
                leaves["choice_mask"] = Binary(choices, (*lead, choices), dtype=torch.bool)
            for spec, entries in (
                (obs, leaves),
                (act, actions),
                (rew, {"reward": Unbounded((*lead, goals))}),
            ):
                if agents is None:
                    for name, leaf in entries.items():
                        spec[name] = leaf
                else:
                    spec[group] = Composite(entries, shape=lead)
        self.observation_spec, self.action_spec, self.reward_spec = obs, act, rew
        self.done_spec = Categorical(2, shape=(*batch, 1), dtype=torch.bool)
        self.t = torch.zeros(*batch, 1)

    def _observe(self, out):
        for group, agents in self.groups.items():
            lead = self.batch_size if agents is None else (*self.batch_size, agents)
            data = {}
            for name, shape in self.SHAPES.items():
                size = torch.Size((*lead, *shape))
                number = torch.arange(size.numel()).reshape(size).double()
                t = self.t.reshape(*self.batch_size, *[1] * (len(size) - len(self.batch_size)))
                value = torch.sin(number + 1.7 * t) * 3
                value = (value + 3) * 40 if name == "pixels" else value
                data[name] = value.to(self.DTYPES.get(name, torch.float32))
            if self.choices:
                data["choice_mask"] = data["observation"][..., :1] * torch.arange(-1.0, self.choices - 1) <= 1
            if agents is None:
                out.update(data)
            else:
                out[group] = TensorDict(data, lead)
        return out

    def _reset(self, tensordict=None, **kwargs):
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self.t = torch.zeros_like(self.t) if mask is None else torch.where(mask, 0.0, self.t)
        return self._observe(TensorDict({}, self.batch_size))

    def _step(self, tensordict):
        where = tensordict.get("_step", None)
        self.t = self.t + (1 if where is None else where.reshape(self.t.shape))
        out = self._observe(TensorDict({}, self.batch_size))
        for group, agents in self.groups.items():
            action = tensordict["action"] if agents is None else tensordict[group, "action"]
            number = torch.arange(self.goals) + 1.0
            out["reward" if agents is None else (group, "reward")] = (action.sum(-1, keepdim=True) - 0.5) * number
        rows = torch.arange(max(1, self.batch_size.numel())).reshape(self.t.shape)
        done = self.t >= self.limit + rows
        return out.update({"done": done, "terminated": done.clone()})

    def lives(self):
        return 5 - (self.t // 2).squeeze(-1).long()

    def _set_seed(self, seed):
        pass
