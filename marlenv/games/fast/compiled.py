"""Fast forms ask here whether numba works for them, and for what it is given of tensors."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from marlenv.optional import has


def switched_off() -> bool:
    """Whether a user said that numba is to compile nothing."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


NUMBA = has("numba") and not switched_off()
WORTH = 64  # rows from which on compiling pays
ALL_PLAYED, GAME_OVER, ILLEGAL_NEXT = 0, 1, 2
"""Why a rollout plays no more steps: there are as many as asked for, a game is over, or the next has an illegal
action."""
ILLEGAL, ALL_GO_ON, SOME_OVER = 0, 1, 2
"""What a compiled step returns: an action is illegal and nothing was written; no game is over; some are."""


@cache
def kernels(game: str = "") -> ModuleType:
    """What numba compiles of a game, or for all of them; importing it needs numba."""
    return import_module(f"marlenv.games.fast.{game}{'_' * bool(game)}kernels")  # optional: compiled on first use


def played(end: int, steps: int) -> tuple[int, int]:
    """How many steps of a rollout were played, and why no more.

    Args:
        end: the least that blocks of rows say: twice the steps before an illegal action, or twice that and 1 after
            which a game is over and nothing is to follow, or twice all of them.
        steps: how many were asked for.
    """
    count, over = divmod(end, 2)
    if over:
        return count + 1, GAME_OVER
    return count, ALL_PLAYED if count == steps else ILLEGAL_NEXT


def worth_compiling(rows: int) -> bool:
    """Whether numba should work on so many rows."""
    return NUMBA and rows >= WORTH and not torch.compiler.is_compiling()


def for_numba(*tensors: Tensor, rows: int | None = None) -> bool:
    """Whether numba should work on int64 tensors: on the CPU, where it is installed, for many rows.

    Args:
        tensors: all that it is to read.
        rows: how many there are; as many as numbers in the first tensor when left out.
    """
    if not worth_compiling(tensors[0].numel() if rows is None else rows):
        return False
    for tensor in tensors:  # a loop: this is asked several times a step
        if tensor.dtype != torch.int64:
            return False
        if not tensor.is_cpu:
            return False
    return True


def like(tensors: tuple[Tensor, ...], others: tuple[Tensor, ...]) -> bool:
    """Whether tensors are on the CPU and have the dtypes of others."""
    for one, other in zip(tensors, others, strict=True):  # a loop: this is asked several times a step
        if one.dtype != other.dtype:
            return False
        if not one.is_cpu:
            return False
    return True


def as_rows(tensor: Tensor, columns: int = 0) -> NDArray[Any]:
    """The memory of a tensor as ``[B]``, or ``[B, columns]``; of a copy of one that has gaps."""
    array: NDArray[Any] = tensor.numpy()
    if array.ndim == 1 and not columns and array.flags.c_contiguous:
        return array
    return array.reshape((-1, columns) if columns else -1)
