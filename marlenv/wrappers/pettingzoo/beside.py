"""Parallel PettingZoo envs that stand side by side in a series: what all their agents got is packed at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size

from marlenv.envs.plan import DENSE
from marlenv.envs.rollout import stack_steps
from marlenv.specs import TensorSpec
from marlenv.tensordicts import get, new
from marlenv.wrappers._agent import AgentStep
from marlenv.wrappers._choices import Choices
from marlenv.wrappers._episode_flags import FLAGS, MASKS, Arrays
from marlenv.wrappers._numbers import is_number

if TYPE_CHECKING:
    from marlenv.wrappers.pettingzoo.env import PettingZooWrapper

ENTRIES = [("observation",), ("reward",)]
OURS = "marlenv.wrappers.pettingzoo.env"


class Got(NamedTuple):
    """What one env answered where all its agents are there."""

    steps: dict[str, AgentStep]
    shown: Arrays
    acting: set[str]
    """Whose actions are read next."""


class Beside:
    """Steps envs of one kind and packs what they answer, as a stack of their data would have it.

    An env some of whose agents have left, or whose values need a second look, packs its own.

    Args:
        envs: which :func:`fit`.
    """

    def __init__(self, envs: Sequence[PettingZooWrapper]) -> None:
        first = envs[0]
        self.names = set(first.agent_names)
        self.groups = [
            (where[0], agents, columns, first.full_action_spec[where[0], "action"])
            for where, agents, columns in first._data.columns or ()
        ]
        self.masks, self.mask_at = MASKS if first.use_mask else (), first._flags.mask_at

    def actions(self, envs: Sequence[PettingZooWrapper], td: TensorDictBase) -> list[dict[str, Any]]:
        """The actions of all rows, agent by agent, as arrays; one-hot ones are vectors."""
        rows: list[dict[str, Any]] = [{} for _ in envs]
        for name, agents, _, spec in self.groups:
            values = TensorSpec.to_numpy(spec, get(get(td, name), "action"))
            for row, own in zip(rows, values, strict=True):
                row.update(zip(agents, own, strict=True))
        return rows

    def play(self, env: PettingZooWrapper, actions: dict[str, Any]) -> Got | TensorDict:
        """One step of one env."""
        env._check_began("step")
        flags = env._flags
        got, following = env._play(_chosen, (env._choices, actions))
        if flags.ended or env._answers.unseen[False] or got.keys() != self.names or not self._fits(got):
            return env._emit(got, following, first=False)
        flags.note(got, cut=env.max_steps is not None and flags.steps >= env.max_steps)
        return Got(got, flags.shown(), flags.living.intersection(following))

    def _fits(self, got: dict[str, AgentStep]) -> bool:
        """Whether every value is of the shape and the kind of its entry."""
        for _, agents, (observation, reward), _ in self.groups:
            for agent in agents:
                step = got[agent]
                plain = observation.takes(step.observations["observation"]) and reward.takes(step.reward)
                if not plain or not is_number(step.reward):
                    return False
        return True

    def packed(self, answers: Sequence[Got | TensorDict]) -> TensorDictBase:
        """What all envs answered, as the "next" data of their stack."""
        got = [one for one in answers if isinstance(one, Got)]
        if len(got) < len(answers):
            rows = [self.packed([one])[0] if isinstance(one, Got) else one for one in answers]
            return stack_steps(rows, 0)
        count = len(got)
        flags, words = (np.stack([one.shown[i] for one in got]) for i in range(2))
        if self.masks:
            for row, one in zip(words, got, strict=True):
                for agent in one.acting:
                    row[self.mask_at[agent]] = True
        data: dict[str, Any] = {}
        a = b = 0
        for name, agents, columns, _ in self.groups:
            size = len(agents)
            given = [_entries(one.steps[agent]) for one in got for agent in agents]
            group = {}
            for column in columns:
                filled = column.fill(given)
                assert filled is not None  # every value fits, as :meth:`play` has seen
                group[column.key[0]] = filled.view(count, size, *column.shape)
            for flag in FLAGS:
                group[flag] = torch.from_numpy(flags[:, a : a + size].copy())
                a += size
            for mask in self.masks:
                group[mask] = torch.from_numpy(words[:, b : b + size].copy())
                b += size
            data[name] = new(group, Size((count, size)))
        for i, flag in enumerate(FLAGS, b):
            data[flag] = torch.from_numpy(words[:, i : i + 1].copy())
        return new(data, Size((count,)))

    @staticmethod
    def is_plain(env: PettingZooWrapper) -> bool:
        """Whether nothing was changed of an env since it was looked at, and it is open."""
        own = env.__dict__
        changed = own["_device"] is not None or any(name in own for name in ("step", "_step", "_play", "_emit"))
        return not changed and not env.is_closed and not env.run_type_checks and env._auto_reset is None


def _chosen(given: tuple[Choices, dict[str, Any]], agents: set[str]) -> dict[str, Any]:
    choices, actions = given
    acts = choices.checked({agent: {"action": action} for agent, action in actions.items() if agent in agents})
    return {agent: entries["action"] for agent, entries in acts.items()}


def _entries(step: AgentStep) -> dict[str, Any]:
    return {**step.observations, "reward": step.reward}


def fit(cls: type[Any], envs: Sequence[PettingZooWrapper]) -> bool:
    """Whether envs are parallel, of the very class, and all their agents observe one plain array each and act alike."""
    first = envs[0]
    if not all(type(env) is cls and env.parallel and not env.return_state for env in envs):
        return False
    columns = first._data.columns
    if columns is None or not all(
        len(where) == 1 and [column.key for column in own] == ENTRIES for where, _, own in columns
    ):
        return False
    acted = dict(first.full_action_spec.items(True, True))
    if acted.keys() != {(where[0], "action") for where, _, _ in columns} or not all(
        isinstance(leaf, DENSE) for leaf in acted.values()
    ):
        return False  # actions of agents that differ: padded, or each of its own spec; or no numbers, as texts
    families = ("full_observation_spec", "full_action_spec", "full_reward_spec", "full_done_spec")
    alike = all(getattr(env, name) == getattr(first, name) for env in envs for name in families)
    groups = [list(env.group_map.items()) for env in envs]  # in one order, too
    return alike and all(one == groups[0] for one in groups)


def side_by_side(cls: type[Any], envs: Sequence[PettingZooWrapper]) -> Beside | None:
    """What steps envs at once, where nobody has made another class of theirs."""
    return Beside(envs) if cls.__module__ == OURS and fit(cls, envs) else None
