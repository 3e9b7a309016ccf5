"""The fused rollout of scenarios gives the data of the rollout of any env, bit for bit."""

import pytest
import torch
from stepwise import stepwise
from tensordict import is_non_tensor
from tensordict.nn import TensorDictModule
from torch import nn

from marlenv.errors import KeyMissing, ShapeError
from marlenv.physics.jit import cache
from marlenv.registration import make


def same(ours, reference):
    """Raises unless two rollouts agree in everything."""
    assert ours.batch_size == reference.batch_size
    assert ours.names == reference.names
    keys = set(reference.keys(True))
    assert set(ours.keys(True)) == keys
    for key in keys:
        x, y = ours.get(key), reference.get(key)
        if isinstance(y, torch.Tensor):
            assert x.dtype == y.dtype
            assert torch.equal(x, y), key
        elif is_non_tensor(y):
            assert x.tolist() == y.tolist(), key
        else:
            assert x.batch_size == y.batch_size, key


@pytest.mark.slow
@pytest.mark.parametrize("compile", ["none", "aot"])
@pytest.mark.parametrize(
    ("policy", "error", "says"),
    [
        (lambda td: None, KeyMissing, r"no action under \('agents', 'action'\)"),
        (
            lambda td: 5,
            TypeError,
            "ScenarioEnv.rollout: the policy is given the tensordict and must return one, got int",
        ),
        (lambda td: td.set("action", torch.zeros(3)), KeyMissing, r"no action under \('agents', 'action'\)"),
        (lambda td: td.set(("agents", "action"), torch.zeros(3, 2, 5)), ShapeError, r"must have shape \[3, 2, 2\]"),
    ],
)
def test_a_policy_that_gives_no_actions_is_told_so(compile, policy, error, says):
    with pytest.raises(error, match=says):
        make("give_way", num_envs=3, compile=compile).rollout(2, policy)


class Squash(nn.Module):
    def forward(self, agents_observation):
        return agents_observation[..., :2].tanh()


def policy_of(kind):
    torch.manual_seed(0)
    if kind == "random":
        return None
    if kind == "module":
        return TensorDictModule(nn.Linear(14, 2), [("agents", "observation")], [("agents", "action")])
    if kind == "module of observations":
        return Squash()

    def writes_more(td):
        seen = td["agents", "observation"]
        count = td["count"] if "count" in td.keys() else torch.zeros(td.shape)
        return (
            td.set(("agents", "action"), -seen[..., :2].clamp(-1, 1))
            .set("count", count + 1)
            .set(("agents", "size"), seen.norm(dim=-1))
        )

    return writes_more


OPTIONS = [
    {},
    {"break_when_any_done": False},
    {"set_truncated": True},
    {"break_when_any_done": False, "set_truncated": True},
]


@pytest.mark.parametrize("kind", ["random", "module", "module of observations", "callable with more entries"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_policy_and_end_in_eager_mode(kind, options):
    reference, env = (make("simple_spread", num_envs=5, seed=2, max_steps=6, compile="none") for _ in range(2))
    with torch.no_grad():
        for steps in (15, 4):  # the second one goes on with the same streams of random numbers
            same(
                env.rollout(steps, policy_of(kind), **options),
                stepwise(reference, steps, policy_of(kind), **options),
            )


@pytest.mark.parametrize("name", ["navigation", "simple_tag", "simple_world_comm", "balance"])
def test_scenarios_with_infos_ends_and_several_groups(name):
    reference, env = (make(name, num_envs=7, seed=2, max_steps=5, compile="none") for _ in range(2))
    same(env.rollout(12, break_when_any_done=False), stepwise(reference, 12, break_when_any_done=False))


@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("kind", ["random", "module", "callable with more entries"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_machine_code_fused_is_machine_code_step_by_step(kind, options):
    reference, env = (make("simple_spread", num_envs=21, seed=2, max_steps=6, compile="aot") for _ in range(2))
    with torch.no_grad():
        for steps in (15, 4):
            same(
                env.rollout(steps, policy_of(kind), **options),
                stepwise(reference, steps, policy_of(kind), **options),
            )


@pytest.mark.slow
@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("kind", ["random", "module"])
@pytest.mark.parametrize("steps", [19, 40, 70])
def test_agents_have_the_flags_of_their_row_however_rare_ends_are(kind, steps):
    reference, env = (make("simple_tag", num_envs=5, seed=2, max_steps=18, compile="aot") for _ in range(2))
    policy = None if kind == "random" else lambda td: td.update(env.full_action_spec.zero())
    with torch.no_grad():
        data = env.rollout(steps, policy, break_when_any_done=False)
        same(data, stepwise(reference, steps, policy, break_when_any_done=False))
    assert data["next", "adversary", "truncated"].sum() == 5 * 3 * (steps // 18)


@pytest.mark.parametrize(
    "mode", [{"continuous_actions": False}, {"continuous_actions": False, "multidiscrete_actions": True}]
)
def test_discrete_actions(mode):
    reference, env = (make("simple_spread", num_envs=5, seed=2, max_steps=4, compile="none", **mode) for _ in range(2))
    same(env.rollout(9, break_when_any_done=False), stepwise(reference, 9, break_when_any_done=False))


@pytest.mark.parametrize(
    "options",
    [{"break_when_all_done": True}, {"callback": lambda env, td: None}, {"return_contiguous": False}],
    ids=lambda o: next(iter(o)),
)
def test_what_is_not_fused_goes_the_usual_way(options):
    reference, env = (make("simple_spread", num_envs=3, seed=2, max_steps=4, compile="none") for _ in range(2))
    ours, theirs = env.rollout(6, **options), stepwise(reference, 6, **options)
    assert torch.equal(ours["next", "agents", "observation"], theirs["next", "agents", "observation"])


def test_groups_of_ones_own_go_the_usual_way():
    reference, env = (
        make("simple_tag", num_envs=3, seed=2, group_map="all_in_one_group", compile="none") for _ in range(2)
    )
    same(env.rollout(3), stepwise(reference, 3))


def test_a_rollout_goes_on_where_another_one_ended():
    reference, env = (make("simple_spread", num_envs=4, seed=2, max_steps=6, compile="none") for _ in range(2))
    going = {"auto_reset": False, "break_when_any_done": False}
    for _ in range(2):
        mine, theirs = (
            env.rollout(4, break_when_any_done=False),
            stepwise(reference, 4, break_when_any_done=False),
        )
        for _ in range(3):
            mine = env.rollout(4, tensordict=env.step_mdp(mine[:, -1]), **going)
            theirs = stepwise(reference, 4, tensordict=reference.step_mdp(theirs[:, -1]), **going)
            same(mine, theirs)


def test_compact_leaves_out_what_is_seen_after_steps():
    whole, compact = (
        make("balance", num_envs=4, seed=2, max_steps=6, compile="none").rollout(
            9, break_when_any_done=False, compact=short
        )
        for short in (False, True)
    )
    left = {
        key
        for key in whole.keys(True, True)
        if key[0] == "next" and not {"reward", "done", "terminated", "truncated"} & {*key}
    }
    assert set(compact.keys(True, True)) == set(whole.keys(True, True)) - left
    assert all(torch.equal(x, whole[key]) for key, x in compact.items(True, True))


def test_compact_works_for_any_env_and_rollout():
    for make_env in (
        lambda: make("simple_spread", num_envs=3, seed=2, max_steps=4, compile="none"),
        lambda: make("connect_four", 3, seed=1),
    ):
        whole = make_env().rollout(9, break_when_any_done=False)
        for options in ({}, {"callback": lambda env, td: None}):
            env = make_env()
            short = env.rollout(9, break_when_any_done=False, compact=True, **options)
            left = {("next", *(key if isinstance(key, tuple) else (key,))) for key in env.observation_keys}
            assert set(map(str, short.keys(True, True))) == set(map(str, {*whole.keys(True, True)} - left))
            assert all(torch.equal(x, whole[key]) for key, x in short.items(True, True))


def test_memory_is_not_used_again_while_somebody_holds_a_part_of_it(monkeypatch):
    monkeypatch.setattr("marlenv.buffer_pool.LARGE", 0)
    env = make("simple_spread", num_envs=4, seed=0, compile="none")
    first = env.rollout(5)["next", "agents", "reward"]
    kept = first.clone()
    second = env.rollout(5)["next", "agents", "reward"]
    assert torch.equal(first, kept)
    where = second.untyped_storage().data_ptr()
    del second
    assert env.rollout(5)["next", "agents", "reward"].untyped_storage().data_ptr() == where


@pytest.mark.parametrize("steps", [1, 3])
def test_compact_rollouts_have_no_empty_nodes_of_infos(steps):
    reference, env = (make("navigation", num_envs=3, seed=2, max_steps=2, compile="none") for _ in range(2))
    options = {"compact": True, "break_when_any_done": False}
    same(env.rollout(steps, **options), stepwise(reference, steps, **options))
