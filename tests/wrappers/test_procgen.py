"""Procgen's games beside themselves, stepped by hand with the same seeds and actions."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import marlenv
from marlenv import EnvCreator, SerialEnv, check_env_specs
from marlenv.errors import (
    DtypeError,
    EnvClosed,
    IllegalAction,
    MissingExtra,
    NeedsReset,
    ShapeError,
    SpecError,
    SpecTypeError,
    UnknownName,
    Unsupported,
)
from marlenv.testing import run_contract
from marlenv.wrappers import ProcgenEnv, ProcgenWrapper

pytestmark = [pytest.mark.slow, pytest.mark.sim]
procgen = pytest.importorskip("procgen", reason="needs Procgen: tests/simulators.sh procgen")
GAMES = ["leaper", "starpilot", "bigfish"]


def picture(seen: Any) -> torch.Tensor:
    return torch.from_numpy(seen["rgb"].copy()).permute(0, 3, 1, 2)


@pytest.mark.parametrize("game", GAMES)
def test_every_number_is_the_simulators(game: str) -> None:
    env = ProcgenEnv(game, num_envs=4, seed=3, distribution_mode="easy")
    raw = procgen.ProcgenGym3Env(num=4, env_name=game, rand_seed=3, distribution_mode="easy")
    td, (_, seen, _) = env.reset(), raw.observe()
    ends = 0
    for _ in range(300):
        assert torch.equal(td["observation"], picture(seen))
        before = td["observation"]
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        raw.act(data["action"].numpy().astype(np.int32))
        reward, seen, first = raw.observe()
        after, over = data["next"], torch.from_numpy(first)
        assert after["reward"].flatten().tolist() == reward.tolist()
        assert after["terminated"].flatten().tolist() == after["done"].flatten().tolist() == first.tolist()
        assert not after["truncated"].any()
        assert torch.equal(after["observation"][~over], picture(seen)[~over])
        assert torch.equal(after["observation"][over], before[over])  # nothing of the next episode
        ends += int(first.sum())
    assert ends > 0
    env.close()
    with pytest.raises(EnvClosed):
        env.reset()


def test_rows_that_are_reset_leave_the_others_alone() -> None:
    """Procgen steps all rows when one starts anew; those are put back."""
    env, twin = (ProcgenEnv("bigfish", num_envs=3, seed=1) for _ in range(2))
    action = torch.tensor([2, 5, 7])
    td, other = env.reset(), twin.reset()
    for _ in range(5):
        td = env.step_and_maybe_reset(td.set("action", action))[1]
        other = twin.step_and_maybe_reset(other.set("action", action))[1]
    reset = env.reset(td.clone().set("_reset", torch.tensor([[True], [False], [False]])))
    assert not torch.equal(reset["observation"][0], td["observation"][0])
    td = reset
    for _ in range(30):
        assert torch.equal(td["observation"][1:], other["observation"][1:])
        td = env.step_and_maybe_reset(td.set("action", action))[1]
        other = twin.step_and_maybe_reset(other.set("action", action))[1]


def test_rows_that_are_not_stepped_stay_where_they_are() -> None:
    env, twin = (ProcgenEnv("bigfish", num_envs=2, seed=1) for _ in range(2))
    td, other = env.reset(), twin.reset()
    action = torch.tensor([2, 5])
    for _ in range(4):
        waiting = env.step(td.set("action", action).set("_step", torch.tensor([True, False])))
        assert torch.equal(waiting["next", "observation"][1], td["observation"][1])
        td = env.step_mdp(waiting)
    data = env.step(td.set("action", action))["next"]
    first = twin.step(other.set("action", action))["next"]
    assert torch.equal(data["observation"][1], first["observation"][1])  # its first step
    assert not torch.equal(data["observation"][0], first["observation"][0])


def test_two_resets_are_two_levels() -> None:
    env = ProcgenEnv("leaper", num_envs=2, seed=0)
    first, second = env.reset()["observation"], env.reset()["observation"]
    assert not torch.equal(first[0], second[0])
    env.set_seed(0)
    assert torch.equal(env.reset()["observation"], first)


def test_the_contract_holds() -> None:
    results = run_contract(lambda: ProcgenEnv("coinrun", num_envs=2), steps=12)
    assert not [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]


def test_envs_that_were_made_are_taken() -> None:
    env = ProcgenWrapper(procgen.ProcgenEnv(2, "coinrun", rand_seed=4))
    check_env_specs(env)
    assert env.available_envs == sorted(procgen.env.ENV_NAMES)
    assert env.to("cpu").reset().device == torch.device("cpu")


def test_games_have_names_and_are_sent_to_others() -> None:
    env = marlenv.make("procgen/coinrun", num_envs=2, seed=1)
    assert env.rollout(3)["next", "observation"].shape == (2, 3, 3, 64, 64)
    pool = SerialEnv(2, EnvCreator(partial(ProcgenEnv, "coinrun", num_envs=2)))
    assert pool.rollout(2)["observation"].shape == (2, 2, 2, 3, 64, 64)


@pytest.mark.parametrize("mode", ["extreme", "memory", "exploration"])
def test_levels_of_a_kind_are_refused_where_procgen_would_end_the_program(mode: str) -> None:
    """Its last words are a list of the games that have them."""
    script = f"import procgen; procgen.ProcgenGym3Env(num=1, env_name='bigfish', distribution_mode='{mode}')"
    raw = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert raw.returncode
    have = re.findall(r'name == "(\w+)"', raw.stdout + raw.stderr) or [*procgen.env.EXPLORATION_LEVEL_SEEDS]
    for game in procgen.env.ENV_NAMES:
        if game in have:
            assert ProcgenEnv(game, distribution_mode=mode).batch_size == (1,)
            continue
        with pytest.raises(SpecError, match=rf"^ProcgenEnv: '{game}' has no levels of distribution_mode '{mode}'; \["):
            ProcgenEnv(game, distribution_mode=mode)


def test_numbers_may_be_numpys() -> None:
    env, twin = ProcgenEnv("coinrun", num_levels=np.int64(3), seed=1), ProcgenEnv("coinrun", num_levels=3, seed=1)
    assert torch.equal(env.reset()["observation"], twin.reset()["observation"])


def _wrapped() -> ProcgenWrapper:
    return ProcgenWrapper(procgen.ProcgenGym3Env(num=1, env_name="coinrun"))


def _stepped(action: int) -> Any:
    env = ProcgenEnv("coinrun")
    return env.step(env.reset().set("action", torch.tensor([action])))


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: ProcgenEnv("coinrunn"), UnknownName, "Procgen has no game 'coinrunn'; did you mean 'coinrun'"),
        (lambda: ProcgenWrapper("coinrun"), SpecTypeError, "ProcgenGym3Env, got str; ProcgenEnv of marlenv takes"),
        (lambda: ProcgenEnv("coinrun", num_envs=0), SpecError, "num_envs must be an integer from 1 on, got 0"),
        (lambda: ProcgenEnv("coinrun", frame_skip=2), SpecError, "frame_skip must be 1, got 2"),
        (lambda: ProcgenEnv(3), UnknownName, "Procgen has no game 3; known"),
        (lambda: ProcgenEnv("coinrun", seed="a"), DtypeError, "^ProcgenEnv: seed must be an int, got 'a'"),
        (lambda: ProcgenEnv("coinrun", distribution_mode="eazy"), UnknownName, "called 'eazy'; did you mean 'easy'"),
        (lambda: ProcgenEnv("coinrun", num_levels=-1), SpecError, "num_levels must be an integer from 0 to 2147483647"),
        (lambda: ProcgenEnv("coinrun", start_level=1.5), SpecError, "start_level must be an integer .* got 1.5"),
        (lambda: ProcgenEnv("coinrun", num_threads=-1), SpecError, "num_threads must be an integer .* got -1"),
        (lambda: ProcgenEnv("coinrun", debug_mode=True), SpecError, "debug_mode must be an integer .* got True"),
        (lambda: ProcgenEnv("coinrun", distribution_mode="exploration", num_levels=3), SpecError, "out .'num_lev"),
        (lambda: ProcgenEnv("coinrun", num_level=1), TypeError, "^ProcgenEnv has no option 'num_level', and neither"),
        (lambda: ProcgenEnv("coinrun", num_envs=2, batch_size=[3]), ShapeError, r"batch_size must be \[2\].*got \[3\]"),
        (lambda: _wrapped().set_seed(1), Unsupported, "take their seed when they are made; pass rand_seed="),
        (lambda: _stepped(15), IllegalAction, r"^ProcgenEnv.step: actions are numbers below 15, got \[15\]"),
        (lambda: _stepped(-1), IllegalAction, r"actions are numbers below 15, got \[-1\]"),
        (lambda: ProcgenEnv("coinrun").step(ProcgenEnv("coinrun").rand_action()), NeedsReset, "was not reset"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()


def test_a_missing_simulator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "procgen.env", None)
    monkeypatch.setitem(__import__("sys").modules, "procgen", None)
    with pytest.raises(MissingExtra, match=r"ProcgenEnv needs 'procgen'.*pip install --no-deps procgen2 gym3"):
        ProcgenEnv("coinrun")
    assert ProcgenEnv.available_envs == []


def test_games_are_neither_copied_nor_pickled() -> None:
    env = ProcgenEnv("leaper", num_envs=2)
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(
            Unsupported, match="ProcgenEnv: Procgen's games can neither be copied nor pickled; hand over"
        ):
            way(env)
