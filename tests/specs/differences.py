"""What TorchRL 0.14.1 and marlenv do differently on purpose: the rows of docs/specs-differences.md, each with what recognises it.

A row is tried in order; it explains a case when its calls and kinds fit and ``when`` agrees. ``when`` looks at as much
as it can: shapes are compared with what torch does to a tensor, specs with everything equal but the attribute that the
row is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from random_calls import CALLS, COMPOSITES, SHAPES
from tensordict import LazyStackedTensorDict, TensorDictBase
from torch import Tensor

import marlenv as ours
from marlenv.errors import (
    BadIndex,
    KeyMissing,
    MarlenvError,
    NotInSpec,
    ReservedKey,
    ShapeError,
    SpecError,
    Unsupported,
)
from marlenv.specs.shapes import stand_in

WE, THEY, BOTH, ANSWERS = "we refuse", "they refuse", "errors", "answers"
DRAWS = {"rand", "sample", "zero", "zeros", "one", "ones"}
UPDATES = {"rand_update", "zeros_update", "ones_update"}
CHECKS = {"is_in", "contains", "assert_is_in", "type_check", "project", "to_numpy safe", "is_in {}"}
ENCODES = {"encode", "encode ignore_device", "memoize_encode"}
RESHAPES = {"expand", "reshape", "view", "unsqueeze", "squeeze", "unsqueeze then squeeze", "flatten", "unflatten", "unbind", "[]",
            "torch.squeeze", "torch.unsqueeze", "torch.index_select"}  # fmt: skip
SPECS = {*SHAPES, "make", "update_mask", "separates", "pop", "pop default", "get", "[key]", "items", "empty"}


class Row(NamedTuple):
    """A row of the table."""

    name: str
    calls: Iterable[str]
    kinds: Iterable[str]
    when: Callable[[Any], bool] = lambda case: True


def says(case: Any, *texts: str) -> bool:
    return any(text in str(case.other) for text in texts)


def internal(case: Any) -> bool:
    """Whether their error is one that nobody wrote: an operation on the wrong thing inside."""
    return isinstance(case.other, (AttributeError, TypeError, UnboundLocalError, AssertionError, NotImplementedError))


def first(case: Any) -> Any:
    return case.args[0] if case.args else None


def shape_of(result: Any) -> Any:
    """The shapes of what a shape operation gives."""
    return [shape_of(one) for one in result] if isinstance(result, (tuple, list)) else tuple(result.shape)


def torch_does(case: Any) -> Any:
    """The shapes that the operation gives for a tensor of the spec's shape; an error as the word."""
    name = case.call.removeprefix("torch.")
    unknown = stand_in(case.spec.shape)
    solid = [unknown if n < 0 else n for n in case.spec.shape]
    tensor = (
        torch.zeros(solid)
        if "dynamic" not in case.has and np.prod(solid) < 1000
        else torch.empty(solid, device="meta", dtype=torch.uint8)
    )
    index = lambda i: np.arange(n)[i] if isinstance(i, slice) else i  # noqa: E731
    n = solid[0] if solid else 0
    try:
        if name == "[]" and isinstance(first(case), slice):
            return tuple(tensor[torch.as_tensor(index(first(case)).copy())].shape)
        if name == "index_select":
            return tuple(torch.index_select(tensor, *case.args).shape)
        got = (
            CALLS[case.call].act(torch, tensor, *case.args)
            if name not in ("squeeze", "unsqueeze")
            else getattr(tensor, name)(*case.args)
        )
    except Exception:
        return "refused"
    return (
        [tuple(-1 if m == unknown else m for m in t.shape) for t in got]
        if isinstance(got, tuple)
        else tuple(-1 if m == unknown else m for m in got.shape)
    )


def as_torch(case: Any) -> bool:
    """Whether our shapes, or our refusal, are torch's."""
    mine = "refused" if isinstance(case.mine, Exception) else shape_of(case.mine)
    return mine == torch_does(case)


def has_events(case: Any) -> bool:
    """Whether the spec has dimensions that belong to one value."""
    return bool(case.has & {"OneHot", "MultiOneHot", "MultiCategorical", "Choice"})


def tensors_of(x: Any) -> list[Tensor]:
    """Every tensor in a value; those of a lazy stack may have different shapes."""
    if isinstance(x, Tensor):
        return list(x.unbind()) if x.is_nested else [x]
    if isinstance(x, LazyStackedTensorDict):
        return [tensor for part in x.unbind(x.stack_dim) for tensor in tensors_of(part)]
    return [tensor for one in x.values() for tensor in tensors_of(one)] if isinstance(x, TensorDictBase) else []


def all_ones(case: Any) -> bool:
    """Whether what we give is ones of the spec's dtypes."""
    case.spec.type_check(case.mine)
    return case.call == "ones_update" or all(bool((one == 1).all()) for one in tensors_of(case.mine))


def numel(x: Any) -> int:
    return x.numel() if isinstance(x, Tensor) else -1


def trails(shape: Any, spec: Any) -> bool:
    """Whether a shape ends in the spec's."""
    return len(shape) >= len(spec) and all(
        m in (-1, n) for n, m in zip(shape[len(shape) - len(spec) :], spec, strict=True)
    )


def misses(case: Any) -> bool:
    """Whether the value has another shape or dtype than the spec, or is masked, or is no value of one."""
    value = first(case)
    if isinstance(case.spec, ours.Composite) or not isinstance(value, Tensor):
        return True
    return (
        not trails(value.shape, case.spec.shape)
        or value.dtype != case.spec.dtype
        or bool(case.has & {"masked", "OneHot", "MultiOneHot", "float discrete"})
    )


def counts(spec: Any) -> bool:
    """Whether the cardinality of our spec is the number of the values that it lists, where it lists any."""
    if isinstance(spec, ours.Composite):
        parts = getattr(spec, "parts", None) or [one for one in spec.values() if one is not None]
        return all(counts(one) for one in parts) and spec.cardinality() == np.prod(
            [1.0, *[one.cardinality() for one in parts]]
        )
    try:
        return len(spec.enumerate()) == spec.cardinality()
    except (MarlenvError, RuntimeError):
        return True


def lists(case: Any) -> bool:
    """Whether all values of our list are in the spec, and none twice."""
    if isinstance(case.mine, Exception):
        return isinstance(case.mine, (Unsupported, SpecError))
    rows = case.mine if isinstance(case.mine, list) else list(case.mine.unbind(0))
    masked = "masked" in case.has and not first(case)
    texts = (
        {str(row.to_dict() if hasattr(row, "to_dict") else row.tolist()) for row in rows} if len(rows) < 50 else set()
    )
    distinct = len(rows) >= 50 or len(texts) == len(rows) or bool(case.has & {"Choice", "empty"})
    return distinct and (masked or all(case.spec.is_in(row) for row in rows))


def points(case: Any) -> bool:
    """Whether our entries of a table of numbers are the numbers themselves."""
    spec, value, result = case.spec, first(case), case.mine
    if isinstance(result, Exception):
        return isinstance(result, MarlenvError)
    if isinstance(spec, ours.Binary):
        return torch.equal(result, value.long() * case.args[1])
    if isinstance(spec, (ours.MultiCategorical, ours.MultiOneHot)):
        starts = torch.tensor([0, *spec.space_sizes[:-1]]).cumsum(0)
        return torch.equal(result, spec.to_categorical(value) + starts)
    return torch.equal(result, spec.to_categorical(value).long())


def encodes(case: Any) -> bool:
    """Whether what we encode has the dtype, and ends in the shape, of the spec."""
    results = case.mine if isinstance(case.mine, tuple) else (case.mine,)
    tensors = [one for one in results if isinstance(one, Tensor)]
    return all(
        one.dtype == case.spec.dtype
        and (one.is_nested or trails(one.shape, [abs(n) if n == 0 else n for n in case.spec.shape]))
        for one in tensors
    )


def pops(case: Any) -> bool:
    """Whether what is taken out was there, and is gone."""
    found, left = case.mine
    return (
        found is None
        or isinstance(found, ours.Composite)
        or (case.spec.get(first(case), None) == found and first(case) not in left)
    )


def holds_none(x: Any) -> bool:
    return (
        x is None
        or (isinstance(x, dict) and any(holds_none(v) for v in x.values()))
        or (isinstance(x, list) and any(holds_none(v) for v in x))
    )


ROWS: list[Row] = [
    Row("reserved-names", {"set", "[key] =", "lock_ then set", "update"}, {WE, BOTH}, lambda c: isinstance(c.mine, ReservedKey)),
    Row("error-class", {*CALLS, "make"}, {BOTH}, lambda c: isinstance(c.mine, MarlenvError) and (internal(c) or c.call == "make")),
    Row("one-error", {*CHECKS, *ENCODES, "to_numpy"}, {BOTH}, lambda c: isinstance(c.mine, (NotInSpec, SpecError, KeyMissing))),
    Row("not-implemented", {*CALLS, "make"}, {THEY}, lambda c: isinstance(c.other, NotImplementedError)),
    Row("as-torch", RESHAPES, {WE, THEY}, as_torch),
    Row("as-torch", {"torch.stack"}, {WE}, lambda c: isinstance(c.mine, BadIndex) and not -c.spec.ndim - 1 <= c.args[1] <= c.spec.ndim),
    Row("as-torch", RESHAPES, {ANSWERS}, lambda c: as_torch(c) and shape_of(c.mine) != shape_of(c.other)),
    Row("event-dimensions", {*RESHAPES, "make_neg_dim", "make", "torch.stack"}, {WE}, lambda c: has_events(c) and isinstance(c.mine, (BadIndex, ShapeError))),
    Row("choice-events", {*SPECS}, {ANSWERS}, lambda c: "Choice" in c.has and "Stacked" in f"{c.mine!r}{c.spec!r}"),
    Row("dynamic-sizes", {*RESHAPES, "make_neg_dim", "make", "torch.stack"}, {WE}, lambda c: "dynamic" in c.has),
    Row("dynamic-sizes", RESHAPES, {ANSWERS}, lambda c: "dynamic" in c.has and as_torch(c)),
    Row("dynamic-parameters", {"make_neg_dim"}, {ANSWERS}, lambda c: True),
    Row("composite-make-neg-dim", {"make_neg_dim"}, {THEY}, lambda c: isinstance(c.spec, ours.Composite)),
    Row("masks-kept", {*SPECS, "to_one_hot_spec"}, {ANSWERS}, lambda c: "masked" in c.has and alike(c, "mask")),
    Row("masks-kept", {*SPECS}, {THEY}, lambda c: ( "masked" in f"{c.recipe}".replace("mask", "masked") and says(c, "Cannot expand mask", "Only boolean masks") )),
    Row("names-kept", SPECS, {ANSWERS}, lambda c: alike(c, "names")),
    Row("domain-kept", SPECS, {ANSWERS}, lambda c: alike(c, "domain")),
    Row("non-tensor-fields", SPECS, {ANSWERS}, lambda c: "NonTensor" in c.has and alike(c, "batched", "feature_dims")),
    Row("several-lost", SPECS, {ANSWERS}, lambda c: alike(c, "mask", "names", "domain", "batched", "feature_dims")),
    Row("stack-attributes", {"shape", "domain", "to", "clear_device_"}, {ANSWERS}, lambda c: "lazy" in c.has or isinstance(c.spec, ours.Composite)),
    Row("stack-methods", CALLS, {THEY}, lambda c: "lazy" in c.has and (internal(c) or says(c, "nested tensor", "stack")) ),
    Row("stack-methods", {*CALLS, "make"}, {THEY}, lambda c: internal(c) and says(c, "Stacked", "'list' object", "element 0 in argument")),
    Row("merged-stacks", {"len", "is_empty", "clone", "cpu", "expand", "to", "items", "values", "keys", "encode", "pickle"}, {ANSWERS}, lambda c: "lazy" in c.has),
    Row("empty-sizes", {*CALLS, "make"}, {THEY}, lambda c: ( "0" in f"{c.recipe}" and says(c, "size 0", "non-empty", "multiplication overflow", "tensor of 0", "zero dims", "zero-size") )),
    Row("dynamic-sizes", {*CALLS, "make"}, {THEY}, lambda c: "-1" in f"{c.recipe}" and says(c, "negative dimension", "mismatch", "-1", "Size([1")),
    Row("masks-kept", {*CALLS, "make"}, {THEY}, lambda c: "mask" in f"{c.recipe}" and says(c, "expanded size of the tensor")),
    Row("stack-methods", {*CALLS, "make"}, {THEY}, lambda c: says(c, "shapes of the spec Stacked", "with a stack")),
    Row("multi-reshapes", {*RESHAPES, "make"}, {THEY}, lambda c: ( "MultiCategorical" in f"{c.recipe}{c.has}" and says(c, "expand(torch.LongTensor", "only one dimension", "Final dimension", "shape '", "must match") )),
    Row("event-dimensions", RESHAPES, {THEY}, lambda c: has_events(c) and says(c, "must match", "Final dimension")),
    Row("event-dimensions", {"flatten"}, {ANSWERS}, lambda c: has_events(c) and -1 in c.args),
    Row("none-entries", {*CALLS}, {THEY, ANSWERS}, lambda c: "None" in c.has and (c.kind == ANSWERS or says(c, "'NoneType' object", "after * must be"))),
    Row("choice-indexed", RESHAPES, {THEY}, lambda c: "Choice" in c.has and internal(c)),
    Row("keys-below-leaves", {*COMPOSITES, "[key]", "get"}, {BOTH, THEY}, lambda c: isinstance(c.other, IndexError) and says(c, "tuple indexing only")),
    Row("is-in-answers", {"is_in", "contains", "is_in {}"}, {THEY}, lambda c: c.mine is False or internal(c)),
    Row("size-as-int", DRAWS, {THEY}, lambda c: first(c) == 2 and (not hasattr(c.mine, "shape") or c.mine.is_nested or c.mine.shape[0] == 2 if isinstance(c.mine, Tensor) else c.mine.batch_size[0] == 2)),
    Row("choice-draws", {"one", "ones", "ones_update"}, {THEY}, lambda c: "Choice" in c.has and says(c, "'Choice' and 'int'")),
    Row("names-in-draws", DRAWS, {THEY}, lambda c: "names" in c.has and says(c, "dimension names")),
    Row("ones-of-flags", {"one", "ones", "ones_update"}, {ANSWERS}, lambda c: bool(c.has & {"bool", "OneHot", "MultiOneHot"}) and all_ones(c)),
    Row("update-leads", UPDATES, {THEY, ANSWERS}, lambda c: (first(c).batch_size != c.spec.shape or says(c, "update_batch_size", "stacked tensordicts")) and (c.call != "rand_update" or c.spec.is_in(c.mine))),
    Row("cardinality", {"cardinality"}, {THEY, ANSWERS, BOTH}, lambda c: counts(c.spec)),
    Row("enumerate", {"enumerate"}, {WE, THEY, ANSWERS, BOTH}, lists),
    Row("index", {"index"}, {THEY, ANSWERS, BOTH}, points),
    Row("empty-composites", {*CHECKS, *DRAWS, *UPDATES}, {THEY, ANSWERS}, lambda c: ( "Composite" in c.has and isinstance(c.mine, (bool, TensorDictBase)) and (isinstance(c.other, KeyError) or "no entries" in c.has) )),
    Row("non-tensor-stacks", {*CALLS}, {THEY, ANSWERS}, lambda c: "NonTensor" in c.has and "lazy" in c.has),
    Row("non-tensor-stacks", {*DRAWS, *UPDATES}, {THEY, ANSWERS}, lambda c: "NonTensor" in c.has),
    Row("non-tensor-checks", CHECKS, {THEY}, lambda c: "NonTensor" in c.has and internal(c)),
    Row("plain-multi", {*DRAWS, "set_provisional_n"}, {ANSWERS}, lambda c: "MultiCategorical" in c.has and numel(c.mine) == numel(c.other)),
    Row("mixed-stacks", {"torch.stack", "make"}, {THEY}, lambda c: says(c, "more than one type", "Final dimension", "Dtypes differ", "Ndims differ")),
    Row("mixed-stacks", {"torch.stack"}, {ANSWERS}, lambda c: isinstance(c.mine, ours.StackedComposite) and c.mine.parts[0] == c.spec),
    Row("stack-of-parts", {"make_neg_dim", "enumerate"}, {BOTH, WE}, lambda c: isinstance(c.mine, Unsupported)),
    Row("merged-stacks", {"make_neg_dim", "make", "stack_dim"}, {THEY}, lambda c: says(c, "self.dim", "'dim'")),
    Row("dense-stacks", DRAWS, {ANSWERS}, lambda c: "lazy" in c.has and (c.call not in ("rand", "sample") or c.spec.is_in(c.mine))),
    Row("names-in-draws", DRAWS, {THEY}, lambda c: "names" in str(c.recipe) and says(c, "dimension names")),
    Row("slices-backwards", {"[]"}, {THEY}, lambda c: says(c, "step must be greater")),
    Row("space-of-multi", {"space.n"}, {ANSWERS}, lambda c: "MultiCategorical" in c.has),
    Row("multi-to-dtype", {"to"}, {ANSWERS}, lambda c: c.has & {"MultiCategorical"}),
    Row("project-nearest", {"project"}, {ANSWERS}, lambda c: "nan" in str(c.args) and c.spec.is_in(c.mine)),
    Row("multi-reshapes", CALLS, {ANSWERS, THEY}, lambda c: "dynamic" in c.has and "MultiCategorical" in c.has),
    Row("masks-kept", {"mask", "del", "update", "set", "[key] =", "get", "shape ="}, {ANSWERS}, lambda c: "masked" in c.has and (c.call == "mask" or alike(c, "mask"))),
    Row("several-lost", CALLS, {ANSWERS}, lambda c: alike(c, "mask", "names", "domain", "batched", "feature_dims")),
    Row("error-class", CALLS, {BOTH}, lambda c: isinstance(c.mine, MarlenvError) and isinstance(c.other, ZeroDivisionError)),
    Row("error-class", {"to_one_hot", "to_categorical", "to_one_hot_spec"}, {BOTH}, lambda c: isinstance(c.mine, MarlenvError)),
    Row("choice-draws", DRAWS, {ANSWERS}, lambda c: "Choice" in c.has),
    Row("keys-below-leaves", {"get"}, {THEY}, lambda c: isinstance(first(c), tuple) and internal(c)),
    Row("choice-events", {"make"}, {WE}, lambda c: isinstance(c.mine, BadIndex) and "Choice" in str(c.mine)),
    Row("dynamic-sizes", CALLS, {THEY, ANSWERS}, lambda c: "-1" in f"{c.recipe}{c.args}" and says(c, "shapes of the spec", "negative dimension")),
    Row("enumerate", {"enumerate"}, {WE}, lambda c: "dynamic" in c.has),
    Row("as-torch", {"flatten"}, {THEY}, as_torch),
    Row("equality", {"=="}, {THEY, ANSWERS}, lambda c: c.mine in ((True, None), (True, False))),
    Row("slices-backwards", {"[]"}, {THEY}, lambda c: as_torch(c) or "slice" in str(c.args)),
    Row("is-in-answers", {"is_in", "contains", "assert_is_in", "type_check"}, {THEY, ANSWERS}, lambda c: c.has & {"lazy", "Choice"}),
    Row("stack-methods", {"torch.index_select"}, {ANSWERS}, lambda c: "lazy" in c.has and as_torch(c)),
    Row("numbers-as-indices", {"[]"}, {WE}, lambda c: isinstance(c.mine, BadIndex) and "1.5" in str(c.args)),
    Row("dynamic-sizes", {"make"}, {THEY}, lambda c: "-1" in str(c.recipe) and says(c, "can be inferred")),
    Row("stack-entries", {"[key] =", "set", "update"}, {WE}, lambda c: isinstance(c.spec, ours.StackedComposite) and isinstance(c.mine, ShapeError)),
    Row("choice-events", COMPOSITES, {ANSWERS}, lambda c: "Choice" in c.has and "Stacked" in repr(c.spec)),
    Row("choice-events", {"len"}, {THEY}, lambda c: "Choice" in c.has),
    Row("dense-stacks", UPDATES, {ANSWERS}, lambda c: "lazy" in c.has and (c.call != "rand_update" or c.spec.is_in(c.mine))),
    Row("stack-entries", UPDATES, {WE}, lambda c: isinstance(c.spec, ours.StackedComposite) and isinstance(c.mine, ShapeError)),
    Row("mask-sizes", {"update_mask"}, {WE}, lambda c: isinstance(c.mine, SpecError) and first(c).shape[-1] != c.spec._mask_shape[-1]),
    Row("non-tensor-fields", {"example_data"}, {ANSWERS}, lambda c: c.mine[0] == c.other[0]),
    Row("empty-composites", {"type_check"}, {THEY}, lambda c: "no entries" in c.has and isinstance(c.other, KeyError)),
    Row("dynamic-sizes", {"[]"}, {ANSWERS}, lambda c: "dynamic" in c.has and isinstance(first(c), list)),
    Row("slices-backwards", {"[]"}, {ANSWERS}, lambda c: ", -1)" in str(c.args)),
    Row("event-dimensions", {"reshape"}, {THEY}, lambda c: has_events(c) and says(c, "can be inferred")),
    Row("stack-methods", {"torch.index_select", "[]"}, {WE}, lambda c: "lazy" in c.has and "at least one spec" in str(c.mine)),
    Row("one-shape", {"to_one_hot"}, {WE}, lambda c: isinstance(c.mine, ShapeError) and not trails(first(c).shape, c.spec.shape)),
    Row("plain-multi", {"rand_update"}, {ANSWERS}, lambda c: "MultiCategorical" in c.has and c.spec.is_in(c.mine)),
    Row("choice-events", {"flatten"}, {ANSWERS}, lambda c: "Choice" in c.has),
    Row("encode-shapes", ENCODES, {THEY}, lambda c: says(c, "no dimensions", "unsized", "batch_dims", "not iterable") and encodes(c)),
    Row("memoize-exact", {"memoize_encode"}, {BOTH, THEY}, lambda c: "lazy" in c.has),
    Row("error-class", RESHAPES, {BOTH}, lambda c: isinstance(c.mine, MarlenvError)),
    Row("project-nearest", {"project"}, {ANSWERS}, lambda c: isinstance(first(c), Tensor) and first(c).dtype != c.spec.dtype and c.spec.is_in(c.mine)),
    Row("project-nearest", {"project"}, {THEY}, lambda c: bool(c.spec.is_in(c.mine))),
    Row("unequal-nvec", {"to_one_hot_spec", "to_one_hot"}, {WE}, lambda c: "unequal nvec" in c.has),
    Row("update-replaces", {"update"}, {THEY}, internal),
    Row("masks-kept", CALLS, {THEY}, lambda c: "masked" in c.has and says(c, "Cannot expand mask")),
    Row("domain-kept", {"domain"}, {ANSWERS}, lambda c: "'domain'" in str(c.recipe) or "lazy" in c.has),
    Row("choice-events", {"squeeze"}, {ANSWERS}, lambda c: "Choice" in c.has and c.mine.shape == c.spec.shape),
    Row("choice-events", RESHAPES, {WE}, lambda c: "Choice" in c.has and isinstance(c.mine, Unsupported)),
    Row("dynamic-sizes", {"shape ="}, {THEY, ANSWERS}, lambda c: -1 in first(c) or "dynamic" in c.has),
    Row("infinite-integers", {"to"}, {ANSWERS}, lambda c: "infinite" in c.has and not first(c).is_floating_point),
    Row("encode-shapes", ENCODES, {BOTH, THEY}, lambda c: holds_none(first(c))),
    Row("memoize-exact", {"memoize_encode"}, {THEY, ANSWERS}, lambda c: c.has & {"NonTensor", "Choice", "MultiOneHot"} ),
    Row("encode-shapes", ENCODES, {THEY}, lambda c: says( c, "Shape mismatch", "Encoding key", "is invalid for input", "sequence", "Value must be less", "greater than", "invalid data type"), ),
    Row("encode-shapes", ENCODES, {WE}, lambda c: isinstance(c.mine, (ShapeError, SpecError, NotInSpec))),
    Row("masked-checks", CHECKS, {WE, ANSWERS}, lambda c: "masked" in c.has and (c.mine is False or isinstance(c.mine, NotInSpec) or (c.call == "project" and c.spec.is_in(c.mine)))),
    Row("one-shape", CHECKS, {WE, ANSWERS}, lambda c: misses(c) and (c.mine is False or isinstance(c.mine, (NotInSpec, ShapeError)))),
    Row("project-nearest", {"project"}, {ANSWERS}, lambda c: bool(c.has & {"float discrete", "OneHot", "MultiOneHot", "Choice", "Categorical"}) and c.spec.is_in(c.mine)),
    Row("to-numpy-stacks", {"to_numpy", "to_numpy safe"}, {ANSWERS, WE, THEY}, lambda c: c.has & {"Stacked", "StackedComposite"} or says(c, "more")),
    Row("one-hot-of-flags", {"to_one_hot"}, {THEY}, lambda c: "bool" in c.has or says(c, "non-negative", "class values") ),
    Row("encode-tensors", ENCODES, {ANSWERS}, encodes),
    Row("to-numpy-objects", {"to_numpy", "to_numpy safe"}, {ANSWERS, THEY}, lambda c: c.has & {"NonTensor"}),
    Row("binary-as-categorical", {"to_categorical_spec"}, {ANSWERS}, lambda c: isinstance(c.spec, ours.Binary)),
    Row("pop-composites", {"pop", "pop default", "separates"}, {THEY, ANSWERS}, pops),
    Row("unknown-n", {"to_one_hot_spec", "to_one_hot"}, {WE}, lambda c: "n=-1" in c.has),
    Row("one-hot-of-any-integer", {"to_one_hot"}, {THEY}, lambda c: says(c, "LongTensor")),
]  # fmt: skip


def alike(case: Any, *ignored: str) -> bool:
    from differential import alike as compare

    return compare(case, *ignored)


def holds(row: Row, case: Any) -> bool:
    """Whether a row explains a case; what it cannot even look at, it does not."""
    try:
        return bool(row.when(case))
    except (MarlenvError, RuntimeError, AttributeError, TypeError, ValueError, KeyError, IndexError):
        return False


def explained(case: Any) -> str | None:
    """The first row that explains a case; an error of ours that nobody wrote is never explained."""
    if isinstance(case.mine, Exception) and not isinstance(case.mine, MarlenvError):
        return None
    for row in ROWS:
        if case.call in row.calls and case.kind in row.kinds and holds(row, case):
            return row.name
    return None
