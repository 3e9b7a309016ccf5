"""Methods as users write them: the same numbers as eager mode in every tier, or refused in words."""

import os

import pytest
import torch
from corpus import folds, geometry, memories, mistakes
from corpus.base import MISTAKES, PIECES, scenario_of
from sizes import some

from marlenv.physics import Simulation
from marlenv.physics.jit import cache
from marlenv.physics.jit.cpu_kernel import CpuKernel
from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.source import Source, leaves
from marlenv.physics.jit.torch_compile import Inductor
from marlenv.rng import RowRNG

pytestmark = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
ROWS, STEPS, TOGETHER = 67, 6, 12  # rows: four vectors, and one that is not whole
FILES = (geometry, folds, memories, mistakes)
NAMES = list(PIECES)
GROUPS = [NAMES[i : i + TOGETHER] for i in range(0, len(NAMES), TOGETHER)]


@pytest.fixture(scope="module", autouse=True)
def _cache_of_the_session(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        if "MARLENV_CACHE" not in os.environ:
            patch.setenv("MARLENV_CACHE", str(tmp_path_factory.getbasetemp() / "kernels"))
        yield


def test_there_are_a_hundred_pieces_and_forty_mistakes():
    assert len(PIECES) >= 100
    assert len(MISTAKES) >= 40
    assert all(
        f.__module__.rpartition(".")[2] in {file.__name__.rpartition(".")[2] for file in FILES} for f in PIECES.values()
    )


def same(ours, theirs, name):
    assert ours.dtype == theirs.dtype, name
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True, msg=lambda text: f"{name}: {text}")


def played(sim, seed=3):
    """States, actions and what follows, eagerly."""
    state, seen, infos = sim.reset(sim.start(RowRNG(seed=seed, rows=[ROWS])))
    yield state, None, (state, leaves(seen, infos))
    drawn = RowRNG(seed=9, rows=[ROWS])
    for _ in range(STEPS):
        actions = {group: drawn.uniform(-1, 1, (c.agents, c.width)) for group, c in sim.controls.items()}
        after, seen, rewards, _, infos = sim.transition(state, actions)
        yield state, actions, (after, leaves(seen, infos, rewards))
        state = after


@pytest.mark.parametrize(
    "names",
    [pytest.param(names, marks=pytest.mark.slow if i % 4 else ()) for i, names in enumerate(GROUPS)],
    ids=lambda names: names[0],
)
def test_machine_code_of_a_piece_computes_what_eager_mode_computes(names):
    sim = Simulation(scenario_of(*(PIECES[name] for name in names)))
    kernel = CpuKernel(Source(sim))
    for state, actions, (after, told) in played(sim):
        if actions is None:
            mine = {key: x.clone() for key, x in sim.start(RowRNG(seed=3, rows=[ROWS])).items()}
            fields = kernel.observations
            outs = [field.room(ROWS, None, by_rows=True).movedim(0, -1) for field in fields]
            kernel.begin(mine, None, outs)
        else:
            mine, other = (
                {key: x.clone(memory_format=torch.contiguous_format) for key, x in state.items()} for _ in "ab"
            )
            acts = [actions[f.name[0]].permute(1, 2, 0).contiguous() for f in kernel.actions]
            outs, flags = [f.empty(ROWS) for f in kernel.outs], torch.zeros(4, ROWS, dtype=torch.bool)
            kernel.run(ROWS, kernel.bind(mine, acts, outs, flags.unbind(0)[:3]), flags[3])
            fields, (by_hand, over) = kernel.outs, kernel.transition(other, actions)
            assert torch.equal(over, flags[0])
            for name, x in by_hand.items():
                same(x, told[name], name)
                assert x.is_contiguous()
            for key, x in other.items():
                same(x, mine[key], key)
        for field, x in zip(fields, outs, strict=True):
            same(x.movedim(-1, 0), told[field.name], field.name)
        for key, x in after.items():
            same(mine[key], x, key)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")  # PyTorch's compiler imports it
@pytest.mark.parametrize("names", some(GROUPS[::3], 3), ids=lambda names: names[0])
def test_a_compiled_graph_of_a_piece_computes_what_eager_mode_computes(names):
    sim = Simulation(scenario_of(*(PIECES[name] for name in names)))
    compiled = Inductor(sim)
    for state, actions, (after, told) in played(sim):
        if actions is not None:
            mine, seen, rewards, _, infos = compiled.transition(state, actions)
            for name, x in leaves(seen, infos, rewards).items():
                same(x, told[name], name)
            for key, x in after.items():
                same(mine[key], x, key)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_words(name):
    f, says = MISTAKES[name]
    sim = of_a_mistake(f)
    state = torch.get_rng_state()
    with pytest.raises(Untraceable) as raised:
        Source(sim)
    assert says in str(raised.value)
    assert torch.equal(torch.get_rng_state(), state)


def of_a_mistake(f):
    """A simulation, also of what its trial cannot run."""
    try:
        return Simulation(scenario_of(f))
    except Exception:
        sim = Simulation(scenario_of())
        vars(sim.scenario)["shared_info"] = lambda: {f.__name__: f(sim.scenario)}
        return sim
