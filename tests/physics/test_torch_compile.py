"""What PyTorch compiles is the scenario: not its first step for ever, and not with other gradients; or an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from marlenv.physics import Agent, Scenario, Simulation, Sphere, World, join
from marlenv.physics.env import make_scenario
from marlenv.physics.jit import cache, tiers
from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.torch_compile import Inductor
from marlenv.rng import RowRNG

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")
ROWS = 3


class OneWay(torch.autograd.Function):
    """1 where numbers are positive, and the gradient of the numbers themselves."""

    @staticmethod
    def forward(ctx, x):
        return (x > 0).float()

    @staticmethod
    def backward(ctx, slope):
        return slope


def without_slope(x):
    with torch.no_grad():
        return x * 2


def in_inference_mode(x):
    with torch.inference_mode():
        twice = x * 2
    return twice.clone()


REWARDS = {
    "tolist": lambda self, x: torch.tensor(x.tolist()) * 2,
    "numpy": lambda self, x: torch.from_numpy(x.detach().numpy() * 2),
    "float": lambda self, x: x * float(x.sum()),
    "branch": lambda self, x: x * 2 if (x > 0).any() else x,
    "sizes": lambda self, x: x * sum(1 for _ in x[x > 0]),
    "how many": lambda self, x: x * (torch.arange(ROWS) < self.steps[:1] % 3).nonzero().shape[0],
    "numpy.random": lambda self, x: x * np.random.rand(),
    "counter": lambda self, x: self.found.append(0) or x * len(self.found),
    "kept": lambda self, x: x * self.kept.setdefault("two", torch.tensor(2.0)),
    "constants": lambda self, x: x * torch.tensor((-torch.arange(3.0)).exp().tolist()).sum(),
    "plain": lambda self, x: x * 3 - x * 2,
    "no_grad": lambda self, x: x * 3 - without_slope(x),
    "detach": lambda self, x: x * 3 - (x * 2).detach(),
    "inference_mode": lambda self, x: x * 3 - in_inference_mode(x),
    "Function": lambda self, x: x + OneWay.apply(x),
}


@dataclass(eq=False)
class Rewarded(Scenario):
    """Is worth something of where an agent is."""

    what: str = "plain"
    found: list[int] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)

    def build(self):
        world = World(drag=0.0)
        self.agents = world.add("agents", [Agent(Sphere(0.05), collide=False)])
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 1, 2)

    def observe(self):
        return {"agents": join(self.agents.pos, self.agents.vel)}

    def rewards(self):
        return {"agents": REWARDS[self.what](self, self.agents.pos[..., 0])}


def played(engine, simulation, push, steps=3):
    """Rewards ``[steps, B]``, all of the same actions."""
    state, rewards = simulation.reset(simulation.start(RowRNG(seed=0, rows=[ROWS])))[0], []
    for _ in range(steps):
        state, _, found, _, _ = engine.transition(state, {"agents": push})
        rewards.append(found["agents"][:, 0])
    return torch.stack(rewards)


def compiled(what):
    """As separate operations, and as a graph that no compiler makes faster: what is recorded is what counts."""
    simulation = Simulation(Rewarded(what))
    return simulation, Inductor(simulation, backend="eager")


@pytest.mark.parametrize("what", ["tolist", "numpy", "float", "branch", "sizes"])
def test_a_scenario_that_looks_at_its_data_is_refused_with_the_line(what):
    simulation, inductor = compiled(what)
    says = r"Rewarded: compile='compile': .* \(in .*, test_torch_compile.py:\d+\), .*use torch.where .*compile='none'"
    with torch.no_grad(), pytest.raises(Untraceable, match=says):
        played(inductor, simulation, torch.ones(ROWS, 1, 2))


@pytest.mark.parametrize("where", [[True, False, True], [False] * ROWS, [True] * ROWS])
def test_rows_that_are_not_reset_see_zeros_in_every_tier_where_nothing_is_said_of_them(where):
    simulation, inductor = compiled("plain")
    state, where = simulation.reset(simulation.start(RowRNG(seed=0, rows=[ROWS])))[0], torch.tensor(where)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            seen = [engine.reset(state, where)[1]["agents"] for engine in (simulation, inductor)]
        assert torch.equal(*seen)
        assert torch.equal((seen[0] != 0).flatten(1).any(1), where)


@pytest.mark.slow
def test_how_many_numbers_there_are_is_counted_in_each_step():
    simulation, inductor = compiled("how many")
    with torch.no_grad():
        ours, right = (played(engine, simulation, torch.ones(ROWS, 1, 2), 4) for engine in (inductor, simulation))
    assert torch.allclose(ours, right)
    assert (right == 0).all(1).tolist() == [False, False, True, False]  # 1, 2, 0 and 1 of them


def test_python_may_compute_constants_with_tensors():
    simulation, inductor = compiled("constants")
    with torch.no_grad():
        ours, right = (played(engine, simulation, torch.ones(ROWS, 1, 2)) for engine in (inductor, simulation))
    assert torch.allclose(ours, right)


@pytest.mark.parametrize("what", ["numpy.random", "counter"])
def test_numbers_that_python_makes_anew_in_each_step_are_refused(what):
    simulation, inductor = compiled(what)
    with torch.no_grad(), pytest.raises(Untraceable, match="compile='compile': .*not the same when it runs again"):
        played(inductor, simulation, torch.ones(ROWS, 1, 2))


def test_what_a_scenario_makes_once_and_keeps_has_numbers():
    simulation = Simulation(Rewarded("kept"))
    simulation.scenario.kept.clear()
    with torch.no_grad():
        ours = played(Inductor(simulation, backend="eager"), simulation, torch.ones(ROWS, 1, 2))
        assert type(simulation.scenario.kept["two"]) is torch.Tensor
        assert torch.equal(ours, played(simulation, simulation, torch.ones(ROWS, 1, 2)))


@pytest.mark.parametrize(("what", "slope"), [("plain", 1.0), ("no_grad", 3.0), ("detach", 3.0)])
def test_gradients_are_those_of_the_scenario(what, slope):
    """A newton moves a kilogram by dt * dt metres in a step."""
    simulation, inductor = compiled(what)
    for engine in (simulation, inductor):
        push = torch.zeros(ROWS, 1, 2, requires_grad=True)
        played(engine, simulation, push, 1).sum().backward()
        torch.testing.assert_close(push.grad, torch.tensor([slope * 0.1**2, 0.0]).expand(ROWS, 1, 2))
    assert torch.is_grad_enabled()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["Function", "inference_mode"])
def test_gradients_that_a_graph_does_not_have_are_refused(what):
    simulation, inductor = compiled(what)
    with pytest.raises(Untraceable, match="Rewarded: compile='compile': gradients of its graph are not those"):
        played(inductor, simulation, torch.zeros(ROWS, 1, 2))
    with torch.no_grad():  # nobody asks for them
        push = torch.ones(ROWS, 1, 2)
        assert torch.allclose(played(inductor, simulation, push), played(simulation, simulation, push))


def test_generators_stay_as_they_are_while_a_graph_is_made():
    simulation, inductor = compiled("plain")
    before = torch.get_rng_state()
    played(inductor, simulation, torch.zeros(ROWS, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_env_says_it(monkeypatch):
    monkeypatch.setattr(tiers, "Inductor", lambda simulation, watch: Inductor(simulation, watch, backend="eager"))
    env = make_scenario(Rewarded("tolist"), num_envs=ROWS, compile="compile")
    with pytest.raises(Untraceable, match="Rewarded: compile='compile': the scenario cannot become a graph"):
        env.rollout(3)


@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("what", ["tolist", "numpy"])
def test_machine_code_does_not_send_who_looks_at_data_to_the_other_compiler(what):
    says = r"compile='aot': the scenario looks at the numbers of the data .*; use compile='none'$"
    with pytest.raises(Untraceable, match=says):
        make_scenario(Rewarded(what), num_envs=ROWS, compile="aot").reset()
