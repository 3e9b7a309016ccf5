"""Resets along the tree: which part of the data is started anew, and how it is merged with what goes on.

A ``"_reset"`` mask stands beside a ``"done"`` flag and has its shape. The masks at the top levels (those with no flags
above them) decide; a mask at a lower level is overridden by the one above it, and a missing mask at a top level means
that everything below it is reset. What is not reset keeps its values bit for bit.
"""

from __future__ import annotations

import torch
from marlenv.groups.done import DoneLevel, DonePlan
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import ResetError
from marlenv.keys import Path, nested
from marlenv.tensordicts import choose, entries, get, is_nested, lazy, parts, put, rows

RESET = "_reset"


def read_masks(plan: DonePlan, td: TensorDictBase) -> dict[Path, Tensor | None]:
    """The reset masks of the top levels, checked; None where a level has none.

    A mask of the batch size is taken for one of the done flag's shape when that has as many elements, and is replaced
    by it in ``td``.

    Raises:
        ResetError: a mask stands where there is no done flag, or below flags that have none, or has another shape than
            its flag, or is not bool.
    """
    masks: dict[Path, Tensor | None] = {}
    levels = {level.path: level for level in plan.levels}
    lead = td.batch_size[: max(0, td.ndim - plan.batch_ndim)]
    for path, node in _find_masks(td, ()):
        if path not in levels:
            where = nested((*path, RESET))
            beside = [nested((*lv.path, RESET)) for lv in plan.levels]
            raise ResetError(f"reset: {where!r} has no done flag beside it; this env takes {beside}")
        masks[path] = _checked(node, levels[path], lead)
    for level in plan.top:
        below = next((p for p in masks if p[: len(level.path)] == level.path), None)
        if below is not None and level.path not in masks:
            raise ResetError(_overruled(below, level, lead, plan.batch_ndim))
    return {level.path: masks.get(level.path) for level in plan.top}


def _overruled(below: Path, level: DoneLevel, lead: torch.Size, batch_ndim: int) -> str:
    """What is wrong with a mask at a level that does not decide, and none at the one that does."""
    here, above = nested((*below, RESET)), nested((*level.path, RESET))
    want = [*lead, *level.shape]
    united = f"td[{here!r}].flatten({len(lead) + batch_ndim}).any(-1, keepdim=True)"
    how = f": td[{above!r}] = {united}" if not level.path else ""
    return (
        f"reset: {here!r} cannot stand alone; the done flags above it decide, and start anew whatever is below them: "
        f"write the mask {want} of {above!r}{how}"
    )


def _find_masks(td: TensorDictBase, path: Path) -> list[tuple[Path, TensorDictBase]]:
    """Every tensordict inside ``td`` that holds a mask, with its path."""
    found = []
    for name, value in entries(td):
        if name == RESET:
            found.append((path, td))
        elif is_nested(value) and not (path == () and name == "next"):
            found += _find_masks(value, (*path, name))
    return found


def _checked(node: TensorDictBase, level: DoneLevel, lead: torch.Size) -> Tensor:
    mask = get(node, RESET)
    where = nested((*level.path, RESET))
    want = torch.Size((*lead, *level.shape))
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ResetError(f"reset: {where!r} must be a bool tensor of shape {list(want)}, got {got}")
    if mask.shape == want or -1 in want:
        return mask
    if mask.shape != node.batch_size or mask.numel() != want.numel():
        raise ResetError(
            f"reset: {where!r} must have the shape of the done flag beside it, {list(want)}, got {list(mask.shape)}"
        )
    mask = mask.reshape(want)
    put(node, RESET, mask)
    return mask


def merge(
    masks: dict[Path, Tensor | None],
    fresh: TensorDictBase,
    kept: TensorDictBase,
    path: Path = (),
    mask: Tensor | None = None,
    ndim: int = 0,
) -> TensorDictBase:
    """Writes ``fresh`` into ``kept`` where the masks say so, and returns ``kept``.

    Where only ``fresh`` is a lazy stack, because sizes have come apart, a lazy stack is returned in place of ``kept``.

    Args:
        masks: path of a level -> what is reset there, as :func:`read_masks` returned it; None resets all of it.
        fresh: what the env answered to the reset.
        kept: the data before the reset; entries that it lacks are taken from ``fresh`` whole.
        path: where in the tree we are.
        mask: the mask that governs here.
        ndim: the batch dimensions of the level that the mask belongs to.
    """
    if path in masks:
        mask, ndim = masks[path], kept.ndim
        if mask is not None and (mask.device.type == "cpu" or _grows(kept)) and bool(mask.all()):
            mask = None  # all starts anew, and hangs on nothing that was before
    elif masks and path == ():
        mask, ndim = _any_row(masks, kept.ndim), kept.ndim
    if parts(kept) is not None or parts(fresh) is not None:
        return _merge_stacks(fresh, kept, mask, ndim)
    deeper = any(len(p) > len(path) and p[: len(path)] == path for p in masks)
    for name, value in entries(fresh):
        old = get(kept, name)
        if old is None or (mask is None and type(value) is Tensor):
            put(kept, name, value)
        elif is_nested(value) and is_nested(old) and (deeper or mask is None):
            put(kept, name, merge(masks, value, old, (*path, name), mask, ndim))
        else:
            put(kept, name, value if mask is None else choose(mask, value, old, ndim))
    return kept


def _grows(td: TensorDictBase) -> bool:
    """Whether gradients flow through any of the data."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in td.values(True, True))


def _any_row(masks: dict[Path, Tensor | None], ndim: int) -> Tensor | None:
    """The rows in which anything is reset; where groups have flags and the root has none, the root starts anew
    there.
    """
    found = None
    for mask in masks.values():
        if mask is None:
            return None
        found = rows(mask, ndim) if found is None else found | rows(mask, ndim)
    return found


def _merge_stacks(fresh: TensorDictBase, kept: TensorDictBase, mask: Tensor | None, ndim: int) -> TensorDictBase:
    """:func:`merge` of lazy stacks, part by part."""
    dim = kept.stack_dim if parts(kept) is not None else fresh.stack_dim
    if parts(kept) is None:
        kept = lazy(kept.unbind(dim), dim)
    for i, (new_part, old_part) in enumerate(zip(fresh.unbind(dim), kept.tensordicts, strict=True)):
        if mask is None or dim >= ndim:
            merge({}, new_part, old_part, (), mask, ndim)
        else:
            merge({}, new_part, old_part, (), mask.select(dim, i), ndim - 1)
    return kept
