"""Rollouts of random play in memory that is allocated once: the data of steps, one by one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDictBase

import marlenv
from marlenv.buffer_pool import LARGE
from marlenv.envs.rollout import RolloutOptions, rollout
from marlenv.errors import IllegalAction, NotInSpec
from marlenv.games import ConnectFour, GameEnv, TicTacToe, TicTacToeEnv
from marlenv.games.chess import Chess, GroupedChessEnv
from marlenv.games.env import fused_rollout
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.games.fast.boards import FastBoard

Make = Callable[..., Any]
COMPILED = (
    *("hex", "othello", "breakthrough", "go", "hanabi", "backgammon", "kuhn_poker", "leduc_poker"),
    "prisoners_dilemma",
)


def chess(*batch: int, **options: Any) -> GameEnv[Any]:
    env = GroupedChessEnv(Chess(), batch_size=batch, **options)
    env.set_seed(3)
    return env


def four(*batch: int, **options: Any) -> GameEnv[Any]:
    env = GameEnv(ConnectFour(), batch_size=batch, **options)
    env.set_seed(3)
    return env


def three(*batch: int, **options: Any) -> GameEnv[Any]:
    env = GameEnv(TicTacToe(), batch_size=batch, **options)
    env.set_seed(3)
    return env


def shown(*batch: int, **options: Any) -> TicTacToeEnv:
    env = TicTacToeEnv(batch_size=batch, **options)
    env.set_seed(3)
    return env


def assert_same(ours: TensorDictBase, theirs: TensorDictBase) -> None:
    """The same entries in the same order, with the same numbers, shapes and dtypes."""
    assert list(ours.keys(True)) == list(theirs.keys(True))
    assert ours.batch_size == theirs.batch_size
    assert ours.names == theirs.names
    assert ours.device == theirs.device
    for key in ours.keys(True, True):
        x, y = ours.get(key), theirs.get(key)
        assert x.dtype == y.dtype, key
        assert torch.equal(x, y), key


def played_by_steps(env: Any, steps: int, **options: Any) -> TensorDictBase:
    return rollout(env, steps, None, RolloutOptions(**options))


@pytest.mark.parametrize("stops", [True, False], ids=["stops", "goes on"])
@pytest.mark.parametrize("rows", first([300, 1, 64], 3))
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (chess, {}),
        (chess, {"group_map": {"second": ["black"], "first": ["white"]}}),
        (four, {}),
        (four, {"group_map": {"second": ["o"], "first": ["x"]}}),
        (three, {}),
        (shown, {}),
        # what is compiled anew for them takes seconds
        pytest.param(chess, {"mask": "bool"}, marks=pytest.mark.slow),
        pytest.param(four, {"observation_dtype": torch.bool}, marks=pytest.mark.slow),
        pytest.param(
            three,
            {"observation_dtype": torch.bool, "group_map": {"second": ["o"], "first": ["x"]}},
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        *("chess", "other groups", "connect four", "groups of four", "tic-tac-toe", "TorchRL's keys"),
        *("bools", "bool observations", "bools and groups of three"),
    ],
)
def test_a_rollout_is_its_steps(make: Make, options: dict[str, Any], rows: int, stops: bool) -> None:
    ours, theirs = make(rows, **options), make(rows, **options)
    for steps in (1, 150):
        one = ours.rollout(steps, break_when_any_done=stops)
        assert_same(one, played_by_steps(theirs, steps, break_when_any_done=stops))
    assert ours.action_stream.used == theirs.action_stream.used


def test_a_long_game_goes_on_in_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_rollout, "CHUNK", 7)
    for make, rows in ((chess, 2), (four, 64), (three, 64), (shown, 64)):
        ours, theirs = make(rows), make(rows)
        assert_same(ours.rollout(60), played_by_steps(theirs, 60))


@pytest.mark.parametrize(
    "options", [{"set_truncated": True}, {"compact": True}, {"return_contiguous": False}, {"break_when_all_done": True}]
)
def test_what_is_asked_for_besides_is_the_same(options: dict[str, Any]) -> None:
    for make, rows in ((chess, 3), (shown, 70)):
        assert_same(make(rows).rollout(9, **options), played_by_steps(make(rows), 9, **options))


@pytest.mark.parametrize("batch", [(), (2, 3)], ids=["no dimension", "two dimensions"])
def test_any_batch_size(batch: tuple[int, ...]) -> None:
    for make in (chess, shown):
        assert_same(make(*batch).rollout(20), played_by_steps(make(*batch), 20))


@pytest.mark.parametrize("make", [four, three, shown])
def test_any_batch_size_of_many_games(make: Make) -> None:
    assert_same(make(8, 11).rollout(20), played_by_steps(make(8, 11), 20))


@pytest.mark.parametrize(("make", "rows"), [(chess, 5), (four, 65), (three, 65), (shown, 65)])
def test_it_goes_on_from_data(make: Make, rows: int) -> None:
    ours, theirs = make(rows), make(rows)
    data = ours.rollout(30, break_when_any_done=False)
    td = ours.step_mdp(data[..., -1])
    assert_same(data, played_by_steps(theirs, 30, break_when_any_done=False))
    more = {"auto_reset": False, "break_when_any_done": False}
    assert_same(
        ours.rollout(9, tensordict=td.clone(), **more), played_by_steps(theirs, 9, tensordict=td.clone(), **more)
    )
    odd = td.clone().set("mine", torch.arange(rows))
    assert "mine" in ours.rollout(9, tensordict=odd, **more).keys()


@pytest.mark.parametrize("illegal", ["raise", "lose"])
def test_a_position_without_moves_is_like_any_illegal_move(illegal: str) -> None:
    ours, theirs = chess(2, illegal=illegal), chess(2, illegal=illegal)
    td = ours.reset()
    theirs.reset()
    td["state", "moves"][1] = 0
    options = {"auto_reset": False, "break_when_any_done": False}
    if illegal == "lose":
        ours_data = ours.rollout(4, tensordict=td.clone(), **options)
        assert_same(ours_data, played_by_steps(theirs, 4, tensordict=td.clone(), **options))
        assert ours.outcomes[int(ours_data["next", "outcome"][1, 0])] == "illegal move"
        return
    with pytest.raises(IllegalAction) as expected:
        played_by_steps(theirs, 4, tensordict=td.clone(), **options)
    with pytest.raises(IllegalAction) as got:
        ours.rollout(4, tensordict=td.clone(), **options)
    assert str(got.value) == str(expected.value)
    assert ours.action_stream.used == theirs.action_stream.used


@pytest.mark.parametrize("make", [four, three, shown])
def test_a_full_board_that_goes_on_is_like_any_illegal_move(make: Make) -> None:
    """Nobody says that the game is over, and there is nothing to play."""
    ours, theirs = make(70), make(70)
    whole = make(70).rollout(9 if make is not four else 42, break_when_any_done=False)
    td = ours.reset()
    theirs.reset()
    row = whole["next", "done"][..., 0].nonzero()[0]
    over = whole["next"][tuple(row.tolist())]  # and flags will say that it is not
    names = ["board", "turn", "mask"] if make is shown else ["state"]
    for name in names:
        td[name][3] = over[name]
    options = {"auto_reset": False, "break_when_any_done": False}
    with pytest.raises(IllegalAction) as expected:
        played_by_steps(theirs, 4, tensordict=td.clone(), **options)
    with pytest.raises(IllegalAction) as got:
        ours.rollout(4, tensordict=td.clone(), **options)
    assert str(got.value) == str(expected.value)
    assert ours.action_stream.used == theirs.action_stream.used


def test_a_board_that_cannot_be_is_the_same_error() -> None:
    ours, theirs = shown(70), shown(70)
    td = ours.reset()
    theirs.reset()
    td["board"][3, 2, 2] = 30
    options = {"auto_reset": False, "break_when_any_done": False}
    with pytest.raises(NotInSpec) as expected:
        played_by_steps(theirs, 4, tensordict=td.clone(), **options)
    with pytest.raises(NotInSpec) as got:
        ours.rollout(4, tensordict=td.clone(), **options)
    assert str(got.value) == str(expected.value)
    assert ours.action_stream.used == theirs.action_stream.used


class StepByStep:
    """A fast form that plays no rollouts."""

    def __init__(self, form: FastBoard[Any]) -> None:
        self.permits, self.pick, self.draw, self.step = form.permits, form.pick, form.draw, form.step


class SlowerFour(ConnectFour):
    def fast_form(self) -> Any:
        return StepByStep(super().fast_form())


def test_a_fast_form_without_rollouts_plays_step_by_step_into_memory() -> None:
    ours, theirs = GameEnv(SlowerFour(), batch_size=[70]), four(70)
    ours.set_seed(3)
    for stops in (True, False):
        played = ours.rollout(30, break_when_any_done=stops)
        assert_same(played, played_by_steps(theirs, 30, break_when_any_done=stops))
    td = theirs.reset()
    ours.reset()
    td["state", "board"][3, 1] = (1 << 56) - 1
    options = {"auto_reset": False, "break_when_any_done": False}
    for play in (ours.rollout, lambda *a, **k: played_by_steps(theirs, *a, **k)):
        with pytest.raises(IllegalAction):
            play(4, tensordict=td.clone(), **options)
    assert ours.action_stream.used == theirs.action_stream.used


@pytest.mark.slow
def test_no_step_is_played_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="without numba steps are played one by one")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a step by itself")

    envs = [chess(64), four(64), three(64), shown(64), *(marlenv.make(name, num_envs=64) for name in COMPILED)]
    for name in ("step", "step_and_maybe_reset", "_step", "fast_step", "rand_action"):
        monkeypatch.setattr(TurnBasedEnv, name, refuse)
    monkeypatch.setattr(GameEnv, "_step_by_step", refuse)
    for env in envs:
        assert env.rollout(5, break_when_any_done=False).shape == (64, 5)


def test_an_env_that_changes_steps_is_stepped() -> None:
    class Counted(GroupedChessEnv):
        steps = 0

        def _step(self, tensordict: TensorDictBase) -> Any:
            self.steps += 1
            return super()._step(tensordict)

    env = Counted(Chess(), batch_size=[2])
    env.rollout(4)
    assert env.steps == 4


@pytest.mark.parametrize("make", [chess, four, three, shown])
def test_no_entry_shares_memory_with_another_and_no_rollout_with_the_next(make: Make) -> None:
    env = make(400)
    first = env.rollout(20, break_when_any_done=False)
    kept = first.clone()
    env.rollout(20, break_when_any_done=False)
    assert_same(first, kept)
    for key in first.keys(True, True):
        whole = first.clone()
        x = first.get(key)
        x.copy_(~x if x.dtype == torch.bool else x + 1)
        assert all(
            torch.equal(first.get(other), whole.get(other)) for other in whole.keys(True, True) if other != key
        ), key


def test_memory_that_the_system_would_map_anew_is_kept() -> None:
    pytest.importorskip("numba", reason="without numba steps are played one by one")
    env = three(1024)
    td = env.rollout(20, break_when_any_done=False)
    sizes = {(x := td.get(key).untyped_storage()).data_ptr(): x.nbytes() for key in td.keys(True, True)}
    kept = sum(size for size in sizes.values() if size >= fused_rollout.MAPPED)
    assert kept > sum(size for size in sizes.values() if size >= LARGE) > 0
    del td
    assert env.rollouts.free >= kept


def test_rollouts_alike_are_laid_out_alike_and_others_are_not() -> None:
    ours, theirs = three(70), three(70)
    for steps in (5, 5, 6, 5):
        assert_same(ours.rollout(steps), played_by_steps(theirs, steps))
    ours, theirs = ours.to("cpu"), theirs.to("cpu")  # data had no device until here
    td = ours.rollout(5)
    assert td.device == td["next", "x"].device == torch.device("cpu")
    assert_same(td, played_by_steps(theirs, 5))
    for steps in range(1, 12):
        ours.rollout(steps)
    assert len(ours.plans) <= 8


def test_a_copy_and_a_pickle_play_on() -> None:
    env = chess(300)
    env.rollout(3)
    expected = chess(300)
    expected.rollout(3)
    for one in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert one.rollouts.free == 0
        assert one.rollout(3).shape == (300, 3)


def test_a_rollout_through_pure_transforms() -> None:
    ours, theirs = (marlenv.TransformedEnv(chess(8), marlenv.RewardScaling(0.0, 2.0)) for _ in range(2))
    assert_same(ours.rollout(20), played_by_steps(theirs, 20))


def test_under_inference_mode() -> None:
    with torch.inference_mode():
        assert_same(chess(300).rollout(9), played_by_steps(chess(300), 9))
    env = chess(300)
    with torch.inference_mode():
        env.rollout(9)
    assert not env.rollout(9)["turn"].is_inference()


@pytest.mark.parametrize("make", [chess, four])
def test_many_games_begin_as_few_do(make: Make) -> None:
    env = make(300)
    assert_same(env._reset(None), TurnBasedEnv._reset(env, None))
    td = env.reset()
    kept = td.clone()
    env.step(env.rand_action(env.reset()))
    assert_same(td, kept)
