"""The same MAPPO on navigation, ours and TorchRL's with VMAS: sampling, beside the policy alone, and learning."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from copy import copy
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from tensordict.nn import InteractionType, TensorDictModule, set_interaction_type
from torch import Tensor, nn

from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.envs.modules import call
from marlenv.interop import group_keys, to_torchrl
from marlenv.optional import need
from marlenv.registration import make

STEPS = 100
BATCHES, SEEDS = 50, 5  # of the comparison of returns
THREADS = 2
SEEN, ACTED = ("agents", "observation"), ("agents", "action")
JUDGED = ("action_log_prob", "state_value", "advantage", "value_target")
READ = [SEEN, ACTED, *(("agents", name) for name in JUDGED)]  # what the loss reads of a minibatch
WHO, PEER = "marlenv bench train", "TorchRL + VMAS"
STUDENT = 2.776  # the 97.5 % quantile of Student's t with four degrees of freedom, for five seeds


class Settings(NamedTuple):
    """The sizes and rates of a training."""

    rows: int
    epochs: int
    minibatch: int
    rate: float
    gamma: float

    @property
    def frames(self) -> int:
        """Of a batch."""
        return self.rows * STEPS


SPEED = Settings(rows=600, epochs=2, minibatch=6000, rate=3e-4, gamma=0.9)  # many envs, few updates
LEARNING = Settings(rows=64, epochs=4, minibatch=1600, rate=1e-3, gamma=0.95)  # of tutorials/training/ppo_navigation.py


class Learner:
    """MAPPO in TorchRL's pieces over an env; both sides have this one.

    Args:
        env: an env of TorchRL with the group ``"agents"``.
        player: what plays it, with a ``rollout``; the env itself, or ours behind it.
        keys: for ``loss.set_keys``.
        settings: of the training.
        flags: whether the group lacks done flags of its own, and the root's must be spread over its agents.
        seed: of the networks, of the policy's draws and of the minibatches.
    """

    def __init__(
        self,
        env: Any,
        player: Any,
        keys: Callable[[Any], dict[str, Any]],
        settings: Settings,
        *,
        flags: bool,
        seed: int = 0,
    ) -> None:
        torch.manual_seed(seed)
        modules, objectives = need("torchrl.modules", WHO), need("torchrl.objectives", WHO)
        self.env = env  # kept: TorchRL's close what they wrap when nobody holds them
        self.player, self.settings, self.flags = player, settings, flags
        agents, wide = env.full_observation_spec[SEEN].shape[1:]
        size = env.full_action_spec[ACTED].shape[-1]

        def network(out: int, central: bool) -> nn.Module:
            made: nn.Module = modules.MultiAgentMLP(
                wide, out, agents, centralized=central, share_params=True, depth=2, num_cells=256
            )
            return made

        head = nn.Sequential(network(2 * size, False), modules.NormalParamExtractor())
        self.policy = modules.ProbabilisticActor(
            TensorDictModule(head, [SEEN], [("agents", "loc"), ("agents", "scale")]),
            in_keys=[("agents", "loc"), ("agents", "scale")],
            out_keys=[ACTED],
            spec=env.full_action_spec_unbatched,
            distribution_class=modules.TanhNormal,
            distribution_kwargs={"low": -1.0, "high": 1.0},
            default_interaction_type=InteractionType.RANDOM,
            return_log_prob=True,
            log_prob_key=("agents", "action_log_prob"),
        )
        critic = TensorDictModule(network(1, True), [SEEN], [("agents", "state_value")])
        self.loss = objectives.ClipPPOLoss(self.policy, critic, entropy_coeff=1e-3, normalize_advantage=True)
        self.loss.set_keys(**keys(self.loss))
        self.loss.make_value_estimator(objectives.ValueEstimators.GAE, gamma=settings.gamma, lmbda=settings.gamma)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=settings.rate)
        self.start = env.reset()
        self.batch: Any = None

    @torch.no_grad()
    def sample(self) -> int:
        """A batch of frames, in the place of the one before."""
        self.batch = self.player.rollout(STEPS, self.policy, break_when_any_done=False)
        return self.settings.frames

    @torch.no_grad()
    def forward(self) -> int:
        """The policy alone, as often as a batch asks it."""
        for _ in range(STEPS):
            self.policy(self.start.copy())
        return self.settings.frames

    @torch.no_grad()
    def split(self) -> tuple[float, float]:
        """Microseconds a frame of a batch, and of the policy's calls in it, which are made as a rollout makes them."""
        asked = 0.0

        def policy(td: TensorDictBase) -> TensorDictBase:
            nonlocal asked
            start = time.perf_counter()
            call(self.policy, td)
            asked += time.perf_counter() - start
            return td

        start = time.perf_counter()
        self.batch = self.player.rollout(STEPS, policy, break_when_any_done=False)
        whole = time.perf_counter() - start
        return whole / self.settings.frames * 1e6, asked / self.settings.frames * 1e6

    def learn(self) -> int:
        """A few epochs on the last batch."""
        data = self.batch.copy()
        if self.flags:  # as TorchRL's own scripts do for VMAS
            shape = data["next", "agents", "reward"].shape
            for name in ("done", "terminated"):
                data["next", "agents", name] = data["next", name].unsqueeze(-1).expand(shape)
        with torch.no_grad():
            self.loss.value_estimator(data)
        flat = data.select(*READ).reshape(-1)  # views of what arrived; what the estimator made lies otherwise
        for _ in range(self.settings.epochs):
            for pick in torch.randperm(len(flat)).split(self.settings.minibatch):
                losses = self.loss(flat[pick])
                total: Tensor = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                self.optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(self.loss.parameters(), 1.0)
                self.optimizer.step()
        return self.settings.frames

    def learned(self) -> float:
        """The return per agent of episodes of the likeliest actions, after learning from some batches."""
        for _ in range(BATCHES):
            self.sample()
            self.learn()
        with set_interaction_type(InteractionType.DETERMINISTIC):
            self.sample()
        return float(self.batch["next", "agents", "reward"].sum(1).mean())


def sides(settings: Settings, seed: int = 0) -> dict[str, Learner]:
    """Ours, and TorchRL's with VMAS."""
    need("vmas", WHO)
    rows = settings.rows
    env = make("navigation", num_envs=rows, seed=seed, max_steps=STEPS, clamp_actions=True, compile="aot")
    mine = to_torchrl(env)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = need("torchrl.envs.libs.vmas", WHO).VmasEnv("navigation", num_envs=rows, seed=seed, max_steps=STEPS)
    same = {name: ("agents", name) for name in ("action", "reward", "done", "terminated")}
    same |= {"value": ("agents", "state_value"), "sample_log_prob": ("agents", "action_log_prob")}
    same |= {name: ("agents", name) for name in ("advantage", "value_target")}
    return {
        "marlenv": Learner(mine, env, lambda loss: group_keys(mine, "agents", loss), settings, flags=False, seed=seed),
        "torchrl": Learner(theirs, theirs, lambda loss: same, settings, flags=True, seed=seed),
    }


def measure(rounds: int, *, only: str = "") -> list[Figure]:
    """Microseconds per frame of sampling and learning on both sides, and of our sampling beside the policy alone.

    Returns after equal frames come last, the mean over seeds with its interval; they take a quarter of an hour.
    """
    torch.set_num_threads(THREADS)
    parts = {"sampling": _sampling, "learning": _learning, "returns": _returns}
    return [figure for name in chosen("train", parts, only) for figure in parts[name](rounds)]


def _sampling(rounds: int) -> list[Figure]:
    ours, theirs = sides(SPEED).values()
    env = make("navigation", num_envs=SPEED.rows, seed=0, max_steps=STEPS, clamp_actions=True, compile="aot")
    bridged = copy(ours)  # with batches of its own: who makes them lets go of them
    bridged.player = to_torchrl(env)
    splits: list[tuple[float, float]] = []

    def split() -> int:
        splits.append(ours.split())
        return SPEED.frames

    parts = {"ours": ours.sample, "theirs": theirs.sample, "policy": ours.forward, "bridged": bridged.sample}
    sampled = interleaved({**parts, "split": split}, rounds)
    whole, asked = (median(times) for times in zip(*splits[1:], strict=True))  # the first warms up
    what = f"MAPPO on navigation, {SPEED.rows} x {STEPS}: sampling"
    alone = "the policy alone"
    return [
        Figure(what, sampled["ours"], sampled["theirs"], PEER, "us/frame"),
        Figure(what, sampled["ours"], sampled["policy"], alone, "us/frame"),
        Figure(what, whole, asked, "the policy's calls in it", "us/frame"),
        Figure(
            f"{what} by TorchRL's rollout, to_torchrl(env)", sampled["bridged"], sampled["policy"], alone, "us/frame"
        ),
    ]


def _learning(rounds: int) -> list[Figure]:
    ours, theirs = sides(SPEED).values()
    ours.sample(), theirs.sample()
    learned = interleaved({"ours": ours.learn, "theirs": theirs.learn}, rounds)
    what = f"MAPPO on navigation, {SPEED.rows} x {STEPS}: learning"
    return [Figure(what, learned["ours"], learned["theirs"], PEER, "us/frame")]


def _returns(rounds: int) -> list[Figure]:
    """Means over seeds; 95 % intervals of them, by Student's t, are printed."""
    found: dict[str, list[float]] = {"marlenv": [], "torchrl": []}
    for seed in range(SEEDS):
        for name, side in sides(LEARNING, seed).items():
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                found[name].append(side.learned())
    means = {name: fmean(values) for name, values in found.items()}
    for name, values in found.items():
        half = float(STUDENT * stdev(values) / SEEDS**0.5)
        low, high = means[name] - half, means[name] + half
        seeds = " ".join(f"{value:.2f}" for value in values)
        print(f"{name}: return per agent {means[name]:.2f} ({low:.2f} to {high:.2f}); by seed: {seeds}")
    what = f"MAPPO on navigation: return per agent after {LEARNING.frames * BATCHES:,} frames, {SEEDS} seeds"
    return [Figure(what, means["marlenv"], means["torchrl"], PEER, "return")]
