"""Joints made by ``World.join`` are those of VMAS, from the spawn on."""

import warnings
from dataclasses import dataclass

import pytest
import torch
import twins

from marlenv.physics import Agent, Box, HolonomicWithRotation, Landmark, Scenario, Simulation, Sphere, World
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator.joints import Joint as TheirJoint

core = twins.core
JOINTS = {
    "pin": {"anchor_a": (1, 0), "anchor_b": (-1, 0)},
    "weld": {
        "anchor_a": (1, 0),
        "rotate_a": False,
        "rotate_b": False,
        "fixed_rotation_a": 0.3,
        "fixed_rotation_b": 0.3,
    },
    "rod": {"dist": 0.5, "anchor_a": (0.5, 0.5), "mass": 2.0},
    "stiff rod": {"dist": 0.4, "rotate_a": False, "rotate_b": False},
    "half stiff rod": {"dist": 0.4, "rotate_a": False, "fixed_rotation_a": 0.5, "collidable": True},
    "beam": {"dist": 0.3, "anchor_b": (-1, 0), "collidable": True, "width": 0.05},
}
POSES = {"agent_0": (-0.2, 0.1, 0.4), "agent_1": (0.35, -0.1, -0.8), "ball": (0.0, -0.3, 0.0)}


@dataclass(eq=False)
class Joined(Scenario):
    """A ball, and two agents that are joined."""

    joint: dict
    substeps: int = 6

    def build(self):
        world = World(substeps=self.substeps)
        self.ball = world.add("ball", Landmark(Sphere(0.1), movable=True))
        kinds = [Agent(shape, dynamics=HolonomicWithRotation()) for shape in (Box(0.2, 0.1), Sphere(0.08))]
        self.agents = world.add("agents", kinds)
        self.joined = world.join(self.agents[0], self.agents[1], **self.joint)
        return world

    def spawn(self):
        for body in (self.ball, *self.agents):
            x, y, rot = POSES[body.name]
            body.pos, body.rot = (x, y), rot

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.agents.rot}


def theirs(joint):
    world = core.World(16, torch.device("cpu"), substeps=6)
    world.add_landmark(core.Landmark("ball", shape=core.Sphere(0.1), movable=True))
    for i, shape in enumerate((core.Box(0.2, 0.1), core.Sphere(0.08))):
        world.add_agent(core.Agent(f"agent_{i}", shape=shape))
    world.add_joint(TheirJoint(*world.agents, **joint))
    for body in world.entities:
        if body.name in POSES:
            x, y, rot = POSES[body.name]
            body.set_pos(torch.tensor([x, y]), None)
            body.set_rot(torch.tensor([rot]), None)
    return world


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", JOINTS)
def test_a_joint_is_that_of_vmas(name, monkeypatch):
    monkeypatch.setattr(core.World, "collides", twins.without_gate)
    world, sim = theirs(JOINTS[name]), Simulation(Joined(JOINTS[name]))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[16])))
    at = sim.stepper.plan.place
    g = torch.Generator().manual_seed(0)
    for t in range(15):
        for body in world.entities:
            if t:
                state["vel"][:, at[body.name]], state["ang_vel"][at[body.name]] = (
                    body.state.vel.T,
                    body.state.ang_vel[:, 0],
                )
                state["pos"][:, at[body.name]], state["rot"][at[body.name]] = body.state.pos.T, body.state.rot[:, 0]
            else:  # bars are placed by both
                torch.testing.assert_close(state["pos"][:, at[body.name]].T, body.state.pos, rtol=0, atol=1e-6)
                torch.testing.assert_close(state["rot"][at[body.name]], body.state.rot[:, 0], rtol=0, atol=1e-6)
        u = (torch.rand(16, 2, 3, generator=g) * 2 - 1) * torch.tensor([1.0, 1.0, 0.01])
        for i, agent in enumerate(world.agents):
            agent.state.force, agent.state.torque = u[:, i, :2].contiguous(), u[:, i, 2:].contiguous()
        world.step()
        state, *_ = sim.transition(state, {"agents": u})
        for body in world.entities:
            torch.testing.assert_close(state["pos"][:, at[body.name]].T, body.state.pos, rtol=0, atol=1e-5)
            torch.testing.assert_close(state["vel"][:, at[body.name]].T, body.state.vel, rtol=0, atol=1e-4)
            torch.testing.assert_close(state["rot"][at[body.name]], body.state.rot[:, 0], rtol=0, atol=1e-5)


def test_a_rod_keeps_its_length_and_a_stiff_one_its_angles():
    for name, bends in (("rod", False), ("stiff rod", True)):
        sim = Simulation(Joined(JOINTS[name], substeps=15))
        start, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
        state, at = start, sim.stepper.plan.place
        for _ in range(20):
            state, *_ = sim.transition(state, {"agents": torch.tensor([[[0.0, 0.2, 0.0], [0.0, -0.2, 0.0]]])})
        ends = [state["pos"][:, at[f"agent_{i}"], 0] for i in (0, 1)]
        if name == "stiff rod":
            assert (ends[0] - ends[1]).norm().item() == pytest.approx(0.4, abs=0.02)
        angle = [(s["rot"][at["agent_0"]] - s["rot"][at["joint agent_0 agent_1"]]).item() for s in (start, state)]
        assert (abs(angle[0] - angle[1]) < 0.1) == bends


def test_gradients_pass_through_joints_from_rest():
    for name, joint in JOINTS.items():
        sim = Simulation(Joined(joint))
        state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
        u = torch.zeros(2, 2, 3, requires_grad=True)
        for _ in range(3):
            state, *_ = sim.transition(state, {"agents": u})
        state["pos"].sum().backward()
        assert u.grad.isfinite().all(), name
        assert u.grad.abs().sum() > 0, name


def test_impossible_joints_are_errors():
    for joint, message in (
        ({"anchor_a": (1.5, 0)}, r"anchors must be in \[-1, 1\], got \(1.5, 0\)"),
        ({"collidable": True}, "a joint without a distance has no bar"),
        ({"dist": 0.1, "width": 0.1}, "a bar with a width must be collidable"),
        ({"dist": 0.1, "fixed_rotation_b": 0.1}, "fixed_rotation_b=0.1 needs rotate_b=False"),
        ({"dist": -1}, "dist and width must be 0 or more metres"),
    ):
        with pytest.raises(ValueError, match=message):
            Simulation(Joined(joint))
    with pytest.raises(ValueError, match=r"needs more than 1 substep, got 1; World\(substeps=5\)"):
        Simulation(Joined({}, substeps=1))
