"""Hypothesis strategies: trees of groups, what their agents see, and data for it."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from marlenv.groups import Flags, GroupTree
from tensordict import NonTensorData

from marlenv import Bounded, Categorical, Composite, MultiCategorical, NonTensor, OneHot, Unbounded

LEAVES = {
    "observation": st.integers(1, 3).map(lambda n: Unbounded((n,))),
    "image": st.tuples(st.integers(1, 2), st.integers(1, 3)).map(
        lambda hw: Bounded(0, 255, (*hw, 3), dtype=torch.uint8)
    ),
    "count": st.just(Unbounded((), dtype=torch.int64)),
    "hot": st.integers(2, 4).map(OneHot),
    "choice": st.integers(1, 4).map(Categorical),
    "parts": st.integers(1, 3).map(lambda n: MultiCategorical([2] * n)),
    "far": st.just(Bounded(3.0, 4.0, (2,))),
}
TEXT = {"text": st.just(NonTensor((), example_data="none"))}


@st.composite
def trees(draw, max_agents: int = 7) -> GroupTree:
    """A tree of up to three levels; agents are called a0, a1, ... in a random order."""
    names = draw(st.permutations([f"a{i}" for i in range(draw(st.integers(1, max_agents)))]))

    def build(agents: list[str], depth: int) -> object:
        if len(agents) == 1 or depth == 3 or draw(st.booleans()):
            return agents
        cuts = draw(st.sets(st.integers(1, len(agents) - 1), min_size=1, max_size=2))
        ends = [0, *sorted(cuts), len(agents)]
        return {f"g{i}": build(agents[a:b], depth + 1) for i, (a, b) in enumerate(zip(ends, ends[1:], strict=False))}

    made = build(list(names), 0)
    return GroupTree(made if isinstance(made, dict) else {"agents": made})


@st.composite
def agent_specs(draw, tree: GroupTree, *, equal: bool = False, text: bool = True) -> dict[str, Composite]:
    """What every agent sees: some entries, one of them nested; the same in a group with ``equal``."""
    table = {**LEAVES, **(TEXT if text else {})}

    def one() -> Composite:
        names = draw(st.lists(st.sampled_from(sorted(table)), min_size=1, max_size=3, unique=True))
        spec = Composite({name: draw(table[name]) for name in names})
        if draw(st.booleans()):
            spec["info", "speed"] = Unbounded((2,))
        return spec

    out = {}
    for agents in tree.groups.values():
        shared = one()
        out |= {agent: shared.clone() if equal else one() for agent in agents}
    return out


def draw_data(specs: dict[str, Composite], agents: list[str], seed: int) -> dict[str, dict[str, object]]:
    """A value of every entry of some agents, as a simulator gives it: nested dicts of arrays, numbers and text."""
    generator = torch.Generator().manual_seed(seed)

    def plain(value: object) -> object:
        if isinstance(value, NonTensorData):
            return f"text {seed}"
        return value.numpy() if isinstance(value, torch.Tensor) else {k: plain(v) for k, v in value.items()}

    return {agent: plain(dict(specs[agent].rand(rng=generator).items())) for agent in agents}


def same(a: object, b: object) -> bool:
    """Whether two trees of dicts, arrays, numbers and text are equal."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, str):
        return a == b
    return np.shape(a) == np.shape(b) and np.array_equal(np.asarray(a), np.asarray(b))


@st.composite
def flags(draw, shape: tuple[int, ...]) -> Flags:
    """Terminated and truncated flags of a shape."""
    count = int(np.prod(shape))
    bits = [torch.tensor(draw(st.lists(st.booleans(), min_size=count, max_size=count))).reshape(shape) for _ in "ab"]
    return Flags(*(b.bool() for b in bits))
