"""ALF's chapter of environments, name by name: what answers each, and that it does.

ALF is on no registry; its batched environments, and the suites of robots and of Carla, are stand-ins written here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import marlenv
from marlenv import Compose, RecordEpisodeStats, SerialEnv, TransformedEnv, from_alf, to_alf
from marlenv.errors import ResetError, SpecError, Unsupported
from marlenv.interop import alf
from marlenv.interop.alf import (
    AlfSpec,
    KeepUntransformed,
    ParallelAlfEnvironment,
    StepType,
    ThreadEnvironment,
    TimeStep,
    create_environment,
    suite,
)
from marlenv.testing import run_contract
from marlenv.testing.mocks import CountingEnv

MIGRATE = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()
PAGE = "a line of docs/migrate.md"
ANSWERS: dict[str, str] = {
    "gym.Env": "marlenv:EnvBase",
    "gym.Wrapper": "marlenv:Transform",
    "gym.ObservationWrapper": "marlenv:Transform",
    "alf.environments.gym_wrappers": "marlenv:transforms",
    "FrameStack": PAGE,
    "FrameSkip": PAGE,
    "NormalizedAction": PAGE,
    "SparseReward": PAGE,
    "ObservationClipWrapper": PAGE,
    "NonEpisodicEnv": PAGE,
    "AverageEnvInfoMetric": PAGE,
    "AverageReturnMetric": PAGE,
    "AverageEpisodeLengthMetric": PAGE,
    "AlfGymWrapper": "marlenv.interop.alf:AlfEnvironment",
    "AlfEnvironment": "marlenv.interop.alf:AlfEnvironment",
    "AlfEnvironmentBaseWrapper": "marlenv:Transform",
    "alf.environments.alf_wrappers": "marlenv:transforms",
    "alf_wrappers.TimeLimit": "marlenv:TimeLimit",
    "TimeStep": "marlenv.interop.alf:TimeStep",
    **{f"TimeStep.{name}": f"marlenv.interop.alf:TimeStep.{name}" for name in TimeStep._fields},
    **{f"StepType.{one.name}": f"marlenv.interop.alf:StepType.{one.name}" for one in StepType},
    **{
        name: f"marlenv.interop.alf:AlfEnvironment.{name}"
        for name in (
            "env_info_spec",
            "time_step_spec",
            "observation_spec",
            "action_spec",
            "reward_spec",
            "reset",
            "step",
        )
    },
    "alf.tensor_specs": "marlenv.interop.alf:AlfSpec",
    "ParallelAlfEnvironment": "marlenv.interop.alf:ParallelAlfEnvironment",
    "ThreadEnvironment": "marlenv.interop.alf:ThreadEnvironment",
    "TrainerConfig.evaluate": "marlenv.interop.alf:create_eval_environment",
    "TrainerConfig.no_thread_env_for_conf": "marlenv.interop.alf:create_eval_environment",
    "load": "marlenv.interop.alf:load",
    "load.batched": "marlenv.interop.alf:load.batched",
    "suite_gym.load": "marlenv.interop.alf:suite",
    "suite_robotics.load": "marlenv.interop.alf:suite",
    "suite_carla": "marlenv.interop.alf:suite",
    "create_environment": "marlenv.interop.alf:create_environment",
}
"""Every class, function, field and flag that the chapter names, and what answers it."""


@pytest.mark.parametrize("name", ANSWERS)
def test_a_name_of_the_chapter_is_answered(name: str) -> None:
    answer = ANSWERS[name]
    if answer is PAGE:
        assert re.search(rf"^\| ALF [^|]*`{name}\b", MIGRATE, re.M), name
        return
    module, _, attribute = answer.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    assert found is not None


def test_answers_are_listed_in_the_package() -> None:
    ours = {a.partition(":")[2].partition(".")[0] for a in ANSWERS.values() if a.startswith("marlenv.interop.alf")}
    assert ours <= set(alf.__all__)


# --- stand-ins -----------------------------------------------------------------------------------


class Carla:
    """A batched environment with ALF's interface, written by hand over tensors: cars drive until they arrive.

    Row ``i`` arrives after ``2 + i`` steps, the last row runs out of time instead. Rows start anew by themselves.
    """

    batched = True

    def __init__(self, batch_size: int = 3) -> None:
        self.batch_size = batch_size
        self.limit = torch.arange(batch_size) + 2
        self.seeds: list[int] = []

    def observation_spec(self) -> Any:
        return {"at": AlfSpec((1,)), "lane": AlfSpec((), torch.int64, 0, 4)}

    def action_spec(self) -> Any:
        return AlfSpec((1,), torch.float32, np.float32(-1), np.float32(1))

    def reward_spec(self) -> Any:
        return AlfSpec(())

    def env_info_spec(self) -> Any:
        return {"speed": AlfSpec(())}

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)

    def reset(self) -> TimeStep:
        self.at, self.lane = torch.zeros(self.batch_size), torch.zeros(self.batch_size)
        self.now = self.time_step(torch.ones(self.batch_size, dtype=torch.bool), torch.zeros(self.batch_size))
        return self.now

    def step(self, action: Tensor) -> TimeStep:
        first = self.now.is_last()
        moved = action.reshape(-1)
        self.at = torch.where(first, 0.0, self.at + 1)
        self.lane = torch.where(first, 0.0, self.lane + moved)
        self.now = self.time_step(first, torch.where(first, 0.0, moved))
        return self.now

    def time_step(self, first: Tensor, reward: Tensor) -> TimeStep:
        last = self.at >= self.limit
        kind = torch.where(first, 0, torch.where(last, 2, 1)).int()
        cut = torch.arange(self.batch_size) == self.batch_size - 1
        observation = {"at": self.at.unsqueeze(-1), "lane": self.lane.abs().long().clamp(max=4)}
        discount = torch.where(last & ~cut, 0.0, 1.0)
        return TimeStep(kind, reward, discount, observation, env_info={"speed": reward * 10})


def drive(env: Any, steps: int) -> Any:
    return env.rollout(steps, lambda td: td.set("action", torch.full((3, 1), 0.5)), break_when_any_done=False)


def test_a_batched_environment_as_ours() -> None:
    """Rows that ALF starts anew in the step after their last one: that step is masked, and no row moves for another."""
    data = drive(from_alf(Carla()), 7)
    at, after = data["at"][..., 0].tolist(), data["next", "at"][..., 0].tolist()
    assert at == [[0, 1, 2, 0, 1, 2, 0], [0, 1, 2, 3, 0, 1, 2], [0, 1, 2, 3, 4, 0, 1]]
    assert after == [[1, 2, 0, 1, 2, 0, 1], [1, 2, 3, 0, 1, 2, 3], [1, 2, 3, 4, 0, 1, 2]]
    mask = [[1, 1, 0, 1, 1, 0, 1], [1, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 0, 1, 1]]
    assert data["mask"][..., 0].int().tolist() == mask
    assert torch.equal(data["next", "reward"], 0.5 * data["mask"])
    assert torch.equal(data["next", "info", "speed"], 5.0 * data["mask"][..., 0])
    ends = {"terminated": [[0, 1, 0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0, 1], [0] * 7],
            "truncated": [[0] * 7, [0] * 7, [0, 0, 0, 1, 0, 0, 0]]}  # fmt: skip
    for name, want in ends.items():
        assert data["next", name][..., 0].int().tolist() == want
    assert torch.equal(data["next", "done"], data["next", "terminated"] | data["next", "truncated"])


def test_its_specs_and_seeds() -> None:
    inner = Carla()
    env = from_alf(inner)
    assert env.full_observation_spec["lane"] == marlenv.Categorical(5, (3,))
    assert env.action_spec == marlenv.Bounded(-1, 1, (3, 1))
    env.set_seed(7)
    assert inner.seeds == [7]


def test_the_contract_holds_of_it_but_for_one_clause() -> None:
    """The clause resets rows that are not over, which ALF's environments cannot."""
    broken = {one.name: one.says for one in run_contract(lambda: from_alf(Carla())) if one.verdict == "broken"}
    assert list(broken) == ["partial_resets_keep_other_rows"]
    assert "start anew by themselves" in broken["partial_resets_keep_other_rows"]


def test_what_a_batched_environment_cannot_do_is_named() -> None:
    env = from_alf(Carla())
    td = env.reset()
    td = env.step_mdp(env.step(td.set("action", torch.zeros(3, 1))))
    with pytest.raises(ResetError, match=r"start anew by themselves .* rows \[1\], which are not over"):
        env.reset(td.clone().set("_reset", torch.tensor([[False], [True], [False]])))
    with pytest.raises(Unsupported, match=r"stepped at once, got a '_step' that leaves out \[0\]"):
        env.step(td.set("action", torch.zeros(3, 1)).set("_step", torch.tensor([[False], [True], [True]])))

    class Lists(Carla):
        def observation_spec(self) -> Any:
            return [AlfSpec(())]

    class Hands(Carla):
        def action_spec(self) -> Any:
            return {"left": AlfSpec(()), "right": AlfSpec(())}

    with pytest.raises(SpecError, match="entry 'observation' is list; nests of ALF are dicts"):
        from_alf(Lists())
    with pytest.raises(SpecError, match=r"entry 'action' is \['left', 'right'\]; one action"):
        from_alf(Hands())


# --- fields --------------------------------------------------------------------------------------


def navigation(**options: Any) -> Any:
    return marlenv.make("navigation", num_envs=2, compile="none", **{"n_agents": 1, "max_steps": 4, **options})


@pytest.mark.parametrize("n_agents", [1, 3])
def test_env_info_has_our_infos(n_agents: int) -> None:
    made, env = to_alf(navigation(n_agents=n_agents)), navigation(n_agents=n_agents)
    made.seed(2)
    env.set_seed(2)
    td, now = env.reset(), made.reset()
    assert set(made.env_info_spec()) == set(now.env_info) == {"pos_rew", "final_rew", "agent_collisions"}
    action = torch.ones(2, n_agents, 2)
    for _ in range(4):
        data = env.step(td.set(("agents", "action"), action))
        td, now = env.step_mdp(data), made.step(action.squeeze(1))
        for name, spec in made.env_info_spec().items():
            assert torch.equal(now.env_info[name].reshape(2, n_agents, 1), data["next", "agents", "info", name])
            assert now.env_info[name].shape == (2, *spec.shape)


def test_untransformed_is_the_time_step_before_transforms() -> None:
    clip = marlenv.ClipTransform([("agents", "observation")], low=-0.1, high=0.1)
    chain = Compose(KeepUntransformed(), marlenv.RewardScaling(0, 10.0), clip)
    changed, plain = to_alf(TransformedEnv(navigation(), chain)), to_alf(navigation())
    spec = changed.time_step_spec()
    assert spec.untransformed.observation == plain.observation_spec()
    assert spec.observation.maximum.max() == pytest.approx(0.1)
    for one in (changed, plain):
        one.seed(1)
    for step in range(9):  # over the end of an episode
        ours, want = (one.step(torch.ones(2, 2)) if step else one.reset() for one in (changed, plain))
        assert torch.equal(ours.untransformed.observation, want.observation)
        assert torch.equal(ours.untransformed.reward, want.reward)
        assert torch.equal(ours.untransformed.step_type, want.step_type)
        assert torch.allclose(ours.reward, want.reward * 10)
        assert torch.equal(ours.observation, want.observation.clamp(-0.1, 0.1))
    assert plain.current_time_step().untransformed == ()


# --- recipes -------------------------------------------------------------------------------------


class Episode(NamedTuple):
    """What ALF's metrics of episodes count."""

    total: float
    length: int


def metrics(time_steps: list[TimeStep]) -> Iterator[Episode]:
    """Returns and lengths of the episodes that end, by ALF's rule: a ``FIRST`` counts for nothing."""
    total, length = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    for now in time_steps:
        total = torch.where(now.is_first(), 0.0, total + now.reward)
        length = torch.where(now.is_first(), 0, length + 1)
        for row in now.is_last().nonzero().flatten().tolist():
            yield Episode(float(total[row]), int(length[row]))


def test_the_recipe_of_episode_metrics() -> None:
    """``RecordEpisodeStats`` and a mean of infos give what ALF's metrics count in our time steps."""
    made, env = to_alf(navigation()), TransformedEnv(navigation(), RecordEpisodeStats())
    made.seed(3)
    env.set_seed(3)
    time_steps = [made.reset()]
    while len(time_steps) < 15:
        time_steps.append(made.step(torch.ones(2, 2)))
    counted = list(metrics(time_steps))
    data = env.rollout(12, lambda td: td.set(("agents", "action"), torch.ones(2, 1, 2)), break_when_any_done=False)
    over = data["next", "done"].squeeze(-1).T  # steps first, as metrics count them
    ours = [data["next", "agents", "episode", name].reshape(2, 12).T[over] for name in ("return", "length")]
    assert [one.length for one in counted] == ours[1].tolist() == [4] * 6
    assert [one.total for one in counted] == pytest.approx(ours[0].tolist(), abs=1e-5)
    mean = data["next", "agents", "info", "pos_rew"].mean()
    moved = torch.stack([t.env_info["pos_rew"] for t in time_steps[1:] if not t.is_first().any()])
    assert float(moved.mean()) == pytest.approx(float(mean), rel=1e-5)


def recipe(heading: str) -> dict[str, Any]:
    """What the block of code under a heading of the page defines."""
    block = re.search(rf"### {heading}\n.*?```python\n(.*?)```", MIGRATE, re.S)
    assert block is not None
    names: dict[str, Any] = {"torch": torch, "marlenv": marlenv, "TransformedEnv": TransformedEnv}
    exec(block[1], names)
    return names


def test_the_recipe_of_non_episodic_envs() -> None:
    """Nothing ends but by a time limit outside, as ``NonEpisodicEnv`` under ALF's ``TimeLimit``."""
    endless = recipe("NonEpisodicEnv")["NonEpisodic"]
    env = TransformedEnv(CountingEnv(max_steps=2, batch_size=[1]), Compose(endless(), marlenv.TimeLimit(5)))
    made = to_alf(env)
    time_steps = [made.reset(), *(made.step(torch.zeros(1, 1)) for _ in range(6))]
    assert [t.step_type.item() for t in time_steps] == [0, 1, 1, 1, 1, 2, 0]
    assert [t.discount.item() for t in time_steps] == [1.0] * 7


def robotics(name: str, n_agents: int = 1) -> Any:
    """A stand-in of ALF's suite of robots: single environments with one row."""
    return marlenv.make({"FetchReach-v1": "navigation"}[name], compile="none", n_agents=n_agents)


@pytest.mark.slow
def test_the_recipe_of_a_suite_of_robots() -> None:
    """``load`` of a suite with single environments, its wrappers in their order, and both environments over it."""
    load = suite(robotics, batched=False)
    order: list[str] = []

    def noted(name: str) -> Any:
        return lambda env: (order.append(f"{name} {type(env).__name__}"), env)[1]

    load("FetchReach-v1", max_episode_steps=3, gym_env_wrappers=[noted("gym")], alf_env_wrappers=[noted("alf")])
    assert order == ["gym ScenarioEnv", "alf TransformedEnv"]  # the time limit is between them
    thread = create_environment("FetchReach-v1", load, nonparallel=True, max_episode_steps=3, seed=5)
    assert isinstance(thread, ThreadEnvironment)
    pool = create_environment("FetchReach-v1", load, num_parallel_environments=2, max_episode_steps=3, seed=5)
    assert isinstance(pool, ParallelAlfEnvironment)
    try:
        assert (thread.batch_size, pool.batch_size) == (1, 2)
        one, two = thread.reset(), pool.reset()
        assert torch.equal(one.observation[0], two.observation[0])
        assert not torch.equal(two.observation[0], two.observation[1])
        ends = [pool.step(torch.zeros(2, 2)).step_type.tolist() for _ in range(4)]
        assert ends == [[1, 1], [1, 1], [2, 2], [0, 0]]
    finally:
        pool.close()
        thread.close()


def test_the_recipe_of_a_suite_of_batched_environments() -> None:
    """``load.batched``: what it makes is used as it is, by ``create_environment`` and, through ``from_alf``, by us."""

    def carla(name: str, num_envs: int) -> Any:
        assert name == "Town01"
        return from_alf(Carla(num_envs))

    load = suite(carla, batched=True)
    assert load.batched  # type: ignore[attr-defined]
    data = drive(create_environment("Town01", load, num_parallel_environments=3).inner, 3)
    assert data["next", "at"][..., 0].tolist() == [[1, 2, 0], [1, 2, 3], [1, 2, 3]]


def test_a_series_of_single_environments_has_no_masks() -> None:
    env = SerialEnv(2, lambda: from_alf(Carla(1)))
    assert "mask" not in env.full_observation_spec.keys(True)
    data = env.rollout(5, lambda td: td.set("action", torch.ones(2, 1, 1)), break_when_any_done=False)
    assert data["next", "at"][0].flatten().tolist() == [1, 2, 1, 2, 1]
