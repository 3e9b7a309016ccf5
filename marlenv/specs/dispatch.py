"""Torch functions on specs: ``torch.stack([spec, spec])`` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from marlenv.errors import ShapeError, SpecError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.composite import Composite
from marlenv.specs.stacked import Stacked, StackedComposite

METHODS = {
    torch.unsqueeze: "unsqueeze",
    torch.squeeze: "squeeze",
    torch.reshape: "reshape",
    torch.flatten: "flatten",
    torch.unflatten: "unflatten",
    torch.unbind: "unbind",
    torch.permute: "permute",
    torch.clone: "clone",
}


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a torch function on specs."""
    if func is torch.stack:
        return stack(*args, **kwargs)
    if func in METHODS:
        return getattr(args[0], METHODS[func])(*args[1:], **kwargs)
    raise Unsupported(f"torch.{func.__name__} on a spec; specs take {['stack', *sorted(METHODS.values())]}")


def stack(specs: Sequence[TensorSpec], dim: int = 0, *, out: Any = None) -> Any:
    """Specs side by side along a new dimension: one dense spec when they can be merged, else a lazy stack.

    Leaves of one class, shape and dtype merge, even when their bounds or masks differ; composites merge when all their
    entries do.

    >>> from marlenv import Bounded
    >>> torch.stack([Bounded(0, 1, shape=(2,)), Bounded(0, 5, shape=(2,))])
    Bounded([2, 2], float32, 0..5)
    """
    specs = list(specs)
    if not specs or not all(isinstance(s, TensorSpec) for s in specs):
        raise SpecError(f"torch.stack of specs: expected at least one spec and nothing else, got {specs}")
    if any(s.ndim != specs[0].ndim for s in specs):
        raise ShapeError(
            f"torch.stack of specs: they must have the same number of dimensions, got {[list(s.shape) for s in specs]}"
        )
    dim = dim + specs[0].ndim + 1 if dim < 0 else dim
    first = specs[0]
    if all(s == first for s in specs[1:]) and dim <= first.batch_ndim:
        return first.unsqueeze(dim).expand(*first.shape[:dim], len(specs), *first.shape[dim:])
    if all(isinstance(s, Composite) for s in specs):
        return _stack_composites(specs, dim)
    if any(isinstance(s, Composite) for s in specs):
        raise SpecError(
            f"torch.stack of specs: composites and leaves do not stack, got {[type(s).__name__ for s in specs]}"
        )
    return _merge(specs, dim) if _mergeable(specs) and dim <= first.batch_ndim else Stacked(*specs, dim=dim)


def _mergeable(specs: Sequence[TensorSpec]) -> bool:
    first = specs[0]
    kind = (type(first), first.shape, first.dtype, first.device)
    return (
        not isinstance(first, Stacked)
        and bool(first.params)
        and all((type(s), s.shape, s.dtype, s.device) == kind for s in specs)
        and all(getattr(s, n) == getattr(first, n) for s in specs for n in first.fields)
    )


def _merge(specs: Sequence[TensorSpec], dim: int) -> TensorSpec:
    """One dense spec from leaves that differ in their parameters only."""
    merged = {}
    for name in specs[0].params:
        values = [getattr(s, name) for s in specs]
        if all(v is None for v in values):
            merged[name] = None
        else:  # only masks may be missing, and a missing mask allows everything
            full = [
                torch.ones(s._mask_shape, dtype=torch.bool, device=s.device) if v is None else v
                for s, v in zip(specs, values, strict=True)
            ]  # type: ignore[attr-defined]
            merged[name] = torch.stack(full, dim)
    n = len(specs)
    base = specs[0]._map(lambda t: t.unsqueeze(dim).expand(*t.shape[:dim], n, *t.shape[dim:]))
    for name, value in merged.items():
        setattr(base, name, value)
    return base


def _stack_composites(specs: list[Any], dim: int) -> Composite:
    first = specs[0]
    same = all(
        type(s) is Composite
        and list(s) == list(first)
        and (s.shape, s.device, s.data_cls) == (first.shape, first.device, first.data_cls)
        for s in specs
    )
    if same:
        entries = {name: None if first[name] is None else stack([s[name] for s in specs], dim) for name in first}
        if not any(isinstance(e, (Stacked, StackedComposite)) for e in entries.values()):
            shape = (*first.shape[:dim], len(specs), *first.shape[dim:])
            return Composite(entries, shape=shape, device=first.device, data_cls=first.data_cls)
    return StackedComposite(*specs, dim=dim)
