"""``JaxAgentsEnv``: the base of wrappers of simulators of agents that are pure functions of one row, in JAX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.seeding import fresh_seed
from marlenv.errors import ShapeError
from marlenv.keys import Path
from marlenv.optional import need
from marlenv.tensordicts import lazy, new
from marlenv.wrappers._batched import BatchedAgentsEnv
from marlenv.wrappers._jax_arrays import td_to_tree, to_jax, to_wider, tree_to_td
from marlenv.wrappers._jax_compiled import CompiledEnv
from marlenv.wrappers._jax_rows import GroupLayout, keys_of
from marlenv.wrappers._rows import rows_of


class JaxAgentsEnv(CompiledEnv, BatchedAgentsEnv):
    """An env around a simulator of agents in JAX, mapped over rows and compiled. Abstract.

    ``_compiled`` gives the functions, for the groups in ``self._groups``. Tensors and JAX's arrays share memory where
    both sides allow it.

    Args:
        env: the simulator's env.
        num_envs: how many rows.
        batch_size: the same as ``[num_envs]``.
        seed: seeds the env.
        **options: see :class:`~marlenv.wrappers._batched.BatchedAgentsEnv`.
    """

    rows_are_chosen: ClassVar[bool] = True
    agents_end = True
    counts_steps: ClassVar[bool] = True

    def __init__(
        self,
        env: Any = None,
        *,
        num_envs: int | None = None,
        batch_size: Iterable[int] | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        who = type(self).__name__
        asked = rows_of(who, batch_size, num_envs)
        batch = Size([1]) if asked is None else asked
        if len(batch) != 1 or batch[0] < 1:
            raise ShapeError(f"{who}: batch_size must be [num_envs], with a row or more, got {list(batch)}")
        super().__init__(env=env, batch_size=batch, seed=fresh_seed() if seed is None else seed, **options)

    def _init_env(self) -> None:
        self._groups = tuple(GroupLayout(path, agents, self._lazy[path]) for path, agents in self.tree.groups.items())
        self._memory: Any = None
        self._acting: dict[Path, Tensor] = {}
        super()._init_env()

    # --- stepping --------------------------------------------------------------------------------

    def sim_reset(self, where: Tensor | None) -> TensorDict:
        if self._memory is None or where is None:
            keys = self._keys if self._memory is None else self._memory["key"]
            self._memory, data = self._functions.start(keys)
        else:
            self._memory, data = self._functions.restart(self._memory, to_jax(where))
        return self._read(data)

    def sim_step(self, tensordict: TensorDictBase) -> TensorDict:
        if self._looks:
            self.check_actions(tensordict, self._acting)
        actions = [
            [to_jax(x) for x in a] if isinstance(a, list) else to_jax(a)
            for a in self.group_actions(tensordict).values()
        ]
        self._memory, data = self._functions.step(self._memory, actions)
        return self._read(data)

    def _read(self, data: Any) -> TensorDict:
        root, stacked = need("jax.tree", type(self).__name__).map(to_wider, data)
        groups = {}
        for (path, agents, lazily), entries in zip(self._groups, stacked, strict=True):
            lead = torch.Size((*self.batch_size, len(agents)))
            groups[path] = lazy([new(x, self.batch_size) for x in entries], 1) if lazily else new(entries, lead)
            self._acting[path] = torch.stack([x["mask"] for x in entries], 1) if lazily else entries["mask"].clone()
        return self.rooted(dict(root), groups)

    # --- randomness and state --------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._keys = keys_of(fresh_seed() if seed is None else seed, self.batch_size[0])
        if self._memory is not None:
            self._memory = {**self._memory, "key": self._keys}

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        self._check_began("get_state")
        return tree_to_td(self._memory, self.batch_size[0], held=True)

    def _set_state(self, state: TensorDictBase) -> TensorDictBase:
        like = self._functions.start(self._keys)[0] if self._memory is None else self._memory
        self._memory = td_to_tree(state, like, f"{type(self).__name__}.set_state", one_row=False)
        self._began = True
        return self._read(self._functions.look(self._memory))
