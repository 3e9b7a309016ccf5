"""Our env with Gymnasium's interface. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, Unsupported
from marlenv.interop.agents import begun, lone
from marlenv.interop.face import Face
from marlenv.optional import need

gymnasium: Any = need("gymnasium", "marlenv.to_gymnasium")
WHO = "to_gymnasium"


class SingleEnv(gymnasium.Env):
    """An env of ours with one row behind Gymnasium's interface.

    Args:
        env: our env.
        render_mode: ``"rgb_array"``, or None.
        info_keys: entries that stand in the info rather than in the observation.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None, *, info_keys: tuple[str, ...] = ()) -> None:
        self._face, self._info_keys = Face(WHO, env, hide=info_keys), info_keys
        self._face.check_names("info_keys", info_keys)
        if env.batch_size.numel() != 1:
            raise Unsupported(
                f"{WHO}: expected an env with one row, got batch size {list(env.batch_size)}; "
                f"to_gymnasium_vector takes those"
            )
        modes = ["rgb_array"] if hasattr(env, "render") else []
        if render_mode is not None and render_mode not in modes:
            raise Unsupported(f"{WHO}: render_mode must be one of {[None, *modes]}, got {render_mode!r}")
        self.metadata = {"render_modes": modes, "render_fps": 10}
        self.inner, self.render_mode = env, render_mode
        self.observation_space, self.action_space = self._face.observation_space, self._face.action_space
        self._td: TensorDictBase | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode; ``options`` are those of the env's reset."""
        super().reset(seed=seed)
        self._td = begun(self.inner, seed, options)
        first = lone(self._td)
        return self._face.observations(first), self._info(first)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays an action."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "step")
        data = self.inner.step(self._face.set_action(self._td, action))
        following, self._td = lone(data.get("next")), self.inner.step_mdp(data)
        terminated, truncated = self._face.flags(following)
        ends = bool(terminated), bool(truncated)
        reward = float(self._face.rewards(following))
        return self._face.observations(following), reward, *ends, self._info(following)

    def _info(self, td: TensorDictBase) -> dict[str, Any]:
        return self._face.entries(td, self._info_keys)

    def render(self) -> Any:
        """A picture, uint8 ``[H, W, 3]``, where that was asked for."""
        env: Any = self.inner
        return None if self.render_mode is None else np.asarray(env.render())

    def close(self) -> None:
        """Closes the env."""
        self.inner.close(raise_if_closed=False)
