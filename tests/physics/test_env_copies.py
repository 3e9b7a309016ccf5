"""Copies and pickles of scenario envs play on as the original does, whatever has been compiled for it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from marlenv.scenarios.index import SCENARIOS
from sizes import first

from marlenv import make
from marlenv.physics.jit import cache
from marlenv.physics.jit.tiers import Compiled
from marlenv.transforms import RewardSum, TransformedEnv

WAYS: dict[str, Callable[[Any], Any]] = {"deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


def played(name: str, tier: str, **options: Any) -> Any:
    env = make(name, num_envs=5, seed=3, max_steps=4, compile=tier, **options)
    env.rollout(3, break_when_any_done=False)
    return env


def on(env: Any) -> Any:
    return env.rollout(6, break_when_any_done=False)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", first([entry.name for entry in SCENARIOS], 3))
def test_copies_play_on(name: str, way: Callable[[Any], Any]) -> None:
    env = played(name, "none")
    twin, third = way(env), way(env)
    data = on(twin)
    assert bool((data == on(env)).all())  # the twin has moved, the original has not
    assert bool((data == on(third)).all())
    assert twin.scenario is not env.scenario


@pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("name", ["simple_spread", "transport", pytest.param("joint_passage", marks=pytest.mark.slow)])
def test_copies_of_machine_code_play_on(name: str, way: Callable[[Any], Any]) -> None:
    env = played(name, "aot")
    env.step(env.rand_action(env.reset()))  # has a place for everything now
    twin = way(env)
    assert isinstance(twin.engine, Compiled)
    assert twin.engine is not env.engine
    assert bool((on(twin) == on(env)).all())
    step = [e.step(e.rand_action(e.reset())) for e in (twin, env)]
    assert bool((step[0] == step[1]).all())


def test_copies_have_the_options() -> None:
    env = played("simple_tag", "none", num_adversaries=2, continuous_actions=False, clamp_actions=True)
    twin = copy.deepcopy(env)
    assert twin.scenario.options() == env.scenario.options()
    assert (twin.simulation.mode, twin.simulation.clamp) == ("discrete", True)
    assert twin.group_map == env.group_map


def test_copies_within_transforms_play_on() -> None:
    env = TransformedEnv(played("transport", "none"), RewardSum())
    twin = copy.deepcopy(env)
    assert bool((on(twin) == on(env)).all())


READS = """
import pickle, sys, torch
env = pickle.load(open(sys.argv[1], "rb"))
torch.save(env.rollout(6, break_when_any_done=False)["next", "agents", "observation"].contiguous(), sys.argv[2])
"""


@pytest.mark.slow
def test_another_process_plays_on(tmp_path: Path) -> None:
    env = played("give_way", "none")
    (tmp_path / "env").write_bytes(pickle.dumps(env))
    subprocess.run([sys.executable, "-c", READS, tmp_path / "env", tmp_path / "seen"], check=True, capture_output=True)
    assert torch.equal(torch.load(tmp_path / "seen"), on(env)["next", "agents", "observation"])
