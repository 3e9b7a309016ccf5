"""Backgammon: OpenSpiel's games position by position, moves as people write them, dice, and hard cases of the rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from spiel_mirror import mirror
from torch import Size, Tensor

import marlenv
from marlenv.errors import BadNotation, SpecError
from marlenv.games.backgammon import Backgammon, State
from marlenv.games.rules import allowed, picked
from marlenv.rng import RowRNG
from marlenv.testing import run_contract

UNEQUAL = [(low, high) for low in range(1, 7) for high in range(low + 1, 7)]
PEER = {"win": "winloss_scoring", "gammon": "enable_gammons", "full": "full_scoring"}


def roll(ours: State, theirs: Any) -> int:
    high, low = ours.dice.tolist()
    return (
        29 + high if high == low else 2 * UNEQUAL.index((low, high)) + (int(ours.turn) if not theirs.history() else 0)
    )


def their_actions() -> np.ndarray:
    """They count points from one side for both players, and have the second checker first."""
    action = np.arange(1352)
    places = np.stack((action % 26, action // 26 % 26))
    turned = np.where(places < 24, 23 - places, places)
    return np.stack([action // 676 * 676 + 26 * second + first for second, first in (turned, places)])


def their_points(ours: Tensor) -> Tensor:
    """They show points from one side for both players, and not whether half of a double is played."""
    points = ours[..., :192].unflatten(-1, (2, 24, 4))
    turned = torch.stack((points[..., 0, :, :, :].flip(-2), points[..., 1, :, :, :]), -4)
    return torch.cat((turned.flatten(-3), ours[..., 192:200]), -1)


def play(scoring: str, hyper: bool, games: int, every: int, seed: int = 0) -> int:
    rules = Backgammon(scoring, hyper)  # type: ignore[arg-type]
    name = f"backgammon(scoring_type={PEER[scoring]},hyper_backgammon={hyper},max_player_turns=100000)"
    options = {
        "seen": their_points,
        "actions": their_actions(),
        "every": every,
        "last": False,
    }  # theirs has no dice at the end
    return mirror(
        rules, name, roll, games=games, seed=seed, paid=not hyper, **options
    )  # theirs pays nothing for three checkers


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(("scoring", "hyper", "games"), [("full", False, 12), ("gammon", False, 4), ("win", True, 50)])
def test_openspiel_plays_the_same_games(scoring: str, hyper: bool, games: int) -> None:
    assert play(scoring, hyper, games, every=4) > 300


@pytest.mark.slow
@pytest.mark.reference
def test_openspiel_plays_the_same_games_many_times(sized: Callable) -> None:
    for seed in range(sized(1, 10)):
        assert play("full", False, 1000, every=50, seed=seed) > 100_000
    assert play("full", True, 1000, every=50) > 20_000


def position(x: dict[int, int], o: dict[int, int], dice: tuple[int, int], turn: int = 0, **options: Any) -> State:
    """Checkers by point (25 the bar, 0 off), as each player counts."""
    board = torch.zeros(2, 26, dtype=torch.int8)
    for row, side in zip(board, (x, o), strict=True):
        for point, count in side.items():
            row[point - 1 if point else 25] = count
    start = Backgammon(**options).start(Size([]), rng=RowRNG(0))
    return start._replace(board=board, dice=torch.tensor(dice), turn=torch.tensor(turn))


@pytest.mark.parametrize(
    ("x", "o", "dice", "moves"),
    [
        pytest.param({25: 1, 6: 14}, {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 5}, (3, 1), ["pass"], id="shut out"),
        pytest.param(
            {25: 2, 6: 13}, {1: 2, 2: 2, 3: 2, 4: 2, 5: 7}, (6, 1), ["bar/19"], id="one enters, the other waits"
        ),
        pytest.param({3: 1, 0: 14}, {12: 15}, (6, 5), ["3/off"], id="a higher number bears off the last checker"),
        pytest.param({6: 1, 2: 1, 0: 13}, {12: 15}, (5, 3), ["6/1 2/off", "6/3 3/off"], id="from behind first"),
        pytest.param(
            {7: 1, 2: 1, 0: 13}, {12: 15}, (2, 1), ["7/5 2/1", "7/5 5/4", "2/1 7/5", "7/6 6/4", "7/6 2/off"], id="home"
        ),
    ],
)
def test_hard_cases_of_the_rules(x: dict[int, int], o: dict[int, int], dice: tuple[int, int], moves: list[str]) -> None:
    """https://bkgm.com/rules.html"""
    rules = Backgammon()
    legal = rules.legal_names(position(x, o, dice))
    assert sorted(legal) == sorted(moves)


def test_of_two_numbers_that_exclude_each_other_the_higher_must_be_played() -> None:
    rules = Backgammon()
    blocked = position(
        {20: 1, 0: 14}, {25 - 14: 2, 1: 13}, (5, 1)
    )  # after either, the other leads to the held point 14
    assert list(rules.legal_names(blocked)) == ["20/15"]


def test_a_hit_sends_the_blot_to_the_bar_and_moves_are_written_as_people_do() -> None:
    rules = Backgammon()
    state = position({8: 2, 6: 2, 0: 11}, {25 - 5: 1, 1: 14}, (3, 1))
    after = rules.play(state, torch.tensor(rules.read_action(state, "8/5* 6/5")))
    assert after.board[1, 24] == 1
    assert after.board[0, [4, 5, 7]].tolist() == [2, 1, 1]
    assert int(after.turn) == 1
    with pytest.raises(BadNotation, match="no legal move is called '8/5 6/5'; did you mean '8/5\\* 6/5'"):
        rules.read_action(state, "8/5 6/5")


@pytest.mark.parametrize(
    ("loser", "worth"),
    [({24: 14, 0: 1}, [1, 1, 1]), ({10: 15}, [1, 2, 2]), ({19: 1, 3: 14}, [1, 2, 3]), ({25: 1, 3: 14}, [1, 2, 3])],
)
def test_gammons_and_backgammons_count_where_they_are_asked_for(loser: dict[int, int], worth: list[int]) -> None:
    for scoring, points in zip(("win", "gammon", "full"), worth, strict=True):
        rules = Backgammon(scoring)  # type: ignore[arg-type]
        end = position({0: 15}, loser, (2, 1))
        assert rules.returns(end).tolist() == [points, -points]
        assert rules.outcomes[int(rules.outcome(end))] == ("win", "gammon", "backgammon")[worth[-1] - 1]


def test_rolls_are_fair_and_the_first_is_no_double() -> None:
    rules = Backgammon()
    state = rules.start(Size([7200]), rng=RowRNG(1, [7200]))
    assert bool((state.dice[:, 0] > state.dice[:, 1]).all())
    assert abs(float(state.turn.float().mean()) - 0.5) < 0.03
    after = rules.play(state, rules.pick(state, torch.full((7200,), 0.5)))
    counts = torch.bincount(after.dice[:, 0] * 7 + after.dice[:, 1], minlength=49).reshape(7, 7)
    for high in range(1, 7):
        for low in range(1, high + 1):
            want = 7200 / 36 * (1 if high == low else 2)
            assert abs(float(counts[high, low]) - want) < 5 * want**0.5


def test_a_batch_is_a_stack_of_singles() -> None:
    rules = Backgammon()
    batch = rules.start(Size([5]), rng=RowRNG(3, [5]))
    single = State(*(leaf[4] for leaf in batch))
    for t in range(60):
        batch, single = (
            rules.play(s, rules.pick(s, torch.full(s.turn.shape, (t * 0.37) % 1))) for s in (batch, single)
        )
        for whole, part in zip(batch, single, strict=True):
            assert torch.equal(whole[4], part)


def test_picks_and_permits_say_the_same_as_the_mask() -> None:
    rules = Backgammon()
    state = rules.start(Size([200]), rng=RowRNG(4, [200]))
    generator = torch.Generator().manual_seed(4)
    for _ in range(80):
        legal, unit = rules.legal(state), torch.rand(200, generator=generator)
        action = rules.pick(state, unit)
        going = ~rules.over(state)
        assert torch.equal(action[going], picked(legal, unit)[going])
        other = torch.randint(-3, 1360, (200,), generator=generator)
        assert torch.equal(rules.permits(state, other), allowed(legal, other))
        assert bool(rules.permits(state, action)[going].all())
        state = rules.play(state, action)


@pytest.mark.slow
def test_the_contract_holds() -> None:
    results = list(run_contract(lambda: marlenv.make("backgammon", num_envs=3, scoring="full", hyper=True)))
    assert not [r for r in results if r.verdict == "broken"]


def test_the_score_must_be_one_that_there_is() -> None:
    with pytest.raises(SpecError, match="scoring must be one of"):
        marlenv.make("backgammon", scoring="money")


def test_the_drawing_counts_points_as_the_mover_does() -> None:
    rules = Backgammon()
    shown = rules.show(rules.start(Size([]), rng=RowRNG(0))._replace(turn=torch.tensor(1), dice=torch.tensor([6, 5])))
    assert shown.splitlines()[0].split() == [str(n) for n in range(13, 25)]
    assert shown.splitlines()[1].split() == ["o5", "-", "-", "-", "x3", "-", "x5", "-", "-", "-", "-", "o2"]
    assert shown.splitlines()[-1] == "o to move: 6 5"
