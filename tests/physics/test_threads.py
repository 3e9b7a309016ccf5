"""A simulation is pure: threads that play rows of one scenario, and calls within calls, do not disturb each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch
from marlenv.scenarios.mpe.simple_spread import SimpleSpread
from marlenv.scenarios.transport import Transport
from sizes import first

from marlenv import make, threads
from marlenv.errors import NeedsReset
from marlenv.physics import Simulation
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.jit import cache, cpu_kernel
from marlenv.rng import RowRNG

compiled = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
TIERS = ["none", pytest.param("aot", marks=compiled)]


@pytest.fixture(autouse=True)
def _restless():
    """Threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*plays):
    """What each gives when all run at once."""
    found, ready = {}, threading.Barrier(len(plays))

    def run(i, play):
        ready.wait()
        try:
            found[i] = play()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(plays)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[i] for i in range(len(plays))]


def stepped(env, steps=25):
    """Data of steps by hand."""
    td, seen = env.reset(), []
    for _ in range(steps):
        td = env.rand_step(td)
        seen += [td["next", "agents", "observation"], td["next", "agents", "reward"]]
        td = env.maybe_reset(env.step_mdp(td))
    return seen


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", [SimpleSpread, Transport])
def test_two_threads_step_two_envs_of_one_scenario(kind, tier):
    sizes = (3, 8)

    def envs():
        scenario = kind()
        made = [ScenarioEnv(scenario, n, seed=n, max_steps=7, compile=tier) for n in sizes]
        for env in made:
            _ = env.engine
        return made

    alone = [stepped(env) for env in envs()]
    at_once = together(*(lambda env=env: stepped(env) for env in envs()))
    for one, other in zip(alone, at_once, strict=True):
        assert not isinstance(other, Exception), other
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_two_threads_make_and_play_envs_of_their_own():
    def play(seed):
        return lambda: stepped(make("navigation", num_envs=4, seed=seed, compile="none"), 10)

    alone = [play(seed)() for seed in range(3)]
    for one, other in zip(alone, together(*map(play, range(3))), strict=True):
        assert not isinstance(other, Exception), other
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class LookingAhead(SimpleSpread):
    """Sees what would happen if nobody did anything: a call of the simulation within a call of it."""

    ahead = None

    def observe(self):
        now = super().observe()
        if type(self).ahead is None:
            return now
        simulation, state = type(self).ahead, self.world.stage.moment.state
        type(self).ahead = None
        still = {"agents": torch.zeros(self.rows, self.n_agents, 2)}
        then = simulation.transition(state, still)[1]
        type(self).ahead = simulation
        return {"agents": torch.cat((now["agents"], then["agents"]), -1)}


def test_a_call_within_a_call_leaves_the_outer_one_alone():
    simulation = Simulation(LookingAhead())
    state, seen, _ = simulation.reset(simulation.start(RowRNG(seed=0, rows=[4])))
    state = {name: x.clone() for name, x in state.items()}
    try:
        LookingAhead.ahead = simulation
        both, _ = simulation.observe(state)
    finally:
        LookingAhead.ahead = None
    now, then = both["agents"].chunk(2, -1)
    assert torch.equal(now, seen["agents"])
    assert torch.equal(then, simulation.transition(state, {"agents": torch.zeros(4, 3, 2)})[1]["agents"])
    with pytest.raises(NeedsReset, match="no state is open"):
        _ = simulation.scenario.agents.pos


def test_an_error_in_a_method_leaves_nothing_open():
    simulation = Simulation(SimpleSpread())
    state, _, _ = simulation.reset(simulation.start(RowRNG(seed=0, rows=[4])))
    with pytest.raises(Exception, match="expected"):
        simulation.transition(state, {"agents": torch.zeros(4, 9, 2)})
    with pytest.raises(NeedsReset, match="no state is open"):
        _ = simulation.scenario.agents.pos


@compiled
@pytest.mark.parametrize("name", first(["navigation", "balance", "football"], 3))
@pytest.mark.parametrize("rows", [64 * 3, 600])
def test_any_number_of_threads_computes_the_same(name, rows, monkeypatch):
    """Bit for bit, with random actions, with a policy, and step by step; rows of every thread start episodes anew."""
    monkeypatch.setattr(threads, "WORTH", 0.01)
    asked, before = [], torch.get_num_threads()
    shared = threads.shared
    monkeypatch.setattr(cpu_kernel, "shared", lambda work: asked.append(shared(work)[0]) or shared(work))

    def data(many):
        torch.set_num_threads(many)
        env = make(name, num_envs=rows, seed=0, max_steps=7, compile="aot")
        drawn = env.rollout(20, break_when_any_done=False)
        group = next(iter(env.group_map))

        def policy(td):
            return td.set(
                (group, "action"),
                td[group, "observation"][..., : env.full_action_spec[group, "action"].shape[-1]].tanh(),
            )

        played = env.rollout(9, policy, break_when_any_done=False)
        td = env.rand_step(env.reset())
        anew = torch.arange(rows) % 5 < 2
        anew[64:128] = True  # rows side by side, too
        some = env.reset(env.step_mdp(td).set("_reset", anew.unsqueeze(-1)))
        return drawn, played, td, some, env.get_state()

    try:
        one = data(1)
        assert set(asked) == {1}
        for many in (2, 3, 7):
            asked.clear()
            for a, b in zip(one, data(many), strict=True):
                assert (a == b).all()
            assert set(asked) == {many}
    finally:
        torch.set_num_threads(before)


def test_small_batches_stay_on_one_thread():
    assert threads.shared(threads.WORTH) == threads.ONE
    assert threads.shared(0) == threads.ONE


@compiled
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_computes_the_same_on_one_thread():
    """OpenMP's threads are not forked, and GNU's library would wait for them for ever."""
    told = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["child:", "1", "parent:", "0"]


FORKS = """
import os, signal, torch, marlenv
from marlenv import threads
threads.WORTH = 1
torch.set_num_threads(2)
envs = [marlenv.make("navigation", num_envs=64, seed=0, compile="aot"), marlenv.make("chess", num_envs=64)]
def play():  # so little that PyTorch's own operations, which would wait too, take one thread
    for env in envs:
        env.set_seed(0)
    return [env.rollout(3, break_when_any_done=False) for env in envs]
expected = play()
assert threads.shared(1e9)[0] == 2
pid = os.fork()
if not pid:
    signal.alarm(60)
    torch.set_num_threads(2)
    print("child:", threads.shared(1e9)[0], flush=True)
    assert all((a == b).all() for a, b in zip(play(), expected))
    os._exit(0)
print("parent:", os.waitpid(pid, 0)[1])
"""
