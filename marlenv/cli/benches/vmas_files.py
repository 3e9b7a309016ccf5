"""VMAS's own files through ``load``, unmodified, against VMAS: one thread, same run, interleaved, CPU time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from marlenv.cli.benches.peers import Vmas
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need
from marlenv.physics.vmas_compat import load

FILES = {"balance": "balance", "navigation": "navigation", "simple_spread": "mpe/simple_spread"}


def measure_file(name: str, rows: int, rounds: int, clocks: dict[str, Any], enough: Any) -> Figure:
    """A step of our env, tensordicts and all, against a step of VMAS; actions drawn in advance for both."""
    folder = Path(str(need("vmas", "marlenv bench physics").__file__)).parent / "scenarios"
    env = load(folder / f"{FILES[name]}.py", rows, seed=0)
    data = env.rand_action(env.reset())

    def play(steps: int) -> int:
        for _ in range(steps):
            env.step(data)
        return steps

    peer = Vmas(name, rows)
    got = interleaved(
        {"marlenv": partial(play, enough(play)), "vmas": partial(peer.play, enough(peer.play))}, rounds, clocks
    )
    return Figure(f"{name} B={rows} its file", got["marlenv"], got["vmas"], "vmas")
