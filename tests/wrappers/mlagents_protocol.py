"""ML-Agents' own ``UnityEnvironment`` and its gRPC protocol, with a stand-in player at the other end: what the wrapper
shows beside what the player wrote down that it sent and got.

Run by ``test_mlagents_protocol.py`` in an environment that has ML-Agents' protobuf: ``python mlagents_protocol.py``.
Prints a JSON dict: check -> how it failed, or nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.communicator_objects.unity_to_external_pb2_grpc import UnityToExternalProtoStub
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.exception import UnityEnvironmentException
from stand_in_player import ACTIONS, LEAVES, LENGTH, RUNNER, TEAM

from marlenv import UnityMLAgentsEnv, UnityMLAgentsWrapper
from marlenv.errors import EnvClosed
from marlenv.testing import run_contract

PLAYER = Path(__file__).with_name("stand_in_player.py")
FOLDER = Path(tempfile.mkdtemp(prefix="mlagents-"))
CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


def build() -> Path:
    """An executable, as Unity's builds are."""
    path = FOLDER / "arena.x86_64"
    if not path.exists():
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore {PLAYER} "$@"\n')
        path.chmod(0o755)
    return path


def made(cls: type[Any] = UnityMLAgentsEnv, **options: Any) -> tuple[Any, Path]:
    """An env whose player was started by the library, and the player's log."""
    log = FOLDER / f"{len(list(FOLDER.iterdir()))}.jsonl"
    env = cls(
        str(build()), no_graphics=True, additional_args=["--log", str(log)], **options
    )  # fmt: skip
    return env, log


def logged(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def entry(env: Any, td: Any, agent: str, *name: str) -> Any:
    path, i = env.tree.place[agent]
    return td[(*path, *name)][i]


class Seats:
    """Who is whom: the player's ids in the order in which they appear, and the wrapper's names."""

    def __init__(self, spare: int) -> None:
        self.spare, self.names = spare, dict[int, str]()

    def meet(self, said: dict[str, Any]) -> None:
        for behaviour, agents in said.items():
            for agent in agents:
                word = {RUNNER: "Runner", TEAM: f"Team_team_1_group_{agent['group_id']}"}.get(behaviour)
                places = (3 if behaviour == RUNNER else 2) + self.spare
                taken = [n for n in self.names.values() if word is not None and n.startswith(word)]
                if word is not None and agent["id"] not in self.names and len(taken) < places:
                    self.names[agent["id"]] = f"{word}_{len(taken)}"


def as_sent(env: Any, td: Any, name: str, behaviour: str) -> list[float]:
    """An agent's action as the player gets it."""
    continuous, branches = ACTIONS[behaviour]
    out = entry(env, td, name, "continuous_action").tolist() if continuous else []
    if branches:
        action = entry(env, td, name, "discrete_action")
        if not env.categorical_actions:
            action = torch.stack([part.int().argmax(-1) for part in action.split(branches)])
        out += action.tolist()
    return out


def compare(env: Any, log: Path, spare: int, episodes: int = 2) -> None:
    """Episodes to their ends, and then all that the player wrote down."""
    steps = []
    for _ in range(episodes):
        td = env.reset()
        steps.append(td)
        while not bool(td["done"]):
            data = env.step(env.rand_action(td))
            td = env.step_mdp(data)
            steps.append(data)
    env.close()
    lines = [line for line in logged(log) if "said" in line][1:]  # after the reset that showed who is there
    assert len(lines) == len(steps) == episodes * (LENGTH + 1)
    seats, last = Seats(spare), {}
    for line, data in zip(lines, steps, strict=True):
        now = data if line["reset"] else data["next"]
        if line["reset"]:
            seats = Seats(spare)
        else:
            asked = [name for name in last if bool(entry(env, data, name, "mask"))]
            got = {seats.names[int(one)]: action for one, action in line["actions"].items() if int(one) in seats.names}
            assert set(got) == set(asked), (got, asked)
            for name, action in got.items():
                behaviour = RUNNER if name.startswith("Runner") else TEAM
                assert np.allclose(action, as_sent(env, data, name, behaviour), atol=0), name
        seats.meet(line["said"])
        shown = set()
        for behaviour, agents in line["said"].items():
            for agent in agents:
                if agent["id"] in seats.names:
                    shown.add(name := seats.names[agent["id"]])
                    same(env, now, name, behaviour, agent, first=line["reset"])
                    last[name] = agent
        for name in {*seats.names.values()} - shown:  # asks for nothing, or has ended
            assert not bool(entry(env, now, name, "mask")), name
            if not line["reset"] and bool(entry(env, now, name, "alive")):
                assert float(entry(env, now, name, "reward")) == 0
                assert entry(env, now, name, "place").tolist() == last[name]["observations"]["place"]


def same(env: Any, td: Any, name: str, behaviour: str, agent: dict[str, Any], *, first: bool) -> None:
    """One agent's data beside what was sent of it."""
    for i, (key, value) in enumerate(agent["observations"].items()):
        sent = np.array(value, dtype=np.float32) / np.float32(255 if key == "camera" else 1)
        assert np.array_equal(entry(env, td, name, key or f"observation_{i}").numpy(), sent), (name, key)
    assert bool(entry(env, td, name, "mask")) is not agent["done"]
    assert bool(entry(env, td, name, "terminated")) is (agent["done"] and not agent["max_step_reached"])
    assert bool(entry(env, td, name, "truncated")) is agent["max_step_reached"]
    if not agent["done"]:
        assert entry(env, td, name, "action_mask").tolist() == [not masked for masked in agent["action_mask"]], name
    if not first:
        assert float(entry(env, td, name, "reward")) == np.float32(agent["reward"]), name
        assert float(entry(env, td, name, "info", "group_reward")) == np.float32(agent["group_reward"])


@check
def every_number_is_the_players() -> None:
    compare(*made(seed=7, done_on_any=False), spare=0)


@check
def choices_are_numbers_and_a_new_agent_has_a_place() -> None:
    compare(*made(done_on_any=False, categorical_actions=True, max_agents=3), spare=1)


@check
def the_first_agent_that_is_done_ends_the_episode() -> None:
    env, _ = made()
    assert [env.rollout(9).batch_size[0] for _ in range(2)] == [LEAVES, LEAVES]
    env.close()


@check
def the_editor_is_waited_for() -> None:
    """Without a build, a player is started by hand and finds the port."""
    port, log = free_port(), FOLDER / "editor.jsonl"
    player = subprocess.Popen([build(), "--mlagents-port", str(port), "--log", log])
    env = UnityMLAgentsWrapper(UnityEnvironment(file_name=None, base_port=port), done_on_any=False)
    compare(env, log, spare=0)
    assert player.wait(30) == 0
    with pytest.raises(EnvClosed):
        env.reset()


@check
def the_seed_arrives() -> None:
    env, log = made(seed=41)
    env.reset()
    env.close()
    assert logged(log)[0] == {"seed": 41}


@check
def a_build_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UnityEnvironmentException, match="no_such_build"):
        UnityMLAgentsEnv(str(FOLDER / "no_such_build"), base_port=free_port())


@check
def the_contract_holds() -> None:
    for options in ({}, {"done_on_any": False, "categorical_actions": True, "max_agents": 3}):
        envs: list[Any] = []

        def make(options: Any = options, envs: list[Any] = envs) -> Any:
            envs.append(made(**options)[0])
            return envs[-1]

        results = run_contract(make, steps=8)
        for env in envs:
            env.close(raise_if_closed=False)
        broken = [f"{r.name}: {r.says}" for r in results if r.verdict == "broken"]
        assert not broken, broken


class Swapped(UnityMLAgentsEnv):
    """Gives the first two runners each other's steps."""

    def _read(self, *, first: bool) -> Any:
        got, asking = super()._read(first=first)
        if {"Runner_0", "Runner_2"} <= asking:
            got["Runner_0"], got["Runner_2"] = got["Runner_2"], got["Runner_0"]
        return got, asking


class NeverCut(UnityMLAgentsEnv):
    """Says that what is interrupted terminates."""

    def _read(self, *, first: bool) -> Any:
        got, asking = super()._read(first=first)
        return {n: s._replace(terminated=s.terminated or s.truncated, truncated=False) for n, s in got.items()}, asking


class Late(UnityMLAgentsEnv):
    """Pays what the step before was worth."""

    def _read(self, *, first: bool) -> Any:
        got, asking = super()._read(first=first)
        before = {} if first else self.paid
        self.paid = {name: step.reward for name, step in got.items()}
        return {name: step._replace(reward=before.get(name, 0.0)) for name, step in got.items()}, asking


@check
def broken_wrappers_are_found() -> None:
    for cls, where in ((Swapped, "'place'"), (NeverCut, '"terminated"'), (Late, '"reward"')):
        with pytest.raises(AssertionError) as found:
            compare(*made(cls, done_on_any=False), spare=0)
        assert where in "".join(traceback.format_exception(found.value)), (cls.__name__, found.value)


LEFT_OPEN = """
import sys
import mlagents_protocol as protocol
env, _ = protocol.made()
env.step(env.rand_action(env.reset()))
if "killed" in sys.argv:
    env._env._process.kill()
print("threads may wait now", flush=True)
"""


@check
def python_ends_though_an_env_is_open() -> None:
    for how in ("open", "killed"):
        call = [sys.executable, "-W", "ignore", "-c", LEFT_OPEN, how]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PLAYER.parent), os.environ["PYTHONPATH"]])}
        done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False, env=env)
        assert done.returncode == 0, (how, done.stderr[-2000:])
        assert "threads may wait now" in done.stdout, how


def _waits(env: Any) -> None:
    """A second build at the same port, which asks and gets no answer."""
    with grpc.insecure_channel(f"localhost:{env._env._communicator.port}") as channel, contextlib.suppress(Exception):
        UnityToExternalProtoStub(channel).Exchange(UnityMessageProto())


@check
def no_thread_waits_when_envs_are_closed() -> None:
    envs = [made()[0] for _ in range(4)]
    servers, lines = [env._env._communicator.server for env in envs], []
    for i, env in enumerate(envs):
        if i != 1:
            env.step(env.rand_action(env.reset()))
        if i == 2:
            env._env._process.kill()
        if i == 3:
            env._env.close()  # by somebody else
        if i == 0:  # a message is on its way that is never answered, and another process has our end of the line
            pipe = env._env._communicator.unity_to_external
            threading.Thread(target=_waits, args=(env,), daemon=True).start()
            lines.append(os.dup(pipe.parent_conn.fileno()))
            time.sleep(0.5)
        env.close()
        assert env.is_closed
    for server in servers:
        ended = threading.Thread(target=server._state.thread_pool.shutdown, daemon=True)  # which waits for its threads
        ended.start()
        ended.join(20)
        assert not ended.is_alive()
    for line in lines:
        os.close(line)


if __name__ == "__main__":
    said: dict[str, str] = {}
    for name, run in CHECKS.items():
        try:
            run()
            said[name] = ""
        except Exception:
            said[name] = traceback.format_exc()
    print("RESULT", json.dumps({"checks": said}))
