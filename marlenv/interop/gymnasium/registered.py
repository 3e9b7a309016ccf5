"""Envs of ours that Gymnasium makes by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from marlenv.envs import EnvBase
from marlenv.interop.gymnasium.single import SingleEnv
from marlenv.registration import make
from marlenv.transforms import TransformedEnv


class Registered:
    """Makes an env of ours with Gymnasium's interface.

    Args:
        maker: a name of :func:`marlenv.make`, or what makes an env.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, maker: str | Callable[..., EnvBase]) -> None:
        self.maker = maker

    def __call__(
        self, *, transform: Any, info_keys: Sequence[str] | None, render_mode: str | None = None, **options: Any
    ) -> SingleEnv:
        env = make(self.maker, **options) if isinstance(self.maker, str) else self.maker(**options)
        if transform is not None:
            env = TransformedEnv(env, transform)
        return SingleEnv(env, render_mode, info_keys=tuple(info_keys or ()))
