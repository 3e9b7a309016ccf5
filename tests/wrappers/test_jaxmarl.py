"""JaxMARL through the wrapper, compared entry by entry with the raw env, compiled and mapped over rows by hand."""

from __future__ import annotations

import copy
import pickle
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import copies_go_on, entry_of, equal, state_is_a_value
from sizes import some

import marlenv
from marlenv.errors import GroupError, IllegalAction, KeyMissing, NeedsReset, SpecError, UnknownName, Unsupported
from marlenv.keys import DONE_NAMES
from marlenv.optional import has, need
from marlenv.testing import run_contract
from marlenv.wrappers.jaxmarl import JaxMARLEnv, JaxMARLWrapper

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.skipif(not has("jaxmarl"), reason="needs JaxMARL: VENV=.venv tests/simulators.sh jaxmarl"),
]

MPE = ["MPE_simple_spread_v3", "MPE_simple_tag_v3", "MPE_simple_speaker_listener_v4"]
SMAX: dict[str, dict[str, Any]] = {
    "HeuristicEnemySMAX": {"max_steps": 12},
    "SMAX": {"num_allies": 2, "num_enemies": 3, "max_steps": 9},
}
OPTIONS: dict[str, dict[str, Any]] = {**dict.fromkeys(MPE, {"max_steps": 6}), **SMAX}


@lru_cache
def sim_of(name: str) -> Any:
    """One simulator for all envs of a name, so that it is compiled once."""
    return need("jaxmarl", "test").make(name, **OPTIONS[name])


class Hand:
    """A raw JaxMARL env: compiled, mapped over rows, with the keys that the wrapper documents."""

    def __init__(self, name: str, rows: int, seed: int) -> None:
        self.jax, self.sim = need("jax", "test"), sim_of(name)
        self.begin, self.advance = (self.jax.jit(self.jax.vmap(f)) for f in (self.sim.reset, self.sim.step_env))
        random = self.jax.random
        self.keys = self.jax.vmap(lambda i: random.fold_in(random.PRNGKey(seed), i))(np.arange(rows))
        self.masked = name in SMAX

    def draw(self) -> Any:
        both = self.jax.vmap(self.jax.random.split)(self.keys)
        self.keys = both[:, 0]
        return both[:, 1]

    def reset(self) -> Any:
        seen, self.state = self.begin(self.draw())
        return seen

    def step(self, actions: dict[str, Any]) -> Any:
        seen, self.state, rewards, dones, _ = self.advance(self.draw(), self.state, actions)
        return seen, rewards, dones

    def legal(self) -> Any:
        return self.jax.vmap(self.sim.get_avail_actions)(self.state) if self.masked else {}

    def decided(self) -> Any:
        """Rows in which one side has no unit left."""
        state = getattr(self.state, "state", self.state)
        n = self.sim.num_allies
        sides = np.split(np.asarray(state.unit_alive), [n], axis=1)
        return ~sides[0].any(1) | ~sides[1].any(1)


def compare(env: JaxMARLWrapper, td: Any, hand: Hand, seen: Any, rewards: Any, dones: Any) -> None:
    legal = hand.legal()
    rows = env.batch_size[0]
    over = np.zeros(rows, bool) if dones is None else np.asarray(dones["__all__"])
    decided = over & hand.decided() if hand.masked else np.zeros(rows, bool)
    for agent in env.agent_names:
        floats(entry_of(env, td, agent, "observation"), seen[agent], (agent, "observation"))
        dead = np.asarray(dones[agent]) if dones is not None and hand.masked else np.zeros(rows, bool)
        terminated = dead | decided
        equal(entry_of(env, td, agent, "terminated"), terminated, (agent, "terminated"))
        equal(entry_of(env, td, agent, "truncated"), over & ~terminated, (agent, "truncated"))
        alive = ~(terminated | over)
        equal(entry_of(env, td, agent, "alive"), alive, (agent, "alive"))
        if hand.masked:
            want = np.where(alive[:, None], np.asarray(legal[agent]).astype(bool), True)
            equal(entry_of(env, td, agent, "action_mask"), want, (agent, "action_mask"))
        if rewards is not None:
            floats(entry_of(env, td, agent, "reward"), rewards[agent], (agent, "reward"))
    if "world_state" in seen:
        floats(td["state"], seen["world_state"], "state")
    for name, want in (("done", over), ("terminated", decided), ("truncated", over & ~decided)):
        equal(td[name], want, name)


def floats(got: torch.Tensor, want: Any, where: Any) -> None:
    """Equal but for the order in which two compilations of one formula add and multiply: 8 steps of float32."""
    want = np.asarray(want).reshape(got.shape)
    scale = np.maximum(np.abs(want), 1.0)
    assert np.all(np.abs(got.numpy() - want) <= 8 * np.finfo(np.float32).eps * scale), (where, got, want)


def follow(name: str, seed: int, episodes: int, rows: int = 3, max_steps: int = 40, **options: Any) -> int:
    env = JaxMARLWrapper(sim_of(name), num_envs=rows, seed=seed, **options)
    hand, steps = Hand(name, rows, seed), 0
    for _ in range(episodes):
        td, seen = env.reset(), hand.reset()
        compare(env, td, hand, seen, None, None)
        for _ in range(max_steps):
            td = env.rand_action(td)
            actions = {a: number_of(env, td, a) for a in env.agent_names}
            td = env.step(td)
            compare(env, td["next"], hand, *hand.step(actions))
            hand.state = env._memory["state"]  # so that differences of rounding do not add up
            td = env.step_mdp(td)
            steps += 1
            if bool(td["done"].any()):
                break
    return steps


def number_of(env: JaxMARLWrapper, td: Any, agent: str) -> Any:
    action = entry_of(env, td, agent, "action")
    one_hot = not env.categorical_actions and not action.is_floating_point()
    return np.asarray(action.int().argmax(-1) if one_hot else action)


@pytest.mark.parametrize("name", some(OPTIONS, 4))
def test_every_number_is_the_simulators(name: str) -> None:
    assert follow(name, 5, 5, rows=40) >= 25  # 200 episodes, 40 at a time


@pytest.mark.full
@settings(max_examples=4, deadline=None)  # each compiles anew
@given(
    st.integers(0, (1 << 32) - 1), st.permutations(["agent_0", "agent_1", "agent_2"]), st.integers(1, 2), st.booleans()
)
def test_any_groups(seed: int, names: list[str], first: int, categorical: bool) -> None:
    groups = {"a": names[:first], "b": {"c": names[first:]}}
    follow("MPE_simple_spread_v3", seed, 5, rows=10, group_map=groups, categorical_actions=categorical)


def test_the_contract_holds() -> None:
    for name in ("MPE_simple_spread_v3", "MPE_simple_tag_v3", "HeuristicEnemySMAX"):
        found = run_contract(lambda name=name: JaxMARLWrapper(sim_of(name), num_envs=3))
        broken = [f"{name}: {r.name}: {r.says}" for r in found if r.verdict == "broken"]
        assert not broken, "\n".join(broken)


def test_a_row_does_not_know_how_many_rows_there_are() -> None:
    few, many = (JaxMARLWrapper(sim_of("MPE_simple_spread_v3"), num_envs=n, seed=7).reset() for n in (2, 5))
    assert torch.equal(few["agent", "observation"], many["agent", "observation"][:2])


def test_memory_is_shared_both_ways() -> None:
    from marlenv.wrappers._jax_arrays import to_jax, to_torch

    array = need("jax.numpy", "test").arange(64, dtype="float32") + 1
    tensor = to_torch(array)
    assert tensor.data_ptr() == array.unsafe_buffer_pointer()
    given = torch.arange(64, dtype=torch.int32)
    assert to_jax(given).unsafe_buffer_pointer() == given.data_ptr()


def test_steps_are_compiled_once() -> None:
    env = JaxMARLEnv("MPE_simple_spread_v3", num_envs=3, seed=0, max_steps=5)
    env.rollout(12, break_when_any_done=False)
    assert [f._cache_size() for f in (env._functions.start, env._functions.step, env._functions.restart)] == [1, 1, 1]


def test_what_was_handed_out_is_the_users() -> None:
    """It lies in JAX's memory; writing to it does not disturb the env."""
    one, other = (JaxMARLWrapper(sim_of("HeuristicEnemySMAX"), num_envs=2, seed=3) for _ in range(2))
    a, b = one.reset(), other.reset()
    action = one.rand_action(a).select(*one.action_keys)
    b.zero_()
    first, second = one.step(action.clone()), other.step(action.clone())
    for key in first["next"].keys(True, True):
        assert torch.equal(
            first["next", *((key,) if isinstance(key, str) else key)],
            second["next", *((key,) if isinstance(key, str) else key)],
        ), key


def test_a_state_is_a_value() -> None:
    env = JaxMARLWrapper(sim_of("HeuristicEnemySMAX"), num_envs=2, seed=3)
    state_is_a_value(env)
    with pytest.raises(NeedsReset, match="call reset"):
        JaxMARLWrapper(sim_of("HeuristicEnemySMAX")).get_state()


def test_copies_and_pickles_go_on_as_the_env_does() -> None:
    env = JaxMARLWrapper(sim_of("MPE_simple_spread_v3"), num_envs=2, seed=3)
    copies_go_on(env, env.rand_action(env.step_mdp(env.rand_step(env.reset()))))


def test_a_simulator_that_cannot_be_copied_is_named() -> None:
    env = JaxMARLWrapper(sim_of("HeuristicEnemySMAX"))
    says = r"^JaxMARLWrapper: a HeuristicEnemySMAX can neither be copied nor pickled; .*, a function or an EnvCreator"
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(Unsupported, match=says):
            call(env)


def test_a_time_limit_of_the_wrapper_truncates() -> None:
    data = JaxMARLWrapper(sim_of("HeuristicEnemySMAX"), num_envs=2, seed=0, max_steps=2).rollout(5)["next"]
    assert data["truncated"].squeeze(-1).tolist() == [[False, True]] * 2
    assert not data["terminated"].any()


@pytest.mark.parametrize("name", ["MPE_simple_spread_v3", "HeuristicEnemySMAX"])
def test_nobody_is_paid_in_rows_that_are_over_and_flags_stay(name: str) -> None:
    env = JaxMARLWrapper(sim_of(name), num_envs=2, seed=0, max_steps=2)
    td = env.reset()
    for _ in range(2):
        td = env.rand_step(td)["next"]
    last, kept = td.clone(), [key for key in td.keys(True, True) if key[-1] in DONE_NAMES or key in DONE_NAMES]
    assert last["truncated"].all()
    for _ in range(30):  # in SMAX units go on dying
        td = env.rand_step(td)["next"]
        assert not any(td[group, "reward"].any() for group in env.group_map)
        assert bool((td.select(*kept) == last.select(*kept)).all())


def test_unequal_agents_in_one_group_are_stacked_lazily() -> None:
    env = JaxMARLWrapper(sim_of("MPE_simple_speaker_listener_v4"), num_envs=2, seed=0, group_map="all_in_one_group")
    td = env.rand_step(env.reset())
    assert [td["next", "agents"][:, i]["observation"].shape[-1] for i in range(2)] == [3, 11]
    follow("MPE_simple_speaker_listener_v4", 1, 2, group_map="all_in_one_group")


def test_envs_are_made_by_name() -> None:
    env = marlenv.make("jaxmarl/MPE_simple_spread_v3", num_envs=4, seed=0, max_steps=5)
    assert env.rollout(3)["next", "agent", "reward"].shape == (4, 3, 3, 1)
    with pytest.raises(
        UnknownName, match="no env is called 'MPE_simple_sprea_v3'; did you mean 'MPE_simple_spread_v3'"
    ):
        JaxMARLEnv("MPE_simple_sprea_v3")
    with pytest.raises(SpecError, match="expected a JaxMARL env, got int"):
        JaxMARLWrapper(3)


def _with_a_cow(table: int) -> Any:
    return lambda out: out[table].update(cow_0=out[table]["agent_0"])


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_with_a_cow(0), GroupError, "the simulator gave data of an unknown agent 'cow_0'; known"),
        (_with_a_cow(2), GroupError, "the simulator gave data of an unknown agent 'cow_0'; known"),
        (_with_a_cow(3), GroupError, "the simulator gave data of an unknown agent 'cow_0'; known"),
        (lambda out: out[0].pop("agent_1"), KeyMissing, "the simulator gave no 'observation' of agent 'agent_1'"),
        (lambda out: out[2].pop("agent_1"), KeyMissing, "the simulator gave no 'reward' of agent 'agent_1'"),
    ],
)
def test_a_step_that_makes_no_sense_names_the_agent(change: Any, error: Any, says: str) -> None:
    sim = need("jaxmarl", "test").make(MPE[0])
    step = sim.step_env

    def broken(*args: Any) -> Any:
        out = [dict(part) if isinstance(part, dict) else part for part in step(*args)]
        change(out)
        return tuple(out)

    sim.step_env = broken
    env = JaxMARLWrapper(sim, seed=0)
    with pytest.raises(error, match=f"^JaxMARLWrapper.step: {says}"):
        env.step(env.rand_action(env.reset()))


def test_a_reward_of_the_whole_team_beside_those_of_agents_is_no_agent() -> None:
    sim = need("jaxmarl", "test").make(MPE[0])
    step = sim.step_env

    def with_all(*args: Any) -> Any:
        seen, state, rewards, *rest = step(*args)
        return seen, state, {**rewards, "__all__": sum(rewards.values())}, *rest

    sim.step_env = with_all
    env = JaxMARLWrapper(sim, seed=0)
    assert env.step(env.rand_action(env.reset()))["next", "agent", "reward"].shape == (1, 3, 1)


def test_what_is_no_action_is_an_error() -> None:
    env = JaxMARLWrapper(sim_of("MPE_simple_speaker_listener_v4"), num_envs=2, seed=0)
    td = env.rand_action(env.reset())
    for key in env.action_keys:
        with pytest.raises(
            IllegalAction, match=r"JaxMARLWrapper.step: the action of agent .* in row 1 must be a number"
        ):
            env.step(td.clone().set(key, torch.stack([td[key][0], td[key][1] + 99])))
    forces = JaxMARLEnv("MPE_simple_v3", num_envs=2, action_type="Continuous")
    td = forces.rand_action(forces.reset())
    td["agent", "action"][1, 0, 2] = torch.nan
    with pytest.raises(IllegalAction, match=r"JaxMARLEnv.step: .* 'agent_0' in row 1 must be finite, got \["):
        forces.step(td)
