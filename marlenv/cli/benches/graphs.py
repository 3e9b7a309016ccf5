"""``marlenv bench physics --device cuda``: transitions in a CUDA graph, against VMAS on the same device.

Nothing in a transition may make the host wait: every call outside of the graph's capture runs with CUDA's sync debug mode at
``"error"``, so that one that does raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from marlenv.cli.benches.peers import Vmas
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.making import make
from marlenv.physics import lanes
from marlenv.rng import RowRNG

STEPS = 100  # in a turn


class Graph:
    """A scenario whose transitions are replayed from a CUDA graph, on buffers that stay in place.

    Args:
        name: of the scenario.
        rows: how many.
        device: where.

    """

    def __init__(self, name: str, rows: int, device: str) -> None:
        env: Any = make(name, num_envs=rows, seed=0, device=device)
        self.simulation = env.simulation
        rng = RowRNG(0, [rows], device)
        self.actions = {
            group: rng.uniform(-1, 1, (control.agents, control.width))
            for group, control in env.simulation.controls.items()
        }
        self.state, *_ = env.simulation.reset(env.simulation.start(rng))
        self.results: Any = None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), lanes.graph(), torch.cuda.stream(side):
            self._step()  # puts constants on the device
            with without_waiting():
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), lanes.graph(), torch.cuda.graph(self.graph):
            self._step()

    def _step(self) -> None:
        after, *self.results = self.simulation.transition(self.state, self.actions)
        for name, x in self.state.items():
            x.copy_(after[name])

    def play(self) -> int:
        """Many steps."""
        with without_waiting():
            for _ in range(STEPS):
                self.graph.replay()
        torch.cuda.synchronize()
        return STEPS


@contextmanager
def without_waiting() -> Iterator[None]:
    """Whatever makes the host wait for the device raises."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def measure_graphs(names: list[str], rows: list[int], rounds: int, device: str) -> list[Figure]:
    """Times both sides."""
    figures = []
    for name in names:
        for n in rows:
            ours, peer = Graph(name, n, device), Vmas(name, n, device=device)

            def theirs(peer: Vmas = peer) -> int:
                steps = peer.play(10)
                torch.cuda.synchronize()
                return steps

            got = interleaved({"marlenv": ours.play, "vmas": theirs}, rounds)
            figures.append(Figure(f"{name} B={n} CUDA graph", got["marlenv"], got["vmas"], "vmas"))
            print(f"  {figures[-1].what}: {figures[-1].ratio:.1f}", file=sys.stderr, flush=True)
    return figures
