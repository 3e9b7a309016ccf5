"""Random specs, random calls: both libraries make them, and the results, or the classes of the errors, are compared.

    python tests/specs/differential.py --cases 50000           # what is different and unexplained; exit status 1 if any
    python tests/specs/differential.py --only 1234             # one case, in full

What differs for a reason is a row of ``docs/specs-differences.md``; ``differences.py`` recognises it.
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import torch
import torchrl.data as theirs
from random_calls import CALLS
from random_specs import Recipe, build, spec
from tensordict import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDictBase
from torch import Size, Tensor

import marlenv as ours
from marlenv.specs.discrete import Discrete

IGNORED: set[str] = set()
"""Attributes of specs that are not compared while a row is tried."""
RANDOM = {"rand", "sample", "rand_update", "set_provisional_n"}
"""Calls whose numbers are not compared."""


@dataclass
class Case:
    """One call in both libraries."""

    number: int
    recipe: Recipe
    call: str
    args: Any = None
    mine: Any = None
    other: Any = None
    has: set[str] = field(default_factory=set)
    """Words for what is in the spec."""
    family: str = ""
    spec: Any = None
    """Ours, before the call."""

    @property
    def kind(self) -> str:
        """Who refuses, or that both do, or that both answer."""
        refused = isinstance(self.mine, Exception), isinstance(self.other, Exception)
        return {(True, True): "errors", (True, False): "we refuse", (False, True): "they refuse"}.get(
            refused, "answers"
        )

    def __str__(self) -> str:
        case = f"case {self.number}: {self.family} {sorted(self.has)} .{self.call} {self.args!r}"
        return f"{case}\n  recipe {self.recipe}\n  ours   {_brief(self.mine)}\n  theirs {_brief(self.other)}"


def _brief(x: Any) -> str:
    text = outcome(repr, x)  # torchrl cannot print stacks of different entries
    return f"{type(x).__name__}: {x}"[:500] if isinstance(x, Exception) else " ".join(str(text)[:900].split())[:500]


def _group(case: Case) -> str:
    """What cases are listed together by."""
    error = case.other if isinstance(case.other, Exception) else case.mine
    return f"{type(error).__name__} {str(error)[:40]}" if isinstance(error, Exception) else case.family


# --- words ---------------------------------------------------------------------------------------


def leaves(spec: Any) -> Any:
    """Every leaf below our spec, and the specs that hold them."""
    yield spec
    for part in getattr(spec, "parts", None) or getattr(spec, "choices", ()):
        yield from leaves(part)
    if isinstance(spec, ours.Composite) and not hasattr(spec, "parts"):
        for below in spec.values():
            if below is not None:
                yield from leaves(below)


def words(spec: Any) -> set[str]:
    """What is in our spec."""
    has = set()
    for one in leaves(spec):
        has.add(type(one).__name__)
        has |= {"dynamic"} if -1 in one.shape else set()
        has |= {"empty"} if 0 in one.shape else set()
        has |= {"scalar"} if not one.shape else set()
        has |= {"masked"} if getattr(one, "mask", None) is not None else set()
        has |= {"bool"} if one.dtype == torch.bool else set()
        has |= {"float discrete"} if isinstance(one, Discrete) and one.dtype.is_floating_point else set()
        has |= {"n=-1"} if type(one) is ours.Categorical and one._n < 0 else set()
        if isinstance(one, ours.MultiCategorical):
            rows = one.nvec.reshape(-1, one.nvec.shape[-1])
            has |= {"unequal nvec"} if bool((rows != rows[:1]).any()) else set()
        if isinstance(one, ours.Bounded) and one.dtype.is_floating_point and bool(one.high.isinf().any()):
            has.add("infinite")
        if isinstance(one, ours.Composite) and one.names != [None] * one.ndim:
            has.add("names")
        if isinstance(one, ours.Composite) and not list(one):
            has.add("no entries")
        if type(one) is ours.Composite and any(s is None for s in one.values()):
            has.add("None")
    return has


def lazy(spec: Any) -> Any:
    """For every spec below one of theirs, whether it is a lazy stack."""
    yield isinstance(spec, (theirs.Stacked, theirs.StackedComposite))
    for below in getattr(spec, "_specs", {}).values() if type(spec) is theirs.Composite else ():
        yield from lazy(below)


# --- sameness ------------------------------------------------------------------------------------


def family(x: Any) -> str:
    return type(x).__name__.removesuffix("Continuous").removesuffix("Discrete")


def same(mine: Any, other: Any, numbers: bool = True) -> bool:
    """Whether two results are equal: kinds, shapes, dtypes, and numbers if asked."""
    if isinstance(mine, ours.TensorSpec) or isinstance(other, theirs.TensorSpec):
        return isinstance(mine, ours.TensorSpec) and isinstance(other, theirs.TensorSpec) and same_spec(mine, other)
    if isinstance(mine, (NonTensorData, NonTensorStack)):
        return type(mine) is type(other) and (mine.batch_size, mine.tolist()) == (other.batch_size, other.tolist())
    if isinstance(mine, TensorDictBase) and isinstance(other, TensorDictBase):
        return same_dict(mine, other, numbers)
    if isinstance(mine, Tensor) and isinstance(other, Tensor):
        return same_tensor(mine, other, numbers)
    if isinstance(mine, np.ndarray) and isinstance(other, np.ndarray):
        return (
            mine.shape == other.shape
            and mine.dtype == other.dtype
            and np.array_equal(mine, other, equal_nan=mine.dtype.kind == "f")
        )
    if isinstance(mine, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(mine) == len(other) and all(same(a, b, numbers) for a, b in zip(mine, other, strict=True))
    if isinstance(mine, dict) and isinstance(other, dict):
        return mine.keys() == other.keys() and all(same(mine[name], other[name], numbers) for name in mine)
    if isinstance(mine, (np.generic, Tensor)) or isinstance(other, (np.generic, Tensor)):
        return type(mine) is type(other) and bool(mine == other)
    return type(mine) is type(other) and bool(mine == other)


def same_tensor(mine: Tensor, other: Tensor, numbers: bool) -> bool:
    if mine.is_nested or other.is_nested:
        return mine.is_nested and other.is_nested and same(mine.unbind(), other.unbind(), numbers)
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return False
    return not numbers or bool(((mine == other) | ((mine != mine) & (other != other))).all())


def same_dict(mine: Any, other: Any, numbers: bool) -> bool:
    if mine.batch_size != other.batch_size:
        return False
    if isinstance(mine, LazyStackedTensorDict) or isinstance(other, LazyStackedTensorDict):
        dim = (mine if isinstance(mine, LazyStackedTensorDict) else other).stack_dim
        return same(mine.unbind(dim), other.unbind(dim), numbers)
    names = set(mine.keys())
    return names == set(other.keys()) and all(
        same(mine._get_str(n, None), other._get_str(n, None), numbers) for n in names
    )


def same_spec(mine: Any, other: Any) -> bool:
    """Whether two specs say the same; a dense one equals a lazy one of the same rows."""
    if mine.shape != other.shape and not isinstance(other, (theirs.Stacked, theirs.StackedComposite)):
        return False
    if isinstance(other, (theirs.Stacked, theirs.StackedComposite)):
        if mine.ndim != other.ndim or len(other._specs) != mine.shape[other.dim]:
            return False
        return same(mine.unbind(other.dim), other._specs)
    if isinstance(mine, (ours.Stacked, ours.StackedComposite)):
        return same(mine.unbind(mine.dim), other.unbind(mine.dim))
    if ("device" not in IGNORED and str(mine.device) != str(other.device)) or family(mine) != family(other):
        return False
    if isinstance(mine, ours.Composite):
        names = set(mine.keys())
        return (
            names == set(other.keys())
            and ("names" in IGNORED or mine.names == other.names)
            and all(same(mine[n], other[n]) for n in names)
        )
    if mine.dtype != other.dtype or ("domain" not in IGNORED and mine.domain != other.domain):
        return False
    if isinstance(mine, ours.Choice):
        return same(mine.choices, other._choices) or not isinstance(other._choices[0], theirs.TensorSpec)
    if isinstance(mine, ours.Categorical) and hasattr(mine, "_n") and mine._n != other.space.n:
        return False
    return all(
        same(getattr(mine, a, None), getattr(other, a, None)) for a in PARTS.get(family(mine), ()) if a not in IGNORED
    )


PARTS = {
    "Bounded": ("low", "high"),
    "Categorical": ("mask",),
    "OneHot": ("mask", "n"),
    "MultiCategorical": ("mask", "nvec"),
    "MultiOneHot": ("mask",),
    "NonTensor": ("example_data", "batched", "feature_dims"),
}


def agrees(case: Case) -> bool:
    """Whether the libraries agree: equal results, or an error of ours that catches theirs."""
    if case.kind == "errors":
        return isinstance(case.mine, type(case.other))
    return case.kind == "answers" and alike(case)


def alike(case: Case, *ignored: str) -> bool:
    """Whether the results are the same, but for some attributes of the specs in them."""
    IGNORED.update(ignored)
    try:
        return outcome(same, case.mine, case.other, case.call not in RANDOM) is True
    finally:
        IGNORED.clear()


# --- running -------------------------------------------------------------------------------------


def outcome(act: Any, *args: Any) -> Any:
    try:
        return act(*args)
    except Exception as error:  # whatever it is, it is compared
        return error


def copied(x: Any) -> Any:
    """Arguments that share no memory with others; copy.deepcopy knows no nested tensors."""
    if isinstance(x, (Tensor, TensorDictBase, NonTensorData)):
        return x.clone()
    if isinstance(x, (list, tuple)) and not isinstance(x, Size):
        return type(x)(copied(one) for one in x)
    if isinstance(x, dict):
        return {name: copied(one) for name, one in x.items()}
    return copy.deepcopy(x)


def run(number: int, seed: int = 0) -> Case | None:
    """A case by its number; None where the spec cannot be made by either."""
    r = Random(f"{seed}:{number}")
    torch.manual_seed(number)
    recipe = spec(r)
    mine, other = outcome(build, ours, recipe), outcome(build, theirs, recipe)
    if isinstance(mine, Exception) or isinstance(other, Exception):
        return Case(number, recipe, "make", None, mine, other, set(), recipe[0])
    names = [name for name, call in CALLS.items() if call.takes(mine)]
    name = r.choice(names)
    args = outcome(CALLS[name].arguments, r, mine)
    if isinstance(args, Exception):
        return None
    case = Case(number, recipe, name, args, has=words(mine), family=type(mine).__name__, spec=mine.clone())
    case.has |= {"lazy"} if any(lazy(other)) else set()
    case.mine = outcome(CALLS[name].act, ours, mine, *copied(args))
    case.other = outcome(CALLS[name].act, theirs, other, *copied(args))
    return case


def campaign(numbers: range, seed: int = 0) -> tuple[Counter[str], dict[str, list[Case]]]:
    """How often each row of the table was met, and what no row explains, by call and kind."""
    from differences import explained

    met: Counter[str] = Counter()
    unexplained: dict[str, list[Case]] = defaultdict(list)
    with warnings.catch_warnings(action="ignore"):
        for number in numbers:
            case = run(number, seed)
            met["calls"] += 1
            if case is None:
                met["no arguments"] += 1
            elif agrees(case):
                met["agree"] += 1
            elif row := explained(case):
                met[row] += 1
            else:
                unexplained[f"{case.call} | {case.kind} | {_group(case)}"].append(case)
    return met, unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--show", type=int, default=1, help="examples per group")
    told = parser.parse_args()
    if told.only is not None:
        with warnings.catch_warnings(action="ignore"):
            print(run(told.only, told.seed))
        return 0
    met, unexplained = campaign(range(told.start, told.start + told.cases), told.seed)
    for row, count in met.most_common():
        print(f"{count:7d}  {row}")
    for group, cases in sorted(unexplained.items(), key=lambda item: -len(item[1])):
        print(f"\n=== {len(cases)} x {group}")
        for case in cases[: told.show]:
            print(case)
    print(f"\n{sum(map(len, unexplained.values()))} unexplained differences in {met['calls']} calls")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
