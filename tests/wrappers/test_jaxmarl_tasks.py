"""JaxMARL's tasks besides MPE and SMAX: how they end, what is legal, and what is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv.errors import ShapeError, SpecError, UnknownName, Unsupported
from marlenv.optional import has, need
from marlenv.wrappers.jaxmarl import JaxMARLEnv, JaxMARLWrapper

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of newer versions of a task
    pytest.mark.skipif(not has("jaxmarl"), reason="needs JaxMARL: VENV=.venv tests/simulators.sh jaxmarl"),
]
FLAGS = ("terminated", "truncated", "done")


def flags_of(data: Any) -> dict[str, list[bool]]:
    """The flags of the first row, which all agents have, too."""
    for name in FLAGS:
        assert (data["next", "agent", name] == data["next", name].unsqueeze(2)).all(), name
    return {name: data["next", name][0].flatten().tolist() for name in FLAGS}


def test_the_time_limit_of_overcooked_truncates() -> None:
    sim = need("jaxmarl", "test").make("overcooked", max_steps=3)
    found = flags_of(JaxMARLWrapper(sim, num_envs=1, seed=0, categorical_actions=True).rollout(5))
    assert found == {"terminated": [False] * 3, "truncated": [False, False, True], "done": [False, False, True]}


def test_a_riddle_that_is_told_in_the_last_step_is_over_and_not_cut_off() -> None:
    """Who tells ends the riddle (arXiv:1605.06676); three prisoners have six days."""
    env = JaxMARLEnv("switch_riddle", num_agents=3, num_envs=3, seed=0, categorical_actions=True)
    tell, days, td = env._env.game_actions["TELL"], env._env.max_steps, env.reset()
    assert days == 6
    for day in range(1, days + 1):
        actions = torch.zeros(3, 3, dtype=torch.int32)
        actions[0] = tell if day == days else 0
        actions[1] = tell if day == 2 else 0
        found = env.step(td.set(("agent", "action"), actions))["next"]
        over = [day == days, day == 2, False]  # what comes of the second row afterwards is of no interest
        late = [False, False, day == days]
        rows = [0, 1, 2] if day <= 2 else [0, 2]
        for name, want in (("terminated", over), ("truncated", late)):
            assert found[name].flatten()[rows].tolist() == [want[i] for i in rows], (day, name)
            assert found["agent", name][rows].squeeze(-1).tolist() == [[want[i]] * 3 for i in rows], (day, name)
        assert (found["agent", "reward"][2] == 0).all()
        td = found


def test_robots_of_brax_that_reset_themselves_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"Hopper resets itself, .* make it with auto_reset=False"):
        JaxMARLEnv("hopper_3x1", backend="spring")


@pytest.mark.full  # compiles for a minute
def test_the_time_limit_of_braxs_robots_truncates_and_their_last_observations_are_kept() -> None:
    jax, make = need("jax", "test"), need("jaxmarl", "test").make
    sim = make("hopper_3x1", episode_length=2, backend="spring", auto_reset=False)
    env = JaxMARLWrapper(sim, num_envs=1, seed=0)
    td, step = env.reset(), jax.jit(sim.step_env)
    state = jax.tree.map(lambda x: x[0], env._memory["state"])
    still = {agent: np.zeros(sim.action_space(agent).shape, np.float32) for agent in sim.agents}
    for late in (False, True):
        td = env.step(td.update(env.full_action_spec.zero()))["next"]
        seen, state, *_ = step(jax.random.PRNGKey(0), state, still)
        assert [bool(td[name]) for name in FLAGS] == [False, late, late]
        for i, agent in enumerate(sim.agents):
            got = td["agent"][0, i] if not hasattr(td["agent"], "tensordicts") else td["agent"].tensordicts[i][0]
            assert np.allclose(got["observation"].numpy(), seen[agent], atol=1e-5)
            assert bool(got["truncated"]) == late


def test_hanabi_says_which_actions_are_legal() -> None:
    env = JaxMARLEnv("hanabi", num_envs=2, seed=0, categorical_actions=True)
    legal, td = need("jax", "test").vmap(env._env.get_legal_moves), env.reset()
    for _ in range(3):
        want = legal(env._memory["state"])
        for i, agent in enumerate(env.agent_names):
            assert np.array_equal(td["agent", "action_mask"][:, i].numpy(), np.asarray(want[agent]).astype(bool))
        assert sorted(td["agent", "action_mask"].sum(-1)[0].tolist())[0] == 1  # who waits can only wait
        td = env.rand_action(td)
        assert td["agent", "action_mask"].gather(-1, td["agent", "action"].long().unsqueeze(-1)).all()
        td = env.step(td)["next"]


def test_forces_have_no_legal_actions() -> None:
    assert "action_mask" not in JaxMARLEnv("jaxnav").full_observation_spec["agent"].keys()


@pytest.mark.parametrize("name", ["storm", "storm_2p", "storm_np"])
def test_envs_of_an_older_kind_are_named(name: str) -> None:
    with pytest.raises(Unsupported, match=r"^JaxMARLEnv: a reset must give a dict .* agents \[0, 1\], .* from InThe"):
        JaxMARLEnv(name)


@pytest.mark.parametrize(
    ("name", "options", "error", "says"),
    [
        ("MPE_simple_spread_v3", {"num_env": 32}, TypeError, "no option 'num_env', .* did you mean 'num_envs'?"),
        ("MPE_simple_spread_v3", {"num_agent": 5}, TypeError, "no option 'num_agent', and SimpleSpreadMPE makes no"),
        ("SMAX", {"num_alliez": 2}, TypeError, "no option 'num_alliez', and neither has the simulator"),
        ("SMAX", {"scenario": "3n"}, UnknownName, "SMAX has no scenario '3n'; "),
        ("MPE_simple_v3", {"num_envs": 2, "batch_size": [3]}, SpecError, r"num_envs=2 and batch_size=\[3\] differ"),
        ("MPE_simple_v3", {"batch_size": [2, 2]}, ShapeError, r"must be \[num_envs\], .* got \[2, 2\]"),
        ("MPE_simple_v3", {"batch_size": []}, ShapeError, r"must be \[num_envs\], .* got \[\]"),
    ],
)
def test_options_that_nobody_has_are_named(name: str, options: dict[str, Any], error: Any, says: str) -> None:
    with pytest.raises(error, match=rf"^JaxMARLEnv.*{says}"):
        JaxMARLEnv(name, **options)


def test_options_of_the_simulator_arrive() -> None:
    assert JaxMARLEnv("MPE_simple_v3", damping=0.5)._env.damping == 0.5  # which no constructor names
    assert len(JaxMARLEnv("SMAX", scenario="3m").agent_names) == 6  # three marines against three
    for options in ({"batch_size": [2]}, {"batch_size": [2], "num_envs": 2}):
        assert marlenv.make("jaxmarl/MPE_simple_v3", **options).batch_size == (2,)


def test_wrappers_of_jaxmarl_are_refused() -> None:
    wrapper = need("jaxmarl.wrappers.baselines", "test").LogWrapper
    with pytest.raises(Unsupported, match=r"^JaxMARLWrapper: LogWrapper is a wrapper of JaxMARL's, .*\(env\._env\)"):
        JaxMARLWrapper(wrapper(need("jaxmarl", "test").make("MPE_simple_v3")))
