"""Our specs as Gymnasium's spaces, for adapters to libraries that speak of spaces. Gymnasium is imported on use."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from marlenv.errors import DtypeError, GroupError, ShapeError, SpecError
from marlenv.keys import NestedKey
from marlenv.optional import need
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from marlenv.specs.dtypes import fractions
from marlenv.specs.plain import is_plain


def space_of(who: str, key: str, spec: TensorSpec, *, acts: bool = False) -> Any:
    """The space of what a spec allows; values of it are those that :meth:`marlenv.specs.TensorSpec.to_numpy` gives.

    One-hot values become numbers, as spaces have them; numbers of several agents ``MultiDiscrete``; zeros and ones
    ``MultiBinary``, but a ``Box`` where they are bools that are observed, such as masks and planes.

    Args:
        who: the adapter, for errors.
        key: of the entry, for errors.
        spec: of one agent, without a batch.
        acts: whether values are chosen, rather than observed.

    Raises:
        SpecError: there is no such space; the text says which entry, and why.
        GroupError: it is an entry of agents who differ in it.

    >>> space_of("here", "action", Categorical(3))
    Discrete(3)
    >>> space_of("here", "action", Binary(3))
    MultiBinary(3)
    """
    spaces = need("gymnasium.spaces", who)
    check_equal(who, key, spec)
    if isinstance(spec, Composite):
        return spaces.Dict({name: space_of(who, f"{key}/{name}", one, acts=acts) for name, one in spec.items()})
    known = isinstance(spec, (Binary, Bounded, Categorical, OneHot, Unbounded))
    if not known or -1 in spec.shape:
        raise SpecError(f"{who}: entry {key!r} is {spec!r}; Gymnasium has no space of such values")
    choices = _choices(spaces, spec, acts)
    if choices is not None:
        return choices
    dtype = torch.empty(0, dtype=spec.dtype).numpy().dtype
    if dtype == np.dtype(bool) or isinstance(spec, Binary):
        return spaces.Box(0, 1, tuple(spec.shape), np.int8)
    if isinstance(spec, Categorical):
        return spaces.Box(0, spec.n - 1, tuple(spec.shape), dtype)
    if isinstance(spec, Bounded):
        low, high = (x.expand(spec.shape).cpu().numpy().astype(dtype) for x in (spec.low, spec.high))
        return spaces.Box(low, high, tuple(spec.shape), dtype)
    ends = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return spaces.Box(*ends, tuple(spec.shape), dtype)


def _choices(spaces: Any, spec: TensorSpec, acts: bool) -> Any:
    """The space of numbered choices, or of zeros and ones; None where values are numbers of a box."""
    if isinstance(spec, MultiCategorical):
        return spaces.MultiDiscrete(spec.nvec.cpu().numpy())
    if isinstance(spec, MultiOneHot):
        return spaces.MultiDiscrete(np.broadcast_to(spec.nvec, (*spec.shape[:-1], len(spec.nvec))))
    shape = tuple(spec.shape[:-1] if isinstance(spec, OneHot) else spec.shape)
    if isinstance(spec, OneHot):
        return spaces.MultiDiscrete(np.full(shape, spec.n)) if shape else spaces.Discrete(spec.n)
    if not isinstance(spec, Categorical) or 0 in shape or (spec.dtype == torch.bool and not acts):
        return None
    if isinstance(spec, Binary):  # whose n is a size
        return spaces.MultiBinary(shape if len(shape) > 1 else shape[0]) if shape else spaces.Discrete(2)
    if len(shape) > 1:
        return None
    return spaces.MultiDiscrete(np.full(shape, spec.n)) if shape else spaces.Discrete(spec.n)


def check_equal(who: str, key: str, spec: TensorSpec) -> None:
    """Raises where a spec is one of agents who differ, and is wanted as one.

    Args:
        who: the adapter, for errors.
        key: of the entry, for errors.
        spec: of a group.

    Raises:
        GroupError: its agents differ.
    """
    if isinstance(spec, (Stacked, StackedComposite)):
        raise GroupError(
            f"{who}: the agents of entry {key!r} differ in it, {spec!r}, and they observe and act as one here; put "
            f"them into groups of their own, or pad them (unequal='pad')"
        )


def check_mask(who: str, name: str, mask: TensorSpec | None, actions: Any) -> None:
    """Raises where legal actions are no plain mask of all actions.

    Args:
        who: the adapter, for errors.
        name: of the agent or the group, for errors.
        mask: the spec of ``action_mask`` of one agent, if it has one.
        actions: the space of its actions.

    Raises:
        SpecError: the mask is no bool for each action.
    """
    if mask is None:
        return
    n = int(actions.n) if type(actions).__name__ == "Discrete" else mask.shape[-1]
    if mask.dtype != torch.bool or mask.shape[-1] != n:
        raise SpecError(
            f"{who}: the action_mask of {name!r} must be bool [{n}], got {mask.dtype} {list(mask.shape)}; "
            f"chess gives such masks with mask='bool'"
        )


def check_numbers(who: str, key: NestedKey, spec: TensorSpec, action: Any, legal: Any) -> None:
    """Raises where an action is no number, or a fraction where actions are numbered.

    Args:
        who: the adapter, for errors.
        key: of the action, for errors.
        spec: of the action.
        action: an array or a tensor.
        legal: what actions are, for errors.

    Raises:
        DtypeError: it is not what the spec holds.
    """
    real = is_plain(spec) and spec.dtype.is_floating_point
    objects = isinstance(action, np.ndarray) and action.dtype.kind not in "biuf"
    wrong: Any = action.tolist() if objects else None if real else fractions(action)
    if objects or wrong:
        what = "numbers" if real else "whole numbers"
        raise DtypeError(f"{who}: entry {key!r} must be {what}, got {repr(wrong)[:60]}; give actions of {legal}")


def check_shape(who: str, got: tuple[int, ...], wanted: tuple[int, ...], legal: Any) -> None:
    """Raises where actions have another shape than they should; sizes of 1 may be left out.

    Args:
        who: the adapter, for errors.
        got: the shape of the actions.
        wanted: what it should be.
        legal: what actions are, for errors.

    Raises:
        ShapeError: read as the other shape, they would be actions of other agents, or of other rows.
    """
    if got != wanted and [n for n in got if n != 1] != [n for n in wanted if n != 1]:
        raise ShapeError(f"{who}: actions must have shape {list(wanted)}, got {list(got)}; each is one of {legal}")


def value_of(space: Any, value: Any) -> Any:
    """What an agent observed, arrays or dicts of them, as a value of its space.

    >>> from gymnasium.spaces import Box
    >>> value_of(Box(0, 1, (2,), np.int8), np.array([True, False]))
    array([1, 0], dtype=int8)
    """
    if isinstance(value, dict):
        return {name: value_of(space[name], one) for name, one in value.items()}
    if type(space).__name__ == "Discrete":
        return np.int64(value)
    return np.asarray(value, dtype=space.dtype)
