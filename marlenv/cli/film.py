"""Films of row 0 of an env: gif by Pillow, mp4 by ffmpeg, both through imageio."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.optional import need
from marlenv.physics.draw import draw_frames
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.state import State
from marlenv.physics.views import rows_last

FPS = 20  # frames per second
SIZE = (600, 600)  # pixels
KINDS = (".gif", ".mp4")


class Film:
    """Frames of row 0, written to a file.

    What row 0 of a scenario is like is kept, and drawn at the end: with a view that has everything in it in every frame,
    so that it never jumps. Frames of other envs are written as they come.

    Args:
        env: has ``render()``, which gives a picture of row 0: uint8 ``[H, W, 3]``.
        path: ends in ``.gif`` or ``.mp4``.

    Raises:
        SpecError: the file has another ending, or the env cannot be drawn.
        MissingExtra: imageio is not installed, or, for mp4, imageio-ffmpeg.

    """

    def __init__(self, env: EnvBase, path: Path) -> None:
        if path.suffix.lower() not in KINDS:
            raise SpecError(f"--video {path}: the file must end in {' or '.join(KINDS)}")
        if not callable(getattr(env, "render", None)):
            raise SpecError(
                f"--video {path}: {type(env).__name__} has no render(); scenarios of `marlenv list` can be filmed"
            )
        gif = path.suffix.lower() == ".gif"
        if not gif:
            need("imageio_ffmpeg", "--video with mp4")
        path.parent.mkdir(parents=True, exist_ok=True)
        how: dict[str, Any] = {"duration": 1000 / FPS, "loop": 0} if gif else {"fps": FPS, "macro_block_size": 2}
        self._env, self._path = env, path
        self._writer = need("imageio.v2", "--video").get_writer(path, **how)
        self._states: list[State] = []
        self.frames = 0

    def add(self) -> None:
        """Takes a frame."""
        self.frames += 1
        if isinstance(self._env, ScenarioEnv):
            state = self._env.get_state()[:1]
            self._states.append({name: rows_last(x).clone() for name, x in state.items()})
            return
        pixels = self._env.render()  # type: ignore[operator]
        if getattr(pixels, "ndim", 0) != 3:
            raise SpecError(
                f"--video {self._path}: render() of {type(self._env).__name__} must give pixels [H, W, 3], got {type(pixels).__name__}"
            )
        self._writer.append_data(pixels)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(self._env, ScenarioEnv):
                for pixels in draw_frames(self._env.simulation, self._states, SIZE):
                    self._writer.append_data(pixels)
        finally:
            self._writer.close()
