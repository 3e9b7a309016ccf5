"""IPPO on five scenarios with deaths, births, dilemmas and nested groups: one script, networks for each group.

Who learns plays against others at random. ``compact_turns`` makes a rollout into one trajectory per life, whoever dies
or is born meanwhile; from there on it is PPO as for any single agent.
"""

from __future__ import annotations

import warnings

import torch
from report import Report, arguments
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn

warnings.filterwarnings("ignore", module="torchrl|tensordict")
from torchrl.envs import ExplorationType, set_exploration_type
from torchrl.modules import NormalParamExtractor, ProbabilisticActor, TanhNormal
from torchrl.objectives import ClipPPOLoss, ValueEstimators

import marlenv
from marlenv import compact_turns

TASKS = {  # who learns, options, and by which small rewards are multiplied, beside what a critic is wrong by
    "commons": ([f"agent_{i}" for i in range(5)], {"group_map": "one_group_per_agent"}, 30.0),
    "predator_prey": (["predators"], {}, 1.0),
    "rescue": (["agents"], {}, 1.0),
    "skirmish": (["red"], {"semidim": 0.6}, 5.0),  # teams that meet before they have learned to
    "territory": ([("red", "scouts"), ("red", "guards")], {}, 10.0),
}
options = arguments(__doc__, scenario=list(TASKS))
torch.manual_seed(options.seed)
ROWS, STEPS, BATCHES, EPOCHS, MINIBATCH = (4, 20, 2, 1, 40) if options.smoke else (64, 100, 60, 4, 2000)
groups, settings, scale = TASKS[options.scenario]


def make(rows: int, seed: int) -> marlenv.EnvBase:
    return marlenv.make(options.scenario, rows, seed=seed, max_steps=STEPS, clamp_actions=True, **settings)


env = make(ROWS, options.seed)


class Learner:
    """PPO for the agents of a group, which share a policy and a critic."""

    def __init__(self, group: str | tuple[str, ...]) -> None:
        self.group = group
        wide, acts = (env.full_observation_spec[group, "observation"], env.full_action_spec[group, "action"])
        self.actor = ProbabilisticActor(
            TensorDictModule(
                nn.Sequential(self.network(wide.shape[-1], 2 * acts.shape[-1]), NormalParamExtractor()),
                ["observation"],
                ["loc", "scale"],
            ),
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=TanhNormal,
            return_log_prob=True,
            log_prob_key="action_log_prob",
        )
        critic = TensorDictModule(self.network(wide.shape[-1], 1), ["observation"], ["state_value"])
        self.loss = ClipPPOLoss(self.actor, critic, clip_epsilon=0.2, entropy_coeff=1e-3, normalize_advantage=True)
        self.loss.make_value_estimator(ValueEstimators.GAE, gamma=0.97, lmbda=0.95)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=1e-3)

    @staticmethod
    def network(wide: int, out: int) -> nn.Module:
        return nn.Sequential(nn.Linear(wide, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, out))

    def update(self, one: TensorDictBase) -> None:
        """From trajectories ``[B, A, K]``."""
        with torch.no_grad():
            one["next", "reward"] *= scale
            self.loss.value_estimator(one)
        samples = one[one["mask"]]  # what is not padding
        for _ in range(EPOCHS):
            for pick in torch.randperm(len(samples)).split(MINIBATCH):
                parts = self.loss(samples[pick])
                self.optimizer.zero_grad()
                sum(value for name, value in parts.items() if name.startswith("loss")).backward()
                nn.utils.clip_grad_norm_(self.loss.parameters(), 1.0)
                self.optimizer.step()


learners = [Learner(group) for group in groups]


@torch.no_grad()
def play(td: TensorDictBase) -> TensorDictBase:
    """Everybody at random, but for those who learn."""
    td = env.rand_action(td)
    for learner in learners:
        td[learner.group] = learner.actor(td[learner.group])
    return td


@torch.no_grad()
def returns(learned: bool) -> torch.Tensor:
    """Of 200 episodes of an env that training never touches; mean over those who learn."""
    judge = make(8 if options.smoke else 200, 1234)

    def act(td: TensorDictBase) -> TensorDictBase:
        td = judge.rand_action(td)
        for learner in learners if learned else []:
            td[learner.group, "action"] = learner.actor(td[learner.group].copy())["action"]
        return td

    with set_exploration_type(ExplorationType.DETERMINISTIC):
        data = judge.rollout(STEPS, act, break_when_any_done=False)["next"]
    first = data["done"].cumsum(1) <= data["done"]  # until the first episode of a row has ended
    gained = torch.cat([data[group, "reward"].squeeze(-1) for group in groups], -1)
    return (gained * first).sum(1).mean(1)


report = Report(f"ppo_{options.scenario}", "return per agent", returns(learned=False))
for i in range(BATCHES):
    with set_exploration_type(ExplorationType.RANDOM):
        turns = compact_turns(env.rollout(STEPS, play, break_when_any_done=False))
    for learner in learners:
        learner.update(turns[learner.group])
    if i % 10 == 9 or options.smoke:
        report.add((i + 1) * ROWS * STEPS, returns(learned=True))
report.end(returns(learned=True), options.smoke, options.out)
