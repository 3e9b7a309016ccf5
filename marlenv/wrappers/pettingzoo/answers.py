"""What PettingZoo's envs have and answer, checked: some are written for other versions of its interfaces."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

from marlenv.errors import GroupError, SpecError, SpecTypeError
from marlenv.specs import TensorSpec, Unbounded
from marlenv.wrappers._answers import unlike
from marlenv.wrappers._info_dicts import info_numbers
from marlenv.wrappers._spaces import torch_dtype

EACH = "a dict by agent each"
RESET = f"(observations, infos), {EACH}"
STEP = f"(observations, rewards, terminations, truncations, infos), {EACH}"


def check_interface(who: str, sim: Any) -> None:
    """Raises if an env does not name its agents, or takes no seed.

    Args:
        who: the wrapper, for messages.
        sim: an env of either interface.

    Raises:
        SpecError: it has no ``possible_agents``, or its ``reset`` has no ``seed``.
        GroupError: two of its agents have one name, or one has a name that is no string.
    """
    name = type(sim).__name__
    agents = getattr(sim, "possible_agents", None)
    if agents is None:
        raise SpecError(f"{who}: {name} has no possible_agents; set them to all agents that it may ever have")
    if odd := [agent for agent in agents if not isinstance(agent, str)]:
        raise GroupError(f"{who}: possible_agents of {name} must be strings, got {odd[0]!r}; call it 'agent_0', say")
    if twice := [agent for agent, times in Counter(agents).items() if times > 1]:
        raise GroupError(f"{who}: possible_agents of {name} has {twice[0]!r} twice; give every agent its own name")
    try:
        told = inspect.signature(sim.reset).parameters
    except (TypeError, ValueError):  # of something written in C
        return
    if "seed" not in told and not any(one.kind is one.VAR_KEYWORD for one in told.values()):
        raise SpecError(f"{who}: {name}.reset takes no seed; PettingZoo's is reset(seed=None, options=None)")


def checked_options(who: str, options: Any) -> Mapping[str, Any] | None:
    """The options of a reset, which must be a dict."""
    if not isinstance(options, Mapping | None):
        raise unlike(f"{who}.reset: options", "a dict", options, "be")
    return options


def first_infos(who: str, sim: Any, *, parallel: bool) -> Mapping[str, Any]:
    """The infos of a first reset, agent by agent."""
    found = sim.reset()
    infos = of_reset(who, sim, found)[1] if parallel else sim.infos
    if not isinstance(infos, Mapping):
        raise unlike(f"{who}: infos of {type(sim).__name__}", "a dict by agent", infos, "be")
    return infos


def of_reset(who: str, sim: Any, answer: Any) -> tuple[Any, ...]:
    """What a parallel env's ``reset`` answered: observations and infos."""
    return _dicts(f"{who}: {type(sim).__name__}.reset", RESET, 2, answer)


def of_step(who: str, sim: Any, answer: Any) -> tuple[Any, ...]:
    """What a parallel env's ``step`` answered: observations, rewards, two flags and infos."""
    return _dicts(f"{who}: {type(sim).__name__}.step", STEP, 5, answer)


def _dicts(where: str, wanted: str, count: int, answer: Any) -> tuple[Any, ...]:
    parts = answer if isinstance(answer, (tuple, list)) else ()
    if len(parts) != count or not all(type(one) is dict or isinstance(one, Mapping) for one in parts):
        if not parts:
            raise unlike(where, wanted, answer)
        given = ", ".join(type(one).__name__ for one in parts)
        raise SpecTypeError(f"{where} must return {wanted}, got ({given})")
    return tuple(parts)


def state_spec(who: str, sim: Any) -> TensorSpec:
    """The spec of an env's global state.

    Raises:
        SpecTypeError: it is no array of numbers.
    """
    state = sim.state()
    array = info_numbers(state)
    if array is None:
        raise unlike(f"{who}: with return_state, {type(sim).__name__}.state", "numbers of one shape", state)
    return Unbounded(array.shape, dtype=torch_dtype(array.dtype))
