"""Steps a pool for long while its processes are killed at random: nothing hangs, nothing is lost, memory stays flat.

``make soak`` plays 200,000 steps. Every transition is accounted for: an env counts its steps, so that each row's
counter either goes on by one, or stands where it stood on a step that is marked as truncated and counted as a failure.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import time
from pathlib import Path
from typing import NamedTuple

import torch

from marlenv import ParallelEnv
from marlenv.testing import CountingEnv

PAGE = os.sysconf("SC_PAGE_SIZE")


class Soaked(NamedTuple):
    """What came of it."""

    transitions: int
    kills: int
    failures: int
    cut: int
    """Transitions that were marked as truncated."""
    ends: int
    """Episodes that ended by themselves."""
    memory: float
    """By how much the memory of this process grew from a tenth of the way to the end, as a share."""
    descriptors: int
    """How many more files are open than in the beginning."""


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def soak(steps: int, every: int, *, envs: int = 4, processes: int = 2, seed: int = 0) -> Soaked:
    """Plays ``steps`` steps, and kills a process every ``every`` steps or so."""
    chance = random.Random(seed)
    length = 7
    env = ParallelEnv(
        envs, CountingEnv, create_env_kwargs={"max_steps": length}, num_processes=processes, on_failure="restart"
    )
    td = env.reset()
    action = torch.zeros(envs, 1)
    kills = cut = ends = transitions = 0
    open_files = len(os.listdir("/proc/self/fd"))
    memory = 0
    for step in range(steps):
        if chance.random() < 1 / every:
            victim = chance.choice(env._workers)
            os.kill(victim.process.pid, signal.SIGKILL)
            kills += 1
        data, td = env.step_and_maybe_reset(td.set("action", action))
        before, after = data["observation"], data["next", "observation"]
        truncated, terminated = data["next", "truncated"], data["next", "terminated"]
        gone_on = (after == before + 1) & (terminated == (after >= length)) & (data["next", "reward"] == 1)
        stood = (after == before) & (data["next", "reward"] == 0) & ~terminated
        assert bool(torch.where(truncated, stood, gone_on).all()), (step, data)
        assert bool((torch.where(data["next", "done"], 0, after) == td["observation"]).all()), step
        cut += int(truncated.sum())
        ends += int(terminated.sum())
        transitions += envs
        if step == steps // 10:
            memory = resident()
    grown = resident() / memory - 1
    failures = int(env.failures.sum())
    more = len(os.listdir("/proc/self/fd")) - open_files
    env.close()
    return Soaked(transitions, kills, failures, cut, ends, grown, more)


def main() -> None:
    """``python tests/vector/soak.py --steps 200000``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--every", type=int, default=500, help="steps between two kills, about")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.monotonic()
    found = soak(options.steps, options.every)
    print(f"{options.steps} steps in {time.monotonic() - start:.0f} s: {found}")
    assert found.failures == found.cut, "a failure that is not in the data"
    assert found.memory <= 0.05, f"memory grew by {found.memory:.1%}"
    assert found.descriptors == 0, f"{found.descriptors} files more are open"


if __name__ == "__main__":
    main()
