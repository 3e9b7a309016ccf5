"""From a game's name and options to its env."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from marlenv.envs.registry import load
from marlenv.errors import nearest
from marlenv.games.game_env import GameEnv

ENV_OPTIONS = {
    "batch_size",
    "device",
    "illegal",
    "max_plies",
    "opponent",
    "seat",
    "seed",
    "group_map",
    "observation_dtype",
}


def make_game(rules: str, num_envs: int | None = None, *, max_steps: int | None = None, **options: Any) -> GameEnv[Any]:
    """An env of a game.

    Args:
        rules: where the rules are, ``"module:class"``.
        num_envs: how many games at once; any batch size is taken when left out.
        max_steps: the same as ``max_plies``.
        **options: those of :class:`~marlenv.GameEnv` and those of the rules.

    Raises:
        TypeError: an option that neither has; names the nearest.
    """
    kind = load(rules)
    own = {f.name for f in fields(kind)}
    if unknown := sorted(options.keys() - own - ENV_OPTIONS):
        raise TypeError(f"{kind.__name__} has no option {unknown[0]!r}; {nearest(unknown[0], own | ENV_OPTIONS)}")
    if max_steps is not None:
        options["max_plies"] = max_steps
    rest = {name: value for name, value in options.items() if name in ENV_OPTIONS}
    if num_envs is not None:
        rest["batch_size"] = [num_envs]
    return GameEnv(kind(**{name: value for name, value in options.items() if name in own}), **rest)
