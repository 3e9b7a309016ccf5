"""Whether policies explore: tensordict's interaction types under the names that TorchRL gives them."""

from __future__ import annotations

import warnings
from typing import Any

from tensordict.nn.probabilistic import InteractionType, interaction_type, set_interaction_type

__all__ = [
    "ExplorationType",
    "InteractionType",
    "exploration_mode",
    "exploration_type",
    "interaction_type",
    "set_exploration_mode",
    "set_exploration_type",
    "set_interaction_type",
]

ExplorationType, exploration_type, set_exploration_type = InteractionType, interaction_type, set_interaction_type


def exploration_mode() -> str | None:
    """The exploration type as TorchRL spelt it before: ``"random"``, ``"mode"``, ``"mean"``, ``"median"``, ...

    >>> with set_exploration_type(ExplorationType.MODE):
    ...     exploration_mode()
    'mode'
    """
    kind = exploration_type()
    return None if kind is None else str(kind.name).lower()


def set_exploration_mode(mode: str | InteractionType) -> Any:
    """The older spelling of :func:`set_exploration_type`; takes the mode's name."""
    warnings.warn("set_exploration_mode is deprecated; use set_exploration_type", DeprecationWarning, stacklevel=2)
    return set_exploration_type(ExplorationType.from_str(mode) if isinstance(mode, str) else mode)
