"""State dicts of pools within those of modules that the pools are part of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a pool's state dict under the names that they have in that of a module around it.

    >>> flattened({"worker0": {"scale": 1.0}, "worker1": {"worker0": {"scale": 2.0}}})
    {'worker0.scale': 1.0, 'worker1.worker0.scale': 2.0}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        below = flattened(value) if name.startswith("worker") and isinstance(value, Mapping) else None
        found.update({name: value} if below is None else {f"{name}.{inner}": one for inner, one in below.items()})
    return found


def parted(state: Mapping[str, Any], given: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What is given for the entries of a state dict of one child, under names that begin with ``prefix``.

    >>> parted({"scale": 1.0}, {"worker0.scale": 2.0, "worker1.scale": 3.0}, "worker1.")
    {'scale': 3.0}
    """
    found: dict[str, Any] = {}
    for name, value in state.items():
        if name.startswith("worker") and isinstance(value, Mapping):
            found[name] = parted(value, given, f"{prefix}{name}.")
        elif prefix + name in given:
            found[name] = given[prefix + name]
    return found
