"""Rules that somebody writes are tried when an env is made of them, and what they got wrong is said."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from torch import Size, Tensor

import marlenv
from marlenv import games
from marlenv.errors import DtypeError, MarlenvError, ShapeError, SpecError, SpecTypeError
from marlenv.games import Chess, ConnectFour, GameEnv, Rules, TicTacToe
from marlenv.games.env import turn_based
from marlenv.games.env.trial import check_rules
from marlenv.rng import RowRNG


class Table(NamedTuple):
    left: Tensor  # [*B] int64: matches on the table
    turn: Tensor  # [*B] int64
    rng: Tensor  # [*B, 2] int64


@dataclass(frozen=True)
class Nim(Rules[Table]):
    """Two players take one to three matches in turn, of six to nine; who takes the last one wins."""

    players = ("first", "second")
    n_actions = 3
    observation_shape = (4,)
    longest = 9

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> Table:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        left = rng.randint(6, 10)
        return Table(left, torch.zeros_like(left), rng.state)

    def player(self, state: Table) -> Tensor:
        return state.turn

    def legal(self, state: Table) -> Tensor:
        return torch.arange(1, 4) <= state.left.unsqueeze(-1)

    def play(self, state: Table, action: Tensor) -> Table:
        going = ~self.over(state)
        left = torch.where(going, state.left - action - 1, state.left)
        return Table(left, torch.where(going, 1 - state.turn, state.turn), state.rng)

    def over(self, state: Table) -> Tensor:
        return state.left <= 0

    def returns(self, state: Table) -> Tensor:
        first = torch.where(self.over(state), 2.0 * state.turn - 1, 0.0)
        return torch.stack((first, -first), -1)

    def observe(self, state: Table) -> Tensor:
        seen = torch.nn.functional.one_hot(state.left % 4, 4) > 0
        return seen.unsqueeze(-2).expand(*state.left.shape, 2, 4)


@dataclass(frozen=True)
class Pairs(Nim):
    """Both take one to three matches at once, and are paid for them."""

    simultaneous: ClassVar[bool] = True

    @property
    def zero_sum(self) -> bool:
        return False

    def legal(self, state: Table) -> Tensor:
        return super().legal(state).unsqueeze(-2).expand(*state.left.shape, 2, 3)

    def play(self, state: Table, action: Tensor) -> Table:
        left = torch.where(self.over(state), state.left, state.left - action.sum(-1) - 2)
        return Table(left, state.turn, state.rng)

    def returns(self, state: Table) -> Tensor:
        return -state.left.float().unsqueeze(-1).expand(*state.left.shape, 2)


def full(shape: tuple[int, ...], value: Any, dtype: torch.dtype) -> Any:
    """A method that answers the same about every game."""
    return lambda rules, state, *_: torch.full((*state.left.shape, *shape), value, dtype=dtype)


def started(**parts: Any) -> Any:
    """A method ``start`` that makes something else of some parts of a position."""

    def start(rules: Nim, rows: Size, *, rng: RowRNG, device: Any = None) -> Table:
        state = Nim.start(Nim(), rows, rng=rng)
        return state._replace(**{name: change(getattr(state, name)) for name, change in parts.items()})

    return start


def moved(change: Any) -> Any:
    """A method ``play`` that gives something else than positions."""
    return lambda rules, state, action: change(Nim.play(Nim(), state, action))


def paid(*shares: float, until: int = 0) -> Any:
    """Returns where so many matches are left."""
    return lambda rules, state: torch.where((state.left <= until).unsqueeze(-1), torch.tensor(shares), 0.0)


FAULTS: dict[str, tuple[type[Nim], dict[str, Any], type[MarlenvError], str]] = {
    "too few actions": (
        Nim, {"n_actions": 4}, ShapeError, "legal: expected bool [11, 4] (rows, n_actions), got bool [11, 3]"
    ),
    "legal of whole numbers": (
        Nim, {"legal": full((3,), 1, torch.int64)}, DtypeError,
        "legal: expected bool [11, 3] (rows, n_actions), got int64 [11, 3]",
    ),
    "legal of one at once": (
        Pairs, {"legal": full((3,), True, torch.bool)}, ShapeError,
        "legal: expected bool [11, 2, 3] (rows, players, n_actions), got bool [11, 3]",
    ),
    "nothing legal": (
        Nim, {"legal": full((3,), False, torch.bool)}, SpecError,
        "legal: expected a legal action of the player to move until the game is over, got none in row 0; a player",
    ),
    "observed by one": (
        Nim, {"observe": full((4,), 0.0, torch.float32)}, ShapeError,
        "observe: expected a tensor [11, 2, 4] (rows, players, *observation_shape), got float32 [11, 4]",
    ),
    "a number as shape": (
        Nim, {"observation_shape": 4}, SpecTypeError, "observation_shape: expected a tuple of ints, got 4"
    ),
    "no actions": (Nim, {"n_actions": 0}, SpecError, "n_actions must be an integer from 1 on, got 0"),
    "returns of one": (
        Nim, {"returns": full((1,), 0.0, torch.float32)}, ShapeError,
        "returns: expected float32 [11, 2] (rows, players), got float32 [11, 1]",
    ),
    "returns of whole numbers": (
        Nim, {"returns": full((2,), 0, torch.int64)}, DtypeError,
        "returns: expected float32 [11, 2] (rows, players), got int64 [11, 2]",
    ),
    "long returns at the end": (
        Nim, {"returns": full((2,), 0, torch.float64), "pays_at_end": True}, DtypeError,
        "returns: expected float32 [11, 2] (rows, players), got float64 [11, 2]",
    ),
    "returns that are no zero sum": (
        Pairs, {"zero_sum": True}, SpecError,
        "returns: expected returns that add up to zero, as zero_sum is True, got [-7.0, -7.0]; say zero_sum = False",
    ),
    "over in a column": (
        Nim, {"over": full((1,), False, torch.bool)}, ShapeError, "over: expected bool [11] (rows), got bool [11, 1]"
    ),
    "over of whole numbers": (
        Nim, {"over": full((), 0, torch.int64)}, DtypeError, "over: expected bool [11] (rows), got int64 [11]"
    ),
    "over that forgets to return": (
        Nim, {"over": lambda *_: None}, SpecTypeError, "over: expected bool [11] (rows), got None"
    ),
    "over of an array": (
        Nim, {"over": lambda _, state: (state.left <= 0).numpy()}, SpecTypeError,
        "over: expected bool [11] (rows), got a ndarray",
    ),
    "no players": (Nim, {"players": ()}, SpecError, "players: expected a text or more, got ()"),
    "a text for players": (Nim, {"players": "first"}, SpecTypeError, "players: expected a tuple of texts, got 'first'"),
    "numbers for players": (Nim, {"players": (0, 1)}, SpecTypeError, "players: expected a tuple of texts, got (0, 1)"),
    "a number for outcomes": (Nim, {"outcomes": 3}, SpecTypeError, "outcomes: expected a tuple of texts, got 3"),
    "long outcome": (
        Nim, {"outcome": full((), 0, torch.int64)}, DtypeError, "outcome: expected int8 [11] (rows), got int64 [11]"
    ),
    "an outcome without a word": (
        Nim, {"outcome": full((), 2, torch.int8)}, SpecError, "outcome: expected an index of outcomes, 0 to 1, got 2"
    ),
    "short player": (
        Nim, {"player": full((), 0, torch.int32)}, DtypeError, "player: expected int64 [11] (rows), got int32 [11]"
    ),
    "a third player": (
        Nim, {"player": full((), 2, torch.int64)}, SpecError, "player: expected an index of players, 0 to 1, got 2"
    ),
    "a start of one game": (
        Nim, {"start": started(left=lambda left: left[0])}, ShapeError,
        "start: 'left' must be [11, ...] (rows, ...), got []; begin shapes with batch_size",
    ),
    "a start of a list": (
        Nim, {"start": started(left=lambda left: left.tolist())}, SpecTypeError,
        "start: 'left' must be a tensor [11, ...] (rows, ...), got a list",
    ),
    "a start of a tuple": (
        Nim, {"start": lambda rules, rows, **_: (torch.zeros(rows),)}, SpecTypeError,
        "start: expected a NamedTuple of tensors, got a tuple",
    ),
    "half a stream": (
        Nim, {"start": started(rng=lambda rng: rng[:, 0])}, ShapeError,
        "start: 'rng': expected int64 [11, 2] (rows, 2; what RowRNG.state gives), got int64 [11]",
    ),
    "a move to nowhere": (
        Nim, {"play": moved(lambda after: None)}, SpecTypeError, "play: expected a Table, as start gives, got None"
    ),
    "a move to a tuple": (
        Nim, {"play": moved(tuple)}, SpecTypeError, "play: expected a Table, as start gives, got a tuple"
    ),
    "a move to another dtype": (
        Nim, {"play": moved(lambda after: after._replace(left=after.left.float()))}, DtypeError,
        "play: 'left': expected int64 [11] (as start gives it), got float32 [11]",
    ),
    "a move of one game": (
        Nim, {"play": moved(lambda after: after._replace(turn=after.turn[0]))}, ShapeError,
        "play: 'turn': expected int64 [11] (as start gives it), got int64 []",
    ),
    "seen otherwise after a move": (
        Nim, {"observe": lambda _, state: Nim().observe(state) * (1.0 if state.turn.any() else True)}, DtypeError,
        "observe: expected bool [11, 2, 4] (rows, players, *observation_shape), got float32 [11, 2, 4]",
    ),
    "a debt at the end only": (
        Nim, {"returns": paid(1.0, 1.0)}, SpecError,
        "returns: expected returns that add up to zero, as zero_sum is True, got [1.0, 1.0]; say zero_sum = False",
    ),
    "pay before the end": (
        Nim, {"pays_at_end": True, "returns": paid(1.0, -1.0, until=2)}, SpecError,
        "returns: expected zeros until the game is over, as pays_at_end is True, got [1.0, -1.0]; say pays_at_end",
    ),
    "an end without a word": (
        Nim, {"outcome": lambda rules, state: rules.over(state).to(torch.int8) * 7}, SpecError,
        "outcome: expected an index of outcomes, 0 to 1, got 7",
    ),
    "an outcome of a game that goes on": (
        Nim, {"outcome": lambda rules, state: (state.left < 4).to(torch.int8)}, SpecError,
        "outcome: expected 0 until the game is over, got 1",
    ),
    "a finished game that moves": (
        Nim, {"play": lambda _, state, action: Table(state.left - action - 1, 1 - state.turn, state.rng)}, SpecError,
        "play: expected a finished game to stay as it is, got another 'left' in row ",
    ),
    "a move in place": (
        Nim, {"play": lambda _, state, action: Nim.play(Nim(), state._replace(left=state.left.sub_(1)), action)},
        SpecError, "play: wrote to 'left' of the position it was given; make new tensors",
    ),
    "three in turn": (
        Nim, {"players": ("a", "b", "c"), "alternating": True}, SpecError,
        "alternating: True is for two players who move in turn, got 3 in turn; say alternating = False",
    ),
    "two moves in turn": (
        Nim, {"player": lambda _, state: (state.left < 5).long(), "alternating": True}, SpecError,
        "player: expected the other player after every move, as alternating is True, got the same in row ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_rules_with_a_fault_are_refused_by_the_name_of_the_method(fault: str) -> None:
    base, members, error, text = FAULTS[fault]
    with pytest.raises(error) as refused:
        GameEnv(type("Mine", (base,), members)())
    assert type(refused.value) is error
    name = "Mine: " if text.startswith("n_actions") else "Mine."
    assert str(refused.value).startswith(name + text)


def test_an_error_of_the_rules_themselves_says_that_they_are_tried() -> None:
    def stop(*_: Any) -> None:
        raise IndexError("out of matches")

    with pytest.raises(IndexError, match="out of matches") as raised:
        GameEnv(type("Mine", (Nim,), {"legal": stop})())
    assert raised.value.__notes__ == ["in a trial of Mine with 11 games, at the start"]


@pytest.mark.parametrize(
    ("fault", "when"), [("a move to a tuple", "in the first move"), ("pay before the end", r"in move 2")]
)
def test_an_error_in_a_move_says_so(fault: str, when: str) -> None:
    kind, members, error, _ = FAULTS[fault]
    with pytest.raises(error) as raised:
        check_rules(type("Mine", (kind,), members)())
    assert raised.value.__notes__ == [f"in a trial of Mine with 11 games, {when}"]


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64, torch.uint8, torch.int64])
@pytest.mark.parametrize("kind", [Nim, Pairs])
def test_rules_without_a_fault_are_taken_and_observed_in_any_dtype(kind: type[Nim], dtype: torch.dtype) -> None:
    observe = kind.observe
    rules = type("Mine", (kind,), {"observe": lambda rules, state: observe(rules, state).to(dtype)})()
    env = GameEnv(rules, batch_size=[3], observation_dtype=torch.bool, seed=0)
    marlenv.check_env_specs(env)
    assert env.rollout(2)["first", "observation"].dtype == dtype


SHIPPED = [kind for kind in vars(games).values() if inspect.isclass(kind) and issubclass(kind, Rules) and kind != Rules]


@pytest.mark.parametrize("kind", SHIPPED, ids=lambda kind: kind.__name__)
def test_the_rules_that_marlenv_brings_have_no_fault(kind: type[Rules[Any]]) -> None:
    check_rules(Chess(path="torch") if kind is Chess else kind())


def test_rules_that_marlenv_brings_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Rules[Any]] = []
    monkeypatch.setattr(turn_based, "check_rules", tried.append)
    mine = [Nim(), type("Mine", (TicTacToe,), {})()]
    for rules in (TicTacToe(), ConnectFour(), *mine):
        GameEnv(rules)
    assert tried == mine


def test_a_trial_reads_and_moves_no_global_generator() -> None:
    before = torch.get_rng_state()
    torch.manual_seed(7)
    check_rules(Pairs())
    assert torch.equal(torch.get_rng_state(), torch.manual_seed(7).get_state())
    torch.set_rng_state(before)
