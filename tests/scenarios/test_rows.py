"""Every scenario: rows live their own lives, envs do not disturb each other, and nothing is over when it begins."""

import harness
import pytest
import torch
from sizes import first, some

from marlenv.envs import check_env_specs

NAMES = sorted(harness.WHERE)
HEAVY = {"joint_passage", "waterfall", "kinematic_bicycle", "give_way", "ball_passage", "road_traffic"}


def life(name, rows, steps):
    """What row 0 sees; rows are reset at different times, in every batch at the same ones."""
    env = harness.make(name, rows, seed=5, max_steps=steps // 2)
    kept = [env.reset()]
    td = kept[0]
    for t in range(steps):
        td = env.rand_step(td)
        kept.append(td["next"])
        td = env.maybe_reset(env.step_mdp(td))
        if t % 3 == 2:
            where = (torch.arange(rows) % 3 == t % 2).unsqueeze(-1)
            td = env.reset(td.set("_reset", where))
        kept.append(td)
    return [{key: x[0].clone() for key, x in data.items(True, True)} for data in kept], env.get_state()[0]


@pytest.mark.parametrize("name", first(NAMES, 3))
def test_row_0_is_the_same_bit_for_bit_alone_and_among_others(name):
    steps = 3 if name in HEAVY else 6
    alone, end = life(name, 1, steps)
    for rows in (8, 64):
        among, other_end = life(name, rows, steps)
        for one, two in zip(alone, among, strict=True):
            assert all(torch.equal(one[key], two[key]) for key in one)
        assert all(torch.equal(end[entry], other_end[entry]) for entry in end.keys())


@pytest.mark.parametrize("name", first(NAMES, 2))
def test_answers_keep_to_the_specs(name):
    check_env_specs(harness.make(name, 3, max_steps=3), break_when_any_done="both", steps=4)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n for n in NAMES])
def test_steps_and_resets_never_look_at_data_and_stay_on_their_device(name):
    env = harness.make(name, 4, max_steps=3).to("meta")  # where there are no numbers to look at
    td = env.step_mdp(env.step(env.rand_action(env.reset())))
    td = env.reset(td.set("_reset", torch.zeros(4, 1, dtype=torch.bool, device="meta")))
    assert all(x.device.type == "meta" for x in td.values(True, True))


@pytest.mark.parametrize("name", first(NAMES, 4))
def test_envs_do_not_disturb_each_other(name):
    steps = 2 if name in HEAVY else 6
    alone = harness.make(name, 4, seed=1).rollout(steps, break_when_any_done=False)
    env, other = harness.make(name, 4, seed=1), harness.make(name, 4, seed=2)
    td = env.reset()
    for t in range(steps):
        other.rollout(2)
        torch.rand(3)
        td = env.rand_step(td)
        seen = ("next", *next(iter(env.tree.groups)), "observation")
        assert torch.equal(td[seen], alone[seen][:, t])
        td = env.maybe_reset(env.step_mdp(td))


@pytest.mark.parametrize("name", first(NAMES, 2))
def test_gradients_are_finite_from_the_start(name):
    env = harness.make(name, 4)
    env.grad_enabled = True
    td = env.rand_action(env.reset())
    actions = [td[key].mul(0.5).requires_grad_() for key in env.action_keys]
    for _ in range(2):
        for key, action in zip(env.action_keys, actions, strict=True):
            td[key] = action
        td = env.step_mdp(env.step(td))
    state = env.last_state
    seen = sum(td[key].sum() for key in env.observation_keys if td[key].requires_grad)
    (seen + state["pos"].sum() + state["vel"].square().sum()).backward()
    assert all(action.grad is None or action.grad.isfinite().all() for action in actions)
    assert any(action.grad is not None and action.grad.abs().sum() > 0 for action in actions)


def over_at_the_start(name, rows, seed):
    """Whether the task would call a row over right after its reset."""
    sim = harness.make(name, rows, seed=seed).simulation
    state, observations, _ = sim.reset(sim.start(harness.RowRNG(seed, [rows])))
    for seen in observations.values():
        assert seen.isfinite().all()
    moment = sim.world.stage.open(state)
    over = sim.scenario.over()
    sim.world.stage.shut()
    return torch.zeros(moment.rows, dtype=torch.bool) if over is None else over


@pytest.mark.parametrize("name", first(NAMES, 2))
def test_nothing_is_over_after_100_resets(name):
    assert not over_at_the_start(name, 100, 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", some(NAMES, 2))
def test_nothing_is_over_after_10000_resets(name):
    assert not any(over_at_the_start(name, 2500, seed).any() for seed in range(1, 5))
