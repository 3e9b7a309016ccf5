"""A step of ``ChessEnv()`` in one call: the data of the long way, which subclasses take."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase

from marlenv.errors import IllegalAction, PositionMissing
from marlenv.games.chess import ChessEnv
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.optional import has

pytestmark = pytest.mark.skipif(not has("numba"), reason="without numba there is the long way alone")
MATE_IN_TWO = ("f3", "e5", "g4", "Qh4#")


class Long(ChessEnv):
    """Goes the long way, as it could change it."""


def pair(**options: Any) -> tuple[ChessEnv, ChessEnv]:
    ours, theirs = ChessEnv(**options), Long(**options)
    for env in (ours, theirs):
        env.set_seed(1)
    return ours, theirs


def assert_same(ours: TensorDictBase, theirs: TensorDictBase) -> None:
    assert list(ours.keys(True)) == list(theirs.keys(True))
    assert ours.batch_size == theirs.batch_size
    for key in ours.keys(True, True):
        x, y = ours.get(key), theirs.get(key)
        assert x.dtype == y.dtype, key
        assert torch.equal(x, y), key


def assert_same_games(ours: ChessEnv, theirs: ChessEnv) -> None:
    assert_same(ours.get_state(), theirs.get_state())
    assert torch.equal(ours.full_action_spec["action"].mask, theirs.full_action_spec["action"].mask)
    assert ours.action_stream.used == theirs.action_stream.used


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"batch_size": [1]}, {"batch_size": [2, 3]}, {"chess960": True, "seed": 2}])
def test_games_are_those_of_the_long_way(options: dict[str, Any]) -> None:
    ours, theirs = pair(**options)
    x, y = ours.reset(), theirs.reset()
    ended = 0
    for _ in range(400):
        one, x = ours.step_and_maybe_reset(ours.rand_action(x))
        other, y = theirs.step_and_maybe_reset(theirs.rand_action(y))
        assert_same(one, other)
        ended += int(one["next", "done"].sum())
    assert_same_games(ours, theirs)
    assert ended or ours.batch_size.numel() == 1


@pytest.mark.slow
def test_the_long_way_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    env = ChessEnv()
    td = env.reset()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the long way")

    monkeypatch.setattr(TurnBasedEnv, "_move", refuse)
    monkeypatch.setattr(TurnBasedEnv, "_unit", refuse)
    for _ in range(4):
        td = env.step_and_maybe_reset(env.rand_action(td))[1]


def test_a_mate_ends_the_game_and_others_wait() -> None:
    for env in pair(batch_size=[2]):
        td = env.reset()
        numbers = [env.san_moves.index(move) for move in MATE_IN_TWO]
        other = [env.san_moves.index(move) for move in ("e4", "e5", "Nf3", "Nc6")]
        for moves in zip(numbers, other, strict=True):
            td = env.step(td.set("action", torch.tensor(moves)))["next"]
        assert td["done"].tolist() == [[True], [False]]
        assert td["reward"].tolist() == [[1.0], [0.0]]
        td = env.step(td.set("action", torch.tensor([0, env.san_moves.index("Bb5")])))["next"]
        assert td["done"].tolist() == [[True], [False]]
        assert td["reward"].tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("number", [5, -1, 29275, 10**12])
def test_an_illegal_move_is_named_alike(number: int) -> None:
    errors = []
    for env in pair():
        td = env.reset()
        td = env.step_and_maybe_reset(env.rand_action(td))[1]
        before = env.get_state()
        with pytest.raises(IllegalAction) as error:
            env.step(td.set("action", torch.tensor(number)))
        errors.append(str(error.value))
        assert_same(env.get_state(), before)
    assert errors[0] == errors[1].replace("Long:", "ChessEnv:")


def test_only_some_rows_are_stepped() -> None:
    ours, theirs = pair(batch_size=[3])
    x, y = ours.reset(), theirs.reset()
    for mask in (torch.tensor([True, False, True]), torch.tensor([True, True, True])):
        x = ours.step(ours.rand_action(x).set("_step", mask.clone()))
        y = theirs.step(theirs.rand_action(y).set("_step", mask.clone()))
        assert_same(x, y)
        x, y = ours.step_mdp(x), theirs.step_mdp(y)
    assert_same_games(ours, theirs)


def test_a_game_goes_on_from_a_state_that_was_kept_and_a_copy_by_itself() -> None:
    env = ChessEnv()
    td = env.reset()
    for _ in range(6):
        td = env.step_and_maybe_reset(env.rand_action(td))[1]
    kept, mask = env.get_state(), td["action_mask"].clone()
    copied = copy.deepcopy(env)
    for _ in range(6):
        td = env.step_and_maybe_reset(env.rand_action(td))[1]
    assert torch.equal(env.reset(kept.clone(), set_state=True)["action_mask"], mask)
    assert_same(copied.get_state(), kept)


def test_who_writes_to_data_changes_no_game() -> None:
    env = ChessEnv()
    td = env.step(env.rand_action(env.reset()))["next"]
    legal = td["action_mask"].clone()
    td["action_mask"].fill_(False)
    assert torch.equal(env.full_action_spec["action"].mask, legal)
    action = env.rand_action()["action"]
    assert legal[action]


def test_without_a_game_the_error_is_the_same() -> None:
    for env in pair():
        with pytest.raises(PositionMissing, match="no game yet"):
            env.step(env.fake_tensordict())
