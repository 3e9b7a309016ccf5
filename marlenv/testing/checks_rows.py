"""Clauses about rows: a batch is a stack of singles, and a partial reset concerns the rows that it marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import ContractBroken
from marlenv.testing.checks import PLAYED, NotJudged, NotReached, check, require
from marlenv.testing.comparison import same
from marlenv.testing.trace import Act, Trace, TraceStep, compare, follow, only

if TYPE_CHECKING:
    from marlenv.testing.case import Case

NEEDS = (PLAYED, "data_match_the_specs", "equal_seeds_give_equal_episodes")
INDEPENDENT = "rows_do_not_see_each_other"
PARTIAL = "partial_resets_keep_other_rows"
STREAMS = "rows_draw_from_streams_of_their_own"
MOST = 4
"""So many rows are compared one by one."""


class Fault(NamedTuple):
    """How a row differs."""

    says: str
    after_reset: bool
    """Whether other rows had been reset when they were not in the trace, or the other way round."""
    at_its_start: bool
    """Whether it differs from the start of an episode of its own on: then it is what it drew there."""


@check(
    "compute every row from its own data: reduce over agents (dim=-1), never over the batch; draw from marlenv.RowRNG, "
    "which has a stream per row",
    NEEDS,
)
def rows_do_not_see_each_other(case: Case) -> None:
    """A row goes on exactly the same while other rows do other legal things."""
    fault = case.once(INDEPENDENT, lambda: row_fault(case, case.batch))
    if fault is not None:
        if fault.at_its_start:
            raise NotReached(STREAMS)
        if fault.after_reset and case.once(PARTIAL, lambda: reset_fault(case, case.batch)) is not None:
            raise NotReached(PARTIAL)
        raise ContractBroken(fault.says)


@check(
    "reset only what the '_reset' mask marks: self.x = torch.where(mask, fresh, self.x) for all that an episode "
    "changes",
    NEEDS,
)
def partial_resets_keep_other_rows(case: Case) -> None:
    """Rows that a partial reset does not mark stay as they were, and go on as if nothing had happened."""
    says = case.once(PARTIAL, lambda: reset_fault(case, case.batch))
    if says is not None:
        fault = case.once(INDEPENDENT, lambda: row_fault(case, case.batch))
        if fault is not None and not (fault.after_reset or fault.at_its_start):
            raise NotReached(INDEPENDENT)
        raise ContractBroken(says)


@check(
    "draw the starts of episodes from marlenv.RowRNG, which has a stream per row, and let only the rows that are "
    "reset draw: "
    "rng.counter = torch.where(mask, rng.counter, before)",
    (*NEEDS, PARTIAL),
)
def rows_draw_from_streams_of_their_own(case: Case) -> None:
    """A row that ends and starts anew draws the same numbers, whatever other rows did and however often they were
    reset.
    """
    fault = case.once(INDEPENDENT, lambda: row_fault(case, case.batch))
    if fault is not None and not fault.at_its_start:
        raise NotReached(INDEPENDENT)
    require(fault is None, "" if fault is None else fault.says)
    says = reset_fault(case, case.batch, whole=True)
    require(says is None, str(says))


@check(
    "let no number in a row depend on how many rows there are: no batch statistics, no seeds that are dealt out by "
    "count",
    (*NEEDS, INDEPENDENT, PARTIAL, STREAMS),
)
def rows_do_not_depend_on_their_number(case: Case) -> None:
    """Row ``i`` goes on exactly the same alone, in this batch and in a larger one."""
    trace = case.batch
    rows = trace.played.batch_size.numel()
    if len(trace.played.batch_size) != 1:
        raise NotJudged("the env has several batch dimensions")
    for other in (rows + 2, 1):
        says = f"with {other} rows instead of {rows}, the env differs"
        follow(trace, case.make(other), says, act=_resized(rows, other), rows=_some(min(rows, other)))


def _some(rows: int) -> list[int]:
    return sorted({*range(min(rows, MOST - 1)), rows - 1})


def _resized(rows: int, other: int) -> Act:
    """The recorded actions in the rows that both batches have, random ones in the others."""

    def act(_: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
        if other <= rows:
            return td.update(moment.actions[:other].clone())
        drawn = env.rand_action(td)
        return drawn.update(torch.cat([moment.actions, drawn.select(*env.action_keys)[rows:]], 0))

    return act


def row_fault(case: Case, trace: Trace) -> Fault | None:
    """Where a row first differs while the others do other things."""
    rows = trace.played.batch_size.numel()
    for row in sorted({0, rows - 1, *([1] if rows > 2 else [])}):
        ends = _Ends(trace, row)
        act, says = only(_mark(trace, row)), "while other rows do other things, the env differs"
        try:
            follow(trace, case.make(case.rows), says, act=act, rows=[row], watch=ends.look)
        except ContractBroken as error:
            return Fault(str(error), ends.differ, ends.own and "what follows" in str(error))
    return None


class _Ends:
    """Whether other rows ended, and were reset, otherwise than in the trace: then what differs may be the reset's
    fault.
    """

    def __init__(self, trace: Trace, row: int) -> None:
        self.trace, self.row = trace, row
        self.keys = [(*level.path, "done") for level in trace.played.plan.done.top]
        self.differ = False
        self.own = False  # whether the row itself ended in the step that was looked at last

    def look(self, moment: TraceStep, data: TensorDictBase) -> None:
        """Compares the ends of one step."""
        for key in self.keys:
            ended, then = (td.get(("next", *key), None) for td in (data, moment.data_then))
            self.differ |= ended is not None and not same(ended, then)
        self.own = self.row in _ended(self.trace, moment)


def reset_fault(case: Case, trace: Trace, *, whole: bool = False) -> str | None:
    """Where a row first differs that goes on while another is reset by hand.

    Args:
        case: what is judged.
        trace: how it played undisturbed.
        whole: follow a row into its next episodes; else until it ends.
    """
    rows = trace.played.batch_size.numel()
    says = "beside a row that was reset, the env differs"
    for row in (0, rows - 1):
        others = [i for i in _some(rows) if i != row]
        try:
            act = _resetting(trace, row, others)
            watch = None if whole else _until_ended(trace, others)
            follow(trace, case.make(case.rows), says, act=act, rows=others, watch=watch)
        except ContractBroken as error:
            return str(error)
    return None


def _until_ended(trace: Trace, rows: list[int]) -> Callable[[TraceStep, TensorDictBase], None]:
    """Takes rows off the list as they end."""

    def watch(moment: TraceStep, _: TensorDictBase) -> None:
        ended = _ended(trace, moment)
        rows[:] = [row for row in rows if row not in ended]

    return watch


def _ended(trace: Trace, moment: TraceStep) -> set[int]:
    """The rows that ended in a step."""
    found: set[int] = set()
    for level in trace.played.plan.done.top:
        done = moment.data_then.get(("next", *level.path, "done"), None)
        if done is not None:
            flat = done.reshape(trace.played.batch_size.numel(), -1).any(-1)
            found |= {row for row, over in enumerate(flat.tolist()) if over}
    return found


def _resetting(trace: Trace, row: int, others: list[int]) -> Act:
    """The recorded actions in other rows, and in every fifth step a reset of one row before it."""
    mark = _mark(trace, row)
    kept = only(~mark)

    def act(i: int, env: EnvBase, td: TensorDictBase, moment: TraceStep) -> TensorDictBase:
        if i % 5 == 3:
            before = trace.before(i).exclude(*env.action_keys)
            td = reset_rows(env, td, mark)
            compare(before, td.exclude(*env.action_keys), others, f"a reset of row {row} changed the env", f"step {i}")
            require("_reset" not in td.keys(), "the '_reset' mask was left in the data")
        return kept(i, env, td, moment)

    return act


def reset_rows(env: EnvBase, td: TensorDictBase, mark: Tensor) -> TensorDictBase:
    """Resets the rows that ``mark`` (bool ``[*B]``) marks, at every level that is reset by itself."""
    for level in env.plan.done.top:
        mask = mark.reshape(*mark.shape, *[1] * (len(level.shape) - mark.ndim)).expand(level.shape).clone()
        td.set((*level.path, "_reset") if level.path else "_reset", mask)
    return env.reset(td)


def _mark(trace: Trace, row: int) -> Tensor:
    """A bool per row, ``[*B]``, that is True for one."""
    env = trace.played
    mark = torch.zeros(env.batch_size, dtype=torch.bool, device=env.device)
    mark.view(-1)[row] = True
    return mark
