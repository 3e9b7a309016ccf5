"""What ``make("chess")`` makes: the one place where a layout is chosen."""

from __future__ import annotations

from typing import Any

from marlenv.errors import SpecError, nearest
from marlenv.games.chess.env.chess_env import ChessEnv
from marlenv.games.chess.env.grouped_chess_env import ChessTurns, GroupedChessEnv
from marlenv.games.chess.rules import Chess
from marlenv.games.env.make import with_sizes
from marlenv.options import check_options, keywords

RULES = ("draws", "chess960", "number", "path")
LAYOUTS = ("grouped", "torchrl")


def make_chess(
    num_envs: int | None = None, *, max_steps: int | None = None, layout: str = "grouped", **options: Any
) -> ChessTurns:
    """What ``make("chess")`` makes.

    Args:
        num_envs: how many games at once; any batch size is taken when left out.
        max_steps: the same as ``max_plies``.
        layout: ``"grouped"`` for a group per player, or ``"torchrl"`` for TorchRL's keys.
        **options: those of :class:`~marlenv.games.chess.Chess`, and of :class:`~marlenv.games.chess.GroupedChessEnv`
            or of :class:`~marlenv.ChessEnv`.

    Raises:
        TypeError: there is no such option; names the nearest.
        SpecError: there is no such layout; or what has two names is given two values.
    """
    if layout not in LAYOUTS:
        raise SpecError(f"chess: layout={layout!r}; {nearest(layout, LAYOUTS)}")
    options = with_sizes("Chess", options, num_envs, max_steps)
    if layout == "torchrl":
        check_options("chess", options, keywords(ChessEnv) - {"rules"})
        return ChessEnv(**options)
    check_options("chess", options, {*RULES, *keywords(GroupedChessEnv)} - {"rules", "observation_dtype"})
    rules = Chess(**{name: options.pop(name) for name in RULES if name in options})
    return GroupedChessEnv(rules, **options)
