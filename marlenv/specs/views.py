"""What ``keys()``, ``values()`` and ``items()`` of a composite return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from marlenv.keys import Path, nested, path

if TYPE_CHECKING:
    from marlenv.specs.base import TensorSpec
    from marlenv.specs.composite import Composite

Leaf = Callable[[type], bool] | None
Pick = Callable[[Any, Any], Any]


class SpecView:
    """The entries of a composite, read when they are asked for: iterable, sized, and ``in`` works.

    Args:
        spec: the composite.
        pick: what to show of key and spec.
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
        return (self._pick(nested(key), spec) for key, spec in self._walk(self._spec, ()))

    def _walk(self, node: Any, prefix: Path) -> Iterator[tuple[Path, TensorSpec | None]]:
        for name in node:
            spec, key = node._entry(name), (*prefix, name)
            composite = hasattr(spec, "_entry")
            whole = self._static and composite and spec.step_mdp_static
            leaf = whole or not composite or (self._is_leaf is not None and self._is_leaf(type(spec)))
            if (leaf or not self._leaves) and (whole or not self._static):
                yield key, spec
            if self._nest and not leaf:
                yield from self._walk(spec, key)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, (str, tuple)):
            item = nested(path(item))
        return any(item == one for one in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"{list(self)}"
