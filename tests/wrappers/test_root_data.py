"""What is observed of a whole simulation stands at the root: all of it in every step, and only what its specs hold."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from test_pettingzoo_side_by_side import Quiet
from test_wrapper_authors import Mine

from marlenv import Bounded, Composite, PettingZooWrapper, Unbounded
from marlenv.errors import DtypeError, KeyMissing, ShapeError, SpecError, SpecTypeError

BOARD = np.arange(6.0).reshape(2, 3)
STEP = r"^Rooted\.step \(number 1 of the episode\): "


class Rooted(Mine):
    """Observes a board, a number, a byte and something nested; from the first step on, what it is told."""

    told: Any = None

    def root_specs(self) -> Composite:
        inner = Composite(x=Unbounded((1,)), n=Unbounded((), dtype=torch.int64))
        byte = Bounded(0, 255, (2,), dtype=torch.uint8)
        return Composite(board=Unbounded((2, 3)), n=Unbounded((), dtype=torch.int64), byte=byte, inner=inner)

    def root_data(self) -> Any:
        plain = {"board": BOARD, "n": 3, "byte": np.zeros(2, np.uint8), "inner": {"x": [1.0], "n": 2}}
        if not self._env.count or self.told is None:
            return plain
        return {**plain, **self.told} if isinstance(self.told, dict) else self.told(plain)


def told(what: Any) -> Any:
    return type("Rooted", (Rooted,), {"told": staticmethod(what) if callable(what) else what})()


@pytest.mark.parametrize(
    ("what", "error", "says"),
    [
        ({"n": 4.7}, DtypeError, r"'n': expected whole numbers for torch\.int64, got \[4\.7\]"),
        ({"n": float("nan")}, DtypeError, r"'n': expected whole numbers for torch\.int64, got \[nan\]"),
        ({"n": "3"}, DtypeError, r"'n': expected numbers, got array\('3'"),
        ({"n": None}, DtypeError, r"'n': expected numbers, got array\(None"),
        ({"n": 2**70}, DtypeError, r"'n': expected numbers in .* which int64 holds"),
        ({"byte": np.array([300, 1])}, DtypeError, r"'byte': expected numbers in 0\.\.255, .* got 1\.\.300"),
        ({"board": BOARD.T}, ShapeError, r"'board' must have shape \[2, 3\], as in root_specs, got \[3, 2\]"),
        ({"board": np.zeros((4, 2, 3))}, ShapeError, r"'board' must have shape \[2, 3\], .* got \[4, 2, 3\]"),
        ({"board": np.zeros(6)}, ShapeError, r"'board' must have shape \[2, 3\], as in root_specs, got \[6\]"),
        ({"board": BOARD * 1j}, DtypeError, r"'board': expected numbers, got array\("),
        ({"board": torch.zeros(2, 3) * 1j}, DtypeError, r"'board': expected numbers, got tensor\("),
        ({"board": BOARD.astype(str)}, DtypeError, r"'board': expected numbers, got array\("),
        ({"board": [[1.0], [1.0, 2.0]]}, DtypeError, "'board': expected numbers"),
        ({"inner": {"x": [1.0]}}, KeyMissing, r"root_data has no \('inner', 'n'\), which root_specs declares"),
        ({"inner": {"x": [1.0], "n": 0.5}}, DtypeError, r"\('inner', 'n'\): expected whole numbers"),
        ({"inner": 3}, SpecTypeError, r"'inner' of root_data must be a dict of \['n', 'x'\], got int 3"),
        ({"boards": 3}, SpecError, r"root_data has 'boards', which root_specs does not declare; did you mean 'board'"),
        (lambda plain: plain.pop("n") and plain, KeyMissing, "root_data has no 'n', which root_specs declares"),
        (lambda plain: None, SpecTypeError, r"root_data must be a dict of \['board', .*\], got None"),
        (lambda plain: [1], SpecTypeError, r"root_data must be a dict of \['board', .*\], got list \[1\]"),
    ],
)
def test_what_the_specs_do_not_hold_is_an_error(what: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=STEP + says):
        told(what).rollout(2)


@pytest.mark.parametrize(
    ("what", "key", "numbers"),
    [
        ({"n": 4}, "n", 4),
        ({"n": np.float32(4)}, "n", 4),
        ({"n": torch.tensor([4])}, "n", 4),
        ({"board": BOARD.tolist()}, "board", BOARD.tolist()),
        ({"board": torch.tensor(BOARD, requires_grad=True)}, "board", BOARD.tolist()),
        ({"board": [[Fraction(1, 2)] * 3] * 2}, "board", [[0.5] * 3] * 2),
        ({"byte": [255.0, 0.0]}, "byte", [255, 0]),
        ({"inner": {"x": 7, "n": [5]}}, ("inner", "x"), [7.0]),
        ({"inner": {"x": 7, "n": [5]}}, ("inner", "n"), 5),
    ],
)
def test_numbers_may_come_in_other_forms(what: Any, key: Any, numbers: Any) -> None:
    env = told(what)
    then = env.rollout(2)["next"]
    assert then[key].tolist() == [numbers] * 2
    assert then[key].dtype == env.observation_spec[key].dtype
    assert not then[key].requires_grad


def test_values_are_copied() -> None:
    board = np.zeros((2, 3), np.float32)

    def counted(plain: Mapping[str, Any]) -> Any:
        board[:] += 1
        return {**plain, "board": board, "inner": {"x": board[0, :1], "n": 0}}

    then = told(counted).rollout(3)["next"]
    assert then["board"][:, 0, 0].tolist() == then["inner", "x"].flatten().tolist() == [1, 2, 3]


def zoo(first: Any, then: Any) -> PettingZooWrapper:
    sim = Quiet()
    sim.state = lambda: then if getattr(sim, "t", 0) else first
    return PettingZooWrapper(sim, return_state=True)


@pytest.mark.parametrize(
    ("then", "error", "says"),
    [
        (np.array([0.5, 1.5]), DtypeError, r"'state': expected whole numbers for torch\.int64, got \[0\.5, 1\.5\]"),
        (np.zeros(3, np.int64), ShapeError, r"'state' must have shape \[2\], as in root_specs, got \[3\]"),
        (np.array([[1], [2]]), ShapeError, r"'state' must have shape \[2\], as in root_specs, got \[2, 1\]"),
    ],
)
def test_a_state_of_pettingzoo_that_changes_its_form_is_an_error(then: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=rf"^PettingZooWrapper\.step \(number 1 of the episode\): {says}"):
        zoo(np.zeros(2, np.int64), then).rollout(2)


@pytest.mark.parametrize(
    ("dtype", "ours"),
    [(">f4", torch.float32), (">i8", torch.int64), ("uint16", torch.int32), (np.longdouble, torch.float64)],
)
def test_a_state_of_pettingzoo_may_be_of_any_kind_of_number(dtype: Any, ours: torch.dtype) -> None:
    data = zoo(np.array([1, 2], dtype), np.array([3, 4], dtype)).rollout(2)
    assert data["state"].tolist() == [[1, 2], [3, 4]]
    assert data["state"].dtype == ours


@pytest.mark.parametrize("state", [None, {"a": 1}, ["x"], np.zeros(2) * 1j], ids=str)
def test_a_state_of_pettingzoo_that_is_no_array_of_numbers_is_an_error(state: Any) -> None:
    says = r"^PettingZooWrapper: with return_state, Quiet\.state must return numbers of one shape, got"
    with pytest.raises(SpecTypeError, match=says):
        zoo(state, state)
