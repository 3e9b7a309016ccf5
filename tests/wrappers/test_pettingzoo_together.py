"""PettingZoo's short ways equal the long ones in everything a user can see, and are taken: the usual step of a parallel
env, and attributes of turn-based ones.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("pettingzoo", reason="needs pettingzoo: pip install -e '.[pettingzoo]'")

from pettingzoo.utils.wrappers import BaseWrapper
from zoo_parallel_game import ParallelGame

from marlenv import PettingZooWrapper
from marlenv.testing.comparison import differences
from marlenv.testing.counting import count_calls
from marlenv.wrappers.pettingzoo.tasks import make_task
from marlenv.wrappers.pettingzoo.together import Together

pytestmark = pytest.mark.sim

TASKS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "simple_spread": ("simple_spread_v3", {"max_cycles": 7}, {}),
    "one-hot": ("simple_spread_v3", {"max_cycles": 7}, {"categorical_actions": False}),
    "continuous": ("simple_tag_v3", {"max_cycles": 7, "continuous_actions": True}, {}),
    "without masks": ("simple_tag_v3", {"max_cycles": 7}, {"use_mask": False}),
    "a group each": ("simple_spread_v3", {"max_cycles": 7}, {"group_map": "one_group_per_agent"}),
    "cut": ("simple_spread_v3", {"max_cycles": 50}, {"max_steps": 4}),
    "pictures": ("pistonball_v6", {"max_cycles": 5, "n_pistons": 5}, {}),
    "pursuit": ("pursuit_v5", {"max_cycles": 7}, {}),
    "multiwalker": ("multiwalker_v9", {"max_cycles": 7}, {}),
}


class Quiet(ParallelGame):
    """A game without infos."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observations, infos = super().reset(*args, **kwargs)
        return observations, {a: {} for a in infos}

    def step(self, actions: Any) -> Any:
        observations, rewards, terminated, truncated, _ = super().step(actions)
        return observations, dict(rewards), terminated, truncated, {a: {} for a in observations}


def pair(make: Any, **options: Any) -> tuple[Any, Any]:
    """The same env twice: by the short way, and by the long way."""
    short, long = PettingZooWrapper(make(), **options), PettingZooWrapper(make(), **options)
    assert isinstance(short._together, Together)
    long._together = None
    for env in (short, long):
        env.set_seed(3)
    return short, long


def played(env: Any, steps: int) -> Any:
    np.random.seed(0)  # butterfly's tasks draw from it
    return env.rollout(steps, break_when_any_done=False)


@pytest.mark.parametrize("case", TASKS)
def test_the_short_way_gives_the_same_data(case: str) -> None:
    task, options, ours = TASKS[case]
    short, long = pair(lambda: make_task(task, True, dict(options)), **ours)
    one, other = played(short, 12), played(long, 12)
    assert not differences(one, other)
    assert list(map(str, one.keys(True))) == list(map(str, other.keys(True)))


@pytest.mark.parametrize(
    "game",
    [
        {},
        {"terminate": {"wolf_0": 3}},
        {"truncate": {"sheep_0": 2, "wolf_1": 5}},
        {"spawn": {"wolf_1": 2}},
        {"vanish": {"wolf_0": 4}},
        {"spawn": {"sheep_0": 3}, "terminate": {"wolf_0": 5}, "vanish": {"wolf_1": 6}},
    ],
    ids=str,
)
@pytest.mark.parametrize("any_ends", [True, False])
def test_agents_that_come_and_go_are_left_to_the_long_way(game: dict[str, Any], any_ends: bool) -> None:
    short, long = pair(lambda: Quiet(**deepcopy(game)), done_on_any=any_ends)
    assert not differences(played(short, 15), played(long, 15))


class Odd(Quiet):
    """A game whose answers are changed in its third step."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change, self.count = change, 0

    def step(self, actions: Any) -> Any:
        answer = list(super().step(actions))
        self.count += 1
        if self.count == 3:
            self.change(answer, self)
        return tuple(answer)


def _set(at: int, agent: str, value: Any) -> Any:
    return lambda answer, game: answer[at].__setitem__(agent, value)


CHANGES = {
    "a list": _set(0, "sheep_0", [0.1, 0.2, 0.3]),
    "another dtype": _set(0, "wolf_0", np.ones(4)),
    "another shape": _set(0, "wolf_0", np.ones(5, np.float32)),
    "nothing seen": _set(0, "wolf_0", None),
    "a stranger": _set(1, "fox_0", 1.0),
    "a reward left out": lambda answer, game: answer[1].pop("wolf_1"),
    "no number": _set(1, "wolf_0", float("nan")),
    "infinities": lambda answer, game: answer[1].update(wolf_0=float("inf"), wolf_1=float("-inf")),
    "an array": _set(1, "wolf_0", np.array([2.0])),
    "whole numbers": lambda answer, game: answer[1].update(dict.fromkeys(answer[1], 3)),
    "other numbers": lambda answer, game: answer[1].update({a: np.float32(0.1) for a in answer[1]}),
    "a flag left out": lambda answer, game: answer[2].clear(),
    "a numpy flag": _set(2, "wolf_1", np.True_),
    "an observation left out": lambda answer, game: answer[0].pop("wolf_0"),
    "no info": lambda answer, game: answer.__setitem__(4, {}),
    "a stranger in the game": lambda answer, game: game.agents.append("fox_0"),
    "too few": lambda answer, game: answer.pop(),
}


@pytest.mark.parametrize("case", CHANGES)
def test_odd_answers_have_the_same_result_or_error(case: str) -> None:
    short, long = pair(lambda: Odd(CHANGES[case]))
    results = []
    for env in (short, long):
        try:
            results.append(played(env, 6))
        except Exception as error:
            results.append((type(error), str(error), getattr(error, "__notes__", [])))
    if isinstance(results[0], tuple):
        assert results[0] == results[1]
    else:
        assert not differences(*results)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("case", ["simple_spread", "one-hot", "continuous"])
def test_simulators_get_the_same_actions(case: str, dtype: torch.dtype) -> None:
    task, options, ours = TASKS[case]
    got: list[list[Any]] = []
    for env in pair(lambda: make_task(task, True, dict(options)), **ours):
        td, told = env.rand_action(env.reset()), []
        for key in env.action_keys:
            if case == "simple_spread":
                td[key] = td[key].to(dtype)
        step = env._env.step
        env._env.step = lambda actions, told=told, step=step: told.append(dict(actions)) or step(actions)  # noqa: B023
        env.step(td)
        got.append([(agent, type(x), x.dtype, x.tolist()) for agent, x in told[0].items()])
    assert got[0] == got[1]


@pytest.mark.parametrize("groups", [None, "one_group_per_agent"])
def test_two_steps_share_no_memory_and_none_is_the_simulators(groups: str | None) -> None:
    sim = make_task("simple_spread_v3", True, {})
    env = PettingZooWrapper(sim, group_map=groups)
    seen: list[Any] = []
    step = sim.step
    sim.step = lambda actions: seen.append(step(actions)) or seen[-1]
    td = env.rand_action(env.reset())
    first, td = env.step_and_maybe_reset(td)
    kept = first["next"].clone()
    second, _ = env.step_and_maybe_reset(env.rand_action(td))
    for value in second["next"].values(True, True):
        value.fill_(1)
    for array in seen[0][0].values():
        array.fill(7)
    assert not differences(first["next"], kept)


def test_the_short_way_is_taken() -> None:
    """Calls per step, ours and what we call, while all agents go on; a gate on the speed without a clock."""

    env = PettingZooWrapper(Quiet())
    env.reset()
    answer = env._env.step(dict.fromkeys(env.agent_names, 0))
    env._env.step = lambda actions: answer
    counts = {}
    for name, together in (("short", env._together), ("long", None)):
        env._together = together
        td = env.rand_action(env.reset())
        env.step(td.clone())
        counts[name] = count_calls(lambda: env.step(td)).total()  # noqa: B023
    assert counts["short"] <= 50
    assert counts["long"] > 1.5 * counts["short"]


def stepped(env: Any, td: Any) -> Any:
    """What ``step_and_maybe_reset`` returned or raised, and what it left of its input."""
    try:
        step, following = env.step_and_maybe_reset(td)
    except Exception as error:
        return type(error), str(error), td
    assert step is td
    return list(map(str, following.keys(True))), step, following


def _drop(td: Any) -> None:
    del td["wolf", "action"]


def _nothing_in_a_group(td: Any) -> None:
    del td["wolf"]


INPUTS: dict[str, Any] = {
    "as it is": lambda td: None,
    "no action": _drop,
    "no group": _nothing_in_a_group,
    "too many": lambda td: td.set(("wolf", "action"), torch.zeros(2, 1, dtype=torch.int64)),
    "out of range": lambda td: td.set(("wolf", "action"), torch.full((2,), 99)),
    "below zero": lambda td: td.set(("wolf", "action"), torch.tensor([0, -1])),
    "fractions": lambda td: td.set(("wolf", "action"), torch.zeros(2)),
    "small numbers": lambda td: td.set(("wolf", "action"), torch.zeros(2, dtype=torch.uint8)),
    "something below next": lambda td: td.set(("next", "wolf", "extra"), torch.ones(2)),
    "a mask of steps": lambda td: td.set("_step", torch.tensor(False)),
    "more entries": lambda td: td.set("mine", torch.ones(3)).set(("wolf", "mine"), torch.ones(2)),
    "more groups": lambda td: td.set(("mine", "deep", "er"), torch.ones(3)).set(("wolf", "mine", "er"), torch.ones(2)),
    "texts": lambda td: td.set("mine", "text"),
    "locked": lambda td: td.lock_(),
}


@pytest.mark.parametrize("case", INPUTS)
def test_steps_with_resets_are_the_same_whatever_is_given(case: str) -> None:
    got = []
    for env in pair(lambda: Quiet(truncate=dict.fromkeys(("wolf_0", "wolf_1", "sheep_0"), 4))):
        found, td = [], env.reset()
        for i in range(6):
            td = env.rand_action(td)
            if i == 2:
                INPUTS[case](td)
            found.append(stepped(env, td))
            if not isinstance(found[-1][0], list):
                break
            td = found[-1][2].unlock_()
        got.append(found)
    for one, other in zip(*got, strict=True):
        assert one[0] == other[0]
        for a, b in zip(one[1:], other[1:], strict=True):
            assert a == b if isinstance(a, str) else not differences(a, b)


@pytest.mark.parametrize("change", ["closed", "checked", "never reset"])
def test_envs_that_ask_for_more_take_the_long_way(change: str) -> None:
    got = []
    too_large = _set(0, "wolf_0", np.full(4, 5.0, np.float32))  # 1 is the most
    for env, fresh in zip(*(pair(lambda: Odd(too_large)) for _ in range(2)), strict=True):
        td = env.rand_action(env.reset())
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
        if change == "closed":
            env.close()
        env.run_type_checks = change == "checked"
        got.append(stepped(fresh if change == "never reset" else env, td))
    assert got[0][:2] == got[1][:2]
    assert isinstance(got[0][1], str)


@pytest.mark.parametrize("at", [0, 1], ids=["observation", "reward"])
def test_a_step_that_fails_leaves_no_answer_behind(at: int) -> None:
    """What the simulator answered is of one step, and not of the next one."""
    got = []
    for env in pair(lambda: Odd(_set(at, "wolf_0", "nothing"))):
        td = env.rand_action(env.reset())
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
        td = env.rand_action(env.step_and_maybe_reset(td)[1])
        kept = td.clone()
        with pytest.raises(Exception, match="wolf_0"):
            env.step_and_maybe_reset(td)
        got.append(env.step_and_maybe_reset(kept)[1])
        assert env._env.count == 4
    assert not differences(*got)


def test_a_step_with_resets_asks_the_simulator_once() -> None:
    env = PettingZooWrapper(Quiet(truncate=dict.fromkeys(("wolf_0", "wolf_1", "sheep_0"), 3)))
    counted, td = [], env.reset()
    step = env._env.step
    env._env.step = lambda actions: counted.append(1) or step(actions)
    for i in range(7):
        td = env.step_and_maybe_reset(env.rand_action(td))[1]
        assert len(counted) == i + 1


class Telling(BaseWrapper):
    """A wrapper that has rewards of its own, from some step on."""

    def __init__(self, env: Any, begin: int) -> None:
        super().__init__(env)
        self.begin = begin
        self.count = 0

    def step(self, action: Any) -> None:
        super().step(action)
        self.count += 1
        if self.count >= self.begin:
            self.rewards = dict.fromkeys(self.env.rewards, 5.0)


class Negative(BaseWrapper):
    @property
    def rewards(self) -> Any:
        return dict.fromkeys(self.env.rewards, -1.0)


@pytest.mark.parametrize("begin", [1, 3])
def test_rewards_that_a_wrapper_has_itself_are_the_ones(begin: int) -> None:
    env = PettingZooWrapper(Telling(make_task("tictactoe_v3", False, {}), begin))
    td = env.reset()
    got = []
    for move in range(4):
        td["player", "action"] = torch.full((2,), move)
        step, td = env.step_and_maybe_reset(td)
        got.append(step["next", "player", "reward"].max().item())
    assert got == [0.0 if i + 1 < begin else 5.0 for i in range(4)]


def test_rewards_that_a_wrapper_computes_are_the_ones() -> None:
    env = PettingZooWrapper(Negative(make_task("tictactoe_v3", False, {})))
    env.set_seed(0)
    assert (env.rollout(3)["next", "player", "reward"] == -1).all()


def test_a_wrapper_put_between_is_seen() -> None:
    sim = make_task("tictactoe_v3", False, {})
    env = PettingZooWrapper(sim)
    td = env.rand_step(env.reset())
    assert not td["next", "player", "reward"].any()
    sim.env = Negative(sim.env)
    assert (env.rand_step(env.step_mdp(td))["next", "player", "reward"] == -1).all()


def test_attributes_are_read_inside_of_pettingzoos_wrappers() -> None:
    sim = make_task("tictactoe_v3", False, {})
    env = PettingZooWrapper(sim)
    env.reset()
    assert env._interface._bare() is sim.unwrapped is not sim
