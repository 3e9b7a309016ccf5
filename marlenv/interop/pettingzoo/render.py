"""What PettingZoo's render modes show: pictures of scenarios, boards of games as text.

``"human"`` shows pictures in a window by pygame, as PettingZoo's own envs do, and prints boards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensordict import TensorDictBase

from marlenv.envs import EnvBase
from marlenv.errors import Unsupported
from marlenv.interop.agents import lone
from marlenv.optional import need


class Renderer:
    """Shows an env in one of the modes that it has.

    Args:
        who: the adapter, for errors.
        env: our env, with one row.
        mode: one of ``modes``, or None, where nothing is shown.

    Raises:
        Unsupported: the env has no such mode.
    """

    def __init__(self, who: str, env: EnvBase, mode: str | None) -> None:
        self.inner, self.mode = env, mode
        self.modes: list[str] = []
        if hasattr(env, "render"):
            self.modes = ["human", "rgb_array"]
        elif hasattr(getattr(env, "rules", None), "show"):
            self.modes = ["human", "ansi"]
        if mode is not None and mode not in self.modes:
            raise Unsupported(f"{who}: render_mode must be one of {[None, *self.modes]}, got {mode!r}")
        self._screen: Any = None

    def render(self, td: TensorDictBase) -> Any:
        """A picture, uint8 ``[H, W, 3]``, or a board as text; None where it is shown to a person, or nothing is."""
        env: Any = self.inner
        if self.mode is None:
            return None
        shown = np.asarray(env.render()) if "rgb_array" in self.modes else env.rules.show(env.read(lone(td)))
        if self.mode != "human":
            return shown
        if isinstance(shown, str):
            print(shown)
        else:
            self._show(shown)
        return None

    def _show(self, picture: NDArray[np.uint8]) -> None:
        """Shows a picture in a window, which is opened with the first one."""
        pygame: Any = need("pygame", "render_mode='human'")
        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode(picture.shape[1::-1])
        pygame.event.pump()
        pygame.surfarray.blit_array(self._screen, picture.swapaxes(0, 1))
        pygame.display.flip()

    def close(self) -> None:
        """Closes the window, if it is open."""
        if self._screen is not None:
            pygame: Any = need("pygame", "render_mode='human'")
            pygame.display.quit()
            self._screen = None
