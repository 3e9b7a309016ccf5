"""Loops on expressions: the body is traced once, whatever the number of rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.physics.jit.graph import Graph, Node
from marlenv.physics.jit.tracer import Traced, cells_of, squeezed


def repeat(
    graph: Graph,
    count: int,
    body: Callable[[Any, tuple[Tensor, ...]], tuple[Tensor, ...]],
    carry: tuple[Tensor, ...],
    stop: bool,
) -> tuple[Tensor, ...]:
    """:func:`marlenv.physics.maths.rowwise.repeat` on expressions: the body is run once, whatever ``count`` is."""
    like = [(x.shape, x.dtype) for x in carry]
    start = [np.broadcast_to(cells_of(graph, x), squeezed(graph, x.shape)) for x in carry]
    fixed: set[int] = set()
    while True:  # until what the body does not change is known
        flat = [node for cells in start for node in cells.reshape(-1).tolist()]
        loop = graph.begin(count, flat)
        now = [node if k in fixed else loop.phis[k] for k, node in enumerate(flat)]
        index = Traced(np.array(loop.index, dtype=object), (), torch.int64, graph)
        made = body(index, _shaped(graph, now, like))
        loop.nexts = [
            node
            for x, cells in zip(made, start, strict=True)
            for node in np.broadcast_to(cells_of(graph, x), cells.shape).reshape(-1).tolist()
        ]
        same = {k for k, node in enumerate(loop.nexts) if node is loop.phis[k] or (k in fixed and node is flat[k])}
        if same == fixed:
            break
        fixed = same
    loop.nexts = [loop.phis[k] if k in fixed else node for k, node in enumerate(loop.nexts)]
    if stop:
        loop.stop = loop.nexts[-1]
    return _shaped(graph, [graph.result(loop, k) for k in range(len(flat))], like)


def _shaped(graph: Graph, nodes: Sequence[Node], like: Sequence[tuple[Size, torch.dtype]]) -> tuple[Tensor, ...]:
    out, at = [], 0
    for shape, dtype in like:
        sizes = squeezed(graph, shape)
        cells = np.empty(math.prod(sizes), dtype=object)
        cells[:] = nodes[at : at + len(cells)]
        at += len(cells)
        out.append(Traced(cells.reshape(sizes), shape, dtype, graph))
    return tuple(out)
