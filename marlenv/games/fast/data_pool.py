"""Data on the CPU in memory that is written again: making a large tensor costs more than filling it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

from marlenv.games.fast.data_tree import DataTree

Data = TypeVar("Data")
Memory = TypeVar("Memory")

holders: Any = getattr(torch._C, "_storage_Use_Count", None)
"""How many hold a storage; None in a torch that does not say: then nothing is used again."""


class DataPool:
    """Lends whole tensordicts for the steps of an env, and the same memory again once nobody else holds any of it.

    A kind of data is laid out once, as a tensordict or a tensor, and handed out as new tensors over the same memory.
    Tensors over it are seen, wherever they are kept; a bare address, or a storage without a tensor, is not. Copies of
    an env share no memory.

    >>> pool = DataPool()
    >>> make = lambda: (torch.empty(2, 3), "whatever writes to it needs")
    >>> first, second = pool.take("kind", make)[0], pool.take("kind", make)[0]
    >>> first.data_ptr() == second.data_ptr()
    False
    >>> at = first.data_ptr()
    >>> del first
    >>> pool.take("kind", make)[0].data_ptr() == at
    True
    """

    MOST = 12  # of a kind are kept
    KINDS = 8

    def __init__(self) -> None:
        self._held: dict[Hashable, list[_Block]] = {}

    def take(self, kind: Hashable, make: Callable[[], tuple[Data, Memory]]) -> tuple[Data, Memory]:
        """Data of any content that share memory with nothing that is still held elsewhere, and what writes to them.

        Args:
            kind: of data.
            make: lays new data out; returns them, and what writes to them needs, which may keep their tensors.
        """
        give, memory = self.reserve(kind, make)
        return give(), memory

    def reserve(self, kind: Hashable, make: Callable[[], tuple[Data, Memory]]) -> tuple[Callable[[], Data], Memory]:
        """The same with data that are laid over the memory once they are asked for: if nobody does, nothing is lent.

        Returns:
            a function that gives the data, to be called before the next of this kind is taken, and the memory.
        """
        if holders is None:
            data, memory = make()
            return lambda: data, memory
        kind = (kind, torch.is_inference_mode_enabled())
        held = self._held.get(kind)
        if held is None:
            if len(self._held) == self.KINDS:
                del self._held[next(iter(self._held))]
            held = self._held[kind] = []
        for i in range(len(held) - 1, -1, -1):  # the newest first, which is nearest to the CPU
            block = held[i]
            if block.free():
                held.append(held.pop(i))
                return block.anew, block.memory
        block = _Block(*make())
        held.append(block)
        del held[: -self.MOST]
        return block.anew, block.memory

    def __deepcopy__(self, memo: Any) -> DataPool:
        return DataPool()

    def __reduce__(self) -> Any:
        return DataPool, ()


class _Block:
    """One set of data: its leaves, how tensordicts are made of them, and what writes to it needs."""

    __slots__ = ("leaves", "memory", "parts", "tree")

    def __init__(self, data: Any, memory: Any) -> None:
        self.leaves: list[Tensor] = []
        self.tree, self.memory = DataTree(data, self.leaves), memory
        whole = {leaf.untyped_storage()._cdata: leaf for leaf in self.leaves}
        self.parts = [(leaf, leaf.data_ptr(), storage, holders(storage)) for storage, leaf in whole.items()]

    def free(self) -> bool:
        """Whether nobody else holds any of it, and it is where it was: what other processes are given moves."""
        for leaf, where, storage, alone in self.parts:  # a loop: this is asked several times a step
            if holders(storage) > alone or leaf.data_ptr() != where:
                return False
        return True

    def anew(self) -> Any:
        """The data: new tensors, and tensordicts, over the same memory."""
        return self.tree.of([leaf.data for leaf in self.leaves])  # what detach gives, in two thirds of its time
