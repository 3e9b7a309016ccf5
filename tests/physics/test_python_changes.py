"""What Python changes after machine code was made from it: data are those of separate operations all the same."""

import warnings
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
import torch

from marlenv.errors import NotCompiled
from marlenv.physics import Agent, Scenario, Sphere, World
from marlenv.physics.env import ScenarioEnv, make_scenario
from marlenv.physics.jit import cache
from marlenv.physics.jit.tiers import MachineCode
from marlenv.physics.jit.watch import Watch

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")

LEVEL = 0.0
CALLS = 0


class Lesson:
    level = 0.0


@dataclass(eq=False)
class Reading(Scenario):
    factor = 1.0

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05), collide=False)])
        self.lesson, self.weights, self.table, self.net = Lesson(), torch.ones(1), {"w": 1.0}, torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.net.weight)
        torch.nn.init.zeros_(self.net.bias)
        return world

    def spawn(self):
        pass

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        sums = self.weights + self.table["w"] + self.lesson.level + LEVEL + self.factor
        return {"agents": self.zeros(1) + sums + self.net(self.zeros(1, 1))[..., 0]}


@dataclass(eq=False)
class Counting(Reading):
    def rewards(self):
        global CALLS  # noqa: PLW0603  (that is the mistake)
        CALLS += 1
        return {"agents": self.zeros(1) + (100.0 if CALLS > 30 else 0.0)}


def learn(scenario, _patch):
    with torch.no_grad():
        scenario.net.bias.add_(5.0)


CHANGES = {
    "weight": (learn, "bias"),
    "tensor": (lambda s, _: s.weights.fill_(5.0), "weights"),
    "dict": (lambda s, _: s.table.update(w=5.0), "table"),
    "object": (lambda s, _: setattr(s.lesson, "level", 5.0), "level"),
    "class": (lambda _, patch: patch.setattr(Reading, "factor", 5.0), "factor"),
    "global": (lambda _, patch: patch.setitem(globals(), "LEVEL", 5.0), "LEVEL"),
}


def last_reward(env):
    return env.rollout(3)["next", "agents", "reward"][0, -1].item()


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("tier", ["auto", "aot"])
def test_a_change_in_python_is_followed(what, tier, monkeypatch):
    change, said = CHANGES[what]
    env = ScenarioEnv(Reading(), num_envs=2, seed=0, compile="aot")
    before = last_reward(env)
    if tier == "auto":
        env.tier = "auto"
        assert last_reward(env) == before
    assert isinstance(env.engine, MachineCode)
    change(env.scenario, monkeypatch)
    slow = ScenarioEnv(Reading(), num_envs=2, seed=0, compile="none")
    change(slow.scenario, monkeypatch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotCompiled)
        assert last_reward(env) == last_reward(slow) != before
        assert last_reward(env) == last_reward(slow)
    told = [str(w.message) for w in caught if w.category is NotCompiled]
    assert len(told) == (tier == "auto")
    assert all(said in message for message in told)
    assert isinstance(env.engine, MachineCode) == (tier == "aot")


def test_a_counter_in_a_global_is_not_compiled():
    env = ScenarioEnv(Counting(), num_envs=2, seed=0, compile="auto")
    with pytest.warns(NotCompiled, match="CALLS"):
        env.rollout(2)
    assert not isinstance(env.engine, MachineCode)


def own(x):
    return max([x], key=lambda y: y.lesson).lesson


def test_a_global_called_like_an_attribute_may_change(monkeypatch):
    monkeypatch.setitem(globals(), "lesson", 0.0)
    watch = Watch(SimpleNamespace(read=own, lesson=1.0))
    monkeypatch.setitem(globals(), "lesson", 5.0)
    assert watch.changed() is None


def in_a_class(_):
    class Made:
        level = LEVEL

    return Made.level


SETTINGS = ModuleType("settings_of_an_author")
READS = {
    "function": lambda _: LEVEL,
    "lambda": lambda x: max([x], key=lambda _: LEVEL),
    "generator": lambda _: sum(LEVEL for _ in range(2)),
    "class": in_a_class,
    "call": lambda _: LEVEL(),
}


@pytest.mark.parametrize("what", READS)
def test_a_global_is_watched_wherever_a_function_reads_it(what, monkeypatch):
    watch = Watch(SimpleNamespace(read=READS[what]))
    monkeypatch.setitem(globals(), "LEVEL", 5.0)
    assert watch.changed() == "the global LEVEL"


@pytest.mark.parametrize("read", [lambda _: SETTINGS.value, lambda x: x.SETTINGS.value])
def test_values_in_a_module_of_an_author_are_watched(read, monkeypatch):
    monkeypatch.setattr(SETTINGS, "value", 1.0, raising=False)
    watch = Watch(SimpleNamespace(read=read))
    monkeypatch.setattr(SETTINGS, "value", 5.0)
    assert watch.changed() == "settings_of_an_author.value"


def test_scenarios_of_ours_are_not_watched():
    env = make_scenario("marlenv.scenarios.mpe.simple_spread:SimpleSpread", num_envs=2, compile="aot")
    assert env.engine.watch is None


def test_what_a_policy_changes_in_the_middle_of_a_rollout_is_followed():
    """From the next step on, and in resets and steps by hand."""
    found = []
    for tier in ("none", "aot"):
        env = ScenarioEnv(Reading(), num_envs=2, seed=0, compile=tier, max_steps=3)
        env.rollout(2)
        count = iter(range(9))

        def act(td, env=env, count=count):
            if next(count) == 4:
                learn(env.scenario, None)
            return td.set(("agents", "action"), torch.zeros(2, 1, 2))

        rewards = env.rollout(8, act, break_when_any_done=False)["next", "agents", "reward"]
        env.scenario.table["w"] = 3.0
        by_hand = env.step(env.rand_action(env.reset()))["next", "agents", "reward"]
        found.append((rewards, by_hand))
        assert isinstance(env.engine, MachineCode) == (tier == "aot")
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][0][0, :, 0, 0].tolist() == [3.0] * 4 + [8.0] * 4


def test_what_libraries_hold_is_not_looked_at():
    class Using(Reading):
        def over(self):
            return pytest.approx(1.0) == 2.0

    Using.build(using := Using())
    Reading.build(plain := Reading())
    assert len(Watch(using).holders) <= len(Watch(plain).holders) + 2
