"""Partial resets of VMAS at the cost of a full one, and its random states kept apart, for ``VmasWrapper``.

VMAS resets all rows or a single row, and its scenarios cannot be told which rows. So all rows are reset, and what is
kept is put back, wherever the scenario, the world and their entities hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, MutableSequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from marlenv.optional import need

Where = tuple[Any, ...]
FOREIGN = frozenset({"builtins", "torch", "numpy", "gym", "pyglet", "enum", "typing", "functools", "random"})
"""Modules whose objects hold no state of a scenario."""


class Generators:
    """The random states of one env: VMAS keeps one for all its envs, so one would disturb the other.

    Partial resets draw from a second state, so that rows that are kept go on as if nothing had been reset. Copies have
    states of their own.
    """

    def __init__(self) -> None:
        self._shared = _shared_state()
        self._own = {"main": list(self._shared), "partial": list(self._shared)}

    def __getstate__(self) -> dict[str, list[Any]]:
        return self._own

    def __setstate__(self, own: dict[str, list[Any]]) -> None:
        self._shared, self._own = _shared_state(), own

    @contextmanager
    def __call__(self, which: str = "main") -> Iterator[None]:
        """Runs VMAS with this env's random state, and outside of inference mode, whose tensors VMAS could not write to
        later.
        """
        others = list(self._shared)
        self._shared[:] = self._own[which]
        try:
            with _no_inference():
                yield
        finally:
            self._own[which][:] = self._shared
            self._shared[:] = others


@contextmanager
def _no_inference() -> Iterator[None]:
    """Ordinary tensors without gradients in place of inference mode; nothing where that is off."""
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False), torch.no_grad():
            yield
    else:
        yield


def _shared_state() -> list[Any]:
    """The list in which VMAS keeps its random state."""
    shared: list[Any] = need("vmas.simulator.environment", "VmasWrapper").Environment.vmas_random_state
    return shared


class Snapshot:
    """The state of a simulator, attribute by attribute; in containers that are new, by the way from the root to them.

    Tensors with a row per env (``[B, ...]``; ``[T, B, ...]`` in a ring of steps) are put back row by row. What all rows
    share (numbers, other tensors, which entity is the goal) is put back whole: VMAS draws it anew even when it resets a
    single row, and would so change the rows that go on.

    >>> class Scenario: pass
    >>> scenario = Scenario()
    >>> scenario.memory, scenario.mass = {"a": torch.zeros(2)}, 1.0
    >>> before = Snapshot(scenario, 2)
    >>> scenario.memory, scenario.mass = {"a": torch.ones(2)}, 2.0
    >>> before.restore(torch.tensor([True, False]))
    >>> scenario.memory["a"], scenario.mass
    (tensor([0., 1.]), 1.0)
    """

    def __init__(self, root: Any, rows: int) -> None:
        self._root, self._rows = root, rows
        self._by_owner: dict[tuple[int, Any], Any] = {}
        self._by_way: dict[Where, Any] = {}
        self._owners = []  # held, so that no other object gets the id of one of them
        for where, owner, key, value in self._walk():
            self._by_owner[id(owner), key] = self._by_way[where] = value.clone() if isinstance(value, Tensor) else value
            self._owners.append(owner)
        self._known = {id(owner) for owner in self._owners}

    def restore(self, kept: Tensor) -> None:
        """Puts back the rows that ``kept`` (bool ``[B]``) marks, and what all rows share."""
        for where, owner, key, value in sorted(self._walk(), key=lambda part: part[2] != "buffer"):  # before "pointer"
            old = self._old(where, owner, key, value)
            if old is value:
                continue
            if isinstance(value, Tensor) and isinstance(old, Tensor) and old.shape == value.shape:
                ring = key == "buffer" and _is_ring(owner)
                pointer = self._old((*where[:-1], "pointer"), owner, "pointer", owner.pointer) if ring else 0
                old = self._mixed(kept, old, _turned(owner, pointer) if ring else value, dim=int(ring))
                if isinstance(owner, tuple):
                    value.copy_(old)
            if isinstance(owner, (MutableMapping, MutableSequence)):
                owner[key] = old
            elif not isinstance(owner, tuple):
                vars(owner)[key] = old

    def _old(self, where: Where, owner: Any, key: Any, value: Any) -> Any:
        """What stood there before; ``value`` if nothing did."""
        known = id(owner) in self._known
        return self._by_owner.get((id(owner), key), value) if known else self._by_way.get(where, value)

    def _mixed(self, kept: Tensor, old: Tensor, new: Tensor, dim: int) -> Tensor:
        """Old rows where they are kept, else new ones; all that is old where ``dim`` is not one of rows."""
        if new.ndim <= dim or new.shape[dim] != self._rows or old.dtype != new.dtype:
            return old
        return torch.where(kept.reshape(-1, *[1] * (new.ndim - dim - 1)), old, new)

    def _walk(self) -> Iterator[tuple[Where, Any, Any, Any]]:
        """Every attribute that is no container: the way to it, its owner, its name there, its value."""
        visited: set[int] = set()
        queue: list[tuple[Where, Any]] = [((), self._root)]
        while queue:
            where, owner = queue.pop()
            if id(owner) in visited:
                continue
            visited.add(id(owner))
            for key, value in _parts(owner):
                here = (*where, key)
                if isinstance(value, (dict, list, tuple, Distribution)):
                    queue.append((here, value))
                    continue
                yield here, owner, key, value
                if not isinstance(value, Tensor) and _holds_state(value):
                    queue.append((here, value))


def _parts(owner: Any) -> list[tuple[Any, Any]]:
    if isinstance(owner, MutableMapping):
        return list(owner.items())
    if isinstance(owner, (MutableSequence, tuple)):
        return list(enumerate(owner))
    return list(vars(owner).items()) if hasattr(owner, "__dict__") else []


def _is_ring(owner: Any) -> bool:
    """Whether it holds the last ``T`` steps in ``buffer`` ``[T, B, ...]``, the next one goes where ``pointer`` says."""
    return {"buffer", "pointer", "valid_size"} <= getattr(owner, "__dict__", {}).keys()


def _turned(ring: Any, pointer: int) -> Tensor:
    """The buffer of a ring with its latest step before ``pointer``; its first step stands in all places before it.

    >>> from types import SimpleNamespace
    >>> _turned(SimpleNamespace(buffer=torch.tensor([5, 6, 0, 0]), pointer=2, valid_size=2), 1)
    tensor([6, 5, 5, 5])
    """
    size = ring.buffer.shape[0]
    ages = (pointer - 1 - torch.arange(size)) % size
    return ring.buffer[(ring.pointer - 1 - ages.clamp(max=max(ring.valid_size, 1) - 1)) % size]


def _holds_state(value: Any) -> bool:
    """Whether to look inside: objects of VMAS or of a scenario; no modules or functions."""
    module = type(value).__module__ or ""
    return hasattr(value, "__dict__") and module.split(".")[0] not in FOREIGN and not isinstance(value, type)


def reset_rows(sim: Any, where: Tensor, masked: bool) -> Any:
    """Resets the rows that ``where`` (bool ``[B]``) marks; returns observations, flags and infos, of use in those rows.

    Args:
        sim: a VMAS ``Environment``.
        where: the rows.
        masked: reset all rows and put back the others; else row by row.
    """
    before = Snapshot(sim, sim.num_envs)
    if masked:
        data = sim.reset(return_info=True, return_dones=True)
    else:
        for i in where.nonzero().flatten().tolist():
            sim.reset_at(i, return_observations=False)
        data = sim.get_from_scenario(True, False, True, True)
    before.restore(~where)
    return data
