"""Our envs as ALF's batched environments and back. ALF is on no registry: its chapter is the contract, name by name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import marlenv
from marlenv import SerialEnv, from_alf, to_alf
from marlenv.errors import EnvClosed, ShapeError, SpecError, SpecTypeError, Unsupported
from marlenv.interop.alf import (
    AlfEnvironment,
    KeepUntransformed,
    ParallelAlfEnvironment,
    StepType,
    ThreadEnvironment,
    TimeStep,
    create_environment,
    create_eval_environment,
    load,
    suite,
)
from marlenv.testing.mocks import CountingEnv

FIELDS = ["step_type", "reward", "discount", "observation", "prev_action", "env_id", "untransformed", "env_info"]
SPECS = ["env_info_spec", "time_step_spec", "observation_spec", "action_spec", "reward_spec"]


def task(num_envs: int = 4, **options: Any) -> Any:
    return marlenv.make("simple_spread", num_envs=num_envs, compile="none", **{"max_steps": 7, **options})


def test_names_are_those_of_the_chapter() -> None:
    assert list(TimeStep._fields) == FIELDS
    assert TimeStep() == ((),) * 8  # the default of every field
    assert [one.name for one in StepType] == ["FIRST", "MID", "LAST"]
    assert [name for name in SPECS if not callable(getattr(AlfEnvironment, name))] == []
    assert AlfEnvironment.batched


def test_the_four_rows_of_step_type_and_discount() -> None:
    """FIRST 1, MID 1, LAST 0 at a normal end, LAST 1 at a time limit; FIRST again after a LAST."""
    envs = [marlenv.TransformedEnv(CountingEnv(max_steps=n), marlenv.TimeLimit(m)) for n, m in ((9, 9), (2, 9), (9, 2))]
    alf = to_alf(SerialEnv(3, [lambda env=env: env for env in envs]))
    F, M, L = (int(one) for one in StepType)
    time_steps = [alf.reset(), *(alf.step(torch.ones(3, 1)) for _ in range(4))]
    assert [one.step_type.tolist() for one in time_steps] == [[F, F, F], [M, M, M], [M, L, L], [M, F, F], [M, M, M]]
    assert [one.discount.tolist() for one in time_steps] == [[1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 1]]
    assert [one.reward.tolist() for one in time_steps] == [[0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 0, 0], [1, 1, 1]]
    seen = [one.observation["observation"].flatten().tolist() for one in time_steps]
    assert seen == [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 0, 0], [4, 1, 1]]
    assert [one.prev_action.flatten().tolist() for one in time_steps][3] == [1, 0, 0]
    assert time_steps[3].is_first().tolist() == [False, True, True]
    assert time_steps[2].is_last().tolist() == [False, True, True]
    assert time_steps[1].is_mid().all()
    assert time_steps[0].env_id.tolist() == [0, 1, 2]


def test_time_steps_are_as_their_spec_says() -> None:
    alf = to_alf(task())
    alf.seed(3)
    for step in range(9):
        now = alf.current_time_step() if step == 0 else alf.step(torch.zeros(4, 3, 2))
        spec = alf.time_step_spec()
        for name in FIELDS[:6]:
            value, one = getattr(now, name), getattr(spec, name)
            assert (tuple(value.shape), value.dtype) == ((4, *one.shape), one.dtype), name
        assert alf.current_time_step() is now


def test_numbers_are_those_of_our_env() -> None:
    alf, env = to_alf(task()), task()
    alf.seed(5)
    env.set_seed(5)
    td, now = env.reset(), alf.reset()
    for step in range(7):
        assert torch.equal(now.observation, td["agents", "observation"])
        action = torch.rand(4, 3, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        data, now = env.step(td.set(("agents", "action"), action)), alf.step(action)
        assert torch.equal(now.reward, data["next", "agents", "reward"].flatten(1).sum(-1))
        assert torch.equal(now.prev_action, action)
        td = env.step_mdp(data)
    assert now.is_last().all()
    assert (now.discount == 1).all()


def test_there_and_back_again_is_the_same_trajectory() -> None:
    back, env = from_alf(to_alf(task())), task()
    for one in (back, env):
        one.set_seed(3)
    td, other = env.reset(), back.reset()
    for step in range(20):
        action = torch.rand(4, 3, 2, generator=torch.Generator().manual_seed(step)) * 2 - 1
        data, td = env.step_and_maybe_reset(td.set(("agents", "action"), action))
        theirs, other = back.step_and_maybe_reset(other.set("action", action))
        assert torch.equal(data["next", "agents", "observation"], theirs["next", "observation"]), step
        assert torch.allclose(data["next", "agents", "reward"].flatten(1).sum(-1, True), theirs["next", "reward"])
        assert torch.equal(data["next", "truncated"], theirs["next", "truncated"])
        assert torch.equal(td["agents", "observation"], other["observation"]), step


class Robot:
    """A single environment with ALF's interface, written by hand: it walks, and falls or runs out of time."""

    batch_size, batched = 1, True

    def __init__(self, falls: bool) -> None:
        self.falls, self.at = falls, 0

    def observation_spec(self) -> Any:
        return to_alf(marlenv.SerialEnv(1, marlenv.PendulumEnv)).reward_spec()._replace(shape=(1,))

    def action_spec(self) -> Any:
        return self.observation_spec()._replace(minimum=-1.0, maximum=1.0)

    def time_step(self, kind: StepType, reward: float, discount: float) -> TimeStep:
        one = torch.ones(1)
        return TimeStep(one.int() * int(kind), one * reward, one * discount, one[None] * self.at)

    def reset(self) -> TimeStep:
        self.at = 0
        return self.time_step(StepType.FIRST, 0, 1)

    def step(self, action: torch.Tensor) -> TimeStep:
        self.at += 1
        if self.at < 3:
            return self.time_step(StepType.MID, float(action), 1)
        return self.time_step(StepType.LAST, float(action), 0 if self.falls else 1)


@pytest.mark.parametrize("falls", [True, False])
def test_an_environment_of_alf_as_ours(falls: bool) -> None:
    env = SerialEnv(2, lambda: from_alf(Robot(falls)))
    data = env.rollout(7, lambda td: td.set("action", torch.full((2, 1, 1), 0.5)), break_when_any_done=False)
    assert data["observation"][0].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert data["next", "observation"][0].flatten().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert data["next", "reward"][0].flatten().tolist() == [0.5] * 7
    ends = [False, False, True, False, False, True, False]
    for name in ("terminated", "truncated"):
        want = ends if (name == "terminated") == falls else [False] * 7
        assert data["next", name][0].flatten().tolist() == want


def robotics(name: str, max_episode_steps: int | None = None) -> Any:
    """A stand-in of ALF's suite of robots: single environments."""
    assert name == "FetchReach-v1"
    return CountingEnv(max_steps=50)


def carla(name: str, num_envs: int) -> Any:
    """A stand-in of ALF's suite of Carla: an environment with rows."""
    assert name == "Town01"
    return CountingEnv(max_steps=50, batch_size=[num_envs])


@pytest.mark.slow
def test_suites_and_create_environment() -> None:
    made = create_environment("simple_spread", num_parallel_environments=3, seed=4, max_episode_steps=5)
    again = create_environment("simple_spread", num_parallel_environments=3, seed=4, max_episode_steps=5)
    assert torch.equal(made.reset().observation, again.reset().observation)
    first = made.current_time_step().observation
    assert not torch.equal(first[0], first[1])
    last = [made.step(torch.zeros(3, 3, 2)) for _ in range(5)][-1]
    assert last.is_last().all()
    assert (last.discount == 1).all()

    rows = suite(carla, batched=True)
    assert rows.batched
    assert type(create_environment("Town01", rows, num_parallel_environments=4)) is AlfEnvironment
    robots = suite(robotics, batched=False)
    assert not robots.batched
    one = create_environment("FetchReach-v1", robots, nonparallel=True, max_episode_steps=3)
    assert isinstance(one, ThreadEnvironment)
    one.reset()
    ends = [one.step(torch.zeros(1, 1)) for _ in range(3)][-1]
    assert (ends.is_last().item(), ends.discount.item()) == (True, 1.0)
    many = create_environment("FetchReach-v1", robots, num_parallel_environments=2)
    assert isinstance(many, ParallelAlfEnvironment)
    assert isinstance(many.inner, marlenv.ParallelEnv)
    assert many.reset().observation.flatten().tolist() == [0, 0]
    many.close()


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_the_envs_own_holds(limit: int | None) -> None:
    made = load("simple_spread", batch_size=2, max_episode_steps=limit, max_steps=4)
    made.reset()
    assert [bool(made.step(torch.zeros(2, 3, 2)).is_last().all()) for _ in range(4)] == [False, False, False, True]


def test_rows_that_go_on_keep_their_untransformed_time_step() -> None:
    chain = marlenv.Compose(KeepUntransformed(), marlenv.RewardScaling(0, 0.1))
    changed, plain = (
        to_alf(env if bare else marlenv.TransformedEnv(env, chain))
        for env, bare in ((CountingEnv(max_steps=9, batch_size=[3]), bare) for bare in (False, True))
    )
    for one in (changed, plain):
        one.reset()
        one.step(torch.ones(3, 1))
    now, want = (one.reset_rows(torch.tensor([True, False, False])) for one in (changed, plain))
    F, M, _ = (int(one) for one in StepType)
    assert now.step_type.tolist() == now.untransformed.step_type.tolist() == [F, M, M]
    assert now.untransformed.reward.tolist() == [0, 1, 1]
    for name in ("step_type", "reward", "discount", "prev_action"):
        assert torch.equal(getattr(now.untransformed, name), getattr(want, name)), name
    torch.testing.assert_close(now.reward, want.reward * 0.1)


@pytest.mark.slow
def test_the_environment_beside_training() -> None:
    """The table of ``evaluate`` and ``no_thread_env_for_conf``."""
    make = partial(robotics, "FetchReach-v1")
    thread, parallel = ThreadEnvironment(make), ParallelAlfEnvironment([make])
    for conf, evaluate, train, want in (
        (True, True, thread, ParallelAlfEnvironment),
        (True, False, parallel, type(None)),
        (False, True, thread, ThreadEnvironment),
        (False, False, parallel, ThreadEnvironment),
        (False, False, thread, type(None)),
    ):
        made = create_eval_environment(train, make, evaluate=evaluate, no_thread_env_for_conf=conf)
        assert type(made) is want
        if made is not None:
            assert made.batch_size == 1
            made.close()
    parallel.close()


def test_turns_and_masks_are_nests() -> None:
    alf = to_alf(marlenv.make("connect_four", num_envs=2, opponent="random", seed=0))
    assert set(alf.observation_spec()) == {"observation", "action_mask"}
    assert alf.action_spec()[2:] == (0, 6)
    now = alf.reset()
    assert now.observation["action_mask"].all()
    for _ in range(30):
        now = alf.step(now.observation["action_mask"].int().argmax(-1))
        assert torch.equal(now.discount == 0, now.is_last())


def closed() -> Any:
    env = task()
    alf = to_alf(env)
    env.close()
    return alf.reset()


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_alf("simple_spread"), SpecTypeError, "expected an env of marlenv, got str"),
        (lambda: to_alf(marlenv.make("simple_tag", num_envs=2)), SpecTypeError, "one group, acts, got actions"),
        (lambda: to_alf(CountingEnv()), Unsupported, r"an env with rows, got batch size \[\]"),
        (lambda: from_alf(3), SpecTypeError, r"got int without \['batch_size', 'observation_spec'"),
        (lambda: create_environment("x", robotics), Unsupported, "has no .batched"),
        (lambda: create_environment("simple_spread", num_parallel_environments=0), SpecError, "from 1 on, got 0"),
        (lambda: load("simple_spread", batch_size=0), SpecError, "batch_size must be an integer from 1 on, got 0"),
        (lambda: suite(robotics, batched=False)("FetchReach-v1", batch_size=3), Unsupported, "got batch_size=3; for 3"),
        (closed, EnvClosed, "closed"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_actions_of_another_shape_are_refused() -> None:
    """Actions ``[A, B]`` have as many numbers as ``[B, A]``, and would be those of other agents and rows."""
    alf = to_alf(task(num_envs=4, continuous_actions=False))
    alf.reset()
    says = r"to_alf: actions must have shape \[4, 3\], got \[3, 4\]; each is one of AlfSpec"
    with pytest.raises(ShapeError, match=says):
        alf.step(torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"got \[4\]"):
        alf.step(torch.zeros(4, dtype=torch.int64))
    assert alf.step(torch.zeros(4, 3, dtype=torch.int64)).is_mid().all()
