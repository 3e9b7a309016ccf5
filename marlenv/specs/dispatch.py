"""Torch functions on specs: ``torch.stack([spec, spec])`` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import ShapeError, SpecError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.composite import Composite
from marlenv.specs.discrete import Discrete
from marlenv.specs.nontensor import NonTensor
from marlenv.specs.stacked import Stacked, StackedComposite

METHODS = {
    torch.broadcast_to: "expand",
    torch.clone: "clone",
    torch.flatten: "flatten",
    torch.permute: "permute",
    torch.reshape: "reshape",
    torch.squeeze: "squeeze",
    torch.unbind: "unbind",
    torch.unflatten: "unflatten",
    torch.unsqueeze: "unsqueeze",
}

COMPARISONS = {torch.Tensor.eq: False, torch.Tensor.ne: True}


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a torch function on specs; the spec may be called ``input`` as in torch.

    Raises:
        Unsupported: specs do not take this function.
    """
    if func in COMPARISONS:  # with a tensor in front; two specs compare by themselves
        return COMPARISONS[func]
    if func is torch.stack:
        return stack(*args, **{"specs" if name == "tensors" else name: value for name, value in kwargs.items()})
    if "input" in kwargs:
        args = (kwargs["input"], *args)
        kwargs = {name: value for name, value in kwargs.items() if name != "input"}
    if func is torch.index_select:
        return index_select(*args, **kwargs)
    if func in METHODS and isinstance(args[0], TensorSpec):
        return getattr(args[0], METHODS[func])(*args[1:], **kwargs)
    known = sorted({"stack", "index_select", *(f.__name__ for f in METHODS)})
    raise Unsupported(f"torch.{getattr(func, '__name__', func)} on a spec: not supported; specs take {known}")


def index_select(spec: TensorSpec, dim: int, index: Tensor) -> Any:
    """The entries of a spec along one batch dimension that ``index`` names.

    >>> from marlenv import Unbounded
    >>> torch.index_select(Unbounded((3, 2)), 0, torch.tensor([2, 0]))
    Unbounded([2, 2], float32)
    """
    front = dim + spec.ndim if dim < 0 else dim
    return spec[(*[slice(None)] * front, index)]


def stack(specs: Sequence[TensorSpec], dim: int = 0, *, out: Any = None) -> Any:
    """Specs side by side along a new dimension: one dense spec when they can be merged, else a lazy stack.

    Leaves of one class, shape and dtype merge, even when their bounds or masks differ; composites merge when all their
    entries do.

    Raises:
        SpecError: there are none, or composites are mixed with leaves.
        ShapeError: they do not have the same number of dimensions.

    >>> from marlenv import Bounded
    >>> torch.stack([Bounded(0, 1, shape=(2,)), Bounded(0, 5, shape=(2,))])
    Bounded([2, 2], float32, 0..5)
    """
    specs = list(specs)
    if out is not None:
        raise Unsupported("torch.stack of specs: out=... is not supported; take the result")
    if not specs or not all(isinstance(s, TensorSpec) for s in specs):
        kinds = [type(s).__name__ for s in specs]
        raise SpecError(f"torch.stack of specs: expected at least one spec and nothing else, got {kinds}")
    first = specs[0]
    if any(s.ndim != first.ndim for s in specs):
        raise ShapeError(
            f"torch.stack of specs: they must have the same number of dimensions, got {[list(s.shape) for s in specs]}"
        )
    if not -first.ndim - 1 <= dim <= first.ndim:
        raise IndexError(
            f"torch.stack of specs: dimension {dim} is out of range for {first.ndim} dimensions and a new one"
        )
    dim = dim % (first.ndim + 1)
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
    """Whether leaves differ in their parameters only; the example of a NonTensor does not count."""
    first = specs[0]
    kind = (type(first), first.shape, first.dtype, first.device)
    if any((type(s), s.shape, s.dtype, s.device) != kind for s in specs):
        return False
    masked = isinstance(first, Discrete) and any(s.mask is not None for s in specs if isinstance(s, Discrete))
    if masked and len({s.space_sizes for s in specs if isinstance(s, Discrete)}) != 1:
        return False
    fields = [name for name in first.fields if name != "example_data"]
    return (bool(first.params) or isinstance(first, NonTensor)) and all(
        getattr(s, name) == getattr(first, name) for s in specs for name in fields
    )


def _merge(specs: Sequence[TensorSpec], dim: int) -> TensorSpec:
    """One dense spec from leaves that differ in their parameters only."""
    n, first = len(specs), specs[0]
    merged: dict[str, Any] = {}
    for name in first.params:
        values = [_param(spec, name) for spec in specs]
        unset = all(getattr(spec, name) is None for spec in specs)
        merged[name] = None if unset else torch.stack([v for v in values if v is not None], dim)
    return first._map(lambda t: t.unsqueeze(dim).expand(*t.shape[:dim], n, *t.shape[dim:]), **merged)


def _param(spec: TensorSpec, name: str) -> Tensor | None:
    """A parameter; a mask that is missing allows everything."""
    value: Tensor | None = getattr(spec, name)
    if value is None and isinstance(spec, Discrete):
        return torch.ones(spec._mask_shape, dtype=torch.bool, device=spec.device)
    return value


def _stack_composites(specs: list[Any], dim: int) -> Composite:
    first = specs[0]
    kind = (Composite, first.shape, first.device, first.data_cls, first.step_mdp_static, set(first))
    if all((type(s), s.shape, s.device, s.data_cls, s.step_mdp_static, set(s)) == kind for s in specs):
        columns = {name: [s[name] for s in specs] for name in first}
        if all(len({spec is None for spec in column}) == 1 for column in columns.values()):
            entries = {name: None if column[0] is None else stack(column, dim) for name, column in columns.items()}
            if not any(isinstance(e, (Stacked, StackedComposite)) for e in entries.values()):
                shape = (*first.shape[:dim], len(specs), *first.shape[dim:])
                out = Composite(entries, shape=shape, device=first.device, data_cls=first.data_cls)
                out.step_mdp_static = first.step_mdp_static
                return out
    return StackedComposite(*specs, dim=dim)
