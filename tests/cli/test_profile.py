"""``marlenv profile``: every part of a step gets the samples that fell into it, and the picture says the same."""

from __future__ import annotations

import cProfile
import dis
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from tensordict import TensorDictBase
from torch import nn

import marlenv
from marlenv.cli import sampling
from marlenv.cli.__main__ import main
from marlenv.cli.flame import flame_graph
from marlenv.cli.parts import Parts
from marlenv.cli.profile import profile
from marlenv.cli.sampling import Sampler, Tree, began, count_calls
from marlenv.envs import EnvBase, rollout
from marlenv.testing import CountingEnv
from marlenv.transforms import Compose, RewardSum, Transform, TransformedEnv

HITS: list[Callable[[Any], None]] = []
SVG = "{http://www.w3.org/2000/svg}"


def hit(times: int) -> None:
    """Samples of whoever called this, as if the clock had struck."""
    for _ in range(times):
        for take in HITS:
            take(sys._getframe(1))


def helper() -> None:
    hit(1)


class Simulated(CountingEnv):
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        hit(5)
        return super()._step(tensordict)


class Hitting(Transform):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        hit(self.times)
        helper()
        return next_tensordict


class Deciding(nn.Module):
    def __init__(self, env: EnvBase) -> None:
        super().__init__()
        self.env, self.inner = [env], nn.Identity()

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.inner.register_forward_hook(lambda *_: hit(2)) if not self.inner._forward_hooks else None
        self.inner(torch.zeros(1))
        return self.env[0].rand_action(tensordict)


def hitting_env() -> EnvBase:
    return TransformedEnv(Simulated(max_steps=50), Compose(Hitting(2), RewardSum(), Hitting(0)))


def root() -> None:
    """Where the stacks of these tests begin."""


def sampled(play: Callable[[], Any], parts: Parts) -> Tree:
    tree = Tree(parts, sampled.__code__)
    HITS.append(tree.add)
    try:
        play()
    finally:
        HITS.clear()
    return tree


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in series"])
def test_every_part_gets_the_samples_that_fell_into_it(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    env = hitting_env() if alone else marlenv.SerialEnv(1, hitting_env)
    policy = Deciding(env)
    stack = rollout.stack_steps
    monkeypatch.setattr(rollout, "stack_steps", lambda *args: hit(10) or stack(*args))
    tree = sampled(lambda: env.rollout(10, policy, break_when_any_done=False), Parts(env, policy))
    found = {name: round(share * tree.top.count) for name, share in tree.shares().items()}
    # ten steps, and a reset, which goes through the transforms too
    assert found == {
        "env": 50,
        "transform Hitting": 33,
        "transform RewardSum": 0,
        "transform Hitting 2": 11,
        "packing": 0,
        "policy": 20,
        "data": 20,  # the steps, and what is under "next"
    }
    assert sum(node.own for node in tree.top) == tree.top.count == 134


def test_simulators_that_are_wrapped_are_the_env(monkeypatch: pytest.MonkeyPatch) -> None:
    mpe = pytest.importorskip("mpe2.simple_spread_v3", reason="needs mpe2")
    env = marlenv.PettingZooWrapper(mpe.parallel_env(max_cycles=25))
    world = type(env._env.unwrapped.world)
    step = world.step
    monkeypatch.setattr(world, "step", lambda self: hit(3) or step(self))

    def seen(cls: Any, name: str) -> None:
        method = getattr(cls, name)

        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            tree.add(sys._getframe(1))  # of the wrapper
            return method(self, *args, **kwargs)

        monkeypatch.setattr(cls, name, noted)

    seen(type(env._flags), "note")  # of a reset
    seen(type(env._together), "_packed")  # of a step
    tree = Tree(Parts(env), sys._getframe().f_code)
    HITS.append(tree.add)
    try:
        env.rollout(10)
    finally:
        HITS.clear()
    assert tree.top.count == 30 + 11  # a reset, and ten steps
    assert tree.shares()["env"] == pytest.approx(30 / 41)
    assert tree.shares()["packing"] == pytest.approx(11 / 41)


def test_moments_weigh_as_much_as_the_time_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    now, got = [0.0], []
    monkeypatch.setattr(sampling.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(sampling.signal, "setitimer", lambda *_: (0.0, 0.0))
    frame: Any = sys._getframe()
    with Sampler(lambda frame, weight: got.append(weight)) as sampler:
        for _ in range(2000):  # something of 10 ms that cannot be interrupted, then 1 ms in steps of 0.1 ms
            now[0] += 10e-3
            sampler._tick(0, frame)
            got.append(0)
            for _ in range(10):
                now[0] += 0.1e-3
                sampler._tick(0, frame)
            got.append(-1)
    long = short = 0
    turn = True
    for weight in got:
        if weight > 0:
            long, short = long + weight * turn, short + weight * (not turn)
        turn = weight == -1 if weight <= 0 else turn
    assert long == pytest.approx(20_000, rel=0.03)
    assert short == pytest.approx(2_000, rel=0.1)


def test_a_function_that_is_about_to_begin_has_taken_no_time() -> None:
    code = helper.__code__
    at = {one.opname: one.offset for one in dis.get_instructions(code)}
    caller = object()
    frame: Any = SimpleNamespace(f_code=code, f_back=caller, f_lasti=at["RESUME"])
    assert began(frame) is caller
    frame.f_lasti = at["RESUME"] + 2
    assert began(frame) is frame


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_sleep_and_work_get_samples_alike_and_nothing_ticks_afterwards() -> None:
    before = signal.getsignal(signal.SIGALRM)
    found = {"busy": 0, "sleep": 0}

    def take(frame: Any, weight: int) -> None:
        found["busy" if frame.f_code is busy.__code__ else "sleep"] += weight

    with Sampler(take):
        for _ in range(20):
            busy(0.005)
            time.sleep(0.005)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    total = sum(found.values())
    assert total > 50
    assert 0.25 < found["busy"] / total < 0.75


def test_calls_are_those_that_cprofile_counts() -> None:
    env = hitting_env()

    def play() -> Any:
        return env.rollout(20, break_when_any_done=False)

    play()
    profiler = cProfile.Profile()
    profiler.enable()
    play()
    profiler.disable()
    calls = count_calls(Parts(env), play)
    theirs = sum(one.callcount for one in profiler.getstats()) - 1  # that of disable
    assert sum(calls.values()) == pytest.approx(theirs, abs=3)
    assert calls["transform Hitting"] == calls["transform Hitting 2"] > 0  # the same code, told apart
    assert calls["transform RewardSum"] > 0
    assert calls["env"] > 0
    assert calls["policy"] > 0


def test_the_picture_stands_alone_and_its_frames_add_up() -> None:
    env = hitting_env()
    tree, seconds, times, _ = profile(env, None, 20, 0.2)
    assert seconds > 0
    assert times >= 3
    for node in tree.top:
        assert node.count == node.own + sum(one.count for one in node.below.values())
    assert sum(tree.shares().values()) == pytest.approx(1)
    svg = flame_graph(tree, 12.3, "mine <&> yours")
    picture = ElementTree.fromstring(svg)
    assert {one.tag.removeprefix(SVG) for one in picture.iter()} == {"svg", "g", "rect", "text", "title"}
    assert not re.search(r"href|script|url\(|@import|https?://(?!www\.w3\.org/2000/svg)", svg)
    rows: dict[float, list[tuple[float, float, int]]] = {}
    for one in picture.iter(f"{SVG}g"):
        box, says = one.find(f"{SVG}rect"), one.find(f"{SVG}title")
        x, y, wide = (float(box.get(name)) for name in ("x", "y", "width"))
        rows.setdefault(y, []).append((x, x + wide, int(re.search(r"([\d,]+) samples", says.text)[1].replace(",", ""))))
    levels = [rows[y] for y in sorted(rows)]
    assert len(levels) > 5
    (top,) = levels[0]
    assert top[2] == tree.top.count
    for above, below in zip(levels, levels[1:], strict=False):
        for left, right in zip(below, below[1:], strict=False):
            assert left[1] <= right[0] + 0.02  # none over another
        for caller in above:
            inside = [one for one in below if caller[0] - 0.02 <= one[0] and one[1] <= caller[1] + 0.02]
            assert sum(one[2] for one in inside) <= caller[2]
        assert all(any(a[0] - 0.02 <= one[0] and one[1] <= a[1] + 0.02 for a in above) for one in below)


def test_a_picture_of_no_samples_has_no_frames() -> None:
    tree = Tree(Parts(CountingEnv()), root.__code__)
    assert set(tree.shares().values()) == {0.0}
    assert ElementTree.fromstring(flame_graph(tree, 1.0, "nothing")).find(f"{SVG}g") is None


def test_the_command_prints_a_table_and_writes_one_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_profiled.py").write_text(
        "import marlenv\nfrom marlenv.testing import CountingEnv\n"
        "from marlenv.transforms import RewardSum, StepCounter, TransformedEnv\n"
        "def made(max_steps=5):\n"
        "    return TransformedEnv(CountingEnv(max_steps=max_steps), StepCounter()).append_transform(RewardSum())\n"
        "def zeros(env):\n    return lambda td: td.update(env.full_action_spec.zero())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    words = ["profile", "my_profiled:made", "--steps", "20", "--seconds", "0.05", "--set", "max_steps=7", "--seed", "1"]
    for more, title, out in (
        ([], "my_profiled:made, 20 steps, policy random", "profile.svg"),
        (
            ["--envs", "2", "--out", "deep/mine.svg", "--policy", "my_profiled:zeros"],
            "my_profiled:made, 2 envs x 20 steps, policy my_profiled:zeros",
            "deep/mine.svg",
        ),
    ):
        assert main([*words, *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == title
        rows = {line.rsplit(maxsplit=4)[0].strip(): line.rsplit(maxsplit=4)[1:] for line in lines[4:-1]}
        names = ["env", "transform StepCounter", "transform RewardSum", "packing", "policy", "data", "all"]
        assert list(rows) == names
        assert rows["all"][0] == "100.0"
        assert sum(float(rows[name][0]) for name in names[:-1]) == pytest.approx(100, abs=0.4)
        assert lines[-1].endswith(f"flame graph: {tmp_path / out}")
        assert title in ElementTree.parse(tmp_path / out).find(f"{SVG}text").text
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {"my_profiled.py", "profile.svg", "deep/mine.svg"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["simple_sprd"], "no env is called 'simple_sprd'; did you mean 'simple_spread'?"),
        (["simple_spread", "--steps", "0"], "profile: --steps must be an integer from 1 on, got 0"),
        (["simple_spread", "--seconds", "0"], "profile: --seconds must be a number above 0, got 0.0"),
        (["simple_spread", "--seconds", "nan"], "profile: --seconds must be a number above 0, got nan"),
        (["simple_spread", "--envs", "0"], "num_envs must be an integer from 1 on, got 0"),
        (["simple_spread", "--set", "n_agent=3"], "has no option 'n_agent'; did you mean 'n_agents'?"),
        (["simple_spread", "--out", "a.png"], "--out a.png: the flame graph is an .svg file; name one"),
        (["simple_spread", "--policy", "x"], "--policy must be 'random' or module:callable, got 'x'"),
        (["simple_spread", "--step", "x"], "invalid int value: 'x'"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["profile", *words])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["simple_spread", "tic_tac_toe"])
def test_native_envs_have_all_parts(name: str) -> None:
    env = marlenv.make(name, 4, seed=0)
    tree, *_, calls = profile(env, None, 20, 0.05)
    assert tree.top.count > 0
    assert calls["env"] > 0
    assert list(tree.shares()) == ["env", "packing", "policy", "data"]


@pytest.mark.parametrize("case", ["pool", "open_spiel"])
def test_the_work_of_processes_and_of_libraries_is_the_envs(case: str) -> None:
    """Each step waits for the pool's processes, or asks the game's library; both are calls that are no Python."""
    if case == "pool":
        env, least = marlenv.ParallelEnv(1, CountingEnv), 1
    else:
        pytest.importorskip("pyspiel", reason="needs open_spiel")
        env, least = marlenv.make("open_spiel/tic_tac_toe"), 8  # the move, whose turn, the returns, observations
    try:
        env.rollout(2)  # starts processes
        calls = count_calls(Parts(env), lambda: env.rollout(20, break_when_any_done=False))
    finally:
        env.close()
    assert calls["env"] >= 20 * least
