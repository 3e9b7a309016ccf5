"""Envs that hold programs, which run on where nobody closes the env."""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial
from pathlib import Path

from marlenv.testing import CountingEnv


class Program(CountingEnv):
    """Holds a program that runs for long, as simulators do, and ends it when it is closed.

    Args:
        folder: where it notes the program.
        fails: ``"make"``, ``"step"``, ``"close"``, or ``"ask"``.
    """

    def __init__(self, folder, fails="", **options):
        if fails == "make":
            raise OSError("no licence")
        super().__init__(**options)
        self.fails, self.program = fails, subprocess.Popen(["sleep", "300"])
        (Path(folder) / str(self.program.pid)).touch()

    def _step(self, tensordict):
        if self.fails == "step":
            raise OSError("no answer")
        return super()._step(tensordict)

    def ask(self):
        """Refuses, if it is to."""
        if self.fails == "ask":
            raise LookupError("no such level")
        return 1

    @property
    def level(self):
        """The same."""
        return self.ask()

    def _get_state(self, tensordict):
        self.ask()
        return super()._get_state(tensordict)

    def close(self, *, raise_if_closed=True):
        if self.program is not None:
            self.program.kill()
            self.program.wait()
            self.program = None
            if self.fails == "close":
                raise OSError("disk full")
        super().close(raise_if_closed=False)


def makers(folder, **fails):
    """What makes four programs, of which some fail: ``e2="step"``."""
    return [partial(Program, folder, fails.get(f"e{i}", ""), max_steps=9) for i in range(4)]


def started(folder):
    """The programs that were started."""
    return [int(name) for name in os.listdir(folder)]


def left(folder, seconds=10.0):
    """How many of them still run after a while."""
    until = time.monotonic() + seconds
    while (run := [pid for pid in started(folder) if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < until:
        time.sleep(0.02)
    return len(run)
