"""``AgentData``: what a simulator gave of its agents in a step, checked and packed, for ``AgentsEnv``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDict

from marlenv.envs.plan import MASKED
from marlenv.errors import KeyMissing, MarlenvError, SpecError
from marlenv.groups import GroupTree, Packer
from marlenv.groups.columns import Columns
from marlenv.groups.specs import PadMasks, Unequal
from marlenv.keys import Path, nested, path
from marlenv.specs import Composite, TensorSpec
from marlenv.wrappers._agent import AgentSpecs, AgentStep, all_observations, unknown_agent
from marlenv.wrappers._numbers import is_number

PACK = "pack: "
"""What the packer's messages begin with, who does not know for whom it packs."""


class AgentData:
    """Packs what the agents got.

    Args:
        who: the wrapper, for messages.
        tree: the groups.
        agents: agent name -> its specs.
        rewards: agent name -> the spec of its reward; None where the team has one reward.
        unequal: what to do in a group whose agents differ.
        masks: what is told of padding.
    """

    def __init__(
        self,
        who: str,
        tree: GroupTree,
        agents: Mapping[str, AgentSpecs],
        rewards: Mapping[str, Composite] | None,
        *,
        unequal: Unequal,
        masks: PadMasks,
    ) -> None:
        self.who, self.tree, self.names = who, tree, list(agents)
        observed = {a: Composite(all_observations(specs)) for a, specs in agents.items()}
        both = (
            {a: Composite({**dict(s.items()), **dict(rewards[a].items())}) for a, s in observed.items()}
            if rewards
            else observed
        )
        self._resets = Packer(tree, observed, unequal=unequal, masks=masks)
        self._steps = Packer(tree, both, unequal=unequal, masks=masks)
        self._needed = {a: list(s.observations) for a, s in agents.items()}
        nested_ = {a: [path(key) for key in s.observations.keys(True, True)] for a, s in agents.items()}
        self._inside = {a: [where for where in paths if len(where) > 1] for a, paths in nested_.items()}
        self._anything = {a: _allowed(s.action, s.actions) for a, s in agents.items() if s.actions is not None}
        self._narrowed = {agent for agent, allowed in self._anything.items() if not allowed.all()}

    @property
    def columns(self) -> Columns | None:
        """The entries of a step as columns, where all there is to pack of an agent is in them; else None."""
        return None if self._anything else self._steps.columns

    def pack(
        self, got: Mapping[str, AgentStep], gone: Collection[str], acting: Collection[str], *, step: int | None
    ) -> TensorDict:
        """The group tensors of one step or reset.

        Args:
            got: what the agents got.
            gone: agents that had ended before.
            acting: whose actions are read next.
            step: the number of the step; None in a reset, where there are no rewards.

        Raises:
            GroupError: an agent that the wrapper did not name.
            KeyMissing: an agent that is there lacks an observation.
            SpecError: a reward that is not a number.
            ShapeError, DtypeError: a value that does not fit its spec.
        """
        if not got.keys() <= self.tree.place.keys():
            raise unknown_agent(f"{self.who}{at(step)}", got, self.tree.place)
        anything = self._anything
        data: dict[str, dict[str, Any]] = {}
        for agent in self.names:
            now = None if agent in gone else got.get(agent)
            entries: dict[str, Any] = {}
            if now is not None:
                observations, reward = now.observations, now.reward
                for name in self._needed[agent]:
                    if observations is None or observations.get(name) is None:
                        raise self._missing(agent, (name,), step)
                for where in self._inside[agent]:
                    if _lacks(observations, where):
                        raise self._missing(agent, where, step)
                if not is_number(reward):
                    raise SpecError(
                        f"{self.who}{at(step)}: the reward of agent {agent!r} is not a number, got {reward!r}"
                    )
                entries = {**observations, "reward": reward, "info": now.info}
            if agent in anything:
                legal = None if now is None or agent not in acting else now.action_mask
                legal = None if legal is None else np.asarray(legal, dtype=np.bool_)
                if legal is not None and agent in self._narrowed and legal.shape == anything[agent].shape:
                    legal = legal & anything[agent]
                nothing = legal is None or 1 not in legal.tobytes()  # faster than any()
                entries["action_mask"] = anything[agent] if nothing else legal
            data[agent] = entries
        try:
            return (self._resets if step is None else self._steps).pack(data)
        except MarlenvError as error:
            what, when = str(error), f"{self.who}{at(step)}"
            if what.startswith(PACK):
                error.args = (f"{when}: {what.removeprefix(PACK)}",)
            else:
                error.add_note(f"in {when}")
            raise

    def _missing(self, agent: str, where: Path, step: int | None) -> KeyMissing:
        return KeyMissing(
            f"{self.who}{at(step)}: agent {agent!r} is there and has no {nested(where)!r}; an agent that has left must "
            f"be left "
            f"out, or flagged as terminated or truncated with its last observation"
        )


def _allowed(action: TensorSpec, actions: int) -> NDArray[np.bool_]:
    """What an agent may do as far as its spec says: all of it, or what its own mask allows."""
    mask = action.mask if isinstance(action, MASKED) else None
    if mask is None or mask.shape != (actions,):
        return np.ones(actions, dtype=np.bool_)
    return np.array(mask.tolist(), dtype=np.bool_)


def at(step: int | None) -> str:
    """When it was, for messages."""
    return ".reset" if step is None else f".step (number {step} of the episode)"


def _lacks(observations: Any, where: Path) -> bool:
    for name in where:
        if observations is None:
            return True
        if not hasattr(observations, "get"):  # the packer says so
            return False
        observations = observations.get(name)
    return observations is None
