"""What TorchRL 0.14.1 and marlenv do differently on purpose.

The rows of docs/specs-differences.md, each with what recognises it.

A row is tried in order; it explains a case when its calls and kinds fit and ``when`` agrees. ``when`` looks at as much
as it can: shapes are compared with what torch does to a tensor, specs with everything equal but the attribute that the
row is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from random_calls import CALLS, COMPOSITES, SHAPES
from recognise import (
    all_ones,
    as_torch,
    counts,
    encodes,
    first,
    has_events,
    holds_none,
    internal,
    lists,
    misses,
    numel,
    points,
    pops,
    says,
    shape_of,
    trails,
)
from tensordict import TensorDictBase
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

WE, THEY, BOTH, ANSWERS = "we refuse", "they refuse", "errors", "answers"
DRAWS = {"rand", "sample", "zero", "zeros", "one", "ones"}
UPDATES = {"rand_update", "zeros_update", "ones_update"}
CHECKS = {"is_in", "contains", "assert_is_in", "type_check", "project", "to_numpy safe", "is_in {}"}
ENCODES = {"encode", "encode ignore_device", "memoize_encode"}
RESHAPES = {
    "expand",
    "reshape",
    "view",
    "unsqueeze",
    "squeeze",
    "unsqueeze then squeeze",
    "flatten",
    "unflatten",
    "unbind",
    "[]",
    "torch.squeeze",
    "torch.unsqueeze",
    "torch.index_select",
}
SPECS = {*SHAPES, "make", "update_mask", "separates", "pop", "pop default", "get", "[key]", "items", "empty"}


class Row(NamedTuple):
    """A row of the table."""

    name: str
    calls: Iterable[str]
    kinds: Iterable[str]
    when: Callable[[Any], bool] = lambda case: True


ROWS: list[Row] = [
    Row(
        "reserved-names",
        {"set", "[key] =", "lock_ then set", "update"},
        {WE, BOTH},
        lambda c: isinstance(c.mine, ReservedKey),
    ),
    Row(
        "error-class",
        {*CALLS, "make"},
        {BOTH},
        lambda c: isinstance(c.mine, MarlenvError) and (internal(c) or c.call == "make"),
    ),
    Row(
        "one-error",
        {*CHECKS, *ENCODES, "to_numpy"},
        {BOTH},
        lambda c: isinstance(c.mine, (NotInSpec, SpecError, KeyMissing)),
    ),
    Row("not-implemented", {*CALLS, "make"}, {THEY}, lambda c: isinstance(c.other, NotImplementedError)),
    Row("as-torch", RESHAPES, {WE, THEY}, as_torch),
    Row(
        "as-torch",
        {"torch.stack"},
        {WE},
        lambda c: isinstance(c.mine, BadIndex) and not -c.spec.ndim - 1 <= c.args[1] <= c.spec.ndim,
    ),
    Row("as-torch", RESHAPES, {ANSWERS}, lambda c: as_torch(c) and shape_of(c.mine) != shape_of(c.other)),
    Row(
        "event-dimensions",
        {*RESHAPES, "make_neg_dim", "make", "torch.stack"},
        {WE},
        lambda c: has_events(c) and isinstance(c.mine, (BadIndex, ShapeError)),
    ),
    Row("choice-events", {*SPECS}, {ANSWERS}, lambda c: "Choice" in c.has and "Stacked" in f"{c.mine!r}{c.spec!r}"),
    Row("dynamic-sizes", {*RESHAPES, "make_neg_dim", "make", "torch.stack"}, {WE}, lambda c: "dynamic" in c.has),
    Row("dynamic-sizes", RESHAPES, {ANSWERS}, lambda c: "dynamic" in c.has and as_torch(c)),
    Row("dynamic-parameters", {"make_neg_dim"}, {ANSWERS}, lambda c: True),
    Row("composite-make-neg-dim", {"make_neg_dim"}, {THEY}, lambda c: isinstance(c.spec, ours.Composite)),
    Row("masks-kept", {*SPECS, "to_one_hot_spec"}, {ANSWERS}, lambda c: "masked" in c.has and alike(c, "mask")),
    Row(
        "masks-kept",
        {*SPECS},
        {THEY},
        lambda c: (
            "masked" in f"{c.recipe}".replace("mask", "masked") and says(c, "Cannot expand mask", "Only boolean masks")
        ),
    ),
    Row("names-kept", SPECS, {ANSWERS}, lambda c: alike(c, "names")),
    Row("domain-kept", SPECS, {ANSWERS}, lambda c: alike(c, "domain")),
    Row("non-tensor-fields", SPECS, {ANSWERS}, lambda c: "NonTensor" in c.has and alike(c, "batched", "feature_dims")),
    Row("several-lost", SPECS, {ANSWERS}, lambda c: alike(c, "mask", "names", "domain", "batched", "feature_dims")),
    Row(
        "stack-attributes",
        {"shape", "domain", "to", "clear_device_"},
        {ANSWERS},
        lambda c: "lazy" in c.has or isinstance(c.spec, ours.Composite),
    ),
    Row(
        "stack-methods", CALLS, {THEY}, lambda c: "lazy" in c.has and (internal(c) or says(c, "nested tensor", "stack"))
    ),
    Row(
        "stack-methods",
        {*CALLS, "make"},
        {THEY},
        lambda c: internal(c) and says(c, "Stacked", "'list' object", "element 0 in argument"),
    ),
    Row(
        "merged-stacks",
        {"len", "is_empty", "clone", "cpu", "expand", "to", "items", "values", "keys", "encode", "pickle"},
        {ANSWERS},
        lambda c: "lazy" in c.has,
    ),
    Row(
        "empty-sizes",
        {*CALLS, "make"},
        {THEY},
        lambda c: (
            "0" in f"{c.recipe}"
            and says(c, "size 0", "non-empty", "multiplication overflow", "tensor of 0", "zero dims", "zero-size")
        ),
    ),
    Row(
        "dynamic-sizes",
        {*CALLS, "make"},
        {THEY},
        lambda c: "-1" in f"{c.recipe}" and says(c, "negative dimension", "mismatch", "-1", "Size([1"),
    ),
    Row(
        "masks-kept",
        {*CALLS, "make"},
        {THEY},
        lambda c: "mask" in f"{c.recipe}" and says(c, "expanded size of the tensor"),
    ),
    Row("stack-methods", {*CALLS, "make"}, {THEY}, lambda c: says(c, "shapes of the spec Stacked", "with a stack")),
    Row(
        "multi-reshapes",
        {*RESHAPES, "make"},
        {THEY},
        lambda c: (
            "MultiCategorical" in f"{c.recipe}{c.has}"
            and says(c, "expand(torch.LongTensor", "only one dimension", "Final dimension", "shape '", "must match")
        ),
    ),
    Row("event-dimensions", RESHAPES, {THEY}, lambda c: has_events(c) and says(c, "must match", "Final dimension")),
    Row("event-dimensions", {"flatten"}, {ANSWERS}, lambda c: has_events(c) and -1 in c.args),
    Row(
        "none-entries",
        {*CALLS},
        {THEY, ANSWERS},
        lambda c: "None" in c.has and (c.kind == ANSWERS or says(c, "'NoneType' object", "after * must be")),
    ),
    Row("choice-indexed", RESHAPES, {THEY}, lambda c: "Choice" in c.has and internal(c)),
    Row(
        "keys-below-leaves",
        {*COMPOSITES, "[key]", "get"},
        {BOTH, THEY},
        lambda c: isinstance(c.other, IndexError) and says(c, "tuple indexing only"),
    ),
    Row("is-in-answers", {"is_in", "contains", "is_in {}"}, {THEY}, lambda c: c.mine is False or internal(c)),
    Row(
        "size-as-int",
        DRAWS,
        {THEY},
        lambda c: (
            first(c) == 2
            and (
                not hasattr(c.mine, "shape") or c.mine.is_nested or c.mine.shape[0] == 2
                if isinstance(c.mine, Tensor)
                else c.mine.batch_size[0] == 2
            )
        ),
    ),
    Row(
        "choice-draws",
        {"one", "ones", "ones_update"},
        {THEY},
        lambda c: "Choice" in c.has and says(c, "'Choice' and 'int'"),
    ),
    Row("names-in-draws", DRAWS, {THEY}, lambda c: "names" in c.has and says(c, "dimension names")),
    Row(
        "ones-of-flags",
        {"one", "ones", "ones_update"},
        {ANSWERS},
        lambda c: bool(c.has & {"bool", "OneHot", "MultiOneHot"}) and all_ones(c),
    ),
    Row(
        "update-leads",
        UPDATES,
        {THEY, ANSWERS},
        lambda c: (
            (first(c).batch_size != c.spec.shape or says(c, "update_batch_size", "stacked tensordicts"))
            and (c.call != "rand_update" or c.spec.is_in(c.mine))
        ),
    ),
    Row("cardinality", {"cardinality"}, {THEY, ANSWERS, BOTH}, lambda c: counts(c.spec)),
    Row("enumerate", {"enumerate"}, {WE, THEY, ANSWERS, BOTH}, lists),
    Row("index", {"index"}, {THEY, ANSWERS, BOTH}, points),
    Row(
        "empty-composites",
        {*CHECKS, *DRAWS, *UPDATES},
        {THEY, ANSWERS},
        lambda c: (
            "Composite" in c.has
            and isinstance(c.mine, (bool, TensorDictBase))
            and (isinstance(c.other, KeyError) or "no entries" in c.has)
        ),
    ),
    Row("non-tensor-stacks", {*CALLS}, {THEY, ANSWERS}, lambda c: "NonTensor" in c.has and "lazy" in c.has),
    Row("non-tensor-stacks", {*DRAWS, *UPDATES}, {THEY, ANSWERS}, lambda c: "NonTensor" in c.has),
    Row("non-tensor-checks", CHECKS, {THEY}, lambda c: "NonTensor" in c.has and internal(c)),
    Row(
        "plain-multi",
        {*DRAWS, "set_provisional_n"},
        {ANSWERS},
        lambda c: "MultiCategorical" in c.has and numel(c.mine) == numel(c.other),
    ),
    Row(
        "mixed-stacks",
        {"torch.stack", "make"},
        {THEY},
        lambda c: says(c, "more than one type", "Final dimension", "Dtypes differ", "Ndims differ"),
    ),
    Row(
        "mixed-stacks",
        {"torch.stack"},
        {ANSWERS},
        lambda c: isinstance(c.mine, ours.StackedComposite) and c.mine.parts[0] == c.spec,
    ),
    Row("stack-of-parts", {"make_neg_dim", "enumerate"}, {BOTH, WE}, lambda c: isinstance(c.mine, Unsupported)),
    Row("merged-stacks", {"make_neg_dim", "make", "stack_dim"}, {THEY}, lambda c: says(c, "self.dim", "'dim'")),
    Row(
        "dense-stacks",
        DRAWS,
        {ANSWERS},
        lambda c: "lazy" in c.has and (c.call not in ("rand", "sample") or c.spec.is_in(c.mine)),
    ),
    Row("names-in-draws", DRAWS, {THEY}, lambda c: "names" in str(c.recipe) and says(c, "dimension names")),
    Row("slices-backwards", {"[]"}, {THEY}, lambda c: says(c, "step must be greater")),
    Row("space-of-multi", {"space.n"}, {ANSWERS}, lambda c: "MultiCategorical" in c.has),
    Row("multi-to-dtype", {"to"}, {ANSWERS}, lambda c: c.has & {"MultiCategorical"}),
    Row("project-nearest", {"project"}, {ANSWERS}, lambda c: "nan" in str(c.args) and c.spec.is_in(c.mine)),
    Row("multi-reshapes", CALLS, {ANSWERS, THEY}, lambda c: "dynamic" in c.has and "MultiCategorical" in c.has),
    Row(
        "masks-kept",
        {"mask", "del", "update", "set", "[key] =", "get", "shape ="},
        {ANSWERS},
        lambda c: "masked" in c.has and (c.call == "mask" or alike(c, "mask")),
    ),
    Row("several-lost", CALLS, {ANSWERS}, lambda c: alike(c, "mask", "names", "domain", "batched", "feature_dims")),
    Row(
        "error-class",
        CALLS,
        {BOTH},
        lambda c: isinstance(c.mine, MarlenvError) and isinstance(c.other, ZeroDivisionError),
    ),
    Row(
        "error-class",
        {"to_one_hot", "to_categorical", "to_one_hot_spec"},
        {BOTH},
        lambda c: isinstance(c.mine, MarlenvError),
    ),
    Row("choice-draws", DRAWS, {ANSWERS}, lambda c: "Choice" in c.has),
    Row("keys-below-leaves", {"get"}, {THEY}, lambda c: isinstance(first(c), tuple) and internal(c)),
    Row("choice-events", {"make"}, {WE}, lambda c: isinstance(c.mine, BadIndex) and "Choice" in str(c.mine)),
    Row(
        "dynamic-sizes",
        CALLS,
        {THEY, ANSWERS},
        lambda c: "-1" in f"{c.recipe}{c.args}" and says(c, "shapes of the spec", "negative dimension"),
    ),
    Row("enumerate", {"enumerate"}, {WE}, lambda c: "dynamic" in c.has),
    Row("as-torch", {"flatten"}, {THEY}, as_torch),
    Row("equality", {"=="}, {THEY, ANSWERS}, lambda c: c.mine in ((True, None), (True, False))),
    Row("slices-backwards", {"[]"}, {THEY}, lambda c: as_torch(c) or "slice" in str(c.args)),
    Row(
        "is-in-answers",
        {"is_in", "contains", "assert_is_in", "type_check"},
        {THEY, ANSWERS},
        lambda c: c.has & {"lazy", "Choice"},
    ),
    Row("stack-methods", {"torch.index_select"}, {ANSWERS}, lambda c: "lazy" in c.has and as_torch(c)),
    Row("numbers-as-indices", {"[]"}, {WE}, lambda c: isinstance(c.mine, BadIndex) and "1.5" in str(c.args)),
    Row("dynamic-sizes", {"make"}, {THEY}, lambda c: "-1" in str(c.recipe) and says(c, "can be inferred")),
    Row(
        "stack-entries",
        {"[key] =", "set", "update"},
        {WE},
        lambda c: isinstance(c.spec, ours.StackedComposite) and isinstance(c.mine, ShapeError),
    ),
    Row("choice-events", COMPOSITES, {ANSWERS}, lambda c: "Choice" in c.has and "Stacked" in repr(c.spec)),
    Row("choice-events", {"len"}, {THEY}, lambda c: "Choice" in c.has),
    Row(
        "dense-stacks",
        UPDATES,
        {ANSWERS},
        lambda c: "lazy" in c.has and (c.call != "rand_update" or c.spec.is_in(c.mine)),
    ),
    Row(
        "stack-entries",
        UPDATES,
        {WE},
        lambda c: isinstance(c.spec, ours.StackedComposite) and isinstance(c.mine, ShapeError),
    ),
    Row(
        "mask-sizes",
        {"update_mask"},
        {WE},
        lambda c: isinstance(c.mine, SpecError) and first(c).shape[-1] != c.spec._mask_shape[-1],
    ),
    Row("non-tensor-fields", {"example_data"}, {ANSWERS}, lambda c: c.mine[0] == c.other[0]),
    Row("empty-composites", {"type_check"}, {THEY}, lambda c: "no entries" in c.has and isinstance(c.other, KeyError)),
    Row("dynamic-sizes", {"[]"}, {ANSWERS}, lambda c: "dynamic" in c.has and isinstance(first(c), list)),
    Row("slices-backwards", {"[]"}, {ANSWERS}, lambda c: ", -1)" in str(c.args)),
    Row("event-dimensions", {"reshape"}, {THEY}, lambda c: has_events(c) and says(c, "can be inferred")),
    Row(
        "stack-methods",
        {"torch.index_select", "[]"},
        {WE},
        lambda c: "lazy" in c.has and "at least one spec" in str(c.mine),
    ),
    Row(
        "one-shape",
        {"to_one_hot"},
        {WE},
        lambda c: isinstance(c.mine, ShapeError) and not trails(first(c).shape, c.spec.shape),
    ),
    Row("plain-multi", {"rand_update"}, {ANSWERS}, lambda c: "MultiCategorical" in c.has and c.spec.is_in(c.mine)),
    Row("choice-events", {"flatten"}, {ANSWERS}, lambda c: "Choice" in c.has),
    Row(
        "encode-shapes",
        ENCODES,
        {THEY},
        lambda c: says(c, "no dimensions", "unsized", "batch_dims", "not iterable") and encodes(c),
    ),
    Row("memoize-exact", {"memoize_encode"}, {BOTH, THEY}, lambda c: "lazy" in c.has),
    Row("error-class", RESHAPES, {BOTH}, lambda c: isinstance(c.mine, MarlenvError)),
    Row(
        "project-nearest",
        {"project"},
        {ANSWERS},
        lambda c: isinstance(first(c), Tensor) and first(c).dtype != c.spec.dtype and c.spec.is_in(c.mine),
    ),
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
    Row("memoize-exact", {"memoize_encode"}, {THEY, ANSWERS}, lambda c: c.has & {"NonTensor", "Choice", "MultiOneHot"}),
    Row(
        "encode-shapes",
        ENCODES,
        {THEY},
        lambda c: says(
            c,
            "Shape mismatch",
            "Encoding key",
            "is invalid for input",
            "sequence",
            "Value must be less",
            "greater than",
            "invalid data type",
        ),
    ),
    Row("encode-shapes", ENCODES, {WE}, lambda c: isinstance(c.mine, (ShapeError, SpecError, NotInSpec))),
    Row(
        "masked-checks",
        CHECKS,
        {WE, ANSWERS},
        lambda c: (
            "masked" in c.has
            and (c.mine is False or isinstance(c.mine, NotInSpec) or (c.call == "project" and c.spec.is_in(c.mine)))
        ),
    ),
    Row(
        "one-shape",
        CHECKS,
        {WE, ANSWERS},
        lambda c: misses(c) and (c.mine is False or isinstance(c.mine, (NotInSpec, ShapeError))),
    ),
    Row(
        "project-nearest",
        {"project"},
        {ANSWERS},
        lambda c: (
            bool(c.has & {"float discrete", "OneHot", "MultiOneHot", "Choice", "Categorical"}) and c.spec.is_in(c.mine)
        ),
    ),
    Row(
        "to-numpy-stacks",
        {"to_numpy", "to_numpy safe"},
        {ANSWERS, WE, THEY},
        lambda c: c.has & {"Stacked", "StackedComposite"} or says(c, "more"),
    ),
    Row(
        "one-hot-of-flags", {"to_one_hot"}, {THEY}, lambda c: "bool" in c.has or says(c, "non-negative", "class values")
    ),
    Row("encode-tensors", ENCODES, {ANSWERS}, encodes),
    Row("to-numpy-objects", {"to_numpy", "to_numpy safe"}, {ANSWERS, THEY}, lambda c: c.has & {"NonTensor"}),
    Row("binary-as-categorical", {"to_categorical_spec"}, {ANSWERS}, lambda c: isinstance(c.spec, ours.Binary)),
    Row("pop-composites", {"pop", "pop default", "separates"}, {THEY, ANSWERS}, pops),
    Row("unknown-n", {"to_one_hot_spec", "to_one_hot"}, {WE}, lambda c: "n=-1" in c.has),
    Row("one-hot-of-any-integer", {"to_one_hot"}, {THEY}, lambda c: says(c, "LongTensor")),
]


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
