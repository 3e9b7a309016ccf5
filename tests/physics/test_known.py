"""Envs of one scenario with the same options are traced once in a process; what makes a difference is traced anew."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from marlenv.scenarios import wheel
from marlenv.scenarios.mpe.simple_spread import SimpleSpread

from marlenv.physics.env import ScenarioEnv
from marlenv.physics.jit import cache, known, tiers
from marlenv.physics.jit.graph import TooLarge
from marlenv.physics.jit.source import Source
from marlenv.physics.jit.tiers import Compiled
from marlenv.registration import make
from marlenv.specs import Bounded

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")


@pytest.fixture
def traced(monkeypatch):
    """The names of the scenarios that were traced."""
    names = []

    def watched(simulation, *args, **options):
        names.append(type(simulation.scenario).__name__)
        return Source(simulation, *args, **options)

    monkeypatch.setattr(known, "Source", watched)
    monkeypatch.setattr(known, "_sources", type(known._sources)())
    return names


def spread(**options):
    env = make("simple_spread", seed=0, **{"num_envs": 3, "compile": "aot", **options})
    assert isinstance(env.engine, Compiled)
    return env


def test_the_same_scenario_is_traced_once(traced):
    one, other = spread(), spread(num_envs=5, max_steps=7, compile="auto")
    one.rollout(3)
    assert torch.equal(
        spread().rollout(5)["next", "agents", "observation"], other.rollout(5)["next", "agents", "observation"][:3]
    )
    assert traced == ["SimpleSpread"] * 2  # once for as many expressions as "aot" takes, once for those of "auto"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"n_agents": 2}, {"obs_agents": False}, {"continuous_actions": False}, {"clamp_actions": True}], ids=str
)
def test_another_option_is_another_scenario(traced, options):
    spread()
    spread(**options)
    assert len(traced) == 2


@pytest.mark.slow
def test_other_actions_are_drawn_by_other_code(traced):
    spread()
    env = make("simple_spread", num_envs=3, seed=0, compile="aot")
    specs = env.full_action_spec.clone()
    specs["agents", "action"] = Bounded(-0.5, 0.25, env.action_spec.shape)
    env.full_action_spec = specs
    actions = env.rollout(20)["agents", "action"]
    assert len(traced) == 2
    assert -0.5 <= float(actions.min()) < 0 < float(actions.max()) <= 0.25


@pytest.mark.slow
def test_a_changed_method_is_traced(traced, monkeypatch):
    before = spread().rollout(3)["next", "agents", "reward"]
    monkeypatch.setattr(SimpleSpread, "rewards", lambda self: {"agents": self.zeros(self.n_agents) + 7})
    assert bool((spread().rollout(3)["next", "agents", "reward"] == 7).all())
    monkeypatch.undo()
    assert torch.equal(spread().rollout(3)["next", "agents", "reward"], before)


def test_a_changed_number_of_a_module_is_seen(monkeypatch):
    simulation = make("wheel", num_envs=2, compile="none").simulation
    before, again = (known.fingerprint(simulation) for _ in range(2))
    monkeypatch.setattr(wheel, "ANYTHING", 3, raising=False)
    assert before[0] == again[0] != known.fingerprint(simulation)[0]


def test_what_was_changed_in_a_world_by_hand_is_seen():
    one, other = (make("simple_spread", num_envs=2, compile="none").simulation for _ in range(2))
    assert known.fingerprint(one)[0] == known.fingerprint(other)[0]
    object.__setattr__(other.scenario, "n_agents", 4)
    assert known.fingerprint(one)[0] != known.fingerprint(other)[0]


FACTOR = 1.0


@dataclass(eq=False)
class OfAUser(SimpleSpread):
    def rewards(self):
        return {"agents": super().rewards()["agents"] * 0 + FACTOR}


@pytest.mark.slow
def test_scenarios_of_users_are_traced_each_time(traced, monkeypatch):
    for factor in (1.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        env = ScenarioEnv(OfAUser(), 2, seed=0, compile="aot")
        assert bool((env.rollout(2)["next", "agents", "reward"] == factor).all())
    assert len(traced) == 2


def test_what_is_too_large_is_told_at_once(traced, monkeypatch):
    monkeypatch.setattr(tiers, "QUICK", 100)
    for _ in range(2):
        assert make("simple_spread", num_envs=2, seed=0, compile="auto").rollout(2).shape == (2, 2)
    assert len(traced) == 1
    simulation = make("simple_spread", num_envs=2, compile="none").simulation
    for _ in range(2):
        with pytest.raises(TooLarge, match="is too large: more than 100 expressions|100"):
            known.source_of(simulation, None, 0, wide=False, largest=100)


@pytest.mark.slow
def test_what_is_kept_has_an_end(traced, monkeypatch):
    monkeypatch.setattr(known, "MOST", 1)
    for n in (1, 2, 1):
        spread(n_agents=n)
    assert len(traced) == 3
    assert len(known._sources) == 1
