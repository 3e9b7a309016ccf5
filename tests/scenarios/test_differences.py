"""What VMAS as it is does otherwise than we do: found by looking, scenario by scenario, and said on their pages."""

import inspect
import math
import re
import warnings

import harness
import pytest
import torch
from harness import Pair
from sizes import first
from test_against_vmas import PLUS

from marlenv.envs.registry import load
from marlenv.physics import Box, Sphere

pytestmark = pytest.mark.reference

NAMES = harness.IN_VMAS
CAUSES = {
    "in some row of the batch": {
        "balance", "ball_passage", "buzz_wire", "football", "give_way",
        "joint_passage", "joint_passage_size", "kinematic_bicycle",
        "multi_give_way", "navigation", "passage", "pollock", "reverse_transport", "transport", "waterfall", "wheel",
    },
    "a reset of one row": {
        "asym_joint", "ball_trajectory", "buzz_wire", "het_mass", "joint_passage", "joint_passage_size",
        "road_traffic", "waterfall",
    },
    "reset at once": {
        "asym_joint", "ball_passage", "ball_trajectory", "give_way", "het_mass", "joint_passage", "passage",
        "simple_adversary", "simple_push", "simple_reference", "simple_speaker_listener", "wind_flocking",
    },
    "the last one": {"road_traffic", "wind_flocking"},
    "actions that are late when an episode ends": {"circle_trajectory", "give_way", "goal"},
    "done only when": {"joint_passage", "joint_passage_size"},
    "noise on the rod's angle turns the rod itself": {"asym_joint", "joint_passage", "joint_passage_size"},
    "infos are always 0": {"ball_trajectory"},
    "where those of another row would go": {"football"},
    "agents are put in the origin when single rows are reset": {"simple_crypto"},
}  # fmt: skip
"""The words with which a page says it, and the scenarios that differ in that way."""


def said(name):
    """What the page of a scenario says about VMAS."""
    found = re.search(r"^- VMAS: .*(?:\n  .*)*", inspect.getdoc(load(harness.WHERE[name])), re.M)
    return " ".join(found[0].split()) if found else ""


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_differs_and_nothing_else(name):
    assert bool(said(name)) == any(name in names for names in CAUSES.values())
    for words, names in CAUSES.items():
        assert (words in said(name)) == (name in names), words


def pair_of(name, rows, **options):
    return Pair(name, options, rows, memory=PLUS.get(name, {}).get("memory"))


class Watched(Pair):
    """A pair that notes differences and goes on."""

    found, rows = frozenset(), frozenset()

    def _compare(self, what, ours, theirs):
        ours, theirs = ours.float(), theirs.float()
        off = ((ours - theirs).abs() / theirs.abs().clamp(min=1.0)).flatten(1 if ours.ndim > 1 else 0)
        bad = off > (1e-4 if what == "observation" else 1e-5)
        if bad.any():
            self.found |= {what}
            self.rows |= set(bad.nonzero()[:, 0].tolist())


def watched(name, rows, **options):
    plus = PLUS.get(name, {})
    return Watched(name, options, rows, memory=plus.get("memory"), rest=plus.get("rest"), infos=plus.get("infos", True))


# --- contacts ----------------------------------------------------------------------------------------


def beside(pair, a, b, gap):
    """Puts a corner (or tip, or rim) of one body near that of another, far away from all others; in both."""
    one, other = (body for ours, body in pair.bodies if ours is a), (body for ours, body in pair.bodies if ours is b)
    way = torch.tensor([math.cos(0.3), math.sin(0.3)])
    for ours, body, sign in ((a, next(one), 0.0), (b, next(other), 1.0)):
        shape = ours.shape
        corner = math.atan2(shape.width, shape.length) if isinstance(shape, Box) else 0.0
        body.state.pos = torch.full_like(body.state.pos, 40.0) + sign * way * (a.shape.reach + b.shape.reach + gap)
        body.state.rot = torch.full_like(body.state.rot, 0.3 - corner)
    pair.follow()


def touching_pairs(pair, discs):
    """One pair of bodies for every two kinds of shapes that may touch: both discs, or not."""
    held = {frozenset(joint) for joint in [(link.a.name, link.b.name) for link in pair.sim.world.links]}
    joined = {name for names in held for name in names}
    for kinds, pairs in pair.sim.stepper.plan.pairs.items():
        free = [found for found in pairs.entities if not {e.name for e in found} & joined] or list(pairs.entities)
        if all(kind is Sphere for kind in kinds) == discs:
            yield free[0]


@pytest.mark.parametrize("name", first(NAMES, 3))
def test_where_vmas_looks_for_contacts_in_all_rows(name):
    """Two bodies are put 3 mm apart: lines and boxes feel it, penalties count; it differs where VMAS does not look."""
    apart = set()
    pair = watched(name, 1)
    for discs in (False, True):
        for a, b in touching_pairs(pair, discs):
            one = watched(name, 1)
            a, b = (next(ours for ours, _ in one.bodies if ours.name == e.name) for e in (a, b))
            beside(one, a, b, 0.003)
            with torch.no_grad():
                one.step([torch.zeros_like(x) for x in one.theirs.get_random_actions()])
            apart |= one.found
    assert bool(apart) == (name in CAUSES["in some row of the batch"])


# --- resets ------------------------------------------------------------------------------------------


def after_a_reset(name, options, monkeypatch):
    """Whether the steps after a reset of one of four rows differ in that row, and in the others."""
    monkeypatch.setattr(harness.core.World, "collides", harness.without_gate)
    pair = watched(name, 4, **options)
    with torch.no_grad():
        first = 0 if name == "road_traffic" else 8  # steering that changes, or everybody to the middle
        for t in range(first, first + 4):
            pair.step(pair.aimed(t))
        assert not pair.found
        row = int(pair.theirs.world.agents[0].state.pos[:, 1].argmin())  # where the wind is least felt
        pair.restart(row)
        for t in range(first, first + 2):
            pair.step(pair.aimed(t))
    return row in pair.rows, bool(pair.rows - {row})


@pytest.mark.parametrize("name", first(NAMES, 3))
def test_which_resets_of_vmas_change_other_rows_or_keep_something_of_the_last_episode(name, monkeypatch):
    there, elsewhere = after_a_reset(name, {}, monkeypatch)
    assert elsewhere == (name in CAUSES["a reset of one row"])
    assert there == (name in CAUSES["the last one"])


@pytest.mark.parametrize("name", sorted(CAUSES["actions that are late when an episode ends"]))
def test_late_actions_of_vmas_act_in_the_next_episode(name, monkeypatch):
    assert after_a_reset(name, {"dt_delay": 3}, monkeypatch) == (True, False)


def test_agents_of_vmas_are_put_in_the_origin_when_single_rows_are_reset():
    theirs = harness.vmas.make_env("simple_crypto", num_envs=2, seed=0)
    theirs.reset_at(0)
    assert all((agent.state.pos != 0).any(1).tolist() == [False, True] for agent in theirs.agents)
    env = harness.make("simple_crypto", 2, seed=0)
    td = env.reset()
    state = env.get_state()
    env.reset(td.set("_reset", torch.tensor([[True], [False]])))
    new = env.get_state()["pos"]
    assert (new != state["pos"]).flatten(1).any(1).tolist() == [True, False]
    assert (new != 0).all()


def starts_in_vmas(name, rows):
    """Where bodies of VMAS start, who is left of whom, and goals; ``[rows, n]``."""
    pair = pair_of(name, rows)
    pos = torch.stack([body.state.pos for _, body in pair.bodies], 1)
    return starts(pair.sim, [ours for ours, _ in pair.bodies], pos, pair.state)


def our_starts(name, rows):
    sim = harness.make(name, rows).simulation
    state, *_ = sim.reset(sim.start(harness.RowRNG(7, [rows])))
    entities = sorted(sim.stepper.plan.entities, key=lambda e: e.order)
    return starts(
        sim, entities, state["pos"][:, [sim.stepper.plan.place[e.name] for e in entities]].permute(2, 1, 0), state
    )


def starts(sim, entities, pos, state):
    acting = [(i, e.group) for i, e in enumerate(entities) if e.group in sim.groups]
    left = [(pos[:, a, 0] > pos[:, b, 0]).float() for a, g in acting for b, h in acting if a < b and g == h]
    goal = [x for entry in ("goal", "goals", "mass") if (found := state.get(f"memory.{entry}")) is not None
            for x in found.float().reshape(-1, len(pos))]  # fmt: skip
    return torch.cat((pos.flatten(1), *(x.unsqueeze(1) for x in left + goal)), 1)


@pytest.mark.parametrize("name", first(NAMES, 3))
def test_which_starts_of_vmas_are_the_same_in_all_rows(name):
    same = [start(name, 64).std(0) < 1e-5 for start in (starts_in_vmas, our_starts)]
    assert bool((same[0] & ~same[1]).any()) == (name in CAUSES["reset at once"])
    assert not (same[1] & ~same[0]).any()


def test_infos_of_vmas_after_a_reset_are_those_of_the_last_step():
    pair = pair_of("balance", 2)
    with torch.no_grad():
        *_, infos = pair.theirs.step(pair.aimed(0))
        _, again = pair.restart(0)
    assert again[0]["pos_rew"][0] == infos[0]["pos_rew"][0] != 0
    assert not pair.sim.observe(pair.state)[1]["agents"]["pos_rew"].any()


# --- the rod -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CAUSES["done only when"]))
def test_a_row_of_vmas_is_done_only_when_the_rods_of_all_rows_are_at_their_goals(name):
    pair = pair_of(name, 3)
    s = pair.theirs.scenario
    s.goal.state.pos, s.goal.state.rot = s.joint.landmark.state.pos.clone(), s.joint.landmark.state.rot.clone()
    assert s.done().all()
    s.goal.state.pos[2] += 1.0
    assert not s.done().any()
    pair.follow()
    pair.sim.world.stage.open(pair.state)
    assert pair.sim.scenario.over().tolist() == [True, True, False]
    pair.sim.world.stage.shut()


def test_infos_of_vmas_are_zero_where_rewards_are_not():
    pair = Pair("ball_trajectory", {"dist_shaping_factor": 1}, 4, infos=False)
    with torch.no_grad():
        _, rewards, _, infos = pair.theirs.step(pair.aimed(0))
    assert rewards[0].any()
    assert not any(x.any() for info in infos for x in info.values())
    td = harness.make("ball_trajectory", 4, dist_shaping_factor=1.0).rollout(2)["next", "agents"]
    parts = torch.stack([td["info", part] for part in ("pos_rew", "speed_rew", "dist_rew")]).sum(0)
    assert td["reward"][..., 0, :].any()
    torch.testing.assert_close(parts, td["reward"])


@pytest.mark.parametrize("name", sorted(CAUSES["noise on the rod's angle turns the rod itself"]))
def test_noise_on_what_agents_of_vmas_see_turns_the_rod_itself_and_adds_up(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = harness.vmas.make_env(name, num_envs=64, seed=0, observe_joint_angle=True, joint_angle_obs_noise=0.1)
    rod = env.scenario.joint.landmark.state
    env.reset()
    before = rod.rot.clone()
    first, second = (env.get_from_scenario(True, False, False, False) for _ in range(2))
    assert 0.15 < (rod.rot - before).std() < 0.27  # four draws: two agents, twice
    sim = harness.make(name, 64, observe_joint_angle=True, joint_angle_obs_noise=0.1).simulation
    state, *_ = sim.reset(sim.start(harness.RowRNG(1, [64])))
    assert torch.equal(sim.reset(state, torch.zeros(64, dtype=torch.bool))[0]["rot"], state["rot"])


# --- everything --------------------------------------------------------------------------------------


EQUAL = [name for name in NAMES if not any(name in names for names in CAUSES.values())]


@pytest.mark.parametrize(
    ("name", "rows", "steps"),
    [(n, r, 12) for n in EQUAL for r in (1, 4)] + [pytest.param(n, 8, 200, marks=pytest.mark.slow) for n in EQUAL],
)
def test_without_a_word_on_the_page_vmas_as_it_is_does_the_same_with_resets_too(name, rows, steps):
    pair = watched(name, rows)
    with torch.no_grad():
        for t in range(steps):
            pair.step(pair.aimed(t))
            if t % 5 == 4:
                pair.restart(t % rows)
    assert not pair.found
