"""``BatchedAgentsEnv``: the base of wrappers of simulators that step a batch of copies of their world."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import whole
from marlenv.groups import GroupTree, MarlGroupMapType, group_specs, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.side_by_side import COLUMNS, check_rewards, fitted, side_by_side
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.specs import Binary, Composite, StackedComposite, TensorSpec, Unbounded
from marlenv.tensordicts import get, nest, parts, plant, rows
from marlenv.wrappers._agent import AgentSpecs, all_observations, check_named, with_shared_infos
from marlenv.wrappers._answers import checked_specs
from marlenv.wrappers._roster import AgentsWrapper


class BatchedAgentsEnv(AgentsWrapper):
    """An env around a simulator that steps a batch of copies of its world. Abstract.

    Args:
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; :meth:`default_groups` when None.
        categorical_actions: discrete actions as numbers; else one-hot.
        max_steps: cut episodes off after so many steps.
        seed: seeds the env.
        **options: see :class:`~marlenv.wrappers._base.EnvWrapper`.
    """

    def __init__(
        self,
        *,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        categorical_actions: bool = True,
        max_steps: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        if max_steps is not None:
            whole(type(self).__name__, "max_steps", max_steps, 1)
        self._asked_groups, self.categorical_actions, self.max_steps = group_map, categorical_actions, max_steps
        super().__init__(**options)
        if seed is not None:
            self.set_seed(seed)

    # --- hooks -----------------------------------------------------------------------------------

    @abstractmethod
    def agent_specs(self) -> dict[str, AgentSpecs]:
        """Agent name -> what it sees and does, without batch dimensions, in the simulator's order."""

    def default_groups(self, names: Sequence[str]) -> GroupMap:
        """The groups when nothing is said."""
        return MarlGroupMapType.BY_NAME_PREFIX.get_group_map(names)

    def root_specs(self) -> Composite:
        """What is observed of the whole world, without batch dimensions."""
        return Composite()

    agents_end = False
    """Whether agents have flags of their own, and ``alive`` and ``mask``."""
    skips_frames = False

    @abstractmethod
    def sim_reset(self, where: Tensor | None) -> TensorDict:
        """Resets the rows that ``where`` (bool ``[B]``) marks, all of them when None; returns the data of all rows."""

    @abstractmethod
    def sim_step(self, tensordict: TensorDictBase) -> TensorDict:
        """Plays the actions in ``tensordict``; returns the data of all rows."""

    # --- specs -----------------------------------------------------------------------------------

    def _make_specs(self, env: Any) -> None:
        agents, batch = checked_specs(type(self).__name__, self.agent_specs()), self.batch_size
        self.agent_names = names = list(agents)
        whole = {a: Composite(observations=s.observations, action=s.action) for a, s in agents.items()}
        self.group_map = resolve(self._asked_groups, names, default=self.default_groups(names), specs=whole)
        self.tree = GroupTree(self.group_map)
        agents = with_shared_infos(self.tree, agents)
        masks = dict.fromkeys(("alive", "mask"), Binary(shape=(), dtype=torch.bool)) if self.agents_end else {}
        observed = {a: {**all_observations(specs), **masks} for a, specs in agents.items()}
        self._infos = {
            a: dict(s.info.items()) for a, s in agents.items() if s.info is not None and "info" in observed[a]
        }
        root, flat = self.root_specs(), Unbounded((1,), dtype=torch.float32)
        self.full_observation_spec = self._grouped(observed).update(root.expand(*batch, *root.shape))
        self.full_action_spec = self._grouped({a: {"action": s.action} for a, s in agents.items()})
        self.full_reward_spec = self._grouped({a: {"reward": s.reward or flat} for a, s in agents.items()})
        flags = dict.fromkeys(DONE_NAMES, Binary(shape=(1,), dtype=torch.bool))
        done = self._grouped(dict.fromkeys(names, flags)) if self.agents_end else Composite(shape=batch)
        self.full_done_spec = done.update(Composite(dict(flags)).expand(*batch))
        self._lazy = {p: isinstance(self.full_observation_spec[nested(p)], StackedComposite) for p in self.tree.groups}

    def _grouped(self, agents: Mapping[str, Mapping[str, TensorSpec]]) -> Composite:
        specs = {a: Composite(dict(entries)).to(self.device) for a, entries in agents.items()}
        return group_specs(self.tree, specs, batch_size=self.batch_size)

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        mask = get(tensordict, "_reset") if self._began and tensordict is not None else None
        out = self.sim_reset(None if mask is None else rows(mask, 1))
        self._began = True
        return out

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._check_began("step")
        out = self.sim_step(tensordict)
        if self.device is None or self.device.type == "cpu" or self.run_type_checks:  # a look at the device costs
            check_rewards(type(self).__name__, self.tree, out)
        return out

    # --- data ------------------------------------------------------------------------------------

    def gather(self, agents: Mapping[str, dict[str, Any]], root: Mapping[str, Any]) -> TensorDict:
        """The tensordict ``[B]`` of one moment.

        Args:
            agents: agent -> its entries ``[B, ...]``, nested dicts for nested ones; rewards and flags ``[B]``. Entries
                of ``info`` that an agent lacks become zeros, those that have no spec are left out.
            root: entries of the root ``[B, ...]``; flags ``[B]``.

        Raises:
            GroupError: an agent that :meth:`agent_specs` did not name.
        """
        check_named(type(self).__name__, agents, self.tree.place)
        out: dict[str, Any] = {k: v.unsqueeze(-1) if k in COLUMNS else v for k, v in root.items()}
        for a, specs in self._infos.items():
            infos = agents[a].get("info") or {}
            agents[a]["info"] = {
                name: fitted(infos.get(name), spec, self.batch_size, self.device) for name, spec in specs.items()
            }
        groups = {
            path: side_by_side([agents[a] for a in members], self.batch_size, self._lazy[path])
            for path, members in self.tree.groups.items()
        }
        return self.rooted(out, groups)

    def rooted(self, root: dict[str, Any], groups: Mapping[Path, Any]) -> TensorDict:
        """The tensordict ``[B]`` of the root's entries and the groups' tensordicts."""
        for path, data in groups.items():
            plant(root, path, data)
        made = nest(root, self.batch_size)
        return made if self.device is None else made.to(self.device)

    def group_actions(self, td: TensorDictBase) -> dict[Path, Tensor | list[Tensor]]:
        """Group -> its actions ``[B, A, ...]``, one-hot ones as numbers; a tensor per agent where they are stacked
        lazily.
        """
        found: dict[Path, Tensor | list[Tensor]] = {}
        for path in self.tree.groups:
            spec: Any = self.full_action_spec[nested(path)]
            group: Any = td
            for name in path:
                group = get(group, name)
            if (stack := parts(group)) is not None or self._lazy[path]:
                columns = [get(one, "action") for one in (group.unbind(1) if stack is None else stack)]
                specs = [part["action"] for part in spec.unbind(1)]
                found[path] = [self._as_numbers(s, c) for s, c in zip(specs, columns, strict=True)]
            else:
                found[path] = self._as_numbers(spec["action"], get(group, "action"))
        return found

    def scatter(self, td: TensorDictBase) -> dict[str, Tensor]:
        """Agent -> its action ``[B, ...]``, one-hot ones as numbers."""
        actions: dict[str, Tensor] = {}
        for path, action in self.group_actions(td).items():
            columns = action if isinstance(action, list) else action.unbind(1)
            actions.update(zip(self.tree.groups[path], columns, strict=True))
        return {name: actions[name] for name in self.agent_names}

    def _as_numbers(self, spec: Any, action: Tensor) -> Tensor:
        discrete = not self.categorical_actions and hasattr(spec, "to_categorical")
        return spec.to_categorical(action) if discrete else action
