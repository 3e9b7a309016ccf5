"""Dynamics and controllers: as in VMAS from its own state, or by the law that they follow."""

import math
import warnings

import pytest
import torch
import twins

from marlenv.errors import GroupError
from marlenv.physics import (
    Agent,
    Box,
    DiffDrive,
    Drone,
    Forward,
    Holonomic,
    HolonomicWithRotation,
    KinematicBicycle,
    Landmark,
    Rotation,
    Scenario,
    Simulation,
    Static,
    VelocityController,
    World,
    tilted,
)
from marlenv.rng import RowRNG

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from vmas.simulator.controllers.velocity_controller import VelocityController as TheirController
    from vmas.simulator.dynamics import (
        diff_drive,
        drone,
        forward,
        holonomic,
        holonomic_with_rot,
        kinematic_bicycle,
        roatation,
    )
    from vmas.simulator.environment.environment import Environment
    from vmas.simulator.scenario import BaseScenario

core = twins.core
BICYCLE = {"l_f": 0.1, "l_r": 0.15, "max_steering_angle": 0.5}
DYNAMICS = {
    "diff drive": (DiffDrive(), diff_drive.DiffDrive),
    "diff drive, euler": (DiffDrive(integration="euler"), lambda w: diff_drive.DiffDrive(w, integration="euler")),
    "bicycle": (KinematicBicycle(**BICYCLE), lambda w: kinematic_bicycle.KinematicBicycle(w, width=0.1, **BICYCLE)),
    "bicycle, euler": (
        KinematicBicycle(**BICYCLE, integration="euler"),
        lambda w: kinematic_bicycle.KinematicBicycle(w, width=0.1, integration="euler", **BICYCLE),
    ),
    "drone": (Drone(), drone.Drone),
    "drone, euler": (Drone(integration="euler"), lambda w: drone.Drone(w, integration="euler")),
    "forward": (Forward(), lambda w: forward.Forward()),
    "rotation": (Rotation(), lambda w: roatation.Rotation()),
    "holonomic with rotation": (HolonomicWithRotation(), lambda w: holonomic_with_rot.HolonomicWithRotation()),
}


class Theirs(BaseScenario):
    """Two agents of one kind, in VMAS."""

    def make_world(self, batch_dim, device, dynamics, agent, control=None):
        world = core.World(batch_dim, device, substeps=2)
        self.controllers = {}
        for i in range(2):
            own = {at: torch.tensor(value) if at == "gravity" else value for at, value in agent.items()}
            one = core.Agent(f"agent_{i}", shape=core.Box(0.2, 0.1), mass=1.0 + i, dynamics=dynamics(world), **own)
            world.add_agent(one)
            if control:
                self.controllers[one.name] = TheirController(one, world, *control)
        return world

    def reset_world_at(self, env_index=None):
        for agent in self.world.agents:
            agent.set_pos(torch.rand(self.world.batch_dim, 2) * 2, env_index)
            agent.set_rot(torch.rand(self.world.batch_dim, 1) * 6 - 3, env_index)

    def process_action(self, agent):
        if agent.name in self.controllers:
            self.controllers[agent.name].process_force()

    def observation(self, agent):
        return agent.state.pos

    def reward(self, agent):
        return agent.state.pos[:, 0]


class Ours(Scenario):
    """The same in ours."""

    may_overlap = True  # nothing is placed

    def __init__(self, dynamics, agent, control=None):
        self.given = dynamics, agent, control

    def build(self):
        dynamics, agent, control = self.given
        world = World(substeps=2)
        kinds = [Agent(Box(0.2, 0.1), mass=1.0 + i, dynamics=dynamics, **agent) for i in range(2)]
        self.agents = world.add("agents", kinds)
        self.controller = VelocityController(world, self.agents, *control) if control else None
        return world

    def spawn(self):
        pass

    def before_step(self):
        if self.controller:
            self.controller.drive()

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.agents.rot}


def compare(ours, theirs, agent, control=None, steps=30):
    env = Environment(Theirs(), 32, seed=0, dynamics=theirs, agent=agent, control=control)
    sim = Simulation(Ours(ours, agent, control))
    state = sim.start(RowRNG(rows=[32]))
    for _ in range(steps):
        for i, body in enumerate(env.world.agents):
            state["pos"][:, i], state["vel"][:, i] = body.state.pos.T, body.state.vel.T
            state["rot"][i], state["ang_vel"][i] = body.state.rot[:, 0], body.state.ang_vel[:, 0]
        actions = env.get_random_actions()
        env.step([a.clone() for a in actions])
        state, *_ = sim.transition(state, {"agents": torch.stack(actions, 1)})
        for i, body in enumerate(env.world.agents):
            torch.testing.assert_close(state["pos"][:, i].T, body.state.pos, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(state["vel"][:, i].T, body.state.vel, rtol=1e-5, atol=2e-5)
            torch.testing.assert_close(state["rot"][i], body.state.rot[:, 0], rtol=1e-5, atol=1e-5)
            if "inner.agents" in state:
                torch.testing.assert_close(
                    state["inner.agents"][:, i].T, body.dynamics.drone_state, rtol=1e-4, atol=1e-5
                )
    return state


@pytest.mark.reference
@pytest.mark.parametrize("name", DYNAMICS)
def test_dynamics_move_agents_as_in_vmas(name):
    u_range = 0.01 if "drone" in name else 0.7
    state = compare(*DYNAMICS[name], {"u_range": u_range})
    assert state["vel"].abs().max() > 1e-4 or name == "rotation"


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(
    "limits",
    [
        {"max_f": 0.6, "max_t": 0.4},
        {"f_range": 0.5, "t_range": 0.3, "v_range": 0.02},
        {"linear_friction": 0.1, "angular_friction": 0.2, "drag": 0.0},
        {"gravity": (0.3, -0.5), "max_speed": 0.05},
        {"rotatable": False},
        {"movable": False},
        {"u_range": [0.5, 1.0, 0.1], "u_multiplier": [2.0, 0.5, 0.3]},
    ],
    ids=" ".join,
)
def test_limits_friction_and_gravity_of_an_agent_are_those_of_vmas(limits):
    compare(HolonomicWithRotation(), lambda w: holonomic_with_rot.HolonomicWithRotation(), limits, steps=15)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("control", [((2.0, 0.0, 0.0),), ((2.0, 6.0, 0.002),), ((1.5, 0.3, 0.1), "parallel")])
@pytest.mark.parametrize("limit", [{}, {"f_range": 0.6}])
def test_controllers_drive_as_in_vmas(control, limit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # VMAS warns that its integrator can wind up
        compare(Holonomic(), lambda w: holonomic.Holonomic(), limit, control)


def test_a_controller_reaches_the_velocity_and_starts_anew_after_a_reset():
    sim = Simulation(Ours(HolonomicWithRotation(), {}, ((3.0, 2.0, 0.0),)))
    first, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    state, still = first, torch.tensor([0.3, -0.2, 0.0]).expand(2, 2, 3)
    for _ in range(80):
        state, *_ = sim.transition(state, {"agents": still})
    torch.testing.assert_close(state["vel"][:, 0, 0], torch.tensor([0.3, -0.2]), rtol=0, atol=0.02)
    again, *_ = sim.reset(state, torch.tensor([True, False]))
    where = "memory.control.agent_0.sum"
    assert not again[where][..., 0].any()
    assert torch.equal(again[where][..., 1], state[where][..., 1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DiffDrive(), KinematicBicycle()])
@pytest.mark.parametrize("drag", [0.0, 0.25, 0.5])
def test_drag_divides_the_steady_speed_of_vehicles(kind, drag):
    sim = Simulation(Ours(kind, {"drag": drag}))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    for _ in range(60):
        state, *_ = sim.transition(state, {"agents": torch.tensor([0.5, 0.0]).expand(2, 2, 2)})
    speed = state["vel"][:, 0].norm(dim=0)
    torch.testing.assert_close(speed, torch.full_like(speed, 0.5 / (1 + drag)))  # v (1 - d) + (u - v), where it rests


@pytest.mark.slow
def test_the_integral_of_a_controller_adds_no_more_than_its_bound():
    sim = Simulation(Ours(Holonomic(), {"max_f": 0.4, "movable": False}, ((2.0, 0.5, 0.0),)))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    for _ in range(300):
        state, *_ = sim.transition(state, {"agents": torch.ones(1, 2, 2)})
    mass, gathered = torch.tensor([1.0, 2.0]), state["memory.control.agent_0.sum"][0, :, 0]
    torch.testing.assert_close(2.0 * mass * gathered / 0.5, 0.5 * 0.4 * mass / 0.1)  # gain * mass * sum / time


def test_static_agents_stay_where_they_are():
    sim = Simulation(Ours(Static(), {"action_size": 2}))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    after, *_ = sim.transition(state, {"agents": torch.ones(2, 2, 2)})
    assert torch.equal(after["pos"], state["pos"])


def test_a_drone_that_tips_over_is_tilted_and_upright_after_a_reset():
    scenario = Ours(Drone(), {"u_range": 0.01})
    sim = Simulation(scenario)
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    u = torch.tensor([0.0, 0.01, 0.0, 0.0]).expand(2, 2, 4)
    for _ in range(20):
        state, *_ = sim.transition(state, {"agents": u})
    state, *_ = sim.reset(state, torch.tensor([False, True]))
    sim.world.stage.open(state)
    assert tilted(scenario.agents).tolist() == [[True, True], [False, False]]
    sim.world.stage.shut()


def test_a_tilt_gives_a_drone_its_acceleration_as_a_velocity_as_in_vmas():
    """What the docstring says: the body moves at ``g sin(0.1)`` at once, what it remembers by Newton's law."""

    class Alone(Scenario):
        def build(self):
            world = World(dt=0.05, drag=0.0, substeps=1)
            self.drone = world.add("drone", [Agent(dynamics=Drone())])
            return world

        def spawn(self):
            self.drone.inner = self.tensor([0.0, 0.1] + [0.0] * 10).reshape(12, 1, 1).expand(-1, -1, self.rows)

        def observe(self):
            return {"drone": self.drone.pos}

        def rewards(self):
            return {"drone": self.zeros(1)}

    sim = Simulation(Alone())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    accel = 9.81 * math.sin(0.1)
    for step in range(1, 41):
        state, *_ = sim.transition(state, {"drone": torch.zeros(1, 1, 4)})
        assert state["vel"][0, 0, 0].item() == pytest.approx(accel, rel=1e-4)
        assert state["inner.drone"][6].item() == pytest.approx(accel * 0.05 * step, rel=1e-4)


def test_gradients_pass_through_all_dynamics_from_rest():
    for name, (dynamics, _) in DYNAMICS.items():
        sim = Simulation(Ours(dynamics, {}))
        state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
        u = torch.full((2, 2, dynamics.size), 0.01, requires_grad=True)
        for _ in range(2):
            state, *_ = sim.transition(state, {"agents": u})
        (state["pos"].sum() + state["rot"].sum()).backward()
        assert u.grad.isfinite().all(), name
        assert u.grad.abs().sum() > 0, name


def test_impossible_dynamics_are_errors():
    with pytest.raises(ValueError, match="DiffDrive: integration must be 'rk4' or 'euler', got 'heun'"):
        DiffDrive(integration="heun")
    with pytest.raises(ValueError, match="pid_form must be 'standard' or 'parallel', got 'serial'"):
        Simulation(Ours(HolonomicWithRotation(), {}, ((1, 0, 0), "serial")))


NAN, INF = float("nan"), float("inf")
THREE = "ctrl_params must be three finite numbers, the first above 0, the others 0 or more, got"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(
            ({"ctrl_params": gains}, THREE)
            for gains in [(NAN, 0, 0), (1, NAN, 0), (INF, 0, 0), (1, 0, -1), (0, 1, 1), 1.0, (1.0, 2.0), ("1", 0, 0)]
        ),
        ({"max_speed": -1.0}, "max_speed must be a number from 0 on, got -1.0"),
        ({"max_speed": NAN}, "max_speed must be a number from 0 on, got nan"),
        ({"dead_band": -1.0}, "dead_band must be a number from 0 on, got -1.0"),
        ({"dead_band": NAN}, "dead_band must be a number from 0 on, got nan"),
        ({"delay": -1}, "delay must be an integer from 0 on, got -1"),
        ({"delay": 1.5}, "delay must be an integer from 0 on, got 1.5"),
    ],
)
def test_impossible_controllers_are_errors(options, says):
    world = World()
    agents = world.add("agents", [Agent()] * 2)
    with pytest.raises(ValueError, match=f"VelocityController: {says}"):
        VelocityController(world, agents, **options)


def test_a_controller_needs_actions_of_two_numbers_in_its_own_world_and_agents_of_its_own():
    world, other = World(), World()
    agents, foreign = world.add("agents", [Agent()] * 2), other.add("foreign", [Agent()])
    turning = world.add("turning", [Agent(dynamics=Rotation())])
    wall, nobody = world.add("wall", Landmark()), world.add("nobody", [])
    with pytest.raises(GroupError, match=r"actions of Bodies\(turning_0\) have 1 \(Rotation\); give them dynamics="):
        VelocityController(world, turning)
    with pytest.raises(GroupError, match=r"needs agents, and Bodies\(wall\) are landmarks"):
        VelocityController(world, wall)
    with pytest.raises(GroupError, match="needs agents, and the group 'nobody' has none"):
        VelocityController(world, nobody)
    with pytest.raises(GroupError, match="must be bodies of its own world"):
        VelocityController(world, foreign)
    VelocityController(world, agents, (1, 1, 0))
    with pytest.raises(GroupError, match=r"Bodies\(agent_0, agent_1\) have a controller already"):
        VelocityController(world, agents, (1, 1, 0))
