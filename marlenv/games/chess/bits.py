"""Sets of squares in int64 words, in torch operations: tests, views, counts, and drawing one bit of many at random.

Nothing here branches on data. Words are signed; ``>>`` copies the sign bit, so shifts to the right are masked
afterwards.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.errors import ShapeError
from marlenv.games.chess.board import ACTIONS, PLANES
from marlenv.games.chess.tables import tables
from marlenv.games.parts.bits import counted

LOW_HALF = 0xFFFFFFFF


def filled(x: Tensor) -> Tensor:
    """All bits where a word has any, else none.

    >>> filled(torch.tensor([0, 8]))
    tensor([ 0, -1])
    """
    return (-x).bitwise_or_(x).bitwise_right_shift_(63)


def filled_single(x: Tensor) -> Tensor:
    """The same, one operation shorter, for words of at most one bit and for words in which bit 63 is not set.

    >>> filled_single(torch.tensor([0, 8, 12]))
    tensor([ 0, -1, -1])
    """
    return (-x).bitwise_right_shift_(63)


def unfilled(x: Tensor) -> Tensor:
    """The opposite, for the same words: all bits where a word has none, else none.

    >>> unfilled(torch.tensor([0, 8]))
    tensor([-1,  0])
    """
    return (x - 1).bitwise_right_shift_(63)


def apart(like: Tensor, rows: int, n: int) -> Tensor:
    """New memory for words ``[rows, n]``.

    Its rows do not lie a power of two apart: such rows share the sets of caches.
    """
    return like.new_empty(rows, n + 8)[:, :n]


def columns(rows: Tensor) -> Tensor:
    """``[N, k]`` as ``[k, N]``, with its rows :func:`apart`.

    >>> columns(torch.tensor([[1, 2], [3, 4]]))[0]
    tensor([1, 3])
    """
    n, k = rows.shape
    return apart(rows, k, n).copy_(rows.t())


def turned(x: Tensor) -> Tensor:
    """Words with their ranks turned over: the position as the other player sees it.

    >>> turned(torch.tensor([0xFF00]))
    tensor([71776119061217280])
    """
    if x.is_cpu and not torch.compiler.is_compiling():
        return torch.from_numpy(x.numpy().byteswap())
    x = ((x >> 8) & 0x00FF00FF00FF00FF) | ((x & 0x00FF00FF00FF00FF) << 8)
    x = ((x >> 16) & 0x0000FFFF0000FFFF) | ((x & 0x0000FFFF0000FFFF) << 16)
    return ((x >> 32) & LOW_HALF) | (x << 32)


def chosen(moves: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """All bits where an action is among the moves, ``[N, 73]``, and the action forced into range; ``[N]``."""
    within = action.clamp(0, ACTIONS - 1)
    word = moves.gather(-1, (within >> 6).unsqueeze(-1)).squeeze(-1)
    fits = (word >> (within & 63)).bitwise_and_(action == within)
    return fits.neg_(), within


def sample(moves: Tensor, bits: Tensor) -> Tensor:
    """A legal action of each row, every one equally likely; 0 in rows without any. int64 ``[*B]``.

    The set bits are ranked by plane, then by square; the high half of ``bits`` chooses the rank.

    Args:
        moves: packed actions, int64 ``[*B, 73]``.
        bits: 64 random bits per row, int64 ``[*B]``, as ``RowRNG.bits()`` gives them.

    >>> sample(torch.tensor([0, 4] + [0] * 71), torch.tensor(-1))
    tensor(66)
    """
    check_sample(moves, bits)
    words = moves.reshape(-1, PLANES)
    counts = counted(words, torch.uint8)
    until = counts.cumsum(-1, dtype=torch.int16)
    total = until[:, PLANES - 1 :].to(torch.int64)
    rank = (bits.reshape(-1, 1) >> 32).bitwise_and_(LOW_HALF).mul_(total).bitwise_right_shift_(32).to(torch.int16)
    plane = torch.searchsorted(until, rank, right=True).clamp_(max=PLANES - 1)
    rank = rank.sub_(until.gather(-1, plane)).to(torch.uint8).add_(counts.gather(-1, plane))  # within the plane
    below = unpack_squares(words.gather(-1, plane)).squeeze(-2).cumsum(-1, dtype=torch.uint8)
    square = torch.searchsorted(below, rank, right=True)
    return (plane * 64 + square).mul_(total > 0).reshape(bits.shape)


def unpack(moves: Tensor, out: Tensor | None = None) -> Tensor:
    """Packed actions as a mask; bool ``[*B, 4672]``.

    Args:
        moves: packed actions, int64 ``[*B, 73]``.
        out: the mask to write to, contiguous; left out, a new one is made, which costs more than the filling.

    >>> unpack(torch.tensor([[0, 4] + [0] * 71])).nonzero()
    tensor([[ 0, 66]])
    """
    mask = mask_for(moves, out)
    places = moves.contiguous().view(torch.uint8).to(torch.int32).flatten()
    if out is None:
        return tables(moves.device).spread.index_select(0, places).view(torch.bool).reshape(mask.shape)
    torch.index_select(tables(moves.device).spread, 0, places, out=out.view(torch.int64).flatten())
    return out


def unpack_squares(words: Tensor) -> Tensor:
    """The squares of sets; bool ``[*B, 64]``.

    >>> unpack_squares(torch.tensor([5])).nonzero()[:, 1]
    tensor([0, 2])
    """
    places = words.contiguous().view(torch.uint8).to(torch.int32).flatten()
    return tables(words.device).spread.index_select(0, places).view(torch.bool).reshape(*words.shape, 64)


def mask_for(moves: Tensor, out: Tensor | None) -> Tensor:
    """The mask to write to: ``out`` if it fits, else a new one."""
    check_packed("unpack", moves)
    shape = (*moves.shape[:-1], ACTIONS)
    if out is None:
        return torch.empty(shape, dtype=torch.bool, device=moves.device)
    if out.shape != shape or out.dtype != torch.bool or not out.is_contiguous():
        raise ShapeError(f"unpack: out must be contiguous bool {list(shape)}, got {out.dtype} {list(out.shape)}")
    return out


def check_sample(moves: Tensor, bits: Tensor) -> None:
    """Refuses packed actions or random bits of the wrong shape or dtype."""
    check_packed("sample", moves)
    if bits.shape != moves.shape[:-1] or bits.dtype != torch.int64:
        raise ShapeError(f"sample: bits must be int64 {list(moves.shape[:-1])}, got {bits.dtype} {list(bits.shape)}")


def check_packed(who: str, moves: Tensor) -> None:
    """Refuses what is no set of packed actions."""
    if moves.dtype != torch.int64 or moves.shape[-1:] != (PLANES,):
        raise ShapeError(f"{who}: packed actions are int64 [*B, {PLANES}], got {moves.dtype} {list(moves.shape)}")
