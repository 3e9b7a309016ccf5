"""How many rows an env is asked for, by ``batch_size`` or ``num_envs``, or has by its simulator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from torch import Size

from marlenv.errors import ShapeError, SpecError, whole
from marlenv.specs.shapes import size


def rows_of(who: str, batch_size: Iterable[int] | int | None, num_envs: int | None = None) -> Size | None:
    """The batch size that is asked for; None when nothing is.

    Raises:
        SpecError: ``num_envs`` and ``batch_size`` differ, or ``num_envs`` is no count.
        ShapeError: the batch size is negative.

    >>> rows_of("BraxEnv", None, 3), rows_of("BraxEnv", [2, 4]), rows_of("BraxEnv", None)
    (torch.Size([3]), torch.Size([2, 4]), None)
    """
    asked = None if batch_size is None else size(cast("Sequence[int] | int", batch_size))
    if num_envs is not None:
        if asked not in (None, (num_envs,)):
            raise SpecError(f"{who}: num_envs={num_envs} and batch_size={list(asked or ())} differ; give one of them")
        return Size([whole(who, "num_envs", num_envs, 1)])
    if asked is not None and min(asked, default=0) < 0:
        raise ShapeError(f"{who}: batch_size must not be negative, got {list(asked)}")
    return asked


def check_rows(who: str, batch_size: Iterable[int] | int | None, there: Size) -> None:
    """Raises where a batch size is asked for that a simulator does not have."""
    asked = rows_of(who, batch_size)
    if asked not in (None, there):
        raise ShapeError(
            f"{who}: batch_size must be {list(there)}, as the simulator's, got {list(asked or ())}; leave it out, and "
            f"make rows by SerialEnv or ParallelEnv"
        )
