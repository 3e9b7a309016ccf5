"""PettingZoo's parallel envs (https://pettingzoo.farama.org, tested with 1.27.0 and mpe2 1.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import SpecError
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.wrappers._agents import AgentSpecs, AgentStep
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._pettingzoo_tasks import make_task, tasks
from marlenv.wrappers._spaces import spec_of, start_of

MASK = "action_mask"


class PettingZooWrapper(ParallelSimEnv):
    """A PettingZoo parallel env.

    Per group of ``A`` agents; by name prefix (``"wolf_0"``, ``"wolf_1"`` -> ``"wolf"``) unless ``group_map`` says otherwise:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[A, *obs]` | zeros for an absent agent; a dict space is nested |
    | `action` | `[A, *act]` | played only for living agents |
    | `action_mask` | `[A, n]` | legal actions, where the env says them |
    | `alive`, `mask` | `[A]` | exists and is not done; its action is read |
    | `reward` | `[A, 1]` | |
    | `done`, `terminated`, `truncated` | `[A, 1]` | stay as they were in the agent's last step |
    | `info` | nested | numbers in the infos of the first reset |

    At the root `done`, `terminated`, `truncated` `[1]`, and `state` with ``return_state``.

    Args:
        env: a ``pettingzoo.ParallelEnv``.
        return_state: emit the env's global state.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name.
        use_mask: emit ``alive`` and ``mask``.
        categorical_actions: discrete actions as numbers; else one-hot.
        seed: seeds the first reset.
        done_on_any: whether the episode ends with the first agent that is done (what happens when nothing is said), or
            with the last.
        max_steps: cut episodes off after so many steps.
        device: where the data live.

    >>> from mpe2 import simple_spread_v3
    >>> env = PettingZooWrapper(simple_spread_v3.parallel_env(max_cycles=3))
    >>> env.rollout(5)["next", "agent", "reward"].shape
    torch.Size([3, 3, 1])
    """

    libname: ClassVar[str] = "pettingzoo"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/PettingZoo"

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
        super().__init__(
            env=env,
            group_map=group_map,
            use_mask=use_mask,
            done_on_any=done_on_any,
            max_steps=max_steps,
            device=device,
            **options,
        )
        if seed is not None:
            self.set_seed(seed)

    def _build_env(self, env: Any = None) -> Any:
        zoo = need("pettingzoo", type(self).__name__)
        if not isinstance(env, zoo.ParallelEnv):
            raise SpecError(f"{type(self).__name__}: expected a pettingzoo.ParallelEnv, got {type(env).__name__}")
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        _, infos = self._env.reset()
        self._starts: dict[str, int] = {}
        specs = {}
        for agent in self._env.possible_agents:
            observed, acted = self._env.observation_space(agent), self._env.action_space(agent)
            seen = spec_of(observed, categorical=self.categorical_actions)
            info = dict(infos.get(agent, {}))
            masked = (isinstance(seen, Composite) and MASK in seen) or MASK in info
            if isinstance(seen, Composite) and MASK in seen:
                del seen[MASK]
            info.pop(MASK, None)
            self._starts[agent] = start_of(acted)
            action = spec_of(acted, categorical=self.categorical_actions)
            specs[agent] = AgentSpecs(seen, action, int(acted.n) if masked else None, info_spec(info))
        return specs

    def root_specs(self) -> Composite:
        if not self.return_state:
            return Composite()
        state = torch.as_tensor(np.asarray(self._env.state()))
        return Composite(state=Unbounded(state.shape, dtype=state.dtype))

    def root_data(self) -> Mapping[str, Any]:
        return {"state": self._env.state()} if self.return_state else {}

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        observations, infos = self._env.reset(seed=seed)
        return {a: self._agent_step(o, infos.get(a)) for a, o in observations.items()}

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        played = {a: value + self._starts[a] if self._starts[a] else value for a, value in actions.items()}
        observations, rewards, terminated, truncated, infos = self._env.step(played)
        return {
            a: self._agent_step(o, infos.get(a), rewards.get(a, 0.0), terminated.get(a, False), truncated.get(a, False))
            for a, o in observations.items()
        }

    def _agent_step(
        self, observation: Any, info: Any, reward: Any = 0.0, terminated: bool = False, truncated: bool = False
    ) -> AgentStep:
        mask = None if info is None else info.get(MASK)
        if isinstance(observation, Mapping) and MASK in observation:
            mask = observation[MASK]
        return AgentStep(observation, reward, terminated, truncated, mask, info)


def info_spec(info: Mapping[str, Any]) -> Composite:
    """The specs of the numbers and arrays in an info dict."""
    out = Composite()
    for key, value in info.items():
        if isinstance(value, (bool, int, float, np.ndarray, np.generic, Tensor)):
            array = torch.as_tensor(np.asarray(value))
            out[key] = _unbounded(array)
    return out


def _unbounded(value: Tensor) -> TensorSpec:
    return Unbounded(value.shape, dtype=value.dtype)


class PettingZooEnv(PettingZooWrapper):
    """A PettingZoo task by its name; particle envs are found in mpe2, where they moved.

    Args:
        task: ``"simple_spread_v3"``, ``"mpe/simple_spread_v3"``, or without the version.
        parallel: the parallel interface.
        **options: those of :class:`PettingZooWrapper`, and those of the task (``max_cycles=100``).

    >>> PettingZooEnv("simple_spread", N=4).group_map
    {'agent': ['agent_0', 'agent_1', 'agent_2', 'agent_3']}
    """

    def __init__(self, task: str, parallel: bool = True, **options: Any) -> None:
        own = {"return_state", "group_map", "use_mask", "categorical_actions", "seed", "done_on_any", "max_steps", "device"}
        ours = {name: options.pop(name) for name in own & options.keys()}
        self.task = task
        super().__init__(make_task(task, parallel, options), **ours)

    @classmethod
    def available_envs(cls) -> list[str]:
        """The full names of all tasks."""
        return sorted(tasks())
