"""Names of entries: which of them are memories, and which are taken."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

from marlenv.keys import NestedKey, beside, last, path


def is_public(key: NestedKey) -> bool:
    """Whether an entry is meant to be seen: memories have a name that begins with an underscore, or lie below one.

    >>> is_public("step_count"), is_public("_step_count"), is_public(("_first", "observation"))
    (True, False, False)
    """
    return not any(part.startswith("_") for part in path(key))


def below(key: NestedKey, other: NestedKey) -> bool:
    """Whether an entry is ``other``, or one of the group ``other``.

    >>> below(("agents", "done"), "agents"), below("done", "done"), below("done", "agents")
    (True, True, False)
    """
    return path(key)[: len(path(other))] == path(other)


def untaken(key: NestedKey, taken: Container[NestedKey]) -> NestedKey:
    """A key, numbered where it is taken.

    >>> untaken(("agents", "line"), [("agents", "line")])
    ('agents', 'line_2')
    """
    if key not in taken:
        return key
    return next(name for n in count(2) if (name := beside(key, f"{last(key)}_{n}")) not in taken)
