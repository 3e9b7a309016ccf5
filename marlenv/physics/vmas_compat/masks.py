"""What files do to tensors of rows in place, such as ``reward[where] -= 1``, while they are traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from marlenv.physics.jit.graph import Untraceable
from marlenv.physics.jit.tracer import Traced, cells_of

READ, WRITE = Tensor.__getitem__, Tensor.__setitem__


class Masked:
    """``x[where]``: what it holds is kept for all rows, and only used where it is meant.

    Args:
        whole: for all rows.
        where: bool, of the first dimensions of ``whole``.

    """

    def __init__(self, whole: Tensor, where: Traced) -> None:
        self.whole, self.where = whole, where

    def _with(self, other: Any, do: Callable[[Any, Any], Any]) -> Masked:
        if isinstance(other, Masked):
            if not _same(other.where, self.where):
                raise Untraceable("computes with the rows of two masks")
            other = other.whole
        elif isinstance(other, Tensor) and other.ndim:
            raise Untraceable("computes with the rows of a mask and other tensors")
        return Masked(do(self.whole, other), self.where)

    def __add__(self, other: Any) -> Masked:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Masked:
        return self._with(other, operator.sub)

    def __mul__(self, other: Any) -> Masked:
        return self._with(other, operator.mul)

    def __truediv__(self, other: Any) -> Masked:
        return self._with(other, operator.truediv)

    __iadd__, __isub__, __imul__, __itruediv__ = __add__, __sub__, __mul__, __truediv__
    __radd__, __rmul__ = __add__, __mul__

    def __getattr__(self, name: str) -> Any:
        raise Untraceable(f"uses {name} of the rows of a mask")


class MaskedWrites(TorchFunctionMode):
    """Within it masks pick no rows: what is written through them is written by ``torch.where``.

    What a file makes of the rows itself, such as ``torch.zeros(world.batch_dim)``, becomes a tensor that can be traced.

    Args:
        like: tensors are taken over while this is one of expressions; else nothing is.

    """

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        self.graph = like.graph if isinstance(like, Traced) else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation, or what stands for it."""
        graph = self.graph
        if graph is None:
            return func(*args, **(kwargs or {}))
        if func is READ and _is_mask(args[1]):
            return Masked(args[0], args[1])
        if func is WRITE and (_is_mask(args[1]) or (isinstance(args[1], slice) and args[1] == slice(None))):
            return self._write(*args)
        out = func(*args, **(kwargs or {}))
        if type(out) is Tensor and out.ndim and out.shape[0] == graph.rows and out.dtype in DTYPES:
            return Traced(cells_of(graph, out), out.shape, out.dtype, graph)
        return out

    def _write(self, into: Any, where: Any, value: Any) -> None:
        if not isinstance(into, Traced) or into.shared:
            raise Untraceable("writes into a tensor that others may see")
        if isinstance(where, slice):
            new = torch.as_tensor(value, dtype=into.dtype) if not isinstance(value, Tensor) else value
            new = torch.where(torch.ones(into.shape, dtype=torch.bool), new, into)
        else:
            if isinstance(value, Masked):
                if not _same(value.where, where):
                    raise Untraceable("writes the rows of one mask into those of another")
                value = value.whole
            elif isinstance(value, Tensor) and value.ndim:
                raise Untraceable("writes a tensor into the rows of a mask")
            wide = where.reshape(*where.shape, *(1,) * (into.ndim - where.ndim))
            new = torch.where(wide, value, into)
        if new.shape != into.shape:
            raise Untraceable("writes a tensor of another shape")
        cast: Any = new.to(into.dtype)
        into.cells = cast.cells


DTYPES = {torch.float32, torch.bool, torch.int64}


def _same(a: Traced, b: Traced) -> bool:
    """Whether two masks are the same: equal expressions are one node of the graph."""
    return a.shape == b.shape and all(x is y for x, y in zip(a.cells.flat, b.cells.flat, strict=True))


def _is_mask(x: Any) -> bool:
    return isinstance(x, Traced) and x.dtype == torch.bool
