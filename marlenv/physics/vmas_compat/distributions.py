"""Numbers of distributions that take several uniform ones each: of every row from its own stream alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marlenv.rng import RowRNG

TRIES = 200
"""Of numbers that are rejected once in twenty times."""
HALVINGS = 64
"""Of an interval of integers."""
AT_ONCE = 64
"""Trials of a binomial number that are drawn together."""

Draw = Callable[[RowRNG, tuple[int, ...]], Tensor]


def _aside(rng: RowRNG) -> RowRNG:
    """Streams that may be used up differently from row to row; takes one number of each."""
    key = rng.bits()
    return RowRNG.of(key, torch.zeros_like(key))


class _Gamma(torch.autograd.Function):
    """A number that was drawn, with the gradient of how it follows its parameter."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, drawn: Tensor) -> Tensor:
        ctx.save_for_backward(alpha, drawn)
        return drawn.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        alpha, drawn = ctx.saved_tensors
        return grads[0] * torch._standard_gamma_grad(alpha, drawn), None


def gamma(alpha: Tensor, by_row: Callable[[Draw], Tensor]) -> Tensor:
    """Gamma numbers of scale 1 (Marsaglia and Tsang 2000), of the shape and dtype of ``alpha``.

    Args:
        alpha: their parameter.
        by_row: calls a function with streams, and the shape that each of them fills.

    """
    high = alpha.detach().double()
    d = torch.where(high < 1, high + 1, high) - 1 / 3
    c = 1 / (9 * d).sqrt()

    def draw(rng: RowRNG, inner: tuple[int, ...]) -> Tensor:
        rng = _aside(rng)
        boost = rng.uniform(shape=inner, dtype=torch.float64)
        out, wanted = torch.full_like(d, torch.nan), torch.ones_like(d, dtype=torch.bool)
        for _ in range(TRIES):
            x, u = (make(shape=inner, dtype=torch.float64) for make in (rng.normal, rng.uniform))
            v = (1 + c * x) ** 3
            fits = (v > 0) & (torch.log(u) < 0.5 * x * x + d - d * v + d * torch.log(v))
            out = torch.where(wanted & fits, d * v, out)
            wanted = wanted & ~fits & high.isfinite() & (high > 0)
            if not bool(wanted.any()):
                break
        return torch.where(high < 1, out * boost ** (1 / high), out)

    drawn = by_row(draw).to(alpha.dtype).clamp(min=torch.finfo(alpha.dtype).tiny)
    return _Gamma.apply(alpha, drawn) if alpha.requires_grad else drawn


def poisson(rate: Tensor, u: Tensor) -> Tensor:
    """The numbers of a Poisson process below which a share ``u`` (float64) of all lies.

    >>> poisson(torch.tensor([2.0, 2.0]), torch.tensor([0.1, 0.9], dtype=torch.float64))
    tensor([0., 4.])
    """
    mean = rate.double()
    low, high = torch.full_like(mean, -1.0), (mean + 40 * mean.sqrt() + 80).ceil()  # it lies above the one
    for _ in range(HALVINGS):
        if not bool((high - low > 1).any()):
            break
        middle = ((low + high) / 2).floor()
        enough = (middle >= 0) & (torch.special.gammaincc(middle.clamp(min=0) + 1, mean) > u)
        high, low = torch.where(enough, middle, high), torch.where(enough, low, middle)
    return high.to(rate.dtype)


def binomial(count: Tensor, chance: Tensor, rng: RowRNG, inner: tuple[int, ...]) -> Tensor:
    """How many of ``count`` trials succeed."""
    rng, ndim, out = _aside(rng), rng.key.ndim, torch.zeros_like(chance)
    for start in range(0, int(count.max()) if count.numel() else 0, AT_ONCE):
        u = rng.uniform(shape=(AT_ONCE, *inner)).movedim(ndim, 0)
        trial = torch.arange(start, start + AT_ONCE, device=u.device).reshape(-1, *(1,) * chance.ndim)
        out = out + ((u < chance) & (trial < count)).sum(0)
    return out
