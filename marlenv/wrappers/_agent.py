"""What a wrapper says about one agent: its specs, and what it got in a step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from marlenv.envs.plan import MASKED
from marlenv.errors import GroupError, nearest
from marlenv.groups import GroupTree
from marlenv.specs import Binary, Composite, TensorSpec


class AgentSpecs(NamedTuple):
    """What one agent observes and does; shapes without batch and agent dimensions."""

    observations: Composite
    """The entries that it observes, ``observation`` first of all."""
    action: TensorSpec
    """What it does; a composite where that has several entries, each with a name of its own."""
    actions: int | None = None
    """The length of its ``action_mask``, if the simulator says which actions are legal; those that the action's own
    mask forbids never are.
    """
    info: Composite | None = None
    """The infos that it gets."""
    reward: TensorSpec | None = None
    """What it is paid; one number when left out."""


class AgentStep(NamedTuple):
    """What one agent got in one step, or in a reset."""

    observations: Mapping[str, Any]
    """The values of what it observes."""
    reward: Any = 0.0
    """What it is paid for the step."""
    terminated: bool = False
    """Whether it has come to its end."""
    truncated: bool = False
    """Whether it is cut off, by a time limit for instance."""
    action_mask: Any = None
    """Which of its actions are legal next; all that its spec allows when left out."""
    info: Mapping[str, Any] | None = None
    """The values of its infos; what is left out is zeros."""


CONSTANT = frozenset({float, int, bool, str, type(None)})
"""Kinds of values that nobody can write to."""


def frozen(value: Any) -> Any:
    """A copy of what an agent got, or of a part of it, that the simulator may go on writing to.

    >>> board = np.zeros(2)
    >>> seen = frozen(AgentStep({"board": board, "turn": 1}))
    >>> board += 1
    >>> seen.observations
    {'board': array([0., 0.]), 'turn': 1}
    """
    kind = type(value)
    if kind is AgentStep:  # the usual kinds first: one step asks of twenty values
        return AgentStep(*[one if type(one) in CONSTANT else frozen(one) for one in value])
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Tensor):
        return value.clone()
    if kind is dict or isinstance(value, Mapping):
        return {name: one if type(one) in CONSTANT else frozen(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        parts = map(frozen, value)
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
    return value


def all_observations(specs: AgentSpecs) -> dict[str, TensorSpec]:
    """All entries that an agent observes, its legal actions and infos among them."""
    entries: dict[str, TensorSpec] = dict(specs.observations.items())
    if specs.actions is not None:
        entries["action_mask"] = Binary(shape=(specs.actions,), dtype=torch.bool)
    if specs.info is not None and not specs.info.is_empty():
        entries["info"] = specs.info
    return entries


def with_shared_infos(tree: GroupTree, agents: Mapping[str, AgentSpecs]) -> dict[str, AgentSpecs]:
    """The same specs, with the infos of all agents of a group for each of them: what one lacks will be zeros."""
    out = dict(agents)
    for members in tree.groups.values():
        known: dict[str, TensorSpec] = {}
        for agent in members:
            known |= {k: v for k, v in (agents[agent].info or Composite()).items() if k not in known}
        if known:
            for agent in members:
                own = dict((agents[agent].info or Composite()).items())
                out[agent] = agents[agent]._replace(info=Composite({**known, **own}))
    return out


def with_shared_masks(tree: GroupTree, agents: Mapping[str, AgentSpecs]) -> dict[str, AgentSpecs]:
    """The same specs, with a mask of legal actions for all who choose in a group where one of them has it."""
    out = dict(agents)
    for members in tree.groups.values():
        if any(agents[agent].actions is not None for agent in members):
            for agent in members:
                own, action = agents[agent], agents[agent].action
                if own.actions is None and isinstance(action, MASKED):
                    out[agent] = own._replace(actions=action._mask_shape[-1])
    return out


def unknown_agent(where: str, got: Collection[str], known: Collection[str]) -> GroupError:
    """The error for data of an agent that a simulator never named; names the first by the alphabet.

    >>> print(unknown_agent("MyWrapper.step", ["wolf_0", "wolf_7"], ["wolf_0", "wolf_1"]))
    MyWrapper.step: the simulator gave data of an unknown agent 'wolf_7'; did you mean 'wolf_1'?
    """
    name = min(set(got).difference(known))
    return GroupError(f"{where}: the simulator gave data of an unknown agent {name!r}; {nearest(name, known)}")


def check_named(where: str, got: Collection[str], known: Collection[str]) -> None:
    """Raises :func:`unknown_agent` if there are data of an agent that the simulator never named."""
    if not set(got) <= set(known):
        raise unknown_agent(where, got, known)
