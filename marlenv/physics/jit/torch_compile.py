"""The tier ``"compile"``: a simulation compiled by PyTorch, on any device.

A graph is recorded on tensors without numbers: what looks at them is an error, and nothing of the first step stays in
it. Then it plays that step beside the simulation: what Python made on the way must be the same again, and gradients
must be those of the scenario.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import OURS
from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.tracer import INSTEAD
from marlenv.physics.jit.watch import Watch
from marlenv.physics.laws.state import State
from marlenv.physics.maths.rowwise import graph
from marlenv.physics.simulation import Grouped, Infos, Kept, Observations, Simulation

TOLERANCE = 1e-4  # of numbers relative to 1 + |x|, of gradients to the largest: the same operations, in the same order


class Inductor:
    """A simulation compiled by PyTorch, once for each number of rows.

    Args:
        simulation: what is compiled.
        watch: over what a user's scenario holds.
        options: of ``torch.compile``.

    """

    in_place = False

    def __init__(self, simulation: Simulation, watch: Watch | None = None, **options: Any) -> None:
        self.simulation, self.watch, self.options = simulation, watch, options
        self._graphs: dict[Any, Any] = {}

    def transition(
        self, state: State, actions: Mapping[str, Tensor]
    ) -> tuple[State, Observations, Grouped, Tensor, Infos]:
        """One step of all rows.

        Raises:
            Untraceable: the scenario looks at its data, or its graph does something else than the scenario.

        """
        made: Any = self._call("transition", dict(state), dict(actions))
        return made

    def reset(
        self, state: State, where: Tensor | None = None, kept: Kept | None = None
    ) -> tuple[State, Observations, Infos]:
        """New episodes; errors as of :meth:`transition`."""
        args = (dict(state),) if where is None else (dict(state), where) if kept is None else (dict(state), where, kept)
        made: Any = self._call("reset", *args)
        return made

    def _call(self, name: str, *args: Any) -> Any:
        """The graph of a method for shapes like these, made on the first call; one graph stands for all of it."""
        from torch.utils import _pytree as pytree

        flat, form = pytree.tree_flatten(args)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        key = (name, form, modes, *((x.shape, x.dtype, x.device) for x in flat))
        if key not in self._graphs:
            forms = []

            def plain(*leaves: Tensor) -> list[Tensor]:
                made = getattr(self.simulation, name)(*pytree.tree_unflatten(leaves, form))
                outs, out_form = pytree.tree_flatten(made)
                forms.append(out_form)
                return [x.clone() if any(x is leaf for leaf in leaves) else x for x in outs]

            traced = _traced(plain, flat, f"{type(self.simulation.scenario).__name__}: compile='compile'")
            self._graphs[key] = torch.compile(traced, dynamic=False, **self.options), forms[-1]
        run, form = self._graphs[key]
        return pytree.tree_unflatten(run(*flat), form)


def _traced(plain: Any, flat: Sequence[Tensor], who: str) -> Any:
    """The graph of a function, which computes what the function computes.

    Raises:
        Untraceable: there is none.

    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    grad = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    leaves = [x.detach() for x in flat]
    with graph():
        right = _results(plain, leaves, grad)  # first: what a scenario makes once, and keeps, has numbers
        try:
            blind = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
            traced = make_fx(plain, pre_dispatch=grad)(*map(blind.from_tensor, leaves))
            traced.graph.eliminate_dead_code()
            traced.recompile()
            ours = _results(traced, leaves, grad)
        except Exception as error:  # whatever it is, the scenario itself plays
            said = str(error).partition("\n")[0]
            raise Untraceable(
                f"{who}: the scenario cannot become a graph{_line(error)}, as where it looks at the numbers of its "
                f"data (if, float, item, tolist, numpy): {INSTEAD}, or compile='none'; PyTorch says "
                f"{type(error).__name__}: {said[:100]}"
            ) from error
    _check(ours, right, who)
    return traced


def _results(run: Any, leaves: Sequence[Tensor], grad: bool) -> tuple[list[Tensor], list[Tensor]]:
    """What a function gives, and the gradients of all of it if they are wanted; global generators stay as they are."""
    device = leaves[0].device
    leaves = [x.detach().requires_grad_(grad and x.is_floating_point()) for x in leaves]
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.set_grad_enabled(grad):
        outs = run(*leaves)
    grown, wanted = [x for x in outs if x.requires_grad], [x for x in leaves if x.requires_grad]
    if not grown or not wanted:
        return list(outs), [torch.zeros_like(x) for x in wanted]
    weights = [torch.arange(x.numel(), device=device).to(x.dtype).cos().reshape(x.shape) for x in grown]
    return list(outs), list(torch.autograd.grad(grown, wanted, weights, materialize_grads=True))


def _check(ours: tuple[list[Tensor], list[Tensor]], right: tuple[list[Tensor], list[Tensor]], who: str) -> None:
    """Raises where results or gradients differ."""
    if not all(map(_near, ours[0], right[0])):
        raise Untraceable(
            f"{who}: the scenario is not the same when it runs again: something outlives a step besides the world's "
            f"state (a generator, a counter, a list or the clock); declare it in build with world.remember, draw with "
            f"self.uniform, or use compile='none'"
        )
    for a, b in zip(ours[1], right[1], strict=True):
        finite = a.isfinite() & b.isfinite()
        a, b = a[finite], b[finite]
        if a.numel() and bool((a - b).abs().max() > TOLERANCE * b.abs().max()):
            raise Untraceable(
                f"{who}: gradients of its graph are not those of the scenario, as where it uses "
                f"torch.autograd.Function, hooks or inference_mode; use operations of PyTorch, x.detach() and "
                f"torch.no_grad(), or compile='none'"
            )


def _near(a: Tensor, b: Tensor) -> bool:
    same = (a == b) | (a.isnan() & b.isnan())
    if b.is_floating_point():
        same |= (a - b).abs() <= TOLERANCE * (1 + b.abs())
    return bool(same.all())


def _line(error: Exception) -> str:
    """Where in a user's code it happened, if it did there."""
    own = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__", "").partition(".")[0] not in OURS
        and os.path.isfile(frame.f_code.co_filename)  # not what dataclass and namedtuple make
    ]
    if not own:
        return ""
    code, line = own[-1]
    return f" (in {code.co_name}, {os.path.basename(code.co_filename)}:{line})"


__all__ = ["Inductor"]
