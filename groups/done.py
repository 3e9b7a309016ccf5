"""Done flags along the tree: from agents up to the root, and the flags that an env left out.

At every level ``done`` is ``terminated | truncated``. A lone flag is ``terminated``. Nothing is ever done without a
cause, and an agent that has died does not become truncated later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from marlenv.groups.tree import GroupTree
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.errors import DtypeError, GroupError, KeyMissing, ShapeError
from marlenv.keys import DONE_NAMES, NestedKey, Path, by_depth, nested
from marlenv.specs import Composite
from marlenv.tensordicts import anything, drop, get, is_nested, put, raw

Rule: TypeAlias = Literal["any", "all"] | Callable[[Tensor], Tensor]


class Flags(NamedTuple):
    """The two causes of an end; bool tensors of one shape."""

    terminated: Tensor
    truncated: Tensor

    @property
    def done(self) -> Tensor:
        """The union."""
        return self.terminated | self.truncated


def aggregate(flags: Flags, rule: Rule = "any") -> Flags:
    """The flags of a level from those below it.

    ``done`` is the rule applied to the ``done`` flags below, and so is ``terminated``; what is done and not terminated
    is truncated, and so is what the rule finds truncated.

    Args:
        flags: bool ``[*B, A]``.
        rule: ``"any"``, ``"all"``, or a function from ``[*B, A]`` to ``[*B]``.

    >>> flags = Flags(torch.tensor([True, False]), torch.tensor([False, True]))
    >>> aggregate(flags, "all")  # one agent terminated, the other was cut off
    Flags(terminated=tensor(False), truncated=tensor(True))
    """
    decide = _decide(rule)
    done, terminated = decide(flags.done), decide(flags.terminated)
    terminated = terminated & done
    return Flags(terminated, done & (decide(flags.truncated) | ~terminated))


def _decide(rule: Rule) -> Callable[[Tensor], Tensor]:
    if rule == "any":
        return lambda t: t.any(-1)
    if rule == "all":
        return lambda t: t.all(-1)
    if not callable(rule):
        raise GroupError(f"done rule: expected 'any', 'all' or a function from [*B, A] to [*B], got {rule!r}")

    def checked(t: Tensor) -> Tensor:
        out = rule(t)
        if out.shape != t.shape[:-1] or out.dtype != torch.bool:
            raise GroupError(
                f"done rule: must give bool {list(t.shape[:-1])} for {list(t.shape)}, gave {out.dtype} "
                f"{list(out.shape)}"
            )
        return out

    return checked


def aggregate_tree(
    tree: GroupTree, groups: Mapping[Path, Flags], rules: Rule | Mapping[Path, Rule] = "any"
) -> dict[Path, Flags]:
    """The flags of every level above the groups, deepest first.

    Args:
        tree: the groups.
        groups: group path -> its agents' flags, bool ``[*B, A]``.
        rules: one rule for all levels, or a rule per path (``()`` is the root; ``"any"`` where none is given). The rule
            of a group's own path unites its agents; levels unite what is directly below them. With ``"any"`` or
            ``"all"`` for all levels the root says the same as that rule over all agents.

    >>> tree = GroupTree({"red": ["a"], "blue": ["b"]})
    >>> alive, dead = Flags(*torch.tensor([[False], [False]])), Flags(*torch.tensor([[True], [False]]))
    >>> aggregate_tree(tree, {("red",): dead, ("blue",): alive}, "all")[()].done
    tensor(False)
    """
    per_level = rules if isinstance(rules, Mapping) else {}
    default: Rule = "any" if isinstance(rules, Mapping) else rules
    if unknown := [p for p in per_level if p not in tree.branches and p not in tree.groups]:
        raise GroupError(f"done rules: no level is called {unknown}; levels are {[*tree.branches, *tree.groups]}")
    units = {path: aggregate(flags, per_level.get(path, default)) for path, flags in groups.items()}
    for branch in tree.branches:
        below = [units[child] for child in tree.children(branch)]
        stacked = Flags(*(torch.stack(column, -1) for column in zip(*below, strict=True)))
        units[branch] = aggregate(stacked, per_level.get(branch, default))
    return {branch: units[branch] for branch in tree.branches}


class DoneLevel(NamedTuple):
    """A place in the tensordict that has done flags."""

    path: Path
    names: tuple[str, ...]
    shape: Size
    """The flags' shape, batch included; -1 where it is not known."""
    device: torch.device | None
    """Where data live that do not say it."""


class DonePlan:
    """Where the done flags of an env live, read once off its specs.

    Args:
        spec: the env's ``full_done_spec``.

    >>> from marlenv import Binary
    >>> flag = lambda *shape: Binary(shape=shape, dtype=torch.bool)
    >>> plan = DonePlan(Composite(done=flag(1), agents=Composite(done=flag(3, 1), shape=(3,))))
    >>> [level.path for level in plan.levels], [level.path for level in plan.top]
    ([(), ('agents',)], [()])
    """

    def __init__(self, spec: Composite) -> None:
        self.batch_ndim = spec.ndim
        found: dict[Path, list[str]] = {}
        shapes: dict[Path, Size] = {}
        devices: dict[Path, torch.device | None] = {}
        for key, leaf in spec.items(True, True):
            where = () if isinstance(key, str) else key[:-1]
            found.setdefault(where, []).append(key if isinstance(key, str) else key[-1])
            devices[where] = leaf.device
            if shapes.setdefault(where, leaf.shape) != leaf.shape:
                raise ShapeError(
                    f"done_spec: the flags at {where or 'the root'} differ in shape: {list(shapes[where])} and "
                    f"{list(leaf.shape)}"
                )
        order = sorted(found, key=lambda p: (len(p), p))
        self.levels = [DoneLevel(p, tuple(found[p]), shapes[p], devices[p]) for p in order]
        """Every level with flags, from the root down."""
        self.top = [lv for lv in self.levels if not any(lv.path[: len(o)] == o for o in order if len(o) < len(lv.path))]
        """The levels with no flags above them: they decide about resets."""
        self.paths = set(order)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The key of the reset mask of every level."""
        return by_depth(nested((*level.path, "_reset")) for level in self.levels)

    @property
    def key_groups(self) -> list[list[NestedKey]]:
        """The done keys of every level, in the order of :attr:`reset_keys`."""
        return [[nested((*level.path, name)) for name in level.names] for level in self.levels]

    def node(self, td: TensorDictBase, level: DoneLevel) -> TensorDictBase | None:
        """The tensordict of a level inside ``td``."""
        node: Any = td
        for name in level.path:
            node = get(node, name)
            if node is None:
                return None
            if isinstance(node, Tensor):
                raise TypeError(f"done flags: {name!r} is a group, got a tensor {list(node.shape)}")
        return node

    def complete(self, td: TensorDictBase, env: object = None, method: str = "_step") -> TensorDictBase:
        """Writes the flags that are missing at any level, in place, and gives all of them the spec's shape.

        Dimensions that ``td`` has in front of the env's batch size stand in front of the flags too.

        Args:
            td: what an env gave.
            env: which, for errors.
            method: what gave it.

        Raises:
            DtypeError: a flag is not bool.
            ShapeError: a flag has another number of elements than its spec.
        """
        batch = td.batch_size
        lead = batch[: max(0, len(batch) - self.batch_ndim)]
        for level in self.levels:
            node = self.node(td, level) if level.path else td
            if node is not None:
                shape = Size((*lead, *level.shape)) if lead else level.shape
                complete_level(node, level, shape, env, method)
        return td

    def any_done(self, td: TensorDictBase) -> bool:
        """Whether anything that decides about resets is done, anywhere in the batch."""
        for level in self.top:
            node = self.node(td, level)
            done = None if node is None else get(node, "done")
            if done is None and node is not None and "done" not in level.names:
                done = self.done_of(node, level)
            if done is not None and anything(done):
                return True
        return False

    def done_of(self, node: TensorDictBase, level: DoneLevel) -> Tensor:
        """The ``done`` flag of a level; the union of what there is when it has none."""
        done = get(node, "done")
        if done is None:
            parts = [get(node, name) for name in level.names]
            parts = [p for p in parts if p is not None]
            if not parts:
                where = nested((*level.path, "done"))
                raise KeyMissing(f"done flags: no entry {where!r}; the data has {sorted(map(str, node.keys()))}")
            done = parts[0]
            for part in parts[1:]:
                done = done | part
        return done


def complete_level(
    node: TensorDictBase, level: DoneLevel, shape: Size, env: object = None, method: str = "_step"
) -> None:
    """Writes the flags that are missing at one level, in place; all of them get ``shape``."""
    plain = raw(node)
    if plain is not None:
        for name in level.names:
            value = plain.get(name)
            if value is None or value.shape != shape or value.dtype is not torch.bool:
                break
        else:
            return
    have = {name: value for name in level.names if (value := get(node, name)) is not None}
    for name, value in have.items():
        for one in value if isinstance(value, list) else [value]:  # those of groups of different sizes
            if one.dtype is not torch.bool:
                which = _which(name, level, env, method)
                raise DtypeError(f"{which} must be torch.bool, got {one.dtype}; return a comparison, or flag.bool()")
        if -1 not in shape and value.shape != shape:
            try:
                have[name] = value.reshape(shape)
            except RuntimeError as error:
                which = _which(name, level, env, method)
                raise ShapeError(f"{which} must have shape {list(shape)}, got {list(value.shape)}") from error
            put(node, name, have[name])
    if len(have) == len(level.names):
        return
    sample = next(iter(have.values()), None)
    if sample is None:
        device = level.device if node.device is None else node.device
        sample = torch.zeros([1 if s < 0 else s for s in shape], dtype=torch.bool, device=device)
    done, terminated, truncated = (have.get(name) for name in DONE_NAMES)
    if done is not None:
        if terminated is None:
            terminated = done.clone() if truncated is None else done & ~truncated
        elif truncated is None:
            truncated = done & ~terminated
    if done is None:
        causes = [flag for flag in (terminated, truncated) if flag is not None]
        done = (
            torch.zeros_like(sample) if not causes else causes[0].clone() if len(causes) == 1 else causes[0] | causes[1]
        )
    filled = {"done": done, "terminated": terminated, "truncated": truncated}
    for name in level.names:
        if name not in have:
            value = filled.get(name)
            put(node, name, torch.zeros_like(sample) if value is None else value)


def _which(name: str, level: DoneLevel, env: object, method: str) -> str:
    """A flag, and whose it is, for errors."""
    who = "done flags" if env is None else f"{type(env).__name__}.{method}"
    return f"{who}: {nested((*level.path, name))!r}"


def strip(td: TensorDictBase, name: str) -> None:
    """Removes the entry called ``name`` at every level, in place."""
    drop(td, name)
    plain = raw(td)
    values = list(plain.values()) if plain is not None else [get(td, k) for k in list(td.keys())]
    for value in values:
        if is_nested(value):
            strip(value, name)
