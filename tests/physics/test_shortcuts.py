"""What is left out to be faster changes nothing: the longer ways are the oracles, bit for bit."""

import pytest
import torch

from marlenv.envs import EnvBase
from marlenv.physics.jit import cache
from marlenv.registration import make
from marlenv.testing.comparison import differences

TIERS = [
    "none",
    pytest.param("aot", marks=pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")),
]
ROWS = 37
MASKS = {
    "half": torch.arange(ROWS) % 2 == 0,
    "a few": torch.arange(ROWS) % 11 == 3,
    "a run": (torch.arange(ROWS) > 3) & (torch.arange(ROWS) < 30),
    "the last": torch.arange(ROWS) == ROWS - 1,
    "none": torch.zeros(ROWS, dtype=torch.bool),
    "all": torch.ones(ROWS, dtype=torch.bool),
}


def played(name, tier, steps=3, **options):
    """An env, and data to go on from."""
    env = make(name, num_envs=ROWS, seed=2, compile=tier, **options)
    td = env.reset()
    for _ in range(steps):
        td = env.step_mdp(env.rand_step(td))
    return env, td


def same(a, b):
    assert not differences(a, b)
    for key in a.keys(True):
        if key not in a.keys(True, True):
            assert a[key].batch_size == b[key].batch_size


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["balance", "simple_tag"])
def test_a_reset_of_some_rows_is_a_reset_of_all_rows_merged(name, mask, tier):
    (quick, a), (slow, b) = played(name, tier), played(name, tier)
    before = {key: x.clone() for key, x in a.items(True, True)}
    first = a.copy()
    where = MASKS[mask].unsqueeze(-1)
    a, b = quick.reset(a.set("_reset", where)), EnvBase.reset(slow, b.set("_reset", where))
    same(a, b)
    same(quick.get_state(), slow.get_state())
    assert all(torch.equal(first[key], x) for key, x in before.items())  # what was given out stays as it is
    same(quick.rand_step(a), slow.rand_step(b))


@pytest.mark.parametrize("tier", TIERS)
def test_rows_that_are_done_start_anew_as_by_a_merge(tier):
    (quick, a), (slow, b) = (played("transport", tier, steps=0, max_steps=5) for _ in range(2))
    for env, td in ((quick, a), (slow, b)):
        state = env.get_state()
        state["steps"] = torch.arange(ROWS) % 5
        td.update(env.set_state(state))
    for _ in range(6):
        stepped, a = quick.step_and_maybe_reset(quick.rand_action(a))
        other = slow.step(slow.rand_action(b))
        b = EnvBase.maybe_reset(slow, slow.step_mdp(other))
        same(stepped, other)
        same(a, b)
        assert stepped["next", "done"].any()
        assert not stepped["next", "done"].all()
    same(quick.get_state(), slow.get_state())


def test_data_that_are_not_plain_take_the_longer_way():
    env, td = played("simple_spread", "none")
    mask = MASKS["half"].unsqueeze(-1)
    assert not env._restart(td.exclude(("agents", "observation")), mask)
    assert not env._restart(td.clone().lock_(), mask)
    assert env._restart(td, mask)


@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("balance", {}),
        ("simple_tag", {"continuous_actions": False}),
        ("simple_world_comm", {}),
        pytest.param("discovery", {}, marks=pytest.mark.slow),
    ],
)
def test_steps_in_memory_of_their_own_are_those_of_the_longer_way(name, options):
    (quick, a), (slow, b) = (played(name, "aot", steps=0, max_steps=4, **options) for _ in range(2))
    assert quick._fast_step() is not None
    slow.__dict__["_fast_step"] = lambda: None
    for _ in range(5):
        a, b = quick.rand_step(a), slow.rand_step(b)
        same(a, b)
        kept = {key: x.clone() for key, x in a.items(True, True)}
        following = quick.step_mdp(a)
        quick.step(quick.rand_action(following.copy()))
        assert all(torch.equal(a[key], x) for key, x in kept.items())  # the next step writes elsewhere
        slow.step(slow.rand_action(slow.step_mdp(b).copy()))
        a, b = quick.maybe_reset(quick.step_mdp(a)), slow.maybe_reset(slow.step_mdp(b))


@pytest.mark.parametrize("name", ["transport", "simple_tag", "ball_passage", "navigation"])
def test_contacts_of_the_rows_where_something_is_near_are_those_of_all_rows(name):
    env = make(name, num_envs=97, seed=3, compile="none")
    env.reset()
    sim, state = env.simulation, env.current_state
    crowded = torch.arange(97) % 9 == 0
    state = {**state, "pos": torch.where(crowded, state["pos"] * 0.3, state["pos"] * 3)}
    actions = {group: torch.zeros(97, c.agents, c.width) for group, c in sim.controls.items()}
    with torch.no_grad():
        some = sim.transition(state, actions)[0]
    every = sim.transition(state, actions)[0]  # where gradients are wanted nobody looks at data
    for key, x in some.items():
        assert torch.equal(x, every[key]), key
    assert (some["vel"][..., crowded] != 0).any()
