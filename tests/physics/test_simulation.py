"""A simulation is a pure function of its state, row by row."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
import twins
from fetch import Fetch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread
from marlenv.scenarios.navigation import Navigation

from marlenv.errors import GroupError, KeyMissing, NeedsReset, ShapeError
from marlenv.physics import Agent, Landmark, Simulation, Sphere
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.maths.rowwise import alike, graph
from marlenv.rng import RowRNG

ROWS = 64


def actions(rows, t):
    g = torch.Generator().manual_seed(t)
    many = {"runners": torch.rand(ROWS, 3, 4, generator=g), "keeper": torch.rand(ROWS, 1, 2, generator=g)}
    return {name: x[:rows] for name, x in many.items()}


def life_of_row_0(sim, rows):
    """All that row 0 shows in 50 steps with resets; other rows are reset at other times."""
    state, observations, _ = sim.reset(sim.start(RowRNG(seed=3, rows=[rows])))
    seen = [observations["runners"][:1]]
    for t in range(50):
        state, observations, rewards, over, infos = sim.transition(state, actions(rows, t))
        seen += [observations["runners"][:1], rewards["runners"][:1], over[:1], infos["runners"]["said"][:1]]
        if t % 7 == 6:
            where = torch.arange(rows) % 3 == t % 3
            where[0] = t % 2 == 0
            state, observations, _ = sim.reset(state, where)
            seen += [x[..., :1] for x in state.values()]
    return seen


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 33])
def test_row_0_is_the_same_bit_for_bit_in_any_batch(rows):
    sim = Simulation(Fetch())
    for alone, among in zip(life_of_row_0(sim, rows), life_of_row_0(sim, ROWS), strict=True):
        assert torch.equal(alone, among)


def test_a_partial_reset_keeps_every_bit_of_the_other_rows():
    sim = Simulation(Fetch())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[6])))
    state, *_ = sim.transition(state, actions(6, 0))
    where = torch.tensor([True, False, False, True, False, False])
    new, *_ = sim.reset(state, where)
    assert all(torch.equal(new[name][..., ~where], x[..., ~where]) for name, x in state.items())
    assert new["memory.steps"].tolist() == [0, 1, 1, 0, 1, 1]
    assert not torch.equal(new["pos"][..., where], state["pos"][..., where])


def test_a_transition_leaves_its_state_as_it_was():
    sim = Simulation(Fetch())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[4])))
    before = {name: x.clone() for name, x in state.items()}
    one, *_ = sim.transition(state, actions(4, 0))
    two, *_ = sim.transition(state, actions(4, 0))
    assert all(torch.equal(before[name], x) for name, x in state.items())
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(x.is_contiguous() and x.shape[-1] == 4 for x in one.values())


@dataclass(eq=False)
class Burning(Fetch):
    """Writes into what it reads."""

    def after_step(self):
        self.memory.steps += 1
        self.runners.pos *= 0.5

    def observe(self):
        self.keeper.rot += 1.0
        return super().observe()


def test_authors_who_write_in_place_change_no_state_that_somebody_holds():
    env = ScenarioEnv(Burning(), 2, seed=0, compile="none")
    td = env.rand_action(env.reset())
    held, state = env.current_state, env.get_state()
    env.step(td.set("_step", torch.tensor([True, False])))
    for name, x in env.get_state().items():
        assert torch.equal(x[1], state[name][1]), name
    assert env.get_state()["memory.steps"].tolist() == [2, 0]
    assert all(torch.equal(x, held[name].movedim(-1, 0)) for name, x in state.items())
    before = held["rot"].clone()
    env.simulation.observe(held)
    assert torch.equal(held["rot"], before)


def test_a_scripted_agent_moves_as_its_script_says():
    sim = Simulation(Fetch())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[1])))
    state, *_ = sim.transition(state, actions(1, 0))
    at = sim.stepper.plan.place["target_0"]
    kick = torch.tensor([1 / 30]).cos().item() * 0.05  # force times the substep
    assert state["vel"][0, at].item() == pytest.approx(0.0 + kick + kick, rel=1e-5)


def test_speech_is_heard_after_the_step_and_forgotten_at_the_reset():
    sim = Simulation(Fetch())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    spoken = actions(2, 0)
    state, _, _, _, infos = sim.transition(state, spoken)
    assert torch.equal(infos["runners"]["said"], spoken["runners"][..., 2:])
    state, _, infos = sim.reset(state)
    assert not infos["runners"]["said"].any()


def test_gradients_are_finite_from_rest_and_in_contact():
    pair = twins.Twins(
        {"linear_friction": 0.1, "substeps": 2}, [{"radius": 0.1, "max_speed": 0.3, "max_f": 0.5}] * 3, rows=2
    )
    state = {**pair.state, **{name: torch.zeros_like(pair.state[name]) for name in ("pos", "vel", "rot", "ang_vel")}}
    state["pos"][0, 2] = 0.15  # two bodies on the same spot, one in contact
    u = torch.zeros(2, 3, 2, requires_grad=True)
    for _ in range(3):
        state, *_ = pair.sim.transition(state, {"agents": u})
    state["pos"].sum().backward()
    assert u.grad.isfinite().all()
    assert u.grad.abs().sum() > 0


def test_alike_gives_the_same_bits_wherever_a_number_stands():
    x = torch.linspace(0, 5, 1000)
    whole = alike(lambda z: torch.logaddexp(torch.zeros(()), z), x)
    for n in (1, 7, 31, 33):
        parts = [alike(lambda z: torch.logaddexp(torch.zeros(()), z), part) for part in x.split(n)]
        assert torch.equal(torch.cat(parts), whole)


# --- mistakes ----------------------------------------------------------------------------------------


def test_a_misspelt_option_names_the_options():
    with pytest.raises(
        TypeError,
        match=r"SimpleSpread has no option 'n_agent'; did you mean 'n_agents'\? Its options: n_agents=3, "
        r"obs_agents=True",
    ):
        SimpleSpread(n_agent=4)


def test_undeclared_memory_is_an_error():
    class Forgetful(Fetch):
        def spawn(self):
            self.memory.nera = self.zeros(3)

    with pytest.raises(KeyMissing, match=r"'nera'.*world.remember\(nera=...\); did you mean 'near'"):
        Simulation(Forgetful())


def test_a_wrong_shape_names_the_method():
    class Wrong(Fetch):
        def rewards(self):
            return {"runners": self.runners.pos, "keeper": self.keeper.rot}

    with pytest.raises(ShapeError, match=r"Wrong.rewards: 'runners' must be \['B', 3\].*got \[11, 3, 2\]"):
        Simulation(Wrong())


def test_a_forgotten_group_is_named():
    class Blind(Fetch):
        def observe(self):
            return {"runners": self.runners.pos}

    with pytest.raises(
        GroupError, match=r"Blind.observe: expected the groups \['keeper', 'runners'\], got \['runners'\]"
    ):
        Simulation(Blind())


def test_threads_play_on_while_one_records():
    """Another env may be compiled at the same time; a reset of Navigation and its steps have loops."""
    sim = Simulation(Navigation())

    def play():
        state, *_ = sim.reset(sim.start(RowRNG(0, [4])))
        with torch.no_grad():
            return sim.transition(state, {"agents": torch.ones(4, 4, 2)})[0]

    def refuse(*_):
        raise AssertionError("recorded from another thread")

    alone = play()
    with ThreadPoolExecutor(1) as pool, graph(refuse):
        beside = pool.submit(play).result()
    assert all(torch.equal(x, beside[name]) for name, x in alone.items())


def test_actions_of_a_wrong_shape_or_group_are_named():
    sim = Simulation(Fetch())
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    with pytest.raises(KeyMissing, match=r"actions of 'keeper' are missing"):
        sim.transition(state, {"runners": torch.zeros(2, 3, 4)})
    with pytest.raises(ShapeError, match=r"actions of 'runners': expected \['B', 3, 4\], got \[2, 3, 2\]"):
        sim.transition(state, {"runners": torch.zeros(2, 3, 2), "keeper": torch.zeros(2, 1, 2)})


def test_positions_outside_a_method_are_an_error():
    sim = Simulation(Fetch())
    with pytest.raises(NeedsReset, match="no state is open"):
        _ = sim.scenario.runners.pos


def test_descriptions_out_of_range_are_errors():
    with pytest.raises(ValueError, match="Sphere: radius must be a positive number of metres, got -1"):
        Sphere(-1)
    with pytest.raises(ValueError, match=r"Landmark 'ball': mass must be in \(0.0, inf\), got 0"):
        Landmark(name="ball", mass=0)
    with pytest.raises(ValueError, match="u_range must be one number or 2"):
        Agent(u_range=[1, 2, 3])
