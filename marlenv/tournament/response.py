"""Who beats whom, for the report: the response graph, what players are worth in it, and how much of it is cyclic."""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.errors import PoolError
from marlenv.tournament.bootstrap import interval
from marlenv.tournament.cycles import cyclic_share
from marlenv.tournament.defects import wins
from marlenv.tournament.game_theory import alpha_rank, nash_average
from marlenv.tournament.likelihood import Array
from marlenv.tournament.results import Results

MOST = 24  # players; more make no picture
ALPHA = 1e3


def response(results: Results, order: list[str], level: float = 0.95, replicates: int = 200) -> dict[str, Any] | None:
    """What the page shows of a pool in which every pair has played; None for others.

    Args:
        results: the games.
        order: the players as the standings have them.
        level: of the intervals.
        replicates: how often games are drawn anew for them.
    """
    n = len(results.names)
    if not 2 <= n <= MOST:
        return None
    try:
        payoffs = results.payoffs()
    except PoolError:
        return None

    def measured(table: Array) -> Array:
        return np.array([alpha_rank(table, ALPHA), nash_average(table).weights])

    low, high = interval(results, measured, level=level, replicates=replicates)
    mean = measured(payoffs)
    who = [results.names.index(name) for name in order]
    angle = 2 * np.pi * np.arange(n) / n - np.pi / 2
    nodes = [
        _node(name, angle[k], round(5 + 15 * float(mean[0, i]) ** 0.5, 1))
        for k, (name, i) in enumerate(zip(order, who, strict=True))
    ]
    sure, edges = wins(results) > 0, []
    for a, i in enumerate(who):
        for b, j in enumerate(who):
            if payoffs[i, j] > 0:  # an arrow goes from who loses to who wins
                edges.append({**_between(nodes[b], nodes[a]), "sure": bool(sure[i, j])})

    def text(value: float, least: float, most: float) -> str:
        return f"{100 * value:.0f}% ({100 * least:.0f}-{100 * most:.0f})"

    def of(row: int, i: int) -> str:
        return text(float(mean[row, i]), float(low[row, i]), float(high[row, i]))

    return {
        "nodes": nodes,
        "edges": edges,
        "rows": [(name, of(0, i), of(1, i)) for name, i in zip(order, who, strict=True)],
        "cyclic": text(*cyclic_share(results, level=level)),
    }


def _node(name: str, angle: float, r: float) -> dict[str, Any]:
    """A player on the circle, its name outside, where no arrow is."""
    right, down, away = float(np.cos(angle)), float(np.sin(angle)), 178 + r
    return {
        "name": name,
        "r": r,
        "x": round(320 + 170 * right, 1),
        "y": round(220 + 170 * down, 1),
        "text_x": round(320 + away * right, 1),
        "text_y": round(224 + (away + 4) * down, 1),
        "anchor": "middle" if abs(right) < 0.2 else "start" if right > 0 else "end",
    }


def _between(start: dict[str, Any], end: dict[str, Any]) -> dict[str, float]:
    """A line from one node to another that ends at its rim."""
    dx, dy = end["x"] - start["x"], end["y"] - start["y"]
    long = max((dx**2 + dy**2) ** 0.5, 1e-9)
    cut = (end["r"] + 7) / long
    return {
        "x1": start["x"],
        "y1": start["y"],
        "x2": round(end["x"] - cut * dx, 1),
        "y2": round(end["y"] - cut * dy, 1),
    }
