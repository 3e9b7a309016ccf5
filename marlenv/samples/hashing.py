"""SipHash (Aumasson and Bernstein 2012, https://www.aumasson.jp/siphash/siphash.pdf) of rows of tensors, in tensor
operations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
LAST_ROUNDS = 3


class SipHash(nn.Module):
    """A 64-bit hash of each row's bytes: SipHash-1-3 under the key 0.

    These are the numbers of Python's ``hash(row.tobytes())`` when ``PYTHONHASHSEED=0`` (and so of TorchRL's
    ``SipHash``), but they do not depend on that variable, and are computed where the data live.

    Args:
        as_tensor: False gives the bytes themselves, as a list.

    >>> hashes = SipHash()(torch.tensor([[1, 2], [2, 1], [1, 2]]))
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)

    Source: https://www.aumasson.jp/siphash/siphash.pdf
    """

    def __init__(self, as_tensor: bool = True) -> None:
        super().__init__()
        self.as_tensor = as_tensor

    def forward(self, x: Tensor) -> Tensor | list[bytes]:
        """The hash of each row; int64 ``[B]`` of any ``[B, ...]``."""
        x = x.detach().to(torch.float16) if x.dtype == torch.bfloat16 else x.detach()
        if not self.as_tensor:
            return [row.tobytes() for row in x.cpu().numpy()]
        words = _words(x.reshape(x.shape[0], -1))
        state = [torch.full_like(words[:, 0], start) for start in START]
        for word in words.unbind(-1):
            state[3] = state[3] ^ word
            state = _round(state)
            state[0] = state[0] ^ word
        state[2] = state[2] ^ 0xFF
        for _ in range(LAST_ROUNDS):
            state = _round(state)
        out = state[0] ^ state[1] ^ state[2] ^ state[3]
        return torch.where(out == -1, -2, out)  # as Python does, where -1 says that something failed


def _words(rows: Tensor) -> Tensor:
    """The bytes of each row in words of eight; the last byte of the last word is the number of bytes. int64 ``[B,
    n]``.
    """
    octets = rows.contiguous().view(torch.uint8)
    count = octets.shape[-1]
    padded = torch.nn.functional.pad(octets, (0, 8 - count % 8))
    padded[:, -1] = count & 0xFF
    return padded.view(torch.int64)


def _turned(x: Tensor, by: int) -> Tensor:
    """The bits of each word turned to the left."""
    return (x << by) | ((x >> (64 - by)) & ((1 << by) - 1))


def _round(state: list[Tensor]) -> list[Tensor]:
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a = _turned(a, 32)
    c, a = c + b, a + d
    b, d = _turned(b, 17) ^ c, _turned(d, 21) ^ a
    return [a, b, _turned(c, 32), d]
