"""The usual step of a parallel PettingZoo env, all of whose agents are there and go on: packed at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.groups.packing import VECTORS
from marlenv.specs import Categorical, TensorSpec
from marlenv.tensordicts import get, new
from marlenv.wrappers._choices import count_of
from marlenv.wrappers._episode_flags import FLAGS, MASKS
from marlenv.wrappers.pettingzoo.interfaces import ParallelInterface

if TYPE_CHECKING:
    from marlenv.wrappers.pettingzoo.env import PettingZooWrapper

PLAIN = {float}, {int}, {np.float64}, {np.float32}
"""What the rewards of a step may be, all of one kind."""


BOOLS = {bool, np.bool_}


class Group(NamedTuple):
    """What the agents of a group see and do."""

    name: str
    agents: tuple[str, ...]
    action: TensorSpec
    are_choices: bool
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """Of an observation."""
    reward: np.dtype[Any]
    flags: dict[str, Any]
    """Flags and masks of agents who all go on."""
    batch: Size

    def chosen(self, value: Tensor) -> Iterable[Any] | None:
        """The actions of the agents, as their simulator takes them; None where they are to be looked at."""
        spec = self.action
        if type(spec) is Categorical and value.dtype is torch.int64 and value.ndim == 1:
            numbers = value.tolist()
            return map(np.int64, numbers) if min(numbers) >= 0 and max(numbers) < spec.n else None
        values: Iterable[Any] | None = None if self.are_choices else spec.to_numpy(value)
        return values


class Together:
    """Steps one env, and packs what it answers where all agents go on; everything else is left to the env.

    Args:
        env: parallel; its agents observe one plain array each and nothing besides.
    """

    def __init__(self, env: PettingZooWrapper) -> None:
        self.names = env.agent_names
        self._known = set(self.names)
        self._root = dict.fromkeys(FLAGS, np.zeros(1, np.bool_))
        self._groups = []
        for where, agents, (observation, reward) in env._data.columns or ():
            action, count = env.full_action_spec[where[0], "action"], len(agents)
            flags: dict[str, Any] = dict.fromkeys(FLAGS, np.zeros((count, 1), np.bool_))
            flags.update(dict.fromkeys(MASKS if env.use_mask else (), np.ones(count, np.bool_)))
            kinds = observation.shape, observation.dtype, reward.dtype
            choices = isinstance(action, VECTORS) or count_of(action) is not None
            self._groups.append(Group(where[0], agents, action, choices, *kinds, flags, Size((count,))))

    def step(self, env: PettingZooWrapper, td: TensorDictBase) -> TensorDict | None:
        """What follows on a step; None where nothing was played, for the env to do it."""
        flags, turn, interface = env._flags, env._turn, env._interface
        count = len(self.names)
        last = env.max_steps is not None and flags.steps + 1 >= env.max_steps
        if last or flags.ended or len(flags.living) != count or len(turn.acting) != count or env._device is not None:
            return None
        if env._answers.unseen[False]:  # a first step is looked at whole
            return None
        assert isinstance(interface, ParallelInterface)
        actions: dict[str, Any] = {}
        for group in self._groups:
            chosen, agents = group.chosen(get(get(td, group.name), "action")), group.agents
            actions.update(env._actions_of(td, {*agents}) if chosen is None else zip(agents, chosen, strict=True))
        answer = interface.ask(actions)
        if self._goes_on(answer, interface):
            made = self._packed(answer[0], answer[1])
            if made is not None:
                flags.steps += 1
                return made
        interface.answered = answer
        return env._emit(*env._play(_given, actions), first=False)

    def _goes_on(self, answer: tuple[Any, ...], interface: ParallelInterface) -> bool:
        """Whether an env told something of all its agents and of nobody else, and nobody has ended."""
        known = self._known
        for told in answer:
            if not isinstance(told, dict) or told.keys() != known:
                return False
        flags = [*answer[2].values(), *answer[3].values()]
        return {*map(type, flags)} <= BOOLS and not any(flags) and interface.all_there(self.names)

    def _packed(self, observations: Mapping[str, Any], rewards: Mapping[str, Any]) -> TensorDict | None:
        """The data of a step; None if a value needs a second look."""
        data: dict[str, Any] = {}
        for name, agents, _, _, shape, dtype, number, flags, batch in self._groups:
            seen, got = [observations[agent] for agent in agents], [rewards[agent] for agent in agents]
            for one in seen:
                if type(one) is not np.ndarray or one.dtype is not dtype or one.shape != shape:
                    return None
            total = sum(got) if {*map(type, got)} in PLAIN else None
            if total is None or isnan(total):
                return None
            entries = {
                "observation": torch.from_numpy(np.array(seen)),
                "reward": torch.from_numpy(np.array(got, number).reshape(-1, 1)),
            }
            for flag, value in flags.items():
                entries[flag] = torch.from_numpy(value.copy())
            data[name] = new(entries, batch)
        for flag, value in self._root.items():
            data[flag] = torch.from_numpy(value.copy())
        return new(data, Size())


def _given(actions: dict[str, Any], agents: set[str]) -> dict[str, Any]:
    """All actions: everybody acts."""
    return actions
