"""Envs that rely on the conventions of EnvBase subclasses: constructor pieces, keyword arguments, specs set around them."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Binary, Bounded, Categorical, Composite, OneHot, Unbounded
from torchrl.envs import EnvBase


class Counter(EnvBase):
    """Specs made in ``_make_spec``, a ``_set_seed`` that returns a generator, ``__new__`` with keyword arguments."""

    def __new__(cls, *args, step_size=1, **kwargs):
        env = super().__new__(cls, *args, **kwargs)
        return env

    def __init__(self, limit=3, step_size=1, **kwargs):
        kwargs.setdefault("device", "cpu")
        super().__init__(**kwargs)
        self.limit = limit
        self.step_size = step_size
        self.register_buffer("count", torch.zeros(*self.batch_size, 1, dtype=torch.int64))
        self._make_spec()

    def _make_spec(self):
        shape = (*self.batch_size, 1)
        self.observation_spec = Composite(
            count=Unbounded(shape, dtype=torch.int64), parity=OneHot(2, (*self.batch_size, 2)), shape=self.batch_size
        )
        self.action_spec = Categorical(3, shape=self.batch_size)
        self.reward_spec = Unbounded(shape)
        self.done_spec = Categorical(2, shape=shape, dtype=torch.bool)

    def _data(self):
        parity = torch.nn.functional.one_hot(self.count.squeeze(-1) % 2, 2).bool()
        return {"count": self.count.clone(), "parity": parity}

    def _reset(self, tensordict, **kwargs):
        if tensordict is not None and "_reset" in tensordict.keys():
            self.count = torch.where(tensordict.get("_reset"), 0, self.count)
        else:
            self.count = torch.zeros_like(self.count)
        return TensorDict(self._data(), self.batch_size, device=self.device)

    def _step(self, tensordict):
        self.count = self.count + self.step_size
        data = self._data()
        data["reward"] = tensordict["action"].unsqueeze(-1).float()
        rows = torch.arange(max(1, self.batch_size.numel())).view(self.count.shape)
        data["done"] = self.count >= self.limit + rows
        data["terminated"] = data["done"].clone()
        return TensorDict(data, self.batch_size, device=self.device)

    def _set_seed(self, seed):
        rng = torch.Generator().manual_seed(seed if seed is not None else 0)
        self.rng = rng
        return rng


class Bare(EnvBase):
    """Only what must be there: no reward spec, no done spec, no device, a flag that is a Python bool."""

    def __init__(self):
        super().__init__()
        self.observation_spec = Composite(observation=Unbounded(3))
        self.action_spec = Bounded(-1, 1, (2,))
        self.t = 0

    def _reset(self, tensordict):
        self.t = 0
        return TensorDict({"observation": torch.zeros(3)}, [])

    def _step(self, tensordict):
        self.t += 1
        return TensorDict(
            {
                "observation": torch.full((3,), float(self.t)),
                "reward": tensordict["action"].sum(-1, keepdim=True),
                "done": self.t >= 4,
            },
            [],
        )

    def _set_seed(self, seed):
        pass


class FullSpecs(EnvBase):
    """Full specs with all three flags and a state that the data carry."""

    batch_locked = False

    def __init__(self, batch_size=()):
        super().__init__(batch_size=batch_size)
        shape = (*self.batch_size, 1)
        self.full_observation_spec = Composite(position=Unbounded(shape), shape=self.batch_size)
        self.full_state_spec = Composite(position=Unbounded(shape), shape=self.batch_size)
        self.full_action_spec = Composite(
            move=Bounded(-1.0, 1.0, shape), turn=Categorical(4, shape), shape=self.batch_size
        )
        self.full_reward_spec = Composite(speed=Unbounded(shape), style=Unbounded(shape), shape=self.batch_size)
        self.full_done_spec = Composite(
            done=Binary(1, shape=shape, dtype=torch.bool),
            terminated=Binary(1, shape=shape, dtype=torch.bool),
            truncated=Binary(1, shape=shape, dtype=torch.bool),
            shape=self.batch_size,
        )

    def _reset(self, tensordict):
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        return TensorDict({"position": torch.zeros(*batch, 1)}, batch)

    def _step(self, tensordict):
        position = tensordict["position"] + tensordict["move"]
        truncated = position.abs() > 2
        return TensorDict(
            {
                "position": position,
                "speed": tensordict["move"].abs(),
                "style": tensordict["turn"].float(),
                "done": truncated,
                "terminated": torch.zeros_like(truncated),
                "truncated": truncated,
            },
            tensordict.batch_size,
        )

    def _set_seed(self, seed):
        self.seed = seed
