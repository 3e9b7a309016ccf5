"""Unity's ML-Agents. Not run against a Unity build: tested on the library's own protocol, with a stand-in player.

https://github.com/Unity-Technologies/ml-agents, tested with mlagents-envs 1.1.0.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.error import URLError

import numpy as np
from tensordict import TensorDict, TensorDictBase

from marlenv.errors import ResetError, Unsupported, whole
from marlenv.groups import MarlGroupMapType
from marlenv.specs import Composite
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._agents import ActionsOf, AgentsEnv
from marlenv.wrappers.unity_mlagents import ending
from marlenv.wrappers.unity_mlagents.places import Places
from marlenv.wrappers.unity_mlagents.steps import check, module, specs_of, step_of


class UnityMLAgentsWrapper(AgentsEnv):
    """An env of Unity's ML-Agents.

    Every behaviour is a group; if its agents are in several multi-agent groups, each of those is. Agents are called
    after their group: ``Striker_0``, ``Striker_1``, ...

    | key | shape | meaning |
    |---|---|---|
    | `(group, ...)` | float32 `[A, ...]` | observations by Unity's names, else ``observation_0``, ... |
    | `(group, "discrete_action")` | int32 `[A, n]` | a choice for each branch; one-hot unless ``categorical_actions`` |
    | `(group, "continuous_action")` | float32 `[A, n]` | from -1 to 1 |
    | `(group, "action_mask")` | bool `[A, sum]` | legal choices, branch after branch |
    | `(group, "mask")`, `(group, "alive")` | bool `[A]` | asks for a decision; is there and not done |
    | `(group, "reward")` | float32 `[A, 1]` | since the step before |
    | `(group, "info", "group_reward")` | float32 `[A]` | that of its multi-agent group |
    | `done`, `terminated`, `truncated` | bool `[1]`, in groups `[A, 1]` | truncated where Unity says ``interrupted`` |

    Not run against a Unity build: the tests play a stand-in that speaks ML-Agents' own protocol.

    An agent that asks for no decision keeps its last observation, and its actions are not read. A new agent takes a
    place that nobody had in this episode; see ``max_agents``. A multi-agent group whose id is new takes the places of a
    group that is not there in this episode, because Unity may number them anew at every reset. Unity resets all agents
    or none, and takes its seed when it is started.

    Args:
        env: a ``UnityEnvironment``, or another ``mlagents_envs.base_env.BaseEnv``.
        group_map: group -> agents; behaviours and multi-agent groups when None.
        categorical_actions: choices as numbers; else one-hot.
        max_agents: places in every group, and in a behaviour of which nobody is there at first; as many as there are
            agents at first when left out. Agents without a place are not shown, and do nothing; ``env.left_out`` has
            their ids.
        **options: ``done_on_any`` (whether the first agent that is done ends the episode, or the last), ``use_mask``,
            ``max_steps``, ``device``.

    Raises:
        SpecTypeError: ``env`` is none of ML-Agents'.
        GroupError: agents of a group of ``group_map`` act by entries of other names.
        ResetError: agents are there after a reset, and none of them has a place.

    >>> UnityMLAgentsWrapper.libname
    'unity_mlagents'

    Source: mlagents-envs 1.1.0.
    """

    libname: ClassVar[str] = "unity_mlagents"
    module: ClassVar[str] = "mlagents_envs"
    git_url: ClassVar[str] = "https://github.com/Unity-Technologies/ml-agents"
    can_be_seeded: ClassVar[bool] = False
    default_groups = MarlGroupMapType.BY_NAME_PREFIX

    def __init__(
        self, env: Any = None, *, categorical_actions: bool = False, max_agents: int | None = None, **options: Any
    ) -> None:
        if max_agents is not None:
            whole(type(self).__name__, "max_agents", max_agents, 1)
        self.categorical_actions, self.max_agents = categorical_actions, max_agents
        super().__init__(**options, **({} if env is None else {"env": env}))

    @classmethod
    def _task_names(cls) -> list[str]:
        try:
            return sorted(module("registry", cls.__name__).default_registry)
        except URLError:  # the list is fetched from the network
            return []

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        check(type(self).__name__, kwargs.get("env"))

    def _build_env(self, env: Any = None) -> Any:
        ending.watch(env)
        return env

    def _close_simulator(self) -> None:
        ending.close(self._env)

    # --- agents ----------------------------------------------------------------------------------

    def agent_specs(self) -> dict[str, AgentSpecs]:
        """Resets Unity to see who is there; returns what each agent observes and does."""
        self._env.reset()
        seen: dict[str, dict[int, int]] = {}
        for behaviour in self._env.behavior_specs:
            steps, _ = self._env.get_steps(behaviour)
            groups = [int(group) for group in steps.group_id]
            seen[behaviour] = {group: groups.count(group) for group in groups}
        self._places = Places(seen, self.max_agents)
        return {
            name: specs
            for behaviour, spec in self._env.behavior_specs.items()
            for specs in (specs_of(spec, categorical=self.categorical_actions),)
            for name in self._places.names(behaviour)
        }

    @property
    def left_out(self) -> set[int]:
        """Unity's ids of the agents that have no place in this episode."""
        return self._places.left_out

    # --- an episode ------------------------------------------------------------------------------

    def _begin(self, tensordict: TensorDictBase | None) -> TensorDict:
        self._flags.open()
        self._places.open()
        self._last: dict[str, AgentStep] = {}
        self._env.reset()
        got, asking = self._read(first=True)
        if self.left_out and not got:
            raise ResetError(
                f"{type(self).__name__}.reset: none of the {len(self.left_out)} agents that are there has a place; "
                f"places were made for {self.agent_names} when the env was made, give every behaviour more by "
                f"max_agents="
            )
        return self._emit(got, asking, first=True)

    def _play(self, actions_of: ActionsOf, source: Any) -> tuple[dict[str, AgentStep], set[str]]:
        actions = actions_of(source, self._acting) if self._acting else {}
        for behaviour, spec in self._env.behavior_specs.items():
            steps, _ = self._env.get_steps(behaviour)
            if not len(steps):
                continue
            chosen = spec.action_spec.empty_action(len(steps))
            for row, one in enumerate(steps.agent_id):
                own = actions.get(self._places.known(int(one)) or "", {})
                if "continuous_action" in own:
                    chosen.continuous[row] = np.asarray(own["continuous_action"])
                if "discrete_action" in own:
                    chosen.discrete[row] = np.asarray(own["discrete_action"])
            self._env.set_actions(behaviour, chosen)
        self._env.step()
        self._flags.steps += 1
        return self._read(first=False)

    @staticmethod
    def _action_entries(specs: AgentSpecs) -> Composite:
        return specs.action if isinstance(specs.action, Composite) else Composite(action=specs.action)

    def _actions_of(self, tensordict: TensorDictBase, agents: set[str]) -> dict[str, Any]:
        """The actions of some agents, continuous and discrete ones apart."""
        return self._choices.checked(self._action_packer.unpack(tensordict, agents, as_vectors=True))

    def _read(self, *, first: bool) -> tuple[dict[str, AgentStep], set[str]]:
        """What the agents got since the step before, decisions and last steps, and who is asked for a decision."""
        got: dict[str, AgentStep] = {}
        asking: set[str] = set()
        for behaviour, spec in self._env.behavior_specs.items():
            decisions, ends = self._env.get_steps(behaviour)
            self._places.meet(behaviour, {int(g) for g in (*(() if first else ends.group_id), *decisions.group_id)})
            for row, one in enumerate(() if first else ends.agent_id):
                name = self._places.of(int(one), (behaviour, int(ends.group_id[row])))
                if name is not None and name not in self._flags.ended:
                    cut = bool(ends.interrupted[row])
                    got[name] = step_of(spec, ends, row)._replace(terminated=not cut, truncated=cut)
            for row, one in enumerate(decisions.agent_id):
                name = self._places.of(int(one), (behaviour, int(decisions.group_id[row])))
                if name is None or name in got or name in self._flags.ended:
                    continue
                masks = decisions.action_mask
                legal = None if masks is None else np.concatenate([~np.asarray(m[row], dtype=bool) for m in masks])
                got[name] = step_of(spec, decisions, row)._replace(action_mask=legal)
                asking.add(name)
        for name in self._flags.living - got.keys():  # who neither asks nor ends
            got[name] = self._last[name]._replace(reward=0.0, info={"group_reward": 0.0}, action_mask=None)
        self._last, self._acting = got, asking
        return got, asking

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            raise Unsupported(
                f"{type(self).__name__}.set_seed: Unity takes its seed when it is started; pass seed= to "
                f"UnityMLAgentsEnv or to UnityEnvironment"
            )
