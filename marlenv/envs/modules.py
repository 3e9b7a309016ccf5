"""Tensordict modules called by their module.

``policy(td)`` goes through tensordict's dispatch, a sequence's bookkeeping and a checked write for each entry; with a
small network, or a small batch, that is what a step costs. Here the network inside is called with the entries, and
what it returns is written where it would have been. It is done so only where nothing could tell the difference: no
hooks, no methods of somebody's own, plain tensors in a plain tensordict. Every other policy is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
)
from tensordict.nn.probabilistic import interaction_type, set_interaction_type
from tensordict.nn.utils import skip_existing
from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling as is_compiling
from torch.nn.modules import module as hooks

from marlenv.keys import last
from marlenv.tensordicts import fetch, home, raw

CALLED = ("__call__", "_call_impl", "_compiled_call_impl", "_wrapped_call_impl", "forward")
MODULE = frozenset((*CALLED, "_call_module", "_write_to_tensordict"))
SEQUENCE = frozenset((*CALLED, "_run_module", "_module_iter", "_get_module_num_or_key"))
SAMPLER = SEQUENCE | {"get_dist_params", "det_part", "_last_module"}
DRAWS = frozenset(CALLED)
READS = frozenset(("get_dist", "log_prob", "_dist_sample", "_resolve_generator", "_update_td_lp"))
Way = Callable[[Any, TensorDictBase], Any]
Methods = tuple[Callable[[type], tuple[Any, ...]], tuple[Any, ...]]
"""What reads some methods off a class, and what they are on the class that has them first."""


def call(policy: Any, td: TensorDictBase) -> Any:
    """What ``policy(td)`` returns, by the shortest way to it.

    Args:
        policy: any callable that takes the tensordict.
        td: the data, in which a tensordict module writes.

    >>> from tensordict import TensorDict
    >>> double = TensorDictModule(lambda seen: 2 * seen, ["observation"], ["action"])
    >>> call(double, TensorDict({"observation": torch.ones(3)}, [3]))["action"]
    tensor([2., 2., 2.])
    """
    kind: type = type(policy)
    return policy(td) if _way(kind) is None or _watched() else _run(policy, td)


def _run(module: Any, td: TensorDictBase) -> Any:
    kind: type = type(module)
    way = _way(kind)
    return module(td) if way is None or raw(td) is None else way(module, td)


def _way(kind: type) -> Way | None:
    """How modules of a class are called; None for classes with methods on the way that are not tensordict's own."""
    way, own = _known(kind)
    return way if way is not None and _has(kind, own) else None


def _has(kind: type, own: Methods) -> bool:
    """Whether a class has these methods; each time, as somebody may put another one in its place."""
    read, methods = own
    return read(kind) == methods


@cache
def _known(kind: type) -> tuple[Way | None, Methods]:
    """How modules of a class are called, and tensordict's own methods on the way."""
    return next(((way, own) for base, own, way in WAYS if issubclass(kind, base)), (None, WAYS[0][1]))


def _watched() -> bool:
    """Whether anything looks on at every module, or changes what they do."""
    return bool(
        skip_existing()
        or is_compiling()
        or torch._C._get_tracing_state()
        or hooks._global_forward_hooks
        or hooks._global_forward_pre_hooks
        or hooks._global_backward_hooks
        or hooks._global_backward_pre_hooks
    )


def _bare(at: dict[str, Any], own: frozenset[str]) -> bool:
    """Whether a module, by its attributes, has no hooks, is not compiled, and none of its methods was replaced."""
    hooked = at["_forward_hooks"] or at["_forward_pre_hooks"] or at["_backward_hooks"] or at["_backward_pre_hooks"]
    return not hooked and own.isdisjoint(at)


def _module(module: TensorDictModule, td: TensorDictBase) -> Any:
    at = module.__dict__
    odd = module._kwargs is not None or module.method is not None or module.method_kwargs or module._get_kwargs
    if odd or module.inplace is not True or not _bare(at, MODULE):
        return module(td)
    seen = [fetch(td, key) for key in at["_in_keys"]]
    if any(type(value) is not Tensor for value in seen):
        return module(td)
    try:
        out = module.module(*seen)
    except Exception as error:
        return _go_on(module, td, error, failed=True)
    values, keys = out if type(out) is tuple else (out,), at["_out_keys"]
    if len(values) != len(keys):
        return _go_on(module, td, out)
    for key, value in zip(keys, values, strict=True):
        if key != "_":
            inside = home(td, key, value)
            if inside is None:
                return _go_on(module, td, out)
            inside[last(key)] = value
    return td


def _go_on(module: TensorDictModule, td: TensorDictBase, answer: Any, *, failed: bool = False) -> Any:
    """Tensordict's own way on from what the module returned or raised; it writes all of it, again where need be."""
    return TensorDictModule.forward(Answered(module, answer, failed), td)


class Answered:
    """A tensordict module whose module was called already: its ``forward`` goes on with what came of that.

    Args:
        module: the tensordict module.
        answer: what its module returned or raised.
        failed: whether it raised it.
    """

    def __init__(self, module: TensorDictModule, answer: Any, failed: bool) -> None:
        self._of, self._answer, self._failed = module, answer, failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def _call_module(self, tensors: Any, **kwargs: Any) -> Any:
        if self._failed:
            raise self._answer
        return self._answer


def _in_turn(sequence: TensorDictSequential, td: TensorDictBase) -> Any:
    if not _runs_in_place(sequence, SEQUENCE):
        return sequence(td)
    out: Any = td
    for module in _children(sequence):
        try:
            out = _run(module, out)
        except Exception as error:
            error.add_note(f"Failed while executing module '{sequence._get_module_num_or_key(module)}'.")
            raise
    return _written(sequence, td, out)


def _sample(policy: ProbabilisticTensorDictSequential, td: TensorDictBase) -> Any:
    if policy.return_composite or not _runs_in_place(policy, SAMPLER):
        return policy(td)
    sampler = [*_children(policy)][-1]
    kind = interaction_type() or getattr(sampler, "default_interaction_type", None)
    if kind is None:
        return policy(td)
    with set_interaction_type(kind):
        out = _run(policy._det_part, td)  # `det_part` by a name that tensordict 0.15 does not warn of
    return _written(policy, td, _draw(sampler, out, policy._requires_sample))


def _draw(sampler: Any, td: TensorDictBase, sampled: bool) -> Any:
    """What a module that samples returns, by its ``forward`` as it is, without what looks for other arguments than
    tensordicts, and with short ways to the entries; the module itself is called where anything else may be on the way.
    """
    kind: Any = type(sampler)
    forward, known = _inner(kind.forward)
    if forward is None or not _has(kind, DRAWN) or not _bare(sampler.__dict__, DRAWS):
        return sampler(td, _requires_sample=sampled)
    if not known or raw(td) is None or not _has(kind, READ) or not READS.isdisjoint(sampler.__dict__):
        return forward(sampler, td, _requires_sample=sampled)
    open_ = _Open.of(td)
    out = forward(sampler, open_, _requires_sample=sampled)
    return td if out is open_ else out


@cache
def _inner(forward: Any) -> tuple[Any, bool]:
    """The ``forward`` of a sampler without what is around it, where that does nothing for a tensordict while nothing
    is skipped; and whether it is one of the libraries', which read and write entries and keep nothing.
    """
    if getattr(forward, "__code__", None) is not AROUND[0]:
        return None, False
    known = str(forward.__module__).partition(".")[0] in LIBRARIES
    for code in AROUND:
        forward = getattr(forward, "__wrapped__", forward) if forward.__code__ is code else forward
    return forward, known


class _Open(TensorDict):
    """A tensordict that shares the entries of another one; plain tensors are read and written by the shortest way."""

    _of: TensorDictBase

    @classmethod
    def of(cls, td: TensorDictBase) -> _Open:
        """Around the entries of a plain, unlocked one."""
        new = cls.__new__(cls)
        new.__dict__.update(td.__dict__, _of=td)
        return new

    def get(self, key: Any, *args: Any, **kwargs: Any) -> Any:
        value = fetch(self._of, key)
        return value if type(value) is Tensor else self._of.get(key, *args, **kwargs)

    def set(self, key: Any, item: Any, *args: Any, **kwargs: Any) -> Any:
        inside = None if args or kwargs else home(self._of, key, item)
        if inside is None:
            self._of.set(key, item, *args, **kwargs)
        else:
            inside[last(key)] = item
        return self

    def update(self, input_dict_or_td: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(input_dict_or_td) is not dict or args or kwargs:
            self._of.update(input_dict_or_td, *args, **kwargs)
            return self
        places = [(home(self._of, key, x), last(key), x) for key, x in input_dict_or_td.items()]
        if any(inside is None for inside, _, _ in places):
            self._of.update(input_dict_or_td)
        for inside, name, x in places:
            if inside is not None:
                inside[name] = x
        return self

    def expand(self, *args: Any, **kwargs: Any) -> Any:
        return self._of.expand(*args, **kwargs)


def _children(sequence: TensorDictSequential) -> Any:
    """The modules of a sequence, in turn."""
    inside = sequence.__dict__["_modules"]["module"]
    return inside._modules.values() if type(inside) is nn.ModuleList else sequence._module_iter()


def _runs_in_place(sequence: TensorDictSequential, own: frozenset[str]) -> bool:
    odd = sequence.partial_tolerant or sequence._select_before_return or sequence.inplace not in (None, True)
    return not odd and _bare(sequence.__dict__, own)


def _written(sequence: TensorDictSequential, td: TensorDictBase, out: Any) -> Any:
    """What a sequence returns whose last module returned ``out``."""
    if out is td or sequence.inplace is None:
        return out
    return td.update(out, keys_to_update=sequence.out_keys)


def _methods(base: type, names: frozenset[str]) -> Methods:
    read = attrgetter(*(name for name in names if hasattr(base, name)))
    return read, read(base)


AROUND = (
    dispatch(auto_batch_size=False)(lambda self, tensordict: tensordict).__code__,
    ProbabilisticTensorDictModule.forward.__wrapped__.__code__,
)
"""What is around a method that can be called without a tensordict, and inside of it around one that may be skipped."""
LIBRARIES = ("tensordict", "torchrl")
DRAWN = _methods(ProbabilisticTensorDictModule, DRAWS - {"forward"})
"""Methods on the way to a sampler's ``forward``, which may be its own."""
READ = _methods(ProbabilisticTensorDictModule, READS)
"""Methods that a sampler's ``forward`` gives the data to."""
WAYS: tuple[tuple[type, Methods, Way], ...] = (
    (ProbabilisticTensorDictSequential, _methods(ProbabilisticTensorDictSequential, SAMPLER), _sample),
    (TensorDictSequential, _methods(TensorDictSequential, SEQUENCE), _in_turn),
    (TensorDictModule, _methods(TensorDictModule, MODULE), _module),
)
"""Classes, their methods on the way, and how a module of each is called; the first that fits."""
