"""Every kind of spec, in the forms that go wrong: one list, and all property tests of specs run over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import NamedTuple

import torch
from tensordict import NonTensorData

from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
)


class Example(NamedTuple):
    """A spec with a name. Specs can be changed in place, so everybody makes their own.

    >>> SPECS[0].make()
    Bounded([2], float32, -1..1)
    """

    name: str
    make: Callable[[], TensorSpec]

    def classes(self) -> set[type[TensorSpec]]:
        """The classes of the spec and of all specs inside."""
        return {type(spec) for spec in inside(self.make())}


def inside(spec: TensorSpec) -> Iterator[TensorSpec]:
    """A spec and all specs inside it."""
    yield spec
    held = list(spec.values()) if isinstance(spec, Composite) else []
    held += spec.parts if isinstance(spec, (Stacked, StackedComposite)) else []
    held += spec.choices if isinstance(spec, Choice) else []
    for one in held:
        if one is not None:
            yield from inside(one)


def mask(*rows: str) -> torch.Tensor:
    """A mask from text, ``1`` is allowed.

    >>> mask("10", "11")
    tensor([[ True, False],
            [ True,  True]])
    """
    flags = torch.tensor([[letter == "1" for letter in row] for row in rows])
    return flags[0] if len(rows) == 1 else flags


def _dynamic(spec: TensorSpec, dim: int) -> TensorSpec:
    return spec.make_neg_dim(dim)


def _deep() -> Composite:
    """Three levels, batch and agent dimensions, a mask at the bottom."""
    wolf = Composite(
        observation=Composite(
            image=Bounded(0, 255, (4, 3, 2, 2), dtype=torch.uint8), speed=Unbounded((4, 3, 2)), shape=(4, 3)
        ),
        action=Categorical(3, (4, 3), mask=mask("110", "011", "111")),
        shape=(4, 3),
    )
    done = Binary(1, (4, 1), dtype=torch.bool)
    return Composite(wolves=wolf, reward=Unbounded((4, 1)), done=done, terminated=done.clone(), shape=(4,))


def _exclusive() -> TensorSpec:
    """Agents that see and do different things; the second has an entry of its own."""
    bird = Composite(obs=Bounded(-1, 1, (4, 2)), act=Categorical(3, (4,)), shape=(4,))
    crab = Composite(obs=Bounded(-1, 1, (4, 5)), act=Categorical(4, (4,)), claws=OneHot(2, (4, 2)), shape=(4,))
    return StackedComposite(bird, crab, dim=1)


FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

SPECS = [
    # numbers between bounds
    Example("bounded", lambda: Bounded(-1, 1, (2,))),
    Example("bounded scalar", lambda: Bounded(0, 1, ())),
    Example("bounded per element", lambda: Bounded([[-1.0, 0.0], [2.0, 3.0]], [[1.0, 0.0], [5.0, 9.0]])),
    Example("bounded batch", lambda: Bounded(torch.tensor([0.0, -5.0]), 3, (4, 3, 2))),
    Example("bounded infinite", lambda: Bounded(-inf, inf, (3,))),
    Example("bounded half-infinite", lambda: Bounded([-inf, 0.0, 1e3], [0.0, inf, inf])),
    Example("bounded huge", lambda: Bounded(-3e38, 3e38, (3,))),
    Example("bounded narrow", lambda: Bounded(1.0, 1.0 + 2**-23, (3,))),
    Example("bounded a point", lambda: Bounded(2.5, 2.5, (3,))),
    Example("bounded on a device", lambda: Bounded(-1, 1, (2,), device="cpu")),
    Example("bounded empty", lambda: Bounded(-1, 1, (0, 2))),
    Example("bounded dynamic", lambda: Bounded(-1, 1, (-1, 2))),
    Example("bounded made dynamic", lambda: _dynamic(Bounded([[0.0, 1.0]], [[1.0, 2.0]], (3, 2)), 0)),
    *[Example(f"bounded {str(d)[6:]}", partial(Bounded, -2, 3, (2, 3), dtype=d)) for d in FLOATS],
    *[Example(f"bounded {str(d)[6:]}", partial(Bounded, 0, 7, (2, 3), dtype=d)) for d in WHOLE],
    Example("bounded bool", lambda: Bounded(False, True, (3,), dtype=torch.bool)),
    Example("bounded whole int64", lambda: Bounded(-(2**63), 2**63 - 1, (3,), dtype=torch.int64)),
    Example("bounded far int64", lambda: Bounded(2**62, 2**62 + 9, (3,), dtype=torch.int64)),
    # any number
    *[Example(f"unbounded {str(d)[6:]}", partial(Unbounded, (2, 3), dtype=d)) for d in (*FLOATS, *WHOLE, torch.bool)],
    Example("unbounded scalar", lambda: Unbounded(())),
    Example("unbounded batch", lambda: Unbounded((4, 3, 2))),
    Example("unbounded dynamic", lambda: Unbounded((3, -1, 2))),
    # one of n, as a number
    Example("categorical", lambda: Categorical(5)),
    Example("categorical batch", lambda: Categorical(5, (4, 3))),
    Example("categorical mask", lambda: Categorical(4, mask=mask("0110"))),
    Example("categorical masks", lambda: Categorical(3, (2,), mask=mask("100", "011"))),
    Example("categorical batch masks", lambda: Categorical(3, (4, 2), mask=mask("100", "011"))),
    Example("categorical one value", lambda: Categorical(1, (3,))),
    Example("categorical bool", lambda: Categorical(2, (3,), dtype=torch.bool)),
    Example("categorical uint8", lambda: Categorical(256, (3,), dtype=torch.uint8)),
    Example("categorical float", lambda: Categorical(4, (3,), dtype=torch.float32)),
    Example("categorical many", lambda: Categorical(1 << 30, (3,))),
    Example("categorical dynamic", lambda: _dynamic(Categorical(3, (2, 2), mask=mask("110")), 0)),
    Example("binary", lambda: Binary(3)),
    Example("binary batch", lambda: Binary(shape=(4, 3, 1), dtype=torch.bool)),
    Example("binary scalar", lambda: Binary(shape=())),
    Example("binary float", lambda: Binary(2, dtype=torch.float32)),
    # one of n, as a vector
    Example("one-hot", lambda: OneHot(4)),
    Example("one-hot batch", lambda: OneHot(4, (3, 2, 4))),
    Example("one-hot mask", lambda: OneHot(3, mask=mask("011"))),
    Example("one-hot masks", lambda: OneHot(3, (2, 3), mask=mask("100", "011"))),
    Example("one-hot int64", lambda: OneHot(3, (2, 3), dtype=torch.int64)),
    Example("one-hot float", lambda: OneHot(3, dtype=torch.float32)),
    Example("one-hot dynamic", lambda: OneHot(3, (-1, 3))),
    # several choices at once
    Example("multi-categorical", lambda: MultiCategorical([2, 3, 4])),
    Example("multi-categorical batch", lambda: MultiCategorical([2, 3], (4, 3, 2))),
    Example("multi-categorical single", lambda: MultiCategorical([5])),
    Example("multi-categorical unequal rows", lambda: MultiCategorical([[2, 3], [4, 1]])),
    Example("multi-categorical mask", lambda: MultiCategorical([2, 3], mask=mask("01101"))),
    Example("multi-categorical masks", lambda: MultiCategorical([2, 3], (2, 2), mask=mask("10100", "11011"))),
    Example("multi-categorical uint8", lambda: MultiCategorical([2, 200], dtype=torch.uint8)),
    Example("multi-one-hot", lambda: MultiOneHot([2, 3])),
    Example("multi-one-hot batch", lambda: MultiOneHot([2, 3], (4, 3, 5))),
    Example("multi-one-hot masks", lambda: MultiOneHot([2, 3], (2, 5), mask=mask("10100", "11011"))),
    Example("multi-one-hot int8", lambda: MultiOneHot([2, 2], dtype=torch.int8)),
    # not a tensor
    Example("non-tensor", lambda: NonTensor((), example_data="e2e4")),
    Example("non-tensor batch", lambda: NonTensor((2, 3), example_data={"board": 1})),
    Example("non-tensor batched", lambda: NonTensor((2, 3), example_data="e2e4", batched=True)),
    Example("non-tensor features", lambda: NonTensor((2, 3), example_data="e2e4", feature_dims=1)),
    # one of several specs
    Example("choice", lambda: Choice([Bounded(0, 1, (2,)), Bounded(4, 5, (2,))])),
    Example("choice of numbers", lambda: Choice([Categorical(3), Categorical(5, mask=mask("00001"))])),
    Example("choice of text", lambda: Choice([NonTensorData("a"), NonTensorData("b")])),
    Example("choice batch", lambda: Choice([Bounded(0, 1, (2,)), Bounded(4, 5, (2,))]).expand(4, 2)),
    # side by side
    Example("stacked sizes", lambda: Stacked(Unbounded((2,)), Unbounded((3,)), dim=0)),
    Example("stacked values", lambda: Stacked(Categorical(3, (2,)), Categorical(5, (2,)), dim=1)),
    Example("stacked batch", lambda: Stacked(Categorical(3, (4,)), Categorical(5, (4,)), dim=1)),
    Example("stacked composite", _exclusive),
    Example(
        "stacked composite first",
        lambda: StackedComposite(Composite(x=Unbounded((2,))), Composite(x=Unbounded((3,))), dim=0),
    ),
    # named collections
    Example("composite", lambda: Composite(observation=Unbounded((3,)), action=Bounded(-1, 1, (2,)))),
    Example("composite empty", lambda: Composite(shape=(2,))),
    Example("composite deep", _deep),
    Example("composite on a device", lambda: Composite(x=Unbounded((2,)), shape=(), device="cpu")),
    Example("composite named", lambda: Composite(x=Unbounded((2, 3)), shape=(2,), names=["agents"])),
    Example("composite with a hole", lambda: Composite(x=Unbounded((2,)), y=None)),
    Example(
        "composite with text",
        lambda: Composite(x=Unbounded((2, 1)), fen=NonTensor((2,), example_data="8/8"), shape=(2,)),
    ),
    Example("composite dynamic", lambda: Composite(x=Unbounded((-1, 2)), y=Categorical(3, (-1,)), shape=(-1,))),
    Example("composite of stacks", lambda: Composite(team=_exclusive(), step=Unbounded((4, 1)), shape=(4,))),
]
