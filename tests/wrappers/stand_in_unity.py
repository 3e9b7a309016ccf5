"""A stand-in for a Unity build: made-up agents behind mlagents-envs' own ``BaseEnv``, with its own steps and specs.

Runners (continuous and discrete actions) run alone; runner 1 asks for a decision in every second step only. Team
players (discrete) are in the multi-agent groups 1 and 2. At ``leaves_at`` player 10 ends and player 20 comes; at
``length`` all that are there are interrupted.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)


def installed(monkeypatch: Any) -> None:
    """Puts the arena where builds are started; the real module wants an old protobuf."""
    module = ModuleType("mlagents_envs.environment")
    module.UnityEnvironment = lambda file_name, base_port: Arena()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


RUNNER, TEAM = "Runner", "Team?team=1"


def _seen(name: str, size: int) -> ObservationSpec:
    return ObservationSpec((size,), (DimensionProperty.NONE,), ObservationType.DEFAULT, name)


SPECS = {
    RUNNER: BehaviorSpec([_seen("place", 4), _seen("", 2)], ActionSpec.create_hybrid(2, (3, 2))),
    TEAM: BehaviorSpec([_seen("", 3)], ActionSpec.create_discrete((3,))),
}


class Arena(BaseEnv):
    """What a build does, in a few lines; rewards and observations are functions of the actions that reached it."""

    def __init__(self, leaves_at: int = 3, length: int = 6) -> None:
        self.leaves_at, self.length, self.closed, self.episodes = leaves_at, length, False, 0
        self.actions: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.got: list[dict[int, tuple[np.ndarray, np.ndarray]]] = []
        self.time = -1

    @property
    def behavior_specs(self) -> BehaviorMapping:
        return BehaviorMapping(SPECS)

    def reset(self) -> None:
        self.time, self.got, self.episodes = 0, [], self.episodes + 1
        self.where = self.crew()
        self.owed = dict.fromkeys(self.where, 0.0)
        self.ends: dict[int, bool] = {}
        self._report()

    def crew(self) -> dict[int, tuple[str, int]]:
        """Who is there at first: a behaviour and a multi-agent group."""
        return {0: (RUNNER, 0), 1: (RUNNER, 0), 2: (RUNNER, 0)} | {10 + i: (TEAM, 1 + i // 2) for i in range(4)}

    def asks(self, one: int) -> bool:
        """Whether an agent asks for a decision now."""
        return one != 1 or self.time % 2 == 0

    def step(self) -> None:
        for name, spec in SPECS.items():  # as UnityEnvironment does
            steps = self.now[name][0]
            for one in steps.agent_id:
                if int(one) not in self.actions:
                    none = spec.action_spec.empty_action(1)
                    self.actions[int(one)] = (none.continuous[0], none.discrete[0])
        self.got.append(self.actions)
        self.time += 1
        for one in self.where:
            continuous, discrete = self.actions.get(one, (np.zeros(0), np.zeros(0)))
            self.owed[one] += float(one + continuous.sum() + 10 * discrete.sum())
        self.actions, self.ends = {}, {}
        if self.time == self.leaves_at:
            self.ends[10] = False
            self.where[20], self.owed[20] = self.where[10], 0.5
        if self.time == self.length:
            self.ends |= dict.fromkeys(self.where, True)
        self._report()
        for one in self.ends:
            del self.where[one], self.owed[one]

    def _report(self) -> None:
        self.now: dict[str, tuple[Any, Any]] = {}
        for name, spec in SPECS.items():
            mine = [one for one, (behaviour, _) in self.where.items() if behaviour == name]
            asks = [one for one in mine if one not in self.ends and self.asks(one)]
            ends = [one for one in mine if one in self.ends]
            masks = None if not asks else [
                np.array([[(one + self.time + choice) % 3 == 1 and choice > 0 for choice in range(n)] for one in asks])
                for n in spec.action_spec.discrete_branches
            ]  # fmt: skip
            self.now[name] = (
                DecisionSteps(*self._told(spec, asks), np.array(asks, np.int32), masks, *self._teams(asks)),
                TerminalSteps(
                    *self._told(spec, ends), np.array([self.ends[one] for one in ends], bool),
                    np.array(ends, np.int32), *self._teams(ends),
                ),
            )  # fmt: skip
            for one in asks:
                self.owed[one] = 0.0

    def _told(self, spec: BehaviorSpec, ones: list[int]) -> tuple[list[np.ndarray], np.ndarray]:
        seen = [
            np.array([[one + self.time / 10 + i for i in range(kind.shape[0])] for one in ones], np.float32)
            .reshape(len(ones), *kind.shape)
            for kind in spec.observation_specs
        ]  # fmt: skip
        return seen, np.array([self.owed[one] for one in ones], np.float32)

    def _teams(self, ones: list[int]) -> tuple[np.ndarray, np.ndarray]:
        groups = [self.where[one][1] for one in ones]
        return np.array(groups, np.int32), np.array([g * self.time for g in groups], np.float32)

    def get_steps(self, behavior_name: str) -> tuple[Any, Any]:
        return self.now[behavior_name]

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        steps = self.now[behavior_name][0]
        SPECS[behavior_name].action_spec._validate_action(action, len(steps), behavior_name)
        for row, one in enumerate(steps.agent_id):
            self.actions[int(one)] = (action.continuous[row].copy(), action.discrete[row].copy())

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        self.actions[int(agent_id)] = (action.continuous[0].copy(), action.discrete[0].copy())

    def close(self) -> None:
        self.closed = True


class Renumbered(Arena):
    """Counts its multi-agent groups on and on, as Unity does with groups that are made anew in every episode."""

    def crew(self) -> dict[int, tuple[str, int]]:
        now = 2 * self.episodes
        return {one: (name, group and group + now) for one, (name, group) in super().crew().items()}


class Late(Arena):
    """The team's first two ask for nothing before the second step; the others are not there."""

    def crew(self) -> dict[int, tuple[str, int]]:
        return {one: where for one, where in super().crew().items() if where[1] < 2}

    def asks(self, one: int) -> bool:
        return super().asks(one) and (one < 10 or self.time >= 2)


class Replaced(Arena):
    """Runners at first, and the team ever after."""

    def crew(self) -> dict[int, tuple[str, int]]:
        return {one: where for one, where in super().crew().items() if (where[0] == RUNNER) is (self.episodes == 1)}
