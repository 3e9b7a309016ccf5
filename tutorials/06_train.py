# %% [markdown]
"""# 6. Train

PPO in one file, after CleanRL's: three agents that share one policy learn `simple_spread` from nothing. Everything that
touches the env goes through its keys, so another task, or other groups, needs no other code than its name.
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

ROWS, STEPS, UPDATES = 64, 50, 60
EPOCHS, MINIBATCH, RATE = 4, 1200, 3e-3
DISCOUNT, TRACE, CLIP = 0.95, 0.95, 0.2

# %% [markdown]
# The keys of the only group: `("agents", "observation")`, `("agents", "action")`, `("agents", "reward")`.

# %%
env = marlenv.make("simple_spread", num_envs=ROWS, seed=0, max_steps=STEPS, clamp_actions=True)
seen, acted, earned = env.observation_keys[0], env.action_key, env.reward_key
wide, size = env.full_observation_spec[seen].shape[-1], env.full_action_spec[acted].shape[-1]


def network(out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, out))


actor, critic, log_std = network(size), network(1), nn.Parameter(torch.full((size,), -0.5))
parameters = [*actor.parameters(), *critic.parameters(), log_std]
optimizer = torch.optim.Adam(parameters, lr=RATE)


def policy(td: TensorDictBase) -> TensorDictBase:
    """Samples: one network for all agents, `[*B, A, wide] -> [*B, A, size]`."""
    return td.set(acted, Normal(actor(td[seen]), log_std.exp()).sample())


def greedy(td: TensorDictBase) -> TensorDictBase:
    return td.set(acted, actor(td[seen]))


# %% [markdown]
# Judge before and after on the same 256 starts: an env with its own seed, which training never touches.


# %%
@torch.no_grad()
def mean_return() -> float:
    judge = marlenv.make("simple_spread", num_envs=256, seed=1234, max_steps=STEPS, clamp_actions=True)
    return judge.rollout(STEPS, greedy)["next", earned].sum(1).mean().item()


# %% [markdown]
# Generalised advantage estimation. A time limit is a truncation: what comes after it still counts, so values are cut at
# `terminated` and traces at `done`. The final observation is there for that, under `"next"`.


# %%
@torch.no_grad()
def estimate(data: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities, advantages and targets; `[B, T, A, 1]` each."""
    following, group = data["next"], seen[:-1]
    ends, done = (following[(*group, name)].float() for name in ("terminated", "done"))
    value, after = critic(data[seen]), critic(following[seen])
    surprise = 0.1 * following[earned] + DISCOUNT * (1 - ends) * after - value  # rewards are scaled to the networks
    advantage, trace = torch.zeros_like(value), torch.zeros_like(value[:, 0])
    for t in reversed(range(STEPS)):
        trace = surprise[:, t] + DISCOUNT * TRACE * (1 - done[:, t]) * trace
        advantage[:, t] = trace
    chance = Normal(actor(data[seen]), log_std.exp()).log_prob(data[acted]).sum(-1, keepdim=True)
    return chance, (advantage - advantage.mean()) / advantage.std(), advantage + value


def update(data: TensorDictBase) -> None:
    """A few epochs on one rollout; every agent of every row at every time is a sample."""
    samples = [x.flatten(0, 2) for x in (data[seen], data[acted], *estimate(data))]
    for _ in range(EPOCHS):
        for pick in torch.randperm(len(samples[0])).split(MINIBATCH):
            observation, action, chance, advantage, target = (x[pick] for x in samples)
            now = Normal(actor(observation), log_std.exp()).log_prob(action).sum(-1, keepdim=True)
            ratio = (now - chance).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
            loss = 0.5 * (critic(observation) - target).pow(2).mean() - gain
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()


# %%
first, start = mean_return(), time.perf_counter()
for i in range(UPDATES):
    with torch.no_grad():
        rollout = env.rollout(STEPS, policy)
    update(rollout)
    if i % 15 == 14:
        steps = (i + 1) * ROWS * STEPS
        print(f"{steps:>7} env-steps, {time.perf_counter() - start:4.0f} s: mean return {mean_return():.0f}")
last = mean_return()
print(f"mean return: first {first:.0f}, last {last:.0f}")
assert last > first + 50, "the agents did not learn"
