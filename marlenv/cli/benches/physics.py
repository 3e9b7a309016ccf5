"""The native scenarios against VMAS stepped directly, and against JaxMARL: one thread, same run, interleaved.

Parts: ``rollout`` (machine code, random actions drawn inside, all data kept), ``compact`` (without what is
seen after steps), ``eager`` (every operation on its own),
``staggered`` (episodes of 100 steps, of which rows are at different ones), ``jaxmarl``, ``reset`` (half of 1,024 rows,
against all of them), ``face`` (what the tensordicts of a step add), ``compile`` (what a tier costs before the first
step), ``compat`` (VMAS's own files, unmodified, at 1,024 rows), ``frame`` (a picture of 400 by 400 pixels, with 8
agents where there is such an option), ``roofline`` (how fast GPUs could be at most, an estimate that needs none, and
how fast machine code is here). On a GPU: ``kernels`` (machine code), ``graphs`` (separate operations, in CUDA graphs
and without), ``compiled`` (``torch.compile`` in CUDA graphs), each beside VMAS on the same GPU.
"""

from __future__ import annotations

import gc
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from marlenv.cli.benches import graphs
from marlenv.cli.benches.peers import JaxMarl, Vmas
from marlenv.cli.benches.roofline import GPUS, roofline_of, shown, source_of
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.errors import SpecError
from marlenv.registration import make

SCENARIOS = (
    "balance", "ball_passage", "discovery", "dispersion", "flocking", "give_way", "joint_passage", "navigation",
    "reverse_transport", "simple_spread", "simple_tag", "transport",
)  # fmt: skip
ROWS = (1, 32, 1024, 16384)
CUDA_ROWS = (*ROWS, 65536)
STEPS = {1: 2048, 32: 512, 1024: 64, 16384: 64}
"""Of a rollout, by the number of rows."""
PARTS = (
    "rollout",
    "compact",
    "eager",
    "staggered",
    "jaxmarl",
    "reset",
    "face",
    "compile",
    "compat",
    "frame",
    "roofline",
)
JAXMARL = {"simple_spread": "MPE_simple_spread_v3", "simple_tag": "MPE_simple_tag_v3"}
CPU = dict.fromkeys(("marlenv", "vmas", "half", "all", "step", "bare"), time.process_time)
"""One thread each: on a busy machine CPU time is the fairer one."""
FRAME = (400, 400)
"""Of a picture, pixels."""
EPISODE = 100  # steps, where episodes are staggered

FIRST_STEP = """
import time, sys
import torch
torch.set_num_threads(1)
import marlenv
marlenv.make("simple_spread", num_envs=1).rollout(2)
start = time.perf_counter()
env = marlenv.make(sys.argv[1], num_envs=32, seed=0, compile=sys.argv[2])
env.rand_step(env.reset())
print(time.perf_counter() - start)
"""


def measure(rounds: int, *, device: str = "cpu", only: str = "") -> list[Figure]:
    """Times what was asked for.

    Args:
        rounds: how often each side.
        device: ``"cuda"`` for kernels and CUDA graphs, and 65,536 rows too.
        only: parts, scenarios and numbers of rows, with commas between them; rollout and eager, all of the twelve
            scenarios and all numbers, where none of a kind is named.

    """
    on_cpu = device == "cpu"
    sizes, offered = (ROWS, PARTS) if on_cpu else (CUDA_ROWS, graphs.PARTS)
    words = {word.strip() for word in only.split(",") if word.strip()}
    known = [*offered, *map(str, sizes), *SCENARIOS, *EXTRA]
    if odd := words - set(known):
        raise SpecError(f"marlenv bench physics: --only knows {known}, got {sorted(odd)}")
    parts = [part for part in offered if part in words] or (["rollout", "eager"] if on_cpu else list(offered))
    names = [name for name in (*SCENARIOS, *EXTRA) if name in words] or list(SCENARIOS)
    rows = [n for n in sizes if str(n) in words] or list(sizes)
    if not on_cpu:
        return graphs.measure_graphs(names, rows, rounds, device, parts)
    figures: list[Figure] = []
    for part in parts:
        figures += MEASURES[part](names, rows, rounds)
    return figures


EXTRA = (
    "wheel", "wind_flocking", "simple_speaker_listener", "simple_world_comm", "drone", "kinematic_bicycle",
    "road_traffic",
)  # fmt: skip
"""Further scenarios that can be asked for."""


def _enough(play: Callable[[int], int], seconds: float = 0.05) -> int:
    """How many steps take about so long, one at least."""
    play(1)
    start = time.perf_counter()
    play(1)
    return max(1, min(500, round(seconds / (time.perf_counter() - start))))


def _tell(figures: list[Figure]) -> None:
    """Says how it goes."""
    last = figures[-1]
    print(f"  {last.what}: {last.ours:.1f} and {last.peer:.1f} us/step, {last.ratio:.1f}x", file=sys.stderr, flush=True)


def _length(env: Any, steps: int, **options: Any) -> int:
    """Plays."""
    return int(env.rollout(steps, break_when_any_done=False, **options).shape[1])


def _cells(part: str) -> Callable[[list[str], list[int], int], list[Figure]]:
    def cells(names: list[str], rows: list[int], rounds: int) -> list[Figure]:
        figures = []
        for name in names:
            for n in rows:
                figures.append(_cell(part, name, n, rounds))
                _tell(figures)
                gc.collect()
        ratios = [f.ratio for f in figures]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{part}: geometric mean {mean:.1f}, smallest {min(ratios):.1f}, of {len(ratios)} cells")
        return figures

    return cells


def _on_and_on(env: Any, data: Any, steps: int) -> Callable[[], int]:
    """Rollouts of which each goes on where the last one ended, as the other sides do; rows that are done are reset."""
    data = [data]

    def play() -> int:
        played = env.rollout(steps, auto_reset=False, tensordict=data[0], break_when_any_done=False)
        data[0] = env.step_mdp(played[:, -1])
        return steps

    play()  # two pieces of memory take turns; first writes to the other one are in the round that nobody counts
    return play


def _cell(part: str, name: str, rows: int, rounds: int) -> Figure:
    tier = "none" if part == "eager" else "aot"
    env: Any = make(name, num_envs=rows, seed=0, compile=tier)
    steps = STEPS[rows]
    if tier == "none":  # no longer than VMAS's turn
        steps = min(steps, 64, _enough(lambda n: _length(env, n), 0.1))
    peer = Vmas(name, rows)
    many = _enough(peer.play)
    compact = partial(_length, env, steps, compact=True)  # which has nothing to go on from
    ours = compact if part == "compact" else _on_and_on(env, env.reset(), steps)
    got = interleaved({"marlenv": ours, "vmas": partial(peer.play, many)}, rounds, CPU)
    return Figure(f"{name} B={rows} {part}", got["marlenv"], got["vmas"], "vmas")


def _staggered(names: list[str], rows: list[int], rounds: int) -> list[Figure]:
    figures = []
    for name in names:
        n = max(rows)
        env: Any = make(name, num_envs=n, seed=0, compile="aot", max_steps=EPISODE)
        env.reset()
        state = env.get_state()
        state["steps"] = torch.arange(n) % EPISODE
        ours = _on_and_on(env, env.set_state(state), STEPS[16384])
        peer = Vmas(name, n, EPISODE)
        got = interleaved({"marlenv": ours, "vmas": partial(peer.play, 1)}, min(rounds, 3), CPU)
        figures.append(Figure(f"{name} B={n} staggered", got["marlenv"], got["vmas"], "vmas"))
        _tell(figures)
    return figures


def _jaxmarl(names: list[str], rows: list[int], rounds: int) -> list[Figure]:
    figures = []
    for name in (name for name in names if name in JAXMARL):
        for n in rows:
            env: Any = make(name, num_envs=n, seed=0, compile="aot", max_steps=25)
            ours = _on_and_on(env, env.reset(), STEPS[n])
            peer = JaxMarl(JAXMARL[name], n, STEPS[n])
            got = interleaved({"marlenv": ours, "jaxmarl": peer.play}, rounds, {**CPU, "jaxmarl": peer.clock})
            figures.append(Figure(f"{name} B={n} random, resets", got["marlenv"], got["jaxmarl"], "jaxmarl"))
            _tell(figures)
            peer.close()
    return figures


def _reset(names: list[str], _: list[int], rounds: int) -> list[Figure]:
    figures = []
    for name in names:
        for tier in ("none", "aot"):
            env: Any = make(name, num_envs=1024, seed=0, compile=tier)
            data = env.reset()
            where = (torch.arange(1024) % 2 == 0).unsqueeze(-1)

            def half(env: Any = env, data: Any = data, where: torch.Tensor = where) -> int:
                for _ in range(20):
                    env.reset(data.set("_reset", where))
                return 20

            def whole(env: Any = env) -> int:
                for _ in range(20):
                    env.reset()
                return 20

            got = interleaved({"half": half, "all": whole}, rounds, CPU)
            figures.append(Figure(f"{name} {tier}: reset half of 1024", got["half"], got["all"], "all rows", "us/call"))
    return figures


def _face(names: list[str], _: list[int], rounds: int) -> list[Figure]:
    figures = []
    for name in names:
        env: Any = make(name, num_envs=32, seed=0, compile="aot")
        data = env.rand_action(env.reset())
        state, actions = env.own_state(), env.taken(data)

        def bare(env: Any = env, state: Any = state, actions: Any = actions) -> int:
            for _ in range(100):
                env.engine.transition(state, actions)
            return 100

        def step(env: Any = env, data: Any = data) -> int:
            for _ in range(100):
                data.pop("next", None)
                env.step(data)
            return 100

        got = interleaved({"step": step, "bare": bare}, rounds, CPU)
        figures.append(Figure(f"{name} B=32: env.step, and the transition in it", got["step"], got["bare"], "bare"))
    return figures


def _compat(names: list[str], _: list[int], rounds: int) -> list[Figure]:
    from marlenv.cli.benches.vmas_files import FILES, measure_file

    figures = []
    for name in (name for name in names if name in FILES):
        figures.append(measure_file(name, 1024, rounds, CPU, _enough))
        _tell(figures)
    return figures


def _frame(names: list[str], _: list[int], rounds: int) -> list[Figure]:
    """Pictures, microseconds each."""
    figures = []
    for name in names:
        known: Any = make(name, num_envs=1, compile="none")
        options: dict[str, Any] = {"n_agents": 8} if "n_agents" in known.scenario.options() else {}
        env: Any = make(name, num_envs=4, seed=0, compile="none", **options)
        env.reset()
        peer = Vmas(name, 4, **options)
        peer.env.scenario.viewer_size = FRAME

        def ours(env: Any = env) -> int:
            for _ in range(10):
                env.render(0, size=FRAME)
            return 10

        def theirs(peer: Vmas = peer) -> int:
            for _ in range(10):
                peer.env.render(mode="rgb_array")
            return 10

        got = interleaved({"marlenv": ours, "vmas": theirs}, rounds, CPU)
        figures.append(Figure(f"{name} frame", got["marlenv"], got["vmas"], "vmas", "us/frame"))
    return figures


def _compile(names: list[str], _: list[int], rounds: int) -> list[Figure]:
    """Seconds to the first step in a new process, with an empty cache (ours) and after a restart (the other column)."""
    figures = []
    for name in names:
        for tier in ("none", "aot", "auto", "compile"):
            with tempfile.TemporaryDirectory() as place:
                kept = {"MARLENV_CACHE": place, "TORCHINDUCTOR_CACHE_DIR": place, "OMP_NUM_THREADS": "1"}
                first, again = (_seconds(name, tier, {**os.environ, **kept}) for _ in range(2))
            figures.append(Figure(f"{name} {tier}: first call, after a restart", first, again, "again", "s"))
    return figures


def _seconds(name: str, tier: str, env: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP, name, tier], env=env, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def _roofline(names: list[str], rows: list[int], rounds: int) -> list[Figure]:
    """What a step moves and computes; GPUs at most, beside one core here."""
    rooflines = {name: roofline_of(source_of(name)) for name in names}
    print(shown(rooflines))
    figures, n = [], max(rows)
    for name in names:
        env: Any = make(name, num_envs=n, seed=0, compile="aot")
        got = interleaved({"marlenv": _on_and_on(env, env.reset(), STEPS[n])}, rounds, CPU)["marlenv"]
        for gpu in GPUS:
            most = n / rooflines[name].rollout.rate(gpu) * 1e6
            figures.append(Figure(f"{name} B={n}: {gpu} at most, estimated", most, got, "one core here"))
            _tell(figures)
    return figures


MEASURES: dict[str, Callable[[list[str], list[int], int], list[Figure]]] = {
    "rollout": _cells("rollout"),
    "compact": _cells("compact"),
    "eager": _cells("eager"),
    "staggered": _staggered,
    "jaxmarl": _jaxmarl,
    "reset": _reset,
    "face": _face,
    "compile": _compile,
    "compat": _compat,
    "frame": _frame,
    "roofline": _roofline,
}
