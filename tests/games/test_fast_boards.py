"""Board games whose steps are compiled: the rules entry by entry, OpenSpiel, and what users see besides."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDictBase

from marlenv.envs.rollout import RolloutOptions, rollout
from marlenv.errors import IllegalAction
from marlenv.games import Breakthrough, ConnectFour, GameEnv, Go, Hex, Othello, Rules, TicTacToe
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.testing.comparison import differences

pytest.importorskip("numba", reason="without numba these games are played by their rules")

GAMES: dict[str, tuple[Rules[Any], int]] = {  # and how many steps
    "tic-tac-toe": (TicTacToe(), 30),
    "connect four": (ConnectFour(), 80),
    "connect four, 7 x 7, 5 in a row": (ConnectFour(7, 7, 5), 100),
    "connect four, 1 x 6, 2 in a row": (ConnectFour(1, 6, 2), 20),
    "hex": (Hex(), 130),
    "hex, 4 x 7": (Hex(4, 7), 60),
    "hex, swap": (Hex(4, swap=True), 60),
    "hex, 26 x 3": (Hex(26, 3), 100),
    "othello": (Othello(), 130),
    "breakthrough": (Breakthrough(), 160),
    "breakthrough, 5 x 4": (Breakthrough(5, 4), 80),
    "breakthrough, 2 x 8": (Breakthrough(2, 8), 20),
    "breakthrough, 4 x 2": (Breakthrough(4, 2), 40),
    "go": (Go(), 200),
    "go, 2 x 2, draws": (Go(2, 0.5, "draw"), 40),
    "go, 5 x 5, draws": (Go(5, 1.0, "draw"), 110),
    "go, 3 x 3, superko": (Go(3, repetition="forbid"), 60),
    "go, 8 x 8, superko": (Go(8, repetition="forbid"), 140),
}
ENDS = {"breakthrough, 4 x 2": {0, 1, 2}, "go": {0, 1, 3}, "go, 5 x 5, draws": {0, 1, 2, 3}}
"""The outcomes that are met there, at least."""
SOME = [
    "connect four",
    "hex, swap",
    "go, 5 x 5, draws",
    "go, 3 x 3, superko",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("othello", "breakthrough", "tic-tac-toe")),
]


def made(rules: Rules[Any], rows: int | tuple[int, ...], seed: int = 0, **options: Any) -> GameEnv[Any]:
    env = GameEnv(rules, batch_size=rows, **options)
    env.set_seed(seed)
    return env


def stepped(env: GameEnv[Any], steps: int) -> TensorDictBase:
    """What a rollout gives, by steps one by one, in which games that are over begin anew."""
    td, played = env.reset(), []
    for _ in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        played.append(data.clone())
    return torch.stack(played, -1)


def assert_same(a: TensorDictBase, b: TensorDictBase) -> None:
    """The same entries, in the same order, with the same numbers, shapes and dtypes."""
    assert not differences(a, b)
    assert [*a.keys(True, True)] == [*b.keys(True, True)]
    for key in a.keys(True, True):
        assert a.get(key).dtype == b.get(key).dtype, key


@pytest.fixture
def only_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is played by the rules."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a step by the rules")

    monkeypatch.setattr(TurnBasedEnv, "_move", refuse)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_compiled_steps_are_the_rules_entry_by_entry(game: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, steps = GAMES[game]
    with monkeypatch.context() as patch:
        patch.setattr(TurnBasedEnv, "_move", None)  # no step by the rules
        at_once = made(rules, 70, seed).rollout(steps, break_when_any_done=False)
        one_by_one = stepped(made(rules, 70, seed), steps)
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)
    plain = stepped(made(rules, 70, seed), steps)
    assert int(plain["next", "done"].sum()) >= 60
    if seed == 0:  # whose games meet all of them
        assert ENDS.get(game, set()) <= set(plain["next", "outcome"].unique().tolist())
    assert_same(at_once, plain)
    assert_same(one_by_one, plain)


@pytest.mark.full
@pytest.mark.slow
def test_long_games_on_a_large_board(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, steps = Go(19, repetition="forbid", moves=500), 510
    fast = stepped(made(rules, 64), steps)
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)
    env = made(rules, 64)
    td = env.reset()
    for t in range(steps):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        assert_same(fast[:, t], data)
    assert int(fast["next", "done"].sum()) >= 64


@pytest.mark.slow
@pytest.mark.parametrize("stops", [True, False], ids=["stops", "goes on"])
@pytest.mark.parametrize("game", SOME)
def test_a_rollout_is_its_steps(game: str, stops: bool, only_compiled: None) -> None:
    rules, steps = GAMES[game]
    ours, theirs = made(rules, (8, 13)), made(rules, (8, 13))
    data = ours.rollout(steps, break_when_any_done=stops)
    assert_same(data, rollout(theirs, steps, None, RolloutOptions(break_when_any_done=stops)))
    assert ours.action_stream.used == theirs.action_stream.used


@pytest.mark.parametrize("game", SOME)
def test_a_position_that_is_over_goes_on_as_any_illegal_move(game: str) -> None:
    rules, steps = GAMES[game]
    said = []
    for play in (GameEnv.rollout, lambda env, count, **options: rollout(env, count, None, RolloutOptions(**options))):
        env = made(rules, 64)
        whole = env.rollout(steps, break_when_any_done=False)
        td = env.reset()
        over = whole["next"][tuple(whole["next", "done"][..., 0].nonzero()[0].tolist())]
        td["state"][3] = over["state"]  # and flags will say that it is not
        with pytest.raises(IllegalAction) as error:
            play(env, 4, tensordict=td, auto_reset=False, break_when_any_done=False)
        said.append((str(error.value), env.action_stream.used))
    assert said[0] == said[1]


@pytest.mark.slow
@pytest.mark.parametrize("game", SOME)
def test_many_rows_that_go_past_the_caches(game: str, only_compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any batch size, each row is what it is among few."""
    rules, rows = GAMES[game][0], 5003
    few = stepped(made(rules, 64), 70)
    env = made(rules, rows)
    td = env.reset()
    for t in range(70):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        assert not differences(data[:64], few[:, t])
    at_once = made(rules, rows).rollout(70, break_when_any_done=False)
    assert_same(at_once[:64], few)
    assert not differences(at_once[:, -1], data)


@pytest.mark.parametrize("game", SOME)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"observation_dtype": torch.bool}, id="bool", marks=pytest.mark.slow),  # is compiled once more
        pytest.param({"group_map": {"b": [1], "a": {"c": [0]}}}, id="tree"),
    ],
)
def test_other_layouts(game: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    rules = GAMES[game][0]
    if "group_map" in options:
        first, second = rules.players
        options = {"group_map": {"b": [second], "a": {"c": [first]}}}
    fast = stepped(made(rules, (8, 9), **options), 40)
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)
    assert_same(fast, stepped(made(rules, (8, 9), **options), 40))


@pytest.mark.parametrize("game", SOME)
def test_games_that_are_over_stay_as_they_are(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, steps, played = *GAMES[game], []
    for numba in (True, False):
        monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", numba)
        env = made(rules, 64)
        td = env.reset()
        for _ in range(steps):  # nobody resets
            data = env.step(env.rand_action(td))
            played.append(data["next"].clone())
            td = env.step_mdp(data)
        assert bool(td["done"].any())
    for a, b in zip(played[:steps], played[steps:], strict=True):
        assert_same(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("game", SOME)
@pytest.mark.parametrize("illegal", ["raise", "lose"])
def test_illegal_actions_are_refused_alike(game: str, illegal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, answers = GAMES[game][0], []
    for numba in (True, False):
        monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", numba)
        env = made(rules, 64, illegal=illegal)
        data = stepped(env, 22)[:, -1]
        td = env.rand_action(env.step_mdp(data))
        held = td.select(*env.state_keys).clone()
        some = torch.stack([~td[name, "action_mask"].all(-1) for name in rules.players]).any(0)  # all may, who wait
        row = int((some & ~td["done"]).nonzero()[-1, 0])
        mover = rules.players[int(td["turn"][row])]
        for wrong in (-1, rules.n_actions, int((~td[mover, "action_mask"][row, 0]).nonzero()[0])):
            tried = td.clone()
            tried[mover, "action"][row] = wrong
            if illegal == "raise":
                with pytest.raises(IllegalAction) as error:
                    env.step(tried)
                answers.append(str(error.value))
            else:
                answers.append(env.step(tried)["next"])
            assert_same(tried.select(*env.state_keys), held)
    for a, b in zip(answers[:3], answers[3:], strict=True):
        if illegal == "raise":
            assert a == b
        else:
            assert_same(a, b)


@pytest.mark.parametrize("game", SOME)
def test_positions_can_be_kept_and_taken_up_again(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = GAMES[game][0]
    env = made(rules, 300)
    td = env.step_mdp(stepped(env, 11)[:, -1])
    kept, follows = env.get_state(td)[~td["done"].squeeze(-1)][:64], []
    for numba in (True, False):
        monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", numba)
        other = made(rules, 64, 5)
        again = other.reset(kept, set_state=True)
        follows.append(other.step(other.rand_action(again)))
    assert_same(*follows)


@pytest.mark.parametrize("game", SOME)
def test_what_was_handed_out_is_never_written_again(game: str) -> None:
    env = made(GAMES[game][0], 400)
    td, held = env.reset(), []
    for _ in range(30):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        held.append((data, data.clone()))
    for data, was in held:
        assert not differences(data, was)


@pytest.mark.parametrize("game", ["hex, swap", "go, 3 x 3, superko"])
def test_copies_play_on(game: str) -> None:
    env = made(GAMES[game][0], 64)
    td = env.reset()
    data = env.step(env.rand_action(td.clone()))
    for one in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        one.set_seed(0)
        assert_same(one.step(one.rand_action(td.clone())), data)


PEERS: dict[str, tuple[Rules[Any], str, int]] = {
    "hex": (Hex(), "hex(board_size=11)", 130),
    "hex, swap": (Hex(4, swap=True), "hex(board_size=4,swap=True)", 60),
    "othello": (Othello(), "othello", 130),
    "go 4 x 4": (Go(4, 1.0, "draw"), "go(board_size=4,komi=1.0)", 80),
    "go 9 x 9": (Go(repetition="draw"), "go(board_size=9)", 220),
    "breakthrough": (Breakthrough(), "breakthrough(rows=8,columns=8)", 150),
    "breakthrough, 5 x 8": (Breakthrough(5, 8), "breakthrough(rows=5,columns=8)", 100),
}


def same_numbers(rules: Rules[Any], action: int) -> list[int]:
    return [action]


def of_breakthrough(rules: Any, action: int) -> list[int]:
    """Theirs begins at the upper edge, has six directions for our three, and other numbers for captures."""
    (row, column), direction = divmod(action // 3, rows := rules.columns), action % 3
    numbers = [((rules.rows - 1 - row) * rows + column) * 12 + 2 * ahead + direction * 2 for ahead in (0, 3)]
    return [number + captures for number in numbers for captures in (0, 1)]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("game", PEERS)
def test_open_spiel_agrees_with_every_compiled_step(game: str, only_compiled: None) -> None:
    import pyspiel

    rules, name, steps = PEERS[game]
    theirs: Callable[[Any, int], list[int]] = of_breakthrough if "breakthrough" in game else same_numbers
    numbers = [theirs(rules, action) for action in range(rules.n_actions)]
    peer, rows = pyspiel.load_game(name), 64
    env, states = made(rules, rows), [peer.new_initial_state() for _ in range(rows)]
    td, ended = env.reset(), 0
    for _ in range(steps):
        masks = [td[player, "action_mask"].squeeze(1).tolist() for player in rules.players]
        td = env.rand_action(td)
        actions = [td[player, "action"].squeeze(1).tolist() for player in rules.players]
        for row, state in enumerate(states):
            seat, may = int(td["turn"][row]), set(state.legal_actions())
            assert seat == state.current_player()
            legal = [set(numbers[action]) & may for action, fine in enumerate(masks[seat][row]) if fine]
            assert all(len(found) == 1 for found in legal)
            assert set().union(*legal) == may
            [chosen] = set(numbers[actions[seat][row]]) & may
            state.apply_action(chosen)
        data, td = env.step_and_maybe_reset(td)
        rewards = torch.cat([data["next", player, "reward"].flatten(1) for player in rules.players], 1).tolist()
        for row, over in enumerate(data["next", "done"].flatten().tolist()):
            assert over == states[row].is_terminal()
            assert rewards[row] == (states[row].returns() if over else [0.0, 0.0])
            if over:
                states[row], ended = peer.new_initial_state(), ended + 1
    assert ended >= rows
