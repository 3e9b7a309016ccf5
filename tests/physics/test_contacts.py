"""Contacts of all six pairs of shapes: as in VMAS from any pose, by Newton's third law, with finite gradients."""

import itertools

import convert
import pytest
import torch
import twins

from marlenv.physics import Agent, Box, Holonomic, Landmark, Line, Scenario, Simulation, Sphere, World
from marlenv.rng import RowRNG

core = twins.core
SHAPES = {
    "sphere": lambda c: c.Sphere(0.1),
    "line": lambda c: c.Line(0.4),
    "box": lambda c: c.Box(0.4, 0.2),
    "hollow": lambda c: c.Box(0.5, 0.3, hollow=True),
}
PAIRS = list(itertools.combinations_with_replacement(SHAPES, 2))


def thrown(kinds, rows=64, spread=0.25, **laws):
    """A VMAS world with one body of each kind, which all move and turn, thrown together."""
    world = core.World(rows, torch.device("cpu"), **laws)
    world.add_agent(core.Agent("idle", collide=False))
    for i, kind in enumerate(kinds):
        body = core.Landmark(f"{kind} {i}", shape=SHAPES[kind](core), movable=True, rotatable=True, mass=1.0 + i)
        world.add_landmark(body)
    throw(world, 0, spread)
    return world


def throw(world, seed, spread=0.25):
    """Puts all bodies somewhere near (1, 1). (At the origin, VMAS's boxes push what stands on their outline.)"""
    g = torch.Generator().manual_seed(seed)
    for body in world.entities:
        body.state.pos = 1 + (torch.rand(world.batch_dim, 2, generator=g) * 2 - 1) * spread
        body.state.vel = torch.rand(world.batch_dim, 2, generator=g) * 2 - 1
        body.state.rot = torch.rand(world.batch_dim, 1, generator=g) * 7 - 3
        body.state.ang_vel = torch.rand(world.batch_dim, 1, generator=g) * 2 - 1


@pytest.mark.reference
@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_a_pair_is_that_of_vmas_from_any_pose(kinds, monkeypatch):
    monkeypatch.setattr(core.World, "collides", twins.without_gate)
    world = thrown(kinds, rows=256)
    shadow = convert.Shadow(world)
    pushed = 0
    for seed in range(8):
        throw(world, seed)
        free = torch.stack([body.state.vel * 0.75 for body in world.landmarks])
        ours = shadow.step()
        world.step()
        error = shadow.difference(ours)
        assert max(error.values()) <= 1e-5, error
        pushed += (
            ((torch.stack([body.state.vel for body in world.landmarks]) - free).abs().sum((0, 2)) > 0).sum().item()
        )
    assert pushed >= 10  # so many met, and did not cross


@pytest.mark.reference
def test_a_crowd_is_that_of_vmas(monkeypatch):
    monkeypatch.setattr(core.World, "collides", twins.without_gate)
    world = thrown([*SHAPES, *SHAPES], rows=16, substeps=3, collision_force=300, contact_margin=5e-3)
    shadow = convert.Shadow(world)
    for seed in range(5):
        throw(world, seed)
        ours = shadow.step()
        world.step()
        error = shadow.difference(ours)
        assert max(error.values()) <= 1e-5, error


# --- laws ----------------------------------------------------------------------------------------


class Two(Scenario):
    """Two bodies on their own, and an agent far away."""

    def __init__(self, a, b):
        self.shapes = a, b

    def build(self):
        world = World(drag=0.0)
        self.bodies = world.add("bodies",
                                [Landmark(s, movable=True, rotatable=True, mass=m) for s,
                                 m in zip(self.shapes, (1.0, 2.0), strict=True)])  # fmt: skip
        self.idle = world.add("idle", [Agent(collide=False, dynamics=Holonomic())])
        return world

    def spawn(self):
        self.bodies.pos = self.uniform(-0.3, 0.3, 2, 2)
        self.bodies.rot = self.uniform(-3, 3, 2)

    def observe(self):
        return {"idle": self.idle.pos}

    def rewards(self):
        return {"idle": self.idle.rot}


def ours(kind):
    import marlenv.physics as physics

    return SHAPES[kind](physics)


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_contacts_keep_the_momentum(kinds):
    sim = Simulation(Two(*map(ours, kinds)))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[4096])))
    at = [sim.stepper.plan.place[f"bodie_{i}"] for i in (0, 1)]
    after, *_ = sim.transition(state, {"idle": torch.zeros(4096, 1, 2)})
    momentum = after["vel"][:, at[0]] * 1.0 + after["vel"][:, at[1]] * 2.0
    assert momentum.abs().max() < 2e-6
    assert after["vel"][:, at[0]].abs().max() > 1e-3


@pytest.mark.parametrize("kinds", PAIRS, ids="-".join)
def test_gradients_are_finite_in_every_pose(kinds):
    sim = Simulation(Two(*map(ours, kinds)))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[64])))
    at = [sim.stepper.plan.place[f"bodie_{i}"] for i in (0, 1)]
    pos, rot = state["pos"].clone(), state["rot"].clone()
    pos[..., :8] = 0.0  # the same place
    rot[..., :4] = 0.0  # and the same rotation
    rot[at[1], 4:8] = torch.pi / 2
    pos.requires_grad_(), rot.requires_grad_()
    now = {**state, "pos": pos, "rot": rot}
    for _ in range(2):
        now, *_ = sim.transition(now, {"idle": torch.zeros(64, 1, 2)})
    (now["pos"].sum() + now["rot"].sum() + now["vel"].square().sum()).backward()
    assert pos.grad.isfinite().all()
    assert rot.grad.isfinite().all()


def state_of(sim, **poses):
    """The state of one row at rest, with bodies at ``(x, y, rot)``."""
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    for i, (x, y, rot) in enumerate(poses.values()):
        at = sim.stepper.plan.place[f"bodie_{i}"]
        state["pos"][:, at, 0], state["rot"][at] = torch.tensor([x, y]), rot
    return state, [sim.stepper.plan.place[f"bodie_{i}"] for i in (0, 1)]


def test_a_ball_that_hits_the_end_of_a_line_turns_it():
    sim = Simulation(Two(Line(0.4), Sphere(0.05)))
    state, (line, ball) = state_of(sim, line=(0, 0, 0), ball=(0.2, 0.04, 0))
    after, *_ = sim.transition(state, {"idle": torch.zeros(1, 1, 2)})
    assert after["vel"][1, ball] > 0 > after["vel"][1, line]
    assert after["ang_vel"][line] < 0  # its right end goes down
    assert after["ang_vel"][ball] == 0  # there is no friction in a contact


def test_crossing_lines_do_not_push():
    sim = Simulation(Two(Line(0.4), Line(0.4)))
    state, at = state_of(sim, a=(0, 0, 0), b=(0.05, 0.02, 1.3))
    after, *_ = sim.transition(state, {"idle": torch.zeros(1, 1, 2)})
    assert after["vel"][:, at].abs().max() == 0


def test_a_solid_box_pushes_out_what_is_inside_and_a_hollow_one_keeps_it_in():
    for hollow, sign in ((False, 1), (True, -1)):
        sim = Simulation(Two(Box(1.0, 1.0, hollow), Sphere(0.05)))
        state, (_, ball) = state_of(sim, box=(0, 0, 0), ball=(0.46, 0.0, 0))
        after, *_ = sim.transition(state, {"idle": torch.zeros(1, 1, 2)})
        assert after["vel"][0, ball].item() * sign > 0
