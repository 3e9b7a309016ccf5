"""The rows of our env as a vector of Gymnasium's. Imported when it is first needed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, ShapeError, Unsupported, nearest
from marlenv.interop.face import Face
from marlenv.optional import need

vectors: Any = need("gymnasium.vector", "marlenv.to_gymnasium_vector")
WHO = "to_gymnasium_vector"


class VectorOfRows(vectors.VectorEnv):
    """An env of ours with many rows behind the interface of Gymnasium's vectors.

    Args:
        env: our env.
        autoreset_mode: ``"NEXT_STEP"``, ``"SAME_STEP"`` or ``"DISABLED"``.
    """

    def __init__(self, env: EnvBase, autoreset_mode: str = "NEXT_STEP") -> None:
        self._face = Face(WHO, env)
        if len(env.batch_size) != 1:
            raise Unsupported(f"{WHO}: expected an env with rows, got batch size {list(env.batch_size)}; num_envs=8")
        name = str(getattr(autoreset_mode, "name", autoreset_mode)).upper()
        known = [mode.name for mode in vectors.AutoresetMode]
        if name not in known:
            raise Unsupported(f"{WHO}: there is no autoreset_mode {autoreset_mode!r}; {nearest(name, known)}")
        self.inner, self.num_envs = env, env.batch_size[0]
        self.autoreset_mode, self.mode = vectors.AutoresetMode[name], name  # TorchRL reads the attribute
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.single_observation_space, self.single_action_space = self._face.observation_space, self._face.action_space
        self.observation_space, self.action_space = (
            vectors.utils.batch_space(space, self.num_envs)
            for space in (self.single_observation_space, self.single_action_space)
        )
        self._td: TensorDictBase | None = None
        self._over = np.zeros(self.num_envs, dtype=bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts episodes in all rows, or in those of ``options["reset_mask"]``; other options are those of the env's
        reset.

        Raises:
            Unsupported: a list of seeds, or a seed where some rows go on.
            ShapeError: ``reset_mask`` is not bool ``[B]``.
            DtypeError: the seed is no int.
        """
        told = dict(options or {})
        mask = self._mask(told.pop("reset_mask", None))
        if seed is not None:
            self._seed(seed, mask if self._td is not None else None)
        if mask is None or self._td is None:
            self._td, self._over = self.inner.reset(**told), np.zeros(self.num_envs, dtype=bool)
        else:
            self._reset_rows(mask, **told)
        return self._face.observations(self._td), {}

    def _mask(self, mask: Any) -> NDArray[np.bool_] | None:
        """Which rows are to start anew; None where nothing is said."""
        if mask is None:
            return None
        asked = np.asarray(mask)
        if asked.dtype != bool or asked.shape != (self.num_envs,):
            raise ShapeError(
                f"{WHO}.reset: options['reset_mask'] must be bool [{self.num_envs}], True for rows that start anew, "
                f"got {asked.dtype} {list(asked.shape)}"
            )
        return asked

    def _seed(self, seed: Any, mask: NDArray[np.bool_] | None) -> None:
        """Seeds all rows, whose streams are made of one number."""
        if np.ndim(seed):
            raise Unsupported(
                f"{WHO}.reset: seed must be one int, of which every row makes a stream of its own, got {seed!r}; "
                f"gymnasium.vector.SyncVectorEnv over to_gymnasium(env) takes a seed for each env"
            )
        if mask is not None and not mask.all():
            raise Unsupported(
                f"{WHO}.reset: seed={seed!r} would seed all rows, and with options['reset_mask'] some go on; "
                f"leave out the seed, or the mask"
            )
        self.inner.set_seed(seed)

    def _reset_rows(self, mask: NDArray[np.bool_], **told: Any) -> None:
        """Starts episodes in some rows."""
        held: Any = self._td
        asked = torch.from_numpy(mask).unsqueeze(-1).to(held.device or "cpu")
        self._td = self.inner.reset(held.set("_reset", asked), **told)
        self._over = self._over & ~mask

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Plays an action in every row; a row that is to start anew does that instead, with ``"NEXT_STEP"``."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "step")
        if self.mode == "DISABLED" and self._over.any():
            rows = np.flatnonzero(self._over).tolist()
            raise Unsupported(f"{WHO}: rows {rows} are done; reset them with options={{'reset_mask': mask}} first")
        start = self._over.copy()
        if start.any():
            self._reset_rows(start)
            self._td.set("_step", torch.from_numpy(~start).unsqueeze(-1).to(self._td.device or "cpu"))
        data = self.inner.step(self._face.set_action(self._td, actions))
        following = data.get("next")
        # a row that began anew waits: where an opponent ended its game at once, its next step is the one that says so
        terminated, truncated = (flags & ~start for flags in self._face.flags(following))
        over, info = terminated | truncated, {}
        observations, rewards = self._face.observations(following), self._face.rewards(following)
        self._td = self.inner.step_mdp(data)
        if self.mode == "SAME_STEP":
            if over.any():
                info = self._last_ones(observations, over)
                self._reset_rows(over)
                observations = self._face.observations(self._td)
        else:
            self._over = over
        return observations, rewards, terminated, truncated, info

    def _last_ones(self, observations: Any, over: NDArray[np.bool_]) -> dict[str, Any]:
        """What rows that are over observed last, in the form of Gymnasium's own vectors: copies, None for the rest."""
        info: dict[str, Any] = {}
        for row, one in enumerate(vectors.utils.iterate(self.observation_space, observations)):
            if over[row]:
                info = self._add_info(info, {"final_obs": deepcopy(one), "final_info": {}}, row)
        return info

    def close_extras(self, **_: Any) -> None:
        """Closes the env."""
        inner = getattr(self, "inner", None)  # Gymnasium also closes what could not be made
        if inner is not None:
            inner.close(raise_if_closed=False)
