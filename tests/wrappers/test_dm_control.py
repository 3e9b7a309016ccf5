"""DeepMind Control's wrappers beside the simulators themselves, with the same seeds and actions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial, reduce
from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import DMControlEnv, DMControlWrapper, DMSoccerEnv, DMTeamsWrapper, EnvCreator, SerialEnv, check_env_specs
from marlenv.errors import (
    EnvClosed,
    IllegalAction,
    MissingExtra,
    NeedsReset,
    ShapeError,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.testing import run_contract

os.environ.setdefault("MUJOCO_GL", "egl")  # pictures without a screen
pytestmark = [pytest.mark.slow, pytest.mark.sim]
suite = pytest.importorskip("dm_control.suite", reason="needs dm_control: tests/simulators.sh dm_control")
dm_env = pytest.importorskip("dm_env")
TASKS = [("cartpole", "swingup"), ("ball_in_cup", "catch"), ("cheetah", "run")]


@pytest.mark.parametrize(("domain", "task"), TASKS)
def test_every_number_is_the_simulators(domain: str, task: str) -> None:
    env, raw = DMControlEnv(domain, task, time_limit=0.5), None
    raw = suite.load(domain, task, task_kwargs={"random": 7, "time_limit": 0.5})
    env.set_seed(7)
    td, step = env.reset(), raw.reset()
    for _ in range(60):
        for name, value in step.observation.items():
            assert np.array_equal(td[name].numpy().reshape(np.shape(value)), value)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        step = raw.step(data["action"].numpy())
        assert float(data["next", "reward"]) == step.reward
        assert bool(data["next", "truncated"]) is step.last()
        assert not bool(data["next", "terminated"])  # the suite's tasks end by their time alone
        if step.last():
            for name, value in step.observation.items():
                assert np.array_equal(data["next", name].numpy().reshape(np.shape(value)), value)
            step = raw.reset()


def test_frames_are_skipped_and_rewards_added() -> None:
    env, raw = DMControlEnv("cartpole/balance", frame_skip=4), suite.load("cartpole", "balance", {"random": 1})
    env.set_seed(1)
    raw.reset()
    td = env.step(env.rand_action(env.reset()))
    steps = [raw.step(td["action"].numpy()) for _ in range(4)]
    assert float(td["next", "reward"]) == pytest.approx(sum(step.reward for step in steps))
    assert np.array_equal(td["next", "velocity"].numpy(), steps[-1].observation["velocity"])


def test_pixels_are_what_the_camera_sees() -> None:
    env = DMControlEnv("cartpole", "swingup", from_pixels=True, render_kwargs={"height": 32, "width": 48})
    raw = suite.load("cartpole", "swingup", task_kwargs={"random": 2})
    env.set_seed(2)
    td = env.reset()
    raw.reset()
    assert np.array_equal(td["pixels"].numpy(), raw.physics.render(32, 48, camera_id=0))
    assert set(env.observation_spec.keys()) == {"pixels"}
    check_env_specs(env)


def test_the_contract_holds() -> None:
    results = run_contract(lambda: DMControlEnv("cartpole/swingup"), steps=12)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


@pytest.fixture(scope="module")
def soccer() -> Iterator[DMSoccerEnv]:
    env = DMSoccerEnv(2, time_limit=0.4)
    yield env
    env.close()


def test_teams_of_soccer_are_groups(soccer: DMSoccerEnv) -> None:
    from dm_control.locomotion import soccer as game

    assert soccer.group_map == {"home": ["home_0", "home_1"], "away": ["away_0", "away_1"]}
    raw = game.load(team_size=2, time_limit=0.4, walker_type=game.WalkerType.BOXHEAD, random_state=5)
    soccer.set_seed(5)
    td, step = soccer.reset(), raw.reset()
    players = [("home", 0), ("home", 1), ("away", 0), ("away", 1)]
    for _ in range(15):
        for (team, i), seen in zip(players, step.observation, strict=True):
            for name, value in seen.items():
                assert np.array_equal(td[team, name][i].numpy(), np.asarray(value)), (team, i, name)
        data, td = soccer.step_and_maybe_reset(soccer.rand_action(td))
        step = raw.step([data[team, "action"][i].numpy() for team, i in players])
        rewards = [float(data["next", team, "reward"][i]) for team, i in players]
        assert rewards == [float(reward) for reward in step.reward]
        assert bool(data["next", "truncated"]) is step.last()
        assert bool(data["next", "away", "truncated"].all()) is step.last()
        if step.last():
            step = raw.reset()


def test_players_can_be_grouped_otherwise() -> None:
    env = DMSoccerEnv(1, time_limit=0.4, group_map="one_group_per_agent")
    assert set(env.group_map) == {"home_0", "away_0"}
    check_env_specs(env)


class Told:
    """An env of dm_env's kind that ends after three steps as it was told to."""

    def __init__(self, last: Any) -> None:
        self.last, self.steps = last, 0

    def observation_spec(self) -> Any:
        return dm_env.specs.Array((), np.float32)

    def action_spec(self) -> Any:
        return dm_env.specs.DiscreteArray(3)

    def reward_spec(self) -> Any:
        return dm_env.specs.Array((), np.float64)

    def reset(self) -> Any:
        self.steps = 0
        return dm_env.restart(np.float32(0))

    def step(self, action: Any) -> Any:
        assert action in (0, 1, 2)
        self.steps += 1
        return dm_env.transition(1.0, np.float32(self.steps)) if self.steps < 3 else self.last(np.float32(3))


@pytest.mark.parametrize(
    ("last", "terminated"),
    [
        (lambda seen: dm_env.termination(1.0, seen), True),
        (lambda seen: dm_env.truncation(1.0, seen), False),
        (lambda seen: dm_env.truncation(1.0, seen, discount=0.5), False),
        (lambda seen: dm_env.TimeStep(dm_env.StepType.LAST, 1.0, 0.0, seen), True),
    ],
)
def test_the_last_step_terminates_without_discount_and_truncates_with_it(last: Any, terminated: bool) -> None:
    data = DMControlWrapper(Told(last)).rollout(9)
    assert data["next", "observation"].flatten().tolist() == [1, 2, 3]
    assert data["next", "terminated"].flatten().tolist() == [False, False, terminated]
    assert data["next", "truncated"].flatten().tolist() == [False, False, not terminated]
    assert data["action"].shape == (3, 3)  # one-hot


@pytest.mark.parametrize(
    "make",
    [
        lambda: DMControlWrapper(Told(partial(dm_env.termination, 1.0))),
        lambda: DMControlEnv("cartpole/swingup", time_limit=0.03),
    ],
)
def test_a_step_after_the_last_one_is_refused(make: Any) -> None:
    env = make()
    env.rollout(9)
    for _ in range(2):
        with pytest.raises(
            NeedsReset, match=rf"^{type(env).__name__}\.step: the episode is over; call reset\(\) first"
        ):
            env.step(env.rand_action())
    assert env.rollout(9).shape == (3,)


def test_rows_of_a_pool_that_are_over_wait_for_the_others() -> None:
    pool = SerialEnv(2, [partial(DMControlEnv, "cartpole/swingup", time_limit=limit) for limit in (0.03, 0.05)])
    done = pool.rollout(9, break_when_any_done=False, break_when_all_done=True)["next", "done"].squeeze(-1)
    assert done.tolist() == [[False, False, True, True, True], [False, False, False, False, True]]


class Pair(Told):
    """Two of them, which choose."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return (lambda: [value(), value()]) if name.endswith("_spec") else value

    def reset(self) -> Any:
        return super().reset()._replace(observation=[np.float32(0)] * 2)

    def step(self, action: Any) -> Any:
        self.got = [int(one) for one in action]
        return dm_env.transition([1.0, 1.0], [np.float32(1)] * 2)


@pytest.mark.parametrize("number", [-1, 3, 7])
def test_numbers_of_no_choice_are_refused(number: int) -> None:
    one, two = DMControlWrapper(Told(None), categorical_action_encoding=True), DMTeamsWrapper(Pair(None))
    with pytest.raises(IllegalAction, match=rf"^DMControlWrapper.step: .* from 0 to below 3, got {number}$"):
        one.step(one.reset().set("action", torch.tensor(number)))
    td = two.reset()
    with pytest.raises(IllegalAction, match=rf"^DMTeamsWrapper.step: .*'agent_1' .* from 0 to below 3, got {number}$"):
        two.step(td.clone().set(("agents", "action"), torch.tensor([2, number])))
    two.step(td.set(("agents", "action"), torch.tensor([2, 0])))
    assert two._env.got == [2, 0]


@pytest.mark.parametrize("task", ["lqr_2_1", "lqr_6_2"])
def test_a_seed_draws_the_model_where_the_suite_draws_it(task: str) -> None:
    raw, env = suite.load("lqr", task, {"random": 3, "time_limit": 0.3}), DMControlEnv("lqr", task, time_limit=0.3)
    env.reset()
    for _ in range(2):
        env.set_seed(3)
        with pytest.raises(NeedsReset):
            env.step(env.rand_action())
        td, step = env.reset(), raw.reset()
        for _ in range(4):
            assert np.array_equal(td["position"].numpy(), step.observation["position"])
            td = env.step(env.rand_action(td))
            step = raw.step(td["action"].numpy())
            assert float(td["next", "reward"]) == step.reward
            td = env.step_mdp(td)
        raw = suite.load("lqr", task, {"random": 3, "time_limit": 0.3})


class Draws(Told):
    """Draws what it shows at first, as dm_control's composer does."""

    def __init__(self) -> None:
        super().__init__(None)
        self._random_state = np.random.RandomState()

    def reset(self) -> Any:
        return dm_env.restart(np.float32(self._random_state.rand()))


def around(env: Any, name: str) -> Any:
    """A wrapper that has its env under a name, and hands on what is read of it."""
    hands_on = lambda self, other: getattr(vars(self)[name], other)  # noqa: E731
    wrapper = type("Around", (), {"__getattr__": hands_on})()
    vars(wrapper)[name] = env
    return wrapper


@pytest.mark.parametrize("names", [(), ("_env",), ("_env", "_env"), ("_environment", "_env"), ("_env", "_environment")])
def test_seeds_reach_an_env_within_wrappers(names: tuple[str, ...]) -> None:
    env = DMControlWrapper(reduce(around, names, Draws()))
    env.set_seed(5)
    assert float(env.reset()["observation"]) == np.float32(np.random.RandomState(5).rand())


def test_seeds_that_do_not_reach_an_env_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"DMControlWrapper.set_seed: Around has no stream of random numbers"):
        DMControlWrapper(around(Draws(), "inner")).set_seed(5)


def _drawn(render_kwargs: Any) -> DMControlEnv:
    return DMControlEnv("cheetah", "run", from_pixels=True, render_kwargs=render_kwargs)


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: DMControlEnv("cheeta", "run"), UnknownName, "no task 'cheeta/run'; did you mean 'cheetah/run'"),
        (lambda: DMControlEnv(3), UnknownName, "^DMControlEnv: the suite has no task '3/'; known"),
        (lambda: DMControlEnv("cheetah"), UnknownName, "no task 'cheetah/'; did you mean 'cheetah/run'"),
        (lambda: DMControlEnv("cheetah", "run", from_pixel=True), TypeError, "DMControlEnv has no option 'from_pixel'"),
        (lambda: _drawn(3), SpecTypeError, "render_kwargs must be a dict, got 3"),
        (lambda: _drawn({"heigth": 3}), SpecError, "nothing is drawn with render_kwargs=.*'heigth'"),
        (lambda: _drawn({"camera_id": 99}), SpecError, "nothing is drawn with render_kwargs=.*camera_id=99 is invalid"),
        (lambda: _drawn({"camera_id": "x"}), SpecError, "nothing is drawn with render_kwargs=.*'x' does not exist"),
        (lambda: DMControlEnv("cheetah", "run", batch_size=[2]), ShapeError, r"batch_size must be \[\].*got \[2\]"),
        (lambda: DMSoccerEnv(12), SpecError, "^DMSoccerEnv: team_size must be an integer from 1 to 11, got 12"),
        (lambda: DMSoccerEnv("a"), SpecError, "^DMSoccerEnv: team_size must be an integer from 1 to 11, got 'a'"),
        (lambda: DMSoccerEnv(1, 3), UnknownName, "there is no walker 3; known"),
        (lambda: DMSoccerEnv(1, time_limi=3), TypeError, "^DMSoccerEnv has no option 'time_limi', and neither"),
        (lambda: DMControlWrapper("cheetah"), SpecTypeError, "of dm_env, got str; DMControlEnv takes names"),
        (lambda: DMTeamsWrapper(Told(None)), SpecTypeError, "DMControlWrapper takes those with one agent"),
        (lambda: DMSoccerEnv(1, "ANTS"), UnknownName, "there is no walker 'ANTS'; did you mean 'ANT'"),
        (lambda: DMControlWrapper(Told(None)).set_seed(1), Unsupported, "Told has no stream of random numbers"),
        (lambda: DMControlWrapper(Told(None)).step(DMControlWrapper(Told(None)).rand_action()), NeedsReset, "reset"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_an_env_with_several_agents_is_for_the_other_wrapper(soccer: DMSoccerEnv) -> None:
    with pytest.raises(SpecTypeError, match="has several agents; DMTeamsWrapper takes those"):
        DMControlWrapper(soccer._env)


def test_tasks_have_names() -> None:
    env = marlenv.make("dm_control/cartpole/swingup", num_envs=2, seed=0)
    assert env.rollout(3)["position"].shape == (2, 3, 3)
    assert "cheetah/run" in DMControlEnv.available_envs


@pytest.mark.parametrize("make", [partial(DMControlEnv, "cartpole/swingup"), partial(DMSoccerEnv, 1, time_limit=0.4)])
def test_envs_are_sent_to_others_and_close(make: Any) -> None:
    pool = SerialEnv(2, EnvCreator(make))
    rollouts = []
    for _ in range(2):
        pool.set_seed(1)
        rollouts.append(pool.rollout(3))
    assert bool((rollouts[0] == rollouts[1]).all())
    env = make()
    env.close()
    with pytest.raises(EnvClosed):
        env.reset()


@pytest.mark.parametrize("call", [lambda: DMControlEnv("cheetah", "run"), lambda: DMSoccerEnv(1)])
def test_a_missing_simulator_is_named(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dm_control", "dm_control.suite", "dm_control.locomotion.soccer"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingExtra, match=r"needs 'dm_control', which is not installed; .*marlenv-torch\[dm_control\]"
    ):
        call()
    assert DMControlEnv.available_envs == []


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore")
def test_torchrls_wrapper_gives_the_same_entries() -> None:
    libs = pytest.importorskip("torchrl.envs", reason="needs TorchRL: pip install -e '.[torchrl]'")
    theirs, ours = libs.DMControlEnv("cheetah", "run"), DMControlEnv("cheetah", "run")
    actions = torch.rand(5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    rollouts = []
    for env in (theirs, ours):
        env.set_seed(3)
        if env is theirs:
            env._env.task._random = np.random.RandomState(3)  # its own set_seed has reset once already
        td = env.reset()
        steps = []
        for action in actions:
            td = env.step(td.set("action", action.clone()))
            steps.append(td["next"].clone())
            td = env.step_mdp(td)
        rollouts.append(torch.stack(steps))
    theirs_keys = set(rollouts[0].keys(True, True))
    assert theirs_keys == set(rollouts[1].keys(True, True))
    for key in theirs_keys:
        assert torch.equal(rollouts[0][key], rollouts[1][key]), key
