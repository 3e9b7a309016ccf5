"""Drawing from and checking a nested composite of ten leaves, against TorchRL."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import need

BATCH, AGENTS, CALLS = 32, 3, 50


def nested_spec(specs: Any) -> Any:
    """Two groups of five leaves: bounded, unbounded, categorical, one-hot, binary."""
    shape = (BATCH, AGENTS)

    def group() -> Any:
        return specs.Composite(
            observation=specs.Bounded(-1, 1, (*shape, 8)),
            position=specs.Unbounded((*shape, 2)),
            choice=specs.Categorical(5, shape),
            mode=specs.OneHot(4, (*shape, 4)),
            flag=specs.Binary(1, (*shape, 1), dtype=torch.bool),
            shape=shape,
        )

    return specs.Composite(wolves=group(), sheep=group(), shape=(BATCH,))


def measure(rounds: int) -> list[Figure]:
    """Times ``rand``, ``is_in`` and ``zero`` on both sides."""
    import marlenv.specs

    sides = {"marlenv": nested_spec(marlenv.specs), "torchrl": nested_spec(need("torchrl.data", "marlenv bench specs"))}
    drawn = {name: spec.rand() for name, spec in sides.items()}
    calls = {"rand": lambda s, v: s.rand(), "is_in": lambda s, v: s.is_in(v), "zero": lambda s, v: s.zero()}
    figures = []
    for what, call in calls.items():

        def play(name: str, call: Any = call) -> int:
            spec, value = sides[name], drawn[name]
            for _ in range(CALLS):
                call(spec, value)
            return CALLS

        got = interleaved({name: partial(play, name) for name in sides}, rounds)
        figures.append(Figure(f"Composite of 10 leaves: {what}", got["marlenv"], got["torchrl"], "torchrl", "us/call"))
    return figures
