"""What ``make`` makes of a game's name and options: the one place where a layout is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from marlenv.envs.registry import load
from marlenv.errors import SpecError, nearest
from marlenv.games.env.game_env import GameEnv
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.games.rules import Rules
from marlenv.options import check_options, keywords

LAYOUTS = ("grouped", "torchrl")


def make_game(
    rules: str | type[Rules[Any]],
    num_envs: int | None = None,
    *,
    max_steps: int | None = None,
    layout: str = "grouped",
    torchrl: str | None = None,
    **options: Any,
) -> TurnBasedEnv[Any]:
    """An env of a game.

    Args:
        rules: the class of the rules, or where it is: ``"module:class"``.
        num_envs: how many games at once; any batch size is taken when left out.
        max_steps: the same as ``max_plies``.
        layout: ``"grouped"``, which all games have, or ``"torchrl"`` where the game has TorchRL's keys, too.
        torchrl: where the env with TorchRL's keys is, ``"module:class"``.
        **options: those of :class:`~marlenv.GameEnv` and those of the rules; or of the env with TorchRL's keys.

    Raises:
        TypeError: an option that neither has; names the nearest.
        SpecError: the game has no such layout; or what has two names is given two values.
    """
    kind: Any = load(rules) if isinstance(rules, str) else rules
    layouts = LAYOUTS[: 1 if torchrl is None else 2]
    if layout not in layouts:
        raise SpecError(f"{kind.__name__}: layout={layout!r}; {nearest(layout, layouts)}")
    options = with_sizes(kind.__name__, options, num_envs, max_steps)
    if layout == "torchrl" and torchrl is not None:
        made: Any = load(torchrl)
        check_options(f"{kind.__name__} with layout='torchrl'", options, keywords(made) - {"rules"})
        env: TurnBasedEnv[Any] = made(**options)
        return env
    own, others = {f.name for f in fields(kind)}, keywords(GameEnv) - {"rules"}
    check_options(kind.__name__, options, own | others)
    rest = {name: value for name, value in options.items() if name in others}
    return GameEnv(kind(**{name: value for name, value in options.items() if name in own}), **rest)


def with_sizes(who: str, options: Mapping[str, Any], num_envs: int | None, max_steps: int | None) -> dict[str, Any]:
    """The options of an env of a game, with ``batch_size`` and ``max_plies`` as their other names say them.

    Raises:
        SpecError: both names are given, with different values.
    """
    size = options.get("batch_size")
    if num_envs is not None and size is not None and ([size] if isinstance(size, int) else list(size)) != [num_envs]:
        raise SpecError(f"{who}: num_envs={num_envs} is batch_size=[{num_envs}], got batch_size={size!r} too; give one")
    plies = options.get("max_plies")
    if max_steps is not None and plies not in (None, max_steps):
        raise SpecError(f"{who}: max_steps is another name of max_plies, got {max_steps!r} and {plies!r}; give one")
    named = {"batch_size": None if num_envs is None else [num_envs], "max_plies": max_steps}
    return {**options, **{name: value for name, value in named.items() if value is not None}}
