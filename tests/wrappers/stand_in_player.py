"""A stand-in for a Unity build: a program that speaks ML-Agents' protocol, as the player's side of gRPC.

``python stand_in_player.py --mlagents-port 5005 --log sent.jsonl`` connects to the port, introduces itself, and plays
until it is told to stop. Whatever it sends and gets stands in the log, a line of JSON for each exchange.

Runners (hybrid actions; numbers, an observation without a name and a picture in PNG) run alone; every second of them
asks for a decision in every second step only. Team players (discrete actions with masks) are in the multi-agent groups
1 and 2. One player ends in step ``LEAVES`` and another comes; a behaviour of its own comes late; in step ``LENGTH`` all
are interrupted. Ids are never used twice.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from mlagents_envs.communicator_objects.brain_parameters_pb2 import BrainParametersProto
from mlagents_envs.communicator_objects.command_pb2 import RESET
from mlagents_envs.communicator_objects.observation_pb2 import NONE, PNG, ObservationProto
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.communicator_objects.unity_to_external_pb2_grpc import UnityToExternalProtoStub
from PIL import Image

RUNNER, TEAM, LATE = "Runner", "Team?team=1", "Bird"
LEAVES, LENGTH = 3, 6
ACTIONS = {RUNNER: (2, [3, 2]), TEAM: (0, [3]), LATE: (1, [])}
"""Behaviour -> how many continuous actions, and choices of each discrete branch."""


class World:
    """Observations and rewards are functions of ids, time and the actions that arrived."""

    def __init__(self, seed: int) -> None:
        self.seed, self.next_id, self.time = seed, 100, 0
        self.here: dict[int, tuple[str, int]] = {}

    def enter(self, behaviour: str, group: int = 0) -> None:
        self.here[self.next_id] = (behaviour, group)
        self.owed[self.next_id] = 0.0
        self.next_id += 1

    def reset(self) -> dict[str, list[dict[str, Any]]]:
        self.time, self.here, self.owed = 0, {}, {}
        for _ in range(3):
            self.enter(RUNNER)
        for group in (1, 1, 2, 2):
            self.enter(TEAM, group)
        self.first_of_team = self.next_id - 4
        return self.report({})

    def step(self, actions: dict[int, list[float]]) -> dict[str, list[dict[str, Any]]]:
        self.time += 1
        for one in self.here:
            self.owed[one] += one / 100 + sum(actions.get(one, []))
        ends = {}
        if self.time == LEAVES:
            ends[self.first_of_team] = False
            self.enter(TEAM, 1)
            self.enter(LATE)
        if self.time == LENGTH:
            ends |= dict.fromkeys(self.here, True)
        report = self.report(ends)
        self.here = {one: place for one, place in self.here.items() if one not in ends}
        return report

    def report(self, ends: dict[int, bool]) -> dict[str, list[dict[str, Any]]]:
        said: dict[str, list[dict[str, Any]]] = {}
        for one, (behaviour, group) in self.here.items():
            if one not in ends and behaviour == RUNNER and one % 2 and self.time % 2:
                continue  # asks for nothing
            sizes = ACTIONS[behaviour][1]
            said.setdefault(behaviour, []).append(
                {
                    "id": one, "reward": self.owed[one], "done": one in ends, "max_step_reached": ends.get(one, False),
                    "group_id": group, "group_reward": group * self.time + self.seed / 8,
                    "observations": self.observations(one, behaviour),
                    "action_mask": [(one + self.time + i) % 3 == 1 and i > 0 for n in sizes for i in range(n)],
                }
            )  # fmt: skip
            self.owed[one] = 0.0
        return said

    def observations(self, one: int, behaviour: str) -> dict[str, Any]:
        numbers = [one + self.time / 8 + i for i in range(4)]
        if behaviour != RUNNER:
            return {"": numbers[:3]}
        picture = (np.arange(3 * 4 * 5).reshape(3, 4, 5) + 7 * one + self.time) % 256
        return {"place": numbers, "": numbers[:2], "camera": picture.tolist()}


def message(said: dict[str, list[dict[str, Any]]], known: set[str]) -> UnityMessageProto:
    """A report in the protocol's words; behaviours introduce themselves with the first agent they have."""
    out = UnityMessageProto()
    out.header.status = 200
    for behaviour, agents in said.items():
        if behaviour not in known:
            known.add(behaviour)
            continuous, branches = ACTIONS[behaviour]
            brain = BrainParametersProto(brain_name=behaviour, is_training=True)
            brain.action_spec.num_continuous_actions = continuous
            brain.action_spec.num_discrete_actions = len(branches)
            brain.action_spec.discrete_branch_sizes.extend(branches)
            out.unity_output.rl_initialization_output.brain_parameters.append(brain)
        for agent in agents:
            info = out.unity_output.rl_output.agentInfos[behaviour].value.add()
            for name, value in agent.items():
                if name == "action_mask":
                    info.action_mask.extend(value)
                elif name != "observations":
                    setattr(info, name, value)
            info.observations.extend([observation(*one) for one in agent["observations"].items()])
    return out


def observation(name: str, value: Any) -> ObservationProto:
    array = np.array(value)
    out = ObservationProto(name=name, shape=array.shape, dimension_properties=[1] * array.ndim)
    if array.ndim == 3:
        file = io.BytesIO()
        Image.fromarray(np.moveaxis(array, 0, -1).astype(np.uint8)).save(file, "PNG")
        out.compression_type, out.compressed_data = PNG, file.getvalue()
    else:
        out.compression_type = NONE
        out.float_data.data.extend(array.tolist())
    return out


def play(port: int, log: Path) -> None:
    """Introduces itself and plays until it is told to stop."""
    stub = UnityToExternalProtoStub(grpc.insecure_channel(f"localhost:{port}"))
    hello = UnityMessageProto()
    hello.header.status = 200
    init = hello.unity_output.rl_initialization_output
    init.name, init.communication_version, init.package_version = "stand-in", "1.5.0", "3.0.0"
    init.capabilities.baseRLCapabilities = init.capabilities.multiAgentGroups = True
    asked = stub.Exchange(hello, wait_for_ready=True).unity_input.rl_initialization_input
    world, known, said = World(asked.seed), set[str](), {}
    ready = UnityMessageProto()
    ready.header.status = 200
    with log.open("w") as lines:

        def write(**entry: Any) -> None:
            print(json.dumps(entry), file=lines, flush=True)

        write(seed=asked.seed)
        got = stub.Exchange(ready)
        while got.header.status == 200:
            rl, actions = got.unity_input.rl_input, {}
            for behaviour, values in rl.agent_actions.items():
                asking = [agent["id"] for agent in said.get(behaviour, []) if not agent["done"]]
                for one, value in zip(asking, values.value, strict=True):
                    actions[one] = [*value.continuous_actions, *value.discrete_actions]
            said = world.reset() if rl.command == RESET else world.step(actions)
            write(reset=rl.command == RESET, actions=actions, said=said)
            got = stub.Exchange(message(said, known))
        write(stopped=got.header.status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlagents-port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options, _ = parser.parse_known_args()
    with contextlib.suppress(grpc.RpcError):  # the other end is gone: a player quits
        play(options.mlagents_port, options.log)
