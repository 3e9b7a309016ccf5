"""A scenario behind tensordicts: keys and specs, time limits, masked resets, seeds, state, groups."""

import json
import warnings

import numpy as np
import pytest
import torch
from fetch import Fetch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread

from marlenv.envs import check_env_specs
from marlenv.envs.registry import load
from marlenv.errors import DtypeError, GroupError, KeyMissing, NotInSpec, ShapeError
from marlenv.physics.env import ScenarioEnv, make_scenario
from marlenv.testing.comparison import differences

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import vmas

CHOICES = {
    "continuous": {},
    "discrete": {"continuous_actions": False},
    "one-hot": {"continuous_actions": False, "categorical_actions": False},
    "multidiscrete": {"continuous_actions": False, "multidiscrete_actions": True},
    "multi-one-hot": {"continuous_actions": False, "multidiscrete_actions": True, "categorical_actions": False},
}
MAPS = {
    "own": None,
    "each": "one_group_per_agent",
    "all": "all_in_one_group",
    "tree": {"first": ["runner_1", "runner_0"], "rest": {"last": ["runner_2"], "keeper": ["keeper_0"]}},
    "mixed": {"first": ["keeper_0", "runner_2"], "rest": ["runner_0", "runner_1"]},
}


def spread(rows=4, **options):
    return ScenarioEnv(SimpleSpread(), rows, seed=0, **{"compile": "none", **options})


def fetch(rows=4, **options):
    return ScenarioEnv(Fetch(), rows, seed=0, **{"compile": "none", **options})


@pytest.mark.parametrize("choice", CHOICES)
def test_answers_keep_to_the_specs(choice):
    check_env_specs(fetch(max_steps=3, **CHOICES[choice]), break_when_any_done="both", steps=7)


@pytest.mark.parametrize("groups", MAPS)
def test_answers_keep_to_the_specs_in_any_groups(groups):
    check_env_specs(fetch(max_steps=3, group_map=MAPS[groups]), break_when_any_done="both", steps=7)


@pytest.mark.parametrize("groups", MAPS)
def test_agents_live_the_same_life_in_any_groups(groups):
    own, other = fetch(), fetch(group_map=MAPS[groups])
    own.reset(), other.reset()
    for t in range(3):
        acts = torch.rand(4, 4, 4, generator=torch.Generator().manual_seed(t))
        lives = []
        for env in (own, other):
            td = env.rand_action()
            for i, agent in enumerate(own.agent_names):
                key, at = env.tree.key(agent, "action")
                width = td[key].shape[-1]
                td[key][:, at] = acts[:, i, :width]
            following = env.step(td)["next"]
            lives.append({(a, n): following[k][:, i] for a in own.agent_names for n in ("observation", "reward") for k,
                          i in [env.tree.key(a, n)]})  # fmt: skip
        for which, seen in lives[0].items():
            width = seen.shape[-1]
            assert torch.equal(seen, lives[1][which][..., :width]), which
            assert not lives[1][which][..., width:].any()


def test_unequal_agents_in_a_group_are_padded_and_the_mask_says_so():
    env = fetch(group_map="all_in_one_group")
    td = env.rand_step(env.reset())
    assert td["next", "agents", "pad_mask", "action"][0].tolist() == [[True] * 4] * 3 + [[True, True, False, False]]
    assert td["next", "agents", "info", "said"][:, 3].tolist() == [[0.0, 0.0]] * 4
    assert ("agents", "pad_mask", "observation") not in td["next"].keys(True, True)  # all see two numbers


def test_a_time_limit_truncates_and_never_terminates():
    data = spread(max_steps=5).rollout(20)["next"]
    assert data.shape == (4, 5)
    for level in (data, data["agents"]):
        assert level["truncated"][:, -1].all()
        assert not level["truncated"][:, :-1].any()
        assert not level["terminated"].any()
        assert torch.equal(level["done"], level["truncated"])


def test_a_task_that_ends_terminates_agents_and_row():
    data = fetch().rollout(100)["next"]
    assert data.shape == (4, 41)  # Fetch is over after 40 steps
    assert data["terminated"][:, -1].all()
    assert data["runners", "done"][:, -1].all()
    assert not data["truncated"].any()


def test_rollouts_go_on_after_a_time_limit():
    data = spread(max_steps=5).rollout(12, break_when_any_done=False)
    ends = data["next", "truncated"].squeeze(-1)
    assert ends[0].nonzero().flatten().tolist() == [4, 9]
    moved = (data["agents", "observation"][:, 5] - data["next", "agents", "observation"][:, 4]).abs().amax()
    assert moved > 0.1  # a new episode
    assert not data["done"].any()


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [spread, fetch])
@pytest.mark.parametrize("rows", [1, 8])
def test_row_0_lives_the_same_life_in_any_batch(make, rows):
    alone, among = (make(n, max_steps=7).rollout(20, break_when_any_done=False)[0] for n in (rows, 64))
    assert not differences(alone, among)


def test_a_partial_reset_keeps_other_rows_bit_for_bit():
    env, twin = fetch(6), fetch(6)
    td, other = env.rollout(4)[:, -1], twin.rollout(4)[:, -1]
    td, other = env.step_mdp(td), twin.step_mdp(other)
    where = torch.tensor([True, False, False, True, False, False])
    before, state = td.clone(), env.get_state()
    td["_reset"] = where.unsqueeze(-1)
    td = env.reset(td)
    for key in td.keys(True, True):
        assert torch.equal(td[key][~where], before[key][~where]), key
    assert not (td["runners", "observation"][where] == before["runners", "observation"][where]).any()
    after = env.get_state()
    assert all(torch.equal(after[name][~where], state[name][~where]) for name in state.keys())
    ours, theirs = env.rand_step(td), twin.rand_step(other)  # and they go on as if nothing had happened
    assert torch.equal(ours["next", "runners", "observation"][~where], theirs["next", "runners", "observation"][~where])


def test_only_reset_rows_draw():
    env = spread(4)
    env.reset()
    before = env.get_state()["rng"]
    td = env.step_mdp(env.rand_step())
    env.reset(td.set("_reset", torch.tensor([[True], [False], [False], [False]])))
    drew = (env.get_state()["rng"] != before).any(-1)
    assert drew.tolist() == [True, False, False, False]


def test_a_partial_step_leaves_other_rows_where_they_are():
    env = fetch(4)
    td = env.rand_action(env.reset())
    before = env.get_state()
    env.step(td.set("_step", torch.tensor([True, False, True, False])))
    after = env.get_state()
    assert all(torch.equal(after[name][1::2], before[name][1::2]) for name in before.keys())
    assert after["steps"].tolist() == [1, 0, 1, 0]


def test_nothing_is_done_after_a_reset():
    env = spread(16, max_steps=1)
    td = env.step_mdp(env.rand_step(env.reset()))
    assert td["done"].all()
    assert not env.maybe_reset(td)["done"].any()
    assert not td["agents", "done"].any()


# --- seeds and state -----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_episode_again():
    env = fetch()
    env.rollout(3)
    first, again, other = (env.rollout(5) for seed in (7, 7, 8) if env.set_seed(seed) is not None)
    assert not differences(first, again)
    assert not torch.equal(first["runners", "observation"], other["runners", "observation"])


def test_episodes_differ_and_so_do_unseeded_envs():
    env = spread()
    assert not torch.equal(env.reset()["agents", "observation"], env.reset()["agents", "observation"])
    assert not torch.equal(*(ScenarioEnv(SimpleSpread(), 4).reset()["agents", "observation"] for _ in range(2)))


def test_a_step_needs_no_data_of_the_reset():
    env = spread()
    env.reset()
    td = env.rand_step()
    assert td["next", "agents", "observation"].isfinite().all()
    assert td["next", "agents", "reward"].abs().sum() > 0


def test_a_state_leads_to_the_same_future_again():
    env = fetch()
    env.rollout(4)
    state = env.get_state()
    actions = [env.rand_action() for _ in range(5)]
    once = [env.step(a.clone())["next"] for a in actions]
    seen = env.set_state(state)
    assert set(seen.keys()) == {"runners", "keeper", "done", "terminated", "truncated"}
    again = [env.step(a.clone())["next"] for a in actions]
    for one, two in zip(once, again, strict=True):
        assert not differences(one, two)


def test_one_state_branches_into_many_rows():
    env = spread(3)
    env.rollout(4)
    many = spread(64)
    td = many.set_state(env.get_state()[1].expand(64))
    assert torch.equal(
        td["agents", "observation"], env.simulation.observe(env.last_state)[0]["agents"][1].expand(64, -1, -1)
    )
    following = many.rand_step(td)["next", "agents", "observation"]
    assert len(following.flatten(1).unique(dim=0)) == 64


def test_a_state_can_be_put_into_some_rows():
    env = spread(4)
    env.reset()
    old = env.get_state()
    env.rand_step()
    new = env.get_state()
    env.set_state(old, mask=torch.tensor([True, False, False, True]))
    pos = env.get_state()["pos"]
    assert torch.equal(pos[[0, 3]], old["pos"][[0, 3]])
    assert torch.equal(pos[[1, 2]], new["pos"][[1, 2]])


def test_changing_a_state_that_was_handed_out_does_not_move_the_env():
    env = spread()
    env.reset()
    state = env.get_state()
    kept = state["pos"].clone()
    state["pos"].zero_()
    assert torch.equal(env.get_state()["pos"], kept)


def test_a_state_of_a_row_that_was_over_is_still_over():
    env = spread(2, max_steps=2)
    env.rollout(2)
    assert env.set_state(env.get_state())["truncated"].all()


# --- gradients, other libraries ------------------------------------------------------------------


def test_gradients_flow_only_when_asked_for():
    for grad_enabled in (False, True):
        env = spread(grad_enabled=grad_enabled)
        td = env.reset()
        td["agents", "action"] = torch.zeros(4, 3, 2, requires_grad=True)
        reward = env.step(td)["next", "agents", "reward"]
        assert reward.requires_grad == grad_enabled
    reward.sum().backward()
    assert td["agents", "action"].grad.abs().sum() > 0


@pytest.mark.reference
@pytest.mark.parametrize("choice", ["continuous", "discrete", "multidiscrete"])
def test_the_env_is_vmas_step_by_step(choice):
    options = {k: v for k, v in CHOICES[choice].items() if k != "categorical_actions"}
    theirs = vmas.make_env("simple_spread", num_envs=16, seed=0, max_steps=20, **options)
    theirs.reset()
    env = spread(16, max_steps=20, **options)
    env.reset()
    state = env.get_state()
    state["pos"] = torch.stack([b.state.pos for b in (*theirs.world.agents, *theirs.world.landmarks)], -1)
    td = env.set_state(state)
    for _ in range(20):
        actions = theirs.get_random_actions()
        td["agents", "action"] = torch.stack(actions, 1)
        seen, rewards, dones, _ = theirs.step([a.clone() for a in actions])
        following = env.step(td)["next"]
        assert torch.equal(following["agents", "observation"], torch.stack(seen, 1))
        torch.testing.assert_close(
            following["agents", "reward"].squeeze(-1), torch.stack(rewards, 1), rtol=1e-6, atol=1e-5
        )
        assert torch.equal(following["done"].squeeze(-1), dones)


# --- mistakes and making -------------------------------------------------------------------------


def test_scenarios_take_what_every_env_takes():
    env = make_scenario(SimpleSpread, spec_locked=False, run_type_checks=True)
    assert env.run_type_checks
    assert not env.is_spec_locked
    assert make_scenario(SimpleSpread).is_spec_locked


@pytest.mark.slow
def test_a_name_makes_an_env_with_options_of_both():
    entry = next(e for e in load("marlenv.scenarios.index:SCENARIOS") if e.name == "simple_spread")
    env = entry.load()(**entry.options, num_envs=3, seed=1, n_agents=4, max_steps=9)
    assert env.reset()["agents", "observation"].shape == (3, 4, 18)
    assert env.max_steps == 9


def test_a_misspelt_option_names_the_nearest():
    with pytest.raises(TypeError, match=r"SimpleSpread has no option 'n_agent'; did you mean 'n_agents'\?"):
        make_scenario(SimpleSpread, n_agent=4)
    with pytest.raises(TypeError, match=r"no option 'max_step'; did you mean 'max_steps'\?"):
        make_scenario(SimpleSpread, max_step=4)


def test_impossible_options_are_errors():
    with pytest.raises(ValueError, match="num_envs must be an integer from 1 on, got 0"):
        spread(0)
    with pytest.raises(ValueError, match="multidiscrete_actions=True needs continuous_actions=False"):
        spread(multidiscrete_actions=True)
    with pytest.raises(DtypeError, match="ScenarioEnv: continuous_actions must be True or False, got 'no'"):
        spread(continuous_actions="no")
    with pytest.raises(ValueError, match=r"compile must be one of \['none', .*\], got 'fast'"):
        spread(compile="fast")
    with pytest.raises(GroupError, match=r"agents in no group: \['agent_1', 'agent_2'\]"):
        spread(group_map={"a": ["agent_0"]})


def test_states_that_do_not_fit_are_errors():
    env = spread(4)
    env.reset()
    with pytest.raises(ShapeError, match=r"ScenarioEnv\.set_state: expected a state of batch size \[4\], got \[2\]"):
        env.set_state(spread(2).get_state())
    with pytest.raises(KeyMissing, match=r"the state has no \['rng'\]"):
        env.set_state(env.get_state().exclude("rng"))
    with pytest.raises(
        DtypeError, match=r"ScenarioEnv.set_state: expected a tensordict as env.get_state\(\) gives it, got int"
    ):
        env.set_state(5)


def test_nan_actions_are_found_when_asked_for():
    env = spread(run_type_checks=True)
    td = env.rand_action(env.reset())
    td["agents", "action"][2, 1, 0] = torch.nan
    with pytest.raises(NotInSpec):
        env.step(td)


# --- what rollouts are given ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, lambda td: td.set(("agents", "action"), torch.zeros(4, 3, 2))])
@pytest.mark.parametrize("tier", ["none", "auto"])
def test_a_number_of_numpy_is_a_number_of_steps(tier, policy):
    data = make_scenario(SimpleSpread(), 4, seed=0, compile=tier).rollout(np.int64(3), policy)
    assert [type(size) for size in (*data.shape, *data["next"].shape)] == [int] * 4
    assert json.loads(json.dumps(list(data.shape))) == [4, 3]


def test_out_must_have_a_place_for_all_that_a_rollout_has():
    env = make_scenario(SimpleSpread(), 4, seed=0, compile="none")
    right = env.rollout(3)
    wrong = {
        KeyMissing: right.exclude(("next", "agents", "reward")),
        DtypeError: right.clone().apply(lambda x: x.double() if x.is_floating_point() else x),
    }
    says = {
        KeyMissing: r"ScenarioEnv.rollout: out has no \[\"\('next', 'agents', 'reward'\)\"\]; make it from a rollout",
        DtypeError: r"ScenarioEnv.rollout: out: .* must be of torch.float32, got torch.float64",
    }
    for error, out in wrong.items():
        before = out.clone()
        with pytest.raises(error, match=says[error]):
            env.rollout(3, out=out)
        assert (out == before).all()
    more = right.apply(torch.zeros_like).set("of a user", torch.ones(4, 3))
    env.set_seed(0)
    assert env.rollout(3, out=more) is more
    assert (more.exclude("of a user") == right).all()


# --- infos ---------------------------------------------------------------------------------------


class Counts(SimpleSpread):
    """Tells agents a number of a dtype that machine code has not."""

    def info(self):
        return {"agents": {"count": self.agents.pos[..., 0].to(torch.int16)}}


class TellsLater(SimpleSpread):
    """Tells agents something only after steps, which nobody expects: specs are made from resets."""

    def info(self):
        return {"agents": {"pos": self.agents.pos}} if self.world.stage.moment.controls else {}


@pytest.mark.parametrize("group_map", [None, "one_group_per_agent"])
def test_infos_of_any_dtype_roll_out(group_map):
    env = ScenarioEnv(Counts(), 4, seed=0, max_steps=2, group_map=group_map, compile="none")
    check_env_specs(env)
    group = next(iter(env.group_map))
    assert env.rollout(5, break_when_any_done=False)["next", group, "info", "count"].dtype == torch.int16


def test_infos_that_only_steps_give_are_named():
    with pytest.raises(
        KeyMissing, match=r"TellsLater.info: expected the entries that a reset gives, \[\], after every"
    ):
        ScenarioEnv(TellsLater())
