"""VMAS (https://github.com/proroklab/VectorizedMultiAgentSimulator, arXiv:2207.03530, tested with 1.5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import SpecError, UnknownName, nearest
from marlenv.groups import GroupTree, MarlGroupMapType, group_specs, resolve
from marlenv.groups.maps import GroupMap, prefix_of
from marlenv.keys import nested
from marlenv.optional import need
from marlenv.specs import Binary, Composite, StackedComposite, Unbounded
from marlenv.tensordicts import get, nest, rows
from marlenv.wrappers._base import EnvWrapper
from marlenv.wrappers._spaces import spec_of
from marlenv.wrappers._vmas import listed, own_generators, reset_rows, side_by_side, spec_of_example


class VmasWrapper(EnvWrapper):
    """A VMAS env, batched as VMAS is.

    Per group of ``A`` agents (``"name_0"``, ``"name_1"`` -> ``"name"``; a lone group ``"agent"`` is called ``"agents"``, and
    there is one group ``"agents"`` if any name has no number): ``observation`` ``[B, A, *]``, ``action``, ``reward``
    ``[B, A, 1]`` and ``info``. At the root ``done``, ``terminated`` and ``truncated`` ``[B, 1]``: a time limit truncates.

    Args:
        env: a VMAS ``Environment``.
        categorical_actions: discrete actions as numbers; else one-hot.
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name.
        seed: seeds the env.
        masked_reset: reset some rows at the cost of a full reset, by putting back what is kept; else row by row.

    >>> VmasEnv("balance", num_envs=3, n_agents=5).rand_step()["next", "agents", "reward"].shape
    torch.Size([3, 5, 1])
    """

    libname: ClassVar[str] = "vmas"
    git_url: ClassVar[str] = "https://github.com/proroklab/VectorizedMultiAgentSimulator"

    def __init__(
        self,
        env: Any = None,
        *,
        categorical_actions: bool = True,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        seed: int | None = None,
        masked_reset: bool = True,
        **options: Any,
    ) -> None:
        self.categorical_actions, self.masked_reset, self._asked_groups = categorical_actions, masked_reset, group_map
        device = options.pop("device", None)
        super().__init__(
            env=env, device=device or getattr(env, "device", None), batch_size=[getattr(env, "num_envs", 1)], **options
        )
        if seed is not None:
            self.set_seed(seed)

    def _build_env(self, env: Any = None) -> Any:
        environment = need("vmas.simulator.environment", type(self).__name__).Environment
        if not isinstance(env, environment):
            raise SpecError(f"{type(self).__name__}: expected a VMAS Environment, got {type(env).__name__}")
        env.terminated_truncated = True  # only then does VMAS tell ends and time limits apart
        self._generators = list(environment.vmas_random_state)
        return env

    def _make_specs(self, env: Any) -> None:
        names = [agent.name for agent in env.agents]
        fits = all(prefix_of(name) != name for name in names)
        by_name = MarlGroupMapType.BY_NAME_PREFIX if fits else MarlGroupMapType.ALL_IN_ONE_GROUP
        default = by_name.get_group_map(names)
        self.group_map = resolve(
            self._asked_groups, names, default={"agents": default["agent"]} if list(default) == ["agent"] else default
        )
        self.tree, self._index = GroupTree(self.group_map), {name: i for i, name in enumerate(names)}
        with own_generators(env, self._generators):
            seen, infos = (listed(x, names) for x in env.get_from_scenario(True, False, True, False))
        acts = [env.get_agent_action_space(agent) for agent in env.agents]
        self.full_observation_spec = self._nest(
            {n: Composite(observation=spec_of_example(o)) for n, o in zip(names, seen, strict=True)}
        )
        for path, agents in self.tree.groups.items():
            known = {k: v for a in agents for k, v in infos[self._index[a]].items()}
            if known:
                lead = (*self.batch_size, len(agents))
                spec = {k: Unbounded((*lead, *v.shape[1:]), dtype=v.dtype, device=env.device) for k, v in known.items()}
                self.full_observation_spec[nested(path)]["info"] = Composite(spec, shape=lead)
        self.full_action_spec = self._nest(
            {
                n: Composite(action=spec_of(a, categorical=self.categorical_actions))
                for n, a in zip(names, acts, strict=True)
            }
        )
        self.full_reward_spec = self._nest({n: Composite(reward=Unbounded((1,))) for n in names})
        flags = ("done", "terminated", "truncated")
        self.full_done_spec = Composite(
            {f: Binary(shape=(*self.batch_size, 1), dtype=torch.bool) for f in flags}, shape=self.batch_size
        )

    def _nest(self, agents: Mapping[str, Composite]) -> Composite:
        return group_specs(self.tree, {n: c.to(self.device) for n, c in agents.items()}, batch_size=self.batch_size)

    # --- stepping --------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else get(tensordict, "_reset")
        sim = self._env
        with own_generators(sim, self._generators):
            if mask is None or bool(mask.all()):
                sim.reset(return_observations=False)
            elif self.masked_reset:
                reset_rows(sim, rows(mask, 1))
            else:
                for i in rows(mask, 1).nonzero().flatten().tolist():
                    sim.reset_at(i, return_observations=False)
            seen, terminated, truncated, infos = sim.get_from_scenario(True, False, True, True)
        return self._packed(seen, None, terminated, truncated, infos)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        sim = self._env
        actions: list[Any] = [None] * len(self._index)
        for path, agents in self.tree.groups.items():
            group, spec = tensordict.get(nested(path)), self.full_action_spec[nested(path)]
            parts = group.unbind(1) if isinstance(group, LazyStackedTensorDict) else None
            for i, name in enumerate(agents):
                action = group.get("action")[:, i] if parts is None else parts[i].get("action")
                if not (self.categorical_actions or sim.continuous_actions):
                    action = spec[:, i]["action"].to_categorical(action)
                actions[self._index[name]] = action if action.ndim > 1 else action.unsqueeze(-1)
        with own_generators(sim, self._generators):
            return self._packed(*sim.step(actions))

    def _packed(self, seen: Any, rewards: Any, terminated: Tensor, truncated: Tensor, infos: Any) -> TensorDict:
        names, batch = list(self._index), self.batch_size
        seen, infos = listed(seen, names), listed(infos, names)
        earned = None if rewards is None else listed(rewards, names)
        out: dict[str, Any] = {"terminated": terminated.unsqueeze(-1), "truncated": truncated.unsqueeze(-1)}
        out["done"] = out["terminated"] | out["truncated"]
        for path, agents in self.tree.groups.items():
            at = [self._index[a] for a in agents]
            spec = self.full_observation_spec[nested(path)]
            entries = [{"observation": seen[i]} for i in at]
            for entry, i in zip(entries, at, strict=True):
                if earned is not None:
                    entry["reward"] = earned[i].unsqueeze(-1)
                if "info" in spec:
                    entry["info"] = {k: infos[i].get(k, leaf[:, 0].zero()) for k, leaf in spec["info"].items()}
            node = out
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = side_by_side(entries, Size((*batch, len(at))), isinstance(spec, StackedComposite))
        return nest(out, batch, self.device)

    def _set_seed(self, seed: int | None) -> None:
        with own_generators(self._env, self._generators):
            self._env.seed(seed)


class VmasEnv(VmasWrapper):
    """A VMAS scenario by its name.

    Args:
        scenario: its name, or a VMAS ``BaseScenario``.
        num_envs: how many rows.
        continuous_actions: forces; else discrete actions.
        max_steps: cut episodes off after so many steps.
        scenario_kwargs: options of the scenario.
        **options: those of :class:`VmasWrapper`, of ``vmas.make_env``, and of the scenario.
    """

    OWN = frozenset({"categorical_actions", "group_map", "masked_reset"})

    def __init__(
        self,
        scenario: Any,
        num_envs: int,
        *,
        continuous_actions: bool = True,
        max_steps: int | None = None,
        seed: int | None = None,
        device: Any = "cpu",
        scenario_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        vmas = need("vmas", "VmasEnv")
        if isinstance(scenario, str) and scenario not in (known := self.available_envs()):
            raise UnknownName(f"VmasEnv: no scenario is called {scenario!r}; {nearest(scenario, known)}")
        ours = {name: options.pop(name) for name in self.OWN & options.keys()}
        given = {**options, **(scenario_kwargs or {})}
        common = {"continuous_actions": continuous_actions, "max_steps": max_steps, "seed": seed, "device": device}
        self.scenario_name = scenario if isinstance(scenario, str) else type(scenario).__name__
        super().__init__(vmas.make_env(scenario, num_envs, **common, **given), seed=seed, **ours)

    @classmethod
    def available_envs(cls) -> list[str]:
        """The names of all scenarios."""
        vmas = need("vmas", "VmasEnv")
        return sorted([*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios])
