"""Torch functions on specs: ``torch.stack([spec, spec])`` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import BadIndex, ShapeError, SpecError, Unsupported
from marlenv.specs.base import TensorSpec
from marlenv.specs.composite import Composite
from marlenv.specs.discrete import Discrete
from marlenv.specs.lazy_stack import LazyStack
from marlenv.specs.nontensor import NonTensor
from marlenv.specs.stacked import Stacked
from marlenv.specs.stacked_composite import StackedComposite

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
    front = spec._dim(dim) if not isinstance(spec, LazyStack) else spec._front(dim)
    if index.ndim > 1:
        raise BadIndex(f"torch.index_select of a spec: expected an index of one dimension, got {list(index.shape)}")
    if index.numel() and int(index.min()) < 0:
        raise BadIndex(f"torch.index_select of a spec: expected numbers from 0 on, got {index.tolist()}")
    return spec[(*[slice(None)] * front, index.reshape(-1))]


def stack(specs: Sequence[Any], dim: int = 0, *, out: Any = None) -> Any:
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
        raise BadIndex(
            f"torch.stack of specs: dimension {dim} is out of range for {first.ndim} dimensions and a new one"
        )
    dim = dim % (first.ndim + 1)
    dense = _dense(specs, dim)
    if dense is not None:
        return dense
    if all(isinstance(s, Composite) for s in specs):
        return StackedComposite(*specs, dim=dim)
    if any(isinstance(s, Composite) for s in specs):
        raise SpecError(
            f"torch.stack of specs: composites and leaves do not stack, got {[type(s).__name__ for s in specs]}"
        )
    return Stacked(*specs, dim=dim)


def _dense(specs: Sequence[Any], dim: int) -> Any:
    """The specs along a new dimension as one spec; None where they cannot be merged."""
    first = specs[0]
    if any(type(s) is not type(first) or s.ndim != first.ndim for s in specs) or dim > first.batch_ndim:
        return None
    if all(s == first for s in specs[1:]):
        return first.unsqueeze(dim).expand(*first.shape[:dim], len(specs), *first.shape[dim:])
    if type(first) is Composite:
        return _dense_composite(specs, dim)
    return _merge(specs, dim) if _mergeable(specs) else None


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


def _dense_composite(specs: Sequence[Any], dim: int) -> Composite | None:
    """Composites whose entries all merge, as one."""
    first = specs[0]
    kind = (first.shape, first.device, first.data_cls, first.step_mdp_static, set(first))
    if any((s.shape, s.device, s.data_cls, s.step_mdp_static, set(s)) != kind for s in specs):
        return None
    entries: dict[str, Any] = {}
    for name in first:
        column = [s[name] for s in specs]
        missing = [one is None for one in column]
        entries[name] = None if any(missing) else _dense(column, dim)
        if entries[name] is None and not all(missing):
            return None
    shape = (*first.shape[:dim], len(specs), *first.shape[dim:])
    names = first.names if any(first.names) and all(s.names == first.names for s in specs) else None
    out = Composite(entries, shape=shape, device=first.device, data_cls=first.data_cls)
    out.names = None if names is None else [*names[:dim], None, *names[dim:]]
    out.step_mdp_static = first.step_mdp_static
    return out
