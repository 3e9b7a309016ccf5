"""``marlenv profile NAME``: where the time of a step goes, as a table and as a flame graph."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from marlenv.cli import env_options
from marlenv.cli.files import writable
from marlenv.cli.flame import flame_graph
from marlenv.cli.parts import Parts
from marlenv.cli.rollout import load_policy
from marlenv.cli.sampling import Sampler, Tree, count_calls
from marlenv.cli.text import number
from marlenv.envs import EnvBase
from marlenv.errors import SpecError, whole
from marlenv.files import whole_file
from marlenv.registration import make
from marlenv.text_table import table

ROUNDS = 3  # with samples and without, at least
ROUND = 0.05  # seconds that one takes, at least


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    env_options.configure(parser)
    parser.add_argument("--steps", type=int, default=100, help="how many steps a rollout has; rows that are done reset")
    parser.add_argument(
        "--policy", default="random", help="random, or module:callable: a policy, or a class or function that makes one"
    )
    parser.add_argument("--seed", type=int, help="of the env and of random actions")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to look; longer finds smaller shares")
    parser.add_argument(
        "--out", type=Path, default=Path("profile.svg"), metavar="FILE", help="the flame graph; profile.svg if left out"
    )


def run(options: argparse.Namespace) -> int:
    """Plays, prints, draws."""
    whole("profile", "--steps", options.steps, 1)
    if not 0 < options.seconds < float("inf"):
        raise SpecError(f"profile: --seconds must be a number above 0, got {options.seconds}")
    out: Path = options.out
    if out.suffix.lower() != ".svg" or out.is_dir():
        raise SpecError(f"--out {out}: the flame graph is an .svg file; name one, such as profile.svg")
    given = env_options.options_of(options)
    env = make(options.name, options.envs, device=options.device, seed=options.seed, **given)
    policy = None if options.policy == "random" else load_policy(options.policy, env)
    writable("--out", out)
    tree, seconds, times, calls = profile(env, policy, options.steps, options.seconds)
    envs = "" if options.envs is None else f"{options.envs} envs x "
    title = f"{options.name}, {envs}{options.steps} steps, policy {options.policy}"
    with whole_file("profile", out) as draft:  # before what is printed, whose reader may be gone
        draft.write_text(flame_graph(tree, 1e6 * seconds, title), encoding="utf-8")
    print(title)
    print(f"{number(1e6 * seconds)} us per step, timed while no samples were taken (median of {times})")
    print(report(tree, 1e6 * seconds, calls))
    print(f"shares: {tree.top.count:,} samples; flame graph: {out.resolve()}")
    env.close()
    return 0


def profile(env: EnvBase, policy: Any, steps: int, seconds: float) -> tuple[Tree, float, int, dict[str, float]]:
    """Plays rollouts, in turn with and without samples taken.

    Args:
        env: the env.
        policy: acts; random actions when None.
        steps: of a rollout.
        seconds: how long samples are taken, at least.

    Returns:
        The samples; the median of the seconds per step without samples, and of how many times; and the calls per step
        of each part.
    """
    parts, often = Parts(env, policy), 1

    def play() -> float:
        start = time.perf_counter()
        for _ in range(often):
            env.rollout(steps, policy, break_when_any_done=False)
        if env.device is not None and env.device.type == "cuda":
            torch.cuda.synchronize(env.device)
        return time.perf_counter() - start

    play()  # what is compiled at its first use is compiled here
    calls = count_calls(parts, lambda: env.rollout(steps, policy, break_when_any_done=False))
    often = math.ceil(ROUND / play())
    tree, alone, sampled = Tree(parts, play.__code__), list[float](), 0.0
    while sampled < seconds or len(alone) < ROUNDS:
        alone.append(play() / often / steps)
        with Sampler(tree.add):
            sampled += play()
    return tree, statistics.median(alone), len(alone), {name: count / steps for name, count in calls.items()}


def report(tree: Tree, micros: float, calls: dict[str, float]) -> str:
    """The parts as people read them: shares, microseconds and calls per step.

    Args:
        tree: the samples.
        micros: microseconds per step.
        calls: per step.
    """
    shares = tree.shares()
    rows = [
        [name, f"{100 * share:.1f} %", number(micros * share), number(calls[name])] for name, share in shares.items()
    ]
    rows.append(["all", f"{100 * sum(shares.values()):.1f} %", number(micros), number(sum(calls.values()))])
    return table(rows, ["part", "share", "us per step", "calls per step"], right=[1, 2, 3])
