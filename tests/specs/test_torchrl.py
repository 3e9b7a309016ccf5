"""Operation by operation against torchrl 0.14.1: the same, but for the differences that are listed here with their reason.

``OPERATIONS`` run over pairs of equal specs; ``DIFFERENT`` names the cells of that table that differ on purpose, and a
cell that stops differing fails. ``ON_PURPOSE`` are single statements: what marlenv does, and what torchrl really does.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

import marlenv as ours

theirs = pytest.importorskip("torchrl.data", reason="the oracle of this file")

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

MASK = torch.tensor([True, False, False, True])
MASKS = torch.tensor([[True, False, False, True], [False, True, False, False], [True, True, True, True]])

PAIRS = {
    "bounded": lambda k: k.Bounded(-1, 1, (3, 2)),
    "bounded tensors": lambda k: k.Bounded(torch.tensor([[0.0], [1.0], [2.0]]).expand(3, 2), torch.full((3, 2), 5.0)),
    "bounded int64": lambda k: k.Bounded(0, 9, (3, 2), dtype=torch.int64),
    "bounded uint8": lambda k: k.Bounded(0, 255, (3, 2), dtype=torch.uint8),
    "bounded float64": lambda k: k.Bounded(-1, 1, (3, 2), dtype=torch.float64),
    "unbounded": lambda k: k.Unbounded((3, 2)),
    "unbounded int64": lambda k: k.Unbounded((3, 2), dtype=torch.int64),
    "unbounded bool": lambda k: k.Unbounded((3, 2), dtype=torch.bool),
    "categorical": lambda k: k.Categorical(4, (3, 2)),
    "categorical bool": lambda k: k.Categorical(2, (3, 1), dtype=torch.bool),
    "categorical masked": lambda k: k.Categorical(4, (3,), mask=MASKS),
    "binary": lambda k: k.Binary(2, (3, 2)),
    "binary bool": lambda k: k.Binary(shape=(3, 1), dtype=torch.bool),
    "one-hot": lambda k: k.OneHot(4, (3, 2, 4)),
    "one-hot masked": lambda k: k.OneHot(4, (3, 4), mask=MASKS),
    "multi-categorical": lambda k: k.MultiCategorical([2, 3], (3, 2)),
    "multi-one-hot": lambda k: k.MultiOneHot([2, 3], (3, 5)),
    "multi-one-hot masked": lambda k: k.MultiOneHot([2, 2], (3, 4), mask=torch.tensor([True, False, True, True])),
    "composite": lambda k: k.Composite(
        obs=k.Unbounded((3, 4)), inner=k.Composite(act=k.Categorical(4, (3,)), shape=(3,)), done=k.Binary(1, (3, 1)), shape=(3,)
    ),
    "composite masked": lambda k: k.Composite(inner=k.Composite(act=k.Categorical(4, (3,), mask=MASKS), shape=(3,)), shape=(3,)),
}  # fmt: skip
DISCRETE = [name for name in PAIRS if name.startswith(("categorical", "one-hot", "multi"))]
COMPOSITE = [name for name in PAIRS if name.startswith("composite")]
LEAVES = [name for name in PAIRS if name not in COMPOSITE]


def describe(x: Any, values: bool = True) -> Any:
    """What is compared of a result: specs by family, shape, dtype and mask; tensors by shape, dtype and numbers."""
    if isinstance(x, (ours.Composite, theirs.Composite)):
        return ("Composite", tuple(x.shape), str(x.device), {k: describe(v) for k, v in x.items()})
    if isinstance(x, (ours.TensorSpec, theirs.TensorSpec)):
        family = type(x).__name__.removesuffix("Continuous").removesuffix("Discrete")
        mask = getattr(x, "mask", None)
        return (family, tuple(x.shape), x.dtype, str(x.device), None if mask is None else mask.tolist())
    if isinstance(x, TensorDictBase):
        return (tuple(x.batch_size), {k: describe(v, values) for k, v in x.items()})
    if isinstance(x, Tensor):
        return (tuple(x.shape), x.dtype, x.tolist() if values else None)
    if isinstance(x, np.ndarray):
        return (x.shape, str(x.dtype), x.tolist() if values else None)
    if isinstance(x, (list, tuple)):
        return [describe(v, values) for v in x]
    if isinstance(x, dict):
        return {k: describe(v, values) for k, v in x.items()}
    return x if not hasattr(x, "item") else x.item()


def outcome(act, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, described; or that it fails."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return describe(act(*args, **kwargs))
        except Exception:
            return "error"


def fixed(spec: Any) -> Any:
    """A value that is the same for both: what ours draws from a fixed stream."""
    return spec.rand(rng=torch.Generator().manual_seed(0))


# every operation takes the spec and a fixed value of it
OPERATIONS = {
    "expand": lambda s, v: s.expand(4, *s.shape),
    "expand tuple": lambda s, v: s.expand((4, *s.shape)),
    "unsqueeze(0)": lambda s, v: s.unsqueeze(0),
    "unsqueeze(1)": lambda s, v: s.unsqueeze(1),
    "squeeze(0)": lambda s, v: s.unsqueeze(0).squeeze(0),
    "squeeze()": lambda s, v: s.unsqueeze(0).squeeze(),
    "squeeze nothing": lambda s, v: s.squeeze(0),
    "reshape": lambda s, v: s.reshape(1, *s.shape),
    "view": lambda s, v: s.view((1, *s.shape)),
    "unflatten": lambda s, v: s.unflatten(0, (3, 1)),
    "flatten": lambda s, v: s.unsqueeze(0).flatten(0, 1),
    "[0]": lambda s, v: s[0],
    "[-1]": lambda s, v: s[-1],
    "[1:]": lambda s, v: s[1:],
    "[None]": lambda s, v: s[None],
    "[...]": lambda s, v: s[...],
    "[list]": lambda s, v: s[[0, 2]],
    "[tensor]": lambda s, v: s[torch.tensor([0, 2])],
    "[bool]": lambda s, v: s[torch.tensor([True, False, True])],
    "[9]": lambda s, v: s[9],
    "unbind": lambda s, v: s.unbind(0),
    "clone": lambda s, v: s.clone(),
    "to dtype": lambda s, v: s.to(torch.float64) if isinstance(s, (ours.Unbounded, theirs.Unbounded, ours.Bounded, theirs.Bounded)) else s.to("cpu"),
    "to device": lambda s, v: s.to("cpu"),
    "to None": lambda s, v: s.to(None),
    "torch.stack": lambda s, v: torch.stack([s, s.clone()]),
    "torch.stack(1)": lambda s, v: torch.stack([s, s.clone()], 1),
    "torch.squeeze": lambda s, v: torch.squeeze(s.unsqueeze(0), 0),
    "torch.unsqueeze": lambda s, v: torch.unsqueeze(s, 0),
    "torch.index_select": lambda s, v: torch.index_select(s, 0, torch.tensor([0, 2])),
    "==": lambda s, v: bool(s == s.clone()),
    "!=": lambda s, v: s == s.unsqueeze(0),
    "ndim": lambda s, v: (s.ndim, s.ndimension()),
    "zero": lambda s, v: s.zero(),
    "zero(lead)": lambda s, v: s.zeros((5,)),
    "one": lambda s, v: s.one(),
    "rand": lambda s, v: describe(s.rand((5,)), values=False),
    "cardinality": lambda s, v: float(s.cardinality()),
    "enumerate": lambda s, v: s.enumerate(),
    "is_in": lambda s, v: bool(s.is_in(v)),
    "contains": lambda s, v: bool(s.contains(v)),
    "is_in dtype": lambda s, v: bool(s.is_in(v.to(torch.float16))),
    "is_in shape": lambda s, v: bool(s.is_in(v[0] if s.ndim else v)),
    "type_check": lambda s, v: s.type_check(v),
    "assert_is_in": lambda s, v: s.assert_is_in(v),
    "project": lambda s, v: s.project(v),
    "to_numpy": lambda s, v: s.to_numpy(v),
    "to_numpy safe": lambda s, v: s.to_numpy(v, safe=True),
    "encode(to_numpy)": lambda s, v: s.encode(s.to_numpy(v)),
    "make_neg_dim": lambda s, v: (s := s.clone(), s.make_neg_dim(0), tuple(s.shape))[-1],
}  # fmt: skip
ONLY_DISCRETE = {
    "n": lambda s, v: s.n,
    "space": lambda s, v: [b.n for b in s.space] if hasattr(s.space, "__len__") else s.space.n,
    "to_one_hot": lambda s, v: s.to_one_hot(v),
    "to_categorical": lambda s, v: s.to_categorical(v),
    "to_one_hot_spec": lambda s, v: s.to_one_hot_spec(),
    "to_categorical_spec": lambda s, v: s.to_categorical_spec(),
    "update_mask(None)": lambda s, v: (s := s.clone(), s.update_mask(None), s)[-1],
    "mask": lambda s, v: s.mask,
}

DROPPED = "torchrl loses the mask"
INDEX = [name for name in OPERATIONS if name.startswith("[") and name != "[9]"]
MASKED, MASKED_MULTI = ["categorical masked", "composite masked"], ["multi-one-hot masked"]
SHAPED = ["expand", "expand tuple", "reshape", "view", "unflatten", "flatten", "torch.stack", "torch.stack(1)"]

DIFFERENT = {
    (pair, operation): reason
    for pairs, operations, reason in [
        (MASKED, [*INDEX, *SHAPED], DROPPED),
        (MASKED_MULTI, INDEX, DROPPED),
        (["categorical masked"], ["to_one_hot_spec"], DROPPED),
        (["categorical masked"], ["squeeze nothing"], "torchrl squeezes any dimension when there is one, and fails"),
        ([*MASKED, *MASKED_MULTI, "one-hot masked"], ["is_in dtype"], "torchrl forgets the dtype where there is a mask"),
        ([*MASKED, *MASKED_MULTI], ["is_in shape"], "torchrl broadcasts, or fails, where there is a mask"),
        (["binary"], ["cardinality", "enumerate"], "torchrl counts and lists 2 values, whatever the length"),
        (["categorical bool", "binary bool"], ["enumerate"], "torchrl lists bools as uint8"),
        (["multi-one-hot masked"], ["enumerate"], "torchrl cannot list masked values"),
        (["bounded int64", "bounded uint8"], ["cardinality"], "torchrl says inf for integers between bounds"),
        (["bounded int64", "bounded uint8"], ["enumerate"], "torchrl does not list integers between bounds"),
        (["unbounded", "unbounded int64", "unbounded bool", "composite"], ["cardinality"], "torchrl raises; inf, or the size of the dtype"),
        (["multi-categorical"], ["unflatten", "flatten"], "torchrl cannot reshape nvec to another number of dimensions"),
        (["multi-categorical"], ["space"], "torchrl nests the boxes once per batch dimension"),
        (["categorical bool"], ["to_one_hot"], "torchrl fails on bools"),
        (["composite", "composite masked"], ["make_neg_dim"], "torchrl fails on composites"),
    ]
    for pair in pairs
    for operation in operations
}  # fmt: skip


def rows(names: list[str], table: dict[str, Any]) -> list[tuple[str, str]]:
    return [(pair, operation) for pair in names for operation in table]


@pytest.mark.parametrize(("pair", "operation"), rows(list(PAIRS), OPERATIONS) + rows(DISCRETE, ONLY_DISCRETE))
def test_operations_give_what_torchrl_gives(pair, operation):
    act = {**OPERATIONS, **ONLY_DISCRETE}[operation]
    mine, other = PAIRS[pair](ours), PAIRS[pair](theirs)
    value = fixed(mine)
    a, b = outcome(act, mine, value.clone()), outcome(act, other, value.clone())
    if (pair, operation) in DIFFERENT:
        assert a != b, f"no longer different: {DIFFERENT[pair, operation]}"
        assert a != "error" or b == "error"
    else:
        assert a == b


@pytest.mark.parametrize("pair", PAIRS)
def test_samples_are_accepted_by_both(pair):
    mine, other = PAIRS[pair](ours), PAIRS[pair](theirs)
    for _ in range(20):
        assert other.is_in(mine.rand())
        assert mine.is_in(other.rand())
    assert other.is_in(mine.rand((4,)))
    assert mine.is_in(other.rand((4,)))


@pytest.mark.parametrize("pair", [name for name in LEAVES if "masked" not in name])  # with a mask torchrl accepts more
def test_wrong_values_are_refused_by_both(pair):
    mine, other = PAIRS[pair](ours), PAIRS[pair](theirs)
    value = fixed(mine)
    for wrong in (
        value + 100 if value.dtype != torch.bool else value | True,
        value.to(torch.complex64),
        value - 100 if value.dtype.is_signed else value,
    ):
        with warnings.catch_warnings(action="ignore"):
            try:
                accepted = bool(other.is_in(wrong))
            except Exception:
                accepted = False
        assert mine.is_in(wrong) == accepted, wrong


# --- composites --------------------------------------------------------------------------------


def nest(k) -> Any:
    wolf = k.Composite(obs=k.Unbounded((3, 4)), act=k.Categorical(5, (3,)), shape=(3,))
    return k.Composite(wolves=wolf, world=k.Composite(rgb=k.Bounded(0, 255, (8,))), done=k.Binary(1), none=None)


def chained(*steps):
    """A composite on which all steps were done; described."""

    def act(k):
        spec = nest(k)
        for step in steps:
            step(spec, k)
        return spec

    return act


COMPOSITES = {
    "keys": lambda k: list(nest(k).keys()),
    "keys nested": lambda k: sorted(map(str, nest(k).keys(True))),
    "keys leaves": lambda k: sorted(map(str, nest(k).keys(True, True))),
    "items": lambda k: {str(key): spec for key, spec in nest(k).items(True, True)},
    "values": lambda k: list(nest(k).values(True, True)),
    "len": lambda k: (len(nest(k)), len(nest(k).keys(True)), len(nest(k).values(True, True))),
    "in keys": lambda k: (("wolves", "obs") in nest(k).keys(True), "obs" in nest(k).keys(True), ("a",) in nest(k).keys()),
    "in": lambda k: ("wolves" in nest(k), "obs" in nest(k)),
    "iter": lambda k: list(nest(k)),
    "get": lambda k: nest(k).get(("wolves", "act")),
    "get default": lambda k: nest(k).get("nothing", None),
    "missing": lambda k: nest(k)["nothing"],
    "missing below": lambda k: nest(k)["wolves", "nothing"],
    "set nested": chained(lambda s, k: s.__setitem__(("new", "deep", "leaf"), k.Binary(1))),
    "set": chained(lambda s, k: s.set("new", k.Binary(1))),
    "set dict": chained(lambda s, k: s.__setitem__("new", {"a": k.Binary(1)})),
    "set none": chained(lambda s, k: s.set("wolves", None)),
    "set wrong": chained(lambda s, k: s["wolves"].set("new", k.Binary(1))),
    "set smaller composite": lambda k: k.Composite(a=k.Composite(b=k.Unbounded((3, 4))), shape=(3,)),
    "set smaller non-tensor": lambda k: tuple(k.Composite(a=k.NonTensor(()), shape=(3,))["a"].shape),
    "del": chained(lambda s, k: s.__delitem__(("wolves", "act"))),
    "pop": lambda k: (spec := nest(k), spec.pop(("wolves", "act")), spec)[1:],
    "pop default": lambda k: nest(k).pop("nothing", None),
    "pop missing": lambda k: nest(k).pop("nothing"),
    "update": chained(lambda s, k: s.update({"wolves": {"act": k.Categorical(9, (3,))}, "new": k.Binary(1)})),
    "update composite": chained(lambda s, k: s.update(k.Composite(world=k.Composite(more=k.Binary(1))))),
    "separates": lambda k: (spec := nest(k), spec.separates(("wolves", "act"), "done", "nothing"), spec)[1:],
    "separates nothing": lambda k: nest(k).separates("nothing"),
    "separates default": lambda k: nest(k).separates("nothing", default=k.Binary(1)),
    "is_empty": lambda k: (nest(k).is_empty(), k.Composite(a=k.Composite()).is_empty()),
    "empty": lambda k: nest(k)["wolves"].empty(),
    "clone": lambda k: nest(k).clone(),
    "shape setter": chained(lambda s, k: setattr(s["wolves"], "shape", ())),
    "shape setter nested": lambda k: (spec := k.Composite(a=k.Composite(b=k.Unbounded((3, 2)))), setattr(spec, "shape", (3,)), spec)[-1],
    "shape setter wrong": chained(lambda s, k: setattr(s["wolves"], "shape", (7,))),
    "batch_size": lambda k: (tuple(k.Composite(batch_size=(3,)).shape), tuple(k.Composite(shape=3 if k is ours else (3,)).batch_size)),
    "batch_size twice": lambda k: k.Composite(batch_size=(3,), shape=(2,)),
    "device": lambda k: k.Composite(a=k.Unbounded((2,)), device="cpu"),
    "device nested": lambda k: (spec := k.Composite(device="cpu"), spec.__setitem__(("a", "b"), k.Unbounded((2,))), spec)[-1],
    "clear_device_": lambda k: k.Composite(a=k.Composite(b=k.Unbounded((2,)), device="cpu"), device="cpu").clear_device_(),
    "to": lambda k: nest(k).to("cpu"),
    "to dtype": lambda k: k.Composite(a=k.Unbounded((2,)), b=k.Composite(c=k.Binary(1))).to(torch.float64),
    "zero": lambda k: nest(k).zero((2,)),
    "one": lambda k: nest(k).one(),
    "rand_update": lambda k: describe(nest(k).rand_update(TensorDict({"done": torch.zeros(3), "x": torch.ones(1)})), values=False),
    "zeros_update": lambda k: nest(k).zeros_update(TensorDict({"done": torch.ones(1), "x": torch.ones(1)})),
    "ones_update": lambda k: nest(k).ones_update(TensorDict({"x": torch.ones(1)})),
    "enumerate": lambda k: k.Composite(a=k.Categorical(2), b=k.Composite(c=k.OneHot(3))).enumerate(),
    "enumerate batch": lambda k: k.Composite(a=k.Categorical(2, (3,)), b=k.Categorical(3, (3,)), shape=(3,)).enumerate(),
    "is_in more": lambda k: bool(k.Composite(a=k.Unbounded((1,))).is_in(TensorDict({"a": torch.zeros(1), "b": torch.zeros(1)}))),
    "is_in empty": lambda k: bool(k.Composite(a=k.Unbounded((1,)), b=k.Composite()).is_in(TensorDict({"a": torch.zeros(1)}))),
    "is_in dict": lambda k: bool(k.Composite(a=k.Unbounded((1,))).is_in({"a": torch.zeros(1)})),
    "project": lambda k: k.Composite(a=k.Bounded(0, 1, (2,)), b=k.Composite(c=k.Categorical(3))).project(TensorDict({"a": torch.tensor([-1.0, 0.5]), "b": {"c": torch.tensor(7)}})),
    "encode": lambda k: k.Composite(a=k.Unbounded((2,)), b=k.Composite(c=k.OneHot(3))).encode({"a": np.ones(2), "b": {"c": 2}}),
    "encode unknown": lambda k: k.Composite().encode({"a": 1}),
    "encode none": lambda k: k.Composite(a=k.Unbounded((1,))).encode({"a": None}),
    "type_check": lambda k: k.Composite(a=k.Unbounded((1,))).type_check(TensorDict({"a": torch.zeros(1, dtype=torch.int64)})),
    "type_check key": lambda k: k.Composite(a=k.Unbounded((1,)), b=k.Binary(1)).type_check(torch.zeros(1), "a"),
    "squeeze": lambda k: k.Composite(a=k.Unbounded((1, 3, 1)), shape=(1, 3)).squeeze(),
    "== order": lambda k: k.Composite(a=k.Binary(1), b=k.Binary(2)) == k.Composite(b=k.Binary(2), a=k.Binary(1)),
    "== shape": lambda k: k.Composite(shape=(2,)) == k.Composite(shape=(3,)),
    # names
    "names": lambda k: k.Composite(shape=(2, 3), names=["a", "b"]).names,
    "names none": lambda k: k.Composite(shape=(2, 3)).names,
    "names wrong": lambda k: setattr(k.Composite(shape=(2,)), "names", ["a", "b"]),
    "names nested": lambda k: k.Composite(x=k.Composite(shape=(2, 3)), shape=(2,), names=["a"])["x"].names,
    "names expand": lambda k: k.Composite(shape=(2,), names=["a"]).expand(3, 2).names,
    "names unsqueeze": lambda k: k.Composite(shape=(2, 3), names=["a", "b"]).unsqueeze(1).names,
    "names squeeze": lambda k: k.Composite(shape=(2, 1), names=["a", "b"]).squeeze(1).names,
    "names unbind": lambda k: k.Composite(shape=(2, 3), names=["a", "b"]).unbind(0)[0].names,
    "names index": lambda k: k.Composite(shape=(2, 3), names=["a", "b"])[0].names,
    "names slice": lambda k: k.Composite(shape=(2, 3), names=["a", "b"])[:, 0].names,
    "names clone": lambda k: k.Composite(shape=(2,), names=["a"]).clone().names,
    "names reshape": lambda k: k.Composite(shape=(2,), names=["a"]).reshape(1, 2).names,
    "names zero": lambda k: k.Composite(x=k.Unbounded((2, 3)), shape=(2,), names=["a"]).zero().names,
    "refine_names": lambda k: k.Composite(shape=(2, 3, 4)).refine_names("a", None, "c").names,
    "refine_names dots": lambda k: k.Composite(shape=(2, 3, 4)).refine_names(..., "c").names,
    "refine_names clash": lambda k: k.Composite(shape=(2,), names=["a"]).refine_names("b").names,
    # locking
    "lock": lambda k: (spec := nest(k).lock_(), spec.is_locked, spec["wolves"].is_locked)[1:],
    "lock one level": lambda k: (spec := nest(k).lock_(recurse=False), spec.is_locked, spec["wolves"].is_locked)[1:],
    "locked set": chained(lambda s, k: s.lock_(), lambda s, k: s.set("new", k.Binary(1))),
    "locked nested set": chained(lambda s, k: s.lock_(), lambda s, k: s["wolves"].set("act", k.Categorical(9, (3,)))),
    "locked update": chained(lambda s, k: s.lock_(), lambda s, k: s.update({"done": k.Binary(1)})),
    "locked shape": chained(lambda s, k: s.lock_(), lambda s, k: setattr(s["wolves"], "shape", ())),
    "locked clone": lambda k: nest(k).lock_().clone().is_locked,
    "locked expand": lambda k: nest(k).lock_().expand(2).is_locked,
    "unlock": lambda k: (spec := nest(k).lock_().unlock_(), spec.is_locked, spec["wolves"].is_locked)[1:],
    "unlock nested": lambda k: (spec := nest(k).lock_(), spec["wolves"].unlock_())[-1],
    "unlock setter": lambda k: (spec := nest(k).lock_(), setattr(spec, "is_locked", False), spec.is_locked)[-1],
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSITES)
def test_composites_do_what_those_of_torchrl_do(name):
    a, b = outcome(COMPOSITES[name], ours), outcome(COMPOSITES[name], theirs)
    assert a == b


# --- what differs on purpose -------------------------------------------------------------------


def boxes(k, n: int = 2) -> Any:
    return k.Choice([k.Bounded(0, 1, (2,)), k.Bounded(4, 5, (2,))])


def aliased(k) -> bool:
    """Whether what was encoded changes when the simulator writes into its array again."""
    array = np.zeros(2, dtype=np.float32)
    seen = k.Unbounded((2,)).encode(array)
    array[:] = 9
    return bool(seen.any())


def drawn(spec, n: int = 200) -> Tensor:
    return torch.stack([spec.rand() for _ in range(n)])


def projections(k) -> list[int]:
    spec = k.Categorical(5, mask=torch.tensor([True, False, False, True, True]))
    return sorted({int(spec.project(torch.tensor(2))) for _ in range(60)})


def moves_global_rng(k) -> bool:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    k.OneHot(3).project(torch.tensor([False, True, True]))
    return not torch.equal(before, torch.get_rng_state())


def two(k) -> Any:
    return torch.stack([k.Composite(a=k.Unbounded((2,))), k.Composite(a=k.Unbounded((3,)))])


def ends(k) -> bool:
    """Whether a locked composite lets an entry be deleted."""
    spec = k.Composite(a=k.Binary(1)).lock_()
    del spec["a"]
    return "a" not in spec.keys()


ON_PURPOSE = {  # statement: (what is done, what marlenv gives, what torchrl gives)
    # draws
    "infinite bounds draw normal numbers, not NaN": (lambda k: bool(drawn(k.Bounded(-math.inf, math.inf, (3,))).isnan().any()), False, True),
    "a half-line draws finite numbers, not inf": (lambda k: bool(drawn(k.Bounded(0, math.inf, (3,))).isinf().any()), False, True),
    "a huge range draws more than its upper end": (lambda k: len(drawn(k.Bounded(-3e38, 3e38, ())).unique()) > 1, True, False),
    "unbounded integers are drawn from the whole range, not its upper half": (lambda k: bool((drawn(k.Unbounded((), dtype=torch.int8)) < 0).any()), True, False),
    "stacks of unequal bounds draw with leading dimensions": (lambda k: tuple(torch.stack([k.Bounded(0, 1, (2,)), k.Bounded(0, 2, (2,))]).rand((3,)).shape), [3, 2, 2], "error"),
    "one-hot specs draw with dynamic dimensions": (lambda k: tuple(k.OneHot(3, (-1, 3)).rand().shape), [1, 3], "error"),
    "composites with names draw with leading dimensions": (lambda k: k.Composite(a=k.Unbounded((2,)), shape=(2,), names=["x"]).rand((3,)).names, [None, "x"], "error"),
    "multi-categorical values of a list of one have the component dimension": (lambda k: tuple(k.MultiCategorical([5]).rand().shape), [1], []),
    # checks
    "fewer dimensions than the spec are not in it": (lambda k: bool(k.Bounded(0, 1, (2,)).is_in(torch.zeros(()))), False, True),
    "another shape is not in the spec, and no error": (lambda k: k.Unbounded((2,)).is_in(torch.zeros(3)), False, "error"),
    "a number out of range is not in a masked spec, and no error": (lambda k: k.Categorical(3, mask=torch.tensor([True, True, False])).is_in(torch.tensor(7)), False, "error"),
    "a vector that sums to 1 need not be one-hot": (lambda k: bool(k.OneHot(3, dtype=torch.int64).is_in(torch.tensor([2, -1, 0]))), False, True),
    "two ones are not one-hot, with a mask either": (lambda k: bool(k.OneHot(3, mask=torch.tensor([True, True, False])).is_in(torch.tensor([True, True, False]))), False, True),
    "halves are not in a categorical spec of floats": (lambda k: bool(k.Categorical(3, dtype=torch.float32).is_in(torch.tensor(0.5))), False, True),
    "is_in gives a bool": (lambda k: isinstance(k.Bounded(0, 1, (1,)).is_in(torch.zeros(1)), bool), True, False),
    "float masks of one-hot vectors can be checked": (lambda k: bool(k.OneHot(3, dtype=torch.float32, mask=torch.tensor([True, True, False])).is_in(torch.tensor([0.0, 1.0, 0.0]))), True, "error"),
    "parameters of a dynamic dimension hold for any size": (lambda k: (s := k.Bounded(torch.zeros(2, 1), 9.0, (2, 1)), s.make_neg_dim(0), bool(s.is_in(torch.ones(7, 1))))[-1], True, False),
    # projections
    "project takes the nearest value, not any": (projections, [3], [0, 3, 4]),
    "project reads no random numbers": (moves_global_rng, False, True),
    "project leaves no NaN": (lambda k: bool(k.Bounded(1, 2, (1,)).project(torch.tensor([math.nan])).isnan()), False, True),
    "project gives the dtype of the spec": (lambda k: str(k.Categorical(5).project(torch.tensor(2.7)).dtype), "torch.int64", "torch.float32"),
    # translating
    "encode copies arrays, which simulators write into again": (aliased, False, True),
    "encode casts tensors": (lambda k: str(k.Unbounded((2,)).encode(torch.zeros(2, dtype=torch.float64)).dtype), "torch.float32", "torch.float64"),
    "encode does not mix dimensions up": (lambda k: tuple(k.Unbounded((2, 3)).encode(np.zeros((3, 2))).shape), "error", [2, 3]),
    "encode leaves one-hot tensors as they are": (lambda k: k.OneHot(3).encode(torch.tensor([False, True, False])).tolist(), [False, True, False], [[True, False, False], [False, True, False], [True, False, False]]),
    "bfloat16 becomes a float32 array": (lambda k: str(k.Unbounded((2,), dtype=torch.bfloat16).to_numpy(torch.zeros(2, dtype=torch.bfloat16)).dtype), "float32", "error"),
    "index of one vector gives one entry": (lambda k: k.OneHot(3).index(torch.tensor([False, True, False]), torch.arange(3)).tolist(), 1, [1]),
    "index works row by row": (lambda k: k.Categorical(3, (2,)).index(torch.tensor([1, 2]), torch.arange(6).reshape(2, 3)).tolist(), [1, 5], [[1, 2], [4, 5]]),
    "index of multi-one-hot vectors works": (lambda k: k.MultiOneHot([2, 3]).index(torch.tensor([True, False, False, True, False]), torch.arange(5)).tolist(), [0, 3], "error"),
    "index of multi-categorical numbers reads their own tables": (lambda k: k.MultiCategorical([2, 3]).index(torch.tensor([1, 2]), torch.arange(5)).tolist(), [1, 4], [1, 2]),
    # leaves
    "the n of a binary spec is the one it was made with": (lambda k: k.Binary(3).n, 3, 2),
    "a binary spec is indexed like a tensor": (lambda k: tuple(k.Binary(3)[0].shape), [], "error"),
    "the ends of unbounded floats are infinite": (lambda k: float(k.Unbounded(()).space.low), -math.inf, torch.finfo(torch.float32).min),
    "an unbounded spec equals no bounded one": (lambda k: bool(k.Unbounded((1,), dtype=torch.uint8) == k.Bounded(0, 255, (1,), dtype=torch.uint8)), False, True),
    "a binary spec equals no categorical one": (lambda k: k.Binary(1) == k.Categorical(2, (1,), dtype=torch.int8), False, True),
    "bounds of NaN are refused": (lambda k: k.Bounded(math.nan, 1, (1,)) is None, "error", False),
    "low above high is refused": (lambda k: k.Bounded(2, 1, (1,)) is None, "error", False),
    "more values than the dtype holds are refused": (lambda k: k.Categorical(300, dtype=torch.uint8) is None, "error", False),
    "the examples of non-tensors with a batch are one per element": (lambda k: type(k.NonTensor((2, 3), batched=True).rand()) is NonTensorStack, True, False),
    "non-tensors of other shapes are unequal": (lambda k: k.NonTensor((2,)) == k.NonTensor((3,)), False, True),
    "cardinality of unequal rows counts one row": (lambda k: float(k.MultiCategorical([[2, 3], [4, 5]]).cardinality()), 20.0, 120.0),
    # shapes
    "squeeze() leaves a single dimension of size 1 no more": (lambda k: tuple(k.Unbounded((1,)).squeeze().shape), [], [1]),
    "-1 in expand keeps a size, as in torch": (lambda k: tuple(k.Unbounded((1, 3)).expand(-1, 3).shape), [1, 3], [-1, 3]),
    "flatten has the defaults of torch": (lambda k: tuple(k.Unbounded((2, 3)).flatten().shape), [6], "error"),
    "specs that differ in bounds stack densely": (lambda k: type(torch.stack([k.Bounded(0, 1, (2,)), k.Bounded(0, 2, (2,))])).__name__, "Bounded", "Stacked"),
    "specs that differ in masks stack densely": (lambda k: type(torch.stack([k.Categorical(4, mask=MASK), k.Categorical(4)])).__name__, "Categorical", "Stacked"),
    "masked multi-categorical specs expand": (lambda k: tuple(k.MultiCategorical([2, 2], (3, 2), mask=torch.tensor([True, False, True, True])).expand(4, 3, 2).shape), [4, 3, 2], "error"),
    "stacks are indexed along any dimension": (lambda k: tuple(torch.stack([k.Unbounded((4, 2)), k.Unbounded((4, 3))], 1)[0].shape), [2, -1], "error"),
    "choices are indexed": (lambda k: tuple(boxes(k).expand(3, 2)[0].shape), [2], "error"),
    "each element of a batch makes its own choice": (lambda k: bool(boxes(k).expand(2, 2).is_in(torch.tensor([[0.5, 0.5], [4.5, 4.5]]))), True, False),
    "the one of a choice can be asked for": (lambda k: k.Choice([k.Categorical(3), k.Categorical(4)]).one().tolist(), 1, "error"),
    # composites
    "nested keys work with in": (lambda k: ("a", "b") in k.Composite(a=k.Composite(b=k.Binary(1))), True, False),
    "get without a default raises": (lambda k: k.Composite().get("a") is None, "error", False),
    "pop takes composites out": (lambda k: k.Composite(a=k.Composite(b=k.Binary(1))).pop("a").keys().__len__(), 1, "error"),
    "a locked composite refuses deleting": (ends, "error", True),
    "nested keys come behind their composite": (lambda k: list(k.Composite(a=k.Composite(b=k.Binary(1))).keys(True)), ["a", ["a", "b"]], [["a", "b"], "a"]),
    "is_leaf stops the walk": (lambda k: len(k.Composite(a=k.Composite(b=k.Binary(1))).keys(True, True, is_leaf=lambda kind: True)), 1, 2),
    "is_empty(recurse=True) looks inside": (lambda k: k.Composite(a=k.Composite()).is_empty(recurse=True), True, False),
    "step_mdp_static_only lists static composites only": (lambda k: list(k.Composite(a=k.Composite(step_mdp_static=True), c=k.Binary(1)).keys(True, True, step_mdp_static_only=True)), ["a"], ["a", "c"]),
    "indexing keeps step_mdp_static": (lambda k: k.Composite(shape=(2,), step_mdp_static=True)[0].step_mdp_static, True, False),
    "entries are moved to the device of the composite": (lambda k: str(k.Composite(a=k.Unbounded((1,), device="meta"), device="cpu")["a"].device), "cpu", "error"),
    "a composite made from another keeps its batch size": (lambda k: tuple(k.Composite(k.Composite(shape=(3,))).shape), [3], []),
    "nothing to choose is one choice": (lambda k: k.Composite().cardinality(), 1, 0),
    "iterating over a stack gives names": (lambda k: [isinstance(x, str) for x in two(k)], [True], [False]),
    "stacks count the values of their parts": (lambda k: torch.stack([k.Categorical(2), k.Categorical(3)]).cardinality(), 6, "error"),
}  # fmt: skip


@pytest.mark.parametrize("statement", ON_PURPOSE)
def test_differences_are_what_they_are_said_to_be(statement):
    act, mine, other = ON_PURPOSE[statement]
    assert outcome(act, ours) == mine
    assert outcome(act, theirs) == other
    assert mine != other


def test_masked_draws_after_a_shape_operation_differ():
    mask = torch.tensor([True, False, False, False])
    assert set(ours.Categorical(4, mask=mask).expand(300).rand().tolist()) == {0}
    assert set(theirs.Categorical(4, mask=mask).expand(300).rand().tolist()) == {0, 1, 2, 3}


def test_stacks_of_unequal_sizes_agree():
    for k in (ours, theirs):
        spec = torch.stack([k.Unbounded((2,)), k.Unbounded((3,))])
        assert tuple(spec.shape) == (2, -1)
        value = spec.rand()
        assert [tuple(v.shape) for v in value.unbind()] == [(2,), (3,)]
        assert spec.is_in(value)
        assert spec[1].shape == (3,)
        team = two(k)
        assert tuple(team.shape) == (2,)
        assert tuple(team["a"].shape) == (2, -1)
        assert tuple(team[0]["a"].shape) == (2,)
        assert team.is_in(team.rand())
        assert tuple(team.expand(4, 2).shape) == (4, 2)
        assert tuple(team.unsqueeze(0).shape) == (1, 2)
    assert torch.stack([ours.Unbounded((2,)), ours.Unbounded((3,))]).is_in(spec.rand())
    assert two(ours).is_in(two(theirs).rand())
    assert two(theirs).is_in(two(ours).rand())


def test_non_tensors_are_accepted_by_both():
    mine, other = ours.NonTensor((2,), example_data="a"), theirs.NonTensor((2,), example_data="a")
    assert other.is_in(mine.rand())
    assert mine.is_in(other.rand())
    assert mine.is_in(other.rand((3,)))
    assert isinstance(mine.rand(), NonTensorData) is isinstance(other.rand(), NonTensorData) is True
    for shape, options in [((2, 3), {}), ((2, 3), {"feature_dims": 1}), ((2, 3), {"feature_dims": 2})]:
        a, b = (k.NonTensor(shape, example_data="x", **options).rand() for k in (ours, theirs))
        assert (type(a), a.batch_size) == (type(b), b.batch_size)


def test_the_constructors_take_the_arguments_of_torchrl():
    import inspect

    for name in (
        "Bounded",
        "Unbounded",
        "Categorical",
        "OneHot",
        "MultiCategorical",
        "MultiOneHot",
        "Binary",
        "NonTensor",
        "Choice",
        "Composite",
    ):
        mine, other = (inspect.signature(getattr(k, name).__init__).parameters for k in (ours, theirs))
        for argument, parameter in other.items():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            assert argument in mine, f"{name}({argument}=)"
            given = (mine[argument].default, parameter.default)
            if name != "Bounded":  # torchrl's low and high default to None, which is then refused
                assert given[0] == given[1] or given[1] == (1,), f"{name}({argument}=): {given}"


INSTANCES = [
    lambda k: k.Bounded(0, 1, (2,)),
    lambda k: k.Unbounded((2,)),
    lambda k: k.Categorical(3),
    lambda k: k.OneHot(3),
    lambda k: k.MultiCategorical([2, 3]),
    lambda k: k.MultiOneHot([2, 3]),
    lambda k: k.Binary(2),
    lambda k: k.NonTensor((2,)),
    boxes,
    nest,
    lambda k: k.Stacked(k.Categorical(2), k.Categorical(3), dim=0),
    two,
]
LEFT_OUT = {
    "implements_for_spec", "SPEC_HANDLED_FUNCTIONS",  # torch functions are one table
    "CONFLICTING_KWARGS", "space",  # stacks of torchrl raise for space
    "n",  # inherited by the Multi forms of torchrl, where it fails
}  # fmt: skip


@pytest.mark.parametrize("make", INSTANCES, ids=lambda make: type(make(ours)).__name__)
def test_the_methods_are_those_of_torchrl(make):
    public = {name for name in dir(make(theirs)) if not name.startswith("_")}
    assert not public - set(dir(make(ours))) - LEFT_OUT
