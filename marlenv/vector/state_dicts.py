"""State dicts of pools within those of modules that the pools are part of, and what loading them changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def followed(pool: Any, states: Mapping[int, Mapping[str, Any]]) -> Iterator[None]:
    """While the children of a pool load something: the specs of the pool then follow theirs, as bounds may be loaded.

    Args:
        pool: what describes its children by ``_described``, takes new ones by ``_take_specs``, and keeps in ``_loaded``
            what children that are made anew are to load, too.
        states: what is loaded, by the numbers of the children.
    """
    before = pool._described()
    try:
        yield
        pool._loaded = {**pool._loaded, **{i: merged(pool._loaded.get(i, {}), own) for i, own in states.items()}}
    finally:
        if not pool.is_closed:
            after = pool._described()
            if any(one.specs != other.specs for one, other in zip(before, after, strict=True)):
                pool._take_specs(after)


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the tensors of two state dicts, of the other where both have them; dicts of children below are merged.

    >>> merged({"a": 1, "worker0": {"b": 2}}, {"a": 3, "worker0": {"c": torch.ones(1)}})
    {'a': 3, 'worker0': {'b': 2, 'c': tensor([1.])}}
    """
    found = dict(one)
    for name, value in other.items():
        if isinstance(value, Mapping):
            below = found.get(name)
            found[name] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            found[name] = value.clone() if hasattr(value, "clone") else value
    return found


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
