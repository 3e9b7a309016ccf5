"""Football against VMAS's: goals, ends, partial resets with other options, and what its scripted players draw."""

import harness
import pytest
import torch
from harness import Luck, Pair
from marlenv.scenarios.football.players import unit
from marlenv.scenarios.football.teams import formation

from marlenv.physics.env import make_scenario

OPTIONS = [
    {"dense_reward": False, "scoring_reward": 7.0},
    {"ai_red_agents": False, "enable_shooting": True, "shooting_radius": 1.0},
    {"ai_decision_strength": 0.5, "ai_precision_strength": 0.5, "ai_strength": 0.5, "dict_obs": True},
    {"spawn_in_formation": True, "only_blue_formation": False, "randomise_formation_indices": True},
]


def over_the_line(pair):
    """Puts the ball over a line, in both: in the right goal, in the left one, beside a goal, and not at all."""
    ball = pair.theirs.scenario.ball.state
    places = torch.tensor([[1.52, 0.1], [-1.52, -0.17], [1.52, 0.4], [1.4, 0.0]])
    ball.pos = places[: len(ball.pos)].clone()
    ball.vel = torch.zeros_like(ball.vel)
    pair.follow()


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_goals_and_partial_resets_are_those_of_vmas(options, monkeypatch):
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    pair = Pair("football", options, 4)
    with torch.no_grad():
        for t in range(12):
            pair.step(pair.aimed(t))
            if t % 4 == 3:
                pair.restart(t // 4)
        over_the_line(pair)
        pair.step(pair.aimed(0))
    assert pair.theirs.scenario.done().tolist() == [True, True, False, False]
    assert pair.paid >= options.get("scoring_reward", 100.0)


@pytest.mark.reference
def test_players_of_vmas_go_where_those_of_another_row_would_go():
    """Two rows are the same but for what is drawn: without a loop over rows, the second follows the first's numbers."""
    env = harness.vmas.make_env("football", num_envs=2, seed=0)
    env.reset()
    scope = type(env.scenario).make_world.__globals__
    policy, player = env.scenario.red_controller, env.scenario.red_agents[1]
    for body in env.world.entities:
        body.state.pos = body.state.pos[:1].repeat(2, 1)
    policy.team_disps = {}
    drawn = torch.tensor([[[0.1, 0.1], [0.2, 0.2]], [[-0.3, -0.1], [-0.2, -0.4]]])

    class Drawn(harness.Torch):
        def __init__(self):
            self.randn = lambda n, *_, **__: drawn[-n:].clone() if n < 2 else drawn.clone()

    scope["torch"] = Drawn()
    every = torch.tensor([True, True])
    policy.objectives[player]["target_pos_rel"][:] = 9.0  # far off the pitch: anything is better
    both = policy.check_better_positions(player, every)
    alone = policy.check_better_positions(player, torch.tensor([False, True]))
    ball, here = env.scenario.ball.state.pos[0], player.state.pos[0]
    first, second = (
        policy.clamp_pos(torch.stack((ball + near[0] * policy.sigma, here + near[1] * policy.sigma))) for near in drawn
    )
    assert any(torch.equal(both[1], place) for place in first)
    assert any(torch.equal(alone[0], place) for place in second)


def test_rows_of_ours_go_their_own_ways():
    sim = harness.make("football", 64).simulation
    state, *_ = sim.reset(sim.start(harness.RowRNG(3, [64])))
    state = {name: x if name == "rng" else x[..., :1].expand_as(x).contiguous() for name, x in state.items()}
    after, *_ = sim.transition(state, {"agent_blue": torch.zeros(64, 3, 2)})
    aims = after["memory.red_aim"].flatten(0, 1)
    assert len(aims.unique(dim=1).T) > 16


@pytest.mark.reference
def test_the_luck_of_the_comparison_is_used():
    """If players of VMAS drew otherwise, the comparison would show it."""
    pair = Pair("football", {"ai_decision_strength": 0.3}, 4)
    other = Luck()
    other.step = 1000
    other.given_to_us(pair.sim.scenario)
    with torch.no_grad(), pytest.raises(AssertionError, match="pos|vel"):
        pair.run(20)


@pytest.mark.slow
def test_blue_may_be_scripted_and_red_learn():
    env = make_scenario(harness.WHERE["football"], 32, seed=1, compile="none", ai_blue_agents=True, ai_red_agents=False)
    data = env.rollout(300, lambda td: td.set(("agent_red", "action"), torch.zeros(32, 3, 2)), break_when_all_done=True)
    assert list(env.group_map) == ["agent_red"]
    scored = data["next", "agent_red", "info", "sparse_reward"].sum((1, 2, 3))
    assert (scored < 0).float().mean() > 0.5  # nobody defends: blue scores
    assert not (scored > 0).any()


def test_scripted_players_beat_those_that_stand_still_and_shots_move_the_ball():
    env = make_scenario(
        harness.WHERE["football"], 2, seed=1, compile="none", enable_shooting=True, n_blue_agents=1, n_red_agents=0
    )
    td = env.reset()
    state = env.get_state()
    place = env.simulation.stepper.plan.place
    state["pos"][:, :, place["agent_blue_0"]] = torch.tensor([[-0.06, 0.0], [-0.09, 0.0]])  # in reach, and out of it
    env.set_state(state)
    td["agent_blue", "action"] = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(2, 1, 4).clone()
    env.step(td)
    speed = env.get_state()["vel"][:, 0, place["Ball"]]
    assert speed[0] > 0.2
    assert speed[1] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ai_blue_agents": True}, "leave nobody to learn"),
        ({"physically_different": True}, "needs n_blue_agents=5"),
        ({"physically_different": True, "n_blue_agents": 5, "agent_size": 0.004}, "agent_size must be above 0.005"),
        ({"physically_different": True, "n_blue_agents": 5, "max_speed": 0.05}, "max_speed must be 0.1"),
        ({"physically_different": True, "n_blue_agents": 5, "u_multiplier": 0.04}, "u_multiplier must be 0.05"),
        (
            {"physically_different": True, "n_blue_agents": 5, "enable_shooting": True, "u_shoot_multiplier": 0.19},
            "u_shoot_multiplier must be 0.2",
        ),
        ({"n_red_agents": 0, "ai_red_agents": False}, "n_red_agents must be 1"),
        ({"pitch_width": 0.3}, "pitch_width leaves no wall"),
        ({"pitch_length": 0.01, "goal_depth": 0.001}, "pitch_length leaves no room"),
        ({"ai_strength": (1.0, 0.5, 0.2)}, "ai_strength must be a number, or that of blue"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_words(options, says):
    with pytest.raises(ValueError, match=says):
        make_scenario(harness.WHERE["football"], 2, **options)


def test_formations_have_room_for_all_and_units_are_units():
    for n in range(12):
        for columns in range(1, 5):
            places = formation(n, columns, 3.0, 1.5)
            assert len(places) == n == len(set(places))
            assert all(0 < x < 3 and abs(y) < 0.75 for x, y in places)
    assert unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist() == [
        [0.6000000238418579, 0.800000011920929],
        [0.0, 0.0],
    ]
