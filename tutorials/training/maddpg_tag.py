"""MADDPG on simple_tag: three chasers and one who flees, two groups, each with its own networks and its own loss.

The critic of a group sees what all agents of both groups see and do; its policies see their own observations only.
"""

from __future__ import annotations

import warnings

import torch
from report import Report, arguments
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

warnings.filterwarnings("ignore", module="torchrl|tensordict")
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import AdditiveGaussianModule, MultiAgentMLP
from torchrl.objectives import DDPGLoss, SoftUpdate, ValueEstimators

import marlenv
from marlenv import group_keys, to_torchrl

options = arguments(__doc__)
torch.manual_seed(options.seed)
ROWS, STEPS, BATCHES, UPDATES, SAMPLE = (4, 10, 3, 1, 16) if options.smoke else (64, 50, 100, 25, 512)


def make(rows: int, seed: int):
    return to_torchrl(marlenv.make("simple_tag", num_envs=rows, seed=seed, max_steps=STEPS, clamp_actions=True))


env = make(ROWS, options.seed)
GROUPS = list(env.group_map)
seen = {group: env.full_observation_spec[group, "observation"].shape[1:] for group in GROUPS}
everything = sum(shape.numel() + 2 * shape[0] for shape in seen.values())  # observations and actions of all


class Critic(nn.Module):
    """One value per agent of a group, from everything; ``[*B, A, 1]``."""

    def __init__(self, agents: int) -> None:
        super().__init__()
        self.agents = agents
        layers = [nn.Linear(everything, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, agents)]
        self.net = nn.Sequential(*layers)

    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([x.flatten(-2) for x in parts], -1)).unsqueeze(-1)


def learner(group: str):
    """A policy, what it explores with, its loss, its targets and its optimizer."""
    agents, wide = seen[group]
    net = MultiAgentMLP(wide, 2, agents, centralized=False, share_params=True, depth=2, num_cells=128)
    policy = TensorDictModule(nn.Sequential(net, nn.Tanh()), [(group, "observation")], [(group, "action")])
    noise = AdditiveGaussianModule(
        env.full_action_spec_unbatched[group, "action"],
        sigma_init=0.6,
        sigma_end=0.1,
        annealing_num_steps=BATCHES * STEPS // 2,
        action_key=(group, "action"),
    )
    inputs = [(one, name) for one in GROUPS for name in ("observation", "action")]
    critic = TensorDictModule(Critic(agents), inputs, [(group, "state_action_value")])
    loss = DDPGLoss(policy, critic, delay_actor=True, delay_value=True)
    loss.set_keys(**group_keys(env, group, loss))
    loss.make_value_estimator(ValueEstimators.TD0, gamma=0.95)
    return policy, noise, loss, SoftUpdate(loss, tau=0.01), torch.optim.Adam(loss.parameters(), lr=3e-4)


learners = {group: learner(group) for group in GROUPS}
policies = TensorDictSequential(*[one[0] for one in learners.values()])
exploring = TensorDictSequential(*[part for one in learners.values() for part in one[:2]])
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ROWS * STEPS * 30), batch_size=SAMPLE)


@torch.no_grad()
def returns(learned: bool) -> torch.Tensor:
    """Of the chasers against one who flees at random, in 200 episodes; mean over agents."""
    judge = make(8 if options.smoke else 200, 1234)

    def play(td: TensorDictBase) -> TensorDictBase:
        td = judge.rand_action(td)
        return learners["adversary"][0](td) if learned else td

    data = judge.rollout(STEPS, play, break_when_any_done=False)
    return data["next", "adversary", "reward"].sum(1).mean(1).flatten()


report = Report("maddpg_tag", "return per chaser", returns(learned=False))
for i in range(BATCHES):
    with torch.no_grad():
        played = env.rollout(STEPS, exploring, break_when_any_done=False)
        for group in GROUPS:
            played["next", group, "reward"] *= 0.1  # a catch is worth 10: scaled to the networks
        buffer.extend(played.reshape(-1))
    for _ in range(UPDATES):
        sample = buffer.sample()
        for group, (_, _, loss, target, optimizer) in learners.items():
            data = sample.copy()
            with torch.no_grad():  # the other groups' next actions are those of their policies
                following = data["next"]
                for other in GROUPS:
                    if other != group:
                        learners[other][0](following)
            parts = loss(data)
            optimizer.zero_grad()
            (parts["loss_actor"] + parts["loss_value"]).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
            optimizer.step()
            target.step()
    for one in learners.values():
        one[1].step(STEPS)
    if i % 10 == 9 or options.smoke:
        report.add((i + 1) * ROWS * STEPS, returns(learned=True))
report.end(returns(learned=True), options.smoke, options.out)
