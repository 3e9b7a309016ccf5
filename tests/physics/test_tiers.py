"""The tiers of speed: machine code and compiled graphs give what the separate operations give, and are kept on disk."""

import os
import platform
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import compiled, some
from stepwise import stepwise

from marlenv import RewardSum, SerialEnv, TransformedEnv
from marlenv.envs.registry import load
from marlenv.errors import NotCompiled, NotInSpec, Unsupported
from marlenv.physics import (
    Agent,
    Box,
    Landmark,
    Line,
    Scenario,
    Simulation,
    Sphere,
    World,
    join,
    overlap,
    rows_first,
    rows_last,
)
from marlenv.physics.env import make_scenario
from marlenv.physics.jit import cache, operations_lookups
from marlenv.physics.jit.cpu_kernel import CpuKernel
from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.kernel import TILE
from marlenv.physics.jit.source import Source, leaves
from marlenv.registration import make
from marlenv.rng import RowRNG

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")

WHERE = {entry.name: entry.options["scenario"] for entry in SCENARIOS}
FAST = ("simple_spread", "transport", "wind_flocking")
OTHERS = [name for name in WHERE if name not in FAST]
SMALLER = {"pollock": {"n_agents": 3, "n_lines": 2, "n_boxes": 2}, "road_traffic": {"n_agents": 3}}
"""Too large for machine code by default."""
ROWS = 37


def off(ours, reference):
    """The largest difference, relative where numbers are large."""
    if not ours.numel():
        return 0.0
    ours, reference = ours.double(), reference.double()
    return float(((ours - reference).abs() / reference.abs().clamp(min=1)).max())


def twin_off(sim, state, actions, after):
    """How far a step ends elsewhere when all positions and rotations are one unit in the last place larger."""
    up = {name: torch.nextafter(state[name], torch.full_like(state[name], 1e9)) for name in ("pos", "rot")}
    other = sim.transition({**state, **up}, actions)[0]
    return max(off(other[name], after[name]) for name in ("pos", "vel", "rot", "ang_vel"))


def one_step_errors(scenario, steps, change=lambda state: state):
    """Of machine code against separate operations, from the same states; and the error of a twin."""
    sim = Simulation(scenario)
    kernel = CpuKernel(Source(sim))
    blank = sim.start(RowRNG(seed=3, rows=[ROWS]))
    state, seen, infos = sim.reset(blank)
    mine = {key: x.clone() for key, x in blank.items()}
    shown = [field.room(ROWS, None, by_rows=True) for field in kernel.observations]
    kernel.begin(mine, None, shown)
    assert torch.equal(mine["rng"], state["rng"])
    worst = max(off(mine[key], state[key]) for key in state if key != "rng")
    worst = max(worst, *map(off, shown, leaves(seen, infos).values()))
    drawn, twin = RowRNG(seed=9, rows=[ROWS]), 0.0
    for _ in range(steps):
        state = change(state)
        actions = {group: drawn.uniform(-1, 1, (c.agents, c.width)) for group, c in sim.controls.items()}
        after, seen, rewards, over, infos = sim.transition(state, actions)
        mine = {key: x.clone(memory_format=torch.contiguous_format) for key, x in state.items()}
        acts = [actions[f.name[0]].permute(1, 2, 0).contiguous() for f in kernel.actions]
        outs, flags = [f.empty(ROWS) for f in kernel.outs], torch.zeros(4, ROWS, dtype=torch.bool)
        kernel.run(ROWS, kernel.bind(mine, acts, outs, flags.unbind(0)[:3]), flags[3])
        told = {**leaves(seen, infos), **{(group, "reward"): x for group, x in rewards.items()}}
        worst = max(worst, *(off(x.movedim(-1, 0), told[f.name]) for f, x in zip(kernel.outs, outs, strict=True)))
        worst = max(worst, *(off(mine[key], after[key]) for key in after if key != "rng"))
        assert torch.equal(mine["rng"], after["rng"])
        assert torch.equal(flags[0], over)
        twin = max(twin, twin_off(sim, state, actions, after))
        state = after
    return worst, twin


@pytest.mark.parametrize(
    "name",
    [*FAST, *compiled(OTHERS, 5, pytest.mark.slow)],
)
def test_machine_code_ends_where_separate_operations_end(name):
    worst, twin = one_step_errors(load(WHERE[name])(**SMALLER.get(name, {})), 20)
    # where joints and lines amplify the last bit, no further away than a last bit leads
    assert worst <= max(1e-6, 10 * twin), (worst, twin)
    if twin < 1e-7:
        assert worst <= 1e-6


@pytest.mark.slow
def test_what_holds_in_some_rows_only_is_computed_there():
    """Limits of speed in every other row, and everybody in one place, so that all pairs touch."""

    def change(state):
        fast = (torch.arange(ROWS) % 2 == 0) * 5.0
        return {**state, "vel": state["vel"].sign() * fast, "pos": state["pos"] * 0.1}

    worst, twin = one_step_errors(load(WHERE["simple_tag"])(), 3, change)
    assert worst <= max(1e-6, 10 * twin), (worst, twin)


class Heap(Scenario):
    """Counts which of all kinds of bodies overlap."""

    may_overlap = True

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.05), collide=False)])
        shapes = (Sphere(0.1), Line(0.4), Box(0.4, 0.2), Box(0.5, 0.3, hollow=True))
        self.bodies = world.add("bodies", [Landmark(shape, collide=False) for shape in shapes * 2])
        return world

    def spawn(self):
        self.bodies.pos = self.uniform(-1, 1, 8, 2)

    def observe(self):
        return {"agents": join(self.agents.pos)}

    def rewards(self):
        return {"agents": overlap(self.bodies, self.bodies).sum((1, 2)).to(torch.float32).unsqueeze(1)}


@pytest.mark.slow
def test_overlaps_are_those_of_separate_operations_near_and_far():
    drawn = RowRNG(seed=1, rows=[ROWS])

    def throw(state):
        wide = torch.tensor([0.3, 0.8, 9.0])[torch.arange(ROWS) % 3]  # in every vector some rows are crowded
        pos, rot = drawn.uniform(-1, 1, (2, 9)), drawn.uniform(-4, 4, (9,))
        return {**state, "pos": rows_last(pos).contiguous() * wide, "rot": rows_last(rot).contiguous()}

    assert one_step_errors(Heap(), 40, throw)[0] <= 1e-6
    sim = Simulation(Heap())
    state = throw(sim.reset(sim.start(drawn))[0])
    counts = sim.transition(state, {"agents": torch.zeros(ROWS, 1, 2)})[2]["agents"]
    assert counts.min() == 0
    assert counts.max() >= 20


def entries(td):
    return {key: td[key] for key in td.keys(True, True)}


@pytest.mark.parametrize("name", ["simple_tag", "dispersion"])
def test_row_0_of_machine_code_is_the_same_bit_for_bit_alone_and_among_others(name):
    alone, *others = (
        entries(make(name, num_envs=n, seed=4, max_steps=7, compile="aot").rollout(20, break_when_any_done=False))
        for n in (1, 8, 67, 1100, 2048)  # more than a tile, and the last past the caches, four vectors at a time
    )
    for key, x in alone.items():
        for other in others:
            assert torch.equal(x[0], other[key][0])
    *some, many = others
    for few in some:
        assert all(torch.equal(x, many[key][: len(x)]) for key, x in few.items())


def test_rows_of_a_second_tile_are_their_own():
    """More rows than stay in the cache at once, and the last vector not whole."""
    rows = 16 * TILE + 76
    compiled, separate = (
        entries(
            make("dispersion", num_envs=rows, seed=4, max_steps=2, compile=tier).rollout(3, break_when_any_done=False)
        )
        for tier in ("aot", "none")
    )
    for key, x in compiled.items():
        torch.testing.assert_close(x, separate[key], rtol=0, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple_spread", "dispersion"])
def test_the_rows_that_begin_anew_are_those_asked_for_however_many_stand_side_by_side(name):
    """Most of 64 rows are written where they stand, few are picked, and what is left at the end is no 64."""
    rows = 64 * 3 + 21
    kernel = CpuKernel(Source(Simulation(load(WHERE[name])())))
    at, number = torch.arange(rows), RowRNG(seed=5, rows=[rows]).uniform()
    old = {f.name[0]: f.empty(rows).copy_(number * 9) for f in kernel.state}
    old["rng"] = RowRNG(seed=3, rows=[rows]).state.movedim(0, -1).contiguous()
    seen = [f.room(rows, None, by_rows=True).movedim(0, -1).copy_(number * 7) for f in kernel.observations]

    def begun(where):
        state, shown = {name: x.clone() for name, x in old.items()}, [x.clone() for x in seen]
        kernel.begin(state, where, shown)
        return [*state.values(), *shown]

    whole, before = begun(None), [*old.values(), *seen]
    masks = [number < share for share in (0.0, 0.02, 0.3, 0.5, 0.9, 1.1)]
    for where in (*masks, at % 2 == 0, at < 64, at >= 64, at == 5, at == rows - 1):
        for fresh, was, now in zip(whole, before, begun(where), strict=True):
            assert torch.equal(now, torch.where(where, fresh, was))


@pytest.mark.slow  # seconds of compiling
def test_a_row_that_ends_leaves_the_searches_of_the_others_alone():
    """Targets that were found appear elsewhere, by a search that may stop early; not because another row began anew."""

    def played(rows):
        env = make("discovery", num_envs=rows, seed=4, max_steps=40, compile="aot", covering_range=0.6)
        env.reset()
        state = env.get_state()
        state["steps"] = torch.arange(rows) * 7 % 40
        td = env.set_state(state)
        return entries(env.rollout(60, auto_reset=False, tensordict=td, break_when_any_done=False))

    few, many = played(40), played(67)
    assert all(torch.equal(x, many[key][:40]) for key, x in few.items())


def test_a_step_by_hand_is_a_step_of_a_rollout():
    env = make("simple_spread", num_envs=5, seed=1, compile="aot")
    played = env.rollout(6)
    env.set_seed(1)
    td = env.reset()
    for t in range(6):
        td = env.step(td.set(("agents", "action"), played["agents", "action"][:, t]))
        assert torch.equal(td["next", "agents", "observation"], played["next", "agents", "observation"][:, t])
        td = env.step_mdp(td)


def test_branching_a_state_leaves_the_first_one_alone():
    env = make("transport", num_envs=4, seed=1, compile="aot", max_steps=50)
    env.rollout(3)
    state = env.get_state()
    kept = state.clone()
    first = env.rollout(4, auto_reset=False, tensordict=env.set_state(state))
    again = env.rollout(4, auto_reset=False, tensordict=env.set_state(state), actions=list(first.unbind(1)))
    assert (state == kept).all()
    assert torch.equal(first["next", "agents", "observation"], again["next", "agents", "observation"])


def test_partial_steps_keep_the_other_rows():
    env = make("simple_spread", num_envs=3, seed=0, compile="aot")
    td = env.rand_action(env.reset())
    before = env.get_state()
    where = torch.tensor([True, False, True])
    env.step(td.set("_step", where))
    after = env.get_state()
    assert torch.equal(after["pos"][1], before["pos"][1])
    assert not torch.equal(after["vel"][0], before["vel"][0])


CHILD = """
import marlenv
env = marlenv.make("wind_flocking", num_envs=3, seed=0, compile="aot")
print(env.engine.kernel.compiled, float(env.rollout(5)["next", "agents", "reward"].sum()))
"""


@pytest.mark.slow
def test_another_process_compiles_nothing_and_another_option_compiles_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path))
    env = make("wind_flocking", num_envs=3, seed=0, compile="aot")
    assert env.engine.kernel.compiled
    child = [sys.executable, "-c", CHILD]
    told = subprocess.run(child, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", str(float(env.rollout(5)["next", "agents", "reward"].sum()))]
    assert make("wind_flocking", num_envs=3, seed=0, compile="aot", wind=1.0).engine.kernel.compiled


def test_what_changes_the_code_changes_its_name(monkeypatch):
    known = {cache.key("int x;"), cache.key("int y;")}
    monkeypatch.setattr(cache, "OPTIONS", (*cache.OPTIONS, "-O3"))
    known.add(cache.key("int x;"))
    monkeypatch.setattr(cache, "compiler", lambda: ("g++", "another version"))
    known.add(cache.key("int x;"))
    monkeypatch.setattr(cache, "processor", lambda: "another processor")
    assert len({*known, cache.key("int x;")}) == 5


def test_auto_takes_machine_code_that_is_at_hand():
    make("simple_spread", num_envs=2, compile="aot").reset()
    env = make("simple_spread", num_envs=2, compile="auto")
    assert type(env.engine).__name__ == "Compiled"


@pytest.mark.parametrize("options", [{"grad_enabled": True}, {"device": "meta"}])
def test_machine_code_says_what_it_cannot_do(options):
    with pytest.raises(Unsupported, match="makes machine code for the CPU and for CUDA, without gradients"):
        _ = make("simple_spread", num_envs=2, compile="aot", **options).engine


def test_machine_code_does_not_move_to_another_device_unsaid():
    env = make("simple_spread", num_envs=2, seed=0, compile="aot")
    env.rand_step(env.reset())
    with pytest.raises(Unsupported, match="machine code for the CPU and for CUDA, without gradients, got device meta"):
        _ = env.to("meta").engine
    assert make("simple_spread", num_envs=2, seed=0).to("meta").engine is not None


def test_an_unknown_tier_is_refused():
    with pytest.raises(ValueError, match=r"compile must be one of \['none', 'compile', 'aot', 'auto'\], got 'jit'"):
        make("simple_spread", num_envs=2, compile="jit")


class LookingUp(Scenario):
    """Reads and writes entries of long tables, where the data say."""

    SIZE = 40

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.01))] * 2)
        world.remember(heights=torch.zeros(self.SIZE), counts=torch.zeros(self.SIZE, dtype=torch.int64),
                       seen=torch.zeros(self.SIZE) > 0)  # fmt: skip
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 2, 2)
        self.memory.heights = self.uniform(-1, 1, self.SIZE)

    def at(self):
        return (self.agents.planar("pos")[0].abs() * 30).long().clamp(0, self.SIZE - 1)

    def observe(self):
        tables = [rows_last(x) for x in (self.memory.heights, self.memory.counts, self.memory.seen)]
        changed = torch.cat((tables[0][:1], tables[0][1:] * 2 + self.agents.planar("vel")[0][:1]))
        read = [x.gather(0, self.at()).to(torch.float32) for x in (*tables, changed)]
        return {"agents": torch.stack(read, -1).permute(1, 0, 2)}

    def rewards(self):
        at, counts = self.at(), rows_last(self.memory.counts)
        counts = counts.scatter(0, at[:1], counts.gather(0, at[:1]) + 7)
        self.memory.counts = rows_first(counts)
        self.memory.seen = rows_first(rows_last(self.memory.seen).scatter(0, at, True))
        return {"agents": rows_first(counts.gather(0, at).to(torch.float32))}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="as it is"),
        pytest.param(("-mno-avx512f",), id="registers of 32 bytes", marks=pytest.mark.slow),
        pytest.param(("-march=x86-64",), id="registers of 16 bytes", marks=pytest.mark.full),
    ],
)
def test_tables_are_read_and_written_where_the_data_say(monkeypatch, options):
    if options and platform.machine() != "x86_64":
        pytest.skip("an option of compilers for x86-64")
    monkeypatch.setattr(cache, "OPTIONS", (*cache.OPTIONS, *options))
    monkeypatch.setattr(operations_lookups, "CHOICES", 8)  # of so few entries one is else found by comparing
    worst, _ = one_step_errors(LookingUp(), 12, lambda state: {**state, "vel": state["vel"] + 1.0})
    assert worst <= 1e-6


class Peeking(Scenario):
    """Looks at its data."""

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.1))])
        self.mark = world.add("mark", Landmark(collide=False))
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 1, 2)

    def observe(self):
        if self.agents.pos.sum() > 0:
            return {"agents": join(self.agents.pos)}
        return {"agents": join(self.agents.vel)}

    def rewards(self):
        return {"agents": self.zeros(1)}


def test_a_scenario_that_looks_at_data_is_refused_with_the_reason():
    with pytest.raises(Untraceable, match="Peeking: compile='aot': the scenario takes rows apart"):
        make_scenario(Peeking(), num_envs=2, compile="aot").reset()


def test_auto_plays_a_scenario_that_cannot_be_compiled():
    env = make_scenario(Peeking(), num_envs=2, compile="auto")
    with pytest.warns(NotCompiled, match="Peeking: compile='auto' plays with separate operations.*takes rows apart"):
        assert env.rollout(2).shape == (2, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda env: env.reset(),
        lambda env: env.rollout(2),
        lambda env: TransformedEnv(env, RewardSum()).reset(),
        lambda env: SerialEnv(2, lambda: env).rollout(2),
    ],
    ids=["reset", "rollout", "transformed", "serial"],
)
def test_the_warning_points_at_the_line_of_the_user(use):
    env = make_scenario(Peeking(), num_envs=2, compile="auto")
    with pytest.warns(NotCompiled, match="Peeking") as said:
        use(env)
    assert {(one.filename, one.lineno) for one in said} == {(__file__, use.__code__.co_firstlineno)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")  # PyTorch's compiler imports it
@pytest.mark.parametrize("name", some(["simple_spread", "wind_flocking", "road_traffic"], 3))
def test_the_graph_of_torch_compile_ends_where_separate_operations_end(name):
    options = {"num_envs": 6, "seed": 3, "max_steps": 5, **SMALLER.get(name, {})}
    reference, ours = (
        stepwise(make(name, compile=tier, **options), 8, break_when_any_done=False) for tier in ("none", "compile")
    )
    assert max(off(x, reference[key]) for key, x in entries(ours).items()) <= 1e-5


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_machine_code_that_finds_an_action_that_is_no_number_by_hand_does_nothing(value):
    said = []
    for tier in ("none", "aot"):
        env = make("simple_spread", num_envs=37, seed=1, compile=tier)
        td = env.rand_action(env.reset())
        before, right = env.get_state(), td.clone()
        td["agents", "action"][35, 2, 1] = value
        with pytest.raises(NotInSpec) as raised:
            env.step(td)
        said.append(str(raised.value))
        assert all(torch.equal(x, before[name]) for name, x in env.get_state().items())
        env.step(right)
    assert said[0] == said[1]


def test_rows_that_wait_may_have_any_action_in_machine_code():
    env = make("simple_spread", num_envs=37, seed=1, compile="aot")
    td = env.rand_action(env.reset())
    td["agents", "action"][5] = torch.nan
    following = env.step(td.set("_step", torch.arange(37) != 5))
    assert following["next", "agents", "observation"].isfinite().all()


def test_actions_beyond_what_machine_code_counts_with_act_as_the_largest():
    found = []
    for tier in ("none", "aot"):
        env = make("simple_spread", num_envs=37, seed=1, compile=tier, clamp_actions=True)
        td = env.reset().set(("agents", "action"), torch.full((37, 3, 2), 1e300, dtype=torch.float64))
        found.append(env.step(td)["next", "agents", "observation"])
    assert off(*found) <= 1e-5


def test_auto_leaves_large_scenarios_alone_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marlenv.physics.jit.tiers.QUICK", 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = make("simple_spread", num_envs=3, compile="auto", seed=0)
        env.rollout(2)
    assert isinstance(env.engine, Simulation)
    monkeypatch.setattr("marlenv.physics.jit.tiers.LARGEST", 50)
    with pytest.raises(Untraceable, match="is too large: more than 50 expressions"):
        make("simple_spread", num_envs=3, compile="aot", seed=0).rollout(2)


@dataclass(eq=False)
class SmallCounts(Scenario):
    """Remembers a number of 32 bits."""

    def build(self):
        world = World()
        self.agents = world.add("agents", [Agent(Sphere(0.1))])
        world.remember(count=torch.tensor(0, dtype=torch.int32))
        return world

    def spawn(self):
        self.agents.pos = self.uniform(-1, 1, 1, 2)

    def observe(self):
        return {"agents": self.agents.pos}

    def rewards(self):
        self.memory.count = self.memory.count + 1
        return {"agents": self.memory.count.float().unsqueeze(1)}


def test_memory_of_a_dtype_without_a_place_is_no_machine_code():
    with pytest.raises(Untraceable, match=r"the scenario has memory 'count' of torch.int32; it can be .*torch.int64"):
        make_scenario(SmallCounts, 16, compile="aot").reset()
    env = make_scenario(SmallCounts, 16, seed=0)
    with pytest.warns(NotCompiled, match="torch.int32"):
        data = env.rollout(3)
    assert data["next", "agents", "reward"][0].flatten().tolist() == [1.0, 2.0, 3.0]
