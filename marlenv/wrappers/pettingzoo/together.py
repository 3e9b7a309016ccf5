"""The usual step of a parallel PettingZoo env, all of whose agents are there and go on: packed at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.stepping import STEP, advance
from marlenv.groups.packing import VECTORS
from marlenv.specs import Categorical, TensorSpec
from marlenv.tensordicts import get, new, raw
from marlenv.wrappers._choices import count_of
from marlenv.wrappers._episode_flags import FLAGS, MASKS, EpisodeFlags
from marlenv.wrappers.pettingzoo.beside import OURS, fit

if TYPE_CHECKING:
    from marlenv.wrappers.pettingzoo.env import PettingZooWrapper

Given = Mapping[str, Any]  # agent by agent

PLAIN = {float, int, np.float64, np.float32}
"""What the rewards of a step may be, all of one kind."""

BOOLS = {bool, np.bool_}
MANY = 1000
"""Choices from here on are looked at one by one."""


class Group(NamedTuple):
    """What the agents of a group see and do."""

    name: str
    agents: tuple[str, ...]
    action: TensorSpec
    are_choices: bool
    numbers: dict[int, np.int64]
    """Choices that are numbers, the first :data:`MANY` of them, as their simulator takes them."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    """Of an observation."""
    reward: np.dtype[Any]
    batch: Size

    def chosen(self, value: Any) -> Iterable[Any] | None:
        """The actions of the agents, as their simulator takes them; None where they are to be looked at."""
        if type(value) is not Tensor or value.shape != self.action.shape:
            return None
        if self.numbers and value.dtype is torch.int64:
            try:
                return [self.numbers[i] for i in value.tolist()]
            except KeyError:
                return None
        return None if self.are_choices else iter(self.action.to_numpy(value))


class Together:
    """Steps one env, and packs what it answers where all agents go on; everything else is left to the env.

    Args:
        env: parallel; its agents observe one plain array each and nothing besides.
    """

    def __init__(self, env: PettingZooWrapper) -> None:
        self.names = env.agent_names
        self._known = set(self.names)
        self._masks = MASKS if env.use_mask else ()
        self._groups = []
        for where, agents, (observation, reward) in env._data.columns or ():
            action = env.full_action_spec[where[0], "action"]
            kinds = observation.shape, observation.dtype, reward.dtype
            choices = isinstance(action, VECTORS) or count_of(action) is not None
            numbers = {i: np.int64(i) for i in range(min(action.n, MANY) if type(action) is Categorical else 0)}
            self._groups.append(Group(where[0], agents, action, choices, numbers, *kinds, Size((len(agents),))))

    def go_on(self, env: PettingZooWrapper, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase] | None:
        """Steps, where nobody ends and nothing is to be looked at; returns the data of the step, and those to go on
        from. None: the env does it, with what the simulator may have answered already.
        """
        plain = raw(td)
        if plain is None or "next" in plain or STEP in plain or td.batch_size or not self._usual(env):
            return None
        actions = self._actions(td)
        made = None if actions is None else self._made(env, actions)
        if made is None:
            return None
        plain["next"] = made
        return td, advance(td, env.plan.reward_tree)

    def step(self, env: PettingZooWrapper, td: TensorDictBase) -> TensorDict | None:
        """What follows on a step; None where nothing was played, for the env to do it."""
        if not self._usual(env):
            return None
        interface: Any = env._interface
        actions = None if interface.answered else self._actions(td) or env._actions_of(td, {*self.names})
        made = None if actions is None else self._made(env, actions)  # :meth:`go_on` has asked already
        return env._emit(*env._play(lambda *_: {}, None), first=False) if made is None else made

    def _usual(self, env: PettingZooWrapper) -> bool:
        """Whether everybody acts, and may go on, and nothing is to be looked at."""
        flags, count = env._flags, len(self.names)
        if env.is_closed or env.run_type_checks or env._auto_reset is not None or env._device is not None:
            return False
        if env.max_steps is not None and flags.steps + 1 >= env.max_steps:
            return False
        if not env._began or flags.ended or len(flags.living) != count or len(env._turn.acting) != count:
            return False
        return not env._answers.unseen[False]  # a first step is looked at whole

    def _actions(self, td: TensorDictBase) -> dict[str, Any] | None:
        """All actions, where they are what they must be; else None."""
        actions: dict[str, Any] = {}
        for group in self._groups:
            inside = raw(get(td, group.name))
            chosen = None if inside is None else group.chosen(inside.get("action"))
            if chosen is None:
                return None
            actions.update(zip(group.agents, chosen, strict=True))
        return actions

    def _made(self, env: PettingZooWrapper, actions: dict[str, Any]) -> TensorDict | None:
        """What follows on actions; None where somebody does not go on, or the answer, which is kept, needs a second
        look.
        """
        interface: Any = env._interface
        answer = interface.ask(actions)
        made = self._packed(env._flags, *answer[:2]) if self._goes_on(interface, answer) else None
        if made is None:
            interface.answered = answer
        else:
            env._flags.steps += 1
        return made

    def _goes_on(self, interface: Any, answer: tuple[Any, ...]) -> bool:
        """Whether an env told something of all its agents and of nobody else, and nobody has ended."""
        for told in answer:
            if not isinstance(told, dict) or told.keys() != self._known:
                return False
        flags = [*answer[2].values(), *answer[3].values()]
        return {*map(type, flags)} <= BOOLS and not any(flags) and interface.all_there(self.names)

    def _packed(self, flags: EpisodeFlags, observations: Given, rewards: Given) -> TensorDict | None:
        """The data of a step; None if a value needs a second look."""
        data: dict[str, Any] = {}
        ends, others = flags.of_all()
        for name, agents, _, _, _, shape, dtype, number, batch in self._groups:
            seen, got = [observations[agent] for agent in agents], [rewards[agent] for agent in agents]
            for one in seen:
                if type(one) is not np.ndarray or one.dtype is not dtype or one.shape != shape:
                    return None
            kinds = {*map(type, got)}
            if len(kinds) != 1 or not kinds <= PLAIN or isnan(sum(got)):
                return None
            entries = {
                "observation": torch.from_numpy(np.array(seen)),
                "reward": torch.from_numpy(np.array(got, number)[:, None]),
            }
            entries.update(zip(FLAGS, ends, strict=False))  # strict would take one more
            entries.update(zip(self._masks, others, strict=False))
            data[name] = new(entries, batch)
        data.update(zip(FLAGS, others, strict=False))
        return new(data, Size())


def together(env: PettingZooWrapper) -> Together | None:
    """What steps an env; None where that is left to it."""
    plain = env.parallel and env.frame_skip == 1 and env._interface.spaces.seen_as_they_are
    return Together(env) if plain and type(env).__module__ == OURS and fit(type(env), [env]) else None
