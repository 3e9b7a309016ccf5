"""Where specs differ from torchrl 0.14.1 on purpose: what marlenv does, and what torchrl really does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tensordict import NonTensorStack
from torch import Tensor

import marlenv as ours

theirs = pytest.importorskip("torchrl.data", reason="the oracle of this file")
from described import boxes, outcome, two  # noqa: E402  it imports torchrl

pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

MASK = torch.tensor([True, False, False, True])


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


def ends(k) -> bool:
    """Whether a locked composite lets an entry be deleted."""
    spec = k.Composite(a=k.Binary(1)).lock_()
    del spec["a"]
    return "a" not in spec.keys()


ON_PURPOSE = {  # statement: (what is done, what marlenv gives, what torchrl gives)
    # draws
    "infinite bounds draw normal numbers, not NaN": (
        lambda k: bool(drawn(k.Bounded(-math.inf, math.inf, (3,))).isnan().any()),
        False,
        True,
    ),
    "a half-line draws finite numbers, not inf": (
        lambda k: bool(drawn(k.Bounded(0, math.inf, (3,))).isinf().any()),
        False,
        True,
    ),
    "a huge range draws more than its upper end": (
        lambda k: len(drawn(k.Bounded(-3e38, 3e38, ())).unique()) > 1,
        True,
        False,
    ),
    "unbounded integers are drawn from the whole range, not its upper half": (
        lambda k: bool((drawn(k.Unbounded((), dtype=torch.int8)) < 0).any()),
        True,
        False,
    ),
    "stacks of unequal bounds draw with leading dimensions": (
        lambda k: tuple(torch.stack([k.Bounded(0, 1, (2,)), k.Bounded(0, 2, (2,))]).rand((3,)).shape),
        [3, 2, 2],
        "error",
    ),
    "one-hot specs draw with dynamic dimensions": (lambda k: tuple(k.OneHot(3, (-1, 3)).rand().shape), [1, 3], "error"),
    "composites with names draw with leading dimensions": (
        lambda k: k.Composite(a=k.Unbounded((2,)), shape=(2,), names=["x"]).rand((3,)).names,
        [None, "x"],
        "error",
    ),
    "multi-categorical values of a list of one have the component dimension": (
        lambda k: tuple(k.MultiCategorical([5]).rand().shape),
        [1],
        [],
    ),
    # checks
    "fewer dimensions than the spec are not in it": (
        lambda k: bool(k.Bounded(0, 1, (2,)).is_in(torch.zeros(()))),
        False,
        True,
    ),
    "another shape is not in the spec, and no error": (
        lambda k: k.Unbounded((2,)).is_in(torch.zeros(3)),
        False,
        "error",
    ),
    "a number out of range is not in a masked spec, and no error": (
        lambda k: k.Categorical(3, mask=torch.tensor([True, True, False])).is_in(torch.tensor(7)),
        False,
        "error",
    ),
    "a vector that sums to 1 need not be one-hot": (
        lambda k: bool(k.OneHot(3, dtype=torch.int64).is_in(torch.tensor([2, -1, 0]))),
        False,
        True,
    ),
    "two ones are not one-hot, with a mask either": (
        lambda k: bool(k.OneHot(3, mask=torch.tensor([True, True, False])).is_in(torch.tensor([True, True, False]))),
        False,
        True,
    ),
    "halves are not in a categorical spec of floats": (
        lambda k: bool(k.Categorical(3, dtype=torch.float32).is_in(torch.tensor(0.5))),
        False,
        True,
    ),
    "is_in gives a bool": (lambda k: isinstance(k.Bounded(0, 1, (1,)).is_in(torch.zeros(1)), bool), True, False),
    "float masks of one-hot vectors can be checked": (
        lambda k: bool(
            k.OneHot(3, dtype=torch.float32, mask=torch.tensor([True, True, False])).is_in(
                torch.tensor([0.0, 1.0, 0.0])
            )
        ),
        True,
        "error",
    ),
    "parameters of a dynamic dimension hold for any size": (
        lambda k: (s := k.Bounded(torch.zeros(2, 1), 9.0, (2, 1)), s.make_neg_dim(0), bool(s.is_in(torch.ones(7, 1))))[
            -1
        ],
        True,
        False,
    ),
    # projections
    "project takes the nearest value, not any": (projections, [3], [0, 3, 4]),
    "project reads no random numbers": (moves_global_rng, False, True),
    "project leaves no NaN": (
        lambda k: bool(k.Bounded(1, 2, (1,)).project(torch.tensor([math.nan])).isnan()),
        False,
        True,
    ),
    "project gives the dtype of the spec": (
        lambda k: str(k.Categorical(5).project(torch.tensor(2.7)).dtype),
        "torch.int64",
        "torch.float32",
    ),
    # translating
    "encode copies arrays, which simulators write into again": (aliased, False, True),
    "encode casts tensors": (
        lambda k: str(k.Unbounded((2,)).encode(torch.zeros(2, dtype=torch.float64)).dtype),
        "torch.float32",
        "torch.float64",
    ),
    "encode refuses numbers that the dtype does not hold": (
        lambda k: k.Categorical(200, (1,), dtype=torch.uint8).encode(np.array([300])).tolist(),
        "error",
        [44],
    ),
    "encode does not mix dimensions up": (
        lambda k: tuple(k.Unbounded((2, 3)).encode(np.zeros((3, 2))).shape),
        "error",
        [2, 3],
    ),
    "encode leaves one-hot tensors as they are": (
        lambda k: k.OneHot(3).encode(torch.tensor([False, True, False])).tolist(),
        [False, True, False],
        [[True, False, False], [False, True, False], [True, False, False]],
    ),
    "bfloat16 becomes a float32 array": (
        lambda k: str(k.Unbounded((2,), dtype=torch.bfloat16).to_numpy(torch.zeros(2, dtype=torch.bfloat16)).dtype),
        "float32",
        "error",
    ),
    "index of one vector gives one entry": (
        lambda k: k.OneHot(3).index(torch.tensor([False, True, False]), torch.arange(3)).tolist(),
        1,
        [1],
    ),
    "index works row by row": (
        lambda k: k.Categorical(3, (2,)).index(torch.tensor([1, 2]), torch.arange(6).reshape(2, 3)).tolist(),
        [1, 5],
        [[1, 2], [4, 5]],
    ),
    "index of multi-one-hot vectors works": (
        lambda k: (
            k.MultiOneHot([2, 3]).index(torch.tensor([True, False, False, True, False]), torch.arange(5)).tolist()
        ),
        [0, 3],
        "error",
    ),
    "index of multi-categorical numbers reads their own tables": (
        lambda k: k.MultiCategorical([2, 3]).index(torch.tensor([1, 2]), torch.arange(5)).tolist(),
        [1, 4],
        [1, 2],
    ),
    # leaves
    "the n of a binary spec is the one it was made with": (lambda k: k.Binary(3).n, 3, 2),
    "a binary spec is indexed like a tensor": (lambda k: tuple(k.Binary(3)[0].shape), [], "error"),
    "the ends of unbounded floats are infinite": (
        lambda k: float(k.Unbounded(()).space.low),
        -math.inf,
        torch.finfo(torch.float32).min,
    ),
    "an unbounded spec equals no bounded one": (
        lambda k: bool(k.Unbounded((1,), dtype=torch.uint8) == k.Bounded(0, 255, (1,), dtype=torch.uint8)),
        False,
        True,
    ),
    "a binary spec equals no categorical one": (
        lambda k: k.Binary(1) == k.Categorical(2, (1,), dtype=torch.int8),
        False,
        True,
    ),
    "bounds of NaN are refused": (lambda k: k.Bounded(math.nan, 1, (1,)) is None, "error", False),
    "low above high is refused": (lambda k: k.Bounded(2, 1, (1,)) is None, "error", False),
    "more values than the dtype holds are refused": (
        lambda k: k.Categorical(300, dtype=torch.uint8) is None,
        "error",
        False,
    ),
    "the examples of non-tensors with a batch are one per element": (
        lambda k: type(k.NonTensor((2, 3), batched=True).rand()) is NonTensorStack,
        True,
        False,
    ),
    "non-tensors of other shapes are unequal": (lambda k: k.NonTensor((2,)) == k.NonTensor((3,)), False, True),
    "cardinality of unequal rows counts one row": (
        lambda k: float(k.MultiCategorical([[2, 3], [4, 5]]).cardinality()),
        20.0,
        120.0,
    ),
    # shapes
    "squeeze() leaves a single dimension of size 1 no more": (
        lambda k: tuple(k.Unbounded((1,)).squeeze().shape),
        [],
        [1],
    ),
    "-1 in expand keeps a size, as in torch": (
        lambda k: tuple(k.Unbounded((1, 3)).expand(-1, 3).shape),
        [1, 3],
        [-1, 3],
    ),
    "flatten has the defaults of torch": (lambda k: tuple(k.Unbounded((2, 3)).flatten().shape), [6], "error"),
    "specs that differ in bounds stack densely": (
        lambda k: type(torch.stack([k.Bounded(0, 1, (2,)), k.Bounded(0, 2, (2,))])).__name__,
        "Bounded",
        "Stacked",
    ),
    "specs that differ in masks stack densely": (
        lambda k: type(torch.stack([k.Categorical(4, mask=MASK), k.Categorical(4)])).__name__,
        "Categorical",
        "Stacked",
    ),
    "masked multi-categorical specs expand": (
        lambda k: tuple(
            k.MultiCategorical([2, 2], (3, 2), mask=torch.tensor([True, False, True, True])).expand(4, 3, 2).shape
        ),
        [4, 3, 2],
        "error",
    ),
    "stacks are indexed along any dimension": (
        lambda k: tuple(torch.stack([k.Unbounded((4, 2)), k.Unbounded((4, 3))], 1)[0].shape),
        [2, -1],
        "error",
    ),
    "choices are indexed": (lambda k: tuple(boxes(k).expand(3, 2)[0].shape), [2], "error"),
    "each element of a batch makes its own choice": (
        lambda k: bool(boxes(k).expand(2, 2).is_in(torch.tensor([[0.5, 0.5], [4.5, 4.5]]))),
        True,
        False,
    ),
    "the one of a choice can be asked for": (
        lambda k: k.Choice([k.Categorical(3), k.Categorical(4)]).one().tolist(),
        1,
        "error",
    ),
    # composites
    "nested keys work with in": (lambda k: ("a", "b") in k.Composite(a=k.Composite(b=k.Binary(1))), True, False),
    "get without a default raises": (lambda k: k.Composite().get("a") is None, "error", False),
    "pop takes composites out": (
        lambda k: k.Composite(a=k.Composite(b=k.Binary(1))).pop("a").keys().__len__(),
        1,
        "error",
    ),
    "a locked composite refuses deleting": (ends, "error", True),
    "nested keys come behind their composite": (
        lambda k: list(k.Composite(a=k.Composite(b=k.Binary(1))).keys(True)),
        ["a", ["a", "b"]],
        [["a", "b"], "a"],
    ),
    "is_leaf stops the walk": (
        lambda k: len(k.Composite(a=k.Composite(b=k.Binary(1))).keys(True, True, is_leaf=lambda kind: True)),
        1,
        2,
    ),
    "is_empty(recurse=True) looks inside": (lambda k: k.Composite(a=k.Composite()).is_empty(recurse=True), True, False),
    "step_mdp_static_only lists static composites only": (
        lambda k: list(
            k.Composite(a=k.Composite(step_mdp_static=True), c=k.Binary(1)).keys(True, True, step_mdp_static_only=True)
        ),
        ["a"],
        ["a", "c"],
    ),
    "indexing keeps step_mdp_static": (
        lambda k: k.Composite(shape=(2,), step_mdp_static=True)[0].step_mdp_static,
        True,
        False,
    ),
    "entries are moved to the device of the composite": (
        lambda k: str(k.Composite(a=k.Unbounded((1,), device="meta"), device="cpu")["a"].device),
        "cpu",
        "error",
    ),
    "a composite made from another keeps its batch size": (
        lambda k: tuple(k.Composite(k.Composite(shape=(3,))).shape),
        [3],
        [],
    ),
    "nothing to choose is one choice": (lambda k: k.Composite().cardinality(), 1, 0),
    "iterating over a stack gives names": (lambda k: [isinstance(x, str) for x in two(k)], [True], [False]),
    "stacks count the values of their parts": (
        lambda k: torch.stack([k.Categorical(2), k.Categorical(3)]).cardinality(),
        6,
        "error",
    ),
}


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
