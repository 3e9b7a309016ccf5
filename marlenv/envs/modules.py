"""Tensordict modules called by their module.

``policy(td)`` goes through tensordict's dispatch, a sequence's bookkeeping and a checked write for each entry; with a
small network, or a small batch, that is what a step costs. Here the network inside is called with the entries, and
what it returns is written where it would have been. It is done so only where nothing could tell the difference: no
hooks, no methods of somebody's own, plain tensors in a plain tensordict. Every other policy is called as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
    dispatch,
)
from tensordict.nn.probabilistic import interaction_type, set_interaction_type
from tensordict.nn.utils import skip_existing
from torch import Tensor
from torch.compiler import is_dynamo_compiling as is_compiling
from torch.nn.modules import module as hooks

from marlenv.keys import last
from marlenv.tensordicts import fetch, home, raw

CALLED = ("__call__", "_call_impl", "_compiled_call_impl", "_wrapped_call_impl", "forward")
MODULE = frozenset((*CALLED, "_call_module", "_write_to_tensordict"))
SEQUENCE = frozenset((*CALLED, "_run_module", "_module_iter", "_get_module_num_or_key"))
SAMPLER = SEQUENCE | {"get_dist_params", "det_part", "_last_module"}
DRAWS = frozenset(CALLED)
Way = Callable[[Any, TensorDictBase], Any]


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
    return way if _has(kind, own) else None


def _has(kind: type, own: list[tuple[str, Any]]) -> bool:
    """Whether a class has these methods; each time, as somebody may put another one in its place."""
    return all(getattr(kind, name, None) is method for name, method in own)


@cache
def _known(kind: type) -> tuple[Way | None, list[tuple[str, Any]]]:
    """How modules of a class are called, and tensordict's own methods on the way."""
    return next(((way, own) for base, own, way in WAYS if issubclass(kind, base)), (None, []))


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
    for module in sequence._module_iter():
        try:
            out = _run(module, out)
        except Exception as error:
            error.add_note(f"Failed while executing module '{sequence._get_module_num_or_key(module)}'.")
            raise
    return _written(sequence, td, out)


def _sample(policy: ProbabilisticTensorDictSequential, td: TensorDictBase) -> Any:
    if policy.return_composite or not _runs_in_place(policy, SAMPLER):
        return policy(td)
    sampler = policy._last_module
    kind = interaction_type() or getattr(sampler, "default_interaction_type", None)
    if kind is None:
        return policy(td)
    with set_interaction_type(kind):
        out = _run(policy.det_part, td)
    return _written(policy, td, _sampler_of(sampler)(out, _requires_sample=policy._requires_sample))


def _sampler_of(module: Any) -> Any:
    """What to call for a module that samples: its ``forward`` as it is, without what looks for other arguments than
    tensordicts; the module itself where anything else may be on the way.
    """
    kind: Any = type(module)
    forward = kind.forward
    plain = getattr(forward, "__code__", None) is DISPATCHED and _has(kind, DRAWN) and _bare(module.__dict__, DRAWS)
    return partial(forward.__wrapped__, module) if plain else module


def _runs_in_place(sequence: TensorDictSequential, own: frozenset[str]) -> bool:
    odd = sequence.partial_tolerant or sequence._select_before_return or sequence.inplace not in (None, True)
    return not odd and _bare(sequence.__dict__, own)


def _written(sequence: TensorDictSequential, td: TensorDictBase, out: Any) -> Any:
    """What a sequence returns whose last module returned ``out``."""
    if out is td or sequence.inplace is None:
        return out
    return td.update(out, keys_to_update=sequence.out_keys)


def _methods(base: type, names: frozenset[str]) -> list[tuple[str, Any]]:
    return [(name, getattr(base, name, None)) for name in names]


DISPATCHED = dispatch(auto_batch_size=False)(lambda self, tensordict: tensordict).__code__
"""What is around a method that can be called without a tensordict."""
DRAWN = _methods(ProbabilisticTensorDictModule, DRAWS - {"forward"})
"""Methods on the way to a sampler's ``forward``, which may be its own."""
WAYS: tuple[tuple[type, list[tuple[str, Any]], Way], ...] = (
    (ProbabilisticTensorDictSequential, _methods(ProbabilisticTensorDictSequential, SAMPLER), _sample),
    (TensorDictSequential, _methods(TensorDictSequential, SEQUENCE), _in_turn),
    (TensorDictModule, _methods(TensorDictModule, MODULE), _module),
)
"""Classes, their methods on the way, and how a module of each is called; the first that fits."""
