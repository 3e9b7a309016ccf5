"""Python calls of the env layer: never more than are stored, and far fewer than torchrl's.

``python -m marlenv.testing.counting tests/bench/calls.json`` rewrites the numbers after a change that lowers them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twin_envs import load

from marlenv.testing.counting import CASES, CheapEnv, by_package, count_calls, operations

STORED = json.loads((Path(__file__).parent / "calls.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_no_operation_takes_more_calls_than_stored(name):
    for what, run in operations(CASES[name]()).items():
        calls = count_calls(run)
        assert calls.total() <= STORED[name][what], (what, calls.most_common(10))


def test_every_case_is_stored():
    assert {name: set(what) for name, what in STORED.items()} == {
        name: set(operations(make())) for name, make in CASES.items()
    }


def test_counting_is_deterministic():
    first, second = ({w: count_calls(run).total() for w, run in operations(CheapEnv()).items()} for _ in "ab")
    assert first == second


def test_calls_are_told_apart_by_module():
    calls = count_calls(lambda: CheapEnv([2]).rand_action())
    assert calls["marlenv.envs.random_actions"] > 3
    assert by_package(calls)["marlenv"] == sum(
        n for module, n in calls.items() if module.partition(".")[0] == "marlenv"
    )
    assert count_calls(lambda: None).total() == 1


def test_one_call_more_is_found():
    """The gate works."""

    class Slower(CheapEnv):
        def _step(self, tensordict):
            return super()._step(tensordict)

    more = count_calls(operations(Slower())["step"]).total()
    assert more == count_calls(operations(CheapEnv())["step"]).total() + 1


@pytest.mark.reference
@pytest.mark.parametrize(
    ("share", "what"), [(0.6, ["rand_action", "step_and_maybe_reset"]), (0.6, ["step"]), (0.7, ["reset"])]
)
def test_far_fewer_calls_than_torchrl(share, what):
    """On the same env, run in both libraries from one source text; the env's own calls included."""
    theirs, ours = (operations(load("cheap", library).Cheap()) for library in ("torchrl", "marlenv"))
    mine = sum(count_calls(ours[name]).total() for name in what)
    other = sum(count_calls(theirs[name]).total() for name in what)
    assert mine <= share * other, (mine, other)
