"""QMIX on simple_spread with discrete actions: three agents learn to cover landmarks from one reward of the team.

Each agent has action values of its own; a mixer that sees all agents makes one value of the team's choice out of them.
"""

from __future__ import annotations

import warnings

import torch
from report import Report, arguments
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential

warnings.filterwarnings("ignore", module="torchrl|tensordict")
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.modules import EGreedyModule, MultiAgentMLP, QMixer, QValueModule
from torchrl.objectives import SoftUpdate, ValueEstimators
from torchrl.objectives.multiagent import QMixerLoss

import marlenv
from marlenv import group_keys, to_torchrl

options = arguments(__doc__)
torch.manual_seed(options.seed)
ROWS, STEPS, BATCHES, UPDATES, SAMPLE = (4, 10, 3, 1, 16) if options.smoke else (64, 25, 160, 20, 512)
GROUP, SEEN, ACTED = "agents", ("agents", "observation"), ("agents", "action")


def make(rows: int, seed: int):
    env = marlenv.make("simple_spread", num_envs=rows, seed=seed, max_steps=STEPS, continuous_actions=False)
    return to_torchrl(env)


env = make(ROWS, options.seed)
agents, wide = env.full_observation_spec[SEEN].shape[1:]
action = env.full_action_spec_unbatched[ACTED][0]  # of one agent
net = MultiAgentMLP(wide, action.space.n, agents, centralized=False, share_params=True, depth=2, num_cells=128)
values = QValueModule(
    action_value_key=(GROUP, "action_value"),
    out_keys=[ACTED, (GROUP, "action_value"), (GROUP, "chosen_action_value")],
    spec=action,
    action_space="categorical",
)
policy = TensorDictSequential(TensorDictModule(net, [SEEN], [(GROUP, "action_value")]), values)
explore = EGreedyModule(
    env.full_action_spec_unbatched[ACTED], 1.0, 0.05, annealing_num_steps=BATCHES * STEPS // 2, action_key=ACTED
)
mixer = TensorDictModule(
    QMixer(state_shape=(agents, wide), mixing_embed_dim=32, n_agents=agents, device="cpu"),
    [(GROUP, "chosen_action_value"), SEEN],
    ["chosen_action_value"],
)
loss = QMixerLoss(policy, mixer, action_space="categorical", delay_value=True)
team = {"reward": "reward", "done": "done", "terminated": "terminated"}  # at the root: one for all agents
loss.set_keys(**{**group_keys(env, GROUP, loss), **team, "local_value": (GROUP, "chosen_action_value")})
loss.make_value_estimator(ValueEstimators.TD0, gamma=0.95)
target = SoftUpdate(loss, tau=0.01)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(ROWS * STEPS * 40), batch_size=SAMPLE)


@torch.no_grad()
def returns(judge: TensorDictModule | None) -> torch.Tensor:
    """Of the team, in 200 episodes of an env that training never touches."""
    data = make(8 if options.smoke else 200, 1234).rollout(STEPS, judge, break_when_any_done=False)
    return data["next", GROUP, "reward"].sum(1).mean(1).flatten()


@torch.no_grad()
def collect() -> TensorDictBase:
    data = env.rollout(STEPS, TensorDictSequential(policy, explore), break_when_any_done=False)
    data["next", "reward"] = 0.1 * data["next", GROUP, "reward"].mean(-2)  # the same for all; scaled to the networks
    return data.reshape(-1)


report = Report("qmix_spread", "return of the team", returns(None))
for i in range(BATCHES):
    buffer.extend(collect())
    explore.step(STEPS)
    for _ in range(UPDATES):
        parts = loss(buffer.sample())
        optimizer.zero_grad()
        parts["loss"].backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 10.0)
        optimizer.step()
        target.step()
    if i % 20 == 19 or options.smoke:
        report.add((i + 1) * ROWS * STEPS, returns(policy))
report.end(returns(policy), options.smoke, options.out)
