"""Clauses about memory: data belong to who got them, and every entry to itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.keys import NestedKey
from marlenv.tensordicts import parts
from marlenv.testing.checks import PLAYED, check, require
from marlenv.testing.comparison import differences, leaves
from marlenv.testing.trace import TraceStep, follow, repeat

if TYPE_CHECKING:
    from marlenv.testing.case import Case

OLD = "steps_leave_old_data_alone"


@check(
    "_step and _reset must return new tensordicts and new tensors; never write into their input or hand out buffers",
    (PLAYED, "resetting_twice_is_resetting", "resets_give_no_rewards"),
)
def steps_leave_old_data_alone(case: Case) -> None:
    """A step changes nothing of its input, and data that were handed out never change afterwards."""
    trace = case.trace
    require((edit := trace.edited) is None, str(edit))
    for i, moment in enumerate(trace.moments):
        require(not (odd := differences(moment.data, moment.data_then)), f"data of step {i} changed later in {odd}")
    env = case.open()
    first = env.rollout(5, break_when_any_done=False)
    copy = first.clone()
    for _ in range(3):
        env.rollout(5, break_when_any_done=False)
    require(not (odd := differences(first, copy)), f"data of a rollout changed in a later one in {odd}")


@check(
    "give every entry a tensor of its own: clone what is returned under two keys, what is handed on from the input, "
    "and "
    "what was expanded",
    (PLAYED, OLD),
)
def entries_share_no_memory(case: Case) -> None:
    """No two entries of what a reset, a step or a rollout returns share memory, and no entry is expanded."""
    known: set[object] = set()
    for where, td in _handed_out(case):
        if (layout := _layout(td)) not in known:
            known.add(layout)
            found = overlap(td)
            require(found is None, f"{found}, in the data of {where}")


@check(
    "give out copies of what the env goes on from: clone state that is shown; keep no tensor of the input, actions too",
    (PLAYED, "equal_seeds_give_equal_episodes", OLD, "entries_share_no_memory"),
)
def data_may_be_written_over(case: Case) -> None:
    """What a reset or a step returned, and what it was given, may be written over; the env goes on as it was."""

    def act(i: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
        mine = td.clone()
        _write_over(td)
        return repeat(i, env, mine, moment)

    def step(env: EnvBase, td: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        data, following = env.step_and_maybe_reset(td)
        mine = data.clone(), following.clone()
        _write_over(data)
        _write_over(following)
        return mine

    follow(case.twinned, case.make(), "where data were written over, the env differs", act=act, step=step)


def _write_over(td: TensorDictBase) -> None:
    for _, x in _strided(td):
        x.detach().logical_not_()


def _handed_out(case: Case) -> Iterator[tuple[str, TensorDictBase]]:
    env = case.open()
    td = env.reset()
    yield "a reset", td
    yield "a step", env.step(env.rand_action(td))
    yield "step_mdp", env.step_mdp(td)
    data = env.rollout(min(case.steps, 8), break_when_any_done=False)
    if parts(data) is None:  # else its steps, whose sizes differ, lie side by side as they were
        yield "a rollout", data
    for i, moment in enumerate(case.trace.moments):
        yield f"step {i} of step_and_maybe_reset", moment.data
    yield "what follows the last step", case.trace.moments[-1].following


def _strided(td: TensorDictBase) -> Iterator[tuple[NestedKey, Tensor]]:
    for key, x in leaves(td).items():
        if isinstance(x, Tensor) and not x.is_nested and not x.is_meta and x.numel() > 0:
            yield key, x


def _layout(td: TensorDictBase) -> object:
    """Where the entries lie in their memory; equal for data that overlap in the same way."""
    numbers: dict[int, int] = {}
    return tuple(
        (key, numbers.setdefault(x.untyped_storage().data_ptr(), len(numbers)), x.storage_offset(), x.shape, x.stride())
        for key, x in _strided(td)
    )


def overlap(td: TensorDictBase) -> str | None:
    """What shares memory in a tensordict.

    >>> x = torch.zeros(3)
    >>> overlap(TensorDict({"a": x, "b": x[1:]}))
    "'a' and 'b' share memory"
    >>> overlap(TensorDict({"a": torch.zeros(1).expand(3)}))
    "'a' is expanded: several of its numbers are one in memory"
    """
    storages: dict[int, list[tuple[NestedKey, Tensor]]] = {}
    for key, x in _strided(td):
        if any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride(), strict=True)):
            return f"{key!r} is expanded: several of its numbers are one in memory"
        storages.setdefault(x.untyped_storage().data_ptr(), []).append((key, x))
    for inside in storages.values():
        found = _among(inside) if len(inside) > 1 else None
        if found is not None:
            return f"{found[0]!r} and {found[1]!r} share memory"
    return None


def _among(inside: list[tuple[NestedKey, Tensor]]) -> tuple[NestedKey, NestedKey] | None:
    """Two tensors of one storage that have a byte in common."""
    ordered = sorted(((*_span(x), key, x) for key, x in inside), key=lambda one: one[:2])
    if all(a[1] <= b[0] for a, b in pairwise(ordered)):
        return None
    taken: dict[NestedKey, np.ndarray] = {}
    for key, x in inside:
        mine = _bytes(x)
        for other, theirs in taken.items():
            if len(np.intersect1d(mine, theirs)):
                return other, key
        taken[key] = mine
    return None


def _span(x: Tensor) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one behind its last."""
    size = x.element_size()
    first = int(x.storage_offset())
    last = first + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return first * size, (last + 1) * size


def _bytes(x: Tensor) -> np.ndarray:
    """Every byte of a tensor, as places in its storage."""
    at = np.zeros((), dtype=np.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        at = at[..., None] + step * np.arange(size)
    first: np.ndarray = (at.reshape(-1) + int(x.storage_offset())) * x.element_size()
    return (first[:, None] + np.arange(x.element_size())).reshape(-1)
