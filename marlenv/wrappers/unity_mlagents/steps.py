"""What ML-Agents' behaviours and steps say, in our words."""

from __future__ import annotations

import re
from typing import Any

import torch

from marlenv.errors import MissingExtra, SpecTypeError
from marlenv.optional import need
from marlenv.specs import Bounded, Composite, MultiCategorical, MultiOneHot, Unbounded
from marlenv.wrappers._agent import AgentSpecs, AgentStep

Place = tuple[str, int]
"""A behaviour and the id of a multi-agent group."""


def module(name: str, who: str) -> Any:
    """A module of ML-Agents' that speaks its protocol.

    Raises:
        MissingExtra: it is not installed, or with a protobuf that is younger than its code.
    """
    try:
        return need(f"mlagents_envs.{name}", who)
    except TypeError as error:
        raise MissingExtra(
            f"{who} needs protobuf 3.20 beside mlagents_envs, and finds a later one; pip install protobuf==3.20.3 "
            f"in an environment of its own"
        ) from error


def check(who: str, env: Any) -> None:
    """Raises where something is no env of ML-Agents'."""
    if not isinstance(env, need("mlagents_envs.base_env", who).BaseEnv):
        raise SpecTypeError(
            f"{who}: env must be an env of ML-Agents, got {type(env).__name__}; UnityMLAgentsEnv takes file names"
        )


def specs_of(behaviour: Any, *, categorical: bool) -> AgentSpecs:
    """What the agents of a behaviour observe and do."""
    seen = Composite({name: Unbounded(one.shape) for name, one in _named(behaviour).items()})
    kind, action = behaviour.action_spec, Composite()
    if branches := tuple(kind.discrete_branches):
        choices = MultiCategorical if categorical else MultiOneHot
        action["discrete_action"] = choices(list(branches), dtype=torch.int32)
    if kind.continuous_size:
        action["continuous_action"] = Bounded(-1, 1, (kind.continuous_size,))
    return AgentSpecs(seen, action, sum(branches) or None, Composite(group_reward=Unbounded(())))


def _named(behaviour: Any) -> dict[str, Any]:
    """The specs of what a behaviour observes, by name."""
    return {one.name or f"observation_{i}": one for i, one in enumerate(behaviour.observation_specs)}


def step_of(behaviour: Any, steps: Any, row: int) -> AgentStep:
    """What the agent of a row of ``DecisionSteps`` or ``TerminalSteps`` got."""
    seen = {name: values[row] for name, values in zip(_named(behaviour), steps.obs, strict=True)}
    return AgentStep(seen, float(steps.reward[row]), info={"group_reward": float(steps.group_reward[row])})


def word_of(place: Place, several: set[str]) -> str:
    """The name of a behaviour's group; ``Striker?team=1`` is ``Striker_team_1``."""
    behaviour, group = place
    word = re.sub(r"\W+", "_", behaviour).strip("_")
    return f"{word}_group_{group}" if behaviour in several else word
