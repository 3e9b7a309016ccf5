"""``marlenv bench physics --device cuda``: transitions in CUDA graphs, compiled and not, against VMAS on the same
device.

Nothing in a transition may make the host wait, and a graph must do what a transition does: either raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from marlenv.cli.benches.cuda import captured, finished, without_waiting
from marlenv.cli.benches.peers import Vmas
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.registration import make
from marlenv.rng import RowRNG

STEPS = 100  # in a turn
TIERS = {"CUDA graph": "none", "compiled, CUDA graph": "compile"}
"""What is captured, by what figures call it."""


class Transitions:
    """Transitions of a scenario, with actions that stay the same, from the same memory to the same memory.

    Args:
        name: of the scenario.
        rows: how many.
        device: where.
        tier: how, as ``marlenv.make(compile=)`` has it.

    """

    def __init__(self, name: str, rows: int, device: str, tier: str = "none") -> None:
        env: Any = make(name, num_envs=rows, seed=0, device=device, compile=tier)
        self.engine = env.engine
        rng = RowRNG(0, [rows], device)
        self.actions = {
            group: rng.uniform(-1, 1, (control.agents, control.width))
            for group, control in env.simulation.controls.items()
        }
        self.state, *_ = env.simulation.reset(env.simulation.start(rng))
        self._given: Any = ()

    def step(self) -> None:
        """One of them."""
        with torch.no_grad():
            after, *self._given = self.engine.transition(self.state, self.actions)
            for name, x in self.state.items():
                x.copy_(after[name])

    def results(self) -> list[Tensor]:
        """Observations, rewards, ends and infos of the last one."""
        flat: list[Tensor] = pytree.tree_leaves(self._given)
        return flat


def graphed(name: str, rows: int, device: str, tier: str) -> Callable[[], int]:
    """Many steps of a scenario in a CUDA graph."""
    transitions = Transitions(name, rows, device, tier)
    graph = captured(transitions.step, list(transitions.state.values()), transitions.results)

    def play() -> int:
        with without_waiting():
            for _ in range(STEPS):
                graph.replay()
        return STEPS

    return finished(play)


def measure_graphs(names: list[str], rows: list[int], rounds: int, device: str) -> list[Figure]:
    """Times both sides."""
    figures = []
    for name in names:
        for n in rows:
            peer = Vmas(name, n, device=device)

            def theirs(peer: Vmas = peer) -> int:
                return peer.play(10)

            sides = {what: graphed(name, n, device, tier) for what, tier in TIERS.items()}
            got = interleaved({**sides, "vmas": finished(theirs)}, rounds)
            for what in TIERS:
                figures.append(Figure(f"{name} B={n} {what}", got[what], got["vmas"], "vmas"))
                print(f"  {figures[-1].what}: {figures[-1].ratio:.1f}", file=sys.stderr, flush=True)
    return figures
