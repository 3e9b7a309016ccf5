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
FAR = 30.0  # a difference of strengths that no record is surprised by: odds of 1e13


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

    def differences(self, x: Array) -> Array:
        """By how much the row is stronger than the column when it sits first; ``[R, n, n]``, linear in ``x``."""
        theta, seat, _ = self.parts(x)
        return np.asarray(theta[..., :, None] - theta[..., None, :] + seat[..., None, None])

    def probabilities(self, x: Array) -> Array:
        """The chances of win, draw and loss of every pairing; ``[R, n, n, 3]``."""
        odds = np.exp(self._log_odds(x))
        return np.asarray(odds / odds.sum(-1, keepdims=True))

    def value(self, x: Array, counts: Array) -> Array:
        """The log likelihood; ``[R]``."""
        logs = self._log_odds(x)
        total = np.log(np.exp(logs).sum(-1))
        return (counts * np.where(counts > 0, logs, 0.0)).sum((-1, -2, -3)) - (counts.sum(-1) * total).sum((-1, -2))

    def _log_odds(self, x: Array) -> Array:
        """The logs of what the chances of win, draw and loss are proportional to, at most 0; ``[R, n, n, 3]``."""
        half = self.differences(x) / 2
        draw = x[..., -1, None, None] if self.draws else np.full(x.shape[:-1], -np.inf)[..., None, None]
        top = np.maximum(np.abs(half), draw)
        return np.stack([half - top, draw - top, -half - top], -1)

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
    """The parameters at which games like these are likeliest; ``[R, m]``.

    Those that would be likelier the larger they are end where that no longer shows.

    Args:
        model: which parameters there are.
        counts: ``[R, n, n, 3]``.
        rows: ``[c, m]`` or ``[R, c, m]``, linear functions of the parameters that stay what they are at the start.
        start: ``[R, m]``; without it all are 0.
    """
    m = rows.shape[-1]
    x = np.zeros((*counts.shape[:-3], m)) if start is None else start.copy()
    rows = np.broadcast_to(rows, (*x.shape[:-1], *rows.shape[-2:]))
    value, little, idle = model.value(x, counts), 1e-14 * counts.sum((-1, -2, -3)), 0
    for _ in range(200):
        step = newton_step(model, x, counts, rows)
        new, after = uphill(model, x, step / stretch(model, x, step, counts), counts, value)
        moved = (np.abs(new - x) / (1 + np.abs(new))).max(initial=0.0)
        idle = idle + 1 if (after - value <= little).all() else 0
        x, value = new, after
        if moved < 1e-11 or idle == 2:  # the second of such steps goes as far as numbers do
            break
    return x


def stretch(model: Model, x: Array, step: Array, counts: Array) -> Array:
    """How many times too long a step is, 1 or more; ``[R, 1]``.

    What counts is the change of a game, not of a strength: along a ladder, strengths are far from the mean.
    """
    met, d, far = counts.any(-1), model.differences(x), np.abs(model.differences(step))
    long = np.where(met, far / (4 + np.abs(d)), 0.0).max((-1, -2))
    if model.draws:
        long = np.maximum(long, np.abs(step[..., -1]) / (4 + np.abs(x[..., -1])))
    return np.asarray(np.maximum(long, 1.0)[..., None])


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
