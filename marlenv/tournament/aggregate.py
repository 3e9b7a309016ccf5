"""Numbers for many runs on many tasks, where a mean would listen to outliers and a median to nobody.

Scores are ``[runs, tasks]``. Source: Agarwal and others 2021, https://arxiv.org/abs/2108.13264
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real

import numpy as np

from marlenv.errors import ShapeError, SpecError, SpecTypeError, whole
from marlenv.tournament.arrays import numbers
from marlenv.tournament.bootstrap import quantiles
from marlenv.tournament.likelihood import Array


def table_of(scores: object, who: str) -> Array:
    """Scores as numbers ``[runs, tasks]``."""
    table = numbers(scores, who, "finite scores [runs, tasks]")
    if table.ndim != 2 or not table.size:
        raise ShapeError(f"{who}: expected finite scores [runs, tasks], got {list(table.shape)}")
    if (odd := np.argwhere(~np.isfinite(table))).size:
        run, task = odd[0].tolist()
        got = f"{table[run, task]} in run {run}, task {task}"
        raise ShapeError(f"{who}: expected finite scores [runs, tasks], got {got}")
    return table


def iqm(scores: object) -> float:
    """The mean of the middle half of all scores.

    >>> iqm([[0.0], [1.0], [2.0], [100.0]])
    1.5
    """
    flat = np.sort(table_of(scores, "iqm").ravel())
    cut = len(flat) // 4
    return float(flat[cut : len(flat) - cut].mean())


def optimality_gap(scores: object, goal: float = 1.0) -> float:
    """How far scores fall short of ``goal`` on average; more than the goal does not count.

    >>> optimality_gap([[0.5, 3.0]])
    0.25
    """
    if not (isinstance(goal, Real) and np.isfinite(goal)):
        raise SpecError(f"optimality_gap: goal must be a number, such as 1.0, got {goal!r}")
    return float(goal - np.minimum(table_of(scores, "optimality_gap"), goal).mean())


def probability_of_improvement(scores: object, others: object) -> float:
    """The chance that a run beats one of the others on a task drawn at random; ties count half.

    >>> probability_of_improvement([[1.0], [3.0]], [[2.0], [2.0]])
    0.5
    """
    mine, theirs = table_of(scores, "probability_of_improvement"), table_of(others, "probability_of_improvement")
    if mine.shape[1] != theirs.shape[1]:
        raise ShapeError(
            f"probability_of_improvement: both must have the same tasks, got {mine.shape[1]} and {theirs.shape[1]}"
        )
    gap = mine[:, None] - theirs[None]
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def performance_profile(scores: object, thresholds: object) -> Array:
    """The share of runs above each threshold, all tasks weighed alike; ``[len(thresholds)]``.

    >>> performance_profile([[0.0, 1.0], [2.0, 3.0]], [0.5, 2.5]).tolist()
    [0.75, 0.25]
    """
    table = table_of(scores, "performance_profile")
    above = numbers(thresholds, "performance_profile", "thresholds, a list of numbers")
    if np.isnan(above).any():
        raise SpecError("performance_profile: thresholds must be numbers, got nan, which nothing is above or below")
    return (table[..., None] > above).mean((0, 1))


def aggregate_interval(
    scores: object,
    statistic: Callable[..., Array | float],
    *,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
) -> tuple[Array, Array]:
    """Where a statistic of the scores lies, by drawing the runs of each task anew (stratified bootstrap).

    It is rliable's method, which takes runs for all that there are, so few runs make it too narrow. Of scores with a
    normal distribution, on one task to twenty, 95 % are 72 to 89 with three runs, 85 to 91 with five, 90 to 93 with
    ten, 93 to 95 with twenty.

    Args:
        scores: ``[runs, tasks]``; or several such tables, a tuple or list of them, each of which is drawn anew.
        statistic: takes as many tables: :func:`iqm`, :func:`optimality_gap`, :func:`probability_of_improvement` of
            two, or one's own.
        level: the share of replicates between the bounds.
        replicates: how often the runs are drawn anew.
        seed: of the draws.

    Raises:
        ShapeError: scores are not finite numbers ``[runs, tasks]``.
        SpecError: a table has one run, which does not tell how much runs differ; the statistic takes another number of
            tables; or an option is out of range.

    >>> low, high = aggregate_interval([[0.0], [1.0], [2.0], [3.0]], iqm, replicates=500)
    >>> bool(0 <= low < 1.5 < high <= 3)
    True
    >>> mine, theirs = [[1.0], [2.0], [4.0]], [[0.0], [2.0], [3.0]]
    >>> low, high = aggregate_interval((mine, theirs), probability_of_improvement, replicates=500)
    >>> bool(low < probability_of_improvement(mine, theirs) < high)
    True
    """
    several = list(scores) if isinstance(scores, list | tuple) else []
    given = several if several and all(_is_table(one) for one in several) else [scores]
    tables = [table_of(one, "aggregate_interval") for one in given]
    _check_takes(statistic, len(tables))
    if any(len(table) < 2 for table in tables):
        raise SpecError(
            "aggregate_interval: expected two runs or more, got 1, which does not tell how much runs differ; scores "
            "that are fixed belong into the statistic, as in lambda mine: probability_of_improvement(mine, theirs)"
        )
    whole("aggregate_interval", "replicates", replicates, 1)
    rng = np.random.Generator(np.random.Philox(seed))
    found = [statistic(*(_again(table, rng) for table in tables)) for _ in range(replicates)]
    return quantiles(np.stack([np.asarray(one, dtype=float) for one in found]), level)


def _is_table(one: object) -> bool:
    """Whether it has rows of its own, so that a list of such is one of tables."""
    try:
        return np.ndim(one) >= 2  # type: ignore[arg-type]
    except ValueError:  # rows of different lengths
        return True


def _again(table: Array, rng: np.random.Generator) -> Array:
    """Scores drawn anew from those of each task."""
    return np.asarray(table[rng.integers(0, len(table), table.shape), np.arange(table.shape[1])])


def _check_takes(statistic: Callable[..., Array | float], count: int) -> None:
    if not callable(statistic):
        raise SpecTypeError(
            f"aggregate_interval: the statistic must be a function of scores, such as iqm, got {statistic!r}"
        )
    try:
        signature = inspect.signature(statistic)
    except (TypeError, ValueError):  # some functions in C do not tell
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(statistic, "__name__", repr(statistic))
        got = "1 table of scores" if count == 1 else f"{count} tables of scores"
        raise SpecError(
            f"aggregate_interval: {name} does not take {got} ({error}); give a tuple of as many tables as it takes, "
            f"as in aggregate_interval((mine, theirs), probability_of_improvement)"
        ) from error
