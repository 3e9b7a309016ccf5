"""The same sphere world in VMAS and in ours, for tests that compare the two."""

from __future__ import annotations

import warnings

import torch

from marlenv.physics import Agent, Landmark, Scenario, Simulation, Sphere, World
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator import core


def without_gate(self, a, b):
    """VMAS's ``World.collides`` without its look at the whole batch."""
    if a is b or not a.collides(b) or not b.collides(a):
        return False
    if not (a.movable or a.rotatable or b.movable or b.rotatable):
        return False
    return {type(a.shape), type(b.shape)} in self._collidable_pairs


class Given(Scenario):
    """A scenario of given bodies without a task."""

    may_overlap = True

    def __init__(self, laws, agents, landmarks=()):
        self.given = laws, agents, landmarks

    def build(self):
        laws, agents, landmarks = self.given
        world = World(**laws)
        self.agents = world.add("agents", list(agents))
        self.landmarks = world.add("landmarks", list(landmarks))
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-0.3, 0.3, len(self.agents), 2)

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.agents.rot}


SAME = (
    "movable",
    "rotatable",
    "collide",
    "mass",
    "drag",
    "linear_friction",
    "angular_friction",
    "max_speed",
    "v_range",
)
ACTING = ("f_range", "max_f", "t_range", "max_t")


class Twins:
    """A VMAS world and our simulation of it, with the same random start.

    Bodies are given as keyword arguments that both understand, and a radius.
    """

    def __init__(self, laws, agents, landmarks=(), rows=64, spread=0.3, device="cpu"):
        self.theirs = core.World(rows, torch.device(device), **laws)
        for i, kind in enumerate(landmarks):
            known = {k: _given(k, v) for k, v in kind.items() if k in (*SAME, "gravity")}
            self.theirs.add_landmark(core.Landmark(f"landmark_{i}", shape=core.Sphere(kind["radius"]), **known))
        for i, kind in enumerate(agents):
            known = {k: _given(k, v) for k, v in kind.items() if k in (*SAME, *ACTING, "gravity")}
            self.theirs.add_agent(core.Agent(f"agent_{i}", shape=core.Sphere(kind["radius"]), **known))
        ours = [[cls(Sphere(k["radius"]), **{n: v for n, v in k.items() if n != "radius"}) for k in side] for cls,
                side in
                ((Agent, agents), (Landmark, landmarks))]  # fmt: skip
        self.sim = Simulation(Given(laws, *ours))
        self.state = self.sim.start(RowRNG(rows=[rows]))
        g = torch.Generator().manual_seed(0)
        for name, size in (("pos", spread), ("vel", 1.0), ("rot", 1.0), ("ang_vel", 1.0)):
            self.state[name] = (torch.rand(self.state[name].shape, generator=g) * 2 - 1) * size
        for body in self.theirs.entities:
            at = self.sim.stepper.plan.place[body.name]
            body.state.pos, body.state.vel = (
                self.state["pos"][:, at].T.contiguous(),
                self.state["vel"][:, at].T.contiguous(),
            )
            body.state.rot, body.state.ang_vel = (
                self.state["rot"][at, :, None].contiguous(),
                self.state["ang_vel"][at, :, None].contiguous(),
            )

    def step(self, u):
        """Both take a step under the forces ``u`` ``[B, A, 2]``."""
        for i, agent in enumerate(self.theirs.agents):
            agent.state.force = u[:, i].contiguous()
        self.theirs.step()
        self.state, *_ = self.sim.transition(self.state, {"agents": u})

    def difference(self):
        """The largest difference in positions, velocities, rotations and angular velocities."""
        worst = 0.0
        for body in self.theirs.entities:
            at = self.sim.stepper.plan.place[body.name]
            for name, theirs in (
                ("pos", body.state.pos.T),
                ("vel", body.state.vel.T),
                ("rot", body.state.rot[:, 0]),
                ("ang_vel", body.state.ang_vel[:, 0]),
            ):
                worst = max(worst, (self.state[name][..., at, :] - theirs).abs().max().item())
        return worst


def _given(name, value):
    """A keyword argument as VMAS takes it."""
    return torch.tensor(value) if name == "gravity" else value
