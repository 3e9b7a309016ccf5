"""Arithmetic on tensors ``[..., E, B]`` (entities, then rows) in which every row is treated alike, bit for bit.

Two things stand in the way. PyTorch's CPU kernels work in vectors of 8 to 32 numbers and finish the rest one by one
with another implementation of ``exp`` or ``atan2``, so that the last bit of a row may depend on how many rows there are
(:func:`alike` mends that). And picking entities by an index tensor is fast in eager mode but stops a compiler from
fusing (:func:`pick` and :func:`deposit` unroll inside :func:`graph`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marlenv.constants import PerDevice

VECTOR = 32  # numbers; a multiple of what any of PyTorch's CPU kernels takes at once
MANY = 4096  # numbers; from here on gather and scatter are faster than their relatives for one index
GRAIN = 32768  # numbers; PyTorch gives work to several threads above this (at::internal::GRAIN_SIZE)

Body: TypeAlias = "Callable[[Any, tuple[Tensor, ...]], tuple[Tensor, ...]]"

Repeat: TypeAlias = "Callable[[int, Body, tuple[Tensor, ...], bool], tuple[Tensor, ...]]"


class _Recording(threading.local):
    """Whether a thread records operations, and with which loops; other threads play on meanwhile."""

    depth = 0
    loop: Repeat | None = None


_here = _Recording()


@contextmanager
def graph(loop: Repeat | None = None) -> Iterator[None]:
    """Within this context the physics of this thread unrolls, as a tracer or compiler wants it.

    Args:
        loop: what :func:`repeat` does here, for a tracer that knows loops.

    """
    before = _here.loop
    _here.depth, _here.loop = _here.depth + 1, loop
    try:
        yield
    finally:
        _here.depth, _here.loop = _here.depth - 1, before


def rolls() -> bool:
    """Whether loops and branches are being recorded as such."""
    return not torch.compiler.is_compiling() and _here.loop is not None


def repeat(count: int, body: Body, carry: tuple[Tensor, ...], *, stop: bool = False) -> tuple[Tensor, ...]:
    """``carry = body(i, carry)`` for ``i`` from 0 to ``count - 1``.

    With ``stop`` the last entry of ``carry`` is bool ``[B]`` and says where further rounds change nothing.

    >>> repeat(3, lambda i, x: (x[0] + i,), (torch.zeros(1),))
    (tensor([3.]),)
    """
    if rolls() and _here.loop is not None:
        return _here.loop(count, body, carry, stop)
    for i in range(count):
        carry = body(i, carry)
    return carry


def in_graph() -> bool:
    """Whether operations are being recorded for a compiler."""
    return torch.compiler.is_compiling() or _here.depth > 0


class EntityIndex:
    """Some entities, named by their place in the entity dimension.

    >>> EntityIndex([2, 3, 4]).run, EntityIndex([2, 4]).run
    (slice(2, 5, None), None)
    """

    __slots__ = ("_index", "at", "run")

    def __init__(self, at: Sequence[int]) -> None:
        self.at = tuple(at)
        first, count = (self.at[0], len(self.at)) if self.at else (0, 0)
        straight = self.at == tuple(range(first, first + count))
        self.run = slice(first, first + count) if straight else None
        self._index = PerDevice(lambda device: torch.tensor(self.at, dtype=torch.int64, device=device))

    def __len__(self) -> int:
        return len(self.at)

    def index(self, device: torch.device) -> Tensor:
        """The places as int64 ``[len]`` on ``device``, made once."""
        return self._index[device,]


def pick(x: Tensor, which: EntityIndex) -> Tensor:
    """The entities ``which`` of ``x`` ``[..., E, B]``; ``[..., len(which), B]``.

    >>> pick(torch.arange(4.0).reshape(4, 1), EntityIndex([3, 0, 3])).flatten()
    tensor([3., 0., 3.])
    """
    if which.run is not None:
        return x[..., which.run, :]
    if in_graph():
        parts = x.unbind(-2)
        return torch.stack([parts[i] for i in which.at], -2)
    return x.index_select(x.ndim - 2, which.index(x.device))


def deposit(total: Tensor, which: EntityIndex, x: Tensor, sign: int = 1) -> Tensor:
    """``total`` ``[..., E, B]`` with ``sign`` times ``x`` ``[..., len(which), B]`` added to its entities ``which``, in
    order.

    >>> deposit(torch.zeros(2, 1), EntityIndex([1, 1]), torch.tensor([[2.0], [3.0]]), sign=-1).flatten()
    tensor([ 0., -5.])
    """
    if in_graph():
        parts = list(total.unbind(-2))
        for i, one in zip(which.at, x.unbind(-2), strict=True):
            parts[i] = parts[i] + one if sign > 0 else parts[i] - one
        return torch.stack(parts, -2)
    return total.index_add(total.ndim - 2, which.index(x.device), x, alpha=sign)


def take_rows(x: Tensor, at: Tensor) -> Tensor:
    """The rows ``at`` (int64 ``[n]``) of ``x`` ``[..., B]``; ``[..., n]``.

    >>> take_rows(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2, 0]))
    tensor([[3., 1.]])
    """
    if x.numel() < MANY:
        return x.index_select(-1, at)
    return x.gather(-1, at.expand(*x.shape[:-1], len(at)))  # several times as fast over a last dimension


def put_rows(x: Tensor, at: Tensor, new: Tensor) -> Tensor:
    """``x`` ``[..., B]`` with the rows ``at`` (int64 ``[n]``, each once) replaced by ``new`` ``[..., n]``.

    >>> put_rows(torch.zeros(1, 3), torch.tensor([2, 0]), torch.tensor([[3.0, 1.0]]))
    tensor([[1., 0., 3.]])
    """
    return x.index_copy(-1, at, new) if x.numel() < MANY else x.scatter(-1, at.expand(new.shape), new)


def alike(f: Callable[..., Tensor], *xs: Tensor) -> Tensor:
    """``f(*xs)`` for an elementwise ``f``, with every number computed by the same instructions wherever it stands.

    >>> x = torch.linspace(0, 9, 40)
    >>> torch.equal(alike(torch.atan2, x, x + 1)[33:], alike(torch.atan2, x[33:], x[33:] + 1))
    True
    """
    first = xs[0]
    if in_graph() or first.device.type != "cpu":
        return f(*xs)
    if len(xs) > 1:
        shape = torch.broadcast_shapes(*(x.shape for x in xs))
        xs = tuple(x.expand(shape) for x in xs)
    count = xs[0].numel()
    whole = VECTOR if count <= GRAIN else VECTOR * torch.get_num_threads()
    missing = -count % whole
    if not missing:
        return f(*(x.contiguous() for x in xs))
    padded = [torch.cat((x.reshape(-1), _ones(missing, x.dtype))) for x in xs]
    return f(*padded)[:count].reshape(xs[0].shape)


@lru_cache(maxsize=256)
def _ones(count: int, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return torch.ones(count, dtype=dtype, device="cpu")
