"""How fast a scenario runs: as separate operations, compiled by PyTorch, or as machine code of its own.

============= ====================================================================================================
tier          what runs
============= ====================================================================================================
``"none"``    every operation on its own: the reference, with gradients, on any device
``"compile"`` ``torch.compile``: one graph for each number of rows, on any device; compiled anew in every process
``"aot"``     machine code made ahead of time (:mod:`marlenv.physics.kernel`), kept on disk; any number of rows, CPU
``"auto"``    ``"aot"`` where it is at hand or can be had within seconds, else ``"none"``
============= ====================================================================================================

All give the same numbers up to rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.physics import cache
from marlenv.physics.expressions import Untraceable
from marlenv.physics.kernel import LARGEST, Draw, Field, Kernel, Source
from marlenv.physics.simulation import SHARED, Grouped, Infos, Kept, Seen, Simulation, unflatten
from marlenv.physics.state import State

Tier: TypeAlias = Literal["none", "compile", "aot", "auto"]
TIERS = ("none", "compile", "aot", "auto")
PATIENCE = 6.0  # seconds that "auto" waits for a compiler
QUICK = 40_000  # expressions; "auto" does not even try more


class Engine(Protocol):
    """What an env needs to move its rows."""

    in_place: bool
    """Whether a transition or a reset may write into the state that it is given."""

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[State, Seen, Grouped, Tensor, Infos]:
        """As :meth:`Simulation.transition <marlenv.physics.simulation.Simulation.transition>`."""

    def reset(self, state: State, where: Tensor | None = None, kept: Kept | None = None) -> tuple[State, Seen, Infos]:
        """As :meth:`Simulation.reset <marlenv.physics.simulation.Simulation.reset>`."""


class Compiled:
    """A simulation that runs as machine code.

    Args:
        kernel: the code.

    """

    in_place = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._mine: State | None = None

    def own(self, state: State) -> State:
        """The state in memory that only this engine writes to."""
        if state is not self._mine:
            state = {name: x.clone(memory_format=torch.contiguous_format) for name, x in state.items()}
            self._mine = state
        return state

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[State, Seen, Grouped, Tensor, Infos]:
        """One step of all rows; changes ``state`` in place where it is its own."""
        kernel, state = self.kernel, self.own(state)
        rows = state["rng"].shape[-1]
        acts = [rows_last(actions[f.name[0]], f) for f in kernel.actions]
        outs = [f.empty(rows) for f in kernel.outs]
        flags = torch.empty((4, rows), dtype=torch.bool)
        places = kernel.bind(state, acts, outs, flags.unbind(0)[:3])
        kernel.run(rows, places, flags[3])
        seen, infos, rewards = unflatten({f.name: x.movedim(-1, 0) for f, x in zip(kernel.outs, outs, strict=True)})
        return state, seen, rewards, flags[0], infos

    def reset(self, state: State, where: Tensor | None = None, kept: Kept | None = None) -> tuple[State, Seen, Infos]:
        """New episodes; changes ``state`` in place where it is its own."""
        kernel, state = self.kernel, self.own(state)
        rows = state["rng"].shape[-1]
        if where is None or kept is None:
            shown = {f.name: f.empty(rows).movedim(-1, 0) for f in kernel.seen}
            for x in shown.values() if where is not None else ():
                x.zero_()
        else:
            shown = {f.name: _copied(kept[f.name]) for f in kernel.seen}
        kernel.begin(state, None if where is None else where.contiguous(), list(shown.values()))
        seen, infos, _ = unflatten(shown)
        return state, seen, infos


@lru_cache(maxsize=256)
def _strides(shape: torch.Size) -> tuple[int, ...]:
    """Those of ``[B, *shape]`` whose rows are last in memory."""
    return torch.empty((*shape[1:], shape[0]), device="meta").movedim(-1, 0).stride()


def _copied(x: Tensor) -> Tensor:
    """A copy of ``[B, *shape]`` whose rows are last in memory."""
    if x.stride() == _strides(x.shape):  # as what was seen before is: the quick case
        return x.clone()
    return x.movedim(0, -1).clone(memory_format=torch.contiguous_format).movedim(-1, 0)


class Inductor:
    """A simulation compiled by PyTorch, once for each number of rows.

    Args:
        simulation: what is compiled.
        options: of ``torch.compile``.

    """

    in_place = False

    def __init__(self, simulation: Simulation, **options: Any) -> None:
        self.simulation, self.options = simulation, options
        self._graphs: dict[Any, Any] = {}

    def transition(self, state: State, actions: Mapping[str, Tensor]) -> tuple[State, Seen, Grouped, Tensor, Infos]:
        """One step of all rows."""
        made: Any = self._call("transition", dict(state), dict(actions))
        return made

    def reset(self, state: State, where: Tensor | None = None, kept: Kept | None = None) -> tuple[State, Seen, Infos]:
        """New episodes."""
        args = (dict(state),) if where is None else (dict(state), where) if kept is None else (dict(state), where, kept)
        made: Any = self._call("reset", *args)
        return made

    def _call(self, name: str, *args: Any) -> Any:
        """The graph of a method for shapes like these, made on the first call; one graph stands for all of it."""
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.utils import _pytree as pytree

        from marlenv.physics.lanes import graph

        flat, form = pytree.tree_flatten(args)
        key = (name, form, *((x.shape, x.dtype, x.device) for x in flat))
        if key not in self._graphs:
            forms = []

            def plain(*leaves: Tensor) -> list[Tensor]:
                made = getattr(self.simulation, name)(*pytree.tree_unflatten(leaves, form))
                outs, out_form = pytree.tree_flatten(made)
                forms.append(out_form)
                return [x.clone() if any(x is leaf for leaf in leaves) else x for x in outs]

            with graph():
                traced = make_fx(plain)(*flat)
            traced.graph.eliminate_dead_code()
            traced.recompile()
            self._graphs[key] = torch.compile(traced, dynamic=False, **self.options), forms[-1]
        run, form = self._graphs[key]
        return pytree.tree_unflatten(run(*flat), form)


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
        Unsupported: ``"aot"`` cannot be had here.

    """
    on_cpu = device is None or device.type == "cpu"
    if tier == "compile":
        return Inductor(simulation)
    if tier == "none" or (tier == "auto" and (not on_cpu or grad)):
        return simulation
    who = f"{type(simulation.scenario).__name__}: compile='aot'"
    if not on_cpu or grad:
        what = "gradients" if grad else f"device {device}"
        raise Unsupported(
            f"{who} makes machine code for the CPU, without gradients, got {what}; use 'none' or 'compile'"
        )
    try:
        largest = QUICK if tier == "auto" else LARGEST
        source = Source(simulation, draw, draws, wide=wide, largest=largest)
    except Untraceable as error:
        if tier == "auto":
            return simulation
        raise Untraceable(f"{who}: the scenario {error}; use compile='none' or 'compile'") from None
    if tier == "auto" and not _at_hand(source):
        return simulation
    return Compiled(Kernel(source))


def _at_hand(source: Source) -> bool:
    """Whether the code is there, or is there soon; if not, it will be there the next time."""
    if cache.path_of(source.text).exists():
        return True
    if cache.compiler() is None:
        return False
    failed: list[Exception] = []

    def build() -> None:
        try:
            cache.build(source.text)
        except (Unsupported, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=build, name="marlenv-compile", daemon=False)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive() and not failed


def rows_last(x: Tensor, field: Field) -> Tensor:
    """Actions ``[B, ...]`` as they are read, ``[..., B]``."""
    if x.ndim - 1 > len(field.shape):
        x = x.squeeze(-1)
    if x.dtype != field.dtype:
        x = x.to(field.dtype)
    return x.movedim(0, -1).contiguous()


__all__ = ["SHARED", "TIERS", "Compiled", "Engine", "Inductor", "Tier", "engine_of", "rows_last"]
