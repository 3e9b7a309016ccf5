"""Films of row 0 of an env: gif by Pillow, mp4 by ffmpeg, both through imageio."""

from __future__ import annotations

import inspect
import os
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.cli import svg
from marlenv.cli.files import writable
from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.files import whole_file
from marlenv.games import TurnBasedEnv
from marlenv.optional import need
from marlenv.physics.env import ScenarioEnv
from marlenv.physics.env.draw import draw_frames
from marlenv.physics.laws.state import State
from marlenv.physics.maths.views import rows_last
from marlenv.transforms import TransformedEnv
from marlenv.vector import SerialEnv

FPS = 20  # frames per second
TURNS = 2  # of games, which people follow move by move
SIZE = (600, 600)  # pixels
KINDS = (".gif", ".mp4")


def first_env(env: EnvBase) -> EnvBase:
    """The env that is drawn: under transforms, and the first of several in series."""
    while isinstance(env, TransformedEnv | SerialEnv):
        env = env.base_env if isinstance(env, TransformedEnv) else env.children_envs[0]
    return env


class Film:
    """Frames of row 0, written to a file.

    What row 0 of a scenario is like is kept, and drawn at the end: with a view that has everything in it in every
    frame, so that it never jumps. Of games, the board is drawn. Frames of other envs are written as they come. After
    an error an older file is as it was; where there is none, the frames before the error are a film.

    Args:
        env: a scenario, a game, or an env with ``render()``, which gives a picture: uint8 ``[H, W, 3]``.
        path: ends in ``.gif`` or ``.mp4``.

    Raises:
        SpecError: the file has another ending or cannot be written, or the env cannot be drawn.
        MissingExtra: imageio is not installed, or, for mp4, imageio-ffmpeg.

    """

    def __init__(self, env: EnvBase, path: Path) -> None:
        if path.suffix.lower() not in KINDS:
            raise SpecError(f"--video {path}: the file must end in {' or '.join(KINDS)}")
        env = first_env(env)
        self._game = isinstance(env, TurnBasedEnv)
        if not self._game and not callable(getattr(env, "render", None)):
            raise SpecError(
                f"--video {path}: {type(env).__name__} has no render(); scenarios and games of `marlenv list` can be "
                f"filmed, "
                f"and simulators that draw themselves"
            )
        gif = path.suffix.lower() == ".gif"
        if not gif:
            need("imageio_ffmpeg", "--video with mp4")
        writable("--video", path)
        fps = TURNS if self._game else FPS
        how: dict[str, Any] = {"duration": 1000 / fps, "loop": 0} if gif else {"fps": fps, "macro_block_size": 2}
        self._env, self._path = env, path
        name = f".{path.stem}.{os.getpid()}.film{path.suffix}"  # others may make a film of that name
        self._draft = path.resolve().with_name(name)
        """Becomes the film at the end."""
        self._writer = need("imageio.v2", "--video").get_writer(self._draft, **how)
        self._states: list[State] = []
        self._shape: tuple[int, ...] = ()  # of what render() gave first
        self.frames = 0

    def add(self, data: TensorDictBase) -> None:
        """Takes a frame; ``data`` are those that the env gave last."""
        self.frames += 1
        if isinstance(self._env, ScenarioEnv):
            state = self._env.get_state()[:1]
            self._states.append({name: rows_last(x).clone() for name, x in state.items()})
        elif isinstance(self._env, TurnBasedEnv):
            row = data[(0,) * data.ndim]
            self._writer.append_data(svg.pixels(self._env.rules.svg(self._env.read(row)), SIZE))
        else:
            self._writer.append_data(self._rendered())

    def _rendered(self) -> Any:
        """What the env draws."""
        draw: Any = self._env.render
        who = f"--video {self._path}: render() of {type(self._env).__name__}"
        try:
            picture = draw(mode="rgb_array") if "mode" in inspect.signature(draw).parameters else draw()
            pixels = np.asarray(picture.cpu() if isinstance(picture, Tensor) else picture)
        except Exception as error:  # a simulator's own, as where there is no screen
            raise SpecError(f"{who} failed here with {type(error).__name__}: {error}") from error
        if pixels.ndim != 3:
            raise SpecError(
                f"{who} must give pixels [H, W, 3], got {type(picture).__name__}; make the env such that it draws into "
                f"memory, as with render_mode='rgb_array'"
            )
        self._shape = self._shape or pixels.shape
        if pixels.dtype != np.uint8 or pixels.shape[-1] not in (1, 3, 4) or pixels.shape != self._shape:
            same = "" if pixels.shape == self._shape else f", {list(self._shape)} as the first"
            got = f"{list(pixels.shape)} of {pixels.dtype}"
            raise SpecError(f"{who} must give pixels [H, W, 3] of uint8, 0 to 255{same}, got {got}; make it give those")
        return pixels.repeat(3, -1) if pixels.shape[-1] == 1 else pixels  # grey

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kept = error is None or not self._path.exists()
        try:
            with closing(self._writer):
                if kept and isinstance(self._env, ScenarioEnv):
                    for pixels in draw_frames(self._env.simulation, self._states, SIZE):
                        self._writer.append_data(pixels)
            if kept and self._draft.exists():
                with whole_file("--video", self._path) as draft:
                    self._draft.replace(draft)
        finally:
            self._draft.unlink(missing_ok=True)
