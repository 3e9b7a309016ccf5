"""Randomness that belongs to a row: counter-based, one independent stream per env of the batch.

Draw number ``c`` of row ``i`` is a function of ``(seed, i, c)`` and of nothing else: not of the number of rows, not of
the other rows, not of the device, not of a global generator. The bits are SplitMix64 (Steele, Lea, Flood 2014,
https://doi.org/10.1145/2714064.2660195) in wrapping int64 arithmetic, started at a key that is hashed from seed and
row.

``*B`` are the batch dimensions; a row is one entry of the batch, counted in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.errors import ShapeError, SpecError, whole

WORDS = 1 << 31  # randint chooses among at most this many integers
BITS = {torch.float64: 53, torch.float16: 11, torch.bfloat16: 8}  # of a uniform number; float32 has 24


WORD = (1 << 64) - 1


def signed(x: int) -> int:
    """The int64 with the last 64 bits of an int.

    >>> signed(1 << 63)
    -9223372036854775808
    """
    x &= WORD
    return x - (1 << 64) if x >> 63 else x


UNSIGNED_GOLDEN, UNSIGNED_1, UNSIGNED_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64
GOLDEN, MIX_1, MIX_2 = signed(UNSIGNED_GOLDEN), signed(UNSIGNED_1), signed(UNSIGNED_2)
ROW_STEP = signed(0xD1B54A32D192ED03)
SHIFTS, FACTORS = np.array((30, 27, 31), np.uint64), np.array((UNSIGNED_1, UNSIGNED_2), np.uint64)


def mix(x: Tensor) -> Tensor:
    """The finaliser of SplitMix64: a bijection of int64 in which every input bit moves every output bit.

    >>> mix(torch.tensor([0, 1]))
    tensor([                  0, 6238072747940578789])
    """
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * MIX_1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * MIX_2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def mixed(x: int) -> int:
    """:func:`mix` of one number.

    >>> mixed(1) == int(mix(torch.tensor(1)))
    True
    """
    x &= WORD
    x = ((x ^ (x >> 30)) * UNSIGNED_1) & WORD
    x = ((x ^ (x >> 27)) * UNSIGNED_2) & WORD
    return signed(x ^ (x >> 31))


def mix_(x: Tensor) -> Tensor:
    """:func:`mix` in place, which makes half as many tensors on the way.

    >>> int(mix_(torch.tensor(1))) == int(mix(torch.tensor(1)))
    True
    """
    if x.is_cpu and not torch.compiler.is_compiling():  # NumPy shifts words without a sign, and needs no masks
        word = x.numpy().view(np.uint64)
        word ^= word >> SHIFTS[0]
        word *= FACTORS[0]
        word ^= word >> SHIFTS[1]
        word *= FACTORS[1]
        word ^= word >> SHIFTS[2]
        return x
    x.bitwise_xor_((x >> 30).bitwise_and_((1 << 34) - 1)).mul_(MIX_1)
    x.bitwise_xor_((x >> 27).bitwise_and_((1 << 37) - 1)).mul_(MIX_2)
    return x.bitwise_xor_((x >> 31).bitwise_and_((1 << 33) - 1))


def _plain(x: Tensor) -> bool:
    """Whether nobody watches what is done to a tensor: no tracer, no transform of functions, no mode."""
    return (
        not torch.compiler.is_compiling()
        and type(x) is Tensor
        and not torch._C._are_functorch_transforms_active()
        and torch._C._len_torch_dispatch_stack() == 0
        and not torch._C._get_tracing_state()
    )


def row_keys(seed: int | Tensor, rows: Size, device: torch.device | None = None) -> Tensor:
    """One key per row; int64 ``rows``. Row ``i`` has the same key whatever the number of rows.

    >>> torch.equal(row_keys(3, Size([2, 2])).flatten(), row_keys(3, Size([4])))
    True
    """
    index = torch.arange(math.prod(rows), dtype=torch.int64, device=device).reshape(rows)
    if isinstance(seed, int):  # a number of the host, which nothing is copied for
        return mix(index * ROW_STEP + mixed(seed + GOLDEN))
    start = torch.as_tensor(seed, dtype=torch.int64, device=device) + GOLDEN
    return mix(mix(start) + index * ROW_STEP)


class RowRNG:
    """Random numbers for every row of a batch, reproducible row by row.

    Two tensors say everything: ``key`` (which stream) and ``counter`` (how much of it is used), int64 ``[*B]`` each.
    Drawing ``shape`` numbers per row moves the counter by ``prod(shape)``, normal ones by twice that.

    Args:
        seed: any int, of which the last 64 bits count, or one per row; the same seed gives the same streams.
        rows: the batch size ``*B``.
        device: where the numbers are made; the numbers do not depend on it.

    >>> many, one = RowRNG(seed=7, rows=[4]), RowRNG(seed=7, rows=[1])
    >>> torch.equal(many.uniform(shape=[3])[:1], one.uniform(shape=[3]))
    True
    """

    __slots__ = ("counter", "key")

    key: Tensor
    counter: Tensor

    def __init__(
        self, seed: int | Tensor = 0, rows: Sequence[int] | int = (), device: torch.device | str | None = None
    ) -> None:
        device = None if device is None else torch.device(device)
        self.key = row_keys(seed, Size([rows] if isinstance(rows, int) else rows), device)
        self.counter = torch.zeros_like(self.key)

    # --- state -----------------------------------------------------------------------------------

    @classmethod
    def from_state(cls, state: Tensor) -> RowRNG:
        """The generator whose :attr:`state` is ``state``, int64 ``[*B, 2]``."""
        if state.dtype != torch.int64 or state.shape[-1:] != (2,):
            raise ShapeError(
                f"RowRNG.from_state: expected int64 [*B, 2], got {str(state.dtype)[6:]} {list(state.shape)}; "
                f"take what RowRNG.state gave"
            )
        key, counter = state.unbind(-1)
        return cls.of(key, counter)

    @classmethod
    def of(cls, key: Tensor, counter: Tensor) -> RowRNG:
        """The generator with these streams, which stand there; int64 ``[*B]`` each.

        >>> rng = RowRNG(rows=[2])
        >>> torch.equal(RowRNG.of(rng.key, rng.counter + 1).bits(), (rng.bits(), rng.bits())[1])
        True
        """
        new = object.__new__(cls)
        new.key, new.counter = key, counter
        return new

    @property
    def state(self) -> Tensor:
        """Key and counter of every row; int64 ``[*B, 2]``."""
        return torch.stack((self.key, self.counter), -1)

    @property
    def rows(self) -> Size:
        """The batch size ``*B``."""
        return self.key.shape

    @property
    def device(self) -> torch.device:
        """Where the streams live."""
        return self.key.device

    def __getitem__(self, index: Any) -> RowRNG:
        """The streams of some rows, as they stand; drawing from them does not move ours."""
        return self.of(self.key[index], self.counter[index])

    def clone(self) -> RowRNG:
        """A copy that will draw the same numbers."""
        return RowRNG.from_state(self.state)

    def to(self, device: torch.device | str) -> RowRNG:
        """The same streams on another device."""
        return RowRNG.from_state(self.state.to(device))

    def fork(self, stream: int) -> RowRNG:
        """An independent stream per row, named by a number; does not move this one.

        >>> rng = RowRNG(rows=[2])
        >>> bool((rng.fork(1).bits() == rng.fork(2).bits()).any())
        False
        """
        key = mix(self.key ^ signed((stream + 1) * 0xA0761D6478BD642F))
        return self.of(key, torch.zeros_like(key))

    # --- draws -----------------------------------------------------------------------------------

    def bits(self, shape: Sequence[int] = (), *, rows_last: bool = False) -> Tensor:
        """64 random bits each; int64 ``[*B, *shape]``, or contiguous ``[*shape, *B]`` with ``rows_last``."""
        count = math.prod(shape)
        lane = torch.arange(1, count + 1, dtype=torch.int64, device=self.key.device)
        ndim = self.key.ndim
        if rows_last:
            at = self.counter + lane.reshape((*shape, *[1] * ndim))
            x = self.key + at * GOLDEN
        else:
            spread = (*self.key.shape, *[1] * len(shape))
            x = self.key.reshape(spread) + (self.counter.reshape(spread) + lane.reshape(tuple(shape))) * GOLDEN
        self.counter = self.counter + count
        return mix_(x) if _plain(x) else mix(x)

    def uniform(
        self,
        low: float | Tensor = 0.0,
        high: float | Tensor = 1.0,
        shape: Sequence[int] = (),
        *,
        dtype: torch.dtype = torch.float32,
        rows_last: bool = False,
    ) -> Tensor:
        """Numbers in ``[low, high)`` on a grid of 2**24 steps; ``[*B, *shape]``.

        float64 has 2**53 steps, float16 2**11, bfloat16 2**8. ``low`` and ``high`` may be tensors that broadcast with
        the result. Where the dtype is too coarse for the range, a number may be rounded to ``high``.

        >>> RowRNG(rows=[2]).uniform(-1, 1, [3]).shape
        torch.Size([2, 3])
        """
        keep = BITS.get(dtype, 24)
        unit = ((self.bits(shape, rows_last=rows_last) >> (64 - keep)) & ((1 << keep) - 1)).to(dtype) * 2.0**-keep
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low == 0 and high == 1:
            return unit
        return low + unit * (high - low)

    def normal(
        self,
        mean: float | Tensor = 0.0,
        std: float | Tensor = 1.0,
        shape: Sequence[int] = (),
        *,
        dtype: torch.dtype = torch.float32,
        rows_last: bool = False,
    ) -> Tensor:
        """Gaussian numbers; ``[*B, *shape]``. Two uniform draws each (Box and Muller 1958), computed in float64.

        The only draw that goes through ``log`` and ``cos``: rounding to ``dtype`` hides that devices differ there in
        the last float64 digit.

        >>> RowRNG(rows=[2]).normal(mean=5.0, std=0.0)
        tensor([5., 5.])
        """
        pair = self.uniform(shape=(2, *shape), dtype=torch.float64, rows_last=rows_last)
        radius, angle = pair.unbind(0 if rows_last else self.key.ndim)
        value = torch.sqrt(-2.0 * torch.log1p(-radius)) * torch.cos(2.0 * math.pi * angle)
        return mean + std * value.to(dtype)

    def randint(
        self,
        low: int | Tensor,
        high: int | Tensor,
        shape: Sequence[int] = (),
        *,
        dtype: torch.dtype = torch.int64,
        rows_last: bool = False,
    ) -> Tensor:
        """Integers in ``[low, high)``, at most 2**31 of them; ``[*B, *shape]``.

        Raises:
            SpecError: there is no integer in between, or there are too many (tensors are not checked); or an end is
                no integer.

        >>> RowRNG(rows=[2]).randint(0, 10, [3]).shape
        torch.Size([2, 3])
        """
        if isinstance(low, float) or isinstance(high, float):
            raise SpecError(f"RowRNG.randint: low and high must be integers, got low={low}, high={high}")
        if isinstance(low, int) and isinstance(high, int) and not 0 < high - low <= WORDS:
            raise SpecError(f"RowRNG.randint: expected 1 to 2**31 integers in [low, high), got low={low}, high={high}")
        word = (self.bits(shape, rows_last=rows_last) >> 32) & ((1 << 32) - 1)
        return (low + ((word * (high - low)) >> 32)).to(dtype)

    def permutation(self, n: int) -> Tensor:
        """The numbers ``0 .. n - 1`` in random order; int64 ``[*B, n]``.

        Raises:
            SpecError: ``n`` is no integer, or negative.

        >>> RowRNG(rows=[2]).permutation(4).sum(-1)
        tensor([6, 6])
        """
        return self.bits([whole("RowRNG.permutation", "n", n, 0)]).argsort(-1)

    def choice(self, weights: Tensor) -> Tensor:
        """An index drawn with the given weights; int64 ``weights.shape[:-1]``.

        ``weights`` is ``[*B, ..., n]``: bool (equal chances where True) or non-negative numbers. Where all are zero the
        answer is 0.

        >>> RowRNG(rows=[2]).choice(torch.tensor([[False, True], [True, False]]))
        tensor([1, 0])
        """
        lead = weights.shape[: self.key.ndim]
        if lead != self.key.shape:
            raise ShapeError(
                f"RowRNG.choice: the shape of the weights must be the rows {list(self.key.shape)} and what each "
                f"chooses "
                f"from, got {list(weights.shape)}"
            )
        between = weights.shape[self.key.ndim : -1]
        if weights.dtype == torch.bool:
            ranks = weights.cumsum(-1)
            count = ranks[..., -1:]
            pick = self.randint(0, count.squeeze(-1), between).unsqueeze(-1)
            return ((ranks <= pick).sum(-1) * (count.squeeze(-1) > 0)).to(torch.int64)
        edges = weights.to(torch.float64).cumsum(-1)
        total = edges[..., -1:]
        point = self.uniform(shape=between, dtype=torch.float64).unsqueeze(-1) * total
        picked = (edges <= point).sum(-1)
        return torch.where(total.squeeze(-1) > 0, picked, 0)

    def __repr__(self) -> str:
        return f"RowRNG(rows={list(self.key.shape)}, device={self.device})"
