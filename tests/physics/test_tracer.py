"""What the tracer promises: the same source whatever is around it, bounds that hold, arguments that nobody drops."""

import functools
import random
import threading
import time
from copy import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from marlenv.scenarios.mpe.simple_spread import SimpleSpread

from marlenv.physics import Simulation
from marlenv.physics.jit import tracer
from marlenv.physics.jit.graph import FOLDED, ROWS, Graph, Untraceable, rounded
from marlenv.physics.jit.repeatable import elsewhere, listening
from marlenv.physics.jit.source import Source


def data(*shape, dtype=torch.float32):
    return tracer.traced(Graph(), (1, *shape), dtype, 0)


def test_an_argument_that_a_handler_does_not_declare_must_have_its_default(monkeypatch):
    monkeypatch.setitem(tracer.TAKES, "sort", tracer.TAKES["sort"] - {"descending"})
    monkeypatch.setitem(tracer.HANDLERS, "sort", lambda call, self, dim, stable=None: [call.cells(self)] * 2)
    data(3).sort(1)
    with pytest.raises(Untraceable, match=r"calls aten\.sort with descending=True, which is not known here"):
        data(3).sort(1, descending=True)


def test_an_error_of_a_handler_names_the_operation(monkeypatch):
    monkeypatch.setitem(tracer.HANDLERS, "sin", lambda call, self: 1 // 0)
    with pytest.raises(Untraceable, match=r"uses aten\.sin in a way that is not known here \(ZeroDivisionError"):
        data(3).sin()


def test_a_handler_that_gives_another_shape_is_found(monkeypatch):
    monkeypatch.setitem(tracer.HANDLERS, "sin", lambda call, self: call.cells(self)[:, :2])
    with pytest.raises(Untraceable, match=r"uses sin in a way that is not known here \(shape \[4099, 3\]\)"):
        data(3).sin()


def test_an_error_of_the_scenario_becomes_one_that_names_it():
    sim = Simulation(SimpleSpread())
    vars(sim.scenario)["observe"] = lambda: {"agents": missing}  # noqa: F821
    with pytest.raises(Untraceable, match="cannot be traced: NameError: name 'missing' is not defined"):
        Source(sim)


@pytest.mark.slow
@pytest.mark.parametrize("around", ["inference", "float64", "grad", "thread"])
def test_the_source_does_not_depend_on_what_is_around_it(around):
    usual, made = Source(Simulation(SimpleSpread())).text, []

    def make():
        sim = Simulation(SimpleSpread())
        if around == "inference":
            with torch.inference_mode():
                made.append(Source(sim).text)
        elif around == "float64":
            torch.set_default_dtype(torch.float64)
            try:
                made.append(Source(sim).text)
            finally:
                torch.set_default_dtype(torch.float32)
        else:
            with torch.enable_grad():
                made.append(Source(sim).text)

    if around == "thread":
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    else:
        make()
    assert made == [usual]


def test_global_generators_clocks_and_dtypes_are_left_as_they_were():
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate(), torch.get_default_dtype()
    clocks = [time.time, time.perf_counter, time.monotonic]
    Source(Simulation(SimpleSpread()))
    after = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate(), torch.get_default_dtype()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
    assert clocks == [time.time, time.perf_counter, time.monotonic]


class Tossing(SimpleSpread):
    """Tosses a coin, which may be a global generator's."""

    coin = staticmethod(lambda: 0.0)

    def shared_info(self):
        return {"coin": self.zeros() + float(self.coin() < 0.5)}


OTHERS = {
    "random": (random.seed, lambda: random.uniform(0, 1), lambda: random.Random(5).random),
    "numpy.random": (np.random.seed, lambda: np.random.rand(1)[0], lambda: np.random.RandomState(5).rand),
    "torch": (
        torch.manual_seed,
        lambda: torch.rand(()).item(),
        lambda: functools.partial(drawn_from, torch.Generator().manual_seed(5)),
    ),
}


def drawn_from(generator):
    return torch.rand((), generator=generator).item()


@pytest.mark.parametrize("coin", [None, *OTHERS])
@pytest.mark.parametrize("name", OTHERS)
def test_another_thread_draws_what_it_would_draw_and_is_not_taken_for_the_scenario(name, coin):
    """While a scenario is traced, and refused where it draws itself: not where somebody else does."""
    (seed, draw, fresh), found, stop = OTHERS[name], [], threading.Event()
    kind = type("Own", (Tossing,), {} if coin is None else {"coin": staticmethod(OTHERS[coin][1])})
    sim = Simulation(kind())
    seed(5)

    def draws():
        while not stop.is_set():
            found.append(draw())
            time.sleep(0.001)

    thread = threading.Thread(target=draws)
    thread.start()
    try:
        if coin is None:
            Source(sim)
        else:
            with pytest.raises(Untraceable, match=f"draws from a global generator .{coin}."):
                Source(sim)
    finally:
        stop.set()
        thread.join()
    alone = fresh()
    assert len(found) > 3
    if coin != name:  # else both take of one row of numbers
        assert found == [alone() for _ in found]


def test_a_trace_that_is_listened_to_is_the_same():
    source = Source(Simulation(SimpleSpread()))
    plain = copy(source)._trace(ROWS[0], 1, only=True)
    with listening() as heard:
        assert copy(source)._trace(ROWS[0], 1, only=True) == plain
    assert heard == []


def test_a_generator_of_its_own_is_no_global_one():
    """What it gives is the same each time: a constant."""

    class Own(SimpleSpread):
        def shared_info(self):
            return {"x": self.zeros() + torch.rand((), generator=torch.Generator().manual_seed(5))}

    with listening() as heard:
        Source(Simulation(Own()))
    assert heard == []


def test_another_thread_sees_the_clock_as_it_is():
    seen = []
    with elsewhere(7):
        thread = threading.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        seen.append(time.time())
    assert seen[1] - seen[0] > 1e5
    assert abs(time.time() - seen[0]) < 60


INTEGERS = (
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "mod",
    "floordiv",
    "truncdiv",
    "neg",
    "abs",
    "select",
)
NUMBERS = (
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "neg",
    "abs",
    "div",
    "sqrt",
    "exp",
    "sin",
    "floor",
    "round",
    "trunc",
    "tanh",
    "mod",
    "select",
)
ONE = ("neg", "abs", "sqrt", "exp", "sin", "floor", "round", "trunc", "tanh")


def law_of_bounds(kind, ops, numbers, steps):
    """Builds expressions of inputs and follows their values; every value must be where the expression says."""
    graph, single = Graph(), np.float32 if kind == "f" else int
    nodes = [graph.input(i, kind, sound=True) for i in range(3)]
    values = [single(x) for x in numbers[:3]]
    for i in range(3):  # between -9 and 9, and one from 1 to 9
        low = 1 if i == 2 else -9
        nodes.append(
            graph.make("min", kind, graph.make("max", kind, nodes[i], graph.const(low, kind)), graph.const(9, kind))
        )
        values.append(min(max(values[i], single(low)), single(9)))
    for op, a, b, c in steps:
        op, args = ops[op % len(ops)], [k % len(nodes) for k in (a, b, c)]
        args = args[: 1 if op in ONE else 3 if op == "select" else 2]
        if op in ("mod", "floordiv", "truncdiv") and nodes[args[1]].low <= 0 <= nodes[args[1]].high:
            args[1] = 5
        picked = [nodes[k] for k in args]
        given = [values[k] for k in args]
        if op == "select":
            picked[0], given[0] = graph.make("gt", "b", picked[0], graph.const(0, kind)), bool(given[0] > 0)
        node = graph.make(op, kind, *picked)
        with np.errstate(all="ignore"):
            value = single(rounded(FOLDED[op](*given), kind)) if op != "min" or kind == "f" else min(given)
        if kind == "l" or (node.sound and abs(value) < 1e18):
            assert np.isfinite(value)
        if not np.isnan(value) and all(np.isfinite(x) for x in given):
            assert node.low <= value <= node.high, (op, picked, given, value)
        nodes.append(node)
        values.append(value)


STEPS = st.lists(st.tuples(*[st.integers(0, 999)] * 4), max_size=12)


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20), min_size=3, max_size=3), STEPS)
def test_integers_lie_within_their_bounds(numbers, steps):
    law_of_bounds("l", INTEGERS, numbers, steps)


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), STEPS)
def test_numbers_lie_within_their_bounds(numbers, steps):
    law_of_bounds("f", NUMBERS, numbers, steps)


def test_what_is_no_number_makes_no_bound_wrong():
    graph = Graph()
    x = graph.input(0, "f")
    assert graph.make("mul", "f", x, graph.const(0.0, "f")).op == "mul"  # 0 * inf is not 0
    below = graph.make("lt", "b", graph.make("sqrt", "f", x), graph.const(2.0, "f"))
    assert below.args[0].op == "sqrt"  # the root of -1 is not below 2
    assert graph.cast(graph.make("max", "f", x, graph.const(0.0, "f")), "l").low == -(2**63)  # as of NaN
