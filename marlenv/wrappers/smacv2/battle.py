"""SMACv2's battles, for ``SMACv2Wrapper``: how they begin, which orders are legal, and why they are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marlenv.errors import IllegalAction, ResetError

KINDS = ("marine", "marauder", "medivac", "hydralisk", "zergling", "baneling", "stalker", "colossus", "zealot")
ATTEMPTS = 5  # resets that are tried when the game cannot place its units


def begin(sim: Any, who: str) -> None:
    """Starts a battle; again where the game answers that it cannot place its units."""
    for _ in range(ATTEMPTS):
        if sim.reset() is not None:
            return
    raise ResetError(f"{who}: the game could not place its units in {ATTEMPTS} resets")


def check_legal(who: str, names: Sequence[str], acting: Mapping[str, Any], chosen: Sequence[int], legal: Any) -> None:
    """Raises if a unit that lives was given an order that it cannot obey."""
    for i, name in enumerate(names):
        if name in acting and not (0 <= chosen[i] < legal.shape[1] and legal[i][chosen[i]]):
            allowed = np.flatnonzero(legal[i]).tolist()
            raise IllegalAction(f"{who}: action {chosen[i]} of agent {name!r} is illegal; legal are {allowed}")


def battle(info: Mapping[str, Any], late: bool, allies: int) -> dict[str, Any]:
    """The infos of a step; ``episode_limit`` is whether the battle was cut off.

    smacv2 says so itself only with ``continuing_episode=True``; otherwise the last step that is allowed was cut off
    unless somebody has won or lost in it.

    Args:
        info: what the game told.
        late: whether the battle ended in the last step that is allowed.
        allies: how many units the team has.
    """
    dead = {name: int(info.get(name, 0)) for name in ("dead_allies", "dead_enemies")}
    won = bool(info.get("battle_won", False))
    cut = bool(info.get("episode_limit")) or (late and not won and dead["dead_allies"] < allies)
    return {"battle_won": won, "episode_limit": cut, **dead}


def kind_of(sim: Any, agent: int) -> str:
    """The kind of unit that an agent commands."""
    game, number = getattr(sim, "env", sim), sim.agents[agent].unit_type
    return next((name for name in KINDS if getattr(game, f"{name}_id", None) == number), str(number))
