"""Jumanji through the wrapper, compared entry by entry with the raw env, compiled and mapped over rows by hand."""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from planted_faults import FAULTS, broken, is_noticed, rewards_come_late
from rows import copies_go_on, without
from sizes import some
from tensordict import TensorDict

import marlenv
from marlenv import EnvCreator, JumanjiEnv, JumanjiWrapper, check_env_specs
from marlenv.errors import (
    GroupError,
    IllegalAction,
    MissingExtra,
    NeedsReset,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.optional import has, need
from marlenv.testing import run_contract
from marlenv.wrappers._jax_arrays import td_to_tree

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # JAX's own
    pytest.mark.skipif(not has("jumanji"), reason="needs Jumanji: VENV=.venv tests/simulators.sh jumanji"),
]
SOLO = {"Snake-v1": {"time_limit": 9}, "Maze-v0": {"time_limit": 5}, "TSP-v1": {}, "JobShop-v0": {}}
TEAMS = {
    "LevelBasedForaging-v0": {"time_limit": 6},
    "Connector-v3": {"time_limit": 8},
    "SearchAndRescue-v0": {"time_limit": 5},
    "RobotWarehouse-v0": {"time_limit": 5},
}
OTHERS = (
    *("FlatPack-v0", "BinPack-v2", "CVRP-v1", "Cleaner-v0", "Game2048-v1", "Knapsack-v1", "Tetris-v0", "MMST-v0"),
    *("PacMan-v1", "MultiCVRP-v0", "Minesweeper-v0", "RubiksCube-partly-scrambled-v0", "RubiksCube-v0"),
    *("GraphColoring-v1", "Sudoku-v0", "Sudoku-very-easy-v0", "SlidingTilePuzzle-v0"),
)  # fmt: skip


@lru_cache
def sim_of(name: str) -> Any:
    return need("jumanji", "test").make(name, **{**SOLO, **TEAMS}[name])


class Hand:
    """A raw env, mapped over rows, with the keys that the wrapper documents."""

    def __init__(self, name: str, rows: int, seed: int) -> None:
        self.jax, self.sim, self.seed, self.resets = need("jax", "test"), sim_of(name), seed, [0] * rows
        self.begin, self.advance = (self.jax.jit(self.jax.vmap(f)) for f in (self.sim.reset, self.sim.step))
        self.state: Any = None

    def reset(self, where: Any) -> Any:
        random, jnp = self.jax.random, self.jax.numpy
        self.resets = [count + int(w) for count, w in zip(self.resets, where, strict=True)]
        first = random.PRNGKey(self.seed)
        keys = [random.fold_in(random.fold_in(first, row), count) for row, count in enumerate(self.resets)]
        state, step = self.begin(jnp.stack(keys))
        if self.state is not None:
            state = self.jax.tree.map(
                lambda new, old: np.where(where.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old), state, self.state
            )
        self.state = state
        return step

    def step(self, action: Any) -> Any:
        self.state, step = self.advance(self.state, action)
        return step


def same(td: Any, seen: Any, rows: Any, own: str | None, count: int) -> None:
    """What was observed in some rows."""
    for name in seen._fields if hasattr(seen, "_fields") else vars(seen):
        want = getattr(seen, name)
        if name == "action_mask":
            continue
        got = td[own, name] if own and name in td[own].keys() else td[name]
        if hasattr(want, "shape"):
            assert np.allclose(got.numpy()[rows], np.asarray(want)[rows], rtol=1e-5, atol=1e-6), name
        else:
            for part in got.keys():
                assert np.array_equal(got[part].numpy()[rows], np.asarray(getattr(want, part))[rows]), (name, part)


@pytest.mark.parametrize("name", some(SOLO, 2))
def test_every_number_is_the_simulators(name: str) -> None:
    env, hand = JumanjiWrapper(sim_of(name), batch_size=[3]), Hand(name, 3, 5)
    check_env_specs(env)
    env.set_seed(5)
    td, everyone = env.reset(), np.ones(3, bool)
    step, fresh = hand.reset(everyone), everyone
    ends = 0
    for _ in range(25):
        same(td, step.observation, fresh, None, 0)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        step = hand.step(data["action"].numpy())
        following, last = data["next"], np.asarray(step.last())
        same(following, step.observation, everyone, None, 0)
        if "action_mask" in following.keys():
            mask = np.asarray(step.observation.action_mask)
            none = ~mask.reshape(3, -1).any(1)
            mask = mask | none.reshape(-1, *[1] * (mask.ndim - 1))
            assert np.array_equal(following["action_mask"].numpy(), mask)
        assert np.allclose(following["reward"].flatten(), np.asarray(step.reward))
        lost = last & (np.asarray(step.discount) == 0)
        assert following["done"].flatten().tolist() == last.tolist()
        assert following["terminated"].flatten().tolist() == lost.tolist()
        assert following["truncated"].flatten().tolist() == (last & ~lost).tolist()
        ends += int(last.sum())
        fresh = everyone
        if last.any():
            step, fresh = hand.reset(last), last
    assert ends > 2


@pytest.mark.parametrize("name", some(TEAMS, 2))
def test_agents_are_groups_and_every_number_is_the_simulators(name: str) -> None:
    env, hand = JumanjiWrapper(sim_of(name), batch_size=[2]), Hand(name, 2, 3)
    check_env_specs(env)
    env.set_seed(3)
    n, everyone = sim_of(name).num_agents, np.ones(2, bool)
    assert env.group_map == {"agents": [f"agent_{i}" for i in range(n)]}
    td, step, fresh = env.reset(), hand.reset(everyone), everyone
    dead, ends, cut_off, paid = np.zeros((2, n), bool), 0, 0, set()
    for _ in range(18):
        same(td, step.observation, fresh, "agents", n)
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        step = hand.step(data["agents", "action"].numpy())
        group, following, last = data["next", "agents"], data["next"], np.asarray(step.last())
        same(following, step.observation, everyone, "agents", n)
        if np.ndim(step.reward) == 2:
            assert np.allclose(group["reward"].squeeze(-1), np.asarray(step.reward))
        else:
            assert np.allclose(following["reward"].squeeze(-1), np.asarray(step.reward))
        paid |= set(np.asarray(step.reward).flatten().tolist())
        dead |= np.broadcast_to(np.asarray(step.discount).reshape(2, -1) == 0, (2, n))
        cut = last[:, None] & ~dead
        assert np.array_equal(group["terminated"].squeeze(-1).numpy(), dead)
        assert np.array_equal(group["truncated"].squeeze(-1).numpy(), cut)
        assert np.array_equal(group["alive"].numpy(), ~(dead | cut))
        assert following["done"].flatten().tolist() == last.tolist()
        assert following["terminated"].flatten().tolist() == (last & dead.all(1)).tolist()
        assert following["truncated"].flatten().tolist() == (last & ~dead.all(1)).tolist()
        if "action_mask" in group.keys():
            mask = np.asarray(step.observation.action_mask) | (dead | cut)[..., None]
            assert np.array_equal(group["action_mask"].numpy(), mask | ~mask.any(-1, keepdims=True))
        ends, cut_off = ends + int(last.sum()), cut_off + int(cut.sum())
        fresh = everyone
        if last.any():
            step, fresh = hand.reset(last), last
            dead &= ~last[:, None]
    assert ends > 1
    assert len(paid) > 1 or name != "Connector-v3"
    assert cut_off or name != "LevelBasedForaging-v0"  # Jumanji truncates it, and terminates others at their limits


@pytest.mark.parametrize("fault", some(FAULTS, 3))
def test_planted_faults_are_noticed(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "JumanjiWrapper", broken(JumanjiWrapper, fault))
    late = fault is rewards_come_late  # random players of the other find nothing that pays
    name = "Connector-v3" if late else "LevelBasedForaging-v0"
    is_noticed(test_agents_are_groups_and_every_number_is_the_simulators, name)


@pytest.mark.full
def test_pixels_are_what_the_simulator_draws() -> None:
    for name in ("Snake-v1", "LevelBasedForaging-v0"):
        env = JumanjiEnv(name, batch_size=[2], seed=1, from_pixels=True)
        plain = JumanjiEnv(name, batch_size=[2], seed=1)
        data, same_data = env.rand_step(env.reset()), plain.reset()
        same_data = plain.step(same_data.update(data.select(*plain.action_keys)))
        hand, jax = need("jumanji", "test").make(name), need("jax", "test")
        pyplot = need("matplotlib.pyplot", "test")
        for moment, other in ((data, same_data), (data["next"], same_data["next"])):
            states = td_to_tree(other["state"], env._like, "the test", one_row=True)
            for row in range(2):
                hand.render(jax.tree.map(lambda leaf, row=row: leaf[row], states))
                canvas = pyplot.figure(hand._viewer._name).canvas
                canvas.draw()
                drawn = canvas.buffer_rgba()
                assert np.array_equal(moment["pixels"][row].numpy(), np.asarray(drawn)[..., :3])
            assert moment["pixels"].float().std() > 0
        assert not torch.equal(data["pixels"], data["next", "pixels"])
        assert env.observation_spec["pixels"].is_in(data["pixels"])


def test_pixels_alone_leave_out_all_that_is_observed_but_legal_actions() -> None:
    for name in ("Snake-v1", "LevelBasedForaging-v0", "Maze-v0"):
        alone, plain = (
            JumanjiEnv(name, batch_size=[2], seed=1, from_pixels=True, pixels_only=p) for p in (True, False)
        )
        check_env_specs(alone)
        for env in (alone, plain):
            env.set_seed(1)
        a, b = alone.reset(), plain.reset()
        step = plain.rand_action(b)
        a, b = alone.step(a.update(step.select(*plain.action_keys)))["next"], plain.step(step)["next"]
        kept = {"pixels", "state", "action_mask", "agents", "reward", "done", "terminated", "truncated"}
        assert set(a.keys()) <= kept
        assert set(b.keys()) - kept or "agents" in b.keys()
        groups = {"action_mask", "alive", "mask", "reward", "done", "terminated", "truncated"}
        assert set(a.get("agents", TensorDict()).keys()) <= groups
        assert all((a[key] == b[key]).all() for key in a.keys(True, True))
        assert "pixels" not in JumanjiEnv(name, batch_size=[2], pixels_only=True).full_observation_spec.keys()
    assert set(b.keys()) - kept


def test_states_are_drawn_on_request() -> None:
    env, drawn = (JumanjiEnv("Snake-v1", seed=1, from_pixels=p) for p in (False, True))
    want = drawn.reset(TensorDict(batch_size=[2, 1]))["pixels"]
    td = env.reset(TensorDict(batch_size=[2, 1]))
    assert torch.equal(env.render(td), want)
    assert np.array_equal(env.render(td[1, 0], matplotlib_backend="agg", as_numpy=True), want[1, 0].numpy())
    films = marlenv.TransformedEnv(
        JumanjiEnv("Snake-v1", batch_size=[2]), marlenv.PixelRenderTransform(pass_tensordict=True)
    )
    films.set_seed(1)
    assert torch.equal(films.reset()["pixels"], want.squeeze(1))


def test_any_groups_play_the_same_game() -> None:
    groups = {"a": ["agent_3", "agent_0"], "b": {"c": ["agent_9", "agent_1", "agent_5"], "d": ["agent_2", "agent_4"]},
              "e": ["agent_8", "agent_7", "agent_6"]}  # fmt: skip
    one, other = (
        JumanjiWrapper(sim_of("Connector-v3"), False, batch_size=[2], seed=1, group_map=groups),
        JumanjiWrapper(sim_of("Connector-v3"), batch_size=[2], seed=1),
    )
    a, b = one.reset(), other.reset()
    for _ in range(5):
        a = one.rand_action(a)
        action = torch.zeros(2, 10, dtype=torch.int32)
        for agent, (path, i) in one.tree.place.items():
            action[:, int(agent[6:])] = a[(*path, "action")][:, i].int().argmax(-1).int()
        a, b = one.step(a)["next"], other.step(b.set(("agents", "action"), action))["next"]
        for agent, (path, i) in one.tree.place.items():
            for entry in ("reward", "action_mask", "terminated"):
                assert torch.equal(a[(*path, entry)][:, i], b["agents", entry][:, int(agent[6:])])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("LevelBasedForaging-v0", {}),
        pytest.param("Snake-v1", {}, marks=pytest.mark.full),
        pytest.param("Snake-v1", {"frame_skip": 2, "categorical_action_encoding": False}, marks=pytest.mark.full),
    ],
)
def test_the_contract_holds(name: str, options: dict[str, Any]) -> None:
    sim = sim_of(name)  # before, because importing or making Jumanji's own moves numpy's global generator
    results = run_contract(lambda num_envs=3: JumanjiWrapper(sim, num_envs=num_envs, **options), steps=10)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_without_a_batch_size_there_are_as_many_rows_as_in_the_data() -> None:
    env = JumanjiWrapper(sim_of("Snake-v1"), seed=0)
    td = env.rollout(20, auto_reset=False, break_when_all_done=True, tensordict=env.reset(TensorDict(batch_size=[4])))
    locked = JumanjiWrapper(sim_of("Snake-v1"), seed=0, batch_size=[4]).reset()
    assert torch.equal(td["state", "body"][:, 0], locked["state", "body"])
    assert env.reset().batch_size == ()
    for options in ({"num_envs": 4}, {"num_envs": 4, "batch_size": None}, {"batch_size": [4]}):
        assert JumanjiWrapper(sim_of("Snake-v1"), **options).batch_locked, options
    assert not JumanjiWrapper(sim_of("Snake-v1"), batch_size=None, num_envs=None).batch_locked


def test_compiled_or_not_is_the_same() -> None:
    eager, fast = (JumanjiWrapper(sim_of("Maze-v0"), batch_size=[2], seed=0, jit=jit) for jit in (False, True))
    a, b = eager.reset(), fast.reset()
    assert (eager.step(a.set("action", torch.tensor([1, 2], dtype=torch.int32)))["next"]
            == fast.step(b.set("action", torch.tensor([1, 2], dtype=torch.int32)))["next"]).all()  # fmt: skip


def test_envs_can_be_made_elsewhere_and_closed() -> None:
    env = pickle.loads(pickle.dumps(EnvCreator(JumanjiEnv, create_env_kwargs={"env_name": "Maze-v0", "num_envs": 2})))()
    check_env_specs(env)
    env.close()
    assert env.is_closed
    assert JumanjiWrapper(sim_of("Maze-v0"), device="cpu").reset()["state"].device == torch.device("cpu")
    team = marlenv.make("jumanji/LevelBasedForaging-v0", num_envs=2, seed=0, time_limit=4)
    assert team.rollout(3)["next", "agents", "reward"].shape == (2, 3, 2, 1)


@pytest.mark.parametrize("name", ["Maze-v0", "LevelBasedForaging-v0"])
def test_copies_and_pickles_go_on_as_the_env_does(name: str) -> None:
    env = JumanjiWrapper(sim_of(name), batch_size=[2], seed=3)
    td = env.step(env.rand_action(env.reset()))["next"]
    copies_go_on(env, env.rand_action(td.exclude("reward")))


@pytest.mark.parametrize("name", some(OTHERS, 12))
def test_other_tasks_fit_their_specs_and_draw(name: str) -> None:
    """FlatPack's states have plain numbers among their arrays; each draws in a way of its own."""
    check_env_specs(JumanjiEnv(name, batch_size=[2]))
    env = JumanjiEnv(name, from_pixels=True)
    td = env.reset()
    assert env.observation_spec.contains(td.select(*env.observation_keys))
    assert td["pixels"].float().std() > 1


def test_all_tasks_that_need_no_download_are_checked() -> None:
    assert {*SOLO, *TEAMS, *OTHERS, "Sokoban-v0"} == set(JumanjiEnv.available_envs)


def _stepped(name: str, action: int) -> Any:
    env = JumanjiWrapper(sim_of(name))
    return env.step(env.reset().set("action", torch.tensor(action, dtype=torch.int32)))


def _no_choice() -> Any:
    env = JumanjiWrapper(sim_of("Maze-v0"), False)
    return env.step(env.reset().set("action", torch.zeros(4, dtype=torch.int32)))


def _self_resetting() -> Any:
    return need("jumanji.wrappers", "test").AutoResetWrapper(sim_of("Maze-v0"))


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: JumanjiEnv("Snak-v1"), UnknownName, r"no task 'Snak-v1'; did you mean 'Snake-v1'"),
        (lambda: JumanjiEnv(3), UnknownName, r"Jumanji has no task 3; known"),
        (lambda: JumanjiEnv("Maze-v0", num_envs=2, batch_size=[3]), SpecError, r"num_envs=2 and batch_size=.* differ"),
        (lambda: _stepped("Maze-v0", 4), IllegalAction, r"^JumanjiWrapper.step: actions are numbers from 0 to below"),
        (lambda: _stepped("Maze-v0", -1), IllegalAction, r"numbers from 0 to below 4, got -1"),
        (_no_choice, IllegalAction, r"^JumanjiWrapper.step: actions must be one-hot, got \[0, 0, 0, 0\]$"),
        (lambda: JumanjiWrapper("Snake-v1"), SpecTypeError, r"must be an env of Jumanji's, got str; JumanjiEnv"),
        (lambda: JumanjiWrapper(_self_resetting()), Unsupported, r"has a AutoResetWrapper around it"),
        (lambda: JumanjiWrapper(sim_of("Maze-v0"), group_map={"a": ["b"]}), GroupError, r"Maze has one agent"),
        (lambda: JumanjiEnv("Maze-v0").render(TensorDict()), NeedsReset, r"^JumanjiEnv.render: there is no 'state'"),
        (lambda: JumanjiEnv("Maze-v0", pixel_only=True), TypeError, r"^JumanjiEnv has no option .* mean 'pixels_only'"),
        (lambda: JumanjiWrapper(sim_of("Maze-v0")).step(TensorDict(action=torch.tensor(0))), NeedsReset, r"no 'state'"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_an_agent_that_does_not_act_may_choose_nothing() -> None:
    env = JumanjiWrapper(sim_of("Connector-v3"), False, batch_size=[2], seed=1)
    td = env.rand_action(env.reset())
    td["agents", "action"][1, 3] = 0
    with pytest.raises(IllegalAction, match=r"must be one-hot, got \[0, 0, 0, 0, 0\]$"):
        env.step(td)
    td["agents", "mask"][1, 3] = False
    assert not env.step(td)["next", "done"].any()


def test_a_missing_jumanji_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "jumanji")
    with pytest.raises(MissingExtra, match=r"""needs 'jumanji'.*pip install "marlenv-torch\[jumanji\]\""""):
        JumanjiEnv("Snake-v1")
    assert JumanjiEnv.available_envs == []


def test_data_have_the_dtypes_of_their_specs_where_jax_may_count_in_64_bits() -> None:
    with need("jax", "test").enable_x64(True):
        sim = need("jumanji", "test").make("LevelBasedForaging-v0")
        env = JumanjiWrapper(sim, batch_size=[2])
        found = env.rollout(1)["next"]
    for name, dtype in (("agents_view", torch.int32), ("reward", torch.float32), ("action_mask", torch.bool)):
        assert found["agents", name].dtype == dtype, name
    assert sim.observation_spec.agents_view.dtype == np.int32
