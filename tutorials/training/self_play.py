"""PPO against itself: tic-tac-toe and connect four, learned from turns.

Both seats share one network. ``compact_turns`` makes a rollout into one trajectory per seat, in which the loser's last
move is paid -1 though it is the winner who moves; from there on it is PPO as for any single agent.
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
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

import marlenv
from marlenv import compact_turns

options = arguments(__doc__, game=["tic_tac_toe", "connect_four"])
torch.manual_seed(options.seed)
small = options.game == "tic_tac_toe"
ROWS, STEPS, BATCHES, EPOCHS, MINIBATCH = (4, 20, 2, 1, 40) if options.smoke else (128, 40, 80, 4, 1024)
env = marlenv.make(options.game, num_envs=ROWS, seed=options.seed)
SEATS = list(env.group_map)
shape = env.full_observation_spec[SEATS[0], "observation"].shape[2:]
n = env.full_action_spec[SEATS[0], "action"].space.n


def network(out: int) -> nn.Module:
    wide, hidden = shape.numel(), 128
    body = [nn.Flatten(-len(shape)), nn.Linear(wide, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*body, nn.Linear(hidden, out))


actor = ProbabilisticActor(
    TensorDictModule(network(n), ["observation"], ["logits"]),
    in_keys={"logits": "logits", "mask": "action_mask"},
    out_keys=["action"],
    distribution_class=MaskedCategorical,
    return_log_prob=True,
    log_prob_key="action_log_prob",
)
critic = TensorDictModule(network(1), ["observation"], ["state_value"])
loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.05, normalize_advantage=True)
loss.make_value_estimator(ValueEstimators.GAE, gamma=1.0, lmbda=0.95)
optimizer = torch.optim.Adam(loss.parameters(), lr=5e-4)


@torch.no_grad()
def policy(td: TensorDictBase) -> TensorDictBase:
    """The same network in every seat; who does not move plays any move, which nobody reads."""
    with set_exploration_type(ExplorationType.RANDOM):
        for seat in SEATS:
            actor(td[seat])
    return td


@torch.no_grad()
def results(learned: bool) -> torch.Tensor:
    """Of games against random play, half of them in each seat: 1, 0 or -1."""
    games = []
    for i, seat in enumerate(SEATS):
        judge = marlenv.make(options.game, num_envs=8 if options.smoke else 200, seed=99 + i)

        def play(td: TensorDictBase, judge=judge, seat=seat) -> TensorDictBase:
            td = judge.rand_action(td)
            if learned:
                td[seat, "action"] = actor.get_dist(td[seat]).logits.argmax(-1)
            return td

        data = judge.rollout(50, play, break_when_all_done=True)
        games.append(data["next", seat, "reward"].sum(1).flatten())
    return torch.cat(games)


def update(data: TensorDictBase) -> None:
    turns = compact_turns(data)
    seats = [turns[seat] for seat in SEATS]
    with torch.no_grad():
        for one in seats:
            loss.value_estimator(one)
    samples = torch.cat([one[one["mask"]] for one in seats])  # what is not padding
    for _ in range(EPOCHS):
        for pick in torch.randperm(len(samples)).split(MINIBATCH):
            parts = loss(samples[pick])
            optimizer.zero_grad()
            sum(value for name, value in parts.items() if name.startswith("loss")).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 1.0)
            optimizer.step()


report = Report(f"self_play_{options.game}", "result against random play", results(learned=False))
for i in range(BATCHES):
    update(env.rollout(STEPS, policy, break_when_any_done=False))
    if i % 10 == 9 or options.smoke:
        report.add((i + 1) * ROWS * STEPS, results(learned=True))
report.end(results(learned=True), options.smoke, options.out)
