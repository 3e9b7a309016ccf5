"""Specs of spaces of users' own classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from marlenv.errors import MissingExtra, SpecTypeError
from marlenv.options import takes
from marlenv.specs import TensorSpec
from marlenv.wrappers._backend import gym_backend

Convert = Callable[..., TensorSpec]
_CUSTOM: dict[type, Convert] = {}


def register_gym_spec_conversion(spec_type: type | str) -> Callable[[Convert], Convert]:
    """Decorates a function that makes a spec of a space of one's own class, or of one that is derived from it.

    The function gets the space, and by name what it asks for: ``categorical``, whether discrete values are numbers, not
    one-hot vectors, ``device``, and TorchRL's ``categorical_action_encoding``, which is the same, ``dtype`` (None),
    ``remap_state_to_observation`` (True) and ``batch_size`` (``()``).

    Args:
        spec_type: the class of the space, ``"module.Class"``, or a class's name in the backend's ``spaces``.

    Raises:
        SpecTypeError: it is none.

    >>> from marlenv.specs import Categorical
    >>> class Coin: pass
    >>> @register_gym_spec_conversion(Coin)
    ... def coin(space, **options):
    ...     return Categorical(2)
    >>> taught_spec(Coin(), True, None)
    Categorical([], int64, n=2)
    """

    def decorate(convert: Convert) -> Convert:
        kind = spec_type
        if isinstance(kind, str):
            kind = _class_named(kind)
        if not isinstance(kind, type) or not callable(convert):
            raise SpecTypeError(
                f"register_gym_spec_conversion: expected a class, or 'module.Class', and a function, got {kind!r} and "
                f"{convert!r}"
            )
        _CUSTOM[kind] = convert
        return convert

    return decorate


def _class_named(where: str) -> Any:
    try:
        found: Any = gym_backend("spaces")
    except MissingExtra:
        found = None
    for part in where.split("."):
        found = getattr(found, part, None)
    if found is None:
        from marlenv.envs.registry import load

        return load(":".join(where.rsplit(".", 1)))
    return found


def taught_spec(space: Any, categorical: bool, device: torch.device | None) -> TensorSpec | None:
    """The spec of a space whose class, or the nearest of its bases, was registered; None where none was."""
    convert = next((_CUSTOM[kind] for kind in type(space).__mro__ if kind in _CUSTOM), None)
    if convert is None:
        return None
    options = {
        "dtype": None,
        "device": device,
        "categorical_action_encoding": categorical,
        "remap_state_to_observation": True,
        "batch_size": (),
        "categorical": categorical,
    }
    return convert(space, **{name: value for name, value in options.items() if takes(convert, name, unsure=True)})
