"""Descriptions, worlds and joints: numbers in every form are the same, and what cannot be is refused by its name."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from marlenv.errors import GroupError
from marlenv.physics import (
    Agent,
    Box,
    DiffDrive,
    Holonomic,
    HolonomicWithRotation,
    KinematicBicycle,
    Landmark,
    Scenario,
    Simulation,
    Sphere,
    VelocityController,
    World,
    gap,
    join,
)
from marlenv.physics.env import ScenarioEnv
from marlenv.rng import RowRNG

FORMS = {
    "list": list,
    "array": np.array,
    "tensor": torch.tensor,
    "list of tensors": lambda x: [torch.tensor(n) for n in x],
}


@dataclass(eq=False)
class Stones(Scenario):
    """Two agents, a metre apart, see how far a stone is; ``options`` are of the agents."""

    options: dict
    drives: bool = False

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05), **self.options)] * 2)
        self.stone = world.add("stone", Landmark(Sphere(0.1), color=self.options.get("color", "gray")))
        self.controller = VelocityController(world, self.agents) if self.drives else None
        return world

    def spawn(self):
        self.agents.pos = self.tensor([[0.0, 0.0], [0.0, 1.0]])
        self.stone.pos = (1.0, 0.0)

    def before_step(self):
        if self.controller is not None:
            self.controller.drive()

    def observe(self):
        return {"agents": join(self.agents.pos, gap(self.agents, self.stone).unsqueeze(-1))}

    def rewards(self):
        return {"agents": self.zeros(2)}


def played(options, drives, continuous=True):
    env = ScenarioEnv(Stones(options, drives), 3, seed=0, compile="none", continuous_actions=continuous)
    return env.rollout(4)["next", "agents", "observation"]


@pytest.mark.parametrize("form", FORMS)
def test_numbers_in_every_form_are_compared_hashed_and_act_as_tuples(form):
    for drives, continuous, options in (
        (False, True, {"u_range": (1.0, 0.5), "dynamics": DiffDrive()}),
        (False, True, {"u_multiplier": (1.0, 0.5), "dynamics": KinematicBicycle()}),
        (True, True, {"u_range": (1.0, 0.5), "u_noise": (0.25, 0.5), "dynamics": Holonomic()}),
        (False, False, {"nvec": (3, 5)}),
        (False, True, {"gravity": (0.0, -0.5), "color": (1.0, 0.5, 0.0)}),
    ):
        other = {name: FORMS[form](x) if isinstance(x, tuple) else x for name, x in options.items()}
        assert Agent(**other) == Agent(**options)
        assert hash(Agent(**other)) == hash(Agent(**options))
        torch.testing.assert_close(played(other, drives, continuous), played(options, drives, continuous))
    seen = ScenarioEnv(Stones({"u_range": FORMS[form]((1.0, 0.5))}), 1, compile="none").reset()["agents", "observation"]
    assert seen[0, :, 2].tolist() == pytest.approx([1 - 0.15, math.sqrt(2) - 0.15])
    assert World(gravity=FORMS[form]((0.0, -9.0))).laws == World(gravity=(0.0, -9.0)).laws


def test_single_numbers_of_arrays_and_tensors_are_numbers():
    one = Agent(mass=np.float32(2), u_range=torch.tensor(0.5), nvec=np.array([3, 4]))
    assert (one.mass, one.u_range, one.nvec) == (2.0, 0.5, (3, 4))
    assert hash(one) == hash(Agent(mass=2, u_range=0.5, nvec=(3, 4)))


NAN, INF = math.nan, math.inf
WORLDS = [
    *((name, x, r"\(0.0, inf\)") for name in ("dt", "contact_margin") for x in (NAN, -1, 0, INF)),
    *(("drag", x, r"\[0.0, 1.0\]") for x in (NAN, -1, 2.5)),
    *((at, x, r"\[0.0, inf\]") for at in ("linear_friction", "angular_friction") for x in (NAN, -1)),
    ("x_semidim", NAN, r"\[-inf, inf\]"),
    *(
        (name, x, r"\[0.0, inf\)")
        for name in ("collision_force", "joint_force", "torque_constraint_force")
        for x in (NAN, -1, INF)
    ),
    *((name, "1", "a number") for name in ("dt", "drag", "y_semidim", "joint_force")),
    *((name, None, "a number") for name in ("dt", "drag", "linear_friction", "contact_margin")),
    *((name, x, "an integer") for name in ("substeps", "channels") for x in (2.5, NAN, "1", None)),
    ("substeps", 0, r"\[1, inf\)"),
    ("substeps", -1, r"\[1, inf\)"),
    ("channels", -1, r"\[0, inf\)"),
    *(("gravity", x, r"two numbers, \(x, y\)") for x in ((1.0,), (1.0, 2.0, 3.0), 1.0, "ab", None)),
    ("gravity", (NAN, 0.0), r"\(-inf, inf\)"),
    ("gravity", ("1", 0.0), "a number"),
]


@pytest.mark.parametrize(("name", "value", "wanted"), WORLDS, ids=[f"{name}={x}" for name, x, _ in WORLDS])
def test_numbers_of_a_world_are_refused_by_name(name, value, wanted):
    with pytest.raises((TypeError, ValueError), match=rf"World: {name} must be (in )?{wanted}.*, got "):
        World(**{name: value})


def test_a_world_may_be_as_its_limits_allow():
    World(dt=0.01, substeps=1, drag=0, linear_friction=0, x_semidim=None, collision_force=0, contact_margin=6e-3)
    World(x_semidim=-1)  # as in VMAS
    World(drag=1, linear_friction=INF, y_semidim=0, x_semidim=INF, channels=0, joint_force=0, gravity=[0, -9.81])
    laws = World(drag=np.float64(0.5), substeps=np.int64(5), dt=torch.tensor(0.5)).laws
    assert (laws.drag, laws.substeps, laws.dt) == (0.5, 5, 0.5)


AGENTS = [
    *(("mass", x, r"\(0.0, inf\)") for x in (NAN, -1, 0, INF)),
    *(("mass", x, "a number") for x in ("1", None, (1.0, 2.0))),
    *(("max_speed", x, wanted) for x, wanted in ((-1, r"\[0.0, inf\]"), ("1", "a number"))),
    *(("u_range", x, r"\[0.0, inf\]") for x in (NAN, -1, [1.0, NAN])),
    *(("u_multiplier", x, r"\(-inf, inf\)") for x in (NAN, INF, [1.0, NAN])),
    *((name, x, r"\[0.0, inf\)") for name in ("u_noise", "c_noise") for x in (NAN, -1, INF)),
    *((name, x, "a number") for name in ("u_range", "u_multiplier", "u_noise", "c_noise") for x in ("1", None)),
    *(("u_range", x, "one number or 2") for x in ((1.0,), torch.ones(3))),
    *(("gravity", x, r"two numbers, \(x, y\)") for x in ((1.0,), (1.0, 2.0, 3.0), 1.0, torch.ones(3))),
    *(("color", x, r"one of .*three numbers in \[0, 1\]") for x in (
        "mauve", (1.0, 0), (1.0, 0, 0, 0.5), None, 5, (255, 0, 0), (2.0, 0, 0), (-0.1, 0, 0), (NAN, 0, 0), ("a",) * 3,
    )),
    *(("name", x, "a string without dots, not empty") for x in (3, "", "a.b", ("a",))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "wanted"), AGENTS, ids=[f"{name}={x}" for name, x, _ in AGENTS])
def test_fields_of_descriptions_are_refused_by_name(name, value, wanted):
    with pytest.raises((TypeError, ValueError), match=rf"^Agent: {name} must be (in )?{wanted}.*, got "):
        Agent(**{name: value})


@pytest.mark.parametrize("nvec", [5, [3, 2.5], (1, 3), "ab", torch.tensor([3.0, 3.0])])
def test_numbers_of_choices_are_refused_by_name(nvec):
    with pytest.raises(ValueError, match=r"Agent: every entry of nvec must be an integer above 1, got [^\[]"):
        Agent(nvec=nvec)


@pytest.mark.parametrize("name", [3, None, "", "a.b", ("a", "b"), ["a"]])
def test_groups_have_names(name):
    with pytest.raises(GroupError, match="World.add: a group needs a new name without dots, got "):
        World().add(name, [Agent()])


@pytest.mark.parametrize("what", [Agent(), 3, None])
def test_a_group_is_a_list(what):
    with pytest.raises(TypeError, match=r"World.add\('agents'\): expected one Landmark or a list of descriptions"):
        World().add("agents", what)


# --- joints ------------------------------------------------------------------------------------------

BOX = Box(length=0.2, width=0.2)


@dataclass(eq=False)
class Linked(Scenario):
    """Two boxes with their middles 0.6 m apart, held by parallel bars at the given heights."""

    heights: tuple = (1.0, -1.0)

    def build(self):
        world = World(substeps=20, joint_force=200.0, drag=0.1)
        self.crates = world.add("crates", [Agent(BOX, dynamics=HolonomicWithRotation())] * 2)
        self.bars = [
            world.join(self.crates[0], self.crates[1], anchor_a=(0, y), anchor_b=(0, y), dist=0.6) for y in self.heights
        ]
        return world

    def spawn(self):
        self.crates.pos = self.tensor([[-0.3, 0.0], [0.3, 0.0]])

    def observe(self):
        return {"crates": join(self.crates.pos)}

    def rewards(self):
        return {"crates": self.zeros(2)}


def turned(heights):
    """The rotations of the two boxes after torques on the first alone, and the last state."""
    sim = Simulation(Linked(heights))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    for _ in range(15):
        state, *_ = sim.transition(state, {"crates": torch.tensor([[[0.0, 0.0, 0.02], [0.0, 0.0, 0.0]]])})
    at = sim.stepper.plan.place
    return sim, state, [state["rot"][at[f"crate_{i}"], 0].item() for i in (0, 1)]


@pytest.mark.slow
def test_two_bars_between_the_same_bodies_make_a_parallelogram():
    sim, state, (first, second) = turned((1.0, -1.0))
    assert [bar.bar.name.split()[3:] for bar in sim.scenario.bars] == [[], ["2"]]
    assert abs(first) > 0.1
    assert second == pytest.approx(first, abs=0.1 * abs(first))  # opposite sides stay parallel
    for bar, height in zip(sim.scenario.bars, (0.1, -0.1), strict=True):
        at = sim.stepper.plan.place
        ends = [
            state["pos"][:, at[body.name], 0]
            + height * torch.stack((-state["rot"][at[body.name], 0].sin(), state["rot"][at[body.name], 0].cos()))
            for body in (bar.a, bar.b)
        ]
        assert (ends[0] - ends[1]).norm().item() == pytest.approx(0.6, abs=0.01)
    _, _, (first, second) = turned((0.0,))
    assert abs(first) > 0.1
    assert abs(second) < 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"anchor_a": (0,)}, r"World.join: 'agent_0': anchor_a must be two numbers in \[-1, 1\], \(x, y\), got \(0,\)"),
        ({"anchor_b": 1.0}, "'agent_1': anchor_b must be two numbers .*, got 1.0"),
        ({"anchor_b": ("1", 0)}, r"'agent_1': anchor_b must be two numbers .*, got \('1', 0\)"),
        (
            {"rotate_a": False, "fixed_rotation_a": NAN},
            r"'agent_0': fixed_rotation_a must be in \(-inf, inf\), got nan",
        ),
        ({"rotate_b": False, "fixed_rotation_b": "x"}, "'agent_1': fixed_rotation_b must be a number, got 'x'"),
    ],
)
def test_numbers_of_joints_are_refused_by_name(options, message):
    world = World(substeps=5)
    agents = world.add("agents", [Agent()] * 2)
    with pytest.raises((TypeError, ValueError), match=message):
        world.join(agents[0], agents[1], dist=0.3, **options)


def test_joints_are_between_bodies_of_one_world():
    world, other = World(substeps=5), World(substeps=5)
    agents, stone = world.add("agents", [Agent()] * 2), other.add("stone", Landmark())
    with pytest.raises(TypeError, match=r"World.join: expected two bodies, .*, got Bodies\(agent_0, agent_1\)"):
        world.join(agents, agents[1])
    with pytest.raises(GroupError, match=r"World.join: 'stone' is not in this world; there are \['agents'\]"):
        world.join(agents[0], stone)
    world.join(agents[0], agents[1], anchor_a=np.array([1.0, 0.0]), anchor_b=[0, 1], dist=0.3)
