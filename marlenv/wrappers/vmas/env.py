"""VMAS (https://github.com/proroklab/VectorizedMultiAgentSimulator, arXiv:2207.03530, tested with 1.5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs.seeding import as_seed, fresh_seed
from marlenv.errors import SpecError, SpecTypeError, UnknownName, nearest, whole
from marlenv.groups.maps import GroupMap, MarlGroupMapType, numbered_groups
from marlenv.optional import need
from marlenv.options import blaming_options
from marlenv.specs.dtypes import usable_device
from marlenv.wrappers._agent import AgentSpecs
from marlenv.wrappers._base import own_options
from marlenv.wrappers._batched import BatchedAgentsEnv
from marlenv.wrappers.vmas.agents import Held, illegal, listed, shaped, specs_of
from marlenv.wrappers.vmas.partial_reset import Generators, reset_rows

SEEDS = 1 << 32  # VMAS takes smaller ones


class VmasWrapper(BatchedAgentsEnv):
    """A VMAS env, batched as VMAS is.

    Per group of ``A`` agents; by name prefix, where a lone group ``"agent"`` is called ``"agents"``, and there is one
    group ``"agents"`` if any name has no number:

    | key | shape | meaning |
    |---|---|---|
    | `observation` | `[B, A, *obs]` | nested where the scenario observes dicts |
    | `action` | `[B, A, *act]` | forces (and messages), or discrete |
    | `reward` | `[B, A, 1]` | |
    | `info` | `[B, A, *]` each | zeros for agents that lack an entry that others of their group have |
    | `done`, `terminated`, `truncated` | `[B, A, 1]` | those of the row: VMAS ends rows, not agents |

    At the root `done`, `terminated` and `truncated` `[B, 1]`: a time limit truncates.

    Args:
        env: a VMAS ``Environment``; from now on it tells ends and time limits apart (``terminated_truncated``).
        categorical_actions: discrete actions as numbers; else one-hot.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name.
        masked_reset: reset some rows at the cost of a full reset, by putting back what is kept; else row by row.
        batch_size: nothing, or ``[num_envs]``; anything else is an error.
        **options: ``seed``, ``device``.

    >>> VmasEnv("balance", num_envs=3, n_agents=5).rollout(2)["next", "agents", "reward"].shape
    torch.Size([3, 2, 5, 1])
    """

    libname: ClassVar[str] = "vmas"
    git_url: ClassVar[str] = "https://github.com/proroklab/VectorizedMultiAgentSimulator"
    rows_are_chosen: ClassVar[bool] = True

    def __init__(
        self,
        env: Any = None,
        categorical_actions: bool = True,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        *,
        masked_reset: bool = True,
        device: Any = None,
        batch_size: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        self.masked_reset, rows_of = masked_reset, [getattr(env, "num_envs", 1)]
        if batch_size is not None and list(batch_size) not in ([], rows_of):
            raise SpecTypeError(
                f"{type(self).__name__}: batch_size must be [num_envs], got {list(batch_size)} for an env with "
                f"num_envs={rows_of[0]}; leave batch_size out"
            )
        given = {"categorical_actions": categorical_actions, "group_map": group_map, "batch_size": rows_of, **options}
        super().__init__(env=env, device=device or getattr(env, "device", None), **given)

    @classmethod
    def _task_names(cls) -> list[str]:
        vmas = need("vmas", "VmasEnv")
        return sorted([*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios])

    def _build_env(self, env: Any = None) -> Any:
        environment = need("vmas.simulator.environment", type(self).__name__).Environment
        if not isinstance(env, environment):
            raise SpecError(f"{type(self).__name__}: expected a VMAS Environment, got {type(env).__name__}")
        env.terminated_truncated = True  # only then does VMAS tell ends and time limits apart
        if env.device != self.device:
            env.to(self.device)
        self._generators = Generators()
        return env

    def default_groups(self, names: Sequence[str]) -> GroupMap:
        return numbered_groups(names)

    def agent_specs(self) -> dict[str, AgentSpecs]:
        with self._generators():
            return specs_of(self._env, self.categorical_actions)

    def sim_reset(self, where: Tensor | None) -> TensorDict:
        if where is None or bool(where.all()):
            with self._generators():
                return self._packed(None, *self._env.reset(return_info=True, return_dones=True))
        with self._generators("partial"):
            return self._packed(None, *reset_rows(self._env, where, self.masked_reset))

    def sim_step(self, tensordict: TensorDictBase) -> TensorDict:
        if self._looks and not self.categorical_actions and not self._env.continuous_actions:
            self.check_actions(tensordict)  # VMAS is given numbers, which it looks at itself
        actions = [a if a.ndim > 1 else a.unsqueeze(-1) for a in self.scatter(tensordict).values()]
        with self._generators():
            try:
                observations, rewards, *rest = self._env.step(actions)
            except AssertionError as error:
                raise illegal(type(self).__name__, self._env, actions, error) from error
        return self._packed(rewards, observations, *rest)

    def _packed(self, rewards: Any, observations: Any, terminated: Tensor, truncated: Tensor, infos: Any) -> TensorDict:
        columns = {"observation": observations, "reward": rewards, "info": infos if self._infos else None}
        listed_by = {name: listed(column, self.agent_names) for name, column in columns.items() if column is not None}
        agents = {a: {name: column[i] for name, column in listed_by.items()} for i, a in enumerate(self.agent_names)}
        for entries in agents.values():
            entries["observation"] = shaped(entries["observation"])
        return self.gather(agents, {"terminated": terminated, "truncated": truncated, "done": terminated | truncated})

    def _set_seed(self, seed: int | None) -> None:
        seed = fresh_seed() if seed is None else seed
        for which, number in (("partial", seed + 1), ("main", seed)):
            with self._generators(which):
                self._env.seed(number % SEEDS)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_env": Held(self._env)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_env": state["_env"].sim})

    def to(self, device: torch.device | str | int) -> Self:  # type: ignore[override]
        """Moves the env and VMAS's world."""
        self._env.to(torch.device(device))
        return super().to(device)


class VmasEnv(VmasWrapper):
    """A VMAS scenario by its name.

    Args:
        scenario: its name, or a VMAS ``BaseScenario``.
        num_envs: how many rows; one when left out.
        continuous_actions: forces; else discrete actions.
        max_steps: cut episodes off after so many steps.
        scenario_kwargs: options of the scenario; one that is in ``options`` too is what it is there.
        **options: those of :class:`VmasWrapper`, of ``vmas.make_env``, and of the scenario.

    Raises:
        UnknownName: there is no such scenario; names the nearest.
        SpecError: ``scenario_kwargs`` has an option of the env, such as ``max_steps``.
    """

    def __init__(
        self,
        scenario: Any,
        num_envs: int | None = None,
        *,
        continuous_actions: bool = True,
        max_steps: int | None = None,
        seed: int | None = None,
        device: Any = "cpu",
        scenario_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        vmas, known = need("vmas", "VmasEnv"), self.available_envs
        rows = 1 if num_envs is None else whole("VmasEnv", "num_envs", num_envs, 1)
        if isinstance(scenario, str) and scenario not in known:
            raise UnknownName(f"VmasEnv: no scenario is called {scenario!r}; {nearest(scenario, known)}")
        ours = own_options(type(self), options)
        if max_steps is not None:
            whole("VmasEnv", "max_steps", max_steps, 1)
        device = usable_device("VmasEnv", "cpu" if device is None else device)
        seed = fresh_seed() if seed is None else as_seed("VmasEnv", seed)
        given = {"num_envs": rows, "continuous_actions": continuous_actions, "max_steps": max_steps, "device": device}
        given["seed"] = seed % SEEDS
        if odd := [name for name in scenario_kwargs or () if name in given]:
            raise SpecError(f"VmasEnv: {odd[0]!r} is an option of the env; pass it by itself, not in scenario_kwargs")
        options = {**(scenario_kwargs or {}), **options}
        self.scenario_name = name = scenario if isinstance(scenario, str) else type(scenario).__name__
        with Generators()(), blaming_options("VmasEnv", name, options):
            sim = vmas.make_env(scenario, **given, **options)
        super().__init__(sim, seed=seed, **ours)
