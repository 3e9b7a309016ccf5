"""What Python changes after machine code was made from it: data are those of separate operations all the same."""

import functools
import importlib
import re
import sys
import warnings
from array import array
from collections import ChainMap, UserDict, UserList, deque
from dataclasses import dataclass
from types import MappingProxyType, ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread

from marlenv.errors import NotCompiled
from marlenv.physics import Agent, Scenario, Sphere, World
from marlenv.physics.env import ScenarioEnv
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
        self.last = deque([0.0])
        torch.nn.init.zeros_(self.net.weight)
        torch.nn.init.zeros_(self.net.bias)
        return world

    def spawn(self):
        pass

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        sums = self.weights + self.table["w"] + self.lesson.level + LEVEL + self.factor + self.last[0]
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
    "deque": (lambda s, _: s.last.__setitem__(0, 5.0), r"last\[0\]"),
    "object": (lambda s, _: setattr(s.lesson, "level", 5.0), "level"),
    "class": (lambda _, patch: patch.setattr(Reading, "factor", 5.0), "factor"),
    "global": (lambda _, patch: patch.setitem(globals(), "LEVEL", 5.0), "LEVEL"),
}


def last_reward(env):
    return env.rollout(3)["next", "agents", "reward"][0, -1, 0].item()


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
    assert all(re.search(said, message) for message in told)
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


class Slotted:
    __slots__ = ("x",)

    def __init__(self):
        self.x = [0.0]


def values():
    """Containers, what changes a number in each, and what it is called."""
    shown, filled = {"a": 0.0}, np.empty(2, dtype=object)
    filled[:] = [[0.0], [0.0]]
    return {
        "deque": (deque([0.0]), lambda x: x.append(1.0), "x[1]"),
        "UserDict": (UserDict(a=0.0), lambda x: x.update(a=1.0), "x.data['a']"),
        "UserList": (UserList([0.0]), lambda x: x.__setitem__(0, 1.0), "x.data[0]"),
        "ChainMap": (ChainMap({"a": 0.0}), lambda x: x.update(a=1.0), "x.maps[0]['a']"),
        "partial": (functools.partial(max, [0.0]), lambda x: x.args[0].__setitem__(0, 1.0), "x[0][0]"),
        "array": (array("d", [0.0]), lambda x: x.__setitem__(0, 1.0), "x"),
        "bytearray": (bytearray(1), lambda x: x.__setitem__(0, 1), "x"),
        "memoryview": (memoryview(bytearray(1)), lambda x: x.__setitem__(0, 1), "x"),
        "objects": (filled, lambda x: x[1].__setitem__(0, 1.0), "x.flat[1][0]"),
        "proxy": (MappingProxyType(shown), lambda _: shown.update(a=1.0), "x['a']"),
        "slots": (Slotted(), lambda x: x.x.append(1.0), "x.x[1]"),
    }


@pytest.mark.parametrize("what", values())
def test_containers_of_the_standard_library_are_watched(what):
    x, change, said = values()[what]
    watch = Watch(SimpleNamespace(x=x))
    assert watch.stays()
    assert watch.changed() is None
    change(x)
    assert not watch.stays()
    assert watch.changed() == f"self.{said}"


HOME = """
from dataclasses import dataclass
from marlenv.physics import Agent, Scenario, Sphere, World

LEVEL = 0.0

@dataclass(eq=False)
class AtHome(Scenario):
    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05), collide=False)])
        return world

    def spawn(self):
        pass

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        return {"agents": self.zeros(1) + LEVEL}
"""


@pytest.mark.slow
def test_the_package_that_a_scenario_comes_from_is_watched_where_it_is_installed(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "laboratory"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "home.py").write_text(HOME)
    monkeypatch.syspath_prepend(str(package.parent))
    home = importlib.import_module("laboratory.home")
    try:
        env = ScenarioEnv(home.AtHome(), num_envs=2, seed=0, compile="aot")
        assert last_reward(env) == 0.0
        home.LEVEL = 5.0
        assert last_reward(env) == 5.0
        assert isinstance(env.engine, MachineCode)
    finally:
        for name in ("laboratory.home", "laboratory"):
            del sys.modules[name]


class OfAUser(SimpleSpread):
    pass


@pytest.mark.parametrize(("kind", "at"), [(SimpleSpread, SimpleSpread), (OfAUser, SimpleSpread), (OfAUser, OfAUser)])
def test_another_method_of_a_scenario_of_ours_is_followed(kind, at, monkeypatch):
    """Also one that a class did not have itself before, or has not any more."""
    env = ScenarioEnv(kind(), num_envs=2, seed=0, compile="aot")
    assert last_reward(env) != 7.0
    monkeypatch.setattr(at, "rewards", lambda self: {"agents": self.zeros(self.n_agents) + 7})
    assert last_reward(env) == 7.0
    assert isinstance(env.engine, MachineCode)
    monkeypatch.undo()
    assert last_reward(env) != 7.0


@pytest.mark.slow
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
