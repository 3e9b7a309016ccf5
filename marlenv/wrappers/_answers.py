"""What the hooks of a wrapper answer, checked: authors of wrappers forget things, and simulators tell more than was
said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from marlenv.errors import GroupError, KeyCollision, SpecError, SpecTypeError, nearest
from marlenv.groups import GroupTree
from marlenv.groups.specs import PAD_MASK
from marlenv.keys import nested
from marlenv.specs import Binary, Composite, TensorSpec, Unbounded
from marlenv.wrappers._agent import AgentSpecs, AgentStep, all_observations
from marlenv.wrappers._agent_data import at
from marlenv.wrappers._numbers import is_flag

PAD = "pass unequal='pad', or "
STEPS = "an AgentStep for every agent that is there, by its name"


def checked_specs(who: str, agents: Any) -> dict[str, AgentSpecs]:
    """The answer of ``agent_specs``.

    Raises:
        SpecError: there are no agents.
        GroupError: an agent is not named by a string.
        SpecTypeError: it is no mapping of :class:`AgentSpecs`, or something else stands in them than specs.
    """
    if not isinstance(agents, Mapping):
        raise unlike(f"{who}.agent_specs", "AgentSpecs for every agent, by its name", agents)
    if not agents:
        raise SpecError(f"{who}: the simulator has no agents")
    for agent, specs in agents.items():
        if not isinstance(agent, str):
            raise GroupError(f"{who}: agents must be named by strings, got {agent!r}; rename them in the simulator")
        of = f"{who}.agent_specs: {{}} of agent {agent!r}"
        if not isinstance(specs, AgentSpecs):
            raise unlike(f"{who}.agent_specs", f"AgentSpecs(observations, action) of agent {agent!r}", specs)
        if not isinstance(specs.observations, Composite):
            wanted = "a Composite, such as Composite(observation=...)"
            raise unlike(of.format("observations"), wanted, specs.observations, "be")
        if not isinstance(specs.action, TensorSpec):
            raise unlike(of.format("action"), "a spec, such as Categorical(n)", specs.action, "be")
        if not isinstance(specs.info, Composite | None):
            raise unlike(of.format("info"), "a Composite, or None", specs.info, "be")
    return dict(agents)


def observed_by(who: str, agents: Mapping[str, AgentSpecs], *, masks: bool) -> dict[str, dict[str, TensorSpec]]:
    """All entries that every agent observes, its legal actions and infos among them.

    Args:
        who: the wrapper, for messages.
        agents: agent name -> its specs.
        masks: whether ``alive`` and ``mask`` are among them, too.

    Raises:
        KeyCollision: an observation of the agent's own is called like an entry that the wrapper writes.
    """
    ours = dict.fromkeys(("alive", "mask"), Binary(shape=(), dtype=torch.bool)) if masks else {}
    found = {}
    for agent, specs in agents.items():
        entries = {**all_observations(specs), **ours}
        for name, spec in specs.observations.items():
            if name == PAD_MASK or entries[name] is not spec:
                raise KeyCollision(
                    f"{who}.agent_specs: agent {agent!r} observes {name!r}, an entry that the wrapper writes itself; "
                    f"call it something else"
                )
        found[agent] = entries
    return found


def paid_by(who: str, tree: GroupTree, agents: Mapping[str, AgentSpecs], unequal: str | None) -> dict[str, TensorSpec]:
    """What every agent is paid.

    Args:
        who: the wrapper, for messages.
        tree: the groups.
        agents: agent name -> its specs.
        unequal: what to do in a group whose agents differ; None where there is nothing to choose.

    Raises:
        GroupError: agents of a group are paid in other shapes, which no reward of the group would have.
    """
    paid = {a: s.reward or Unbounded((1,), dtype=torch.float32) for a, s in agents.items()}
    for group, (first, *others) in tree.groups.items():
        other = next((agent for agent in others if paid[agent].shape != paid[first].shape), None)
        if other is not None and unequal in ("stack", None):
            shapes = [list(paid[agent].shape) for agent in (first, other)]
            raise GroupError(
                f"{who}: rewards of the agents of group {nested(group)!r} must have one shape, got {shapes[0]} of "
                f"{first!r} and {shapes[1]} of {other!r}; {PAD if unequal else ''}give them groups "
                f"of their own, as group_map='one_group_per_agent' does"
            )
    return paid


def unlike(where: str, wanted: str, got: Any, verb: str = "return") -> SpecTypeError:
    """The error for an answer of the wrong type.

    >>> print(unlike("MyWrapper.sim_acting", "a set of agents", None))
    MyWrapper.sim_acting must return a set of agents, got None; does it end with a return?
    """
    what = "None" if got is None else f"{type(got).__name__} {got!r}"[:200]
    asks = "; does it end with a return?" if got is None and verb == "return" else ""
    return SpecTypeError(f"{where} must {verb} {wanted}, got {what}{asks}")


class Answers:
    """Checks what agents got; all of it in the first reset and the first step of every agent, at no cost to later ones.

    Args:
        who: the wrapper, for messages.
        agents: agent name -> its specs.
        drops_infos: infos that have no specs are left out, and no error.
    """

    declares = "AgentSpecs(..., actions={})"
    """How the length of an ``action_mask`` is declared."""

    def __init__(self, who: str, agents: Mapping[str, AgentSpecs], *, drops_infos: bool) -> None:
        self.who, self.agents, self.drops_infos = who, agents, drops_infos
        self.unseen = {True: set(agents), False: set(agents)}
        """Agents that were in no reset yet, and in no step."""

    def check(self, got: Mapping[str, AgentStep], *, step: int | None) -> None:
        """Checks the data of one step or reset.

        Args:
            got: what the agents got.
            step: the number of the step; None in a reset.

        Raises:
            SpecTypeError: an answer, or a flag in it, of the wrong type.
            SpecError: an observation, a mask or an info that was not declared.
        """
        self.check_types(got, step=step)
        unseen = self.unseen[step is None]
        for agent in sorted(unseen.intersection(got)):
            self._check_names(f"{self.who}{at(step)}", agent, got[agent])
            unseen.discard(agent)

    def check_types(self, got: Mapping[str, AgentStep], *, step: int | None) -> None:
        """Checks no more than the types."""
        if not isinstance(got, Mapping):
            raise unlike(f"{self.who}.{'sim_reset' if step is None else 'sim_step'}", STEPS, got)
        for agent, one in got.items():
            if type(one) is not AgentStep or type(one.terminated) is not bool or type(one.truncated) is not bool:
                self._check_types(agent, one, step)

    def _check_types(self, agent: str, one: Any, step: int | None) -> None:
        if not isinstance(one, AgentStep):
            wanted = "an AgentStep(observations, reward, terminated, truncated)"
            raise unlike(f"{self.who}{at(step)}: what agent {agent!r} gets", wanted, one, "be")
        self.check_flags(agent, one.terminated, one.truncated, step=step)

    def check_flags(self, agent: str, terminated: Any, truncated: Any, *, step: int | None) -> None:
        """Checks the flags of one agent."""
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            if type(flag) is not bool and not is_flag(flag):
                raise unlike(f"{self.who}{at(step)}: {name} of agent {agent!r}", "True or False", flag, "be")

    def _check_names(self, where: str, agent: str, one: AgentStep) -> None:
        specs = self.agents[agent]
        self._check_declared(where, agent, "observation", one.observations, list(specs.observations))
        if one.action_mask is not None and specs.actions is None:
            n = np.asarray(one.action_mask).size
            raise SpecError(
                f"{where}: agent {agent!r} got an action_mask, and nobody would read it; declare its length, "
                f"{self.declares.format(n)}, before the first reset"
            )
        if not self.drops_infos:
            self._check_declared(where, agent, "info", one.info, list(specs.info or ()))

    def _check_declared(self, where: str, agent: str, what: str, given: Any, known: Iterable[str]) -> None:
        for name in given if isinstance(given, Mapping) else ():
            if name not in known:
                raise SpecError(
                    f"{where}: agent {agent!r} got the {what} {name!r}, which its AgentSpecs do not declare; "
                    f"{nearest(name, known)}; declare it, or leave it out"
                )
