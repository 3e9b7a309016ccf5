"""What ``keys()``, ``values()`` and ``items()`` of a composite return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from marlenv.keys import Path, nested, path

if TYPE_CHECKING:
    from marlenv.specs.composite import Composite

Leaf = Callable[[type], bool] | None
Pick = Callable[[Any, Callable[[], Any]], Any]


class SpecView:
    """The entries of a composite, read when they are asked for: iterable, sized, and ``in`` works.

    Args:
        spec: the composite.
        pick: what to show of a key and what reads its spec.
        include_nested: go into nested composites.
        leaves_only: leave nested composites out.
        is_leaf: which types count as leaves; all but composites when None.
        step_mdp_static_only: only composites with that mark, as a whole.

    >>> spec = Composite(a=Unbounded((2,)), b=Composite(c=Unbounded((3,))))
    >>> list(spec.keys(include_nested=True)), ("b", "c") in spec.keys(True)
    (['a', 'b', ('b', 'c')], True)
    """

    def __init__(
        self,
        spec: Composite,
        pick: Pick,
        include_nested: bool,
        leaves_only: bool,
        is_leaf: Leaf,
        step_mdp_static_only: bool,
    ) -> None:
        self._spec, self._pick = spec, pick
        self._nest, self._leaves = include_nested, leaves_only
        self._is_leaf, self._static = is_leaf, step_mdp_static_only

    def __iter__(self) -> Iterator[Any]:
        if not (self._nest or self._leaves or self._static):  # everything at this level
            return (self._pick(name, partial(self._spec._entry, name)) for name in self._spec)
        return (self._pick(nested(key), partial(node._entry, key[-1])) for key, node in self._walk(self._spec, ()))

    def _walk(self, node: Any, prefix: Path) -> Iterator[tuple[Path, Composite]]:
        """Every path with the composite that holds its last name."""
        for name in node:
            below, key = node._nested_at(name), (*prefix, name)
            whole = self._static and below is not None and below.step_mdp_static
            leaf = whole or below is None or (self._is_leaf is not None and self._is_leaf(type(below)))
            if (leaf or not self._leaves) and (whole or not self._static):
                yield key, node
            if self._nest and not leaf:
                yield from self._walk(below, key)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, (str, tuple)):
            item = nested(path(item))
        return any(item == one for one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{list(self)}"
