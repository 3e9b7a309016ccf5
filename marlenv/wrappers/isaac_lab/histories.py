"""What the observations of Isaac Lab's rows remember: histories, and modifiers such as filters.

Written for ``ObservationManager``, ``CircularBuffer`` and the modifiers of 2.3.2; tested on stand-ins for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


@contextmanager
def untouched(env: Any, rows: Tensor) -> Iterator[None]:
    """Lets some rows remember after the block what they did before it; a manager-based env observes all rows at once.

    Args:
        env: of any kind; one without an observation manager has nothing to remember.
        rows: bool ``[B]``.
    """
    manager, rows = getattr(env, "observation_manager", None), rows.to(env.device)
    histories = [
        (one, one._buffer.clone(), one._pointer, one._num_pushes.clone())
        for group in getattr(manager, "_group_obs_term_history_buffer", {}).values()
        for one in group.values()
        if one._buffer is not None
    ]
    held = [
        (one, name, value.clone())
        for one in getattr(manager, "_group_obs_class_instances", ())
        for name, value in vars(one).items()
        if isinstance(value, Tensor) and value.ndim and len(value) == len(rows)
    ]
    yield
    for one, before, pointer, pushes in histories:
        moved = (one._pointer - pointer) % len(before)  # rows share the place of the newest entry
        one._buffer[:, rows] = before.roll(moved, 0)[:, rows]
        one._num_pushes[rows] = pushes[rows]
    for one, name, before in held:
        setattr(one, name, of_rows(rows, before, getattr(one, name)))


def of_rows(rows: Tensor, chosen: Any, others: Any) -> Any:
    """What some rows observe of one thing and all others of another; nested dicts of tensors ``[B, ...]``."""
    if isinstance(chosen, Mapping):
        return {name: of_rows(rows, value, others[name]) for name, value in chosen.items()}
    return torch.where(rows.to(chosen.device).reshape(-1, *[1] * (chosen.ndim - 1)), chosen, others)
