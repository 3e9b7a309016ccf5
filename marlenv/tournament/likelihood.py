"""The likelihood of games under Davidson's model, and its maximum by Newton's method, for many sets of counts at once.

A game in which ``i`` sits first and ``j`` second, with ``d = theta_i - theta_j + seat``:

    P(win) = exp(d/2) / Z    P(draw) = nu / Z    P(loss) = exp(-d/2) / Z    Z = exp(d/2) + exp(-d/2) + nu

``nu = 0`` is the model of Bradley and Terry. ``R`` are sets of counts, ``n`` players, ``m`` parameters: n strengths,
then the seat's effect and log nu where they are fitted.

Source: Davidson 1970, https://doi.org/10.1080/01621459.1970.10481082; Davidson and Beaver 1977 for the seat.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
FAR = 30.0  # a parameter beyond which the likelihood has no maximum: odds of 1e13


@dataclass(frozen=True)
class Model:
    """Which parameters a fit has beside the strengths."""

    seat: bool
    draws: bool

    def parts(self, x: Array) -> tuple[Array, Array, Array]:
        """The strengths ``[R, n]``, the seat's effect ``[R]`` and nu ``[R]`` of parameters ``[R, m]``."""
        n = x.shape[-1] - self.seat - self.draws
        zero = np.zeros(x.shape[:-1])
        seat = x[..., n] if self.seat else zero
        return x[..., :n], seat, np.exp(x[..., -1]) if self.draws else zero

    def probabilities(self, x: Array) -> Array:
        """The chances of win, draw and loss of every pairing; ``[R, n, n, 3]``."""
        theta, seat, nu = self.parts(x)
        d = theta[..., :, None] - theta[..., None, :] + seat[..., None, None]
        top = np.abs(d) / 2
        odds = np.stack(
            [np.exp(d / 2 - top), nu[..., None, None] * np.exp(-top), np.exp(-d / 2 - top)], -1
        )  # over exp(top), so that nothing overflows
        return odds / odds.sum(-1, keepdims=True)

    def value(self, x: Array, counts: Array) -> Array:
        """The log likelihood; ``[R]``."""
        p = self.probabilities(x)
        logs = np.log(np.where((counts > 0) & (p > 0), p, 1.0))
        return (counts * logs).sum((-1, -2, -3))

    def gradient(self, x: Array, counts: Array) -> Array:
        """Its first derivatives; ``[R, m]``."""
        p, total = self.probabilities(x), counts.sum(-1)
        margin = ((counts[..., 0] - counts[..., 2]) - total * (p[..., 0] - p[..., 2])) / 2
        parts = [margin.sum(-1) - margin.sum(-2)]
        if self.seat:
            parts.append(margin.sum((-1, -2))[..., None])
        if self.draws:
            parts.append((counts[..., 1] - total * p[..., 1]).sum((-1, -2))[..., None])
        return np.concatenate(parts, -1)

    def information(self, x: Array, counts: Array) -> Array:
        """Minus its second derivatives; ``[R, m, m]``."""
        p, total = self.probabilities(x), counts.sum(-1)
        half = (p[..., 0] - p[..., 2]) / 2
        vd = total * ((p[..., 0] + p[..., 2]) / 4 - half**2)  # variance of (win - loss) / 2
        vq, vdq = total * p[..., 1] * (1 - p[..., 1]), -total * half * p[..., 1]
        n = counts.shape[-2]
        m = n + self.seat + self.draws
        out = np.zeros((*x.shape[:-1], m, m))
        both = vd + np.swapaxes(vd, -1, -2)
        out[..., :n, :n] = np.eye(n) * both.sum(-1)[..., None] - both

        def put(at: int, row: Array, own: Array) -> None:
            out[..., :n, at] = out[..., at, :n] = row.sum(-1) - row.sum(-2)
            out[..., at, at] = own.sum((-1, -2))

        if self.seat:
            put(n, vd, vd)
        if self.draws:
            put(m - 1, vdq, vq)
        if self.seat and self.draws:
            out[..., n, m - 1] = out[..., m - 1, n] = vdq.sum((-1, -2))
        return out


def maximum(model: Model, counts: Array, rows: Array, start: Array | None = None) -> Array:
    """The parameters at which games like these are likeliest; ``[R, m]``. What lies beyond :data:`FAR` has no maximum.

    Args:
        model: which parameters there are.
        counts: ``[R, n, n, 3]``.
        rows: ``[c, m]`` or ``[R, c, m]``, linear functions of the parameters that stay what they are at the start.
        start: ``[R, m]``; without it all are 0.
    """
    m = rows.shape[-1]
    x = np.zeros((*counts.shape[:-3], m)) if start is None else start.copy()
    rows = np.broadcast_to(rows, (*x.shape[:-1], *rows.shape[-2:]))
    value = model.value(x, counts)
    for _ in range(200):
        step = newton_step(model, x, counts, rows)
        step = step * np.minimum(1, 4 / np.maximum(np.abs(step).max(-1, keepdims=True), 1e-300))
        step = np.where((np.abs(x) > FAR).any(-1, keepdims=True), 0.0, step)
        new, after = uphill(model, x, step, counts, value)
        moved = np.abs(new - x).max(initial=0.0)
        x, value = new, after
        if moved < 1e-11:
            break
    return x


def newton_step(model: Model, x: Array, counts: Array, rows: Array) -> Array:
    """The step to the top of the parabola that touches the likelihood at ``x``, along which ``rows`` do not change."""
    m, c = x.shape[-1], rows.shape[-2]
    system = np.zeros((*x.shape[:-1], m + c, m + c))
    system[..., :m, :m] = model.information(x, counts) + 1e-10 * np.eye(m)
    system[..., m:, :m], system[..., :m, m:] = rows, np.swapaxes(rows, -1, -2)
    right = np.concatenate([model.gradient(x, counts), np.zeros((*x.shape[:-1], c))], -1)
    return np.linalg.solve(system, right[..., None])[..., :m, 0]


def uphill(model: Model, x: Array, step: Array, counts: Array, value: Array) -> tuple[Array, Array]:
    """Where a step leads, halved until it leads to nothing worse than ``value``, and the likelihood there."""
    scale = np.ones((*value.shape, 1))
    for _ in range(30):
        after = model.value(x + scale * step, counts)
        worse = (after < value - 1e-10 * (1 + np.abs(value)))[..., None]
        if not worse.any():
            break
        scale = np.where(worse, scale / 2, scale)
    return x + scale * step, after
