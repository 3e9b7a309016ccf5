"""Vectors of gym's and gymnasium's envs: how they start anew, and where the final observations of their rows are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.errors import ResetError, Unsupported
from marlenv.wrappers.gym.outputs import opened

FINAL = ("final_obs", "final_observation")
"""Under what names infos hold final observations: gymnasium's, and gym's."""
MASKED = {"gymnasium.SyncVectorEnv", "gymnasium.AsyncVectorEnv", "marlenv.VectorOfRows", "marlenv.VectorOfAlf"}
"""Vectors whose ``reset`` takes a mask of rows."""


class Rows:
    """The rows of a vector: which of them have started anew by themselves, and with what.

    A vector starts rows anew in the step after their last one (``NEXT_STEP``), in the last one itself (``SAME_STEP``;
    all vectors of gym), or when it is told to (``DISABLED``). Here the step always gives the final observation, and the
    first one comes with the reset.

    Args:
        who: the wrapper, for errors.
        env: the vector.
    """

    def __init__(self, who: str, env: Any) -> None:
        mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        self.who, self.env, self.count = who, env, int(env.num_envs)
        kinds = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(env.unwrapped).__mro__}
        self.masks = mode is not None and bool(kinds & MASKED)
        """Whether ``reset`` takes a mask of rows."""
        self.mode = "SAME_STEP" if mode is None else mode.name
        if not self.masks and self.mode != "SAME_STEP":
            raise Unsupported(
                f"{who}: {type(env.unwrapped).__name__} neither resets single rows nor starts them anew in the step in "
                f"which they end; make it of single envs, by gymnasium.vector.SyncVectorEnv or AsyncVectorEnv"
            )
        self.over = np.zeros(self.count, dtype=bool)
        """Rows whose episode has ended, and that were not reset yet."""
        self.begun = np.zeros(self.count, dtype=bool)
        """Those of them that have started anew by themselves."""
        self.first: Any = None
        """Observations of all rows; those of ``begun`` are first ones."""

    def before_step(self, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        """Which rows wait for the others; raises where such a row is not over, since no vector can hold it."""
        still = np.zeros(self.count, dtype=bool) if mask is None else ~mask
        if (still & ~self.over).any():
            rows = np.flatnonzero(still & ~self.over).tolist()
            raise Unsupported(
                f"{self.who}: all rows of a vector of gym are stepped at once, got a '_step' that leaves out {rows}, "
                f"which are not done; SerialEnv and ParallelEnv step rows one by one"
            )
        if self.mode == "DISABLED" and self.over.any():
            self.reset(self.over.copy(), {})
        return still

    def after_step(self, obs: Any, ended: NDArray[np.bool_], info: Any, waiting: NDArray[np.bool_]) -> Any:
        """What followed on a step in all rows, anything in those that wait: final observations where episodes have
        ended.
        """
        self.over, self.begun, self.first = ended | waiting, np.zeros(self.count, dtype=bool), obs
        if self.mode != "SAME_STEP" or not ended.any():
            return obs
        self.begun = ended & ~waiting
        return merged(obs, self._finals(info, ended), ended)

    def _finals(self, info: Any, ended: NDArray[np.bool_]) -> list[Any]:
        if isinstance(info, dict):
            name = next((name for name in FINAL if name in info), None)
            if name is not None:
                return list(info[name]) if not isinstance(info[name], dict) else rows_of(info[name], self.count)
        elif all("terminal_observation" in info[i] for i in np.flatnonzero(ended)):  # a list, one for each row
            return [one.get("terminal_observation") for one in info]
        raise ResetError(
            f"{self.who}: the vector started rows {np.flatnonzero(ended).tolist()} anew and gave no final observation; "
            f"infos must have one of {list(FINAL)}, got {sorted(info) if isinstance(info, dict) else 'none'}"
        )

    def reset(self, mask: NDArray[np.bool_] | None, options: dict[str, Any]) -> tuple[Any, Any]:
        """Observations and infos of a reset of some rows, or of all; the others keep their observations."""
        if mask is None or (mask.all() and not self.begun.all()):
            obs, info = opened(self.env.reset(**options))
        else:
            obs, info = self.first, {}
            anew = mask & ~self.begun
            if anew.any():
                if not self.masks:
                    rows = np.flatnonzero(anew).tolist()
                    raise ResetError(f"{self.who}: this vector resets all rows, or those that are done, got {rows}")
                given = {**(options.pop("options", None) or {}), "reset_mask": anew}
                fresh, info = opened(self.env.reset(options=given, **options))
                obs = merged(obs, fresh, anew)
        done = np.ones(self.count, dtype=bool) if mask is None else mask
        self.over, self.begun, self.first = self.over & ~done, self.begun & ~done, obs
        return obs, info


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
    return np.stack([np.asarray(one) for one in full])


def rows_of(values: Any, count: int) -> list[Any]:
    """A dict of arrays as dicts of rows."""
    if isinstance(values, dict):
        parts = {name: rows_of(value, count) for name, value in values.items() if not name.startswith("_")}
        return [{name: part[i] for name, part in parts.items()} for i in range(count)]
    return [values[i] for i in range(count)]
