"""Whether policies explore: tensordict's interaction types under the names that TorchRL gives them."""

from __future__ import annotations

import warnings
from typing import Any

from tensordict.nn.probabilistic import InteractionType as ExplorationType
from tensordict.nn.probabilistic import interaction_type as exploration_type
from tensordict.nn.probabilistic import set_interaction_type as set_exploration_type

__all__ = ["ExplorationType", "exploration_mode", "exploration_type", "set_exploration_mode", "set_exploration_type"]


def exploration_mode() -> str | None:
    """The exploration type as TorchRL spelt it before: ``"random"``, ``"mode"``, ``"mean"``, ``"median"``, ...

    >>> with set_exploration_type(ExplorationType.MODE):
    ...     exploration_mode()
    'mode'
    """
    kind = exploration_type()
    return None if kind is None else str(kind.name).lower()


def set_exploration_mode(mode: str | ExplorationType) -> Any:
    """The older spelling of :func:`set_exploration_type`; takes the mode's name."""
    warnings.warn("set_exploration_mode is deprecated; use set_exploration_type", DeprecationWarning, stacklevel=2)
    return set_exploration_type(ExplorationType.from_str(mode) if isinstance(mode, str) else mode)
