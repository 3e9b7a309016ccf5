"""What ``marlenv bench --device cuda`` captures, on CPUs: steps in place are the rules', and false graphs are found."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from torch import Size, Tensor

from marlenv.cli.benches import cuda, games
from marlenv.cli.benches.graphs import Transitions
from marlenv.games.chess import Chess
from marlenv.physics.jit import cache
from marlenv.rng import RowRNG


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")  # PyTorch's compiler imports it
@pytest.mark.parametrize(
    ("name", "tier"),
    [
        *((entry.name, "none") for entry in SCENARIOS),
        pytest.param(
            "simple_spread",
            "compile",
            marks=[pytest.mark.full, pytest.mark.skipif(not cache.compiler(), reason="needs a compiler")],
        ),
    ],
    ids=str,
)
def test_transitions_in_place_are_transitions(name: str, tier: str) -> None:
    ours = Transitions(name, 9, "cpu", tier)
    state = {key: x.clone() for key, x in ours.state.items()}
    for _ in range(5):
        with torch.no_grad():
            state, *given = ours.engine.transition(state, ours.actions)
        ours.step()
        assert all(torch.equal(x, state[key]) for key, x in ours.state.items())
        leaves = torch.utils._pytree.tree_leaves(given)
        assert all(torch.equal(a, b) for a, b in zip(leaves, ours.results(), strict=True))


def test_plies_in_place_are_plies(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[Tensor] = []

    def capture(step: Callable[[], None], state: list[Tensor]) -> Any:
        held.extend(state)
        return SimpleNamespace(replay=step)

    monkeypatch.setattr(games, "captured", capture)
    assert games.graphed(7, "cpu")() == 8 * 7
    rules, rng = Chess(path="torch"), RowRNG(0, [7])
    state = rules.start(Size([7]))
    for _ in range(8):
        _, state = rules.step(state, rules.draw(state, rng))
    assert all(torch.equal(a, b) for a, b in zip(held, [*state, rng.counter], strict=True))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in for what CUDA graphs are captured with; its ``replay`` is what graphs do."""
    made = SimpleNamespace(replay=lambda: None)
    stand_ins = {
        "Stream": lambda: SimpleNamespace(wait_stream=lambda _: None),
        "current_stream": lambda: SimpleNamespace(wait_stream=lambda _: None),
        "stream": nullcontext,
        "graph": nullcontext,
        "CUDAGraph": lambda: SimpleNamespace(replay=made.replay),
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda _: None,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return made


@pytest.mark.parametrize("off", [0.0, 0.1])
def test_a_graph_that_does_something_else_is_found(off: float, gpu: SimpleNamespace) -> None:
    x = torch.zeros(3)

    def step() -> None:
        x.add_(1)

    gpu.replay = lambda: x.add_(1 + off)
    if not off:
        cuda.captured(step, [x])
        assert x.tolist() == [4.0, 4.0, 4.0]
    else:
        with pytest.raises(AssertionError, match="not close"):
            cuda.captured(step, [x])


def test_what_a_graph_writes_to_lives_as_long(gpu: SimpleNamespace) -> None:
    def made() -> tuple[cuda.Captured, Any]:
        x = torch.zeros(3)
        return cuda.captured(lambda: None, [x]), weakref.ref(x)

    graph, place = made()
    gc.collect()
    assert place() is not None  # a graph knows the address, and writes there whatever is there by then
    graph.replay()


def test_gpus_play_65536_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from marlenv.cli.benches import graphs, physics

    asked: list[Any] = []
    monkeypatch.setattr(graphs, "measure_graphs", lambda *given: asked.append(given) or [])
    physics.measure(3, device="cuda", only="65536,balance")
    physics.measure(3, device="cuda", only="balance,kernels")
    every = ["kernels", "graphs", "compiled"]
    assert asked == [
        (["balance"], [65536], 3, "cuda", every),
        (["balance"], [1, 32, 1024, 16384, 65536], 3, "cuda", ["kernels"]),
    ]
