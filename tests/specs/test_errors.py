"""Every error of the room: its class and its text. A ``raise`` that no line reaches fails the last test."""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorDict, tensorclass
from torch import Tensor

import marlenv.rng
import marlenv.specs
from marlenv import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    RowRNG,
    Stacked,
    StackedComposite,
    Unbounded,
)
from marlenv.errors import (
    BadIndex,
    DeviceError,
    DtypeError,
    EntryMissing,
    KeyMissing,
    LockedSpec,
    NotInSpec,
    ReservedKey,
    ShapeError,
    SpecError,
    SpecTypeError,
    Unsupported,
)
from marlenv.specs.dtypes import usable_device
from marlenv.testing.catalogue.specs import mask


@tensorclass
class Seen:
    """A tensorclass for ``data_cls``."""

    a: Tensor


def stack() -> Stacked:
    return Stacked(Unbounded((2,)), Unbounded((3,)), dim=0)


def pair() -> Stacked:
    return Stacked(Categorical(3, (2,)), Categorical(5, (2,)), dim=0)


def team() -> StackedComposite:
    return StackedComposite(Composite(a=Unbounded((2,))), Composite(a=Unbounded((3,)), b=Binary(1)), dim=0)


def unequal() -> MultiCategorical:
    return MultiCategorical([[2, 3], [4, 1]])


def locked() -> Composite:
    return Composite(a=Binary(1), deep=Composite()).lock_()


def dynamic() -> Unbounded:
    return Unbounded((3, -1))


Case = tuple[Callable[[], object], type[Exception], str]

ERRORS: list[Case] = [
    # any spec
    (lambda: marlenv.specs.Boundet, AttributeError, "marlenv.specs has no 'Boundet'; it has ['Binary', "),
    (lambda: Unbounded((2,)).enumerate(), Unsupported,
     "Unbounded([2], float32).enumerate: its values cannot be listed; only discrete specs list theirs"),
    (lambda: Unbounded((2,)).index(0, torch.zeros(3)), Unsupported,
     "Unbounded.index: only discrete specs name entries; use Categorical, OneHot, their Multi forms or Binary"),
    (lambda: Bounded(0, 1, (2,)).rand(rng=RowRNG(rows=[3])), ShapeError,
     "Bounded([2], float32, 0..1).rand: the rows of rng must be the leading dimensions of the draw [2], got rows [3]; "
     "pass shape=[3], or an rng with other rows"),
    (lambda: Bounded(0, 1, (2,)).assert_is_in(torch.tensor([0.5, 2.0])), NotInSpec,
     "Bounded([2], float32, 0..1): the value is not in the spec, got float32 [2] in 0.5..2; project(value) makes it "
     "fit"),
    (lambda: Binary(2).assert_is_in(torch.zeros(2, dtype=torch.bool)), NotInSpec, "got bool [2]; project"),
    (lambda: Binary(2).assert_is_in("yes"), NotInSpec, "got str 'yes'; project"),
    (lambda: Stacked(Bounded(5, 6, (2,)), Bounded(5, 6, (3,)), dim=0).assert_is_in(stack().zero()), NotInSpec,
     "got float32 of several shapes; project"),
    (lambda: Binary(2).assert_is_in(torch.zeros(3, device="meta")), NotInSpec, "got float32 [3]; project"),
    (lambda: Unbounded((2,)).type_check(torch.zeros(2, dtype=torch.int64)), DtypeError,
     "Unbounded: expected float32, got int64; convert the value, or the spec with spec.to(dtype)"),
    (lambda: Unbounded((2,)).type_check(torch.zeros(2, dtype=torch.int64), "obs"), DtypeError,
     "Unbounded under 'obs': expected float32, got int64"),
    (lambda: Bounded(0, 1, (2,)).project(torch.zeros(3)), ShapeError,
     "Bounded([2], float32, 0..1).project: expected a value of shape [..., 2], got [3]"),
    (lambda: Unbounded((2, 3)).encode(np.zeros((3, 2))), ShapeError,
     "Unbounded([2, 3], float32).encode: expected a value of shape [..., 2, 3], got [3, 2]"),
    (lambda: Unbounded((2,)).encode("text"), SpecError,
     "Unbounded([2], float32).encode: expected numbers, got str 'text', which make no tensor"),
    (lambda: Unbounded((2, 3)).expand(4, 5), ShapeError,
     "Unbounded([2, 3], float32).expand: batch dimensions [2, 3] cannot become [4, 5]"),
    (lambda: Unbounded((2, 3)).reshape(5), ShapeError,
     "Unbounded([2, 3], float32).reshape: batch dimensions [2, 3] cannot become [5]"),
    (lambda: Unbounded((2, 3)).unflatten(1, (2, 2)), ShapeError,
     "Unbounded([2, 3], float32).unflatten(1, [2, 2]): batch dimensions [2, 3] cannot become [2, 2, 2]"),
    (lambda: Unbounded((2,)).unbind(1), BadIndex,
     "Unbounded([2], float32): dimension 1 is out of range; it has 1 batch dimensions"),
    (lambda: OneHot(3, (2, 3)).unbind(-1), BadIndex,
     "OneHot([2, 3], bool, n=3): dimension -1 is out of range; it has 1 batch dimensions and 1 event dimensions"),
    (lambda: OneHot(3).expand(5, 4), ShapeError,
     "OneHot([3], bool, n=3).expand: the last 1 dimensions must stay [3], got [5, 4]"),
    (lambda: Unbounded((2, 3)).permute(0, 0), ShapeError,
     "Unbounded([2, 3], float32).permute: expected an order of its 2 batch dimensions, got [0, 0]"),
    (lambda: dynamic().unbind(1), ShapeError,
     "Unbounded([3, -1], float32).unbind: dimension 1 has no known size (-1); it cannot be taken apart"),
    (lambda: dynamic().flatten(), ShapeError,
     "shape [3, -1]: a dimension of unknown size (-1) cannot be merged with others; merge those only"),
    (lambda: Unbounded((2,))[0, 0], BadIndex,
     "Unbounded([2], float32): too many indices, got 2; it has 1 batch dimensions"),
    (lambda: Unbounded((2,))[2], BadIndex, "Unbounded([2], float32): dimension 0: index 2 is out of range for size 2"),
    (lambda: Unbounded((2,))["a"], BadIndex,
     "Unbounded([2], float32): an index is made of numbers, slices, '...', None, lists, arrays and tensors, got 'a'"),
    (lambda: Unbounded((2,))[["a"]], BadIndex,
     "Unbounded([2], float32): expected numbers or flags in an index, got ['a']"),
    (lambda: Unbounded((2,))[[0.5]], BadIndex,
     "Unbounded([2], float32): a tensor in an index holds integers or flags, got torch.float32"),
    (lambda: Binary(2)[::0], BadIndex,
     "Binary([2], int8, n=2): dimension 0: a slice has whole numbers and a step that is not 0, got slice(None, None, "
     "0)"),
    (lambda: Unbounded((2,))[torch.ones(3, dtype=torch.bool)], BadIndex,
     "Unbounded([2], float32): dimension 0: expected flags of shape [2], got [3]"),
    (lambda: Unbounded((2,))[..., ...], BadIndex,
     "Unbounded([2], float32): an index has at most one '...', got (Ellipsis, Ellipsis)"),
    (lambda: dynamic()[:, 1:], BadIndex,
     "Unbounded([3, -1], float32): dimension 1 has no known size (-1); index it with numbers or ':', got slice(1, "
     "None, None)"),
    (lambda: Unbounded((2.5,)), SpecTypeError, "a size is an int or a sequence of them, got (2.5,)"),
    (lambda: Unbounded((2,), dtype="flot32"), DtypeError,
     "'flot32' is no dtype; use one of torch's, such as torch.float32, or its name, 'float32'"),
    (lambda: Unbounded((2,), dtype=torch.int8).encode([3, 300]), NotInSpec,
     "Unbounded([2], int8).encode: expected numbers in -128..127, which int8 holds, got 3..300; take a wider dtype"),
    # numbers between bounds
    (lambda: Bounded("a", "b", (2,)), SpecTypeError,
     "Bounded: a bound must be a number, or numbers in an array, got 'a'"),
    (lambda: Bounded(0, 1, (2,), dtype=torch.complex64), SpecTypeError,
     "Bounded: complex numbers have no bounds, got 0 and torch.complex64; take Unbounded"),
    (lambda: (s := Bounded(0, 1, (2,)), s.space.low.fill_(5), s.rand()), SpecError,
     "Bounded([2], float32, 5..1): low must not exceed high, got bounds written in place that do; mend them"),
    (lambda: Bounded(0, 1), SpecError,
     "Bounded: expected a shape, or bounds that are tensors, got low=0, high=1 and no shape; a single number has "
     "shape=()"),
    (lambda: Bounded([0.0, 1.0], 2, (3,)), SpecError,
     "Bounded: low and high must broadcast to the shape [3], got bounds of shape [[2], []]"),
    (lambda: Bounded([0.0, 1.0], [1.0, 2.0, 3.0]), SpecError,
     "Bounded: low and high must broadcast to the shape None, got bounds of shape [[2], [3]]"),
    (lambda: setattr(Bounded(0, 1, (2,)).space, "low", [5, 6]), SpecError,
     "Bounded([2], float32, 0..1): low must not exceed high, got low=[5, 6]; assign the other bound first"),
    (lambda: setattr(Bounded(0, 1, (2,)).space, "high", [5, 6, 7]), ShapeError,
     "Bounded([2], float32, 0..1): high must broadcast to [2], got shape [3]"),
    (lambda: setattr(Unbounded((2,)).space, "low", 0), SpecError,
     "Unbounded([2], float32): has no low to assign, got 0; make a Bounded(low, high, shape)"),
    (lambda: Bounded(0, 1, (2,), domain="both"), SpecError,
     "Bounded: domain must be 'continuous' or 'discrete', got 'both'"),
    (lambda: Bounded(1, 0, (2,)), SpecError,
     "Bounded: low must not exceed high, got low=1, high=0; swap or raise them"),
    (lambda: Bounded(float("nan"), 0, (2,)), SpecError, "Bounded: low must not exceed high, got low=nan"),
    (lambda: Bounded(float("nan"), 0, (2,), dtype=torch.int64), SpecError,
     "Bounded: a bound must be a number, got nan"),
    # discrete values
    (lambda: Categorical(0), SpecError, "Categorical: n must be positive, or -1 for not known yet, got n=0"),
    (lambda: Categorical(-1).rand(), SpecError,
     "Categorical([], int64, n=-1): n is not known yet (n=-1); say how many values there are with "
     "set_provisional_n(n)"),
    (lambda: (s := Categorical(-1), s.set_provisional_n(3), s.update_mask([True, True, False]),
              s.set_provisional_n(4)), SpecError,
     "Categorical([], int64, n=-1, masked): its mask is for n=3 values, got n=4; take it away first, with "
     "update_mask(None)"),
    (lambda: Categorical(257).to(torch.uint8), SpecError,
     "Categorical([], int64, n=257).to: n=257 values do not fit dtype uint8, which holds 256; take a wider dtype"),
    (lambda: MultiCategorical([257]).to(torch.uint8), SpecError,
     "MultiCategorical([1], int64, n=257).to: n=257 values do not fit dtype uint8, which holds 256"),
    (lambda: Binary(3, shape=()), SpecError,
     "Binary: the last dimension must be n=3, got shape []; leave one of them out"),
    (lambda: Categorical(257, dtype=torch.uint8), SpecError,
     "Categorical: n=257 values do not fit dtype uint8, which holds 256; take a wider dtype"),
    (lambda: Categorical(3, dtype=torch.bool), SpecError,
     "Categorical: n=3 values do not fit dtype bool, which holds 2"),
    (lambda: MultiCategorical([2, 300], dtype=torch.uint8), SpecError,
     "MultiCategorical: n=300 values do not fit dtype uint8"),
    (lambda: Categorical(3, (2,), mask=mask("10")), SpecError,
     "Categorical([2], int64, n=3).update_mask: expected a mask that broadcasts to [2, 3], got shape [2]"),
    (lambda: Categorical(2, mask=mask("00")).rand(), SpecError,
     "Categorical([], int64, n=2, masked).rand: the mask allows no value at all in some element; allow one with "
     "update_mask(mask)"),
    (lambda: Categorical(2, (2,), mask=mask("10", "01")).enumerate(True), SpecError,
     "Categorical([2], int64, n=2, masked).enumerate: the masks of its elements differ, so there is no one list; index "
     "one element"),
    (Binary, SpecTypeError, "Binary: expected n (the length of the last dimension) or a shape, got neither; give one"),
    (lambda: Binary(2, (3,)), SpecError,
     "Binary: the last dimension must be n=2, got shape [3]; leave one of them out"),
    (lambda: Binary(2).update_mask(mask("10")), SpecError,
     "Binary([2], int8, n=2).update_mask: a binary spec has no mask; take to_categorical_spec()"),
    (lambda: OneHot(1, use_register=True).encode(["up", "down"]), NotInSpec,
     "OneHot([1], bool, n=1).encode: all 1 values are taken by ['up'], got 'down'"),
    (lambda: OneHot(3, use_register=True).encode({}), NotInSpec,
     "OneHot([3], bool, n=3).encode: a registered value must be hashable, got {}"),
    (lambda: OneHot(3, use_register=True).to_numpy(OneHot(3).rand()), NotInSpec,
     "stands for no value yet; registered are []"),
    (lambda: OneHot(0), SpecError, "OneHot: n must be an integer from 1 on, got 0"),
    (lambda: OneHot(3, (2,)), SpecError, "OneHot: the last dimension must be n=3, got shape [2]"),
    (lambda: OneHot(3).encode(3), NotInSpec, "OneHot([3], bool, n=3).encode: expected numbers in 0..2, got 3"),
    (lambda: MultiCategorical([2, 0]), SpecError,
     "MultiCategorical: every component needs at least one value (nvec >= 1), got nvec=[2, 0]"),
    (lambda: MultiCategorical([2, 3], (3,)), SpecError,
     "MultiCategorical: the shape must end in the shape of nvec [2], got shape [3]"),
    (lambda: MultiCategorical([[2, 3], [4, 1]], mask=mask("11111")), SpecError,
     "a mask needs the same nvec in every element of the batch, got [[2, 3], [4, 1]]; index one element first"),
    (lambda: unequal().enumerate(), SpecError, "enumerate needs the same nvec in every element of the batch"),
    (lambda: unequal().to_one_hot_spec(), SpecError,
     "to_one_hot_spec needs the same nvec in every element of the batch"),
    (lambda: unequal().to_one_hot(unequal().rand()), SpecError,
     "to_one_hot needs the same nvec in every element of the batch"),
    (lambda: unequal().index(unequal().rand(), torch.zeros(5)), SpecError,
     "index needs the same nvec in every element of the batch"),
    (lambda: MultiCategorical([2, 2], (2, 2), mask=mask("1011", "1110")).enumerate(True), SpecError,
     "nvec=[2, 2], masked).enumerate: the masks of its elements differ, so there is no one list; index one element"),
    (lambda: MultiOneHot([2, 3], use_register=True).encode(["a"]), ShapeError,
     "MultiOneHot([5], bool, nvec=[2, 3]).encode: expected 2 values, got ['a']"),
    (lambda: MultiOneHot([2, 3]).to_numpy(torch.zeros(4)), ShapeError,
     "MultiOneHot([5], bool, nvec=[2, 3]): expected vectors of length 5, got [4]"),
    (lambda: MultiCategorical([2, 3]).to_one_hot(torch.zeros(3)), ShapeError,
     "MultiCategorical([2], int64, nvec=[2, 3]).to_one_hot: expected 2 numbers per value, got [3]"),
    (lambda: Categorical(3).to_one_hot(torch.tensor(3)), NotInSpec,
     "Categorical([], int64, n=3).to_one_hot: expected numbers from 0 that are below n, got int64 [] in 3..3"),
    (lambda: MultiOneHot([]), SpecError, "MultiOneHot: expected the length of at least one vector, got nvec=[]"),
    (lambda: MultiOneHot([2, 0]), SpecError, "MultiOneHot: nvec[1] must be an integer from 1 on, got 0"),
    (lambda: MultiCategorical([2.5]), SpecError, "MultiCategorical: nvec must be whole numbers, got [2.5]"),
    (lambda: MultiCategorical([[2], [3, 4]]), SpecError,
     "MultiCategorical: nvec must be whole numbers in rows of one length, got [[2], [3, 4]]"),
    (lambda: MultiCategorical([2, 3], mask=mask("00111")).rand(), SpecError,
     "MultiCategorical([2], int64, nvec=[2, 3], masked).rand: the mask allows no value at all in some element; allow "
     "one with update_mask(mask)"),
    (lambda: Categorical(2.5), SpecError, "Categorical: n must be an integer from -1 on, got 2.5"),
    (lambda: OneHot(2.5), SpecError, "OneHot: n must be an integer from 1 on, got 2.5"),
    (lambda: Binary(-1), SpecError, "Binary: n must be an integer from 0 on, got -1"),
    (lambda: MultiOneHot([2, 3], (4,)), SpecError,
     "MultiOneHot: the last dimension must be sum(nvec)=5, got shape [4]"),
    (lambda: MultiOneHot([2, 3]).encode([1, 3]), NotInSpec,
     "MultiOneHot([5], bool, nvec=[2, 3]).encode: expected 2 numbers below [2, 3], got [1, 3]"),
    # no tensors, and choices
    (lambda: NonTensor((2,), batched=True, feature_dims=1), SpecError,
     "NonTensor: expected batched or feature_dims, got both, batched=True and feature_dims=1"),
    (lambda: NonTensor(()).from_unit(torch.zeros(())), Unsupported,
     "NonTensor([], e.g. None).from_unit: there are no random values, only the example data; use rand()"),
    (lambda: NonTensor(()).project(torch.zeros(())), NotInSpec,
     "NonTensor([], e.g. None): the value is not in the spec, got float32 [] in 0..0"),
    (lambda: Choice([]), SpecError, "Choice: expected at least one choice, got none"),
    (lambda: Choice("ab"), SpecTypeError, "Choice: expected a list of choices, got str; put them into one"),
    (lambda: Choice([torch.zeros(2)]), SpecTypeError,
     "Choice: expected specs or data that are no tensors, got Tensor; of tensors make a Categorical"),
    (lambda: Choice([Unbounded((2,)), Unbounded((3,))]), SpecError,
     "Choice: all choices must have the shape, dtype and device of Unbounded([2], float32), got Unbounded([3], "
     "float32)"),
    (lambda: Choice([NonTensorData("a")]).from_unit(torch.zeros(())), Unsupported,
     "Choice([], 1 choices).from_unit: one number does not make a value; use rand()"),
    (lambda: Choice([Binary(1)]).rand(rng=RowRNG(rows=[2])), Unsupported,
     "Choice([1], int8, 1 choices).rand: the rows of rng must be batch dimensions [] of the choice, got rows [2]; "
     "index one row of the rng, or expand the spec"),
    # composites
    (lambda: Composite({}, {}), SpecError,
     "Composite: expected at most one mapping of specs as a positional argument, got ['dict', 'dict']; name the "
     "entries, as in Composite(reward=spec)"),
    (lambda: Composite(shape=(2,), batch_size=(3,)), SpecTypeError,
     "Composite: shape and batch_size say the same thing, got shape=(2,) and batch_size=(3,); give one of them"),
    (lambda: Composite(a=Unbounded((2,)), shape=(3,)), ShapeError,
     "Composite: the shape of entry 'a' must begin with the batch size [3], got Unbounded([2], float32); expand the "
     "entry, or make the batch size shorter"),
    (lambda: Composite(a=Composite(shape=(2,)), shape=(3,)), ShapeError,
     "the batch size [3], got batch size [2]; expand"),
    (lambda: Unbounded("ab"), SpecTypeError, "a size is an int or a sequence of them, got 'ab'"),
    (lambda: Unbounded(True), SpecTypeError, "a size is an int or a sequence of them, got True"),
    (lambda: Unbounded({}), SpecTypeError, "a size is an int or a sequence of them, got {}"),
    (lambda: Composite(a=3), SpecTypeError, "Composite: entry 'a' must be a spec, a mapping or None, got int"),
    (lambda: setattr(Composite(a=Unbounded((2,))), "shape", (3,)), ShapeError,
     "Composite: cannot have shape [3], because entry 'a' has shape [2]; expand the composite, or replace the entry"),
    (lambda: Composite(space=Binary(1)), ReservedKey,
     "Composite: 'space' is a word for the composite itself; call the entry something else"),
    (lambda: Composite(obs=Binary(1))["shape"], ReservedKey,
     "Composite: no entry is called 'shape'; ask for spec.shape"),
    (lambda: Composite(obs=Binary(1))["obz"], KeyMissing, "Composite: no entry 'obz'; did you mean 'obs'?"),
    (lambda: Composite(a=Binary(1))["a", "b"], KeyMissing,
     "Composite: no entry ('a', 'b'), because 'b' would lie below Binary([1], int8, n=2)"),
    (lambda: Composite().set((), Binary(1)), KeyMissing, "Composite: a key has at least one name, got ()"),
    (lambda: Composite(a=Binary(1)).set(("a", "b"), Binary(1)), KeyMissing,
     "Composite: no entry ('a', 'b'), because 'a' is Binary([1], int8, n=2); only composites hold entries"),
    (lambda: Composite(a=Binary(1), shape=()).from_unit(torch.zeros(())), Unsupported,
     "Composite of shape [].from_unit: its entries take numbers of their own; draw with rand()"),
    (lambda: Composite(a=Binary(1)).assert_is_in(TensorDict({"b": torch.zeros(1)})), EntryMissing,
     "Composite.assert_is_in: entry 'a' (Binary([1], int8, n=2)) is missing; got ['b']"),
    (lambda: Composite(a=Binary(1)).assert_is_in(torch.zeros(1)), EntryMissing,
     "Composite.assert_is_in: entry 'a' (Binary([1], int8, n=2)) is missing; got Tensor"),
    (lambda: Composite(a=Binary(1)).expand(2).assert_is_in(LazyStackedTensorDict(TensorDict({}), stack_dim=0)),
     NotInSpec, "Composite: the batch size must end in [2], got a lazy stack of batch size [1]"),
    (lambda: Composite(a=Binary(1)).is_in(TensorDict({})), EntryMissing,
     "Composite.is_in: entry 'a' (Binary([1], int8, n=2)) is missing; got []"),
    (lambda: Composite(a=Binary(1)).type_check(TensorDict({})), EntryMissing,
     "Composite.type_check: entry 'a' (Binary([1], int8, n=2)) is missing; got []"),
    (lambda: Composite(a=Binary(1)).project(TensorDict({})), EntryMissing,
     "Composite.project: entry 'a' (Binary([1], int8, n=2)) is missing; got []"),
    (lambda: Composite(a=Binary(1), data_cls=Seen).assert_is_in(Composite(a=Binary(1)).rand()), NotInSpec,
     "Composite: expected a Seen, got TensorDict"),
    (lambda: Composite(a=Binary(1)).encode(None), SpecTypeError,
     "Composite.encode: expected a mapping of ['a'], got NoneType None"),
    (lambda: Composite(a=Unbounded(()), b=Unbounded(())).encode({"a": 1, "b": [1, 2]}), ShapeError,
     "Composite.encode: the entries must have the same leading dimensions, got {'a': [], 'b': [2]}"),
    (lambda: stack().flatten(1, 0), ShapeError,
     "Stacked of shape [2, -1], stacked along dimension 0.flatten: dimension 1 comes behind dimension 0; swap them"),
    (lambda: Composite().flatten(-2), BadIndex,
     "Composite of shape [].flatten: dimension -2 is out of range; it has no batch dimensions"),
    (lambda: OneHot(4, (2, 3, 4)).flatten(-2, -1), BadIndex,
     "OneHot([2, 3, 4], bool, n=4).flatten: dimension -1 belongs to single values; count from the front, over the 2"),
    (lambda: setattr(Composite(shape=(2,)), "names", ["a", "b"]), SpecError,
     "Composite.names: expected 1 names, one per batch dimension, got ['a', 'b']"),
    (lambda: Composite(shape=(2,), names=["a"]).refine_names("b"), SpecError,
     "Composite.refine_names: dimension 'a' has a name, got 'b' for it"),
    (lambda: locked().set("b", Binary(1)), LockedSpec,
     "Composite of shape []: cannot set 'b' in a locked spec; call unlock_() first, or assign the spec on the env "
     "(env.observation_spec = ...), which unlocks, writes and locks again"),
    (lambda: locked().pop("a"), LockedSpec, "Composite of shape []: cannot delete 'a' from a locked spec"),
    (lambda: setattr(locked(), "shape", (1,)), LockedSpec,
     "Composite of shape []: cannot change the shape of a locked spec"),
    (lambda: (held := locked(), held["deep"].unlock_()), LockedSpec,
     "Composite of shape []: cannot be unlocked while a composite that holds it is locked; unlock that one"),
    # stacks
    (lambda: Stacked(dim=0), SpecError, "Stacked: expected at least one spec, got none"),
    (lambda: Stacked(Unbounded(()), Unbounded((2,)), dim=0), ShapeError,
     "Stacked: the parts must have the same number of dimensions, got [[], [2]]"),
    (lambda: Stacked(Unbounded(()), dim=2), BadIndex,
     "Stacked: dimension 2 is out of range for 1 dimensions, the stacked one included"),
    (lambda: Stacked(Unbounded(()), Binary(shape=()), dim=0), SpecError,
     "Stacked: the specs must have one dtype and one device, got ['Unbounded([], float32)', 'Binary([], int8, n=2)']"),
    (lambda: stack().unbind(2), BadIndex,
     "Stacked of shape [2, -1], stacked along dimension 0: dimension 2 is out of range for 2 dimensions"),
    (lambda: stack().expand(3, 2), ShapeError,
     "Stacked of shape [2, -1], stacked along dimension 0: cannot be expanded to [3, 2]; the stacked dimension keeps "
     "its 2 parts"),
    (lambda: stack().permute(0, 0), ShapeError,
     "Stacked of shape [2, -1], stacked along dimension 0.permute: expected an order of its dimensions, got [0, 0]"),
    (lambda: stack().unbind(1), ShapeError,
     "Stacked of shape [2, -1], stacked along dimension 0.unbind: the parts have different sizes along dimension 1; "
     "unbind the parts"),
    (lambda: stack().make_neg_dim(0), Unsupported,
     "Stacked of shape [2, -1], stacked along dimension 0.make_neg_dim: the number of parts is known; take another "
     "dimension"),
    (lambda: pair()[[0], [1]], Unsupported,
     "Stacked of shape [2, 2], stacked along dimension 0: expected at most one tensor or list in an index, got "
     "(tensor([0]), tensor([1])); index twice"),
    (lambda: pair()[2], BadIndex,
     "Stacked of shape [2, 2], stacked along dimension 0: dimension 0: index 2 is out of range for size 2"),
    (lambda: stack().flatten(), Unsupported,
     "Stacked of shape [2, -1], stacked along dimension 0: flatten(0, -1) needs equal parts; pad them to equal shapes, "
     "or act on the parts"),
    (lambda: pair().enumerate(), Unsupported,
     "Stacked of shape [2, 2], stacked along dimension 0.enumerate: the parts have different values; enumerate the "
     "parts"),
    (lambda: pair().from_unit(torch.zeros(2)), Unsupported,
     "Stacked of shape [2, 2], stacked along dimension 0.from_unit: its parts take numbers of their own; draw with "
     "rand()"),
    (lambda: stack().rand((2,)), Unsupported,
     "Stacked of shape [2, -1], stacked along dimension 0: values of different shapes cannot be one tensor with "
     "leading dimensions; stack Composites instead of leaves, or pad the specs (marlenv.groups.group_specs(..., "
     "unequal='pad'))"),
    (lambda: Stacked(Categorical(3), Categorical(5), dim=0).encode([1, [[1], [2]]]), ShapeError,
     "Stacked of shape [2], stacked along dimension 0: the values of the parts must have the same number of "
     "dimensions, got [[], [2, 1]]"),
    (lambda: pair().encode([1]), ShapeError,
     "Stacked of shape [2, 2], stacked along dimension 0.encode: expected 2 parts along the stacked dimension, got "
     "list of 1"),
    (lambda: pair().project(torch.zeros(3, 2)), ShapeError,
     "project: expected 2 parts along the stacked dimension, got Tensor [3, 2]"),
    (lambda: team().encode([{"a": np.zeros((4, 2))}, {"a": np.zeros((5, 3))}]), ShapeError,
     "StackedComposite of shape [2], stacked along dimension 0.encode: the parts must have the same leading "
     "dimensions, got [[4], [5]]"),
    (lambda: setattr(team(), "shape", (3,)), Unsupported,
     "StackedComposite of shape [2], stacked along dimension 0: cannot have shape [3]; change the shape of the parts"),
    (lambda: team().zeros_update(TensorDict({}, [2])), ShapeError,
     "StackedComposite of shape [2], stacked along dimension 0.zeros_update: entries that differ between the parts "
     "need a lazy stack along dimension 0, got a TensorDict; take LazyStackedTensorDict(*parts, stack_dim=0)"),
    (lambda: Unbounded((2, 0)).reshape(-1, -1), ShapeError,
     "Unbounded([2, 0], float32).reshape: at most one size may be -1, got [-1, -1]"),
    (lambda: len(StackedComposite(Composite(shape=(-1,)), Composite(shape=(-1,)), dim=1)), SpecTypeError,
     "StackedComposite of shape [-1, 2], stacked along dimension 1: has no length, since its first dimension has no "
     "known size (-1)"),
    (lambda: team()["b"], KeyMissing, "StackedComposite: no entry 'b' in all parts; only the parts [1] have it"),
    (lambda: team().set("c", 3), SpecTypeError,
     "StackedComposite: entry 'c' must be a spec, a mapping or None, got int"),
    (lambda: team().set("c", Binary(1)), ShapeError,
     "StackedComposite: the shape of entry 'c' must begin with the batch size [2], got [1]"),
    (lambda: team().__delitem__("c"), KeyMissing, "StackedComposite: no entry 'c' in any part; all have ['a']"),
    # torch functions
    (lambda: torch.add(Unbounded((2,)), 1), Unsupported,
     "torch.add on a spec: not supported; specs take ['broadcast_to', 'clone', 'flatten', 'index_select', 'permute', "
     "'reshape', 'squeeze', 'stack', 'unbind', 'unflatten', 'unsqueeze']"),
    (lambda: torch.index_select(Unbounded((2,)), 0, torch.zeros(1, 1, dtype=torch.int64)), BadIndex,
     "torch.index_select of a spec: expected an index of one dimension, got [1, 1]"),
    (lambda: torch.index_select(Unbounded((2,)), 0, torch.tensor([-1])), BadIndex,
     "torch.index_select of a spec: expected numbers from 0 on, got [-1]"),
    (lambda: torch.stack([Binary(1)], out=Binary(1)), Unsupported,
     "torch.stack of specs: out=... is not supported; take the result"),
    (lambda: torch.stack([Binary(1), torch.zeros(1)]), SpecError,
     "torch.stack of specs: expected at least one spec and nothing else, got ['Binary', 'Tensor']"),
    (lambda: torch.stack([Binary(1), Binary(shape=(1, 1))]), ShapeError,
     "torch.stack of specs: they must have the same number of dimensions, got [[1], [1, 1]]"),
    (lambda: torch.stack([Binary(1)], 2), BadIndex,
     "torch.stack of specs: dimension 2 is out of range for 1 dimensions and a new one"),
    (lambda: torch.stack([Binary(1), Composite(shape=(1,))]), SpecError,
     "torch.stack of specs: composites and leaves do not stack, got ['Binary', 'Composite']"),
    # devices
    (lambda: usable_device("Hex.to", "banana"), DeviceError,
     "Hex.to: 'banana' is no device; use 'cpu', 'cuda', or 'cuda:1' for a certain GPU"),
    (lambda: usable_device("Hex.to", "cuda:99"), DeviceError,
     "Hex.to: device 'cuda:99' needs a CUDA device, and there "),
    (lambda: usable_device("Hex.to", "mtia"), DeviceError, "Hex.to: device 'mtia' cannot be used here; use 'cpu'"),
    # randomness
    (lambda: RowRNG.from_state(torch.zeros(2)), ShapeError,
     "RowRNG.from_state: expected int64 [*B, 2], got float32 [2]; take what RowRNG.state gave"),
    (lambda: RowRNG().randint(0.5, 3), SpecError,
     "RowRNG.randint: low and high must be integers, got low=0.5, high=3"),
    (lambda: RowRNG().randint(3, 3), SpecError,
     "RowRNG.randint: expected 1 to 2**31 integers in [low, high), got low=3, high=3"),
    (lambda: RowRNG().randint(0, 2**31 + 1), SpecError,
     "RowRNG.randint: expected 1 to 2**31 integers in [low, high), got low=0, high=2147483649"),
    (lambda: RowRNG(rows=[2]).choice(torch.ones(3)), ShapeError,
     "RowRNG.choice: the shape of the weights must be the rows [2] and what each chooses from, got [3]"),
]  # fmt: skip

ROOM = [*Path(marlenv.specs.__path__[0]).glob("*.py"), Path(marlenv.rng.__file__)]
BUILTINS = {BadIndex: IndexError, SpecTypeError: TypeError, EntryMissing: KeyError, ReservedKey: AttributeError,
            DeviceError: RuntimeError, SpecError: ValueError, ShapeError: ValueError, NotInSpec: AssertionError,
            DtypeError: TypeError, LockedSpec: RuntimeError, KeyMissing: KeyError,
            Unsupported: NotImplementedError}  # fmt: skip


@pytest.mark.parametrize(("act", "kind", "text"), ERRORS, ids=[text[:50] for *_, text in ERRORS])
def test_errors_say_who_what_and_what_to_do(act, kind, text):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        act()
    assert type(caught.value) is kind
    assert isinstance(caught.value, BUILTINS.get(kind, kind))


def raised_at(act: Callable[[], object]) -> tuple[str, int]:
    """File and line where the error of a call was raised."""
    try:
        act()
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) in ROOM]
        return frames[-1].filename, frames[-1].lineno or 0
    raise AssertionError("no error")


def test_every_raise_of_the_room_is_in_the_table():
    reached = {raised_at(act) for act, *_ in ERRORS}
    missing = []
    for file in ROOM:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and node.exc is not None:
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                if not any((str(file), line) in reached for line in lines):
                    missing.append(f"{file.name}:{node.lineno}: {ast.unparse(node.exc)[:80]}")
    assert not missing
