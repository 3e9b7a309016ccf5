"""What authors of wrappers forget or misspell is an error that names the wrapper, the hook, the agent and the entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from test_bad_simulators import Counting

from marlenv import Categorical, Composite, Unbounded
from marlenv.errors import GroupError, ShapeError, SpecError, SpecTypeError
from marlenv.wrappers import AgentSpecs, AgentStep, ParallelSimEnv

STEP = r"^Mine\.step \(number 1 of the episode\): "


def look(**changes: Any) -> AgentStep:
    step = AgentStep({"observation": [1.0, 2.0]}, action_mask=[True, False, False], info={"lives": [3.0]})
    return step._replace(**changes)


class Mine(ParallelSimEnv):
    """Two agents, each of which may do nothing but its action 0; ``late`` comes with the second step."""

    late: str | None = None

    def _build_env(self) -> Any:
        return SimpleNamespace(seen=[], count=0)

    def agent_specs(self) -> Any:
        seen, info = Composite(observation=Unbounded((2,))), Composite(lives=Unbounded((1,)))
        names = ["a_0", "a_1", *([self.late] if self.late else [])]
        return {name: AgentSpecs(seen, Categorical(3), actions=3, info=info) for name in names}

    def sim_reset(self, seed: int | None) -> Any:
        self._env.count = 0
        return {"a_0": look(), "a_1": look()}

    def sim_step(self, actions: dict[str, Any]) -> Any:
        self._env.count += 1
        self._env.seen.append({name: int(action) for name, action in actions.items()})
        return {name: look() for name in actions}


def undeclared(**specs: Any) -> Any:
    return lambda self: {name: own._replace(**specs) for name, own in Mine.agent_specs(self).items()}


def stepping(**changes: Any) -> Any:
    return lambda self, actions: {name: look(**changes) for name in actions}


SLIPS = {
    "a mask that was not declared": (
        {"agent_specs": undeclared(actions=None)},
        SpecError,
        r"^Mine\.reset: agent 'a_0' got an action_mask, .* AgentSpecs\(\.\.\., actions=3\)",
    ),
    "a mask that comes with the first step": (
        {"agent_specs": undeclared(actions=None), "sim_reset": lambda self, seed: {"a_0": look(action_mask=None)}},
        SpecError,
        STEP + "agent 'a_0' got an action_mask",
    ),
    "an observation": (
        {"sim_step": stepping(observations={"observation": [1.0, 2.0], "speed": [7.0]})},
        SpecError,
        STEP + r"agent 'a_0' got the observation 'speed', which .* known: \['observation'\]",
    ),
    "an info with another name": (
        {"sim_step": stepping(info={"live": [3.0]})},
        SpecError,
        STEP + "agent 'a_0' got the info 'live', which .* did you mean 'lives'",
    ),
    "an info where none is declared": (
        {"agent_specs": undeclared(info=None)},
        SpecError,
        r"^Mine\.reset: agent 'a_0' got the info 'lives', which .* there are none",
    ),
    "a flag in words": (
        {"sim_step": stepping(terminated="no")},
        SpecTypeError,
        STEP + "terminated of agent 'a_0' must be True or False, got str 'no'",
    ),
    "no flag": (
        {"sim_step": stepping(truncated=None)},
        SpecTypeError,
        STEP + "truncated of agent 'a_0' must be True or False, got None",
    ),
    "no return in sim_reset": (
        {"sim_reset": lambda self, seed: None},
        SpecTypeError,
        r"^Mine\.sim_reset must return an AgentStep for every agent .* got None; does it end with a return",
    ),
    "no return in sim_step": (
        {"sim_step": lambda self, actions: None},
        SpecTypeError,
        r"^Mine\.sim_step must return an AgentStep for every agent",
    ),
    "three things at once": (
        {"sim_step": lambda self, actions: ({}, 1.0, False)},
        SpecTypeError,
        r"^Mine\.sim_step must return .* got tuple \(\{\}, 1\.0, False\)",
    ),
    "tuples": (
        {"sim_step": lambda self, actions: {name: ({}, 1.0, False) for name in actions}},
        SpecTypeError,
        STEP + r"what agent 'a_0' gets must be an AgentStep\(.*\), got tuple",
    ),
    "a shape": (
        {"sim_step": stepping(observations={"observation": [1.0]})},
        ShapeError,
        STEP + r"entry 'observation' of agent 'a_0' must have shape \[2\], got \[1\]",
    ),
    "no return in agent_specs": (
        {"agent_specs": lambda self: None},
        SpecTypeError,
        r"^Mine\.agent_specs must return AgentSpecs for every agent, by its name, got None",
    ),
    "no agents": ({"agent_specs": lambda self: {}}, SpecError, r"^Mine: the simulator has no agents"),
    "numbers for names": (
        {"agent_specs": lambda self: {0: Mine.agent_specs(self)["a_0"]}},
        GroupError,
        r"^Mine: agents must be named by strings, got 0; rename them in the simulator$",
    ),
    "a spec for AgentSpecs": (
        {"agent_specs": lambda self: {"a_0": Unbounded((2,))}},
        SpecTypeError,
        r"^Mine\.agent_specs must return AgentSpecs\(observations, action\) of agent 'a_0', got Unbounded",
    ),
    "observations without a name": (
        {"agent_specs": undeclared(observations=Unbounded((2,)))},
        SpecTypeError,
        r"observations of agent 'a_0' must be a Composite, such as Composite\(observation=\.\.\.\), got Unbounded",
    ),
    "a number for an action": (
        {"agent_specs": undeclared(action=3)},
        SpecTypeError,
        r"action of agent 'a_0' must be a spec, such as Categorical\(n\), got int 3",
    ),
    "a dict of infos": (
        {"agent_specs": undeclared(info={"lives": Unbounded((1,))})},
        SpecTypeError,
        r"info of agent 'a_0' must be a Composite, or None, got dict",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("frame_skip", [1, 2])
def test_a_slip_is_named(slip: str, frame_skip: int) -> None:
    methods, kind, says = SLIPS[slip]
    with pytest.raises(kind, match=says):
        type("Mine", (Mine,), methods)(frame_skip=frame_skip, done_on_any=False).rollout(4)


def test_a_wrapper_without_slips_plays_legal_actions_and_shows_its_infos() -> None:
    env = Mine()
    data = env.rollout(20)
    assert env._env.seen == [{"a_0": 0, "a_1": 0}] * 20
    assert (data["next", "a", "info", "lives"] == 3).all()


def test_an_agent_that_comes_later_is_looked_at_when_it_comes() -> None:
    class Late(Mine):
        late = "a_2"

        def sim_step(self, actions: dict[str, Any]) -> Any:
            out = super().sim_step(actions)
            return out if self._env.count < 3 else {**out, "a_2": look(info={"live": [3.0]})}

    with pytest.raises(SpecError, match=r"^Late\.step \(number 3 of the episode\): agent 'a_2' got the info 'live'"):
        Late().rollout(5)


def test_a_wrapper_may_say_that_it_drops_infos() -> None:
    class Told(Mine):
        drops_infos = True

        def sim_step(self, actions: dict[str, Any]) -> Any:
            return {name: look(info={"lives": [float(i)], "more": "x"}) for i, name in enumerate(actions)}

    data = Told().rollout(2)
    assert data["next", "a", "info", "lives"].flatten(1).tolist() == [[0, 1], [0, 1]]
    assert [*data["next", "a", "info"].keys()] == ["lives"]


@pytest.mark.parametrize("value", [True, np.bool_(True), 1, 1.0, np.float32(1), np.array([1]), torch.tensor(True)])
def test_flags_may_be_numbers(value: Any) -> None:
    data = type("Mine", (Mine,), {"sim_step": stepping(terminated=value)})().rollout(5)
    assert data["next", "a", "terminated"].flatten().tolist() == [True, True]


TURNS = {
    "sim_look": (None, r"^Slip\.sim_look must return an AgentStep, got None; does it end with a return"),
    "sim_play": (None, r"^Slip\.sim_play must return \(reward, terminated, truncated\) for every agent, .* got None"),
    "sim_acting": (["p_0"], r"^Slip\.sim_acting must return a set of agents, got list \['p_0'\]"),
}


@pytest.mark.parametrize("hook", TURNS)
def test_a_slip_in_a_wrapper_of_a_turn_based_simulator_is_named(hook: str) -> None:
    answer, says = TURNS[hook]
    with pytest.raises(SpecTypeError, match=says):
        type("Slip", (Counting,), {hook: lambda self, *args: answer})(lambda count: {f"p_{count % 3}"}).rollout(3)


def test_a_lone_reward_of_a_turn_based_simulator_is_named() -> None:
    class Slip(Counting):
        def sim_play(self, actions: dict[str, Any]) -> Any:
            return dict.fromkeys(("p_0", "p_1", "p_2"), 1.0)

    says = r"^Slip\.sim_play must return \(reward, terminated, truncated\) for agent 'p_0', got float 1\.0"
    with pytest.raises(SpecTypeError, match=says):
        Slip(lambda count: {f"p_{count % 3}"}).rollout(3)
