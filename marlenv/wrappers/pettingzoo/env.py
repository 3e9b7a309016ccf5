"""PettingZoo's parallel and turn-based (AEC) envs (https://pettingzoo.farama.org, tested with 1.27.0 and mpe2
1.1.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tensordict import TensorDict, TensorDictBase

from marlenv.envs.seeding import as_seed, next_seed
from marlenv.errors import SpecError
from marlenv.groups.maps import GroupMap, MarlGroupMapType
from marlenv.optional import need
from marlenv.options import blaming_options
from marlenv.specs import Composite, TensorSpec
from marlenv.wrappers._agent import AgentSpecs, AgentStep
from marlenv.wrappers._base import option_names, own_options
from marlenv.wrappers._turns import Result, TurnSimEnv
from marlenv.wrappers.pettingzoo.answers import check_interface, checked_options, first_infos, state_spec
from marlenv.wrappers.pettingzoo.beside import side_by_side
from marlenv.wrappers.pettingzoo.interfaces import Interface, ParallelInterface, TurnsInterface
from marlenv.wrappers.pettingzoo.spaces import AgentSpaces
from marlenv.wrappers.pettingzoo.tasks import find_task, make_task, parallel_or_turns, tasks
from marlenv.wrappers.pettingzoo.together import together

SEEDS = 1 << 31  # some envs take no larger ones


class PettingZooWrapper(TurnSimEnv):
    """A PettingZoo env, parallel or turn-based.

    Per group of ``A`` agents; by name prefix (``"wolf_0"``, ``"wolf_1"`` -> ``"wolf"``) unless ``group_map`` says
    otherwise:

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
        return_state: emit the env's global state.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; ``"torchrl"`` for TorchRL's
            default.
        use_mask: False leaves out ``alive`` and ``mask``.
        categorical_actions: discrete actions as numbers; else one-hot.
        seed: seeds the first reset; every later one gets the next seed of the chain.
        done_on_any: end the episode with the first agent that is done, else with the last; a parallel env ends with the
            first and a turn-based one with the last when left out.
        info_specs: entries of the agents' infos that come later than in a reset, an ``action_mask`` among them; those
            of a reset are found out.
        **options: ``max_steps`` truncates; ``unequal`` pads or stacks unequal agents; ``observe="all"`` looks at
            everybody in every step of a turn-based env, and not only at who acts next; ``frame_skip`` plays actions of
            a parallel env several times; ``device``.

    >>> from mpe2 import simple_spread_v3
    >>> env = PettingZooWrapper(simple_spread_v3.parallel_env(max_cycles=3))
    >>> env.rollout(5)["next", "agent", "reward"].shape
    torch.Size([3, 3, 1])
    """

    libname: ClassVar[str] = "pettingzoo"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/PettingZoo"
    drops_infos = True
    _side_by_side = classmethod(side_by_side)
    _asked_options: Mapping[str, Any] | None = None
    """What the last ``reset`` was told."""

    def __init__(
        self,
        env: Any = None,
        return_state: bool = False,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        use_mask: bool = True,
        categorical_actions: bool = True,
        seed: int | None = None,
        done_on_any: bool | None = None,
        *,
        info_specs: Mapping[str, TensorSpec] | None = None,
        **options: Any,
    ) -> None:
        zoo = need("pettingzoo", type(self).__name__)
        if not isinstance(env, (zoo.ParallelEnv, zoo.AECEnv)):
            who = type(self).__name__
            raise SpecError(f"{who}: expected a pettingzoo.ParallelEnv or AECEnv, got {type(env).__name__}")
        parallel = isinstance(env, zoo.ParallelEnv)  # whose agents are all looked at anew in every step
        self.parallel = self.skips_frames = self.looks_are_own = parallel
        self.return_state, self.categorical_actions, self.info_specs = return_state, categorical_actions, info_specs
        if group_map == "torchrl":
            group_map = MarlGroupMapType.BY_NAME_PREFIX if self.parallel else MarlGroupMapType.ONE_GROUP_PER_AGENT
        any_ends = self.parallel if done_on_any is None else done_on_any
        super().__init__(env=env, group_map=group_map, use_mask=use_mask, done_on_any=any_ends, **options)
        self._answers.declares = "info_specs={{'action_mask': Binary({})}}"
        self._together = together(self)
        self.seed = seed
        if seed is not None:
            self.set_seed(seed)

    @classmethod
    def _task_names(cls) -> list[str]:
        return sorted(tasks())

    def _build_env(self, env: Any = None) -> Any:
        return env

    def agent_specs(self) -> dict[str, AgentSpecs]:
        sim, who = self._env, type(self).__name__
        check_interface(who, sim)
        infos = first_infos(who, sim, parallel=self.parallel)
        spaces = AgentSpaces(who, sim, infos, self.categorical_actions, self.info_specs)
        self._interface: Interface = (
            ParallelInterface(sim, spaces, self.frame_skip) if self.parallel else TurnsInterface(sim, spaces)
        )
        return spaces.specs

    def root_specs(self) -> Composite:
        return Composite({"state": state_spec(type(self).__name__, self._env)} if self.return_state else {})

    def root_data(self) -> Mapping[str, Any]:
        return {"state": self._env.state()} if self.return_state else {}

    def _take_seed(self) -> int | None:
        """A seed for every reset: some envs draw the later ones from the operating system when they get none."""
        seed = self._sim_seed
        if seed is None:
            return None
        self._sim_seed = next_seed(seed)
        return seed % SEEDS

    # --- an episode ------------------------------------------------------------------------------

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        made = self._together.go_on(self, tensordict) if self._together is not None else None
        return super().step_and_maybe_reset(tensordict) if made is None else made

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        made = self._together.step(self, tensordict) if self._together is not None else None
        return super()._step(tensordict) if made is None else made

    def _reset(self, tensordict: TensorDictBase | None, *, seed: int | None = None, options: Any = None) -> TensorDict:
        """Starts an episode; ``seed`` as :meth:`set_seed`, ``options`` as PettingZoo's ``reset`` takes them."""
        if seed is not None:
            self._set_seed(as_seed(type(self).__name__, seed))
        self._asked_options = checked_options(type(self).__name__, options)
        return super()._reset(tensordict)

    def reset_options(self, tensordict: TensorDictBase | None) -> dict[str, Any]:
        return {} if self._asked_options is None else {"options": self._asked_options}

    def sim_reset(self, seed: int | None, options: Mapping[str, Any] | None = None) -> None:
        self._interface.reset(seed, {} if options is None else {"options": dict(options)})

    def sim_agents(self) -> list[str]:
        return self._interface.agents()

    def sim_acting(self) -> set[str]:
        return self._interface.acting()

    def sim_play(self, actions: dict[str, Any]) -> Mapping[str, Result]:
        return self._interface.play(actions)

    def sim_look(self, agent: str) -> AgentStep:
        return self._interface.look(agent)


class PettingZooEnv(PettingZooWrapper):
    """A PettingZoo task by its name; particle envs are found in mpe2, where they moved.

    Args:
        task: ``"simple_spread_v3"``, ``"mpe/simple_spread_v3"``, or without the version.
        parallel: the parallel interface, or the turn-based one; parallel where the task has it when left out.
        **options: those of :class:`PettingZooWrapper`, and those of the task (``max_cycles=100``).

    >>> PettingZooEnv("simple_spread", N=4).group_map
    {'agent': ['agent_0', 'agent_1', 'agent_2', 'agent_3']}
    """

    def __init__(
        self,
        task: str,
        parallel: bool | None = None,
        return_state: bool = False,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        use_mask: bool = True,
        categorical_actions: bool = True,
        seed: int | None = None,
        done_on_any: bool | None = None,
        **options: Any,
    ) -> None:
        self.task_name, ours = task, own_options(type(self), options)
        sim = make_task(task, parallel_or_turns(task, parallel), options, option_names(type(self)))
        with blaming_options("PettingZooEnv", find_task(task), options):  # some are looked at in the first reset
            super().__init__(sim, return_state, group_map, use_mask, categorical_actions, seed, done_on_any, **ours)
