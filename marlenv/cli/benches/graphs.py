"""``marlenv bench physics --device cuda``: kernels and transitions, in CUDA graphs too, beside VMAS on the same device.

Nothing in a transition, a kernel's step or its rollout may make the host wait, and a graph must do what a transition
does: either raises.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from marlenv.cli.benches.cuda import captured, finished, without_waiting
from marlenv.cli.benches.peers import Vmas
from marlenv.cli.benches.roofline import GPUS, Roofline, roofline_of, shown, source_of
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.physics.jit import cuda_kernel
from marlenv.registration import make
from marlenv.rng import RowRNG

STEPS = 100  # in a turn
ROLLOUT, STEP, ENV = "kernel, rollout with all data", "kernel, step by step", "kernel, env.step"
EAGER = "separate operations"
GRAPH, COMPILED = "CUDA graph", "compiled, CUDA graph"
PARTS = ("kernels", "graphs", "compiled")
"""What can be timed beside VMAS: machine code, separate operations with and without a CUDA graph, ``torch.compile``."""


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
            held = {x.untyped_storage().data_ptr() for x in self.state.values()}
            for name, x in after.items():  # one entry may become what another was
                after[name] = x.clone() if x.untyped_storage().data_ptr() in held else x
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


def kernels(name: str, rows: int, device: str) -> dict[str, Callable[[], int]]:
    """Rollouts and steps of a scenario's machine code; none where it cannot be made."""
    if not cuda_kernel.installed():
        print('  no kernels: pip install "marlenv-torch[cuda]"', file=sys.stderr, flush=True)
        return {}
    return launched(make(name, num_envs=rows, seed=0, device=device, compile="aot"))


def launched(env: Any) -> dict[str, Callable[[], int]]:
    """Many steps of an env that has machine code of its device: as a rollout with random actions, and one by one,
    without tensordicts and with them.
    """
    env.rollout(2, break_when_any_done=False)  # puts constants on the device
    data = env.rand_action(env.reset())
    state, actions = env.own_state(), env.taken(data)

    def rollout() -> int:
        with without_waiting():
            env.rollout(STEPS, break_when_any_done=False)
        return STEPS

    def step() -> int:
        with without_waiting():
            for _ in range(STEPS):
                env.engine.transition(state, actions)
        return STEPS

    def whole() -> int:
        with without_waiting():
            for _ in range(STEPS):
                env.step(data)
        return STEPS

    return {ROLLOUT: finished(rollout), STEP: finished(step), ENV: finished(whole)}


def separate(name: str, rows: int, device: str) -> Callable[[], int]:
    """Many steps of a scenario, every operation on its own."""
    transitions = Transitions(name, rows, device)

    def play() -> int:
        for _ in range(STEPS // 10):
            transitions.step()
        return STEPS // 10

    return finished(play)


def sides_of(name: str, rows: int, device: str, parts: Sequence[str]) -> dict[str, Callable[[], int]]:
    """Our sides of a scenario that the ``parts`` ask for."""
    sides = kernels(name, rows, device) if "kernels" in parts else {}
    if "graphs" in parts:
        sides |= {EAGER: separate(name, rows, device), GRAPH: graphed(name, rows, device, "none")}
    if "compiled" in parts:
        sides[COMPILED] = graphed(name, rows, device, "compile")
    return sides


def measure_graphs(
    names: list[str], rows: list[int], rounds: int, device: str, parts: Sequence[str] = PARTS
) -> list[Figure]:
    """Times our sides and VMAS, and says how fast a GPU could be at most."""
    rooflines = {name: roofline_of(source_of(name)) for name in names}
    print(shown(rooflines))
    figures = []
    for name in names:
        for n in rows:
            peer = Vmas(name, n, device=device)

            def theirs(peer: Vmas = peer) -> int:
                return peer.play(10)

            sides = sides_of(name, n, device, parts)
            got = interleaved({**sides, "vmas": finished(theirs)}, rounds)
            for what in sides:
                figures.append(Figure(f"{name} B={n} {what}", got[what], got["vmas"], "vmas"))
                share = share_of(rooflines[name], what, n / got[what] * 1e6, torch.cuda.get_device_name(device))
                print(f"  {figures[-1].what}: {figures[-1].ratio:.1f}{share}", file=sys.stderr, flush=True)
    return figures


def share_of(roofline: Roofline, what: str, rate: float, device: str) -> str:
    """How much of what a GPU could do at most kernels do, in words; nothing where that is not known.

    Args:
        roofline: of the scenario.
        what: the side.
        rate: its steps of a row per second.
        device: what the GPU is called.
    """
    work = {ROLLOUT: roofline.rollout, STEP: roofline.step}.get(what)
    gpu = next((gpu for gpu in GPUS if gpu in device), None)
    return "" if work is None or gpu is None else f", {100 * rate / work.rate(gpu):.0f} % of the roofline"
