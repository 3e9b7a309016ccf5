"""Noise and random numbers: each agent, number, row and moment has its own, distributed as in VMAS."""

import dataclasses
import warnings

import harness
import pytest
import torch
from scipy.stats import ks_2samp

from marlenv.envs.registry import load
from marlenv.physics import Agent, Scenario, Simulation, Sphere, World
from marlenv.physics.task import scenario
from marlenv.rng import RowRNG

ROWS = 4000
SIZE = 0.1
NOISY = {
    ("asym_joint", "obs_noise"): {"observe_joint_angle": True, "obs_noise": 0},
    ("asym_joint", "joint_angle_obs_noise"): {"observe_joint_angle": True, "obs_noise": 0},
    ("circle_trajectory", "obs_noise"): {},
    ("goal", "obs_noise"): {},
    ("joint_passage_size", "obs_noise"): {"observe_joint_angle": True},
    ("joint_passage_size", "joint_angle_obs_noise"): {"observe_joint_angle": True},
    ("line_trajectory", "obs_noise"): {},
    ("multi_give_way", "obs_noise"): {},
    ("give_way", "obs_noise"): {"observe_rel_pos": True},
    ("joint_passage", "obs_noise"): {"observe_joint_angle": True, "n_passages": 2},
    ("joint_passage", "joint_angle_obs_noise"): {"observe_joint_angle": True},
}
"""Every option of every scenario that makes noise, with others that give it more to do."""
DRAWING = {
    "discovery": {"targets_respawn": False, "covering_range": 2.0},
    "give_way": {"obs_noise": 0.1},
    "joint_passage": {"observe_joint_angle": True, "joint_angle_obs_noise": 0.1, "obs_noise": 0.1},
    "simple_tag": {"respawn_at_catch": True, "num_good_agents": 3, "bound": 0.2, "num_landmarks": 0},
}
"""Options that draw more numbers."""


def observations(name, rows, options):
    """Ours after a reset, and when agents look once more; ``[rows, A, d]`` each."""
    sim = Simulation(load(harness.WHERE[name])(**options))
    state, first, _ = sim.reset(sim.start(RowRNG(5, [rows])))
    return first["agents"], sim.observe(state)[0]["agents"]


def angle(seen):
    return torch.atan2(seen[..., -1], seen[..., -2]).unsqueeze(-1)


def noise(name, option, rows=ROWS):
    """What the noise adds to all numbers of all agents, at two moments; ``[rows, A, n]`` each."""
    options = NOISY[name, option]
    pairs = zip(observations(name, rows, {**options, option: SIZE}), observations(name, rows, options), strict=True)
    if option == "joint_angle_obs_noise":
        return [(angle(a) - angle(b) + torch.pi) % (2 * torch.pi) - torch.pi for a, b in pairs]
    return [a - b for a, b in pairs]


def theirs(name, option, rows):
    """What the noise adds to the last number that the first agent of VMAS sees; ``[rows]``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = harness.vmas.make_env(name, num_envs=rows, seed=2, **{**NOISY[name, option], option: SIZE})
    seen = env.reset()[0]
    bar = getattr(env.scenario, "joint", None)
    if option == "joint_angle_obs_noise":  # VMAS turns the rod itself; between its agents it is as it was
        a, b = (agent.state.pos for agent in env.world.agents)
        turned = angle(seen).squeeze(-1) - torch.atan2(*(b - a).flip(1).unbind(1))
        return (turned + torch.pi / 2) % torch.pi - torch.pi / 2
    if bar:
        return seen[:, -1] - torch.sin(bar.landmark.state.rot[:, 0])
    if name == "multi_give_way":
        return seen[:, -1] - torch.linalg.vector_norm(env.agents[0].state.pos - env.agents[0].goal.state.pos, dim=1)
    beside = [env.agents[1]] if name == "give_way" else env.world.landmarks
    return seen[:, -1] - sum((-body.state.pos[:, 1] for body in beside), env.agents[0].state.pos[:, 1])


def test_all_options_that_make_noise_are_here():
    fields = {(name, f.name) for name in harness.WHERE for f in dataclasses.fields(load(harness.WHERE[name]))}
    assert {(name, field) for name, field in fields if "obs_noise" in field} == set(NOISY)


@pytest.mark.parametrize(("name", "option"), NOISY, ids=lambda x: x)
def test_noise_of_agents_numbers_rows_and_moments_is_independent(name, option):
    once, again = noise(name, option)
    both = torch.cat((once.flatten(1), again.flatten(1)), 1)
    assert both.abs().amax(0).min() > 0.5 * SIZE  # there is some everywhere
    related = torch.corrcoef(torch.cat((both[1:], both[:-1]), 1).T) - torch.eye(2 * both.shape[1])
    assert related.abs().max() < 6 / ROWS**0.5


@pytest.mark.reference
@pytest.mark.parametrize(("name", "option"), NOISY, ids=lambda x: x)
def test_noise_is_distributed_as_in_vmas(name, option):
    ours, vmas = noise(name, option)[0][:, 0, -1], theirs(name, option, ROWS)
    assert ks_2samp(ours.numpy(), vmas.numpy(), method="asymp").pvalue > 1e-4


class Crowd(Scenario):
    """Agents that tremble and stammer."""

    may_overlap = True

    def build(self):
        world = World(channels=2)
        self.agents = world.add("agents", [Agent(Sphere(0.1), u_noise=0.3, c_noise=0.2, silent=False)] * 3)
        return world

    def spawn(self):
        pass

    def observe(self):
        return {"agents": torch.cat((self.agents.u, self.agents.said), -1)}

    def rewards(self):
        return {"agents": self.agents.rot}


def test_noise_of_actions_and_of_speech_is_independent():
    sim = Simulation(Crowd())
    state, *_ = sim.reset(sim.start(RowRNG(1, [ROWS])))
    state, once, *_ = sim.transition(state, {"agents": torch.zeros(ROWS, 3, 4)})
    again = sim.transition(state, {"agents": torch.zeros(ROWS, 3, 4)})[1]
    both = torch.cat((once["agents"].flatten(1), again["agents"].flatten(1)), 1)
    related = torch.corrcoef(both.T) - torch.eye(both.shape[1])
    assert related.abs().max() < 6 / ROWS**0.5
    assert torch.allclose(both.reshape(ROWS, 2, 3, 4).std((0, 1, 2)), torch.tensor([0.3, 0.3, 0.2, 0.2]), rtol=0.05)


@pytest.mark.parametrize("name", sorted(harness.WHERE))
def test_no_random_number_of_a_row_is_used_twice(name, monkeypatch):
    used, bits, room = [], RowRNG.bits, scenario.find_room

    def watched_bits(rng, shape=(), **how):
        if used is not None:
            used.append((int(rng.counter[0]), int(rng.counter[0]) + torch.Size(shape).numel()))
        return bits(rng, shape, **how)

    def watched_room(rng, *args, **how):  # looks at numbers of its own more than once
        start, before = int(rng.counter[0]), len(used)
        place = room(rng, *args, **how)
        used[before:] = [(start, int(rng.counter[0]))]
        return place

    sim = Simulation(load(harness.WHERE[name])(**DRAWING.get(name, {})))
    monkeypatch.setattr(RowRNG, "bits", watched_bits)
    monkeypatch.setattr(scenario, "find_room", watched_room)
    state, *_ = sim.reset(sim.start(RowRNG(3, [2])))
    for _ in range(3):
        still = {group: torch.zeros(2, c.agents, c.width) for group, c in sim.controls.items()}
        state, *_ = sim.transition(state, still)
    sim.reset(state)
    assert used or name in {"multi_give_way", "vel_control", "waterfall"}
    assert all(one[1] <= other[0] for one, other in zip(sorted(used), sorted(used)[1:], strict=False))


def test_who_starts_anew_at_the_same_time_starts_somewhere_else():
    sim = Simulation(load(harness.WHERE["simple_tag"])(**DRAWING["simple_tag"]))
    state, *_ = sim.reset(sim.start(RowRNG(3, [ROWS])))
    state = {**state, "pos": torch.zeros_like(state["pos"])}  # all are caught by all
    still = {group: torch.zeros(ROWS, c.agents, c.width) for group, c in sim.controls.items()}
    after = sim.transition(state, still)[0]["pos"]
    sheep = after[:, [sim.stepper.plan.place[f"agent_{i}"] for i in range(3)]].flatten(0, 1)
    assert (torch.corrcoef(sheep) - torch.eye(6)).abs().max() < 6 / ROWS**0.5
