"""Rows first for authors, rows last for the machine: views between the two, and arithmetic that keeps to them.

Tensors of authors are ``[B, A, ...]``, but lie in memory as ``[..., A, B]``: elementwise operations keep it so, and
:func:`join` and :func:`others` build on it. Sums are :func:`total`, because ``sum`` adds in an order that depends on
``B``.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from marlenv.errors import ShapeError
from marlenv.physics.maths.geometry import length
from marlenv.physics.maths.rowwise import EntityIndex, pick


def rows_first(x: Tensor) -> Tensor:
    """A view of ``[..., B]`` as ``[B, ...]``."""
    return x.movedim(-1, 0)


def rows_last(x: Tensor) -> Tensor:
    """A view of ``[B, ...]`` as ``[..., B]``."""
    return x.movedim(0, -1)


def join(*parts: Tensor) -> Tensor:
    """One vector per agent from many parts, in order; ``[B, A, d]``.

    Args:
        parts: ``[B, A]`` (one number per agent), ``[B, A, k]``, or ``[B, A, m, k]``, which is flattened; ``A`` may be 1
            for what is the same for all agents. Booleans and integers become floats.

    >>> pos, seen = torch.zeros(8, 3, 2), torch.ones(8, 1, 4, 2)
    >>> join(pos, seen).shape
    torch.Size([8, 3, 10])

    """
    agents = max(part.shape[1] for part in parts)
    pieces: list[Tensor] = []
    for part in parts:
        if part.ndim not in (2, 3, 4) or part.shape[1] not in (1, agents):
            raise ShapeError(
                f"join: parts must be [B, A], [B, A, k] or [B, A, m, k] with A = 1 or {agents}, got {list(part.shape)}"
            )
        if part.shape[1] != agents:
            part = part.expand(-1, agents, *part.shape[2:])
        if part.dtype != torch.float32 and not part.dtype.is_floating_point:
            part = part.float()
        if part.ndim == 4:
            pieces += part.permute(2, 3, 1, 0).unbind(0)
        else:
            pieces.append(part.permute(2, 1, 0) if part.ndim == 3 else part.t().unsqueeze(0))
    if not pieces:  # one agent, with no others
        return part.flatten(2)
    return torch.cat(pieces, 0).permute(2, 1, 0)


def total(x: Tensor, dim: int = -1) -> Tensor:
    """The sum along ``dim``, from the first to the last, whatever the number of rows.

    >>> total(torch.tensor([[1.0, 2.0, 3.0]]))
    tensor([6.])
    """
    if not x.shape[dim]:
        return x.sum(dim)
    first, *rest = x.unbind(dim)
    for one in rest:
        first = first + one
    return first


def norm(x: Tensor) -> Tensor:
    """The length of vectors ``[..., 2]``, the same bits whatever the number of rows; ``[...]``.

    >>> norm(torch.tensor([[3.0, 4.0]]))
    tensor([5.])
    """
    return length(x[..., 0], x[..., 1])


@lru_cache(maxsize=256)
def _off_diagonal(n: int) -> EntityIndex:
    return EntityIndex([i * n + j for i in range(n) for j in range(n) if i != j])


def others(x: Tensor) -> Tensor:
    """What each agent has with the other agents, in their order: ``[B, A, A, ...]`` without its diagonal.

    Returns:
        ``[B, A, A - 1, ...]``.

    >>> others(torch.tensor([[[0, 1], [2, 3]]]))
    tensor([[[1],
             [2]]])

    """
    n = x.shape[1]
    if x.ndim < 3 or x.shape[2] != n:
        raise ShapeError(f"others: expected [B, A, A, ...], got {list(x.shape)}")
    if n == 1:
        return x[:, :, :0]
    last = x.permute(*range(3, x.ndim), 1, 2, 0)  # [..., A, A, B]
    kept = pick(last.flatten(-3, -2), _off_diagonal(n))
    kept = kept.reshape(*kept.shape[:-2], n, n - 1, kept.shape[-1])
    at = kept.ndim
    return kept.permute(at - 1, at - 3, at - 2, *range(at - 3))
