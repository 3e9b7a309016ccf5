"""What ``make`` makes of a game's name and options: the one place where a layout is chosen."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from marlenv.envs.registry import load
from marlenv.errors import SpecError, nearest
from marlenv.games.env.game_env import GameEnv
from marlenv.games.env.turn_based import TurnBasedEnv
from marlenv.games.rules import Rules
from marlenv.options import check_options

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
        SpecError: the game has no such layout.
    """
    kind: Any = load(rules) if isinstance(rules, str) else rules
    layouts = LAYOUTS[: 1 if torchrl is None else 2]
    if layout not in layouts:
        raise SpecError(f"{kind.__name__}: layout={layout!r}; {nearest(layout, layouts)}")
    if max_steps is not None:
        options["max_plies"] = max_steps
    if num_envs is not None:
        options["batch_size"] = [num_envs]
    if layout == "torchrl" and torchrl is not None:
        env: TurnBasedEnv[Any] = load(torchrl)(**options)
        return env
    own = {f.name for f in fields(kind)}
    check_options(kind.__name__, options, own | ENV_OPTIONS)
    rest = {name: value for name, value in options.items() if name in ENV_OPTIONS}
    return GameEnv(kind(**{name: value for name, value in options.items() if name in own}), **rest)
