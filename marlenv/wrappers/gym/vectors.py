"""Vectors of gym's and gymnasium's envs: how they start anew, and where the last observations and infos of their rows
are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.errors import ResetError, SpecError, Unsupported
from marlenv.wrappers.gym.outputs import opened
from marlenv.wrappers.gym.vector_infos import FINAL, merged_infos, resets_whole, split, statistics
from marlenv.wrappers.gym.vector_observations import in_arrays, lists_rows, merged, rows_of

MASKED = {"gymnasium.SyncVectorEnv", "gymnasium.AsyncVectorEnv", "marlenv.VectorOfRows"}
"""Vectors whose ``reset`` takes a mask of rows."""
MASK = "reset_mask"
"""Under what name they take it."""


class ResetOptions(dict[str, Any]):
    """Options of a reset, whose mask of rows can be taken more than once: a vector takes it out before the wrappers
    around it have looked. What goes through the options finds it until it is taken.

    >>> options = ResetOptions(low=0.0, reset_mask=np.array([True, False]))
    >>> options.pop("reset_mask"), dict(options), options.pop("reset_mask")
    (array([ True, False]), {'low': 0.0}, array([ True, False]))
    """

    taken: Any = None

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key == MASK and self.taken is not None)

    def pop(self, key: str, *default: Any) -> Any:
        if key != MASK or key not in self:
            return super().pop(key, *default)
        self.taken = super().pop(key, self.taken)
        return self.taken


class Rows:
    """The rows of a vector: which of them have started anew by themselves, and with what.

    A vector starts rows anew in the step after their last one (``NEXT_STEP``), in the last one itself (``SAME_STEP``;
    all vectors of gym), or when it is told to (``DISABLED``). Here the step always gives observations and infos of the
    episode that it belongs to, and those of the next one come with the reset.

    Args:
        who: the wrapper, for errors.
        env: the vector.
    """

    def __init__(self, who: str, env: Any) -> None:
        told = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
        mode = getattr(env.unwrapped, "autoreset_mode", told)  # vectors of one class of envs share their metadata
        self.who, self.env, self.count = who, env, int(env.num_envs)
        kinds = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(env.unwrapped).__mro__}
        self.masks = mode is not None and bool(kinds & MASKED)
        """Whether ``reset`` takes a mask of rows."""
        self.mode = "SAME_STEP" if mode is None else mode.name
        if not self.masks and self.mode != "SAME_STEP":
            raise Unsupported(
                f"{who}: {type(env.unwrapped).__name__} neither resets single rows nor starts them anew in the step in "
                f"which they end; make it with autoreset_mode=SAME_STEP where it takes one, or of single envs, by "
                f"gymnasium.vector.SyncVectorEnv or AsyncVectorEnv"
            )
        shares = getattr(env.unwrapped, "shared_memory", None)
        if self.mode == "NEXT_STEP" and (
            shares is False or (shares and _is_empty(env.unwrapped.single_observation_space))
        ):
            without = "observations that hold nothing" if shares else "shared_memory=False"
            raise Unsupported(
                f"{who}: with {without}, {type(env.unwrapped).__name__} resets rows a second time in the step after "
                f"their reset; make it with {'' if shares else 'shared_memory=True, or '}autoreset_mode SAME_STEP or "
                f"DISABLED"
            )
        space = getattr(env, "single_observation_space", env.observation_space)
        self._listed, self._statistics = space if lists_rows(space) else None, statistics(env)
        self.over = np.zeros(self.count, dtype=bool)
        """Rows whose episode has ended, and that were not reset yet."""
        self.begun = np.zeros(self.count, dtype=bool)
        """Those of them that have started anew by themselves."""
        self.first: tuple[Any, dict[str, Any]] = (None, {})
        """Observations and infos of all rows; those of ``begun`` are first ones."""

    def check(self, *, frame_skip: int, from_pixels: bool) -> None:
        """Raises where an option asks for what no vector, or not this one, can do."""
        if frame_skip > 1:
            raise SpecError(f"{self.who}: frame_skip must be 1 for a vector, whose rows end at different times")
        if from_pixels and self.mode == "SAME_STEP":
            raise Unsupported(
                f"{self.who}: from_pixels would lose the last picture of every episode, as this vector starts rows "
                f"anew in the step in which they end; make it with autoreset_mode NEXT_STEP or DISABLED"
            )

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

    def after_step(
        self, obs: Any, ended: NDArray[np.bool_], info: dict[str, Any], waiting: NDArray[np.bool_]
    ) -> tuple[Any, dict[str, Any]]:
        """Observations and infos that followed on a step in all rows, anything in those that wait: final ones where
        episodes have ended.
        """
        obs = obs if self._listed is None else in_arrays(self._listed, obs)
        self.over, self.begun, self.first = ended | waiting, np.zeros(self.count, dtype=bool), (obs, info)
        if self.mode != "SAME_STEP" or not ended.any():
            return obs, info
        self.begun = ended & ~waiting
        infos, finals = split(info, ended, self._statistics)
        self.first = obs, infos
        return merged(obs, self._finals(info, ended), ended), merged_infos(infos, finals, ended)

    def _finals(self, info: dict[str, Any], ended: NDArray[np.bool_]) -> list[Any]:
        for name in FINAL:
            if name in info and not (ended & ~np.asarray(info.get(f"_{name}", ended))).any():
                return rows_of(info[name], self.count)
        raise ResetError(
            f"{self.who}: the vector started rows {np.flatnonzero(ended).tolist()} anew and gave no final observation; "
            f"infos must have one of {list(FINAL)} in these rows, got {sorted(info)}"
        )

    def reset(self, mask: NDArray[np.bool_] | None, options: dict[str, Any]) -> tuple[Any, Any]:
        """Observations and infos of a reset of some rows, or of all; the others keep their observations."""
        if mask is None or (mask.all() and not self.begun.all()):
            obs, info = self._reset(options)
        else:
            obs, info = self.first
            anew = mask & ~self.begun
            if anew.any():
                rows = np.flatnonzero(anew).tolist()
                if (normalised := resets_whole(self.env)) and not anew.all():
                    raise Unsupported(
                        f"{self.who}: {normalised} around a vector can only begin with all rows together, got a reset "
                        f"of rows {rows}; put gymnasium.wrappers.NormalizeObservation around the single envs, "
                        f"GymEnv(name, wrappers=[NormalizeObservation], num_envs={self.count}), or VecNorm around this"
                    )
                if not self.masks:
                    raise ResetError(f"{self.who}: this vector resets all rows, or those that are done, got {rows}")
                given = ResetOptions({**(options.pop("options", None) or {}), MASK: anew})
                fresh, new = self._reset({**options, "options": given})
                obs, info = merged(obs, fresh, anew), merged_infos(info, new, anew)
        done = np.ones(self.count, dtype=bool) if mask is None else mask
        self.over, self.begun, self.first = self.over & ~done, self.begun & ~done, (obs, info)
        return obs, info

    def _reset(self, options: dict[str, Any]) -> tuple[Any, Any]:
        obs, info = opened(self.env.reset(**options))
        return obs if self._listed is None else in_arrays(self._listed, obs), info


def _is_empty(space: Any) -> bool:
    """Whether the memory that gymnasium shares for a space's values counts as none: it has no numbers, or no parts."""
    parts = getattr(space, "spaces", None)
    return 0 in (getattr(space, "shape", None) or ()) if parts is None else len(parts) == 0


def keeping_finals(library: Any) -> Any:
    """A wrapper of single envs of older gym's, whose infos have the final observation as later versions' do.

    Args:
        library: gym, which is there only where it is used.
    """

    class KeepingFinals(library.Wrapper):
        def step(self, action: Any) -> Any:
            obs, reward, done, info = self.env.step(action)
            return obs, reward, done, {**info, "terminal_observation": obs} if done else info

    return KeepingFinals
