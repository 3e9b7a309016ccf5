"""Mistakes of users and of authors are errors that say who, what was expected, and what came."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread
from marlenv.scenarios.mpe.simple_tag import SimpleTag
from marlenv.scenarios.sampling import Sampling
from tensordict import TensorDict

from marlenv.errors import DeviceError, DtypeError, GroupError, KeyMissing, NotInSpec, ShapeError
from marlenv.physics import Agent, Landmark, Scenario, Simulation, Sphere, World
from marlenv.physics.env import ScenarioEnv
from marlenv.rng import RowRNG

# --- actions -----------------------------------------------------------------------------------------


def acted(env, key, change):
    td = env.rand_action(env.reset())
    change(td, key)
    return env.step(td)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_actions_that_are_no_numbers_are_named_by_row_and_agent(value):
    def spoil(td, key):
        td[key][2, 1, 0] = value

    env = ScenarioEnv(SimpleTag(), 4, seed=0, compile="none")
    message = rf"actions of 'adversary': row 2, agent 'adversary_1', number 0: expected a finite number, got {value}"
    with pytest.raises(NotInSpec, match=message):
        acted(env, ("adversary", "action"), spoil)
    regrouped = ScenarioEnv(SimpleTag(), 4, seed=0, compile="none", group_map="one_group_per_agent")
    with pytest.raises(NotInSpec, match="row 3, agent 'adversary_2', number 1"):
        acted(regrouped, ("adversary_2", "action"), lambda td, key: td[key][3, 0].__setitem__(1, value))


@pytest.mark.parametrize("many", [False, True])
def test_choices_that_are_not_there_are_named_by_row_and_agent(many):
    env = ScenarioEnv(SimpleSpread(), 4, seed=0, compile="none", continuous_actions=False, multidiscrete_actions=many)

    def spoil(td, key):
        td[key][1, 2] = 9

    message = (
        r"row 1, agent 'agent_2', number 0: expected a choice below \[3, 3\]" if many else "expected a choice below 9"
    )
    with pytest.raises(NotInSpec, match=f"{message}, got 9"):
        acted(env, ("agents", "action"), spoil)
    with pytest.raises(NotInSpec, match="got -1"):
        acted(env, ("agents", "action"), lambda td, key: td[key].fill_(-1))


def test_rows_that_do_not_step_may_have_any_action():
    env = ScenarioEnv(SimpleSpread(), 3, seed=0, compile="none")
    td = env.rand_action(env.reset())
    td["agents", "action"][1] = torch.nan
    following = env.step(td.set("_step", torch.tensor([True, False, True])))
    assert following["next", "agents", "observation"].isfinite().all()


def test_actions_of_a_wrong_shape_or_device_or_under_no_key_are_errors():
    env = ScenarioEnv(SimpleSpread(), 4, seed=0, compile="none")
    td = env.rand_action(env.reset())
    with pytest.raises(ShapeError, match=r"action \('agents', 'action'\) must have shape \[4, 3, 2\], got \[4, 3, 3\]"):
        env.step(td.clone().set(("agents", "action"), torch.zeros(4, 3, 3)))
    with pytest.raises(KeyMissing, match=r"no action under \('agents', 'action'\)"):
        env.step(td.exclude(("agents", "action")))
    moved = td.clone().clear_device_()
    moved["agents"].clear_device_()["action"] = torch.zeros(4, 3, 2, device="meta")
    with pytest.raises(DeviceError, match=r"must be on cpu, got meta; move the data with td.to\('cpu'\)"):
        env.step(moved)


def test_actions_of_another_float_act_as_float32():
    states = []
    for dtype in (torch.float32, torch.float64):
        env = ScenarioEnv(SimpleSpread(), 2, seed=0, compile="none")
        td = env.reset()
        td["agents", "action"] = torch.full((2, 3, 2), 0.5, dtype=dtype)
        env.step(td)
        states.append(env.get_state()["pos"])
    assert torch.equal(*states)


# --- scenarios ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Plain(Scenario):
    """Three agents, and a stone; how it goes wrong is an option."""

    apart: float = 1.0
    amount: int = 3

    limits = {"apart": (0.0, 5.0), "amount": (1, 9)}

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.1))] * self.amount)
        self.stone = world.add("stone", Landmark(Sphere(0.1)))
        return world

    def spawn(self):
        self.agents.pos = self.tensor([[i * self.apart, 0.5] for i in range(self.amount)])

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.agents.rot}


WRONG = [
    ("observe", lambda s: s.agents.pos, TypeError,
     r"expected a dict with the groups \['agents'\] as keys, got a tensor"),
    ("observe", lambda s: {"agents": s.agents.rot}, ShapeError,
     r"'agents' must be \['B', 3, 'd'\] \(B = 11 in this trial\), got \[11, 3\]"),
    ("observe", lambda s: {"agents": {"way": s.stone.pos}}, ShapeError,
     r"must be \['B', 3, 'd', '...'\].*got \[11, 2\]"),
    ("observe", lambda s: {"wolves": s.agents.pos}, GroupError, r"expected the groups \['agents'\], got \['wolves'\]"),
    ("observe", lambda s: {"agents": {"x": {"y": s.agents.pos}}}, TypeError,
     r"'agents', 'x' must be a tensor \[B, A, d\], got dict"),
    ("rewards", lambda s: s.agents.rot, TypeError, "expected a dict with the groups"),
    ("rewards", lambda s: {"agents": 1.0}, TypeError, r"'agents' must be a tensor \[B, A\], got float"),
    ("rewards", lambda s: None, TypeError, "expected a dict .*, got NoneType"),
    ("rewards", lambda s: {"agents": s.agents.pos}, ShapeError, r"'agents' must be \['B', 3\].*got \[11, 3, 2\]"),
    ("rewards", lambda s: {"agents": s.agents.rot[:, :2]}, ShapeError, r"'agents' must be \['B', 3\].*got \[11, 2\]"),
    ("over", lambda s: s.agents.rot > 0, ShapeError, r"expected bool \[B\] with B = 11, got torch.bool \[11, 3\]"),
    ("over", lambda s: s.stone.rot, ShapeError, r"expected bool \[B\] with B = 11, got torch.float32 \[11\]"),
    ("over", lambda s: False, TypeError, r"must be a tensor \[B\], got bool"),
    ("alive", lambda s: {"agents": True}, TypeError, r"'agents' must be a tensor \[B, A\], got bool"),
    ("info", lambda s: {"agents": {"x": 1}}, TypeError, r"'agents', 'x' must be a tensor \[B, A, ...\], got int"),
    ("info", lambda s: {"x": s.agents.rot}, TypeError, r"'x' must be a dict of tensors \[B, A, ...\], got Tensor"),
    ("info", lambda s: {"agents": {"x": s.stone.rot}}, ShapeError, r"'x' must be \['B', 3, '...'\].*got \[11\]"),
    ("info", lambda s: {"stones": {"x": s.stone.rot}}, GroupError, r"expected groups among \['agents'\], got 'stones'"),
    ("shared_info", lambda s: {"x": 1}, TypeError, r"'x' must be a tensor \[B, ...\], got int"),
    ("shared_info", lambda s: s.stone.rot, TypeError, r"must be a dict of tensors \[B, ...\], got Tensor"),
    ("shared_info", lambda s: {"x": torch.zeros(3)}, ShapeError, r"'x' must be \['B', '...'\].*got \[3\]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "wrong", "error", "message"), WRONG, ids=[f"{w[0]}-{i}" for i, w in enumerate(WRONG)]
)
def test_what_a_method_returns_is_checked_in_its_name(method, wrong, error, message):
    broken = type("Broken", (Plain,), {method: wrong})
    with pytest.raises(error, match=rf"Broken.{method}: .*{message}"):
        Simulation(broken())


def test_a_tensordict_is_as_good_as_a_dict_of_what_a_group_sees():
    class Parted(Plain):
        def observe(self):
            return {"agents": TensorDict({"x": self.agents.pos})}

    assert Simulation(Parted()).observations["agents"]["x"].shape == (11, 3, 2)


@dataclass(eq=False)
class Writing(Plain):
    """Writes ``value(self)`` where it remembers, or notes, ``x``."""

    value: object = None
    start: object = None
    note: bool = False

    def build(self):
        world = super().build()
        (world.note if self.note else world.remember)(x=self.start)
        return world

    def after_step(self):
        (self.notes if self.note else self.memory).x = self.value(self)

    def shared_info(self):
        return {"x": (self.notes if self.note else self.memory).x}


COUNT = torch.tensor(0)
LOSSES = [
    (COUNT, lambda s: s.agents.rot[:, 0] + 0.5, "declared int64, got float32; declare it with {}(x=torch.tensor(0.0))"),
    (COUNT > 0, lambda s: s.steps, "declared bool, got int64; declare it with {}(x=torch.tensor(0))"),
]


@pytest.mark.parametrize("note", [False, True])
@pytest.mark.parametrize(("start", "value", "message"), LOSSES)
def test_numbers_that_an_entry_cannot_hold_are_not_cut_to_it(start, value, message, note):
    who, call = ("notes.x: ", "world.note") if note else ("memory.x: ", "world.remember")
    with pytest.raises(DtypeError, match=re.escape(who + message.format(call))):
        Simulation(Writing(value=value, start=start, note=note))


def test_numbers_in_python_are_not_cut_either():
    with pytest.raises(DtypeError, match="memory.x: declared int64, got float32"):
        Simulation(Writing(value=lambda s: 0.5, start=COUNT))
    for start, value in ((COUNT, 3), (COUNT, True), (COUNT > 0, True), (0.0, 3), (torch.zeros(2), [1, 2])):
        env = ScenarioEnv(Writing(value=lambda s, value=value: value, start=start), 2, seed=0, compile="none")
        assert env.rollout(1)["next", "info", "x"][0, 0].tolist() == (value if isinstance(value, list) else [value])


def test_a_group_called_as_what_all_share_is_an_error():
    class Named(Plain):
        def shared_info(self):
            return {"x": self.stone.rot}

    assert ScenarioEnv(Named(), compile="none").observation_spec["info", "x"].shape == (1, 1)
    with pytest.raises(GroupError, match=r"shared_info: .* stands under 'info', and so does a group of that name"):
        ScenarioEnv(Named(), compile="none", group_map={"info": ["agent_0"], "others": ["agent_1", "agent_2"]})


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.bool])
def test_rewards_and_actions_of_any_dtype_become_float32(dtype):
    class Odd(Plain):
        def before_step(self):
            self.agents.u = torch.tensor([1.0, 0.0]).to(dtype).expand(self.rows, 3, 2)

        def rewards(self):
            return {"agents": self.agents.pos[..., 0].to(dtype)}

    env = ScenarioEnv(Odd(), 2, seed=0, compile="none")
    td = env.step(env.rand_action(env.reset()))
    rolled = ScenarioEnv(Odd(), 2, seed=0, compile="none").rollout(1)
    for data in (td["next"], rolled[:, 0]["next"]):
        assert {x.dtype for x in data["agents"].values()} == {torch.float32, torch.bool}
    assert torch.equal(td["next", "agents", "reward"], rolled["next", "agents", "reward"][:, 0])
    assert torch.equal(td["next", "agents", "reward"][..., 0], env.get_state()["pos"][:, 0, :3].to(dtype).float())
    env.reset(td["next"].set("_reset", torch.tensor([[True], [False]])))
    ScenarioEnv(Odd(), 2, seed=0, compile="none").set_state(env.get_state())


@dataclass(eq=False)
class Pushed(Plain):
    """Three bots are pushed, as ``push`` says, beside agents that are not."""

    push: object = None

    def build(self):
        world = super().build()
        self.bots = world.add("bots", [Agent(Sphere(0.1), scripted=True, collide=False)] * 3)
        return world

    def before_step(self):
        self.push(self)


def moved(push):
    """How fast the bots are after a step, by how fast a force of 1 makes them."""
    sim = Simulation(Pushed(push=push))
    state, *_ = sim.reset(sim.start(RowRNG(rows=[2])))
    state, *_ = sim.transition(state, {"agents": torch.zeros(2, 3, 2)})
    at = sim.groups["bots"].start
    return (state["vel"][0, at : at + 3].movedim(-1, 0) / 0.1).round().int().tolist()


PUSHES = {
    "one": (lambda s: setattr(s.bots[1], "u", torch.ones(s.rows, 2)), [0, 1, 0]),
    "one, a number": (lambda s: setattr(s.bots[-1], "u", 1.0), [0, 0, 1]),
    "some": (lambda s: setattr(s.bots[1:], "u", torch.ones(s.rows, 2, 2)), [0, 1, 1]),
    "some twice": (lambda s: [setattr(s.bots[i:], "u", i + 1.0) for i in range(2)], [1, 2, 2]),
    "a number": (lambda s: setattr(s.bots, "u", 1.0), [1, 1, 1]),
    "alike": (lambda s: setattr(s.bots, "u", torch.ones(s.rows, 1, 2)), [1, 1, 1]),
    "read": (lambda s: setattr(s.bots, "u", s.bots[0].u.unsqueeze(1) + s.bots[1:].u[:, :1] + 1), [1, 1, 1]),
}


@pytest.mark.parametrize("which", PUSHES)
def test_bodies_act_alone_or_together(which):
    push, speeds = PUSHES[which]
    assert moved(push) == [speeds] * 2


def test_actions_of_bodies_that_do_not_fit_are_errors():
    with pytest.raises(ShapeError, match=r"Bodies\(bot_0, bot_1, bot_2\).u: expected \['B', 3, 2\], got \[11, 2, 2\]"):
        moved(lambda s: setattr(s.bots, "u", torch.ones(s.rows, 2, 2)))
    with pytest.raises(KeyMissing, match=r"Bodies\(stone\).u: the bodies of 'stone' do not act"):
        moved(lambda s: setattr(s.stone, "u", 1.0))
    with pytest.raises(AttributeError, match="no attribute 'velocity'"):
        moved(lambda s: setattr(s.bots, "velocity", 1.0))


def test_bodies_that_always_start_within_each_other_are_named():
    with pytest.raises(
        ValueError, match=r"Plain.spawn: 'agent_0' and 'agent_1', which collide, overlap .*'apart': 0.15"
    ):
        Simulation(Plain(apart=0.15))
    Simulation(Plain(apart=0.21))
    allowed = type("Allowed", (Plain,), {"may_overlap": True})
    Simulation(allowed(apart=0.0))


def test_bodies_that_start_anywhere_may_overlap_by_chance():
    class Anywhere(Plain):
        def spawn(self):
            self.agents.pos = self.uniform(-0.05, 0.05, 3, 2)
            self.stone.pos = self.uniform(-0.05, 0.05, 2)

    Simulation(Anywhere())


def test_more_bodies_than_fit_are_an_error_with_the_options():
    class Scattered(Plain):
        def spawn(self):
            self.scatter(self.agents, self.apart)
            self.stone.pos = (5.0, 5.0)

    Simulation(Scattered(apart=0.9))
    with pytest.raises(
        ValueError, match=r"3 agents do not fit into 2 x 2 metres with 4 metres .* got apart=4.0, amount=3"
    ):
        Simulation(Scattered(apart=4.0))


def test_options_of_a_wrong_type_or_size_list_the_ranges():
    with pytest.raises(ValueError, match=r"Plain: amount=0 is out of range; apart in \[0.0, 5.0\], amount in \[1, 9\]"):
        Plain(amount=0)
    with pytest.raises(TypeError, match="Plain: amount must be int, got 2.5"):
        Plain(amount=2.5)
    with pytest.raises(TypeError, match=r"no option 'apar'; did you mean 'apart'\? Its options: apart=1.0, amount=3"):
        Plain(apar=2.5)


def test_numbers_of_numpy_and_torch_are_options_like_others():
    plain = Plain(amount=np.int64(2), apart=torch.tensor(0.5))
    assert repr((plain.amount, plain.apart, Sphere(np.float64(0.1)).radius)) == "(2, 0.5, 0.1)"
    with pytest.raises(ValueError, match="Plain: amount=10 is out of range"):
        Plain(amount=np.int64(10))
    with pytest.raises(ValueError, match="Sampling: cov=.*out of range"):
        Sampling(cov=(np.float32(-1), 0.05, 0.05))
    with pytest.raises(TypeError, match=r"Sampling: cov must be float \| Sequence\[float\], got \[\[-1, 2\]\]"):
        Sampling(cov=[[-1, 2]])


class Tools(Plain):
    """Calls one of a scenario's tools when it places things."""

    def spawn(self):
        super().spawn()
        self.tool()


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        (lambda self: self.uniform(-1, 1, (2, 2)), r"Mine.uniform: sizes must be integers, one .* got \(\(2, 2\)"),
        (lambda self: self.normal((2, 2)), "Mine.normal: sizes must be integers"),
        (lambda self: self.zeros((2, 2)), "Mine.zeros: sizes must be integers"),
        (lambda self: self.randint(0, 5, 2.0), r"Mine.randint: sizes must be integers.* got \(2.0,\)"),
        (lambda self: self.randint(0, 5.5), "randint: low and high must be integers, got low=0, high=5.5"),
        (lambda self: self.permutation(2.0), "permutation: n must be an integer from 0 on, got 2.0"),
    ],
)
def test_arguments_that_tools_cannot_take(tool, says):
    with pytest.raises((TypeError, ValueError), match=says):
        Simulation(type("Mine", (Tools,), {"tool": tool})())


@pytest.mark.parametrize(
    ("propose", "got"),
    [
        (lambda rng, n, rows: rng.uniform(shape=(2, n)), r"\[11, 2, \d+\]"),
        (lambda rng, n, rows: rng.uniform(shape=(n, 2), rows_last=True), r"\[\d+, 2, 11\]"),
        (lambda rng, n, rows: rng.uniform(shape=(2,), rows_last=True), r"\[2, 11\]"),
        (lambda rng, n, rows: [0.0, 0.0], "list"),
    ],
    ids=["rows first", "places first", "one place", "a list"],
)
def test_places_of_a_wrong_shape_are_named(propose, got):
    class Searching(Plain):
        def spawn(self):
            super().spawn()
            self.find_room(propose, 0.1, self.agents.pos.permute(2, 1, 0))

    says = rf"Searching.find_room: propose\(rng, \d+, rows\) must give places \[2 or more, \d+, 11\] .*, got {got}"
    with pytest.raises(ShapeError, match=says):
        Simulation(Searching())


def test_one_body_to_keep_away_from_needs_no_list():
    class Alone(Plain):
        def spawn(self):
            self.scatter(self.agents, 0.4, away_from=self.stone)

    class Listed(Plain):
        def spawn(self):
            self.scatter(self.agents, 0.4, away_from=[self.stone])

    envs = [ScenarioEnv(kind(), 5, seed=0, compile="none") for kind in (Alone, Listed)]
    places = [env.reset()["agents", "observation"] for env in envs]
    assert torch.equal(*places)
    assert (places[0].norm(dim=-1) >= 0.4).all()
