"""Data that are laid out once, and made again of other tensors: nested tensordicts without asking what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensordict import TensorDict
from torch import Size, Tensor

from marlenv.tensordicts import new


class DataTree:
    """Which tensordicts hold which leaves, under which names.

    Args:
        data: a tensordict, or a tensor.
        leaves: to which the leaves of the data are added, in order, each once.

    >>> leaves: list[Tensor] = []
    >>> tree = DataTree(TensorDict({"a": torch.ones(2), "b": {"c": torch.zeros(2)}}, [2]), leaves)
    >>> tree.of([2 * leaf for leaf in leaves])["a"]
    tensor([2., 2.])
    """

    __slots__ = ("nodes", "root")

    def __init__(self, data: Any, leaves: list[Tensor]) -> None:
        self.nodes: list[tuple[list[tuple[str, int]], Size, Any]] = []
        self.root = self._place(data, leaves, {})

    def _place(self, data: Any, leaves: list[Tensor], found: dict[int, int]) -> int:
        """Where a part of the data is among the leaves, or, from the end, among the tensordicts, the inner first."""
        if type(data) is not TensorDict:
            place = found.setdefault(id(data), len(leaves))
            if place == len(leaves):
                leaves.append(data)
            return place
        places = [(name, self._place(value, leaves, found)) for name, value in data._tensordict.items()]
        self.nodes.append((places, data.batch_size, data.device))
        return -len(self.nodes)

    def of(self, leaves: Sequence[Tensor]) -> Any:
        """The same data of other leaves: new tensordicts."""
        values: list[Any] = [*leaves, *[None] * len(self.nodes)]
        for i, (places, batch, device) in enumerate(self.nodes, 1):
            values[-i] = new({name: values[at] for name, at in places}, batch, device)
        return values[self.root]
