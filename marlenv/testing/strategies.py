"""Hypothesis strategies: shapes, specs, values of a spec, and agents in nested groups.

Needs hypothesis, which comes with the extra ``test``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from marlenv.optional import need
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
    TensorSpec,
    Unbounded,
)
from marlenv.testing.catalogue.specs import inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
else:
    need("hypothesis", "marlenv.testing.strategies")
    st = need("hypothesis.strategies", "marlenv.testing.strategies")

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE = (torch.uint8, torch.int8, torch.int32, torch.int64)
NAMES = ("observation", "action", "reward", "done", "state", "info")


def shapes(max_dims: int = 3, max_side: int = 4, min_dims: int = 0, min_side: int = 1) -> SearchStrategy[Size]:
    """Shapes with few and short dimensions.

    >>> shapes(max_dims=0).example()  # doctest: +SKIP
    torch.Size([])
    """
    return st.lists(st.integers(min_side, max_side), min_size=min_dims, max_size=max_dims).map(Size)


def masks(shape: Size, n: int) -> SearchStrategy[Tensor]:
    """Bool ``[*shape, n]`` with at least one True along the last dimension."""

    def build(seed: int) -> Tensor:
        g = torch.Generator().manual_seed(seed)
        out = torch.rand((*shape, n), generator=g) < 0.5
        sure = torch.randint(n, shape, generator=g)
        return out.scatter(-1, sure.unsqueeze(-1), True)

    return st.integers(0, 2**32 - 1).map(build)


@st.composite
def bounded(draw: Any, shape: Size) -> Bounded:
    """Numbers between bounds, the same everywhere or not, finite or not; of any dtype."""
    dtype = draw(st.sampled_from((*FLOATS, *WHOLE)))
    if dtype.is_floating_point:
        ends = st.one_of(st.floats(-1e3, 1e3, width=16), st.sampled_from([0.0, float("-inf"), float("inf")]))
    else:
        info = torch.iinfo(dtype)
        ends = st.one_of(st.integers(max(info.min, -50), min(info.max, 50)), st.sampled_from([info.min, info.max]))
    if draw(st.booleans()):
        low, high = sorted([draw(ends), draw(ends)])
    else:
        pairs = [sorted([draw(ends), draw(ends)]) for _ in range(shape.numel())]
        low, high = (torch.tensor([p[i] for p in pairs], dtype=dtype).reshape(shape) for i in (0, 1))
    return Bounded(low, high, shape, dtype=dtype)


@st.composite
def discrete(draw: Any, shape: Size) -> TensorSpec:
    """Categorical, OneHot, their Multi forms or Binary, masked or not; ``shape`` are the batch dimensions."""
    kind = draw(st.sampled_from([Categorical, OneHot, MultiCategorical, MultiOneHot, Binary]))
    masked = draw(st.booleans())
    if kind is Binary:
        return Binary(shape=(*shape, draw(st.integers(1, 4))), dtype=draw(st.sampled_from([torch.bool, torch.int8])))
    if kind in (Categorical, OneHot):
        n = draw(st.integers(1, 6))
        mask = draw(masks(shape, n)) if masked else None
        if kind is OneHot:
            return OneHot(
                n, (*shape, n), dtype=draw(st.sampled_from([torch.bool, torch.int64, torch.float32])), mask=mask
            )
        return Categorical(n, shape, dtype=draw(st.sampled_from([torch.int64, torch.uint8, torch.int32])), mask=mask)
    nvec = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    mask = torch.cat([draw(masks(shape, n)) for n in nvec], -1) if masked else None
    if kind is MultiOneHot:
        return MultiOneHot(nvec, (*shape, sum(nvec)), dtype=draw(st.sampled_from([torch.bool, torch.int8])), mask=mask)
    return MultiCategorical(nvec, (*shape, len(nvec)), mask=mask)


def leaves(shape: Size = Size(), tensors_only: bool = False) -> SearchStrategy[TensorSpec]:  # noqa: B008
    """Specs that are not composites, whose shape begins with ``shape``.

    Args:
        shape: the batch dimensions.
        tensors_only: without NonTensor and Choice.
    """
    tail = shapes(2, 3)
    kinds: list[SearchStrategy[TensorSpec]] = [
        tail.flatmap(lambda event: bounded(Size((*shape, *event)))),
        st.builds(
            lambda event, dtype: Unbounded((*shape, *event), dtype=dtype), tail, st.sampled_from((*FLOATS, *WHOLE))
        ),
        discrete(shape),
    ]
    if not tensors_only:
        kinds.append(st.text(max_size=3).map(lambda text: NonTensor(shape, example_data=text)))
        pair = st.integers(1, 3).map(lambda n: Choice([Bounded(0, 1, (n,)), Bounded(4, 5, (n,))]))
        kinds.append(pair.map(lambda spec: spec.expand(*shape, *spec.shape)))
    return st.one_of(*kinds)


def composites(shape: Size = Size(), depth: int = 2, tensors_only: bool = False) -> SearchStrategy[Composite]:  # noqa: B008
    """Nested composites whose batch size is ``shape``; inner ones may have more batch dimensions."""
    entries: SearchStrategy[TensorSpec] = leaves(shape, tensors_only)
    if depth > 1:
        inner = shapes(1, 3).flatmap(lambda more: composites(Size((*shape, *more)), depth - 1, tensors_only))
        entries = st.one_of(entries, inner)
    held = st.dictionaries(st.sampled_from(NAMES), entries, max_size=4)
    return held.map(lambda specs: Composite(specs, shape=shape))


def specs(shape: Size | None = None, tensors_only: bool = False) -> SearchStrategy[TensorSpec]:
    """Any spec: leaves and nested composites.

    Args:
        shape: what the shape begins with; anything when left out.
        tensors_only: without NonTensor and Choice.
    """

    def of(lead: Size) -> SearchStrategy[TensorSpec]:
        return st.one_of(leaves(lead, tensors_only), composites(lead, tensors_only=tensors_only))

    return shapes(2, 3).flatmap(of) if shape is None else of(shape)


def values(spec: TensorSpec, lead: Size = Size()) -> SearchStrategy[Any]:  # noqa: B008
    """Values of a spec, ``[*lead, *spec.shape]``, by a seed that shrinks."""

    def build(seed: int) -> Any:
        return spec.rand(lead, rng=torch.Generator().manual_seed(seed))

    return st.integers(0, 2**32 - 1).map(build)


def anything(spec: TensorSpec, lead: Size = Size()) -> SearchStrategy[Tensor]:  # noqa: B008
    """Tensors that fit a leaf's shape, in or outside the spec: other dtypes, NaN, infinite, negative, huge."""
    shape = Size((*lead, *(max(n, 1) for n in spec.shape)))
    odd = torch.tensor([0.0, 1.0, -1.0, 0.4, 2.6, 7.0, -1e9, 1e30, float("inf"), float("-inf"), float("nan")])
    whole = torch.tensor([0, 1, -1, 2, 5, 77, 255, 256, -(2**31), 2**62, -(2**63)])

    def build(seed: int, pool: Tensor, dtype: torch.dtype) -> Tensor:
        picked = torch.randint(len(pool), shape, generator=torch.Generator().manual_seed(seed))
        return pool[picked].to(dtype)

    seeds = st.integers(0, 2**32 - 1)
    return st.one_of(
        st.builds(build, seeds, st.just(odd), st.sampled_from([torch.float32, torch.float64, torch.float16])),
        st.builds(build, seeds, st.just(whole), st.sampled_from([torch.int64, torch.int32, torch.uint8, torch.bool])),
    )


def agent_names(min_size: int = 1, max_size: int = 6) -> SearchStrategy[list[str]]:
    """Different names, some with a common prefix as in ``wolf_0, wolf_1``."""
    name = st.builds(
        lambda kind, n: kind if n is None else f"{kind}_{n}",
        st.sampled_from(["wolf", "sheep", "dog", "agent"]),
        st.one_of(st.none(), st.integers(0, 5)),
    )
    return st.lists(name, min_size=min_size, max_size=max_size, unique=True)


@st.composite
def group_maps(draw: Any, max_agents: int = 6, max_depth: int = 3) -> tuple[list[str], dict[str, Any]]:
    """Agents, and all of them in groups that are nested at random: ``{group: [agent, ...] or {group: ...}}``."""
    agents = draw(agent_names(max_size=max_agents))
    return agents, _split(draw, list(draw(st.permutations(agents))), max_depth, "g")


def _split(draw: Callable[[Any], Any], agents: list[str], depth: int, prefix: str) -> dict[str, Any]:
    """The agents in at most three groups, each a list or groups again."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(agents) - 1)), max_size=2)))
    edges = [0, *[c for c in cuts if c < len(agents)], len(agents)]
    groups: dict[str, Any] = {}
    for i, (a, b) in enumerate(pairwise(edges)):
        name, members = f"{prefix}{i}", agents[a:b]
        deeper = depth > 1 and draw(st.booleans())
        groups[name] = _split(draw, members, depth - 1, name) if deeper else members
    return groups


def masks_of(spec: TensorSpec) -> list[Tensor]:
    """All masks in a spec, for tests that none is lost."""
    return [one.mask for one in inside(spec) if getattr(one, "mask", None) is not None]  # type: ignore[attr-defined]
