"""Infos of vectors of gym's and gymnasium's envs: dicts of arrays ``[B, ...]``, with a bool ``[B]`` beside each of them
that says which rows have it (``lives`` and ``_lives``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FINAL = ("final_obs", "final_observation", "terminal_observation")
"""Under what names infos hold final observations: gymnasium's, gym's, and those of gym before 0.25."""
NUMBERS = (np.ndarray, np.generic, bool, int, float)
FINAL_INFO = "final_info"
"""Under what name they hold the infos of the steps in which rows ended."""


def split(
    infos: Mapping[str, Any], ended: NDArray[np.bool_], of_ends: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What infos say of rows that go on and of resets that followed in the same step; and what of the step in which
    rows ended.

    Args:
        infos: those of a step; where they have neither a ``final_info`` nor gymnasium's name of final observations, as
            gym's before 0.26, they say nothing of resets.
        ended: bool ``[B]``.
        of_ends: infos that are of the step in which rows ended, wherever they stand.

    >>> split({"lives": np.array([3, 2]), "final_info": {"lives": np.array([0, 0])}}, np.array([True, False]))
    ({'lives': array([3, 2])}, {'lives': array([0, 0])})
    """
    left_out = {name for one in (*FINAL, FINAL_INFO) for name in (one, f"_{one}")}
    plain = {name: value for name, value in infos.items() if name not in left_out}
    if FINAL_INFO not in infos and FINAL[0] not in infos:
        return merged_infos(plain, {}, ended), plain
    told = infos.get(FINAL_INFO, {})
    finals = dict(told) if isinstance(told, Mapping) else columns(told)
    finals |= {name: plain.pop(name) for one in of_ends for name in (one, f"_{one}") if name in plain}
    return plain, finals


def statistics(env: Any) -> set[str]:
    """Under what names gym's ``RecordEpisodeStatistics`` around a vector write what was of an episode that ended; they
    are not in ``final_info``, since the vector made that before.
    """
    found = set()
    while env is not None:
        if any(cls.__name__ == "RecordEpisodeStatistics" for cls in type(env).__mro__):
            found.add(getattr(env, "_stats_key", "episode"))
        env = getattr(env, "env", None)
    return found


def columns(rows: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Dicts of rows as a dict of arrays; None for a row that has none.

    >>> columns([{"lives": 3}, None])
    {'lives': array([3, 0]), '_lives': array([ True, False])}
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row or ()):
        there = np.array([row is not None and name in row for row in rows], dtype=bool)
        values = [row[name] for row in rows if row is not None and name in row]
        found[name], found[f"_{name}"] = column(values, there), there
    return found


def column(values: Sequence[Any], there: NDArray[np.bool_]) -> Any:
    """Values of the rows that have one as an array: of numbers if all are, of one shape, else of objects; as a dict of
    arrays if all are dicts.
    """
    if all(isinstance(value, Mapping) for value in values):
        rest = iter(values)
        return columns([next(rest) if one else None for one in there])
    if all(isinstance(value, NUMBERS) for value in values) and len({np.shape(value) for value in values}) == 1:
        out = np.zeros((len(there), *np.shape(values[0])), dtype=np.result_type(*map(np.asarray, values)))
        out[there] = values
        return out
    objects = np.full(len(there), None, dtype=object)
    for i, value in zip(np.flatnonzero(there), values, strict=True):
        objects[i] = value
    return objects


def merged_infos(old: Mapping[str, Any], new: Mapping[str, Any], where: NDArray[np.bool_]) -> dict[str, Any]:
    """Infos of all rows, new ones in some of them; a row has nothing where its infos say nothing.

    >>> merged_infos({"lives": np.array([3, 2])}, {"lives": np.array([0, 0])}, np.array([True, False]))
    {'lives': array([0, 2])}
    """
    out: dict[str, Any] = {}
    for name in {**old, **new}:
        a, b = _values(old.get(name)), _values(new.get(name))
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            out[name] = merged_infos(_mapping(a), _mapping(b), where)
            continue
        a, b = (_nothing(b) if a is None else a, _nothing(a) if b is None else b)
        out[name] = np.where(where.reshape(-1, *[1] * (b.ndim - 1)), b, a)
    return out


def _values(value: Any) -> Any:
    """An array, or a dict of them, even where the vector gives one object for each row."""
    if value is None or isinstance(value, Mapping):
        return value
    array = np.asarray(value)
    there = np.array([one is not None for one in array]) if array.dtype == object else np.zeros(0, dtype=bool)
    return column([one for one in array if one is not None], there) if there.any() else array


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _nothing(like: NDArray[Any]) -> NDArray[Any]:
    return np.full(like.shape, None, dtype=object) if like.dtype == object else np.zeros_like(like)


def resets_whole(env: Any) -> str | None:
    """The wrapper around a vector that refuses to reset some of its rows, if there is one."""
    while env is not None and env is not env.unwrapped:
        kind = type(env)
        if kind.__name__ == "NormalizeObservation" and kind.__module__.startswith("gymnasium.wrappers.vector"):
            return kind.__name__
        env = getattr(env, "env", None)
    return None
