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

FLAT = 0.05
"""By how much memory may grow, as a share."""
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
    workers: float
    """The same of the worker that grew most, from its first steps to its end or the end of all."""
    descriptors: int
    """How many more files are open than in the beginning."""


def resident(pid: int | str = "self") -> int:
    """Bytes of a process in memory; 0 where it is no more."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


class Grown:
    """By how much workers grow, each from an age of so many steps on.

    Args:
        age: in steps.
    """

    def __init__(self, age: int) -> None:
        self.age, self.born, self.young, self.most = age, dict[int, int](), dict[int, int](), 0.0

    def look(self, step: int, pids: list[int]) -> None:
        """Takes the size of those that have come of age; and of all of them every so often."""
        for pid in pids:
            if step - self.born.setdefault(pid, step) == self.age:
                self.young[pid] = resident(pid)
        if step % self.age == 0:
            self.weigh()

    def weigh(self) -> None:
        """Notes who has grown most."""
        self.most = max(self.most, *(resident(pid) / young - 1 for pid, young in self.young.items() if young), 0.0)


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
    memory, grown = 0, Grown(max(steps // 2000, 30))
    for step in range(steps):
        grown.look(step, [worker.process.pid for worker in env._workers])
        if chance.random() < 1 / every and step < 0.8 * steps:  # the last workers grow old
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
    more_memory = resident() / memory - 1
    grown.weigh()
    failures = int(env.failures.sum())
    more = len(os.listdir("/proc/self/fd")) - open_files
    env.close()
    return Soaked(transitions, kills, failures, cut, ends, more_memory, grown.most, more)


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
    assert found.memory <= FLAT, f"memory grew by {found.memory:.1%}"
    assert found.workers <= FLAT, f"the memory of a worker grew by {found.workers:.1%}"
    assert found.descriptors == 0, f"{found.descriptors} files more are open"


if __name__ == "__main__":
    main()
