"""What the VMAS wrapper is made of: agents' data side by side, generators kept apart, and partial resets at the cost of a full one.

VMAS resets all rows or a single row, and its scenarios cannot be told which rows. So all rows are reset, and what is
kept is put back: every tensor with a row per env, wherever the scenario, the world and their entities hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import LazyStackedTensorDict
from torch import Size, Tensor

from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.tensordicts import nest, new

Place = tuple[Any, Any]


def row_tensors(root: Any, rows: int) -> dict[tuple[int, Any], tuple[Place, Tensor]]:
    """Every tensor whose first dimension is ``rows`` that can be reached from ``root``, by the place that holds it."""
    found: dict[tuple[int, Any], tuple[Place, Tensor]] = {}
    seen: set[int] = set()
    queue = [root]
    while queue:
        owner = queue.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for key, value in _parts(owner):
            if isinstance(value, Tensor):
                if value.ndim and value.shape[0] == rows:
                    found[id(owner), key] = ((owner, key), value)
            elif _holds_state(value):
                queue.append(value)
    return found


def _parts(owner: Any) -> list[tuple[Any, Any]]:
    if isinstance(owner, MutableMapping):
        return list(owner.items())
    if isinstance(owner, (MutableSequence, tuple)):
        return list(enumerate(owner))
    return list(vars(owner).items()) if hasattr(owner, "__dict__") else []


def _holds_state(value: Any) -> bool:
    """Whether to look inside: containers, and objects of VMAS or of a scenario; no modules, functions or viewers."""
    if isinstance(value, (dict, list, tuple)):
        return True
    module = type(value).__module__ or ""
    plain = module.split(".")[0] in {"builtins", "torch", "numpy", "gym", "pyglet", "enum", "typing", "functools"}
    return hasattr(value, "__dict__") and not plain and not isinstance(value, type) and not callable(value)


def put(place: Place, value: Tensor) -> None:
    """Writes a tensor where it was found."""
    owner, key = place
    if isinstance(owner, (MutableMapping, MutableSequence)):
        owner[key] = value
    elif hasattr(owner, "__dict__"):
        vars(owner)[key] = value


def reset_rows(sim: Any, mask: Tensor) -> None:
    """Resets the rows of a VMAS ``Environment`` that ``mask`` (bool ``[B]``) marks."""
    before = {where: value.clone() for where, (_, value) in row_tensors(sim, sim.num_envs).items()}
    sim.reset(return_observations=False)
    for where, (place, after) in row_tensors(sim, sim.num_envs).items():
        kept = before.get(where)
        if kept is not None and kept.shape == after.shape and kept.dtype == after.dtype:
            put(place, torch.where(mask.reshape(-1, *[1] * (after.ndim - 1)), after, kept))


@contextmanager
def own_generators(sim: Any, held: list[Any]) -> Iterator[None]:
    """Runs VMAS with the random state in ``held``: VMAS keeps one for all its envs, so one would disturb the other."""
    shared = type(sim).vmas_random_state
    others = list(shared)
    shared[:] = held
    try:
        yield
    finally:
        held[:] = shared
        shared[:] = others


def listed(values: Any, names: Sequence[str]) -> list[Any]:
    """One value per agent, from a list or a dict."""
    return [values[name] for name in names] if isinstance(values, Mapping) else list(values)


def spec_of_example(example: Any) -> TensorSpec:
    """The spec of an agent's observations ``[B, ...]``, which may be nested dicts."""
    if isinstance(example, Mapping):
        return Composite({name: spec_of_example(value) for name, value in example.items()})
    return Unbounded(example.shape[1:], dtype=example.dtype)


def side_by_side(entries: list[Any], lead: Size, lazy: bool) -> Any:
    """The agents' data ``[B, ...]`` as one tensordict ``[B, A]``."""
    if lazy:
        return LazyStackedTensorDict(*[nest(one, lead[:-1], None) for one in entries], stack_dim=len(lead) - 1)
    data = {}
    for name, first in entries[0].items():
        column = [one[name] for one in entries]
        data[name] = (
            side_by_side(column, lead, False) if isinstance(first, Mapping) else torch.stack(column, len(lead) - 1)
        )
    return new(data, lead)
