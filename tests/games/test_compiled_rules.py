"""Games whose whole steps are compiled: the bits of their rules, entry by entry, and OpenSpiel's games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sizes import first, some
from tensordict import TensorDictBase

import marlenv
from marlenv.envs.rollout import RolloutOptions, rollout
from marlenv.games import Backgammon, GameEnv, Hanabi, KuhnPoker, LeducPoker, MatrixGame
from marlenv.games.fast.compiled_rules import CompiledRules
from marlenv.testing.comparison import differences

pytest.importorskip("numba", reason="without numba there is one path")

Make = Callable[[], GameEnv[Any]]
THREE = torch.tensor([1.5, -0.25, 0.1] * 12).reshape(2, 3, 2, 3)
TREE = {"b": ["player_1"], "a": {"c": ["player_2"], "d": ["player_0"]}}
ENVS: dict[str, Make] = {
    "hanabi": lambda: GameEnv(Hanabi(), batch_size=[90], seed=4),
    "hanabi, three, bits": lambda: GameEnv(
        Hanabi(3, 2, 3, 2, 3, 2), batch_size=[9, 10], seed=4, observation_dtype=torch.bool
    ),
    "hanabi, long games": lambda: GameEnv(Hanabi(colors=4, max_lives=20), batch_size=[90], seed=4),
    "backgammon": lambda: GameEnv(Backgammon(), batch_size=[64], seed=4),
    "backgammon, three checkers": lambda: GameEnv(Backgammon("full", hyper=True), batch_size=[9, 10], seed=4),
    "backgammon, gammons": lambda: GameEnv(Backgammon("gammon", hyper=True), batch_size=[90], seed=4),
    "kuhn": lambda: GameEnv(KuhnPoker(), batch_size=[90], seed=4),
    "kuhn, three in a tree": lambda: GameEnv(KuhnPoker(3), batch_size=[90], seed=4, group_map=TREE),
    "kuhn, chips": lambda: GameEnv(KuhnPoker(3, recall=False), batch_size=[9, 10], seed=4),
    "leduc": lambda: GameEnv(LeducPoker(), batch_size=[90], seed=4),
    "leduc, three in a tree": lambda: GameEnv(LeducPoker(3), batch_size=[90], seed=4, group_map=TREE),
    "leduc, chips": lambda: GameEnv(LeducPoker(3, recall=False), batch_size=[9, 10], seed=4),
    "matrix": lambda: GameEnv(MatrixGame("chicken"), batch_size=[90], seed=4),
    "matrix, rounds": lambda: GameEnv(MatrixGame("shapleys_game", 3), batch_size=[9, 10], seed=4),
    "matrix, three": lambda: GameEnv(MatrixGame(THREE, 7), batch_size=[90], seed=4, group_map=TREE),
    "matrix, without end": lambda: GameEnv(MatrixGame(THREE), batch_size=[90], seed=4),
}
FEW = [
    "kuhn",
    "matrix, rounds",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("hanabi", "backgammon, three checkers", "leduc, three in a tree")
    ),
]
"""Of each game one; those that take a third of a minute to compile are slow."""


def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)


def assert_same(a: TensorDictBase, b: TensorDictBase) -> None:
    """Also the signs of zeros."""
    assert not differences(a, b)
    for key in a.keys(True, True):
        x, y = a.get(key), b.get(key)
        assert x.dtype == y.dtype, key
        assert torch.equal(x.signbit(), y.signbit()), key


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What compiled steps return from now on, as a list that grows."""
    results: list[int] = []
    step = CompiledRules.step

    def watched(*args: Any, **how: Any) -> int:
        results.append(step(*args, **how))
        return results[-1]

    monkeypatch.setattr(CompiledRules, "step", watched)
    return results


def played(make: Make, steps: int, *, reset: bool = True) -> list[TensorDictBase]:
    """The data of steps of random play; also what each next step begins with."""
    env = make()
    env.set_seed(3)
    data, td = [], env.reset()
    for _ in range(steps):
        if reset:
            before, td = env.step_and_maybe_reset(env.rand_action(td))
        else:
            before = env.step(env.rand_action(td))
            td = env.step_mdp(before)
        data += [before, td.clone()]
    return data


@pytest.mark.parametrize("name", some(ENVS, 2, pytest.mark.slow))
def test_compiled_games_are_those_of_the_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of plies of whole games, with new games after them, by draws of chance of the same streams."""
    steps = 240 if "backgammon" in name else 60
    results = counted(monkeypatch)
    fast = played(ENVS[name], steps)
    assert len(results) == steps
    assert all(results)
    slowly(monkeypatch)
    ended = 0
    for a, b in zip(fast, played(ENVS[name], steps), strict=True):
        assert_same(a, b)
        ended += int(b["next", "done"].sum()) if "next" in b.keys() else 0
    assert len(results) == steps
    assert ended > 80 or name == "matrix, without end"


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_games_that_are_over_stay_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 90 if "backgammon" in name else 40
    fast = played(ENVS[name], steps, reset=False)
    slowly(monkeypatch)
    slow = played(ENVS[name], steps, reset=False)
    assert int(slow[-1]["done"].sum()) > 60
    for a, b in zip(fast, slow, strict=True):
        assert_same(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("hanabi", 1801), ("leduc_poker", 40001)])
def test_many_rows_that_go_past_the_caches(name: str, rows: int) -> None:
    """Each row is what it is among few."""
    many, few = (marlenv.make(name, num_envs=count, seed=3) for count in (rows, 64))
    some = few.rollout(40, break_when_any_done=False)
    assert bool(some["next", "done"].any())
    assert_same(many.rollout(40, break_when_any_done=False)[:64], some)
    many, few = (marlenv.make(name, num_envs=count, seed=4) for count in (rows, 64))
    data, some = many.reset(), few.reset()
    for _ in range(40):
        before, data = many.step_and_maybe_reset(many.rand_action(data))
        first, some = few.step_and_maybe_reset(few.rand_action(some))
        assert_same(before[:64], first)
        assert_same(data[:64], some)


@pytest.mark.slow
@pytest.mark.parametrize("stops", [True, False], ids=["stops", "goes on"])
@pytest.mark.parametrize("name", FEW)
def test_a_rollout_is_its_steps(name: str, stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = ENVS[name](), ENVS[name]()
    for env in (ours, theirs):
        env.set_seed(3)
    options = {"break_when_any_done": stops}
    with monkeypatch.context() as patch:
        for step in ("step", "_step", "step_and_maybe_reset"):  # fused: no step by itself
            patch.setattr(GameEnv, step, None)
        data = ours.rollout(50, **options)
    slowly(monkeypatch)
    expected = rollout(theirs, 50, None, RolloutOptions(**options))
    assert_same(data, expected)
    assert ours.action_stream.used == theirs.action_stream.used


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_illegal_actions_say_and_do_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(illegal: str) -> Any:
        env = ENVS[name]()
        env.illegal = illegal
        env.set_seed(3)
        td = env.rand_action(env.reset())
        for _, node in env.layout.nodes(td):
            node["action"][-1] = env.rules.n_actions
        return env.step(td)["next"] if illegal == "lose" else pytest.raises(marlenv.errors.IllegalAction, env.step, td)

    said, lost = str(wrong("raise").value), wrong("lose")
    slowly(monkeypatch)
    assert said == str(wrong("raise").value)
    assert_same(lost, wrong("lose"))


ODD: dict[str, tuple[str, int]] = {
    "hanabi": ("turn", 7),
    "backgammon, three checkers": ("dice", 64),
    "kuhn": ("cards", -9),
    "leduc, three in a tree": ("turn", -2),
    "matrix, rounds": ("played", 1 << 40),
}


def followed(env: GameEnv[Any], td: TensorDictBase, *, draw: bool = False) -> Any:
    """What follows, or what kind of error."""
    try:
        return env.step(env.rand_action(td) if draw else td)["next"]
    except (RuntimeError, IndexError, marlenv.errors.IllegalAction) as error:
        return type(error)


def assert_alike(fast: Any, slow: Any) -> None:
    if isinstance(slow, TensorDictBase):
        assert_same(fast, slow)
    else:
        assert fast is slow


@pytest.mark.parametrize("name", FEW)
def test_positions_that_no_game_leads_to_are_left_to_the_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def after() -> Any:
        env = ENVS[name]()
        env.set_seed(3)
        td = env.rand_action(env.reset())
        field, number = ODD[name]
        td["state", field][..., -1] = number
        return followed(env, td, draw=True)

    fast = after()
    slowly(monkeypatch)
    assert_alike(fast, after())


@pytest.mark.parametrize("stops", [True, False], ids=["stops", "goes on"])
@pytest.mark.parametrize("name", FEW)
def test_a_rollout_meets_such_positions_as_steps_do(name: str, stops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def after() -> tuple[Any, int]:
        env = ENVS[name]()
        env.set_seed(3)
        td = env.reset()
        field, number = ODD[name]
        td["state", field][-1] = number
        try:
            data = env.rollout(4, tensordict=td, auto_reset=False, break_when_any_done=stops)
        except (RuntimeError, IndexError, marlenv.errors.IllegalAction) as error:
            return type(error), env.action_stream.used
        return data, env.action_stream.used

    fast, used = after()
    slowly(monkeypatch)
    slow, expected = after()
    assert_alike(fast, slow)
    assert used == expected


@pytest.mark.parametrize("name", FEW)
def test_what_was_handed_out_is_never_written_again(name: str) -> None:
    env = ENVS[name]()
    kept, td = [], env.reset()
    for _ in range(30):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        here = td.exclude(*env.action_keys)  # those are written by the caller
        kept.append((data, data.clone(), here, here.clone()))
    for data, copy, after, same in kept:
        assert not differences(data, copy)
        assert not differences(after, same)


@pytest.mark.parametrize("name", FEW)
def test_data_with_gaps_and_of_other_dtypes_are_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def after() -> list[Any]:
        env = ENVS[name]()
        env.set_seed(3)
        td = env.rand_action(env.reset())
        batch = td.batch_size.numel()
        wide = torch.stack([td.reshape(batch)] * 2, 1)[:, 1].reshape(td.batch_size)
        odd = td.clone()
        field = env._fields[0]
        odd["state", field] = odd["state", field].to(torch.int32)
        return [followed(env, wide), followed(env, odd)]

    fast = after()
    slowly(monkeypatch)
    for a, b in zip(fast, after(), strict=True):
        assert_alike(a, b)


def dealt(ours: TensorDictBase, theirs: Any) -> int:
    """What came up in our game, at a chance node of theirs."""
    done = len(theirs.history())
    if "hands" in ours.keys():
        players, hand = ours["hands"].shape
        if done < players * hand:
            return int(ours["hands"].flatten()[done])
        return int(ours["hands"][(int(ours["turn"]) - 1) % players, -1])
    return int(ours["cards"][done] if done < len(ours["cards"]) else ours["public"])


@pytest.mark.reference
@pytest.mark.parametrize(
    ("rules", "peer", "tensor"),
    first(
        [
            (KuhnPoker(), "kuhn_poker", "information_state_tensor"),
            (Hanabi(), "hanabi(players=2)", "observation_tensor"),
            (LeducPoker(3), "leduc_poker(players=3)", "information_state_tensor"),
        ],
        3,
    ),
    ids=["kuhn", "hanabi", "leduc"],
)
def test_openspiel_plays_the_same_games(rules: Any, peer: str, tensor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pyspiel = pytest.importorskip("pyspiel")
    results = counted(monkeypatch)
    env = GameEnv(rules, batch_size=[64], seed=1)
    data = env.rollout(80, break_when_all_done=True)
    assert len(results) == data.shape[1]
    plies = 0
    for row in data.unbind(0):
        theirs, earned = pyspiel.load_game(peer).new_initial_state(), np.zeros(len(rules.players))
        for td in row.unbind(0):
            while theirs.is_chance_node():
                theirs.apply_action(dealt(td["state"], theirs))
            if theirs.is_terminal():
                assert bool(td["done"])
                break
            name = rules.players[theirs.current_player()]
            assert int(td["turn"]) == theirs.current_player()
            assert td[name, "action_mask"][0].nonzero().flatten().tolist() == theirs.legal_actions()
            for seat, player in enumerate(rules.players):
                seen = np.array(getattr(theirs, tensor)(seat), np.float32)
                np.testing.assert_array_equal(td[player, "observation"][0].numpy(), seen)
            theirs.apply_action(int(td[name, "action"]))
            earned += [float(td["next", player, "reward"]) for player in rules.players]
            np.testing.assert_array_equal(earned, theirs.returns())
            assert bool(td["next", "done"]) == theirs.is_terminal()
            plies += 1
    assert plies > 120
