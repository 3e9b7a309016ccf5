"""VMAS through the wrapper, compared entry by entry with the raw env stepped by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from beside_simulator import groups_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import entry_of, equal
from sizes import some
from tensordict import LazyStackedTensorDict

import marlenv
from marlenv.errors import DeviceError, DtypeError, IllegalAction, SpecError, SpecTypeError, UnknownName
from marlenv.keys import nested, path
from marlenv.optional import need
from marlenv.physics.vmas_compat import load
from marlenv.testing import run_contract
from marlenv.wrappers.vmas import VmasEnv, VmasWrapper
from marlenv.wrappers.vmas.partial_reset import Generators

pytestmark = pytest.mark.sim

FAST = ["balance", "simple_tag", "simple_speaker_listener", "het_mass", "navigation", "simple_world_comm"]
DRAWS_IN_STEPS = {"football": "its AI players draw from one generator for all rows, as many numbers as the rows need"}
SHARED_BY_ROWS = {
    "het_mass": "masses",
    "simple_adversary": "the goal",
    "simple_push": "the goal",
    "simple_reference": "the goals",
    "simple_speaker_listener": "the goal",
}
"""What VMAS draws once for all rows, so that a partial reset leaves it."""

CONTRACT_EXEMPT = {
    "rows_draw_from_streams_of_their_own": "VMAS draws the starts of all rows from one generator",
    "resets_start_afresh": "VMAS's infos after a reset are still those of the last step before it",
}

OPTIONS: dict[str, dict[str, Any]] = {  # smaller worlds where the simulator is slow; the wrapper does the same in them
    "sampling": {"grid_spacing": 0.25},  # a reset visits every cell in a Python loop: 64 cells instead of 1600
    "road_traffic": {"n_agents": 4},  # instead of 20 cars, which see each other
    "pollock": {"n_agents": 3, "n_lines": 3, "n_boxes": 3},  # instead of 45 bodies, all of which collide
    "waterfall": {"n_agents": 2},  # instead of 5, with a joint between any two
}


def scenarios() -> list[str]:
    try:
        return VmasEnv.available_envs
    except ImportError:
        return []


class Hand:
    """A raw VMAS env with a random state of its own, seeded as the wrapper seeds."""

    def __init__(self, name: str, rows: int, **options: Any) -> None:
        vmas = need("vmas", "test")
        self.own = Generators()
        with self.own():
            self.sim = vmas.make_env(name, rows, seed=0, terminated_truncated=True, **options)

    def reset(self, seed: int) -> Any:
        with self.own():
            self.sim.seed(seed)
            return self.sim.reset(return_info=True, return_dones=True)

    def step(self, actions: list[Any]) -> Any:
        with self.own():
            return self.sim.step(actions)


def compare(env: VmasWrapper, td: Any, seen: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any) -> None:
    names = env.agent_names
    as_list = lambda x: [x[n] for n in names] if isinstance(x, Mapping) else x  # noqa: E731
    for i, agent in enumerate(names):
        look = as_list(seen)[i]
        parts = {("observation", k): v for k, v in look.items()} if isinstance(look, Mapping) else {"observation": look}
        for entry, value in parts.items():
            equal(entry_of(env, td, agent, entry), value, (agent, entry))
        if rewards is not None:
            equal(entry_of(env, td, agent, "reward"), as_list(rewards)[i], (agent, "reward"))
        for flag, value in (("terminated", terminated), ("truncated", truncated), ("done", terminated | truncated)):
            equal(entry_of(env, td, agent, flag), value, (agent, flag))
        for name, value in as_list(infos)[i].items():
            equal(entry_of(env, td, agent, ("info", name)), value, (agent, name))
    equal(td["terminated"], terminated, "terminated")
    equal(td["truncated"], truncated, "truncated")
    equal(td["done"], terminated | truncated, "done")


def follow(name: str, seed: int, steps: int, rows: int = 4, group_map: Any = None, **options: Any) -> None:
    env, hand = VmasEnv(name, rows, seed=seed, group_map=group_map, **options), Hand(name, rows, **options)
    env.set_seed(seed)
    td = env.reset()
    seen, terminated, truncated, infos = hand.reset(seed)
    compare(env, td, seen, None, terminated, truncated, infos)
    for _ in range(steps):
        td = env.rand_action(td)
        actions = [entry_of(env, td, a, "action") for a in env.agent_names]
        actions = [(a if a.ndim > 1 else a.unsqueeze(-1)).clone() for a in actions]
        td = env.step(td)
        compare(env, td["next"], *hand.step(actions))
        td = env.step_mdp(td)


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("name", FAST)
def test_every_number_is_the_simulators(name: str, continuous: bool) -> None:
    follow(name, 3, 8, continuous_actions=continuous, max_steps=6)


@pytest.mark.slow
@settings(max_examples=10)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(
        [None, "all_in_one_group", "one_group_per_agent", {"a": ["agent_2"], "b": {"c": ["agent_0"], "d": ["agent_1"]}}]
    ),
    st.booleans(),
)
def test_any_groups(seed: int, group_map: Any, dicts: bool) -> None:
    follow("balance", seed, 4, group_map=group_map, dict_spaces=dicts)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(scenarios(), 7))
def test_fuzz_every_scenario(name: str, sized: Callable) -> None:
    """100 or 200 random episodes in random groups, 50 at a time, beside the raw env."""
    fewer = OPTIONS.get(name, {})
    names = VmasEnv(name, 1, **fewer).agent_names

    @settings(max_examples=sized(2, 4), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.integers(0, 1 << 30), st.lists(st.integers(0, 2), min_size=len(names), max_size=len(names)), st.booleans()
    )
    def play(seed: int, labels: list[int], continuous: bool) -> None:
        options = {"continuous_actions": continuous, "max_steps": 10, **fewer}
        follow(name, seed, 10, rows=50, group_map=groups_by(labels, names), **options)

    play()


def partial_reset(name: str, masked: bool, steps: int = 6) -> None:
    options = OPTIONS.get(name, {})
    resetting, going_on = (VmasEnv(name, 5, seed=0, masked_reset=masked, **options) for _ in range(2))
    a, b = resetting.reset(), going_on.reset()
    where = torch.tensor([True, False, True, False, False]).unsqueeze(-1)
    kept = ~where.squeeze(-1)
    for i in range(2 + steps):
        action = going_on.rand_action(b).select(*going_on.action_keys).clone()
        a = resetting.step_mdp(resetting.step(a.update(action.clone())))
        b = going_on.step_mdp(going_on.step(b.update(action)))
        assert bool((a[kept] == b[kept]).all()), f"step {i}"
        if i == 1:
            before = a.clone()
            a = resetting.reset(a.set("_reset", where.clone()))
            assert bool((a[kept] == before[kept]).all())


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("name", FAST)
def test_rows_that_are_kept_go_on_as_if_nothing_had_been_reset(name: str, masked: bool) -> None:
    partial_reset(name, masked)


@pytest.mark.slow
@pytest.mark.parametrize("name", scenarios())
def test_partial_resets_of_every_scenario(name: str) -> None:
    if name in DRAWS_IN_STEPS:
        pytest.skip(DRAWS_IN_STEPS[name])
    partial_reset(name, True, steps=15)


def like_a_full_reset(name: str, steps: int) -> None:
    """Rows that are reset, beside the same rows of a copy in which all rows are, with the same draws."""
    where = torch.tensor([True, False, True, False, False])
    env = VmasEnv(name, 5, seed=0, **OPTIONS.get(name, {}))
    td = env.reset()
    for _ in range(7):
        td = env.step_mdp(env.rand_step(td))
    some, all_rows = copy.deepcopy(env), copy.deepcopy(env)
    with all_rows._generators("partial"):
        b = all_rows._packed(None, *all_rows._env.reset(return_info=True, return_dones=True))
    a = some.reset(td.set("_reset", where.unsqueeze(-1)))
    for i in range(1 + steps):
        for key in env.observation_spec.keys(True, True):
            torch.testing.assert_close(a[key][where], b[key][where], msg=lambda m, i=i, key=key: f"{i} {key}: {m}")
        actions = env.rand_action(a).select(*env.action_keys)
        a, b = some.step(a.update(actions.clone())), all_rows.step(b.update(actions))
        for key in env.reward_keys:
            torch.testing.assert_close(a["next"][key][where], b["next"][key][where], msg=lambda m, i=i: f"{i}: {m}")
        a, b = some.step_mdp(a), all_rows.step_mdp(b)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["balance", "navigation", "simple_tag", "sampling", "road_traffic"])
def test_rows_that_are_reset_are_those_of_a_full_reset(name: str) -> None:
    """Among them distributions with a row per env, and rings of as many steps as there are rows."""
    like_a_full_reset(name, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", scenarios())
def test_rows_that_are_reset_are_those_of_a_full_reset_in_every_scenario(name: str) -> None:
    if name in DRAWS_IN_STEPS or name in SHARED_BY_ROWS:
        pytest.skip(DRAWS_IN_STEPS.get(name) or f"all rows share {SHARED_BY_ROWS[name]}")
    like_a_full_reset(name, 8)


@pytest.mark.parametrize("masked", [True, False])
def test_the_field_of_a_row_that_is_reset_moves_alone(masked: bool) -> None:
    env = VmasEnv("sampling", 3, seed=1, masked_reset=masked, **OPTIONS["sampling"])
    field = lambda: torch.stack([g.loc for g in env._env.scenario.gaussians], 1)  # noqa: E731
    td, before = env.reset(), field()
    env.reset(td.set("_reset", torch.tensor([[True], [False], [False]])))
    assert torch.equal(field(), torch.stack(env._env.scenario.locs, 1))
    assert (field() != before).flatten(1).any(1).tolist() == [True, False, False]


def test_a_kept_row_of_football_without_its_drawing_players_goes_on_too() -> None:
    env, other = (VmasEnv("football", 3, seed=0, ai_red_agents=False) for _ in range(2))
    a, b = env.reset(), other.reset()
    env.reset(a.set("_reset", torch.tensor([[True], [False], [False]])))
    actions = other.rand_action(b)
    a, b = (
        env.step(
            env.reset(a.clone().set("_reset", torch.tensor([[True], [False], [False]]))).update(
                actions.select(*env.action_keys)
            )
        ),
        other.step(actions),
    )
    assert bool((a["next"][1:] == b["next"][1:]).all())


def test_rows_that_are_reset_start_anew() -> None:
    env = VmasEnv("balance", 4, seed=0, max_steps=3)
    td = env.step_mdp(env.rand_step(env.reset()))
    after = env.reset(td.clone().set("_reset", torch.tensor([[True], [False], [True], [False]])))
    moved = (after["agents", "observation"] != td["agents", "observation"]).flatten(1).any(-1)
    assert moved.tolist() == [True, False, True, False]
    assert env._env.steps.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_a_time_limit_truncates() -> None:
    data = VmasEnv("simple_spread", 2, max_steps=5).rollout(9)["next"]
    assert data["truncated"].squeeze(-1).tolist() == [[False] * 4 + [True]] * 2
    assert not data["terminated"].any()


def test_another_env_does_not_disturb_this_one() -> None:
    alone, beside = (VmasEnv("simple_spread", 2, seed=3) for _ in range(2))
    first = [alone.reset()["agents", "observation"] for _ in range(3)]
    second = []
    for _ in range(3):
        VmasEnv("balance", 1, seed=9).reset()
        second.append(beside.reset()["agents", "observation"])
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_another_env_does_not_disturb_a_copy() -> None:
    env = VmasEnv("simple_spread", 2, seed=3)
    twin = copy.deepcopy(env)
    first = [env.reset()["agents", "observation"] for _ in range(3)]
    need("vmas", "test").make_env("balance", 1, seed=9).reset()
    state = torch.get_rng_state()
    assert all(torch.equal(twin.reset()["agents", "observation"], x) for x in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_scripts_of_a_copy_read_the_copys_clock() -> None:
    """The target of flocking goes round by the scenario's clock: at step ``t`` it is pushed by (cos, sin)(t / 30)."""
    env = VmasEnv("flocking", 2, seed=5)
    env.reset()
    twin = copy.deepcopy(env)
    still = lambda td: td.set(("agents", "action"), torch.zeros(2, 4, 2))  # noqa: E731
    env.rollout(40, still)  # the original's clock goes on
    twin.rollout(3, still)
    for one, steps in ((twin, 3), (env, 40)):
        at = torch.tensor(steps / 30)  # the scenario's clock counts the rewards of its first agent
        target = next(agent for agent in one._env.world.agents if agent.name == "target")
        target.action_callback(one._env.world)
        assert torch.allclose(target.action.u, torch.stack([at.cos(), at.sin()]).expand(2, 2), atol=1e-6), steps
    script = twin._env.world.scripted_agents[0].action_script
    assert script.__closure__[0].cell_contents is twin._env.scenario


def test_functions_that_a_scenario_keeps_read_the_copys_world() -> None:
    class Kept(need("vmas.scenarios.balance", "test").Scenario):
        """Pays what a function says that was made with the world."""

        def make_world(self, *args: Any, **options: Any) -> Any:
            world = super().make_world(*args, **options)
            self.height = lambda: world.agents[0].state.pos[:, 1]
            return world

        def reward(self, agent: Any) -> torch.Tensor:
            return self.height()

    env = VmasEnv(Kept(), 2, seed=5)
    env.reset()
    twin = copy.deepcopy(env)
    env.rollout(5)  # the original goes on
    data = twin.rollout(3)["next", "agents"]
    assert torch.equal(data["reward"][:, -1, 0, 0], twin._env.agents[0].state.pos[:, 1])


def test_envs_without_a_seed_differ() -> None:
    a, b = (VmasEnv("simple_spread", 2).reset()["agents", "observation"] for _ in range(2))
    assert not torch.equal(a, b)


@pytest.mark.parametrize(
    ("options", "kind", "shape"),
    [
        ({"continuous_actions": True}, "Bounded", (2, 3, 2)),
        ({"continuous_actions": False}, "Categorical", (2, 3)),
        ({"continuous_actions": False, "categorical_actions": False}, "OneHot", (2, 3, 9)),
        ({"continuous_actions": False, "multidiscrete_actions": True}, "MultiCategorical", (2, 3, 2)),
        (
            {"continuous_actions": False, "multidiscrete_actions": True, "categorical_actions": False},
            "MultiOneHot",
            (2, 3, 6),
        ),
    ],
)
def test_every_kind_of_action_is_played(options: dict[str, Any], kind: str, shape: tuple[int, ...]) -> None:
    env = VmasEnv("balance", 2, seed=0, n_agents=3, **options)
    spec = env.full_action_spec["agents", "action"]
    assert (type(spec).__name__, tuple(spec.shape)) == (kind, shape)
    env.check_env_specs()


def test_unequal_agents_in_one_group_are_stacked_lazily() -> None:
    env = VmasEnv("simple_speaker_listener", 2, seed=0, group_map="all_in_one_group", continuous_actions=False)
    td = env.step(env.rand_action(env.reset()))
    sizes = [td["next", "agents"][:, i]["observation"].shape[-1] for i in range(2)]
    assert sizes[0] != sizes[1]
    env.check_env_specs(return_contiguous=False)


def test_dict_observations_are_nested() -> None:
    base = need("vmas.simulator.scenario", "test").BaseScenario
    core = need("vmas.simulator.core", "test")

    class Dicts(base):
        def make_world(self, batch_dim: int, device: Any, **kwargs: Any) -> Any:
            world = core.World(batch_dim, device)
            for i in range(2):
                world.add_agent(core.Agent(name=f"agent_{i}"))
            return world

        def reset_world_at(self, env_index: int | None = None) -> None:
            for agent in self.world.agents:
                agent.set_pos(
                    torch.zeros(2) if env_index is not None else torch.zeros(self.world.batch_dim, 2),
                    batch_index=env_index,
                )

        def observation(self, agent: Any) -> Any:
            return {"pos": agent.state.pos, "more": {"speed": agent.state.vel.norm(dim=-1)}}

        def reward(self, agent: Any) -> Any:
            return agent.state.pos.sum(-1)

        def info(self, agent: Any) -> Any:
            return {"only_first": agent.state.pos[:, 0]} if agent.name == "agent_0" else {}

    env = VmasEnv(Dicts(), 3, seed=0)
    data = env.rollout(4)
    assert data["agents", "observation", "more", "speed"].shape == (3, 4, 2, 1)
    assert torch.equal(
        data["next", "agents", "info", "only_first"][..., 0, :],
        data["next", "agents", "observation", "pos"][..., 0, :1],
    )
    assert not data["next", "agents", "info", "only_first"][..., 1, :].any()
    env.check_env_specs()


def test_envs_of_every_interface_are_taken() -> None:
    make = need("vmas", "test").make_env
    for options in (
        {},
        {"terminated_truncated": True},
        {"dict_spaces": True},
        {"dict_spaces": True, "terminated_truncated": True},
    ):
        env = VmasWrapper(make("balance", 2, **options), seed=0)
        env.check_env_specs()
    assert env.render(mode="rgb_array").ndim == 3


def test_groups_are_torchrls() -> None:
    assert VmasEnv("balance", 1).group_map == {"agents": ["agent_0", "agent_1", "agent_2"]}
    assert VmasEnv("simple_tag", 1).group_map == {
        "adversary": ["adversary_0", "adversary_1", "adversary_2"],
        "agent": ["agent_0"],
    }
    assert VmasEnv("goal", 1).group_map == {"agents": ["agent 0"]}


def test_an_option_that_is_said_twice_is_the_one_beside_the_others() -> None:
    made = [
        VmasEnv("balance", 1, scenario_kwargs={"n_agents": 2}),
        VmasEnv("balance", 1, scenario_kwargs={"n_agents": 2}, n_agents=4),
    ]
    assert [len(env.agent_names) for env in made] == [2, 4]


def test_groups_have_flags_of_the_shape_of_their_rewards() -> None:
    env = VmasEnv("simple_tag", 3, max_steps=2)
    td = env.rollout(4, break_when_any_done=False)["next"]
    for group, agents in env.group_map.items():
        assert td[group, "done"].shape == td[group, "reward"].shape == (3, 4, len(agents), 1)
        assert td[group, "truncated"][0, :, 0, 0].tolist() == [False, True, False, True]
    assert marlenv.group_keys(env, "agent")["done"] == ("agent", "done")


def test_make_gives_a_batch() -> None:
    env = marlenv.make("vmas/balance", num_envs=5, max_steps=2, n_agents=2)
    assert env.rollout(4)["next", "agents", "reward"].shape == (5, 2, 2, 1)


@pytest.mark.reference
@pytest.mark.parametrize("continuous", [True, False])
def test_keys_shapes_and_numbers_are_torchrls(continuous: bool) -> None:
    from torchrl.envs.libs.vmas import VmasEnv as Peer

    options = {"num_envs": 3, "continuous_actions": continuous, "n_agents": 3, "max_steps": 4}
    ours, peer = VmasEnv("balance", seed=0, **options), Peer("balance", seed=0, **options)
    a, b = ours.rollout(3), peer.rollout(3)
    theirs, mine = (set(map(str, td.keys(True, True))) for td in (b, a))
    assert not theirs - mine
    more = ["truncated", *(("agents", name) for name in ("done", "terminated", "truncated"))]
    assert mine - theirs == {str(key) for name in more for key in (name, nested(("next", *path(name))))}
    for key in b.keys(True, True):
        assert a[key].shape == b[key].shape, key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["balance", "simple_world_comm"])
def test_the_contract_holds(name: str) -> None:
    found = run_contract(lambda: VmasEnv(name, 3, max_steps=9), CONTRACT_EXEMPT, steps=20)
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(scenarios(), 7))
def test_the_contract_holds_for_every_scenario(name: str, sized: Callable) -> None:
    exempt = dict(CONTRACT_EXEMPT)
    if name in DRAWS_IN_STEPS:
        exempt["partial_resets_keep_other_rows"] = DRAWS_IN_STEPS[name]
    make = lambda: VmasEnv(name, 3, max_steps=9, **OPTIONS.get(name, {}))  # noqa: E731
    found = run_contract(make, exempt, steps=sized(20, 64))
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: VmasEnv("balanc", 2), UnknownName, "no scenario is called 'balanc'; did you mean 'balance'"),
        (lambda: VmasWrapper(3), SpecError, "expected a VMAS Environment, got int"),
    ],
)
def test_bad_input_is_named(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"device": "gpu"}, DeviceError, "VmasEnv: 'gpu' is no device"),
        ({"seed": "1"}, DtypeError, "VmasEnv: seed must be an int, got '1'"),
        ({"seed": 2.5}, DtypeError, "VmasEnv: seed must be an int, got 2.5"),
        ({"max_steps": "5"}, SpecError, "VmasEnv: max_steps must be an integer from 1 on, got '5'"),
        ({"max_steps": 0}, SpecError, "VmasEnv: max_steps must be an integer from 1 on, got 0"),
        ({"max_steps": 2.5}, SpecError, "VmasEnv: max_steps must be an integer from 1 on, got 2.5"),
        ({"scenario_kwargs": {"max_steps": 3}}, SpecError, "VmasEnv: 'max_steps' is an option of the env; pass it by"),
        ({"n_agents": "x"}, SpecTypeError, "VmasEnv: 'balance' cannot be made with n_agents='x': "),
        ({"n_agents": 0}, SpecError, "VmasEnv: 'balance' cannot be made with n_agents=0: "),
    ],
)
def test_options_that_make_no_sense_are_named(options: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=f"^{says}"):
        VmasEnv("balance", num_envs=2, **options)


def test_no_device_is_the_cpu() -> None:
    """As in TorchRL."""
    assert VmasEnv("balance", num_envs=2, device=None).device == torch.device("cpu")


@pytest.mark.parametrize(("continuous", "value"), [(True, float("nan")), (True, 9.0), (False, 9), (False, -1)])
def test_actions_that_are_none_are_named(continuous: bool, value: float) -> None:
    """VMAS asserts, of NaN without a word, and plays nothing."""
    env = VmasEnv("balance", num_envs=2, seed=0, n_agents=2, continuous_actions=continuous)
    td = env.rand_action(env.reset())
    odd = td.clone()
    odd["agents", "action"][1, 0] = value
    with pytest.raises(IllegalAction, match=r"^VmasEnv.step: the action of agent 'agent_0' in row 1 must be "):
        env.step(odd)
    twin = VmasEnv("balance", num_envs=2, seed=0, n_agents=2, continuous_actions=continuous)
    twin.reset()
    assert bool((env.step(td.clone())["next"] == twin.step(td.clone())["next"]).all())


@pytest.mark.parametrize("rows", [3, 4])
@pytest.mark.parametrize("native", [False, True])
def test_rows_that_are_put_together_by_hand_are_rows(native: bool, rows: int) -> None:
    """A lazy stack of rows was read as one of agents: as many rows as agents played one another's actions."""
    file = Path(need("vmas", "test").__file__).parent / "scenarios" / "balance.py"
    env = load(file, num_envs=rows, seed=0) if native else VmasEnv("balance", num_envs=rows, seed=0)
    env.set_seed(1)
    td = env.rand_action(env.reset())
    want = env.step(td.clone())["next"]
    env.set_seed(1)
    env.reset()
    got = env.step(LazyStackedTensorDict(*td.unbind(0), stack_dim=0))["next"]
    for key in want.keys(True, True):
        assert torch.equal(got[key], want[key]), key


def test_an_env_that_was_evaluated_in_inference_mode_goes_on_as_one_that_was_not() -> None:
    """Scenarios that write to tensors in place, such as balance, ended in a bare RuntimeError."""
    env, other = (VmasEnv("balance", num_envs=2, seed=0, max_steps=4) for _ in range(2))
    with torch.inference_mode():
        seen = env.rollout(3)
    assert bool((seen == other.rollout(3)).all())
    again, want = (one.rollout(9, break_when_any_done=False) for one in (env, other))
    assert bool((again == want).all())
