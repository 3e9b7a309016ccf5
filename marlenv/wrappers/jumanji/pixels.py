"""What Jumanji's viewers draw of a state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import Unsupported
from marlenv.optional import need


def viewer_of(who: str, env: Any) -> Any:
    """What draws an env; raises Unsupported where there is nothing."""
    for name in ("_viewer", "viewer", "_env_viewer"):
        if hasattr(viewer := getattr(env.unwrapped, name, None), "_display_rgb_array"):
            return viewer
    raise Unsupported(f"{who}: pixels need an env that draws, got {type(env.unwrapped).__name__}")


def pictures(who: str, env: Any, states: Any) -> Tensor:
    """Pictures of rows of states; uint8 ``[B, H, W, 3]``. Some envs draw, and give back nothing.

    Raises:
        Unsupported: the env draws nothing.
    """
    tree, viewer, drawn = need("jax.tree", who), viewer_of(who, env), []
    shows = viewer._display

    def keep(figure: Any) -> None:
        drawn.append(np.array(viewer._display_rgb_array(figure))[..., :3])

    viewer._display = keep
    try:
        for row in range(len(tree.leaves(states)[0])):
            env.render(tree.map(lambda leaf, row=row: leaf[row], states))
    finally:
        viewer._display = shows
    return torch.from_numpy(np.stack(drawn))
