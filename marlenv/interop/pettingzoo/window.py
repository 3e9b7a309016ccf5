"""A window in which PettingZoo's render mode ``"human"`` shows pictures, by pygame, as PettingZoo's own envs do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marlenv.optional import need


class Window:
    """A window that is opened with its first picture."""

    def __init__(self) -> None:
        self._screen: Any = None

    def show(self, picture: NDArray[np.uint8]) -> None:
        """Shows a picture, uint8 ``[H, W, 3]``."""
        pygame: Any = need("pygame", "render_mode='human'")
        if self._screen is None:
            pygame.display.init()
            self._screen = pygame.display.set_mode(picture.shape[1::-1])
        pygame.event.pump()
        pygame.surfarray.blit_array(self._screen, picture.swapaxes(0, 1))
        pygame.display.flip()

    def close(self) -> None:
        """Closes it, if it is open."""
        if self._screen is not None:
            pygame: Any = need("pygame", "render_mode='human'")
            pygame.display.quit()
            self._screen = None
