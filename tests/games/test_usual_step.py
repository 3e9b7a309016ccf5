"""The usual step of a game by hand equals the general one in everything a user can see, and is taken."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDict, TensorDictBase

from marlenv.envs import EnvBase
from marlenv.games import Breakthrough, ConnectFour, GameEnv, Go, Hex, KuhnPoker, MatrixGame, TicTacToe
from marlenv.games.env.usual_step import UsualStep
from marlenv.specs import Categorical, Composite
from marlenv.testing.comparison import differences

pytest.importorskip("numba", reason="without numba games are played by their rules")

GAMES: dict[str, Callable[[], GameEnv[Any]]] = {
    "tic-tac-toe": lambda: GameEnv(TicTacToe(), batch_size=[64], seed=0),
    "kuhn, three": lambda: GameEnv(KuhnPoker(3), batch_size=[9, 10], seed=0),
    "matrix": lambda: GameEnv(MatrixGame("chicken", 4), batch_size=[70], seed=0),
    "connect four": lambda: GameEnv(ConnectFour(), batch_size=[64], seed=0, observation_dtype="bool"),
    "hex": lambda: GameEnv(Hex(3), seed=0),
    "breakthrough": lambda: GameEnv(Breakthrough(5, 5), batch_size=[64], seed=0, device="cpu"),
    "go": lambda: GameEnv(Go(size=5, moves=40, repetition="forbid"), batch_size=[200], seed=0),
}


def begun(env: GameEnv[Any]) -> TensorDict:
    env.set_seed(3)
    lead = [] if env.batch_size else [80]
    td = TensorDict(batch_size=lead) if lead else None
    data: Any = env.reset(td)
    return data


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each step from now on was a usual one, as a list that grows."""
    found, go_on = [], UsualStep.go_on

    def watched(self: Any, env: Any, td: Any) -> Any:
        made = go_on(self, env, td)
        found.append(made is not None)
        return made

    monkeypatch.setattr(UsualStep, "go_on", watched)
    return found


def general(env: GameEnv[Any], td: TensorDictBase) -> Any:
    return EnvBase.step_and_maybe_reset(env, td)


@pytest.mark.parametrize("name", first(GAMES, 4))
def test_games_by_hand_are_those_of_the_general_way(name: str, taken: list[bool]) -> None:
    """From games that all begin at once, of which none is over for some steps, to those in all stages."""
    env, other = GAMES[name](), GAMES[name]()
    td, again = begun(env), begun(other)
    for step in range(60):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        old, again = general(other, other.rand_action(again))
        for one, its in ((data, old), (td, again)):
            assert not differences(one, its)
            assert list(map(str, one.keys(True))) == list(map(str, its.keys(True)))
            assert all(x.batch_size == its[key].batch_size for key, x in one.items(True) if isinstance(x, TensorDict))
            assert one.device == its.device
        assert len(taken) == step + 1
    assert all(taken)
    assert env.action_stream.used == other.action_stream.used


@pytest.mark.parametrize("rows", [64, 100])
def test_what_was_given_out_never_changes(rows: int) -> None:
    env = GameEnv(TicTacToe(), batch_size=[rows], seed=0)
    td, kept = begun(env), []
    for _ in range(40):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        kept.append((data, td.copy(), data.clone(), td.clone()))
    for data, after, was, then in kept:
        assert not differences(data, was)
        assert not differences(after, then)
    places = [x.data_ptr() for data, after, *_ in kept[-1:] for part in (data, after) for x in part.values(True, True)]
    assert len(places) - len(set(places)) == 2  # the actions are those of the step


def _action(change: Callable[[torch.Tensor], Any]) -> Callable[[TensorDict], Any]:
    return lambda td: td["x"]._tensordict.__setitem__("action", change(td["x", "action"]))


MORE: dict[str, Callable[[TensorDict], Any]] = {
    "an entry of a policy": lambda td: td.set(("x", "logits"), torch.ones(64, 1, 9)),
    "an entry at the root": lambda td: td.set("hidden", torch.ones(64, 3)),
    "before the action": lambda td: td["o"]._tensordict.update(
        {"value": torch.ones(64, 1), "action": td["o"]._tensordict.pop("action")}
    ),
}
CHANGES: dict[str, Callable[[TensorDict], Any]] = {
    **MORE,
    "a reward": lambda td: td.set(("x", "reward"), torch.ones(64, 1, 1)),
    "a reward at the root": lambda td: td.set("reward", torch.ones(64, 1)),
    "a node more": lambda td: td.set(("x", "z"), TensorDict({"a": torch.ones(64, 1)}, [64, 1])),
    "words": lambda td: td.set_non_tensor("who", "me"),
    "an entry of the position": lambda td: td.set(("state", "more"), torch.ones(64, 3)),
    "a group more": lambda td: td.set("z", TensorDict({"a": torch.ones(64)}, [64])),
    "next is there": lambda td: td.set("next", TensorDict({"more": torch.ones(64)}, [64])),
    "a mask of steps": lambda td: td.set("_step", torch.ones(64, dtype=torch.bool)),
    "a mask of resets": lambda td: td.set("_reset", torch.ones(64, 1, dtype=torch.bool)),
    "locked": lambda td: td.lock_(),
    "a locked group": lambda td: td["x"].lock_(),
    "without the position": lambda td: td.pop("state"),
    "without a flag": lambda td: td.pop("done"),
    "without a mask": lambda td: td.pop(("x", "action_mask")),
    "without an action": lambda td: td.pop(("x", "action")),
    "without a group": lambda td: td.pop("x"),
    "int32": _action(lambda x: x.int()),
    "fractions": _action(lambda x: x.float()),
    "one dimension less": _action(lambda x: x.squeeze(-1)),
    "too few": _action(lambda x: x[:3]),
    "with gaps": _action(lambda x: x.repeat(1, 2)[:, :1]),
    "illegal": _action(lambda x: x + 9),
    "a parameter": _action(lambda x: torch.nn.Parameter(x, requires_grad=False)),
    "all are over": lambda td: td.set("done", torch.ones(64, 1, dtype=torch.bool)),
    "flags of numbers": lambda td: td.set("done", torch.zeros(64, 1)),
    "a position of other numbers": lambda td: td.set(("state", "code"), td["state", "code"].int()),
    "a position that is none": lambda td: td["state", "code"].fill_(-7),
    "names": lambda td: setattr(td, "names", ["games"]),
    "half of them": lambda td: td.batch_size,
}


def outcome(step: Callable[[Any], Any], env: GameEnv[Any], td: Any) -> Any:
    try:
        return step(td)
    except Exception as error:
        return type(error), str(error), td


@pytest.mark.parametrize("change", CHANGES)
def test_odd_data_have_the_same_result_or_error(change: str, taken: list[bool]) -> None:
    env, other = (GameEnv(TicTacToe(), batch_size=[64], seed=0) for _ in range(2))
    td = begun(env)
    for _ in range(6):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    td = env.rand_action(td)
    again: Any = td.clone()
    for one in (td, again):
        CHANGES[change](one)
    if change == "half of them":
        td, again = td[:32], again[:32]
    taken.clear()
    found = outcome(env.step_and_maybe_reset, env, td), outcome(lambda one: general(other, one), other, again)
    if isinstance(found[0][0], type):
        assert found[0][:2] == found[1][:2]
    for one, its in zip(found[0][-2:], found[1][-2:], strict=True):
        if isinstance(one, TensorDictBase):
            assert not differences(one, its)
            assert list(map(str, one.keys(True))) == list(map(str, its.keys(True)))
    assert (True in taken) == (change in ALSO)


ALSO = {*MORE, "with gaps", "a reward at the root", "all are over", "names"}
"""What the usual step takes."""


def wider(env: GameEnv[Any]) -> Any:
    spec = env.full_action_spec.clone()
    spec["x"] = Composite({"action": Categorical(9, (64, 2))}, shape=(64, 2))
    return spec


def changed_in_place(env: GameEnv[Any]) -> None:
    env.set_spec_lock_(False)
    env.step_and_maybe_reset(env.rand_action(env.reset()))
    env.full_action_spec["x"] = wider(env)["x"]


OPTIONS: dict[str, Callable[[GameEnv[Any]], Any]] = {
    "as they are": lambda env: None,
    "checked": lambda env: setattr(env, "run_type_checks", True),
    "closed": lambda env: env.close(),
    "an illegal move loses": lambda env: setattr(env, "illegal", "lose"),
    "a spec that fits": lambda env: setattr(env, "action_spec", env.full_action_spec.clone()),
    "a spec of two players": lambda env: setattr(env, "action_spec", wider(env)),
    "unlocked, and changed in place": changed_in_place,
}


@pytest.mark.parametrize("option", OPTIONS)
def test_envs_that_are_changed_have_the_same_result_or_error(option: str) -> None:
    env, other = (GameEnv(TicTacToe(), batch_size=[64], seed=0) for _ in range(2))
    for one in (env, other):
        td = begun(one)
        for _ in range(2):
            _, td = one.step_and_maybe_reset(one.rand_action(td))
        td = one.rand_action(td)
        OPTIONS[option](one)
    td["o", "action"][5] = 17  # nobody reads it, and no spec has it
    td["done"][7] = True  # by an illegal move, where one loses
    tds = td, td.clone()
    found = outcome(env.step_and_maybe_reset, env, tds[0]), outcome(lambda one: general(other, one), other, tds[1])
    if isinstance(found[0][0], type):
        assert found[0][:2] == found[1][:2]
        assert not differences(*tds)
    else:
        assert not differences(found[0][0], found[1][0])
        assert not differences(found[0][1], found[1][1])


def test_games_that_an_illegal_move_has_ended_stay_over() -> None:
    """What positions do not say is said by the flags, which are looked at the general way."""
    env, other = (GameEnv(TicTacToe(), batch_size=[64], seed=0, illegal="lose") for _ in range(2))
    td = env.rand_action(begun(env))
    td["x", "action"] = torch.where(torch.arange(64).unsqueeze(-1) % 7 == 0, 20, 4)
    td = env.rand_action(env.step_mdp(env.step(td)))
    assert int(td["done"].sum()) == 10
    again = td.clone()
    results = env.step_and_maybe_reset(td), general(other, again)
    assert int(results[0][0]["next", "done"].sum()) == 10
    for one, its in zip(*results, strict=True):
        assert not differences(one, its)


def test_copies_step_by_themselves(taken: list[bool]) -> None:
    env = GameEnv(TicTacToe(), batch_size=[64], seed=0)
    td = begun(env)
    _, td = env.step_and_maybe_reset(env.rand_action(td))
    other = deepcopy(env)
    data, _ = env.step_and_maybe_reset(env.rand_action(td.clone()))
    again, _ = other.step_and_maybe_reset(other.rand_action(td.clone()))
    assert not differences(data, again)
    assert taken == [True] * 3


class Own(GameEnv[Any]):
    """An env that may have ways of its own."""


def test_what_the_usual_step_does_not_know_is_left_to_the_env(taken: list[bool]) -> None:
    """Kinds of envs whose steps do more than the layout of games with a group per player."""
    few = GameEnv(TicTacToe(), batch_size=[3], seed=0)
    grouped = GameEnv(TicTacToe(), batch_size=[64], seed=0, group_map={"all": ["x", "o"]})
    nested = GameEnv(TicTacToe(), batch_size=[64], seed=0, group_map={"a": {"x": ["x"]}, "b": {"o": ["o"]}})
    against = GameEnv(TicTacToe(), batch_size=[64], seed=0, opponent="random")
    limited = GameEnv(TicTacToe(), batch_size=[64], seed=0, max_plies=3)
    own = Own(TicTacToe(), batch_size=[64], seed=0)
    for env in (few, grouped, nested, against, limited, own):
        td = begun(env)
        for _ in range(12):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert taken == []
