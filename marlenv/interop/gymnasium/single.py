"""Our env with Gymnasium's interface. Imported when it is first needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import NeedsReset, Unsupported
from marlenv.interop.face import Face
from marlenv.optional import need

gymnasium: Any = need("gymnasium", "marlenv.to_gymnasium")
WHO = "to_gymnasium"


class SingleEnv(gymnasium.Env):
    """An env of ours with one row behind Gymnasium's interface.

    Args:
        env: our env.
        render_mode: ``"rgb_array"``, or None.
    """

    def __init__(self, env: EnvBase, render_mode: str | None = None) -> None:
        self._face = Face(WHO, env)
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
        """Starts an episode."""
        super().reset(seed=seed)
        if seed is not None:
            self.inner.set_seed(seed)
        self._td = self.inner.reset()
        return self._face.seen(self._lone(self._td)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Plays an action."""
        if self._td is None:
            raise NeedsReset.before(type(self).__name__, "step")
        data = self.inner.step(self._face.told(self._td, action))
        following, self._td = self._lone(data.get("next")), self.inner.step_mdp(data)
        terminated, truncated = self._face.flags(following)
        return self._face.seen(following), float(self._face.paid(following)), bool(terminated), bool(truncated), {}

    def _lone(self, td: TensorDictBase) -> TensorDictBase:
        return td[(0,) * len(self.inner.batch_size)] if self.inner.batch_size else td

    def render(self) -> Any:
        """A picture, uint8 ``[H, W, 3]``, where that was asked for."""
        env: Any = self.inner
        return None if self.render_mode is None else np.asarray(env.render())

    def close(self) -> None:
        """Closes the env."""
        if not self.inner.is_closed:
            self.inner.close()
