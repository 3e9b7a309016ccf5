"""The tier ``"compile"``: a simulation compiled by PyTorch, on any device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from marlenv.physics.jit.watch import Watch
from marlenv.physics.laws.state import State
from marlenv.physics.maths.rowwise import graph
from marlenv.physics.simulation import Grouped, Infos, Kept, Observations, Simulation


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
        """One step of all rows."""
        made: Any = self._call("transition", dict(state), dict(actions))
        return made

    def reset(
        self, state: State, where: Tensor | None = None, kept: Kept | None = None
    ) -> tuple[State, Observations, Infos]:
        """New episodes."""
        args = (dict(state),) if where is None else (dict(state), where) if kept is None else (dict(state), where, kept)
        made: Any = self._call("reset", *args)
        return made

    def _call(self, name: str, *args: Any) -> Any:
        """The graph of a method for shapes like these, made on the first call; one graph stands for all of it."""
        from torch.fx.experimental.proxy_tensor import make_fx
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

            with graph():
                traced = make_fx(plain)(*flat)
            traced.graph.eliminate_dead_code()
            traced.recompile()
            self._graphs[key] = torch.compile(traced, dynamic=False, **self.options), forms[-1]
        run, form = self._graphs[key]
        return pytree.tree_unflatten(run(*flat), form)
