"""What one agent sees, does and gets, as wrappers tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from marlenv.groups import GroupTree
from marlenv.specs import Binary, Composite, TensorSpec


class AgentSpecs(NamedTuple):
    """What one agent sees and does; shapes without batch and agent dimensions."""

    seen: Composite
    """The entries that it observes, ``observation`` first of all."""
    action: TensorSpec
    actions: int | None = None
    """How many discrete actions there are, if the simulator says which are legal."""
    info: Composite | None = None
    reward: TensorSpec | None = None


class AgentStep(NamedTuple):
    """What one agent got at one moment."""

    seen: Mapping[str, Any]
    """The values of what it observes."""
    reward: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    action_mask: Any = None
    info: Mapping[str, Any] | None = None


def seen_of(specs: AgentSpecs) -> dict[str, TensorSpec]:
    """All entries that an agent observes, its legal actions and infos among them."""
    entries: dict[str, TensorSpec] = dict(specs.seen.items())
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
            out |= {agent: agents[agent]._replace(info=Composite(known)) for agent in members}
    return out
