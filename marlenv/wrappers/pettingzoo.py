"""PettingZoo's parallel and turn-based (AEC) envs (https://pettingzoo.farama.org, tested with 1.27.0 and mpe2 1.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from marlenv.errors import SpecError
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.wrappers._agents import AgentStep
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._pettingzoo import PettingZooBase
from marlenv.wrappers._pettingzoo_tasks import make_task, parallel_or_turns, tasks
from marlenv.wrappers._turns import Look, Result, TurnSimEnv

OBS = "observation"
TORCHRL = {True: MarlGroupMapType.BY_NAME_PREFIX, False: MarlGroupMapType.ONE_GROUP_PER_AGENT}
"""TorchRL's default groups, for the parallel interface and for the turn-based one."""


class PettingZooWrapper(PettingZooBase):
    """A PettingZoo env, parallel or turn-based.

    Per group of ``A`` agents; by name prefix (``"wolf_0"``, ``"wolf_1"`` -> ``"wolf"``) unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[A, *obs]` | zeros for an absent agent; a dict space is nested |
    | `action` | `[A, *act]` | played only for agents whose `mask` is True |
    | `action_mask` | `[A, n]` | legal actions, where the env says them; all True for those who do not act |
    | `alive`, `mask` | `[A]` | exists and is not done; its action is read |
    | `reward` | `[A, 1]` | what the last step brought, to those who waited too |
    | `done`, `terminated`, `truncated` | `[A, 1]` | stay as they were in the agent's last step |
    | `info` | nested | numbers in the infos of the first reset |

    At the root `done`, `terminated`, `truncated` `[1]`, and `state` with ``return_state``.

    Args:
        env: a ``pettingzoo.ParallelEnv`` or a ``pettingzoo.AECEnv``.
        return_state: emit the env's global state.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; ``"torchrl"`` for TorchRL's default.
        use_mask: emit ``alive`` and ``mask``.
        categorical_actions: discrete actions as numbers; else one-hot.
        seed: seeds the first reset.
        done_on_any: whether the episode ends with the first agent that is done, or with the last. When nothing is said:
            the first of a parallel env, the last of a turn-based one.
        max_steps: cut episodes off after so many steps.
        device: where the data live.
        **options: ``unequal``; and ``observe="all"`` to look at everybody in every step of a turn-based env.

    >>> from mpe2 import simple_spread_v3
    >>> env = PettingZooWrapper(simple_spread_v3.parallel_env(max_cycles=3))
    >>> env.rollout(5)["next", "agent", "reward"].shape
    torch.Size([3, 3, 1])
    """

    def __new__(cls, env: Any = None, **options: Any) -> Any:
        if cls is not PettingZooWrapper:
            return super().__new__(cls)
        zoo = need("pettingzoo", "PettingZooWrapper")
        if isinstance(env, zoo.ParallelEnv):
            return super().__new__(PettingZooParallel)
        if isinstance(env, zoo.AECEnv):
            return super().__new__(PettingZooTurns)
        raise SpecError(f"PettingZooWrapper: expected a pettingzoo.ParallelEnv or AECEnv, got {type(env).__name__}")

    def __init__(
        self,
        env: Any = None,
        *,
        return_state: bool = False,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        use_mask: bool = True,
        categorical_actions: bool = True,
        seed: int | None = None,
        done_on_any: bool | None = None,
        max_steps: int | None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        self.return_state, self.categorical_actions = return_state, categorical_actions
        if group_map == "torchrl":
            group_map = TORCHRL[isinstance(self, ParallelSimEnv)]
        common = {"group_map": group_map, "use_mask": use_mask, "done_on_any": done_on_any, "max_steps": max_steps}
        super().__init__(env=env, device=device, **common, **options)
        if seed is not None:
            self.set_seed(seed)

    def _build_env(self, env: Any = None) -> Any:
        return env


class PettingZooParallel(PettingZooWrapper, ParallelSimEnv):
    """A PettingZoo env whose agents act together; made by :class:`PettingZooWrapper`."""

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        observations, infos = self._env.reset(seed=seed)
        return {
            a: AgentStep({OBS: o}, action_mask=self.mask_of(o, infos.get(a)), info=infos.get(a))
            for a, o in observations.items()
        }

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        played = {a: self.to_sim(a, value) for a, value in actions.items()}
        observations, rewards, terminated, truncated, infos = self._env.step(played)
        steps = {}
        for a, seen in observations.items():
            info = infos.get(a)
            flags = terminated.get(a, False), truncated.get(a, False)
            steps[a] = AgentStep({OBS: seen}, rewards.get(a, 0.0), *flags, self.mask_of(seen, info), info)
        return steps


class PettingZooTurns(PettingZooWrapper, TurnSimEnv):
    """A PettingZoo env whose agents act in turn; made by :class:`PettingZooWrapper`.

    The steps of dead agents (``step(None)``) are done inside: whoever is asked for an action is alive.
    """

    def sim_agents(self) -> list[str]:
        return list(self._env.agents)

    def sim_reset(self, seed: int | None) -> None:
        self._final: dict[str, Look] = {}
        self._env.reset(seed=seed)

    def sim_acting(self) -> set[str]:
        sim = self._env
        over = not sim.agents or sim.terminations[sim.agent_selection] or sim.truncations[sim.agent_selection]
        return set() if over else {sim.agent_selection}

    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        sim = self._env
        ((agent, action),) = actions.items()
        sim.step(self.to_sim(agent, action))
        got = {a: Result(r, bool(sim.terminations[a]), bool(sim.truncations[a])) for a, r in sim.rewards.items()}
        self._final = {a: self.sim_look(a) for a, result in got.items() if result.terminated or result.truncated}
        while sim.agents and (sim.terminations[sim.agent_selection] or sim.truncations[sim.agent_selection]):
            sim.step(None)
        return got

    def sim_look(self, agent: str) -> Look:
        if agent in self._final:  # it has left the simulator; this is what it saw last
            return self._final[agent]
        seen, info = self._env.observe(agent), self._env.infos.get(agent)
        return Look({OBS: seen}, self.mask_of(seen, info), info)


class PettingZooEnv(PettingZooWrapper):
    """A PettingZoo task by its name; particle envs are found in mpe2, where they moved.

    Args:
        task: ``"simple_spread_v3"``, ``"mpe/simple_spread_v3"``, or without the version.
        parallel: the parallel interface, or the turn-based one; parallel where the task has it when left out.
        **options: those of :class:`PettingZooWrapper`, and those of the task (``max_cycles=100``).

    >>> PettingZooEnv("simple_spread", N=4).group_map
    {'agent': ['agent_0', 'agent_1', 'agent_2', 'agent_3']}
    """

    OWN = frozenset(
        {
            "return_state",
            "group_map",
            "use_mask",
            "categorical_actions",
            "seed",
            "done_on_any",
            "max_steps",
            "device",
            "unequal",
            "observe",
        }
    )

    def __new__(cls, task: str, parallel: bool | None = None, **options: Any) -> Any:
        return super().__new__(_ParallelTask if parallel_or_turns(task, parallel) else _TurnsTask)

    def __init__(self, task: str, parallel: bool | None = None, **options: Any) -> None:
        ours = {name: options.pop(name) for name in self.OWN & options.keys()}
        self.task = task
        super().__init__(make_task(task, parallel_or_turns(task, parallel), options), **ours)

    @classmethod
    def available_envs(cls) -> list[str]:
        """The full names of all tasks."""
        return sorted(tasks())


class _ParallelTask(PettingZooEnv, PettingZooParallel):
    """A task with the parallel interface."""


class _TurnsTask(PettingZooEnv, PettingZooTurns):
    """A task with the turn-based interface."""
