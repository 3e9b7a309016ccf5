"""Predators and prey: meals, hunger, births, by numbers worked out by hand; data are compared with who lives."""

import harness
import pytest
import torch
from test_scenarios import act, put

QUIET = {"birth": 0.0}
APART = {"predator_0": (0.0, 0.0), "predator_1": (0.9, 0.9), "predator_2": (-0.9, 0.9)}
PREY = {f"prey_{i}": (0.15 * i - 0.4, -0.9) for i in range(6)}


def hunt(rows=3, energy=None, free=None, places=None, **options):
    """A world with everybody out of reach, but for some; energy of predators, and which prey lives."""
    env = harness.make("predator_prey", rows, seed=0, **{**QUIET, **options})
    env.reset()
    put(env, **APART | PREY | (places or {}))
    state = env.get_state()
    for name, value in (("energy", energy), ("free", free)):
        if value is not None:
            state[f"memory.{name}"] = torch.tensor(value).expand(rows, -1).contiguous()
    return env, env.set_state(state)


def row(data, *key):
    return data[key].squeeze(-1)[0].tolist()


def test_prey_in_reach_dies_and_is_shared_by_those_who_reach_it():
    env, td = hunt(energy=[0.5, 0.4, 0.5], places={"predator_1": (0.1, 0.0), "prey_2": (0.05, 0.0)})
    data = act(env, td)
    assert row(data, "predators", "reward") == pytest.approx([0.5, 0.5, 0.0])
    assert row(data, "prey", "reward") == pytest.approx([0.01, 0.01, -1.0, 0.01, 0.01, 0.01])
    torch.testing.assert_close(env.get_state()["memory.energy"][0], torch.tensor([0.69, 0.59, 0.49]))
    assert data["prey", "alive"][0].tolist() == [True, True, False, True, True, True]
    assert not data["prey", "observation"][0, 2].any()
    after = act(env, data)
    assert row(after, "prey", "reward")[2] == 0  # it has died, and pays no more
    assert row(after, "prey", "done") == [False, False, True, False, False, False]
    assert not after["done"].any()


def test_who_has_no_energy_left_starves_and_hunts_nobody():
    env, td = hunt(energy=[0.005, 0.5, 0.0], places={"predator_2": (0.5, 0.5), "prey_0": (0.5, 0.5)})
    data = act(env, td)
    assert row(data, "predators", "reward") == [-1.0, 0.0, 0.0]
    assert data["predators", "alive"][0].tolist() == [False, True, False]
    assert data["prey", "alive"].all()


def test_a_meal_of_a_starving_predator_saves_it_and_nobody_has_more_than_1():
    env, td = hunt(energy=[0.005, 0.5, 0.99], places={"prey_0": (0.0, 0.05), "prey_1": (-0.9, 0.85)})
    data = act(env, td)
    assert row(data, "predators", "reward") == [1.0, 0.0, 1.0]
    torch.testing.assert_close(env.get_state()["memory.energy"][0], torch.tensor([0.395, 0.49, 1.0]))


def test_a_fed_predator_shares_with_one_that_is_born_beside_it():
    env, td = hunt(energy=[0.91, 0.0, 0.0])
    state, place = env.get_state(), env.simulation.stepper.plan.place
    state["vel"][..., place["predator_1"]] = 0.3
    data = act(env, env.set_state(state))
    torch.testing.assert_close(env.get_state()["memory.energy"][0], torch.tensor([0.45, 0.45, 0.0]))
    state = env.get_state()
    assert torch.equal(state["pos"][..., place["predator_1"]], state["pos"][..., place["predator_0"]])
    assert not state["vel"][..., place["predator_1"]].any()
    assert row(data, "predators", "reward") == [0.0, 0.0, 0.0]
    assert data["predators", "alive"][0].tolist() == [True, True, False]
    assert row(data, "predators", "done") == [False, False, True]


def test_who_dies_is_done_in_that_step_and_born_in_the_next_at_the_earliest():
    env, td = hunt(
        500, energy=[1.0, 0.005, 0.0], birth=1.0, places={"predator_0": (0.3, 0.3), "prey_0": (0.3, 0.3)}, reach=0.05
    )
    data = act(env, td)
    caught, starved = data["prey", "reward"][:, 0], data["predators", "reward"][:, 1]
    assert caught.eq(-1).all()
    assert starved.eq(-1).all()
    for entry, agent in ((data["prey"], 0), (data["predators"], 1)):
        assert entry["terminated"][:, agent].all()
        assert entry["done"][:, agent].all()
        assert not entry["alive"][:, agent].any()
        assert not entry["observation"][:, agent].any()
    assert data["predators", "alive"][:, 2].all()  # dead before, and so the first that may be born
    energy = env.get_state()["memory.energy"]
    torch.testing.assert_close(energy[0], torch.tensor([0.5, 0.0, 0.5]))  # fed up to 1, and shared
    after = act(env, data)
    assert after["prey", "alive"][:, 0].float().mean().item() == pytest.approx(5 / 6, abs=0.06)
    assert torch.equal(after["prey", "done"][:, 0, 0], ~after["prey", "alive"][:, 0])
    assert after["prey", "reward"][:, 0].eq(0).all()


def test_prey_is_born_as_often_as_its_option_says():
    env, td = hunt(4000, free=[True, True, True, False, False, False], birth=0.4, reach=0.0)
    data = act(env, td)
    born = data["prey", "alive"][:, 3:].float().mean().item()
    assert born == pytest.approx(0.4 * 3 / 6, abs=0.02)
    place = env.simulation.stepper.plan.place["prey_3"]
    there = env.get_state()["pos"][..., place][data["prey", "alive"][:, 3]]
    assert there.abs().max() > 0.95
    assert there.mean().abs() < 0.1


def test_it_ends_with_the_last_of_either():
    env, td = hunt(free=[True] + [False] * 5, places={"prey_0": (0.0, 0.05)})
    data = act(env, td)
    assert data["terminated"].all()
    assert row(data, "predators", "reward") == [1.0, 0.0, 0.0]
    assert row(data, "prey", "reward") == [-1.0, *[0.0] * 5]
    env, td = hunt(energy=[0.005, 0.0, 0.0])
    assert act(env, td)["terminated"].all()


def test_in_long_lives_the_dead_come_back_and_who_is_dead_is_not_seen():
    env = harness.make("predator_prey", 32, seed=1, max_steps=300)
    data = env.rollout(300, break_when_any_done=False)["next"]
    alive = data["prey", "alive"]
    again = ~alive[:, :-1] & alive[:, 1:] & ~data["done"][:, :-1]
    assert again.any()
    for group in ("prey", "predators"):
        dies = data[group, "reward"] < -0.5  # caught, or starved
        assert dies.any()
        assert data[group, "done"][dies].all()
    goes_on = ~data["done"].squeeze(-1)
    seen = data["predators", "observation"][..., 11:].unflatten(-1, (6, 3))[..., 2]  # by each predator
    looks = data["predators", "alive"]
    assert torch.equal(seen[goes_on] > 0, alive[goes_on].unsqueeze(1) & looks[goes_on].unsqueeze(2))
