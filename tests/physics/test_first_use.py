"""Machine code is compared with separate operations before anybody plays with it: planted bugs are found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from sizes import compiled, first

from marlenv.errors import NotCompiled, Unsupported
from marlenv.physics import Agent, Landmark, Scenario, Simulation, Sphere, World, join
from marlenv.physics.env import make_scenario
from marlenv.physics.jit import cache, first_use
from marlenv.physics.jit.tiers import Compiled, engine_of
from marlenv.physics.maths.rowwise import in_graph
from marlenv.registration import available, make
from marlenv.rng import RowRNG

pytestmark = [pytest.mark.slow, pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")]


@dataclass(eq=False)
class Faulty(Scenario):
    """Computes something else where it is compiled: a bug of the compiler, planted in ``where``."""

    where: str = ""
    size: float = 0.01
    value: float = 1.0
    forces = {}

    def build(self):
        world = World(**self.forces)
        self.agents = world.add("agents", [Agent(Sphere(0.1))] * 2)
        world.remember(score=0.0, count=torch.tensor(0))
        return world

    def planted(self, where, x):
        return x + self.size if where == self.where and in_graph() else x

    def spawn(self):
        self.agents.pos = self.planted("spawn", self.uniform(-1, 1, 2, 2))

    def before_step(self):
        self.agents.u = self.planted("before_step", self.agents.u)

    def after_step(self):
        self.memory.score = self.planted("memory", self.memory.score * 0.5 + self.agents.pos[:, 0, 0])
        self.memory.count = self.memory.count + (2 if self.where == "count" and in_graph() else 1)

    def observe(self):
        return {"agents": self.planted("observe", join(self.agents.pos, self.agents.vel))}

    def rewards(self):
        return {"agents": self.planted("rewards", self.agents.pos.sum(-1)) * self.value}

    def over(self):
        far = self.agents.pos[:, 0, 0] > 0.5
        return ~far if self.where == "over" and in_graph() else far

    def info(self):
        return {"agents": {"x": self.planted("info", self.agents.pos[..., 0])}}

    def shared_info(self):
        late = self.steps > 5
        return {"late": late | (self.memory.score > 0.3) if self.where == "rows" and in_graph() else late}


SAYS = {
    "spawn": r"in the first reset, row 0, \('state', 'pos'\)\[0, 0\] is .*, and .* by separate operations",
    "before_step": r"in step 1, row 0, ",
    "memory": r"in step 1, row 0, .*'memory.score'",
    "count": r"in step 1, row \d+, .*'memory.count'\) is 2, and 1 by separate operations",
    "observe": r"in the first reset, row 0, \('agents', 'observation'\)\[0, 0\] is",
    "rewards": r"in step 1, row 0, \('agents', 'reward'\)\[0\] is",
    "over": "in step 1, row 0, ",
    "info": r"in the first reset, row 0, \('agents', 'info', 'x'\)\[0\] is",
    "rows": r"in step \d, row \d+, \(.*'info', 'late'\) is True, and False by separate operations",
}


@pytest.mark.parametrize("where", first(SAYS, 2))
def test_a_planted_fault_is_found_and_not_played_with(where):
    with pytest.raises(Unsupported, match=f"Faulty: compile='aot': machine code is wrong: {SAYS[where]}"):
        make_scenario(Faulty(where), num_envs=3, compile="aot").reset()
    env = make_scenario(Faulty(where), num_envs=3, seed=0, compile="auto")
    with pytest.warns(NotCompiled, match=f"Faulty: .*machine code is wrong: {SAYS[where]}"):
        data = env.rollout(4)
    assert (data == make_scenario(Faulty(where), num_envs=3, seed=0, compile="none").rollout(4)).all()


def test_without_a_fault_there_is_none():
    assert isinstance(make_scenario(Faulty(), num_envs=3, compile="aot").engine, Compiled)


@pytest.mark.parametrize(("size", "found"), [(1e-6, False), (1e-4, True), (float("nan"), True), (float("inf"), True)])
def test_what_is_as_good_as_equal(size, found):
    scenario = Faulty("rewards")
    scenario.size = size  # before the world is built; as an option it would have to be finite
    env = make_scenario(scenario, num_envs=3, compile="aot")
    if found:
        with pytest.raises(Unsupported, match="machine code is wrong"):
            env.reset()
    else:
        assert isinstance(env.engine, Compiled)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30], ids=str)
def test_what_is_not_finite_in_both_is_equal(value):
    scenario = Faulty()
    scenario.value = value
    env = make_scenario(scenario, num_envs=3, seed=0, compile="aot")
    reward = env.rollout(3)["next", "agents", "reward"]
    assert isinstance(env.engine, Compiled)
    assert (~reward.isfinite()).all() or value == 1e30


def test_a_world_that_explodes_is_told_of():
    said = {}
    for value in (1.0, float("nan")):
        scenario = Faulty("memory")
        scenario.value = value
        with pytest.raises(Unsupported, match=r"in step 1.*'memory.score'") as raised:
            make_scenario(scenario, num_envs=3, compile="aot").reset()
        said[value == 1.0] = str(raised.value)
    assert "; ('agents', 'reward') is not finite there in either, so look first whether" in said[False]
    assert "finite" not in said[True]


@dataclass(eq=False)
class Hanging(Faulty):
    """The same with a weight on two stiff rods, whose speed shows the last bits of where it was, many times over."""

    forces = {"drag": 0, "substeps": 15, "joint_force": 900}

    def build(self):
        world = super().build()
        self.weight = world.add("weight", Landmark(Sphere(0.06), movable=True))
        for agent in self.agents:
            world.join(agent, self.weight, dist=0.2)
        return world

    def spawn(self):
        self.weight.pos = self.uniform(-0.5, 0.5, 2)
        aside = self.tensor([0.2, 0])
        self.agents.pos = torch.stack((self.weight.pos - aside, self.weight.pos + aside), 1)


@pytest.mark.parametrize("size", [0.0, 1e-3])
def test_a_small_fault_is_found_where_last_bits_lead_far(size):
    scenario = Hanging("before_step")
    scenario.size = size  # newtons
    env = make_scenario(scenario, num_envs=3, compile="aot")
    if size:
        with pytest.raises(Unsupported, match=r"machine code is wrong: in step \d, row \d+"):
            env.reset()
    else:
        assert isinstance(env.engine, Compiled)


SMALLER = {"pollock": {"n_agents": 3, "n_lines": 2, "n_boxes": 2}}
"""Too large for machine code by default."""
STIFF = "ball_trajectory"  # two twins in one direction called its machine code wrong
OTHERS = [name for name in available("scenario") if name != STIFF]


@pytest.mark.slow
@pytest.mark.parametrize("name", compiled(OTHERS, 6))
def test_no_scenario_of_ours_is_a_false_alarm(name, monkeypatch):
    not_alarmed(name, monkeypatch)


def test_a_stiff_scenario_is_no_false_alarm(monkeypatch):
    not_alarmed(STIFF, monkeypatch)


@pytest.mark.slow
def test_what_is_rounded_within_a_step_is_no_false_alarm(monkeypatch):
    """Its contacts and joints lose more in five substeps than last bits of the state lead to."""
    not_alarmed("waterfall", monkeypatch, n_agents=1)


def not_alarmed(name, monkeypatch, **options):
    """With other random states and actions than those that are drawn by default, too."""
    monkeypatch.setattr(first_use, "_checked", set())
    env = make(name, num_envs=2, compile="aot", **{**SMALLER.get(name, {}), **options})
    env.reset()
    for seed in range(2):
        check = first_use.FirstUse(env.simulation, env.engine.kernel, None, wide=False)
        check.rng = RowRNG(seed=seed, rows=[first_use.ROWS])
        check.check()


def test_random_actions_are_compared_too():
    simulation = Simulation(Faulty())

    def draw(unit):
        return {"agents": (unit.reshape(-1, 2, 2) * 2 - 1) * (1.0 if type(unit) is torch.Tensor else 0.5)}

    with pytest.raises(Unsupported, match=r"in random actions, row 0, \('agents', 'action'\)\[0, 0\] is"):
        engine_of(simulation, "aot", None, draw, 4, wide=False, grad=False)


def test_a_library_is_compared_once_in_a_process(monkeypatch):
    seen = []
    check = first_use.FirstUse.check
    monkeypatch.setattr(first_use.FirstUse, "check", lambda self: seen.append(self) or check(self))
    monkeypatch.setattr(first_use, "_checked", set())
    for _ in range(3):
        make("simple_spread", num_envs=2, compile="aot").reset()
    assert len(seen) == 1
    make_scenario(Faulty(), num_envs=2, compile="aot").reset()
    assert len(seen) == 2


def test_a_library_that_failed_is_compared_again_and_fails_again():
    for _ in range(2):
        with pytest.raises(Unsupported, match="machine code is wrong"):
            make_scenario(Faulty("rewards"), num_envs=2, compile="aot").reset()


def test_no_global_generator_is_moved():
    before = torch.get_rng_state()
    make_scenario(Faulty(), num_envs=2, seed=0, compile="aot").reset()
    assert torch.equal(torch.get_rng_state(), before)
