"""Territory: who owns which cell, by numbers worked out by hand; nested groups are those of the world, as fast."""

import harness
import pytest
import torch
from marlenv.scenarios.territory_policy import TerritoryPolicy
from test_scenarios import act, put

import marlenv
from marlenv.testing.comparison import differences

AWAY = {f"{team}_{who}": (9.0, 9.0) for team in ("red", "green", "blue") for who in ("scout_0", "scout_1", "guard_0")}
FLOOR = {"n_cells": 4, "semidim": 10.0, "scout_reach": 1.0, "guard_reach": 1.0}
"""Cells of 5 metres: an agent in the middle of one is in no other, and nobody is near where all wait."""


def middle(column, row):
    return 5.0 * column - 7.5, 5.0 * row - 7.5


def floor(rows=2, **places):
    env = harness.make("territory", rows, seed=0, **FLOOR)
    env.reset()
    return env, put(env, **AWAY | places)


def owners(env):
    """Whose each cell is, by column and row; a dict of those that somebody owns, in the first row."""
    state = env.get_state()
    return {
        divmod(cell, 4): team
        for team in ("red", "green", "blue")
        for cell in state[f"memory.{team}"][0].nonzero().flatten().tolist()
    }


def paid(data, team):
    kinds = [data[team, kind, "reward"][0].flatten().tolist() for kind in ("scouts", "guards")]
    assert len({x for kind in kinds for x in kind}) == 1  # all of a team get the same
    return kinds[0][0]


def test_a_cell_goes_to_the_strongest_and_stays_in_a_tie():
    env, td = floor(red_scout_0=middle(0, 0), green_scout_0=middle(0, 0), green_scout_1=middle(0, 0),
                    blue_guard_0=middle(1, 2), red_scout_1=middle(1, 2))  # fmt: skip
    data = act(env, td)
    assert owners(env) == {(0, 0): "green", (1, 2): "blue"}
    assert [paid(data, team) for team in ("red", "green", "blue")] == pytest.approx([-1 / 16, 0.5 / 16, 0.5 / 16])
    tie = {"red_scout_0": middle(0, 0), "blue_scout_0": middle(0, 0), "red_guard_0": middle(1, 2),
           "green_scout_0": middle(1, 2), "green_scout_1": middle(1, 2)}  # fmt: skip
    data = act(env, put(env, **AWAY | tie))
    assert owners(env) == {(0, 0): "green", (1, 2): "blue"}
    assert not any(paid(data, team) for team in ("red", "green", "blue"))
    data = act(env, put(env, **AWAY | {"red_guard_0": middle(1, 2), "green_scout_0": middle(1, 2)}))
    assert owners(env) == {(0, 0): "green", (1, 2): "red"}
    assert [paid(data, team) for team in ("red", "green", "blue")] == pytest.approx([1.5 / 16, 0.0, -1.5 / 16])


def test_rewards_add_up_to_the_lead_and_to_nothing_over_all():
    env = harness.make("territory", 8, seed=1, victory=9.0)
    data = env.rollout(60)["next"]
    gained = torch.stack([data[team, "scouts", "reward"][:, :, 0, 0] for team in ("red", "green", "blue")], 1).sum(-1)
    share = torch.stack([env.get_state()[f"memory.{team}"].float().mean(1) for team in ("red", "green", "blue")], 1)
    torch.testing.assert_close(gained, 1.5 * share - 0.5 * share.sum(1, keepdim=True), rtol=1e-5, atol=1e-5)
    assert (share.sum(1) > 0.2).all()
    torch.testing.assert_close(gained.sum(1), torch.zeros(8), rtol=0, atol=1e-6)


def test_it_ends_when_a_team_owns_enough():
    env, _ = floor()
    state = env.get_state()
    state["memory.green"][0, :11] = True
    state["memory.green"][1, :12] = True
    assert act(env, env.set_state(state))["terminated"].flatten().tolist() == [False, True]


def test_agents_see_whose_the_cells_around_them_are():
    env, _ = floor(red_scout_0=middle(0, 1))
    state = env.get_state()
    state["memory.red"][:, 1], state["memory.blue"][:, 4], state["memory.green"][:, 9] = True, True, True
    seen = env.set_state(state)["red", "scouts", "observation"][0, 0, 4:29].reshape(5, 5)  # column, row
    assert seen.tolist() == [
        [1.0] * 5,
        [1.0] * 5,  # outside, to the left
        [1.0, 0.0, 1.0, 0.0, 0.0],  # below it is outside; the cell that it is in is its own
        [1.0, -1.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, -1.0, 0.0, 0.0],
    ]


def test_groups_are_nested_and_those_of_the_world():
    env = marlenv.make("territory", 3, seed=0, compile="none")
    assert env.group_map["green"] == {"scouts": ["green_scout_0", "green_scout_1"], "guards": ["green_guard_0"]}
    assert env._direct  # nothing is regrouped, and nothing slower
    flat = {f"{team}_{kind}": agents for team, kinds in env.group_map.items() for kind, agents in kinds.items()}
    other = marlenv.make("territory", 3, seed=0, compile="none", group_map=flat)
    nested, plain = env.rollout(5), other.rollout(5)
    for team, kinds in env.group_map.items():
        for kind in kinds:
            assert not differences(nested["next", team, kind], plain["next", f"{team}_{kind}"])
    assert set(nested["next", "red"].keys()) == {"scouts", "guards"}


@pytest.mark.parametrize(("x", "column"), [(-10.0, 0), (-9.99, 0), (9.99, 3), (10.0, 3)])
@pytest.mark.parametrize("flipped", [False, True])
def test_agents_at_an_edge_see_the_cells_on_which_they_stand(x, column, flipped):
    place = (x, -2.0) if not flipped else (-2.0, x)  # the world lets them no further than 10
    env, _ = floor(red_scout_0=place)
    state = env.get_state()
    state["memory.blue"][:] = True
    seen = env.set_state(state)["red", "scouts", "observation"][0, 0, 4:29].reshape(5, 5)
    wanted = [-1.0 if 0 <= column + step <= 3 else 1.0 for step in range(-2, 3)]
    other = [-1.0 if 0 <= 1 + step <= 3 else 1.0 for step in range(-2, 3)]  # of the second line
    wanted = torch.tensor([[max(a, b) for b in other] for a in wanted])
    assert torch.equal(seen.t() if flipped else seen, wanted)


@pytest.mark.parametrize("x", [-1.0, 1.0])
def test_the_policy_goes_to_the_cell_on_which_it_stands_at_an_edge(x):
    seen = torch.zeros(1, 1, 45)
    seen[..., 0], seen[..., 1], seen[..., 4:29] = x, -0.4, 1.0
    seen[..., 4 + 12] = -1.0  # but for its own cell all are its team's, or outside
    force = TerritoryPolicy(groups=()).act(seen)[0, 0]
    middle = torch.tensor([0.875 * x, -0.375])
    torch.testing.assert_close(force, (8 * (middle - torch.tensor([x, -0.4]))).clamp(-1, 1))
