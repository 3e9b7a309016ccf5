"""Data on the CPU in memory that is written again: making a large tensor costs more than filling it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from tensordict import TensorDict
from torch import Tensor

from marlenv.tensordicts import new

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
        if holders is None:
            return make()
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
                return block.anew(), block.memory
        block = _Block(*make())
        held.append(block)
        del held[: -self.MOST]
        return block.anew(), block.memory

    def __deepcopy__(self, memo: Any) -> DataPool:
        return DataPool()

    def __reduce__(self) -> Any:
        return DataPool, ()


class _Block:
    """One set of data: its leaves, where they are in the data, and what writes to it needs."""

    __slots__ = ("form", "leaves", "memory", "parts")

    def __init__(self, data: Any, memory: Any) -> None:
        self.leaves: list[Tensor] = []
        self.form, self.memory = self._form(data), memory
        whole = {leaf.untyped_storage()._cdata: leaf for leaf in self.leaves}
        self.parts = [(leaf, leaf.data_ptr(), storage, holders(storage)) for storage, leaf in whole.items()]

    def _form(self, data: Any) -> Any:
        """The number of a leaf, or those of the entries of a tensordict with their names."""
        if type(data) is TensorDict:
            entries = [(name, self._form(value)) for name, value in data._tensordict.items()]
            return entries, data.batch_size, data.device
        for i, leaf in enumerate(self.leaves):
            if leaf is data:
                return i
        self.leaves.append(data)
        return len(self.leaves) - 1

    def free(self) -> bool:
        """Whether nobody else holds any of it, and it is where it was: what other processes are given moves."""
        for leaf, where, storage, alone in self.parts:  # a loop: this is asked several times a step
            if holders(storage) > alone or leaf.data_ptr() != where:
                return False
        return True

    def anew(self) -> Any:
        """The data: new tensors, and tensordicts, over the same memory."""
        return _filled(self.form, [leaf.detach() for leaf in self.leaves])


def _filled(form: Any, leaves: list[Tensor]) -> Any:
    if type(form) is int:
        return leaves[form]
    entries, batch, device = form
    return new({name: leaves[at] if type(at) is int else _filled(at, leaves) for name, at in entries}, batch, device)
