"""PettingZoo's parallel and turn-based (AEC) envs (https://pettingzoo.farama.org, tested with 1.27.0 and mpe2 1.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marlenv.errors import SpecError
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.wrappers._agent import AgentStep
from marlenv.wrappers._base import own_options
from marlenv.wrappers._parallel import ParallelSimEnv
from marlenv.wrappers._pettingzoo import OBS, PettingZooBase, mask_of
from marlenv.wrappers._pettingzoo_aec import AECTurns
from marlenv.wrappers._pettingzoo_tasks import make_task, parallel_or_turns, tasks


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
    | `info` | nested | numbers in the infos; zeros where an info lacks them |

    At the root `done`, `terminated`, `truncated` `[1]`, and `state` with ``return_state``.

    Args:
        env: a ``pettingzoo.ParallelEnv`` or a ``pettingzoo.AECEnv``.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; ``"torchrl"`` for TorchRL's default.
        seed: seeds the first reset; every later one gets the next seed of the chain.
        **options: ``return_state`` emits the global state; ``use_mask=False`` leaves out ``alive`` and ``mask``;
            ``categorical_actions=False`` makes discrete actions one-hot; ``done_on_any`` ends the episode with the first
            agent that is done (else with the last; a parallel env with the first, a turn-based one with the last when
            nothing is said); ``max_steps`` truncates; ``info_specs`` names entries of infos that a reset does not give;
            ``unequal`` pads or stacks unequal agents; ``observe="all"`` looks at everybody in
            every step of a turn-based env, and not only at who acts next; ``device``.

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
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if group_map == "torchrl":
            parallel = isinstance(self, ParallelSimEnv)
            group_map = MarlGroupMapType.BY_NAME_PREFIX if parallel else MarlGroupMapType.ONE_GROUP_PER_AGENT
        super().__init__(env=env, group_map=group_map, **options)
        if seed is not None:
            self.set_seed(seed)


class PettingZooParallel(PettingZooWrapper, ParallelSimEnv):
    """A PettingZoo env whose agents act together; made by :class:`PettingZooWrapper`."""

    def sim_reset(self, seed: int | None) -> Mapping[str, AgentStep]:
        seen, infos = self._env.reset(seed=seed)
        return {
            a: AgentStep({OBS: o}, action_mask=mask_of(o, infos.get(a)), info=infos.get(a)) for a, o in seen.items()
        }

    def sim_step(self, actions: dict[str, Any]) -> Mapping[str, AgentStep]:
        seen, rewards, terminated, truncated, infos = self._env.step({a: self.to_sim(a, x) for a, x in actions.items()})
        steps = {}
        for a, o in seen.items():
            info, flags = infos.get(a), (terminated.get(a, False), truncated.get(a, False))
            steps[a] = AgentStep({OBS: o}, rewards.get(a, 0.0), *flags, mask_of(o, info), info)
        return steps


class PettingZooTurns(PettingZooWrapper, AECTurns):
    """A PettingZoo env whose agents act in turn; made by :class:`PettingZooWrapper`."""


class PettingZooEnv(PettingZooWrapper):
    """A PettingZoo task by its name; particle envs are found in mpe2, where they moved.

    Args:
        task: ``"simple_spread_v3"``, ``"mpe/simple_spread_v3"``, or without the version.
        parallel: the parallel interface, or the turn-based one; parallel where the task has it when left out.
        **options: those of :class:`PettingZooWrapper`, and those of the task (``max_cycles=100``).

    >>> PettingZooEnv("simple_spread", N=4).group_map
    {'agent': ['agent_0', 'agent_1', 'agent_2', 'agent_3']}
    """

    def __new__(cls, task: str, parallel: bool | None = None, **options: Any) -> Any:
        return super().__new__(_ParallelTask if parallel_or_turns(task, parallel) else _TurnsTask)

    def __init__(self, task: str, parallel: bool | None = None, **options: Any) -> None:
        self.task, ours = task, own_options(type(self), options)
        super().__init__(make_task(task, parallel_or_turns(task, parallel), options), **ours)

    @classmethod
    def available_envs(cls) -> list[str]:
        """The full names of all tasks."""
        return sorted(tasks())


class _ParallelTask(PettingZooEnv, PettingZooParallel):
    """A task with the parallel interface."""


class _TurnsTask(PettingZooEnv, PettingZooTurns):
    """A task with the turn-based interface."""
