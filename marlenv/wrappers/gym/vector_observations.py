"""Observations of vectors of gym's and gymnasium's envs: arrays ``[B, ...]``, and dicts and tuples of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.wrappers._spaces import kind_of
from marlenv.wrappers.gym.vector_infos import column


def lists_rows(space: Any) -> bool:
    """Whether vectors give a tuple of rows for some part of a space: for texts, and where they do not know it."""
    kind = kind_of(space)
    parts = space.spaces.values() if kind == "Dict" else space.spaces if kind == "Tuple" else ()
    return kind in ("Text", None) or any(map(lists_rows, parts))


def in_arrays(space: Any, obs: Any) -> Any:
    """Observations of all rows, with arrays where there are tuples of rows.

    Args:
        space: of one row.
        obs: of all rows.
    """
    kind = kind_of(space)
    if kind == "Dict":
        return {name: in_arrays(one, obs[name]) for name, one in space.spaces.items()}
    if kind == "Tuple":
        return tuple(in_arrays(one, part) for one, part in zip(space.spaces, obs, strict=True))
    return column(obs, np.ones(len(obs), dtype=bool)) if isinstance(obs, tuple) else obs


def merged(old: Any, new: Any, where: NDArray[np.bool_]) -> Any:
    """Observations of all rows, new ones in some of them; ``new`` is like ``old``, or a list with an item for a row."""
    if isinstance(new, list):
        new = stacked(old, new, where)
    if isinstance(old, dict):
        return {name: merged(value, new[name], where) for name, value in old.items()}
    if isinstance(old, tuple):
        return tuple(merged(value, one, where) for value, one in zip(old, new, strict=True))
    out = np.array(old)
    out[where] = np.asarray(new)[where]
    return out


def stacked(like: Any, items: list[Any], where: NDArray[np.bool_]) -> Any:
    """Items of rows as arrays of all rows, anything in rows that are not meant."""
    some = next(items[i] for i in np.flatnonzero(where))
    full = [items[i] if where[i] else some for i in range(len(items))]
    if isinstance(like, dict):
        return {name: stacked(value, [one[name] for one in full], where) for name, value in like.items()}
    if isinstance(like, tuple):
        return tuple(stacked(value, [one[i] for one in full], where) for i, value in enumerate(like))
    if np.asarray(like).dtype == object:
        return column(full, np.ones(len(full), dtype=bool))
    return np.stack([np.asarray(one) for one in full])


def rows_of(values: Any, count: int) -> list[Any]:
    """A dict of arrays as dicts of rows."""
    if isinstance(values, dict):
        parts = {name: rows_of(value, count) for name, value in values.items() if not name.startswith("_")}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    return [values[i] for i in range(count)]
