"""``BatchedAgentsEnv``: the base of wrappers of simulators that step a batch of copies of their world."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import ShapeError, whole
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.groups.side_by_side import check_rewards, side_by_side
from marlenv.keys import DONE_NAMES, nested
from marlenv.specs import Binary, Composite, StackedComposite
from marlenv.tensordicts import get, rows
from marlenv.wrappers._agent import AgentSpecs, check_named, with_shared_infos
from marlenv.wrappers._answers import checked_specs, observed_by, paid_by
from marlenv.wrappers._batched_data import BatchedData, Moment, answered
from marlenv.wrappers._batched_groups import BatchedGroups


class BatchedAgentsEnv(BatchedGroups):
    """An env around a simulator that steps a batch of copies of its world. Abstract.

    Args:
        group_map: group -> agents, a :class:`~marlenv.MarlGroupMapType` or its name; :meth:`default_groups` when None.
        categorical_actions: discrete actions as numbers; else one-hot.
        max_steps: cut episodes off after so many steps, row by row.
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
    """Whether agents have flags of their own, and ``alive`` and ``mask``; else their flags are those of their row."""
    counts_steps: ClassVar[bool] = False
    """Whether the simulator itself cuts off after ``max_steps``; :meth:`gather` does it otherwise."""
    skips_frames = False
    row_steps: Tensor
    """How many steps of its episode each row has played, int64 ``[B]``, while there are ``max_steps``: a part of the
    state, for envs that give that away.
    """
    _playing = False
    """Whether a step is under way."""

    @abstractmethod
    def sim_reset(self, where: Tensor | None) -> TensorDict:
        """Resets the rows that ``where`` (bool ``[B]``) marks, all of them when None; returns the data of all rows."""

    @abstractmethod
    def sim_step(self, tensordict: TensorDictBase) -> TensorDict:
        """Plays the actions in ``tensordict``; returns the data of all rows."""

    # --- specs -----------------------------------------------------------------------------------

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        if self.rows_are_chosen:
            self._check_batch(f"give batch_size=[{self.batch_size.numel() or 1}], say")

    def _check_batch(self, instead: str) -> None:
        if len(self.batch_size) != 1:
            who, got = type(self).__name__, list(self.batch_size)
            raise ShapeError(f"{who}: batch_size must be [n], the number of rows, got {got}; {instead}")

    def _make_specs(self, env: Any) -> None:
        self._check_batch("_build_env sets self.batch_size, or the class says rows_are_chosen = True")
        agents, batch = checked_specs(type(self).__name__, self.agent_specs()), self.batch_size
        self.agent_names = names = list(agents)
        whole = {a: Composite(observations=s.observations, action=s.action) for a, s in agents.items()}
        self.group_map = resolve(self._asked_groups, names, default=self.default_groups(names), specs=whole)
        self.tree = GroupTree(self.group_map)
        agents = with_shared_infos(self.tree, agents)
        observed = observed_by(type(self).__name__, agents, masks=self.agents_end)
        self._infos = {
            a: dict(s.info.items()) for a, s in agents.items() if s.info is not None and "info" in observed[a]
        }
        root, rewards = self.root_specs(), paid_by(type(self).__name__, self.tree, agents, None)
        self._data = BatchedData(batch, observed, self._infos, rewards, root, ends=self.agents_end)
        self.row_steps = torch.zeros(batch, dtype=torch.int64, device=self.device)
        self.full_observation_spec = self._grouped(observed).update(root.expand(*batch, *root.shape))
        self.full_action_spec = self._grouped({a: {"action": s.action} for a, s in agents.items()})
        self.full_reward_spec = self._grouped({a: {"reward": spec} for a, spec in rewards.items()})
        flags = dict.fromkeys(DONE_NAMES, Binary(shape=(1,), dtype=torch.bool))
        done = self._grouped(dict.fromkeys(names, flags))
        self.full_done_spec = done.update(Composite(dict(flags)).expand(*batch))
        self._lazy = {p: isinstance(self.full_observation_spec[nested(p)], StackedComposite) for p in self.tree.groups}

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDict:
        mask = get(tensordict, "_reset") if self._began and tensordict is not None else None
        where = None if mask is None else rows(mask, 1)
        if self._limit is not None:
            fresh = torch.zeros_like(self.row_steps)
            self.row_steps = fresh if where is None else self.row_steps.to(where.device).masked_fill(where, 0)
        out = answered(type(self).__name__, "sim_reset", self.sim_reset(where))
        self._began = True
        return out

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        self._check_began("step")
        before, self._playing = self.row_steps, True
        if self._limit is not None:
            self.row_steps = before + 1
        try:
            out = answered(type(self).__name__, "sim_step", self.sim_step(tensordict))
        except BaseException:  # a step that the simulator refuses is none
            self.row_steps = before
            raise
        finally:
            self._playing = False
        if self._looks:
            check_rewards(type(self).__name__, self.tree, out)
        return out

    @property
    def _limit(self) -> int | None:
        """After how many steps rows are cut off here."""
        return None if self.counts_steps else self.max_steps

    @property
    def _looks(self) -> bool:
        return self.device is None or self.device.type == "cpu" or self.run_type_checks  # a look at the device costs

    # --- data ------------------------------------------------------------------------------------

    def gather(self, agents: Mapping[str, Mapping[str, Any]], root: Mapping[str, Any]) -> TensorDict:
        """The tensordict ``[B]`` of one moment, in memory of its own, with the time limit in its flags.

        Args:
            agents: agent -> its entries ``[B, ...]``, nested dicts for nested ones; rewards and flags ``[B]``. All that
                is declared is needed, and no more; but entries of ``info`` that an agent lacks become zeros (or the
                value of their spec nearest to zero), and those that have no spec are left out. Numbers become floats
                where the spec has floats.
            root: entries of the root ``[B, ...]``; flags ``[B]``: ``terminated`` and ``truncated`` in a step; ``done``
                follows.

        Raises:
            GroupError: an agent that :meth:`agent_specs` did not name.
            KeyMissing: an agent, one of its entries or one of the root's, or the flags of a step, are not there.
            SpecTypeError: a value that is no tensor.
            SpecError: an entry that has no spec; ``done`` is not ``terminated | truncated``.
            ShapeError, DtypeError: a value that does not fit its spec.
        """
        check_named(type(self).__name__, agents, self.tree.place)
        late = None if self._limit is None else self.row_steps.unsqueeze(-1) >= self._limit
        now = Moment(type(self).__name__, self._playing, late, self._looks, self.device)
        entries, whole = self._data.of_all(now, self.agent_names, agents, root)
        groups = {
            path: side_by_side([entries[a] for a in members], self.batch_size, self._lazy[path])
            for path, members in self.tree.groups.items()
        }
        return self.rooted(whole, groups)

    rooted, scatter, group_actions = BatchedGroups.rooted, BatchedGroups.scatter, BatchedGroups.group_actions
