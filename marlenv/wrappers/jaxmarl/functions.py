"""JaxMARL's transition, compiled for ``JaxMARLWrapper``."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from marlenv.optional import need
from marlenv.wrappers._jax_rows import FAR, Functions, Layouts, over_rows
from marlenv.wrappers.jaxmarl.transition import WHO, Transition

LEGAL = ("get_avail_actions", "get_legal_moves")
"""What JaxMARL's envs call the function that says which actions are legal; the second one is Hanabi's."""


def legal_of(sim: Any, state: Any) -> str | None:
    """The simulator's function that says which actions are legal; None where it has none, or actions are no choices."""
    if not all(hasattr(sim.action_space(agent), "n") for agent in sim.agents):
        return None
    for name in LEGAL:
        if hasattr(sim, name):
            with suppress(NotImplementedError):
                need("jax", WHO).eval_shape(getattr(sim, name), state)
                return name
    return None


@lru_cache(maxsize=64)
def compiled(sim: Any, groups: Layouts, names: tuple[str, ...], legal: str | None, max_steps: int | None) -> Functions:
    """The functions of a simulator, compiled once for each way of grouping its agents."""
    return over_rows(Transition(sim, groups, names, legal, max_steps or FAR))
