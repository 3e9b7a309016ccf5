"""Steps as CUDA graphs, shown to do what they did before, and the mode in which nothing may make the host wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE = 1e-5


class Captured(NamedTuple):
    """A CUDA graph with what it reads and writes, as it knows addresses only, and memory must not be given away."""

    graph: torch.cuda.CUDAGraph
    step: Callable[[], None]
    """What it does, and what that holds."""
    state: Sequence[Tensor]

    def replay(self) -> None:
        """Does it."""
        self.graph.replay()


def captured(
    step: Callable[[], None], state: Sequence[Tensor], results: Callable[[], Sequence[Tensor]] = list
) -> Captured:
    """A graph that does what ``step`` does, which moves ``state`` on in place and waits for nothing.

    Args:
        step: puts constants on the device when it first runs.
        state: what it reads and writes.
        results: what else the last step has given.

    Raises:
        RuntimeError: a step makes the host wait.
        AssertionError: the graph gives other numbers than a step.

    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        with without_waiting():
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    before = [x.clone() for x in state]
    graph.replay()
    replayed = [x.clone() for x in (*state, *results())]
    for x, old in zip(state, before, strict=True):
        x.copy_(old)
    step()
    torch.testing.assert_close([*state, *results()], replayed, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    return Captured(graph, step, state)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Whatever makes the host wait for the device raises."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def finished(play: Callable[[], int]) -> Callable[[], int]:
    """The same, and the device has done it."""

    def wait() -> int:
        steps = play()
        torch.cuda.synchronize()
        return steps

    return wait
