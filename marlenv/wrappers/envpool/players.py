"""``Players``: what the players of an EnvPool task observe and do; EnvPool gives them one by one, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups import MarlGroupMapType
from marlenv.groups.maps import GroupMap
from marlenv.keys import NestedKey, nested
from marlenv.specs import Binary, Composite, OneHot
from marlenv.wrappers._agent_columns import AgentColumns
from marlenv.wrappers._choices import check_choices
from marlenv.wrappers.envpool.specs import Observed, acted

Arrays = dict[NestedKey, Tensor]
"""What is observed, by the keys of its spec."""


class Players:
    """The players of a pool.

    Args:
        who: the wrapper, for errors.
        env: the pool.
        group_map: group -> players; one group ``agents`` when None.
        categorical: actions as numbers; else one-hot.
    """

    def __init__(
        self, who: str, env: Any, group_map: GroupMap | MarlGroupMapType | str | None, *, categorical: bool
    ) -> None:
        self.who = who
        self.count, self.categorical = int(env.config["max_num_players"]), categorical
        self.columns = AgentColumns([f"player_{i}" for i in range(self.count)], group_map)
        self.space, self.seen = env.spec.action_space, Observed(env.spec.observation_space).spec
        self.turns = any(key.endswith("current_player") for key in env.spec._state_keys)
        self.masked = any(key.endswith("legal_action_mask") for key in env.spec._state_keys)
        self.key = next(key for key in env.spec._action_keys if key.rpartition(".")[2] == "action")
        self.dtype = env.spec.action_array_spec[self.key].dtype

    # --- specs -----------------------------------------------------------------------------------

    def observations(self) -> Composite:
        """What the groups observe, in one row."""
        self.dtypes = {name: spec.dtype for name, spec in self.seen.items()}
        entries = {name: spec.expand(self.count, *spec.shape) for name, spec in self.seen.items()}
        if self.masked:
            entries["action_mask"] = Binary(shape=(self.count, int(self.space.n)), dtype=torch.bool)
        return self.columns.observations(Composite(entries), list(entries))

    def actions(self) -> Composite:
        """What the groups do, in one row."""
        one = acted(self.space, categorical=self.categorical)
        self.specs = self.columns.actions(one.expand(self.count, *one.shape))
        return self.specs.clone()

    # --- data ------------------------------------------------------------------------------------

    def read(self, seen: Any, info: dict[str, Any]) -> Arrays:
        """What the players of some rows observe, side by side ``[rows, n, ...]``; zeros of those who are not there."""
        named = seen if isinstance(seen, dict) else {"observation": seen}
        row, column = self._places(info)
        rows = len(info["env_id"])
        data: Arrays = {}
        for name, value in named.items():
            whole = torch.zeros(rows, self.count, *value.shape[1:], dtype=self.dtypes[name])
            whole[row, column] = torch.from_numpy(np.ascontiguousarray(value)).to(whole.dtype)
            data[name] = whole
        acting = torch.zeros(rows, self.count, dtype=torch.bool)
        acting[row, column] = True
        if self.turns:
            acting &= torch.from_numpy(np.array(info["current_player"])).unsqueeze(-1) == torch.arange(self.count)
        if self.masked:
            legal = torch.from_numpy(np.array(info["legal_action_mask"], dtype=bool)).unsqueeze(1)
            data["action_mask"] = legal | ~acting.unsqueeze(-1) | ~legal.any(-1, keepdim=True)
        data["acting"] = acting
        return data

    def rewards(self, reward: Any, info: dict[str, Any]) -> Tensor:
        """The rewards of the players of some rows, ``[rows, n]``."""
        whole = torch.zeros(len(info["env_id"]), self.count)
        whole[self._places(info)] = torch.from_numpy(np.asarray(reward, dtype=np.float32))
        return whole

    def _places(self, info: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The row and the column of everybody in the pool's list."""
        of, ids = np.asarray(info["players"]["env_id"]), list(info["env_id"])
        row = np.array([ids.index(one) for one in of], dtype=np.int64)
        column = info["players"].get("id")
        if column is None:  # in order
            order = np.argsort(of, kind="stable")
            column = np.empty_like(order)
            column[order] = np.arange(len(of)) - np.searchsorted(of[order], of[order])
        return torch.from_numpy(row), torch.from_numpy(np.asarray(column, dtype=np.int64))

    def told(self, tensordict: TensorDictBase, rows: Tensor, acting: Tensor) -> dict[str, Any]:
        """The actions of some rows as the pool takes them.

        Where players take turns that is one action of a row, of the one whose turn it is: Go's pool ends the process
        where it gets more.
        """
        found, stepped = [], torch.zeros_like(acting)
        stepped[rows] = acting[rows]
        for path, columns in self.columns.columns.items():
            key = nested((*path, "action"))
            action, one = tensordict.get(key), self.specs[key]
            check_choices(self.who, one, action, stepped[:, columns])
            found.append(one.to_categorical(action) if isinstance(one, OneHot) else action)
        action = self.columns.side_by_side(found, 1).cpu()[rows]
        if self.turns:
            turn = acting[rows].int().argmax(-1)
            action = action[torch.arange(len(rows)), turn].unsqueeze(1)
        ids = rows.numpy().astype(np.int32)
        flat = action.reshape(-1, *action.shape[2:]).numpy().astype(self.dtype)
        return {self.key: flat, "env_id": ids, "players.env_id": np.repeat(ids, action.shape[1])}
