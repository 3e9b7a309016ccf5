"""MAPPO and IPPO on navigation with TorchRL's pieces: four agents learn to reach goals without running into each other.

``--critic central`` (MAPPO) sees all agents, ``--critic own`` (IPPO) each its own. Everything between env and loss goes
by nested keys, which ``group_keys`` gives.
"""

from __future__ import annotations

import warnings

import torch
from report import Report, arguments
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

warnings.filterwarnings("ignore", module="torchrl|tensordict")
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import ExplorationType, set_exploration_type
from torchrl.modules import MultiAgentMLP, NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss, ValueEstimators

import marlenv
from marlenv import group_keys, to_torchrl

options = arguments(__doc__, critic=["central", "own"])
torch.manual_seed(options.seed)
ROWS, STEPS, BATCHES, EPOCHS, MINIBATCH = (4, 20, 2, 1, 40) if options.smoke else (64, 100, 50, 4, 1600)
GROUP, SEEN, ACTED, REWARD = "agents", ("agents", "observation"), ("agents", "action"), ("next", "agents", "reward")


def make(rows: int, seed: int):
    return to_torchrl(marlenv.make("navigation", num_envs=rows, seed=seed, max_steps=STEPS, clamp_actions=True))


env = make(ROWS, options.seed)
agents, wide = env.full_observation_spec[SEEN].shape[1:]
size = env.full_action_spec[ACTED].shape[-1]


def network(out: int, central: bool) -> MultiAgentMLP:
    return MultiAgentMLP(wide, out, agents, centralized=central, share_params=True, depth=2, num_cells=128)


head = nn.Sequential(network(2 * size, central=False), NormalParamExtractor())
policy = ProbabilisticActor(
    TensorDictModule(head, [SEEN], [(GROUP, "loc"), (GROUP, "scale")]),
    in_keys=[(GROUP, "loc"), (GROUP, "scale")],
    out_keys=[ACTED],
    spec=env.full_action_spec_unbatched,
    distribution_class=TanhNormal,
    distribution_kwargs={"low": -1.0, "high": 1.0},
    return_log_prob=True,
    log_prob_key=(GROUP, "action_log_prob"),
)
critic = TensorDictModule(network(1, central=options.critic == "central"), [SEEN], [(GROUP, "state_value")])
loss = ClipPPOLoss(policy, critic, clip_epsilon=0.2, entropy_coeff=1e-3, normalize_advantage=True)
loss.set_keys(**group_keys(env, GROUP, loss))
loss.make_value_estimator(ValueEstimators.GAE, gamma=0.95, lmbda=0.95)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
buffer = ReplayBuffer(
    storage=LazyTensorStorage(ROWS * STEPS), sampler=SamplerWithoutReplacement(), batch_size=MINIBATCH
)


@torch.no_grad()
def returns(judge: TensorDictModule | None) -> torch.Tensor:
    """Of 200 episodes of an env that training never touches; mean over agents."""
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        data = make(8 if options.smoke else 200, 1234).rollout(STEPS, judge, break_when_any_done=False)
    return data[REWARD].sum(1).mean(1).flatten()


def update(data: TensorDictBase) -> None:
    with torch.no_grad():
        loss.value_estimator(data)
    buffer.empty()
    buffer.extend(data.reshape(-1))
    for _ in range(EPOCHS):
        for sample in buffer:
            parts = loss(sample)
            optimizer.zero_grad()
            sum(value for name, value in parts.items() if name.startswith("loss")).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
            optimizer.step()


report = Report(f"{'mappo' if options.critic == 'central' else 'ippo'}_navigation", "return per agent", returns(None))
collector = Collector(env, policy, frames_per_batch=ROWS * STEPS, total_frames=ROWS * STEPS * BATCHES)
for i, batch in enumerate(collector):
    update(batch)
    if i % 10 == 9 or options.smoke:
        report.add((i + 1) * ROWS * STEPS, returns(policy))
report.end(returns(policy), options.smoke, options.out)
