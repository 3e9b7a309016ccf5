"""The data of agents in a batch of worlds, ``[B, ...]`` each, as group tensors ``[B, A, ...]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from marlenv.groups.tree import GroupTree
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import SpecError
from marlenv.keys import DONE_NAMES
from marlenv.specs import TensorSpec
from marlenv.tensordicts import fetch, lazy, new

COLUMNS = frozenset({"reward", *DONE_NAMES})
"""Entries of which there may be one number per agent: ``[B]`` becomes ``[B, A, 1]``."""


def side_by_side(entries: list[dict[str, Any]], batch: Size, lazily: bool) -> Any:
    """The agents' data ``[B, ...]`` as one tensordict ``[B, A]``, in memory of its own."""
    dim = len(batch)
    if lazily:
        return lazy([_alone(one, batch) for one in entries], dim)
    data = {}
    for name, first in entries[0].items():
        column = [one[name] for one in entries]
        if isinstance(first, Mapping):
            data[name] = side_by_side(column, batch, False)
        else:
            value = torch.stack(column, dim)
            data[name] = value.unsqueeze(-1) if name in COLUMNS and first.ndim == dim else value
    return new(data, Size((*batch, len(entries))))


def _alone(entries: Mapping[str, Any], batch: Size) -> Any:
    """One agent's data."""
    data = {}
    for name, value in entries.items():
        if isinstance(value, Mapping):
            data[name] = _alone(value, batch)
        else:
            data[name] = (value.unsqueeze(-1) if name in COLUMNS and value.ndim == len(batch) else value).clone()
    return new(data, batch)


def check_rewards(who: str, tree: GroupTree, td: TensorDictBase) -> None:
    """Raises if a reward ``[B, A, 1]`` is not a number; names the first such agent and its row."""
    for path, agents in tree.groups.items():
        rewards = fetch(td, (*path, "reward"))
        if isinstance(rewards, Tensor) and bool(rewards.isnan().any()):
            row, agent = (int(i) for i in rewards.isnan().flatten(2).any(-1).nonzero()[0])
            raise SpecError(f"{who}.step: the reward of agent {agents[agent]!r} in row {row} is not a number")


def fitted(value: Tensor | None, spec: TensorSpec, batch: Size, device: torch.device | None) -> Tensor:
    """A value ``[B]`` or ``[B, ...]`` in the shape and dtype of its spec; zeros for none."""
    shape = (*batch, *spec.shape)
    if value is None:
        return torch.zeros(shape, dtype=spec.dtype, device=device)
    return value.reshape(shape).to(spec.dtype)
