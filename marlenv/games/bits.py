"""Boards as sets of bits in int64 words: bit ``i`` is cell ``i``. Words are signed, so shifts to the right copy the sign bit.

Views of words as bytes take the machine to be little-endian, as all that PyTorch runs on are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marlenv.games.tables import Table


def signed(word: int) -> int:
    """The int64 with the last 64 bits of an int.

    >>> signed(1 << 63)
    -9223372036854775808
    """
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


def cells(*numbers: int) -> int:
    """The word in which these bits are set.

    >>> cells(0, 2)
    5
    """
    return signed(sum(1 << n for n in numbers))


def _places() -> Tensor:
    """Every byte with its bits in the lowest places of eight bytes; int64 ``[256]``."""
    bits = (torch.arange(256).unsqueeze(-1) >> torch.arange(8)) & 1
    return (bits << (8 * torch.arange(8))).sum(-1)


PLACES = Table(_places)


def spread(words: Tensor) -> Tensor:
    """The bits of each word by byte and place, as eight words of eight bytes; int64 ``[*B, 8]``.

    :func:`as_flags` reads them as bools; between the two, boards can be moved about eight cells at a time.
    """
    if torch.compiler.is_compiling():
        shifts = 8 * torch.arange(8, device=words.device)
        return PLACES[(words.unsqueeze(-1) >> shifts) & 0xFF]
    return PLACES[words.unsqueeze(-1).contiguous().view(torch.uint8).to(torch.int32)]


def as_flags(spread_words: Tensor) -> Tensor:
    """What :func:`spread` gave, as bools by byte and place; ``[*B, 8, 8]`` for ``[*B, 8]``.

    >>> as_flags(spread(torch.tensor(0x0102))).nonzero()
    tensor([[0, 1],
            [1, 0]])
    """
    return spread_words.unsqueeze(-1).view(torch.bool)


def counted(words: Tensor) -> Tensor:
    """How many bits of each word are set; int64 ``[*B]``.

    >>> counted(torch.tensor([0, 7, -1]))
    tensor([ 0,  3, 64])
    """
    pairs = words - ((words >> 1) & 0x5555555555555555)
    nibbles = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    return ((((nibbles + (nibbles >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101) >> 56) & 0xFF


def planes(first: Tensor, second: Tensor, player: Tensor, whole: int) -> Tensor:
    """What both players of a board game see: own stones, the other's, and the whole board if it is one's turn.

    Args:
        first: the stones of player 0, int64 ``[*B]``.
        second: those of player 1.
        player: whose turn it is, int64 ``[*B]``.
        whole: the word of all cells.

    Returns:
        bool ``[*B, 2, 3, 8, 8]``, by byte and place.
    """
    turns = [torch.where(player == seat, whole, 0) for seat in (0, 1)]
    parts = spread(torch.stack((first, second, *turns), -1))
    a, b, mine, theirs = parts.unbind(-2)
    return as_flags(torch.stack((a, b, mine, b, a, theirs), -2)).unflatten(-3, (2, 3))
