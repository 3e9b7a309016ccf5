"""A multi-agent env as a TorchRL user writes it: nested specs, per-agent and shared entries, done flags of two levels."""
# ruff: noqa

import torch
from tensordict import TensorDict
from torchrl.data import Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase


class Navigation(EnvBase):
    def __init__(self, num_envs=4, n_agents=3, max_steps=5, device=None, nested_done=True):
        super().__init__(device=device, batch_size=[num_envs])
        self.n_agents = n_agents
        self.max_steps = max_steps
        self.nested_done = nested_done
        self._rng = torch.Generator()
        self._rng.manual_seed(0)
        self.pos = torch.zeros(num_envs, n_agents, 2)
        self.t = torch.zeros(num_envs, n_agents, 1, dtype=torch.long)

        action_specs, observation_specs, reward_specs = [], [], []
        for i in range(n_agents):
            action_specs.append(Bounded(low=-1.0, high=1.0, shape=(2,)))
            observation_specs.append(Unbounded(shape=(4,)))
            reward_specs.append(Unbounded(shape=(1,)))

        self.action_spec = Composite(
            {"agents": Composite({"action": torch.stack(action_specs)}, shape=(n_agents,))}
        ).expand(num_envs)
        self.reward_spec = Composite(
            {"agents": Composite({"reward": torch.stack(reward_specs)}, shape=(n_agents,))}
        ).expand(num_envs)
        self.observation_spec = Composite(
            {
                "agents": Composite({"observation": torch.stack(observation_specs)}, shape=(n_agents,)),
                "spread": Unbounded(shape=(1,)),
            }
        ).expand(num_envs)
        done = {"done": Categorical(n=2, shape=torch.Size((1,)), dtype=torch.bool)}
        if nested_done:
            done["agents"] = Composite(
                {
                    "terminated": Categorical(n=2, shape=torch.Size((n_agents, 1)), dtype=torch.bool),
                    "truncated": Categorical(n=2, shape=torch.Size((n_agents, 1)), dtype=torch.bool),
                },
                shape=(n_agents,),
            )
        self.done_spec = Composite(done).expand(num_envs)

    def _observe(self):
        agents = TensorDict(
            {"observation": torch.cat([self.pos, self.pos - self.pos.mean(1, keepdim=True)], -1)},
            [*self.batch_size, self.n_agents],
        )
        return TensorDict({"agents": agents, "spread": self.pos.std(1).sum(-1, keepdim=True)}, self.batch_size)

    def _reset(self, tensordict=None, **kwargs):
        fresh = torch.rand(self.pos.shape, generator=self._rng)
        if tensordict is not None and "_reset" in tensordict.keys():
            rows = tensordict["_reset"].view(-1, 1, 1)
            self.pos = torch.where(rows, fresh, self.pos)
            self.t = torch.where(rows, 0, self.t)
        else:
            self.pos = fresh
            self.t = torch.zeros_like(self.t)
        return self._observe()

    def _step(self, tensordict):
        action = tensordict["agents", "action"]
        self.pos = self.pos + 0.1 * action
        self.t = self.t + 1
        out = self._observe()
        reward = -self.pos.norm(dim=-1, keepdim=True)
        limit = torch.arange(self.batch_size[0]).view(-1, 1, 1) + self.max_steps
        late = self.t >= limit
        out["agents", "reward"] = reward
        if self.nested_done:
            far = self.pos.abs().amax(-1, keepdim=True) > 1.3
            out["agents", "terminated"] = far & ~late
            out["agents", "truncated"] = late
            out["agents", "done"] = far | late
            out["done"] = (far | late).all(1)
        else:
            out["done"] = late.all(1)
        out["terminated"] = out["done"].clone()
        return out

    def _set_seed(self, seed):
        self._rng = torch.Generator().manual_seed(seed)
        return seed
