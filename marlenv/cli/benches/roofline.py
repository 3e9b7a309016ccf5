"""How fast a GPU could play a scenario at most: from what a step moves and computes, without a GPU.

A roofline (Williams, Waterman, Patterson 2009, https://doi.org/10.1145/1498765.1498785): memory or arithmetic is used
to the full, whichever takes longer. An estimate and no measurement: it leaves out launches, local memory, branches that
are skipped, and new episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from marlenv.physics.env.simulation_env import drawing
from marlenv.physics.jit.codegen import Emitter, Item, Round
from marlenv.physics.jit.graph import Node
from marlenv.physics.jit.source import Field, Source
from marlenv.registration import make
from marlenv.text_table import table

GPUS = {"A100": (1.555e12, 9.7e12), "H100": (3.35e12, 33.5e12), "H200": (4.8e12, 33.5e12)}
"""Bytes per second, and operations on float32 numbers per second, a product joined with a sum counted as one: the 40 GB
and the SXM models of https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf
and https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet."""
SIZES = {"f": 4, "d": 8, "l": 8, "b": 1}
COSTS = {
    "div": 9, "sqrt": 9, "exp": 16, "log": 25, "log1p": 32, "softplus": 45, "logaddexp": 45, "sin": 30, "cos": 30,
    "tan": 40, "atan": 25, "atan2": 40, "tanh": 28, "sigmoid": 26, "floordiv": 30, "truncdiv": 30, "mod": 30, "rem": 30,
}  # fmt: skip
"""Operations that an expression takes, counted in marlenv/physics/jit/runtime/functions.h; all others take one."""
FLAGS = 3  # bytes that say whether a row is terminated, truncated, done


class Work(NamedTuple):
    """What a step of a row takes."""

    bytes: int
    """Read and written."""
    operations: int

    def rate(self, gpu: str) -> float:
        """Steps of a row per second, at most."""
        bandwidth, speed = GPUS[gpu]
        return min(bandwidth / self.bytes, speed / self.operations)

    def bound(self, gpu: str) -> str:
        """What holds it up there, ``"memory"`` or ``"arithmetic"``."""
        bandwidth, speed = GPUS[gpu]
        return "memory" if bandwidth / self.bytes < speed / self.operations else "arithmetic"


class Roofline(NamedTuple):
    """What a scenario takes."""

    expressions: int
    step: Work
    """Of a step by itself, which reads the state and writes what it changes of it."""
    rollout: Work
    """Of a step among many with random actions, all data kept; the state stays where it is computed with."""


def source_of(name: str, **options: Any) -> Source:
    """The code of a scenario as an env has it, with what it computes.

    Args:
        name: of the scenario.
        **options: its own.
    """
    env: Any = make(name, compile="none", **options)
    draw, draws, wide = drawing(env)
    return Source(env.simulation, draw, draws, wide=wide, keep=True)


def roofline_of(source: Source) -> Roofline:
    """What a step takes, by its own and in a rollout."""
    step = source.functions["step"]
    read = sum(SIZES[step.live[at].kind] for at in step.places if at in step.live)
    changed = sum(SIZES[piece.kind] * piece.many for piece in source.changed)
    outs, actions, observations = map(_bytes, (source.outs, source.actions, source.observations))
    operations = sum(_operations(step, step.items))
    alone = Work(read + changed + outs + FLAGS, operations)
    drawn = sum(sum(_operations(f, f.items)) for name, f in source.functions.items() if name == "act")
    return Roofline(step.size, alone, Work(actions + outs + observations + FLAGS, operations + drawn))


def _bytes(fields: Iterable[Field]) -> int:
    return sum(SIZES[field.kind] * field.numbers for field in fields)


def _operations(function: Emitter, items: Iterable[Item | list[Item]]) -> Iterator[int]:
    """With all branches taken, and all loops played to their end."""
    for item in items:
        if isinstance(item, list):
            yield from _operations(function, item)
        elif isinstance(item, Round):
            yield function.graph.loops[item.number].count * sum(_operations(function, item.body))
        elif isinstance(item, Node):
            yield COSTS.get(item.op, 1)
        else:
            yield sum(COSTS.get(node.op, 1) for node in item.nodes)


def shown(rooflines: Mapping[str, Roofline]) -> str:
    """What scenarios take, and how many million steps of a row per second a GPU could play at most, as a table."""
    rows = [
        [
            name,
            *(f"{x:,}" for x in (one.step.bytes, one.rollout.bytes, one.rollout.operations)),
            *(f"{one.rollout.rate(gpu) / 1e6:,.0f} ({one.rollout.bound(gpu)})" for gpu in GPUS),
        ]
        for name, one in rooflines.items()
    ]
    head = ["scenario", "bytes: a step", "in a rollout", "operations", *(f"{gpu}, at most M/s" for gpu in GPUS)]
    return table(rows, head, right=range(1, len(head)))


__all__ = ["GPUS", "Roofline", "Work", "roofline_of", "shown", "source_of"]
