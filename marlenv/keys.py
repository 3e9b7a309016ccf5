"""Nested keys: ``"reward"`` or ``("agents", "reward")``, and the few things that are done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

NestedKey: TypeAlias = "str | tuple[str, ...]"
Path: TypeAlias = "tuple[str, ...]"

DONE_NAMES = ("done", "terminated", "truncated")
LIFE_NAMES = ("alive", "mask")
"""Who exists and is not done, and who acts; they come together."""


def path(key: NestedKey) -> Path:
    """The key as a flat tuple of strings.

    >>> path("reward"), path(("a", ("b", "c")))
    (('reward',), ('a', 'b', 'c'))
    """
    if isinstance(key, str):
        return (key,)
    if not isinstance(key, tuple):
        raise TypeError(f"a nested key is a string or a tuple of strings, got {key!r}")
    return tuple(part for one in key for part in path(one))


def nested(parts: Iterable[str]) -> NestedKey:
    """The shortest spelling of a path: a string when it has one part.

    >>> nested(["reward"]), nested(["agents", "reward"])
    ('reward', ('agents', 'reward'))
    """
    parts = tuple(parts)
    return parts[0] if len(parts) == 1 else parts


def beside(key: NestedKey, name: str) -> NestedKey:
    """The entry called ``name`` at the same level as ``key``.

    >>> beside("done", "_reset"), beside(("agents", "done"), "_reset")
    ('_reset', ('agents', '_reset'))
    """
    return name if isinstance(key, str) else nested((*key[:-1], name))


def under(prefix: NestedKey, key: NestedKey) -> NestedKey:
    """``key`` below ``prefix``.

    >>> under("next", ("agents", "reward"))
    ('next', 'agents', 'reward')
    """
    return nested((*path(prefix), *path(key)))


def last(key: NestedKey) -> str:
    """The name at the end of a key.

    >>> last("done"), last(("agents", "done"))
    ('done', 'done')
    """
    return key if isinstance(key, str) else key[-1]


def level(key: NestedKey) -> Path:
    """Where the key lives: its path without the last name.

    >>> level("done"), level(("agents", "done"))
    ((), ('agents',))
    """
    return path(key)[:-1]


def by_depth(keys: Iterable[NestedKey]) -> list[NestedKey]:
    """Keys from the root down, by name within a depth: the order of ``env.reward_keys`` and its like.

    >>> by_depth([("b", "done"), "truncated", ("a", "done"), "done"])
    ['done', 'truncated', ('a', 'done'), ('b', 'done')]
    """
    return sorted(keys, key=lambda key: (len(path(key)), path(key)))


def as_tree(keys: Iterable[NestedKey]) -> dict[str, Any]:
    """The keys as nested dicts, None at the leaves: a plan for walking a tensordict level by level.

    >>> as_tree(["reward", ("agents", "reward")])
    {'reward': None, 'agents': {'reward': None}}
    """
    tree: dict[str, Any] = {}
    for key in keys:
        *parents, leaf = path(key)
        node = tree
        for part in parents:
            node = node.setdefault(part, {})
        node[leaf] = None
    return tree


def flatten(tree: Mapping[str, Any], prefix: Path = ()) -> dict[NestedKey, Any]:
    """A nested mapping as one flat dict with nested keys.

    >>> flatten({"a": 1, "b": {"c": 2}})
    {'a': 1, ('b', 'c'): 2}
    """
    flat: dict[NestedKey, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, (*prefix, name)))
        else:
            flat[nested((*prefix, name))] = value
    return flat
