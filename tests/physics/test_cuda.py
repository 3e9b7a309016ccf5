"""Machine code for GPUs, where there is none: what NVRTC makes, what the same source computes, how it is launched."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cuda_on_cpu import CPU, THREADS, LaunchConfig, stand_in
from marlenv.scenarios.index import SCENARIOS
from sizes import compiled
from test_first_use import SAYS, Faulty
from test_fused import same
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from marlenv.cli.benches import graphs
from marlenv.envs.registry import load
from marlenv.errors import NotCompiled, Unsupported
from marlenv.physics import Simulation
from marlenv.physics.env import simulation_env
from marlenv.physics.jit import cache, cuda_kernel, first_use, tiers
from marlenv.physics.jit.cuda_source import cuda_source
from marlenv.physics.jit.source import Source
from marlenv.physics.jit.tiers import OnGpu, engine_of
from marlenv.registration import make
from marlenv.rng import RowRNG

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not cuda_kernel.installed(), reason="needs cuda-core; tests/simulators.sh cuda installs it"),
    pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler"),
]
WHERE = {entry.name: entry.options["scenario"] for entry in SCENARIOS}
FAST = ("simple_spread", "transport")
SMALLER = {"pollock": {"n_agents": 3, "n_lines": 2, "n_boxes": 2}, "road_traffic": {"n_agents": 3}}
NAMES = [*map(pytest.param, FAST), *compiled(sorted(set(WHERE) - set(FAST)), 6)]
GPU = torch.device("cuda", 0)
ROOT = Path(__file__).resolve().parents[2]


def simulation_of(name):
    return Simulation(load(WHERE[name])(**SMALLER.get(name, {})))


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is the stand-in's: what would be there is in the CPU's memory."""
    core = stand_in(monkeypatch)
    kernel = cuda_kernel.CudaKernel
    monkeypatch.setattr(tiers, "CudaKernel", lambda source, device, patience=None: kernel(source, CPU, patience))
    return core


def on_gpu(monkeypatch, name, **options):
    """An env whose machine code is made as on a CUDA device, where it is compared with separate operations."""
    with monkeypatch.context() as patch:

        def engine(simulation, tier, device, *others, **more):
            return engine_of(simulation, tier, GPU, *others, **more)

        patch.setattr(simulation_env, "engine_of", engine)
        env = make(name, **{"compile": "aot", **SMALLER.get(name, {}), **options})
        assert isinstance(env.engine, OnGpu)
    return env


# --- what it computes ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_cuda_code_computes_what_separate_operations_compute(name, gpu, monkeypatch):
    on_gpu(monkeypatch, name)
    assert set(gpu.launches) == {"run", "begin"}


@pytest.mark.parametrize("name", NAMES)
def test_its_rollouts_are_those_of_machine_code_of_the_cpu_bit_for_bit(name, gpu, monkeypatch):
    options = {"num_envs": 130, "seed": 3, "max_steps": 4}  # two blocks of threads
    env, reference = on_gpu(monkeypatch, name, **options), make(name, compile="aot", **SMALLER.get(name, {}), **options)
    for more in ({"break_when_any_done": False}, {}, {"compact": True}):  # with new episodes, and up to the first end
        same(env.rollout(10, **more), reference.rollout(10, **more))


@pytest.mark.parametrize("mode", [{}, {"multidiscrete_actions": True}], ids=["flat", "for each number"])
def test_choices_are_drawn_from_wide_numbers(mode, gpu, monkeypatch):
    options = {"num_envs": 7, "seed": 3, "max_steps": 4, "continuous_actions": False, **mode}
    env, reference = on_gpu(monkeypatch, "simple_spread", **options), make("simple_spread", compile="aot", **options)
    same(env.rollout(6, break_when_any_done=False), reference.rollout(6, break_when_any_done=False))


def test_a_rollout_goes_on_where_another_one_ended_and_steps_by_hand_do_too(gpu, monkeypatch):
    options = {"num_envs": 7, "seed": 3, "max_steps": 9}
    env, reference = on_gpu(monkeypatch, "simple_tag", **options), make("simple_tag", compile="aot", **options)

    def played(env):
        td = env.step_mdp(env.rollout(5)[:, -1])
        one = env.step(env.rand_action(td)).clone()
        two = env.step(env.rand_action(env.step_mdp(one))).clone()
        return one, two, env.rollout(12, auto_reset=False, tensordict=env.step_mdp(two), break_when_any_done=False)

    for ours, theirs in zip(played(env), played(reference), strict=True):
        same(ours, theirs)


def moving(env):
    """A policy that acts by what it sees."""

    def act(td):
        for group in env.group_map:
            spec, seen = env.full_action_spec[group, "action"], td[group, "observation"]
            if spec.dtype.is_floating_point:
                td[group, "action"] = seen[..., : spec.shape[-1]].sin()
            else:
                td[group, "action"] = (7 * seen.sum(-1)).long() % spec.n
        return td

    return act


@pytest.mark.parametrize(
    ("name", "options"),
    [("simple_tag", {}), ("navigation", {}), ("simple_spread", {"continuous_actions": False})],
    ids=str,
)
def test_rollouts_with_a_policy_are_those_of_machine_code_of_the_cpu_too(name, options, gpu, monkeypatch):
    options = {"num_envs": 130, "seed": 3, "max_steps": 21, **options}
    env, reference = on_gpu(monkeypatch, name, **options), make(name, compile="aot", **options)
    # up to 40 steps that are brought to rows sixteen at a time, with new episodes among them, and up to the first end
    for more, steps in (({"break_when_any_done": False}, 40), ({}, 21), ({"compact": True}, 21)):
        gpu.launches.clear()
        td = env.rollout(40, moving(env), **more)
        assert gpu.launches == ["begin", *["run"] * steps]
        same(td, reference.rollout(40, moving(reference), **more))
        assert all(x.is_contiguous() for x in td.values(True, True) if not more.get("compact") and x.shape[1] == 40)


# --- how often it is launched, and what waits for it ---------------------------------------------


def test_a_rollout_is_one_launch_and_one_for_each_look_at_ends(gpu, monkeypatch):
    env = on_gpu(monkeypatch, "simple_spread", num_envs=200, max_steps=150)
    for more, launches in (
        ({"break_when_any_done": False}, 1),
        ({}, 3 + 1),
    ):  # 64, 64, 64 steps; and the third ends early
        gpu.launches.clear()
        td = env.rollout(200, **more)
        assert td.shape == (200, 200 if more else 150)
        assert gpu.launches == ["begin", *["run"] * launches]


class Watched(TorchDispatchMode):
    """Finds numbers of the CPU: a GPU would have to wait for them, or to be waited for."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        assert all(x.device.type == "meta" for x in given), function
        return function(*args, **kwargs or {})


def test_nothing_waits_for_a_rollout(gpu, monkeypatch):
    env = on_gpu(monkeypatch, "simple_tag", num_envs=7, max_steps=5)
    engine = env.engine
    env.to("meta")  # where there are no values: to look at one, or to copy it to the CPU, is an error
    env._engines["aot", False], env._drawn_as, launches = engine, env.plan, []
    gpu.launch = lambda stream, config, kernel, *given: launches.append(kernel.name)
    td = env.reset()
    with Watched():
        td = env.rollout(12, auto_reset=False, tensordict=td, break_when_any_done=False)
        env.rollout(12, break_when_any_done=False)
        env.rollout(3, moving(env), break_when_any_done=False)
        env.step_and_maybe_reset(env.rand_action(env.reset()))
    assert td.device.type == "meta"
    assert launches == ["begin", "begin", "run", "begin", "run", "begin", *["run"] * 3, "begin", "run", "begin"]
    with pytest.raises(NotImplementedError, match="nonzero"):  # one that stops at an end has to look for it
        env.rollout(12)


@pytest.mark.parametrize("name", [case for case in NAMES if case.values[0] not in FAST])
def test_cuda_code_is_compiled_for_the_generation_before_too(name):
    path, _ = cache.build(cuda_source(Source(simulation_of(name))), by=cuda_kernel.Nvrtc("sm_80"))
    assert b".text.run" in path.read_bytes()


def test_the_bench_times_kernels_beside_all_others(gpu, monkeypatch, capsys):
    pytest.importorskip("vmas")
    nothing = {"synchronize": 0, "get_sync_debug_mode": 0, "set_sync_debug_mode": 0, "get_device_name": "NVIDIA H100"}
    for name, value in nothing.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(graphs, "STEPS", 10)
    monkeypatch.setattr(graphs, "graphed", lambda name, rows, device, tier: graphs.separate(name, rows, device))

    def made(name, **options):
        if options["compile"] == "aot":
            return on_gpu(monkeypatch, name, **options)
        return make(name, **options)

    monkeypatch.setattr(graphs, "make", made)
    figures = graphs.measure_graphs(["simple_spread"], [32], 1, "cpu")
    kernels = ["kernel, rollout with all data", "kernel, step by step", "kernel, env.step"]
    others = ["separate operations", "CUDA graph", "compiled, CUDA graph"]
    assert [figure.what for figure in figures] == [f"simple_spread B=32 {what}" for what in (*kernels, *others)]
    assert all(figure.ours > 0 and figure.peer_name == "vmas" for figure in figures)
    out, err = capsys.readouterr()
    assert re.search(r"^simple_spread +392 +375 +716 ", out, re.M)
    assert len(re.findall(r"simple_spread B=32 kernel, .*% of the roofline", err)) == 2
    for what, play in graphs.kernels("simple_spread", 32, "cpu").items():
        gpu.launches.clear()
        assert play() == 10
        assert gpu.launches == (["begin", "run"] if what == kernels[0] else ["run"] * 10)


@pytest.mark.parametrize("where", ["spawn", "before_step", "rewards", "over"])
def test_a_planted_fault_is_found_and_not_played_with(where, gpu):
    simulation = Simulation(Faulty(where))
    with pytest.raises(Unsupported, match=f"Faulty: compile='aot': machine code is wrong: {SAYS[where]}"):
        engine_of(simulation, "aot", GPU, None, 0, wide=False, grad=False)
    with pytest.warns(NotCompiled, match=f"machine code is wrong: {SAYS[where]}"):
        assert engine_of(simulation, "auto", GPU, None, 0, wide=False, grad=False) is simulation


@pytest.mark.parametrize("options", [{}, {"max_steps": 5}], ids=["no end", "ends"])
def test_an_env_plays_the_same_as_by_separate_operations(options, gpu, monkeypatch):
    env = on_gpu(monkeypatch, "simple_spread", num_envs=200, seed=4, compile="auto", **options)
    plain = make("simple_spread", num_envs=200, seed=4, compile="none", **options)
    ours, theirs = env.rollout(12, break_when_any_done=False), plain.rollout(12, break_when_any_done=False)
    for key in theirs.keys(True, True):
        torch.testing.assert_close(ours[key], theirs[key], rtol=1e-5, atol=1e-5)


def test_the_stand_in_refuses_eight_bytes_where_a_gpu_reads_none(monkeypatch):
    monkeypatch.setattr("marlenv.physics.jit.source.aligned", lambda slot, kind: slot)
    source = Source(simulation_of("simple_spread"))
    stand_in(monkeypatch)
    with pytest.raises(AssertionError, match="eight bytes"):
        cuda_kernel.CudaKernel(source, CPU)


@pytest.mark.parametrize("options", [{}, {"continuous_actions": False}], ids=["numbers", "choices"])
def test_the_first_use_has_all_its_data_on_the_device(options, gpu, monkeypatch):
    env = on_gpu(monkeypatch, "simple_tag", **options)
    draw, _, wide = simulation_env.drawing(env)
    checks = [
        first_use.FirstUse(env.simulation, env.engine.kernel, by, wide=wide, device=torch.device("meta"))
        for by in (draw, None)
    ]
    gpu.launch = lambda stream, config, kernel, *given: None
    asked = []
    monkeypatch.setattr(
        first_use.FirstUse, "_judge", lambda self, what, ours, expected, twins: asked.append(next(twins, 0))
    )
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: torch.zeros(x.shape, dtype=x.dtype))  # of the units of actions
    for check in checks:
        check.check()  # two devices in one operation are an error
    assert all(x.device.type == "meta" for twin in asked if twin for x in twin.values())


# --- where it runs -------------------------------------------------------------------------------


@pytest.mark.parametrize(("tier", "grad"), [("none", False), ("auto", True)])
def test_what_asks_for_no_machine_code_gets_none(tier, grad, gpu):
    simulation = Simulation(Faulty())
    assert engine_of(simulation, tier, GPU, None, 0, wide=False, grad=grad) is simulation
    assert not gpu.launches


def test_without_cuda_core_auto_plays_as_before_and_aot_says_what_to_install(monkeypatch):
    monkeypatch.setattr(cuda_kernel, "installed", lambda: False)
    simulation = Simulation(Faulty())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine_of(simulation, "auto", GPU, None, 0, wide=False, grad=False) is simulation

    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("marlenv.optional.importlib", SimpleNamespace(import_module=missing))
    with pytest.raises(
        Unsupported, match=r"machine code for GPUs needs 'cuda'.* pip install \"marlenv-torch\[cuda\]\""
    ):
        engine_of(simulation, "aot", GPU, None, 0, wide=False, grad=False)


def test_auto_waits_for_the_compiler_for_seconds_and_but_once(monkeypatch, gpu, tmp_path):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path))
    monkeypatch.setattr(tiers, "PATIENCE", 0.0)
    monkeypatch.setattr(tiers, "_late", set())
    simulation, asked = Simulation(Faulty(value=2.0)), []
    build = cache.build
    monkeypatch.setattr(cache, "build", lambda *args: asked.append(args) or build(*args))
    for _ in range(2):
        assert engine_of(simulation, "auto", GPU, None, 0, wide=False, grad=False) is simulation
    assert len(asked) == 1
    monkeypatch.setattr(tiers, "PATIENCE", 600.0)
    monkeypatch.setattr(tiers, "_late", set())
    assert isinstance(engine_of(simulation, "auto", GPU, None, 0, wide=False, grad=False), OnGpu)


# --- the cubin on disk ---------------------------------------------------------------------------

SOURCE = 'extern "C" __global__ void transition(float *x) { *x = 1; }'


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MARLENV_CACHE", str(tmp_path))
    return tmp_path


def test_a_cubin_is_compiled_once_for_each_generation_and_never_loaded_damaged(home):
    path, compiled = cache.build(SOURCE, by=cuda_kernel.Nvrtc("sm_90"))
    assert (path.suffix, compiled) == (".cubin", True)
    assert cache.build(SOURCE, by=cuda_kernel.Nvrtc("sm_90")) == (path, False)
    assert cache.find(SOURCE, cuda_kernel.Nvrtc("sm_80")) is None
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.find(SOURCE, cuda_kernel.Nvrtc("sm_90")) is None
    assert not path.exists()


def test_a_cubin_that_others_may_write_to_is_not_loaded(home):
    path, _ = cache.build(SOURCE, by=cuda_kernel.Nvrtc("sm_90"))
    path.chmod(0o666)
    with pytest.raises(Unsupported, match="machine code that others could have written is not run"):
        cache.find(SOURCE, cuda_kernel.Nvrtc("sm_90"))


def test_what_nvrtc_says_of_a_mistake_is_told(home):
    with pytest.raises(Unsupported, match=r"(?s)compiler .* failed.*identifier \"y\" is undefined"):
        cache.build(SOURCE.replace("*x = 1", "y = 1"), by=cuda_kernel.Nvrtc("sm_90"))


# --- the stand-in itself -------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["begin", "run"])
@pytest.mark.parametrize("fault", ["stream", "threads", "blocks", "order", "missing", "rows", "steps", "dtype"])
def test_the_stand_in_refuses_launches_that_a_gpu_would_not_survive(kernel, fault, monkeypatch):
    core, rows, steps = stand_in(monkeypatch), 64, 3
    launch, code = core.launch, cuda_kernel.CudaKernel(Source(Simulation(Faulty())), CPU)
    numbers = {"begin": 1, "run": 7}[kernel]

    def wrong(stream, config, kernel, *given):
        count, places = list(given[:numbers]), given[numbers:]
        if fault == "stream":
            stream = core.Stream.from_handle(0)
        elif fault == "threads":
            config = LaunchConfig(config.grid, 2 * THREADS)
        elif fault == "blocks":
            config = LaunchConfig(config.grid + 1, THREADS)
        elif fault == "order":
            places = places[::-1]
        elif fault == "missing":
            places = places[:-1]
        elif fault == "rows":
            count[0] += 1
        elif fault == "steps":
            count[-5 % numbers] += 1  # of `run`: where it stops
        launch(stream, config, kernel, *count, *places)

    core.launch = wrong
    state = Simulation(Faulty()).start(RowRNG(seed=0, rows=[rows]))
    state = {name: x.clone(memory_format=torch.contiguous_format) for name, x in state.items()}
    if fault == "dtype":
        state["pos"] = state["pos"].double()
    acts, outs, seen = ([f.empty(rows, steps) for f in some] for some in (code.actions, code.outs, code.observations))
    flags, ended = torch.empty((3, steps, rows), dtype=torch.bool), torch.zeros(steps, dtype=torch.uint8)
    launches = {
        "begin": lambda: code.begin(state, None, [x[0] for x in seen]),
        "run": lambda: code.run(rows, code.bind(state, acts, outs, flags.unbind(0), seen), ended, 0, steps),
    }
    with pytest.raises(AssertionError):
        launches[kernel]()


# --- the table in the docs -----------------------------------------------------------------------


def test_the_docs_list_every_scenario_and_what_a_step_moves(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import cuda_kernels

    monkeypatch.setattr(cuda_kernels, "code_of", lambda text, arch: cuda_kernels.Code(1, 2, 3))
    line = cuda_kernels.line_of("simple_spread").split(" | ")
    step, bodies = 8, 4 * (6 + 6 + 3 + 3)  # the number of the step; how three agents stand, turn and move
    read = step + bodies + 4 * (6 + 6)  # where the landmarks are, and the forces
    shown, flags = 4 * 3 * 14, 3  # observations; whether it is over, and why
    assert int(line[2]) == read + step + bodies + shown + 4 * 3 + flags + 1  # of the state, whether it is over
    assert (
        int(line[3]) == 4 * 3 * 2 + shown + 4 * 3 + shown + flags
    )  # actions; what follows; what the next step starts from
    page = cuda_kernels.PAGE.read_text()
    block = page.partition(cuda_kernels.BEGIN)[2].partition(cuda_kernels.END)[0]
    _, *listed = re.findall(r"^\| (\w+) \|", block, re.M)
    assert sorted(listed) == sorted(WHERE)
    assert re.search(rf"^\| {re.escape(' | '.join(line[:5])[2:])} \|", block, re.M)
