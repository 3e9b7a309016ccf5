"""A world of VMAS as a world of ours, body by body; for tests that compare one step of both from the same state."""

from __future__ import annotations

import torch
import twins

from marlenv.physics import Agent, Box, HolonomicWithRotation, Landmark, Line, Scenario, Simulation, Sphere, World
from marlenv.physics.laws.joints import Link
from marlenv.rng import RowRNG

core = twins.core
LAWS = ("dt", "substeps", "drag", "linear_friction", "angular_friction", "x_semidim", "y_semidim", "collision_force",
        "joint_force", "torque_constraint_force", "contact_margin")  # fmt: skip


def shape(theirs):
    """The same outline."""
    if isinstance(theirs, core.Sphere):
        return Sphere(theirs.radius)
    if isinstance(theirs, core.Line):
        return Line(theirs.length)
    return Box(theirs.length, theirs.width, theirs.hollow)


class Converted(Scenario):
    """The bodies of a VMAS world; actions are the forces and torques that its agents feel."""

    may_overlap = True  # nothing is placed

    def __init__(self, theirs):
        self.theirs = theirs

    def build(self):
        theirs = self.theirs
        laws = {name: getattr(theirs, f"_{name}") for name in LAWS}
        world = World(**laws, gravity=tuple(theirs._gravity.tolist()))
        named = {body.name: body for body in theirs.entities}

        def describe(body, cls, *names, **more):
            same = {name: getattr(body, name) for name in (*twins.SAME, *names)}
            pull = None if body.gravity is None else (0.0, 0.0)
            meets = lambda other: body.collides(named[other.name])  # noqa: E731
            return cls(shape(body.shape), name=body.name, gravity=pull, collides_with=meets, **same, **more)

        self.landmarks = world.add("landmarks", [describe(body, Landmark) for body in theirs.landmarks])
        push = {"dynamics": HolonomicWithRotation()}
        self.agents = world.add("agents", [describe(body, Agent, *twins.ACTING, **push) for body in theirs.agents])
        entity = {e.name: e for group in (self.landmarks, self.agents) for e in group.entities}
        for held in theirs.joints:
            fixed = held.fixed_rotation if isinstance(held.fixed_rotation, float) else None
            a, b = entity[held.entity_a.name], entity[held.entity_b.name]
            at_a, at_b = a.shape.anchor(*held.anchor_a), b.shape.anchor(*held.anchor_b)
            bend = None if held.rotate else fixed
            world.links.append(Link(a, b, at_a=at_a, at_b=at_b, rotate=held.rotate, bend=bend))
        return world

    def spawn(self):
        pass

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.agents.rot}


class Shadow:
    """Our simulation of a VMAS world, which is put into its state before every step."""

    def __init__(self, theirs):
        self.theirs = theirs
        self.sim = Simulation(Converted(theirs))
        self.blank = self.sim.start(RowRNG(rows=[theirs.batch_dim]))
        self.place = self.sim.stepper.plan.place

    def state(self):
        """The state of the VMAS world as ours."""
        state = {name: x.clone() for name, x in self.blank.items()}
        for body in self.theirs.entities:
            at = self.place[body.name]
            state["pos"][:, at], state["vel"][:, at] = body.state.pos.T, body.state.vel.T
            state["rot"][at], state["ang_vel"][at] = body.state.rot[:, 0], body.state.ang_vel[:, 0]
        for group, bodies in (("agents", self.theirs.agents), ("landmarks", self.theirs.landmarks)):
            for i, body in enumerate(bodies):
                if body.gravity is not None:
                    state[f"gravity.{group}"][:, i] = body.gravity.expand(self.theirs.batch_dim, 2).T
        if "bends" in state:
            ours = [(link.a.name, link.b.name) for link in sorted_links(self.sim.world) if link.inferred]
            bends = {(j.entity_a.name, j.entity_b.name): j.fixed_rotation for j in self.theirs.joints}
            state["bends"] = torch.stack([bends[pair][:, 0] for pair in ours])
        return state

    def step(self):
        """Steps our world from the state of the VMAS world, under the forces that its agents feel now."""
        u = torch.stack([torch.cat((a.state.force, a.state.torque), -1) for a in self.theirs.agents], 1)
        return self.sim.transition(self.state(), {"agents": u})[0]

    def difference(self, state):
        """The largest difference between a state of ours and that of the VMAS world now, entry by entry."""
        now = self.state()
        return {name: (state[name] - now[name]).abs().max().item() for name in ("pos", "vel", "rot", "ang_vel")}


def sorted_links(world):
    """The links in the order of the state's bends."""
    order = {e.name: e.order for bodies in world.groups.values() for e in bodies.entities}
    return sorted(world.links, key=lambda link: sorted((order[link.a.name], order[link.b.name])))
