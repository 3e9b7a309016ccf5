"""What ``make("chess")`` makes."""

from __future__ import annotations

import inspect
from typing import Any

from marlenv.errors import nearest
from marlenv.games.chess.env import RULES, ChessEnv

OPTIONS = ("batch_size", "device", "illegal", "max_plies", "opponent", "seat", "seed", "group_map", "mask")


def make_chess(
    num_envs: int | None = None, *, max_steps: int | None = None, layout: str = "grouped", **options: Any
) -> Any:
    """What ``make("chess")`` makes.

    Args:
        num_envs: how many games at once; any batch size is taken when left out.
        max_steps: the same as ``max_plies``.
        layout: ``"grouped"``, or ``"torchrl"``.
        **options: those of :class:`ChessEnv` in that layout.

    Raises:
        TypeError: there is no such option; names the nearest.
    """
    own = [name for name, p in inspect.signature(ChessEnv.__init__).parameters.items() if p.kind is p.KEYWORD_ONLY]
    known = {*OPTIONS, *RULES, *(own if layout == "torchrl" else ())} - {"layout"}
    if unknown := sorted(options.keys() - known):
        raise TypeError(f"chess has no option {unknown[0]!r}; {nearest(unknown[0], sorted(known))}")
    if num_envs is not None:
        options["batch_size"] = [num_envs]
    if max_steps is not None:
        options["max_plies"] = max_steps
    return ChessEnv(layout=layout, **options)
