"""PPO in one file on a vector of Gymnasium's, which is a native scenario: one agent learns to reach its goal.

Only Gymnasium's interface is used after ``to_gymnasium_vector``, so the loop is that of any single-file PPO. Rows
start anew in the step after their last one, in which their action is not read; that step is left out of the loss.
"""

from __future__ import annotations

import torch
from report import Report, arguments
from torch import Tensor, nn
from torch.distributions import Normal

from marlenv import make, to_gymnasium_vector

options = arguments(__doc__)
torch.manual_seed(options.seed)
ROWS, STEPS, UPDATES, EPOCHS, LIMIT = (4, 20, 2, 1, 10) if options.smoke else (64, 100, 50, 4, 50)
GAMMA, LAMBDA, CLIP = 0.95, 0.95, 0.2


def vector(rows: int):
    scenario = make("navigation", num_envs=rows, n_agents=1, max_steps=LIMIT, clamp_actions=True, collisions=False)
    return to_gymnasium_vector(scenario)


class Agent(nn.Module):
    """Who acts, and what a state is worth."""

    def __init__(self, seen: int, acts: int) -> None:
        super().__init__()

        def network(out: int) -> nn.Sequential:
            return nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))

        self.mean, self.value, self.log_std = network(acts), network(1), nn.Parameter(torch.full((acts,), -0.5))

    def policy(self, seen: Tensor) -> Normal:
        return Normal(self.mean(seen), self.log_std.exp())


@torch.no_grad()
def returns(judge: Agent | None) -> Tensor:
    """Of whole episodes in an env that training never touches."""
    env = vector(8 if options.smoke else 200)
    seen, total = env.reset(seed=1234)[0], 0.0
    env.action_space.seed(1234)
    for _ in range(LIMIT):
        action = env.action_space.sample() if judge is None else judge.mean(torch.as_tensor(seen)).numpy()
        seen, reward, *_ = env.step(action)
        total = total + torch.as_tensor(reward)
    return total.float()


env = vector(ROWS)
agent = Agent(env.single_observation_space.shape[0], env.single_action_space.shape[0])
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
report = Report("ppo_gymnasium", "return per episode", returns(None))
seen, starts = torch.as_tensor(env.reset(seed=options.seed)[0]), torch.zeros(ROWS, dtype=torch.bool)

for update in range(UPDATES):
    memory: list[tuple[Tensor, ...]] = []
    for _ in range(STEPS):
        with torch.no_grad():
            policy, value = agent.policy(seen), agent.value(seen).squeeze(-1)
            action = policy.sample()
        following, reward, terminated, truncated, _ = env.step(action.numpy())
        reward, following = torch.as_tensor(reward, dtype=torch.float32), torch.as_tensor(following)
        ends, cuts = torch.as_tensor(terminated), torch.as_tensor(truncated)
        memory.append((seen, action, policy.log_prob(action).sum(-1), value, reward, ends, ends | cuts, starts))
        seen, starts = following, ends | cuts

    states, actions, log_probs, values, rewards, ended, done, begins = (
        torch.stack(x) for x in zip(*memory, strict=True)
    )
    with torch.no_grad():
        last = agent.value(seen).squeeze(-1)
    worth = torch.cat((values[1:], last[None]))  # of the state that followed, where an episode ends the last one
    advantages, later = torch.zeros_like(rewards), torch.zeros(ROWS)
    for t in reversed(range(STEPS)):
        delta = rewards[t] + GAMMA * worth[t] * ~ended[t] - values[t]
        later = advantages[t] = (delta + GAMMA * LAMBDA * later * ~done[t]) * ~begins[t]
    played = ~begins.flatten()
    flat = [x.flatten(0, 1)[played] for x in (states, actions, log_probs, advantages, advantages + values)]

    for _ in range(EPOCHS):
        for some in torch.randperm(len(flat[0])).split(len(flat[0]) // 4 + 1):
            s, a, old, advantage, target = (x[some] for x in flat)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            policy = agent.policy(s)
            ratio = (policy.log_prob(a).sum(-1) - old).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean() - 1e-3 * policy.entropy().sum(-1).mean()
            loss = loss + 0.5 * (agent.value(s).squeeze(-1) - target).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    if update % 10 == 9 or options.smoke:
        report.add((update + 1) * ROWS * STEPS, returns(agent))
report.end(returns(agent), options.smoke, options.out)
