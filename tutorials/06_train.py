# %% [markdown]
"""# 6. Train

PPO in one file, after CleanRL's: three agents that share one policy learn `simple_spread` from nothing. Everything that
touches the env goes through its groups and their keys, so another task with continuous actions, or other groups, needs
no other code than `TASK` and `OPTIONS`: try `"simple_tag"`, or `{"group_map": "one_group_per_agent"}`.
"""

# %%
from __future__ import annotations

import time

import torch
from tensordict import TensorDictBase
from torch import nn
from torch.distributions import Normal

import marlenv

torch.set_num_threads(1)
torch.manual_seed(0)  # of the networks and of the policy's noise; the env has a seed of its own
TASK, OPTIONS = "simple_spread", {}
ROWS, STEPS, UPDATES = 64, 50, 60
EPOCHS, MINIBATCH, RATE, DISCOUNT, TRACE, CLIP = 4, 1200, 3e-3, 0.95, 0.95, 0.2

# %% [markdown]
# Each group learns for itself: its agents share a policy and a critic. The keys here: `("agents", "observation")`, ...


# %%
def network(wide: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, out))


class Team(nn.Module):
    def __init__(self, env: marlenv.EnvBase, group: tuple[str, ...]) -> None:
        super().__init__()
        self.observation_key, self.action_key, self.reward_key, self.ends, self.done = (
            (*group, name) for name in ("observation", "action", "reward", "terminated", "done")
        )
        specs = env.full_observation_spec[self.observation_key], env.full_action_spec[self.action_key]
        wide, size = (spec.shape[-1] for spec in specs)
        self.actor, self.critic = network(wide, size), network(wide, 1)
        self.log_std = nn.Parameter(torch.full((size,), -0.5))
        self.optimizer = torch.optim.Adam(self.parameters(), lr=RATE)

    def spread(self, observation: torch.Tensor) -> Normal:
        return Normal(self.actor(observation), self.log_std.exp())


env = marlenv.make(TASK, num_envs=ROWS, seed=0, max_steps=STEPS, clamp_actions=True, **OPTIONS)
teams = [Team(env, group) for group in env.tree.groups]


def policy(td: TensorDictBase, explore: bool = True) -> TensorDictBase:
    for team in teams:
        spread = team.spread(td[team.observation_key])
        td.set(team.action_key, spread.sample() if explore else spread.mean)
    return td


# %% [markdown]
# Judge before and after on the same 256 starts: an env with its own seed, which training never touches.


# %%
@torch.no_grad()
def mean_returns() -> list[float]:
    judge = marlenv.make(TASK, num_envs=256, seed=1234, max_steps=STEPS, clamp_actions=True, **OPTIONS)
    data = judge.rollout(STEPS, lambda td: policy(td, explore=False), break_when_any_done=False)["next"]
    return [round(data[team.reward_key].sum(1).mean().item()) for team in teams]


# %% [markdown]
# A time limit is a truncation: what comes after it counts, so values are cut at `terminated` and traces at `done`.


# %%
@torch.no_grad()
def estimate(team: Team, data: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities, advantages and targets; `[B, T, A, 1]` each."""
    following, ends, done = data["next"], data["next"][team.ends].float(), data["next"][team.done].float()
    value, after = team.critic(data[team.observation_key]), team.critic(following[team.observation_key])
    surprise = 0.1 * following[team.reward_key] + DISCOUNT * (1 - ends) * after - value  # scaled rewards
    advantage, trace = torch.zeros_like(value), torch.zeros_like(value[:, 0])
    for t in reversed(range(value.shape[1])):
        trace = surprise[:, t] + DISCOUNT * TRACE * (1 - done[:, t]) * trace
        advantage[:, t] = trace
    chance = team.spread(data[team.observation_key]).log_prob(data[team.action_key]).sum(-1, keepdim=True)
    return chance, (advantage - advantage.mean()) / (advantage.std() + 1e-8), advantage + value


def update(team: Team, data: TensorDictBase) -> None:
    samples = [x.flatten(0, 2) for x in (data[team.observation_key], data[team.action_key], *estimate(team, data))]
    for _ in range(EPOCHS):
        for pick in torch.randperm(len(samples[0])).split(MINIBATCH):
            observation, action, chance, advantage, target = (x[pick] for x in samples)
            ratio = (team.spread(observation).log_prob(action).sum(-1, keepdim=True) - chance).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
            loss = 0.5 * (team.critic(observation) - target).pow(2).mean() - gain
            team.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(team.parameters(), 0.5)
            team.optimizer.step()


# %%
first, start = mean_returns(), time.perf_counter()
for i in range(UPDATES):
    with torch.no_grad():
        rollout = env.rollout(STEPS, policy, break_when_any_done=False)
    for team in teams:
        update(team, rollout)
    if i % 15 == 14:
        print(f"{(i + 1) * ROWS * STEPS:>7} env-steps, {time.perf_counter() - start:4.0f} s: {mean_returns()}")
last = mean_returns()
print(f"mean return: first {first}, last {last}")
assert TASK != "simple_spread" or min(last) > max(first) + 50, "the agents did not learn"
