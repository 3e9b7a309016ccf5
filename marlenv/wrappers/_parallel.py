"""``ParallelSimEnv``: the base of wrappers of simulators that step all their agents at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tensordict import TensorDict, TensorDictBase

from marlenv.specs import MultiCategorical, MultiOneHot, TensorSpec
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._agents import ActionsOf, AgentsEnv
from marlenv.wrappers._numbers import added

Actions = dict[str, Any]
Step = Callable[[Actions], Mapping[str, AgentStep]]


class ParallelSimEnv(AgentsEnv):
    """An env around a simulator that steps all its agents at once. Abstract.

    A wrapper writes ``_build_env``, ``agent_specs``, :meth:`sim_reset` and :meth:`sim_step`. Actions reach the
    simulator only for agents that are alive; while nobody is there yet, it is stepped without any.
    """

    skips_frames = True

    @abstractmethod
    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        """Starts an episode; returns what every agent that is there sees."""

    @abstractmethod
    def sim_step(self, actions: Actions) -> Mapping[str, AgentStep]:
        """Plays one action per living agent; an agent that is left out of the answer is gone."""

    def _begin(self, tensordict: TensorDictBase | None) -> TensorDict:
        self._flags.open()
        got = self.sim_reset(self._take_seed())
        self._answers.check_types(got, step=None)
        return self._emit(got, None, first=True)

    def _play(self, actions_of: ActionsOf, source: Any) -> tuple[Mapping[str, AgentStep], None]:
        actions = actions_of(source, self._flags.living)
        if not actions and self._flags.over:  # else, nobody is there yet
            return {}, None
        self._flags.steps += 1
        times, once = self.frame_skip, self._checked_step
        try:
            who = type(self).__name__
            got = once(actions) if times == 1 else repeated(who, once, actions, times, self._agent_specs)
        except BaseException:  # a step that the simulator refuses is none
            self._flags.steps -= 1
            raise
        return got, None

    def _checked_step(self, actions: Actions) -> Mapping[str, AgentStep]:
        got = self.sim_step(actions)
        self._answers.check_types(got, step=self._flags.steps)
        return got


def repeated(
    who: str, step: Step, actions: Actions, times: int, specs: Mapping[str, AgentSpecs]
) -> Mapping[str, AgentStep]:
    """Plays the same actions several times; rewards are added up, everything else is that of the last time.

    It stops early where the same actions make no sense any more: somebody has ended, left or appeared, or an action has
    become illegal.

    Args:
        who: the wrapper, for errors.
        step: plays the actions once.
        actions: agent -> its action.
        times: how often.
        specs: agent -> what it does.
    """
    got = step(actions)
    for _ in range(times - 1):
        go_on = all(_goes_on(got.get(agent), action, specs[agent].action) for agent, action in actions.items())
        if not go_on or len(got) > len(actions):
            break
        before = {agent: _paid(who, agent, None, s) for agent, s in got.items()}
        got = {agent: s._replace(reward=_paid(who, agent, before.get(agent), s)) for agent, s in step(actions).items()}
    return got


def _paid(who: str, agent: str, before: Any, step: AgentStep) -> Any:
    """What an agent was paid until now, in memory of its own: simulators may write to theirs again."""
    return added(who, before, step.reward, f" of agent {agent!r}")


def _goes_on(step: AgentStep | None, action: Any, spec: TensorSpec) -> bool:
    if step is None or step.terminated or step.truncated:
        return False
    if step.action_mask is None:
        return True
    if isinstance(spec, (MultiCategorical, MultiOneHot)):  # the flags of its choices stand one after the other
        sizes = np.ravel(spec.nvec)
        action = np.ravel(action) + sizes.cumsum() - sizes
    return bool(np.all(np.asarray(step.action_mask)[action]))
