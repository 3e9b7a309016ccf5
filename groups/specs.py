"""From what each agent sees and does to the nested specs of the env.

Agents of a group are stacked along one dimension: equal specs become one dense spec ``[A, ...]``; unequal ones are
stacked lazily, or padded to a common size with a ``pad_mask`` that says which numbers mean something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from marlenv.groups.tree import GroupTree
from torch import Size, Tensor

from marlenv.errors import GroupError
from marlenv.keys import Path, nested
from marlenv.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    TensorSpec,
    Unbounded,
)
from marlenv.specs.shapes import concrete, size

Unequal = Literal["stack", "pad", "raise"]
PadMasks: TypeAlias = "Mapping[Path, Mapping[Any, Tensor]]"

PAD_MASK = "pad_mask"


def group_specs(
    tree: GroupTree,
    per_agent: Mapping[str, Composite],
    *,
    unequal: Unequal = "stack",
    batch_size: Sequence[int] = (),
    masks: PadMasks | None = None,
) -> Composite:
    """One nested composite from a composite per agent.

    Args:
        tree: the groups.
        per_agent: agent name -> its entries, without batch and agent dimensions.
        unequal: what to do in a group whose agents differ: stack lazily, pad with zeros, or raise.
        batch_size: the env's batch size, put in front.
        masks: what is told of padding, as :func:`pad_masks` gives it, such as that of actions among observations;
            left out, the padding of these entries. ``{}``: nothing, as for actions and rewards.

    Raises:
        GroupError: an agent has no specs, or ``unequal="raise"`` and a group's agents differ, or it is another word,
            or what agents have under one name cannot be one entry of their group.

    >>> see = Composite(observation=Unbounded((4,)))
    >>> print(group_specs(GroupTree({"wolves": ["a", "b"]}), {"a": see, "b": see}))
    Composite []
      wolves         [2]
        observation  [2, 4]  float32  Unbounded
    """
    return specs_and_masks(tree, per_agent, unequal, size(batch_size), masks)[0]


def specs_and_masks(
    tree: GroupTree, per_agent: Mapping[str, Composite], unequal: Unequal, lead: Size, masks: PadMasks | None
) -> tuple[Composite, PadMasks]:
    """The specs of :func:`group_specs`, and what they tell of padding: the masks of groups where there are some."""
    if unequal not in get_args(Unequal):
        raise GroupError(f"unequal must be one of {list(get_args(Unequal))}, got {unequal!r}")
    out = Composite(shape=lead)
    told: dict[Path, Mapping[Any, Tensor]] = {}
    for path, agents in tree.groups.items():
        if missing := [a for a in agents if a not in per_agent]:
            raise GroupError(
                f"group {'/'.join(path)!r}: no specs for agents {missing}; specs are given for {sorted(per_agent)}"
            )
        try:
            out[nested(path)], own = _stack_group({a: per_agent[a] for a in agents}, unequal, lead)
        except GroupError as error:
            error.add_note(f"while stacking group {'/'.join(path)!r}")
            raise
        if found := own if masks is None or unequal != "pad" else masks.get(path):
            flags = {key: Binary(shape=mask.shape, dtype=torch.bool) for key, mask in found.items()}
            out[(*path, PAD_MASK)] = Composite(flags, shape=(len(agents),)).expand(*lead, len(agents))
            told[path] = found
    return out, told


def pad_masks(tree: GroupTree, *entries: Mapping[str, Composite]) -> dict[Path, dict[Any, Tensor]]:
    """What is the agents' own in groups whose agents are padded: bool ``[A, ...]`` for every entry that grew.

    Args:
        tree: the groups.
        *entries: agent name -> its entries; several, such as of what agents see and of what they do.

    >>> tree, one = GroupTree({"agents": ["a", "b"]}), Unbounded((1,))
    >>> pad_masks(tree, {"a": Composite(x=one, y=one), "b": Composite(x=Unbounded((2,)), y=one)})
    {('agents',): {'x': tensor([[ True, False],
            [ True,  True]])}}
    """
    each = {a: Composite({k: v for one in entries if a in one for k, v in one[a].items()}) for a in tree.place}
    found = {path: padding(tree, each, path) for path in tree.groups}
    return {path: masks for path, masks in found.items() if masks}


def padding(tree: GroupTree, per_agent: Mapping[str, Composite], group: Path) -> dict[Any, Tensor]:
    """The same of one group."""
    specs = {agent: per_agent[agent] for agent in tree.groups[group]}
    first, *others = specs.values()
    return {} if all(spec == first for spec in others) else _padded(specs)[1]


def _padded(specs: Mapping[str, Composite]) -> tuple[Any, dict[Any, Tensor]]:
    """The specs of unequal agents side by side at the largest sizes, ``[A]``, and what is the agents' own of them."""
    grown, own = pad(specs)
    masks = list(own.values())
    stacked = torch.stack(list(grown.values()))  # type: ignore[arg-type]
    return stacked, {key: torch.stack([mask[key] for mask in masks]) for key in masks[0]}


def _stack_group(specs: Mapping[str, Composite], unequal: Unequal, lead: Size) -> tuple[Any, dict[Any, Tensor]]:
    """The specs of a group ``[*B, A]``, and what is the agents' own of them where they are padded."""
    first, spec = next(iter(specs.items()))
    odd = next((agent for agent, one in specs.items() if one != spec), None)
    if odd is None or unequal == "stack":
        check_stackable(specs)
        alike = _numbered_alike(list(specs.values()))
        ready = [one.expand(*lead, *one.shape) for one in alike] if lead else list(alike)
        return torch.stack(ready, len(lead)), {}  # type: ignore[arg-type]
    if unequal == "raise":
        raise GroupError(
            f"agents {first!r} and {odd!r} have different specs:\n{spec}\n{specs[odd]}\n"
            f"group them apart (MarlGroupMapType.BY_SPEC), or pass unequal='pad' or 'stack'"
        )
    out, own = _padded(specs)
    return out.expand(*lead, *out.shape), own


def _numbered_alike(specs: Sequence[Composite]) -> Sequence[Composite]:
    """The specs, where equal entries that number values as they come do so together."""
    shared = [key for key, leaf in specs[0].items(True, True) if getattr(leaf, "use_register", False)]
    if not shared:
        return specs
    alike = [spec.clone() for spec in specs]
    for spec in alike:
        for key in shared:
            if spec.get(key, None) == specs[0][key]:
                spec[key] = specs[0][key]
    return alike


def check_stackable(specs: Mapping[str, Any], key: Path = ()) -> None:
    """Raises unless what agents have under every name can be one entry of their group.

    Args:
        specs: agent name -> its spec.
        key: where these are.

    Raises:
        GroupError: for some it is nested and for others a tensor, or dtypes or numbers of dimensions differ.

    >>> check_stackable({"a": Composite(x=Unbounded((1,))), "b": Composite(x=Unbounded((2,)))})
    """
    first, spec = next(iter(specs.items()))
    odd = next((agent for agent, one in specs.items() if _kind(one) != _kind(spec)), None)
    if odd is not None:
        raise GroupError(
            f"entry {nested(key)!r} cannot be one entry of agents {first!r} and {odd!r}: their specs must be of one "
            f"kind, dtype and rank, got\n{spec!r}\n{specs[odd]!r}\ngroup them apart (group_map='by_spec')"
        )
    if isinstance(spec, Composite):
        for name in spec:
            if all(name in one for one in specs.values()):
                check_stackable({agent: one[name] for agent, one in specs.items()}, (*key, name))


def _kind(spec: TensorSpec | None) -> Any:
    return type(None) if spec is None else Composite if isinstance(spec, Composite) else (spec.dtype, len(spec.shape))


def pad(specs: Mapping[str, Composite]) -> tuple[dict[str, Composite], dict[str, dict[Any, Tensor]]]:
    """Makes the specs of unequal agents stackable: entries grow to the largest size, missing ones are added.

    Returns:
        The padded composite of every agent, and for each padded entry a bool mask of what is the agent's own.

    >>> padded, own = pad({"a": Composite(x=Unbounded((1,))), "b": Composite(x=Unbounded((2,)))})
    >>> padded["a"]["x"].shape, own["a"]["x"]
    (torch.Size([2]), tensor([ True, False]))
    """
    keys = list(dict.fromkeys(key for spec in specs.values() for key in spec.keys(True, True)))
    padded = {agent: Composite() for agent in specs}
    masks: dict[str, dict[Any, Tensor]] = {agent: {} for agent in specs}
    for key in keys:
        leaves = {agent: spec.get(key, None) for agent, spec in specs.items()}
        grown, own = pad_leaves(leaves, key)
        for agent in specs:
            padded[agent][key] = grown[agent]
            if own is not None:
                masks[agent][key] = own[agent]
    return padded, masks


def pad_leaves(
    leaves: Mapping[str, TensorSpec | None], key: Any
) -> tuple[dict[str, TensorSpec], dict[str, Tensor] | None]:
    """One entry of all agents at its largest size; no mask when all have it at one size already."""
    there = [leaf for leaf in leaves.values() if leaf is not None]
    if len(there) == len(leaves) and all(leaf == there[0] for leaf in there):
        return dict.fromkeys(leaves, there[0]), None
    kinds = {(type(leaf), leaf.dtype, len(leaf.shape)) for leaf in there}
    if len(kinds) != 1:
        who = {agent: repr(leaf) for agent, leaf in leaves.items()}
        raise GroupError(
            f"entry {key!r} cannot be padded: the agents' specs must be of one kind, dtype and rank, got {who}"
        )
    shape = Size(max(sizes) for sizes in zip(*(concrete(leaf.shape) for leaf in there), strict=True))
    count = max(int(getattr(leaf, "n", 0)) for leaf in there) if isinstance(there[0], (Categorical, OneHot)) else 0
    grown, own = {}, {}
    for agent, leaf in leaves.items():
        own[agent] = _corner(shape, None if leaf is None else concrete(leaf.shape), there[0].device)
        grown[agent] = _grow(there[0] if leaf is None else leaf, shape, count, own[agent])
    complete = len(there) == len(leaves) and all(concrete(leaf.shape) == shape for leaf in there)
    return grown, None if complete else own


def _corner(shape: Size, part: Size | None, device: torch.device | None) -> Tensor:
    """True where a value of shape ``part`` lies in one of ``shape``."""
    own = torch.zeros(shape, dtype=torch.bool, device=device)
    if part is not None:
        own[tuple(slice(0, n) for n in part)] = True
    return own


def _spread(value: Tensor, shape: Size, fill: Any) -> Tensor:
    out = torch.full(shape, fill, dtype=value.dtype, device=value.device)
    out[tuple(slice(0, n) for n in value.shape)] = value
    return out


def _grow(leaf: TensorSpec, shape: Size, count: int, own: Tensor) -> TensorSpec:
    """``leaf`` at a larger shape; the padding holds zeros, or the first of the values."""
    if getattr(leaf, "use_register", False):
        raise GroupError(
            f"{leaf!r} cannot be padded: it numbers values as they come (use_register=True), and a number of the group "
            f"would stand for others of each agent; group its agent apart, or pass unequal='stack'"
        )
    if isinstance(leaf, Bounded):
        low, high = (_spread(end.contiguous(), shape, 0) for end in leaf.space)
        return Bounded(low, high, shape, device=leaf.device, dtype=leaf.dtype, domain=leaf.domain)
    if isinstance(leaf, Unbounded):
        return Unbounded(shape, device=leaf.device, dtype=leaf.dtype, domain=leaf.domain)
    if isinstance(leaf, Binary):
        return Binary(shape=shape, device=leaf.device, dtype=leaf.dtype)
    if isinstance(leaf, MultiCategorical) and leaf.mask is None:
        return MultiCategorical(_spread(leaf.nvec.contiguous(), shape, 1), shape, device=leaf.device, dtype=leaf.dtype)
    if isinstance(leaf, (MultiCategorical, MultiOneHot)):
        raise GroupError(f"{leaf!r} cannot be padded; group its agent apart")
    if isinstance(leaf, Categorical):
        mask = torch.zeros((*shape, count), dtype=torch.bool, device=leaf.device)
        mask[..., 0] = True
        legal = torch.ones((*leaf.shape, leaf.n), dtype=torch.bool) if leaf.mask is None else leaf.mask
        mask[(*(slice(0, n) for n in leaf.shape), slice(0, leaf.n))] = legal.to(mask.device)
        return Categorical(count, shape, device=leaf.device, dtype=leaf.dtype, mask=mask)
    if isinstance(leaf, OneHot):
        legal = torch.ones(leaf.shape, dtype=torch.bool) if leaf.mask is None else leaf.mask
        mask = _spread(legal.contiguous(), shape, False).to(leaf.device)
        mask[..., 0] |= ~mask.any(-1)
        return OneHot(count, shape, device=leaf.device, dtype=leaf.dtype, mask=mask)
    raise GroupError(f"{leaf!r} cannot be padded; group its agent apart")
