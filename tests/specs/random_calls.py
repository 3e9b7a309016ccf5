"""Every public method of a spec as a call that both libraries make: who takes it, its random arguments, what is done.

A call that changes its spec gives the spec back beside the result, so that both are compared.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import random_specs as draw
import torch
from random_specs import build, index, lead, shape_like, unencoded, value
from tensordict import TensorDict

import marlenv as ours
from marlenv.specs.discrete import Discrete


class Call(NamedTuple):
    """One way to use a spec."""

    takes: Callable[[Any], bool]
    """Whether our spec has it."""
    arguments: Callable[[Random, Any], tuple[Any, ...]]
    """Random arguments, from our spec."""
    act: Callable[..., Any]
    """``act(library, spec, *arguments)``."""
    names: tuple[str, ...]
    """The public names that it tries."""


def is_composite(spec: Any) -> bool:
    return isinstance(spec, ours.Composite)


def is_leaf(spec: Any) -> bool:
    return not isinstance(spec, ours.Composite)


def anything(spec: Any) -> bool:
    return True


def nothing(r: Random, spec: Any) -> tuple[Any, ...]:
    return ()


def dim(r: Random, spec: Any) -> tuple[Any, ...]:
    return (r.randint(-spec.ndim - 1, spec.ndim),)


def a_lead(r: Random, spec: Any) -> tuple[Any, ...]:
    return (lead(r),)


def a_value(r: Random, spec: Any) -> tuple[Any, ...]:
    return (value(r, spec),)


def a_key(r: Random, spec: Any) -> tuple[Any, ...]:
    keys = list(spec.keys(True)) or ["a"]
    return (r.choice((*keys, *keys, *keys, "missing", ("a", "missing"), ("a", "b"), "b")),)


def an_entry(r: Random, spec: Any) -> tuple[Any, ...]:
    batch = list(spec.shape) if r.random() < 0.9 else draw.sizes(r)
    name = r.choice(("a", "new", ("a", "new"), ("new", "deep"), ("a", "b"), "shape", "device"))
    what = r.random()
    if what < 0.05:
        return name, None
    return name, draw.composite(r, batch, 1) if what < 0.3 else draw.leaf(r, batch)


def a_mapping(r: Random, spec: Any) -> tuple[Any, ...]:
    batch = list(spec.shape) if r.random() < 0.9 else draw.sizes(r)
    return (
        {
            name: draw.composite(r, batch, 1) if r.random() < 0.3 else draw.leaf(r, batch)
            for name in r.sample("abnew", r.randint(0, 2))
        },
    )


def and_spec(method: str, *built: int) -> Callable[..., Any]:
    """A method that changes the spec; the arguments at ``built`` are recipes."""

    def act(k: Any, spec: Any, *args: Any) -> Any:
        made = [build(k, arg) if i in built and isinstance(arg, tuple) else arg for i, arg in enumerate(args)]
        result = getattr(spec, method)(*made)
        return None if result is spec else result, spec

    return act


def method(name: str) -> Callable[..., Any]:
    return lambda k, spec, *args: getattr(spec, name)(*args)


def attribute(name: str) -> Callable[..., Any]:
    return lambda k, spec: getattr(spec, name)


def listed(name: str) -> Callable[..., Any]:
    def act(k: Any, spec: Any, nested: bool, leaves: bool) -> Any:
        view = getattr(spec, name)(nested, leaves)
        rows = list(view)
        return len(view), sorted(rows, key=str) if name == "keys" else sorted(
            rows, key=lambda row: str(row[0])
        ) if name == "items" else len(rows)

    return act


def update(k: Any, spec: Any, given: dict[str, Any]) -> Any:
    spec.update({name: build(k, recipe) for name, recipe in given.items()})
    return spec


def set_bound(k: Any, spec: Any, low: float) -> Any:
    spec.space.low = torch.full(draw.solid(list(spec.shape)), low, dtype=spec.dtype)
    return spec


def is_bounded(spec: Any) -> bool:
    return isinstance(spec, ours.Bounded)


def is_discrete(spec: Any) -> bool:
    return isinstance(spec, Discrete)


def is_categorical(spec: Any) -> bool:
    return isinstance(spec, (ours.Categorical, ours.OneHot))


def a_mask(r: Random, spec: Any) -> tuple[Any, ...]:
    if isinstance(spec, ours.Binary) or r.random() < 0.2:
        return (None,)
    want = [max(n, 1) for n in spec._mask_shape]
    shape = want if r.random() < 0.5 else want[-1:] if r.random() < 0.7 else [want[-1] + 1]
    return (torch.tensor(draw.flags(r, shape), dtype=torch.bool),)


def memoized(k: Any, spec: Any, given: Any) -> Any:
    spec.memoize_encode()
    first, second = spec.encode(given), spec.encode(given)
    spec.erase_memoize_cache()
    third = spec.encode(given)
    spec.memoize_encode(False)
    return first, second, third, spec.encode(given)


def locked_write(k: Any, spec: Any, name: Any, recipe: Any) -> Any:
    spec.lock_()
    spec.set(name, build(k, recipe) if isinstance(recipe, tuple) else recipe)
    return spec


def make(*rows: tuple[Any, ...]) -> dict[str, Call]:
    return {
        name: Call(takes, arguments, act, tuple((names[0] if names else name).split()))
        for name, takes, arguments, act, *names in rows
    }


def stacked(k: Any, spec: Any, other: Any, at: int) -> Any:
    return torch.stack([spec, build(k, other) if isinstance(other, tuple) else spec.clone()], at)


def another(r: Random, spec: Any) -> tuple[Any, ...]:
    other = None if r.random() < 0.5 else (draw.composite if is_composite(spec) else draw.leaf)(r, list(spec.shape))
    return other, r.randint(-spec.ndim - 2, spec.ndim + 1)


def selection(r: Random, spec: Any) -> tuple[Any, ...]:
    at = r.randint(-spec.ndim - 1, spec.ndim)
    n = spec.shape[at] if -spec.ndim <= at < spec.ndim else 2
    return at, torch.tensor(
        [
            r.randint(-1 if r.random() < 0.05 else 0, max(0, abs(n) - (r.random() < 0.9)))
            for _ in range(r.randint(0, 3))
        ],
        dtype=torch.int64,
    )


def table_of(r: Random, spec: Any) -> tuple[Any, ...]:
    good = spec.rand()
    width = (
        (spec.shape[-1] if isinstance(spec, ours.Binary) else sum(spec.space_sizes))
        if isinstance(spec, Discrete)
        else 3
    )
    return good, torch.arange(width)


SHAPES = make(
    ("expand", anything, lambda r, s: (shape_like(r, list(s.shape)),),
     lambda k, s, shape: s.expand(*shape) if shape else s.expand(shape)),
    ("reshape", anything, lambda r, s: (shape_like(r, list(s.shape)),),
     lambda k, s, shape: s.reshape(*shape) if shape else s.reshape(shape)),
    ("view", anything, lambda r, s: ([1, *s.shape],), lambda k, s, shape: s.view(shape)),
    ("unsqueeze", anything, dim, method("unsqueeze")),
    ("squeeze", anything, lambda r, s: dim(r, s) if r.random() < 0.6 else (), method("squeeze")),
    ("unsqueeze then squeeze", anything, dim, lambda k, s, at: s.unsqueeze(at).squeeze(at), "unsqueeze squeeze"),
    ("flatten", anything, lambda r, s: (r.randint(-2, 1), r.randint(-2, 2)), method("flatten")),
    ("unflatten", anything, lambda r, s: (*dim(r, s), r.choice(((1, -1), (2, 1), (1, 1, 1), (3, 1)))),
     method("unflatten")),
    ("unbind", anything, dim, lambda k, s, at: tuple(s.unbind(at))),
    ("[]", anything, lambda r, s: (index(r, list(s.shape)),), lambda k, s, i: s[i], ""),
    ("make_neg_dim", anything, dim, and_spec("make_neg_dim")),
    ("clone", anything, nothing, method("clone")),
    ("to", anything, lambda r, s: (r.choice(("cpu", None, torch.float64, torch.int32, torch.device("cpu"))),),
     method("to")),
    ("cpu", anything, nothing, method("cpu")),
    ("clear_device_", anything, nothing, and_spec("clear_device_")),
    ("pickle", anything, nothing, lambda k, s: pickle.loads(pickle.dumps(s)), ""),
    ("torch.stack", anything, another, stacked, ""),
    ("torch.squeeze", anything, dim, lambda k, s, at: torch.squeeze(s, at), ""),
    ("torch.unsqueeze", anything, dim, lambda k, s, at: torch.unsqueeze(s, at), ""),
    ("torch.index_select", anything, selection, lambda k, s, at, i: torch.index_select(s, at, i), ""),
    ("==", anything, another,
     lambda k, s, other, at: (bool(s == s.clone()), bool(s == build(k, other)) if isinstance(other, tuple) else None),
     ""),
    ("shape", anything, nothing, lambda k, s: (tuple(s.shape), s.ndim, s.ndimension(), s.dtype, str(s.device)),
     "shape ndim ndimension dtype device batch_size"),
    ("shape =", is_composite, lambda r, s: (shape_like(r, list(s.shape)),),
     lambda k, s, shape: (setattr(s, "shape", torch.Size(shape)), s), "shape"),
)  # fmt: skip
VALUES = make(
    ("rand", anything, a_lead, method("rand")),
    ("sample", anything, a_lead, method("sample")),
    ("zero", anything, a_lead, method("zero")),
    ("zeros", anything, a_lead, method("zeros")),
    ("one", anything, a_lead, method("one")),
    ("ones", anything, a_lead, method("ones")),
    ("is_in", anything, a_value, lambda k, s, v: bool(s.is_in(v))),
    ("contains", anything, a_value, lambda k, s, v: bool(s.contains(v))),
    ("assert_is_in", anything, a_value, method("assert_is_in")),
    ("type_check", anything, a_value, method("type_check")),
    ("project", anything, a_value, method("project")),
    ("to_numpy", anything, a_value, method("to_numpy")),
    ("to_numpy safe", anything, a_value, lambda k, s, v: s.to_numpy(v, safe=True), "to_numpy"),
    ("encode", anything, lambda r, s: (unencoded(r, s),), method("encode")),
    ("encode ignore_device", anything, lambda r, s: (unencoded(r, s),), lambda k, s, v: s.encode(v, ignore_device=True),
     "encode"),
    ("memoize_encode", anything, lambda r, s: (unencoded(r, s),), memoized,
     "memoize_encode erase_memoize_cache encode"),
    ("cardinality", anything, nothing, lambda k, s: float(s.cardinality())),
    ("enumerate", anything, lambda r, s: (r.random() < 0.3,), method("enumerate")),
    ("index", is_leaf, table_of, method("index")),
    ("domain", is_leaf, nothing, attribute("domain")),
    ("rand_update", is_composite, a_value, method("rand_update")),
    ("zeros_update", is_composite, a_value, method("zeros_update")),
    ("ones_update", is_composite, a_value, method("ones_update")),
)  # fmt: skip
LEAVES = make(
    ("low", is_bounded, nothing, lambda k, s: (s.low, s.high), "low high"),
    ("space.low =", is_bounded, lambda r, s: (r.randint(-5, -4) if s.dtype != torch.uint8 else 0,), set_bound, "space"),
    ("space", is_bounded, nothing, lambda k, s: list(s.space)),
    ("space.n", is_categorical, nothing,
     lambda k, s: s.space.n if not hasattr(s.space, "__len__") else [getattr(b, "n", None) for b in s.space], "space"),
    ("n", lambda s: type(s) in (ours.Categorical, ours.OneHot), nothing, attribute("n"), "n"),
    ("nvec", lambda s: isinstance(s, ours.MultiCategorical), nothing, attribute("nvec")),
    ("remove_singleton", lambda s: isinstance(s, ours.MultiCategorical), nothing, attribute("remove_singleton")),
    ("mask", is_categorical, nothing, attribute("mask")),
    ("use_register", lambda s: isinstance(s, ours.OneHot), nothing, attribute("use_register")),
    ("update_mask", is_discrete, a_mask, and_spec("update_mask")),
    ("set_provisional_n", lambda s: isinstance(s, ours.Categorical), lambda r, s: (r.randint(1, 3),),
     lambda k, s, n: (s.set_provisional_n(n), s.rand())[-1]),
    ("to_one_hot", is_discrete, a_value, method("to_one_hot")),
    ("to_categorical", is_discrete, a_value, method("to_categorical")),
    ("to_one_hot_spec", is_discrete, nothing, method("to_one_hot_spec")),
    ("to_categorical_spec", is_discrete, nothing, method("to_categorical_spec")),
    ("example_data", lambda s: isinstance(s, ours.NonTensor), nothing,
     lambda k, s: (s.example_data, s.batched, s.feature_dims), "example_data batched feature_dims"),
    ("num_choices", lambda s: isinstance(s, ours.Choice), nothing, attribute("num_choices")),
    ("stack_dim", lambda s: isinstance(s, (ours.Stacked, ours.StackedComposite)), nothing,
     lambda k, s: (s.dim, s.stack_dim), "dim stack_dim"),
)  # fmt: skip
COMPOSITES = make(
    ("keys", is_composite, lambda r, s: (r.random() < 0.6, r.random() < 0.5), listed("keys")),
    ("items", is_composite, lambda r, s: (r.random() < 0.6, r.random() < 0.5), listed("items")),
    ("values", is_composite, lambda r, s: (r.random() < 0.6, r.random() < 0.5), listed("values")),
    ("len", lambda s: isinstance(s, (ours.Composite, ours.Stacked)), nothing, lambda k, s: len(s), ""),
    ("[key]", is_composite, a_key, lambda k, s, key: s[key], ""),
    ("get", is_composite, a_key, lambda k, s, key: s.get(key, None)),
    ("set", is_composite, an_entry, lambda k, s, *entry: and_spec("set", 1)(k, s, *entry)[1], "set"),
    ("[key] =", is_composite, an_entry, lambda k, s, *entry: and_spec("__setitem__", 1)(k, s, *entry)[1], ""),
    ("del", is_composite, a_key, lambda k, s, key: (s.__delitem__(key), s)[1], ""),
    ("pop", is_composite, a_key, and_spec("pop")),
    ("pop default", is_composite, a_key, lambda k, s, key: (s.pop(key, None), s), "pop"),
    ("update", is_composite, a_mapping, update),
    ("separates", is_composite, lambda r, s: (*a_key(r, s), *a_key(r, s)), and_spec("separates")),
    ("is_empty", is_composite, nothing, method("is_empty")),
    ("empty", is_composite, nothing, method("empty")),
    ("names", is_composite, nothing, attribute("names")),
    ("names =", is_composite, lambda r, s: ([r.choice("xyz") for _ in range(s.ndim + (r.random() < 0.1))],),
     lambda k, s, names: (setattr(s, "names", names), s.names), "names"),
    ("refine_names", is_composite, lambda r, s: tuple(r.choice(("x", None, "d0")) for _ in s.shape),
     lambda k, s, *names: s.refine_names(*names).names),
    ("lock_", is_composite, nothing, lambda k, s: (s.lock_(), s.is_locked, s.locked, s.unlock_().is_locked)[1:],
     "lock_ unlock_ is_locked locked"),
    ("lock_ then set", is_composite, an_entry, locked_write, "lock_ set"),
    ("step_mdp_static", is_composite, nothing, lambda k, s: (s.step_mdp_static, s.data_cls),
     "step_mdp_static data_cls"),
    ("repr_exclusive_keys", lambda s: isinstance(s, ours.StackedComposite), nothing,
     lambda k, s: isinstance(s.repr_exclusive_keys(), str)),
    ("is_in {}", is_composite, nothing, lambda k, s: bool(s.is_in(TensorDict({}, []))), "is_in"),
)  # fmt: skip
CALLS = {**SHAPES, **VALUES, **LEAVES, **COMPOSITES}
