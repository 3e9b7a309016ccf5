"""PettingZoo's envs that a series steps at once: the same as stepping each by itself, in data and in errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from pettingzoo.classic.rps import rps as game_of_rps
from pettingzoo.utils.conversions import aec_to_parallel
from twin_envs import assert_same_data
from zoo_parallel_game import ParallelGame

from marlenv import PettingZooEnv, PettingZooWrapper, SerialEnv
from marlenv.errors import KeyMissing, NeedsReset, ShapeError, SpecError


class Quiet(ParallelGame):
    """Says nothing in its infos; lies when it is told to."""

    lie: Any = None

    def _infos(self, agents: list[str]) -> dict[str, dict[str, Any]]:
        return {a: {} for a in agents}

    def step(self, actions: dict[str, Any]) -> Any:
        observations, rewards, *rest = super().step(actions)
        if self.lie == "raise":
            self.lie = None
            raise ValueError("broken")
        if self.lie == "nan":
            rewards["wolf_1"] = float("nan")
        if self.lie == "shape":
            observations["wolf_1"] = np.zeros(5, np.float32)
        if self.lie == "nothing":
            observations["wolf_1"] = None
        return observations, rewards, *rest


def rps(**options: Any) -> PettingZooWrapper:
    return PettingZooWrapper(aec_to_parallel(game_of_rps.raw_env(max_cycles=4)), **options)


def quiet(*, wrapper: Any = None, **options: Any) -> PettingZooWrapper:
    return PettingZooWrapper(Quiet(**options), **(wrapper or {}))


spread, tag = (partial(PettingZooEnv, name, max_cycles=4) for name in ("simple_spread_v3", "simple_tag_v3"))
EVERYBODY = {"done_on_any": False}
GROUPS = [("one", ["agent_0"]), ("two", ["agent_1", "agent_2"])]

ENVS: dict[str, list[Any]] = {
    "one group": [spread] * 3,
    "two groups": [tag] * 3,
    "lengths that differ": [partial(PettingZooEnv, "simple_spread_v3", max_cycles=n) for n in (2, 5, 3)],
    "time limits": [partial(spread, max_steps=n) for n in (2, None, 3)],
    "continuous actions": [partial(spread, continuous_actions=True)] * 3,
    "one-hot actions": [partial(spread, categorical_actions=False)] * 3,
    "without masks": [partial(spread, use_mask=False)] * 3,
    "a group per agent": [partial(spread, group_map="ONE_GROUP_PER_AGENT")] * 3,
    "actions that are repeated": [partial(spread, frame_skip=2)] * 3,
    "numbers of choices": [rps] * 3,
    "deaths": [partial(quiet, terminate={"wolf_0": n}, wrapper=EVERYBODY) for n in (2, 3, 9)],
    "deaths and time limits": [
        partial(quiet, terminate={"wolf_0": n}, truncate={"sheep_0": 2}, wrapper={**EVERYBODY, "max_steps": 4})
        for n in (2, 3, 9)
    ],
    "births": [partial(quiet, spawn={"wolf_1": n}, truncate={"sheep_0": 5}) for n in (2, 1, 3)],
    "leavers": [partial(quiet, vanish={"wolf_1": n}, wrapper=EVERYBODY) for n in (2, 3, 9)],
    "infos": [lambda: PettingZooWrapper(ParallelGame(truncate={"sheep_0": 4}))] * 3,
    "legal actions": [lambda: PettingZooWrapper(ParallelGame(truncate={"sheep_0": 4}, masked=True))] * 3,
    "groups in another order": [partial(spread, group_map=dict(pairs)) for pairs in (GROUPS, GROUPS[::-1], GROUPS)],
    "a state": [partial(spread, return_state=True)] * 3,
    "turns": [partial(PettingZooEnv, "tictactoe_v3")] * 3,
}
ONE_BY_ONE = {"infos", "legal actions", "groups in another order", "a state", "turns"}


def one_by_one(makers: list[Any], **options: Any) -> SerialEnv:
    """A series whose envs are stepped by themselves."""
    env = SerialEnv(3, makers, **options)
    env._beside = lambda: None
    return env


@pytest.mark.parametrize("name", ENVS)
def test_at_once_is_one_by_one(name: str) -> None:
    pair = SerialEnv(3, ENVS[name]), one_by_one(ENVS[name])
    pair[0].reset()
    assert (pair[0]._beside() is None) == (name in ONE_BY_ONE)
    for how in ({}, {"break_when_any_done": False}):
        data = []
        for env in pair:
            env.set_seed(4)
            data.append(env.rollout(9, **how))
        assert_same_data(*data)
    steps = [env.rand_step(env.reset())["next"] for env in pair]
    assert [*steps[0].keys(True)] == [*steps[1].keys(True)]
    assert [one.batch_size for one in steps[0].values() if not isinstance(one, torch.Tensor)] == [
        one.batch_size for one in steps[1].values() if not isinstance(one, torch.Tensor)
    ]
    leaves = [[*one.values(True, True)] for one in steps]
    spaces = [[value.untyped_storage().nbytes() for value in one] for one in leaves]
    assert spaces[0] == spaces[1], "every entry has memory of its own, and no more than it needs"
    assert len({value.untyped_storage().data_ptr() for value in leaves[0]}) == len(leaves[0])


def test_what_was_handed_out_is_not_written_again() -> None:
    env = SerialEnv(3, ENVS["numbers of choices"])
    data = env.rand_step(env.reset())
    kept = data.clone()
    env.rand_step(env.step_mdp(data))
    assert_same_data(data, kept)


@pytest.mark.parametrize("how", ["raise", "restart"])
def test_one_that_fails_among_them(how: str) -> None:
    found: list[Any] = []
    for make in (partial(SerialEnv, 3), one_by_one):
        env = make([quiet] * 3, on_failure=how)
        env.set_seed(1)
        td = env.step_mdp(env.rand_step(env.reset()))
        env.children_envs[1]._env.lie = "raise"
        if how == "raise":
            with pytest.raises(ValueError, match="broken") as caught:
                env.rand_step(td)
            found.append(caught.value.__notes__)
            continue
        found.append(env.rand_step(td))
        assert env.failures.tolist() == [0, 1, 0]
        assert found[-1]["next", "truncated"].flatten().tolist() == [False, True, False]
    if how == "raise":
        assert found == [["in env 1 of the pool"]] * 2
    else:
        assert_same_data(*found)


@pytest.mark.parametrize(
    ("lie", "error", "says"),
    [
        ("nan", SpecError, "the reward of agent 'wolf_1' is not a number, got nan"),
        ("shape", ShapeError, r"entry 'observation' of agent 'wolf_1' must have shape \[4\], got \[5\]"),
        ("nothing", KeyMissing, "agent 'wolf_1' is there and has no 'observation'"),
    ],
)
def test_errors_are_those_of_one_by_one(lie: str, error: type[Exception], says: str) -> None:
    texts = []
    for make in (partial(SerialEnv, 3), one_by_one):
        env = make([quiet] * 3)
        td = env.rand_action(env.reset())
        env.children_envs[2]._env.lie = lie
        with pytest.raises(error, match=says) as caught:
            env.step(td)
        texts.append((str(caught.value), caught.value.__notes__))
    assert texts[0] == texts[1]
    assert texts[0][1][-1] == "in env 2 of the pool"


def test_a_series_must_be_reset_before_it_is_stepped() -> None:
    for make in (partial(SerialEnv, 3), one_by_one):
        env = make([quiet] * 3)
        with pytest.raises(NeedsReset):
            env.step(env.rand_action(env.full_observation_spec.zero()))


def test_what_is_changed_of_an_env_later_is_heeded() -> None:
    env = SerialEnv(3, [quiet] * 3)
    td = env.rand_action(env.reset())
    assert env._beside() is not None
    calls = []
    real = env.children_envs[1]._step
    env.children_envs[1]._step = lambda td: calls.append(1) or real(td)
    env.step(td)
    assert calls == [1]


def test_classes_of_users_are_stepped_one_by_one() -> None:
    class Mine(PettingZooWrapper):
        def sim_play(self, actions: dict[str, Any]) -> Any:
            return super().sim_play(actions)

    env = SerialEnv(2, lambda: Mine(Quiet()))
    env.reset()
    assert env._beside() is None
