"""How fast a scenario runs: as separate operations, compiled by PyTorch, or as machine code of its own.

============= ====================================================================================================
tier          what runs
============= ====================================================================================================
``"none"``    every operation on its own: the reference, with gradients, on any device
``"compile"`` ``torch.compile``: one graph for each number of rows, on any device; compiled anew in every process
``"aot"``     machine code made ahead of time (:mod:`marlenv.physics.jit.cpu_kernel`), kept on disk; any number of rows,
              on the CPU; on CUDA devices with the extra ``marlenv-torch[cuda]``
``"auto"``    the default: ``"aot"`` where it is at hand or can be had within seconds, else ``"none"``; without a word
              on other devices, on CUDA devices without the extra, with gradients, for scenarios of more than 40,000
              expressions, and while the compiler goes on in the background; where anything goes wrong with a warning
============= ====================================================================================================

Where something that a scenario holds in Python (weights of a network, an entry of a dict, a variable of its module, a
method of its class) is another than when its code was made, ``"aot"`` and ``"compile"`` make it anew, and ``"auto"``
goes on without, with a warning (:mod:`marlenv.physics.jit.watch`).

All give the same numbers up to rounding; machine code that does not, when it is first used, is not used
(:mod:`marlenv.physics.jit.first_use`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from marlenv.constants import on_cpu
from marlenv.errors import NotCompiled, Unsupported, users_line
from marlenv.physics.jit import cache, cuda_kernel, first_use, known
from marlenv.physics.jit.cpu_kernel import CpuKernel
from marlenv.physics.jit.cuda_kernel import CudaKernel
from marlenv.physics.jit.graph import LooksAtData, TooLarge, Untraceable
from marlenv.physics.jit.source import LARGEST, Draw, Source
from marlenv.physics.jit.torch_compile import Inductor
from marlenv.physics.jit.watch import Watch
from marlenv.physics.laws.state import State
from marlenv.physics.simulation import SHARED, Grouped, Infos, Kept, Observations, Simulation, unflatten

Tier: TypeAlias = Literal["none", "compile", "aot", "auto"]
TIERS = ("none", "compile", "aot", "auto")
PATIENCE = 6.0  # seconds that "auto" waits for a compiler
QUICK = 40_000  # expressions; "auto" does not even try more
REMEDY = "compile='none' plays so without this warning, compile='aot' insists"


class Engine(Protocol):
    """What an env needs to move its rows."""

    in_place: bool
    """Whether a transition or a reset may write into the state that it is given."""
    watch: Watch | None
    """Tells whether what a scenario holds in Python is still what it was when this was made."""

    def transition(
        self, state: State, actions: Mapping[str, Tensor]
    ) -> tuple[State, Observations, Grouped, Tensor, Infos]:
        """As :meth:`Simulation.transition <marlenv.physics.simulation.Simulation.transition>`."""

    def reset(
        self, state: State, where: Tensor | None = None, kept: Kept | None = None
    ) -> tuple[State, Observations, Infos]:
        """As :meth:`Simulation.reset <marlenv.physics.simulation.Simulation.reset>`."""


class MachineCode:
    """A simulation that runs as machine code, which plays whole rollouts too; what it moves is in memory of its own.

    Args:
        kernel: the code.
        watch: over what it was made from.

    """

    in_place = True

    def __init__(self, kernel: Any, watch: Watch | None = None) -> None:
        self.kernel, self.watch = kernel, watch
        self._mine: State | None = None

    def own(self, state: State) -> State:
        """The state in memory that only this engine writes to."""
        if state is not self._mine:
            with torch.inference_mode(False), torch.no_grad():
                state = {name: x.clone(memory_format=torch.contiguous_format) for name, x in state.items()}
            self._mine = state
        return state

    def transition(
        self, state: State, actions: Mapping[str, Tensor]
    ) -> tuple[State, Observations, Grouped, Tensor, Infos]:
        """One step of all rows; changes ``state`` in place where it is its own."""
        state = self.own(state)
        values, over = self.kernel.transition(state, actions)
        observations, infos, rewards = unflatten(values)
        return state, observations, rewards, over, infos

    def reset(
        self, state: State, where: Tensor | None = None, kept: Kept | None = None
    ) -> tuple[State, Observations, Infos]:
        """New episodes; changes ``state`` in place where it is its own."""
        kernel, state = self.kernel, self.own(state)
        rows, device = state["rng"].shape[-1], state["rng"].device
        if where is None or kept is None:
            shown = {f.name: f.room(rows, device, by_rows=kernel.by_rows) for f in kernel.observations}
            for x in shown.values() if where is not None else ():
                x.zero_()
        else:
            shown = {f.name: _copied(kept[f.name], kernel.by_rows) for f in kernel.observations}
        kernel.begin(state, None if where is None else where.contiguous(), list(shown.values()))
        observations, infos, _ = unflatten(shown)
        return state, observations, infos


class Compiled(MachineCode):
    """A simulation that runs as machine code of the CPU."""

    kernel: CpuKernel


class OnGpu(MachineCode):
    """A simulation that runs as machine code of a GPU."""

    kernel: CudaKernel


def _copied(x: Tensor, by_rows: bool) -> Tensor:
    """A copy of ``[B, *shape]`` that lies row by row in memory, or whose rows are last there."""
    if by_rows:
        return x.clone(memory_format=torch.contiguous_format)
    return x.movedim(0, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 0)


def engine_of(
    simulation: Simulation,
    tier: str,
    device: torch.device | None,
    draw: Draw | None,
    draws: int,
    *,
    wide: bool,
    grad: bool,
) -> Any:
    """What moves the rows of a simulation.

    Args:
        simulation: the scenario.
        tier: how fast.
        device: where the rows are.
        draw: from uniform numbers to random actions, if machine code shall draw them.
        draws: how many numbers that takes per row.
        wide: whether they are float64.
        grad: whether gradients are wanted.

    Raises:
        Unsupported: ``"aot"`` cannot be had here; ``"auto"`` warns and does without.

    Warns:
        NotCompiled: what should have become machine code did not.

    """
    where = torch.device("cpu") if device is None else device
    known_there = where.type == "cpu" or (where.type == "cuda" and (tier == "aot" or cuda_kernel.installed()))
    if tier == "compile":
        return Inductor(simulation, Watch(simulation.scenario))
    if tier == "none" or (tier == "auto" and (not known_there or grad)):
        return simulation
    who = type(simulation.scenario).__name__
    if not known_there or grad:
        what = "gradients" if grad else f"device {device}"
        raise Unsupported(
            f"{who}: compile='aot' makes machine code for the CPU and for CUDA, without gradients, got {what}; use "
            f"'none' or 'compile'"
        )
    try:
        if where.type == "cuda":
            return _on_gpu(simulation, where, draw, draws, wide=wide, asked=tier == "aot")
        return _compiled(simulation, draw, draws, wide=wide, asked=tier == "aot")
    except cache.StillCompiling:
        return simulation
    except Exception as error:  # whatever it is: a scenario that plays must not stop because of its machine code
        why = error if isinstance(error, Unsupported) else f"{type(error).__name__}: {error}"
        why = f"the scenario {why}" if isinstance(error, Untraceable) else str(why)
        if tier == "aot":
            kind = Untraceable if isinstance(error, Untraceable) else Unsupported
            other = "" if isinstance(error, LooksAtData) else " or 'compile'"
            raise kind(f"{who}: compile='aot': {why}; use compile='none'{other}") from error
        if isinstance(error, TooLarge):  # nothing went wrong
            return simulation
    said = f"{who}: compile='auto' plays with separate operations, slower, as there is no machine code: {why}; {REMEDY}"
    warnings.warn(said, NotCompiled, stacklevel=users_line())
    return simulation


def _compiled(simulation: Simulation, draw: Draw | None, draws: int, *, wide: bool, asked: bool) -> Compiled:
    """Machine code of a simulation.

    Args:
        simulation: the scenario.
        draw: as for :func:`engine_of`.
        draws: likewise.
        wide: likewise.
        asked: whether somebody waits for it, however long it takes.

    Raises:
        Exception: whatever can go wrong, in the scenario, the compiler, the disk or the library.

    """
    with torch.inference_mode(False), torch.no_grad(), on_cpu():  # constants that are made here outlive the modes
        watch = Watch(simulation.scenario)
        source = known.source_of(simulation, draw, draws, wide=wide, largest=LARGEST if asked else QUICK)
        _check_constant(watch)
        kernel = CpuKernel(source) if asked else _soon(source)
        first_use.check(simulation, kernel, draw, wide=wide)
        return Compiled(kernel, watch)


def _on_gpu(
    simulation: Simulation, device: torch.device, draw: Draw | None, draws: int, *, wide: bool, asked: bool
) -> OnGpu:
    """Machine code of a simulation for a GPU; arguments and errors as of :func:`_compiled`."""
    with torch.inference_mode(False), torch.no_grad(), on_cpu():
        watch = Watch(simulation.scenario)
        source = known.source_of(simulation, draw, draws, wide=wide, largest=LARGEST if asked else QUICK)
        _check_constant(watch)
        kernel = CudaKernel(source, device) if asked else _soon(source, device)
        first_use.check(simulation, kernel, draw, wide=wide, device=kernel.device)
        return OnGpu(kernel, watch)


def _check_constant(watch: Watch | None) -> None:
    """Raises where playing changes what a scenario holds in Python."""
    if watch is not None and (what := watch.changed()):
        raise Untraceable(
            f"changes {what} while it is played; declare what changes in build with world.remember(...), and use "
            f"self.memory"
        )


_late: set[str] = set()
"""What was not compiled in time in this process: all envs of a process play the same numbers, and wait but once."""


def _soon(source: Source, gpu: torch.device | None = None) -> Any:
    """The kernel, for the CPU or a GPU, if it is had within seconds."""
    name = f"{cache.key(source.text)}{gpu or ''}"
    try:
        if name in _late:
            raise cache.StillCompiling("it was not compiled in time")
        return CpuKernel(source, PATIENCE) if gpu is None else CudaKernel(source, gpu, PATIENCE)
    except cache.StillCompiling:
        _late.add(name)
        raise


__all__ = [
    "SHARED",
    "TIERS",
    "Compiled",
    "Engine",
    "Inductor",
    "MachineCode",
    "OnGpu",
    "Tier",
    "engine_of",
]
