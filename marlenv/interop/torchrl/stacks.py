"""Groups whose agents are lazily stacked, because they differ: the actions and entries of each agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tensordict import TensorDictBase

from marlenv.envs.plan import ActionEntry, Plan
from marlenv.keys import NestedKey, Path, nested
from marlenv.specs import Composite, StackedComposite
from marlenv.tensordicts import columns, entries, fetch, is_nested, lazy, new, parts


class Place(NamedTuple):
    """Where an action is: in the data, or in those of one agent of a lazily stacked group."""

    key: NestedKey
    group: Path = ()
    dim: int = 0
    agent: int | None = None

    def read(self, td: TensorDictBase, where: NestedKey | None = None) -> Any:
        """The action in data, or the entry ``where`` beside it; None where there is none."""
        if self.agent is not None:
            group = fetch(td, self.group)
            if group is None:
                return None
            td = columns(group, self.dim)[self.agent]
        return fetch(td, self.key if where is None else where)

    def leaf(self, spec: Any) -> Any:
        """TorchRL's spec of the action, in that of all actions."""
        return spec[self.key] if self.agent is None else spec[nested(self.group)]._specs[self.agent][self.key]


def places(plan: Plan, spec: Composite) -> Iterator[tuple[Place, ActionEntry]]:
    """Every action that is drawn by itself, and where it is; ``spec`` is that of all actions."""
    for entry in plan.actions:
        if entry.path[:-1] not in plan.parts:
            yield Place(entry.key), entry
    for path, agents in plan.parts.items():
        dim = spec[nested(path)].dim
        for i, own in enumerate(agents):
            for entry in own:
                yield Place(entry.key, path, dim, i), entry


def named_by(specs: Sequence[Composite], td: TensorDictBase) -> TensorDictBase:
    """The entries of ``td`` that one of the specs has, agent by agent where agents differ."""
    lead = td.ndim - specs[0].ndim
    stacked = [spec.dim + lead for spec in specs if isinstance(spec, StackedComposite)]
    if stacked or parts(td) is not None:
        dim = stacked[0] if stacked else td.stack_dim
        of_agents = zip(*(spec.unbind(dim - lead) for spec in specs), strict=True)
        return lazy([named_by(own, one) for own, one in zip(of_agents, td.unbind(dim), strict=True)], dim)
    data: dict[str, Any] = {}
    for name, value in entries(td):
        own = [spec[name] for spec in specs if name in spec.keys()]
        groups = [spec for spec in own if isinstance(spec, Composite)]
        if own:
            data[name] = named_by(groups, value) if groups and is_nested(value) else value
    return new(data, td.batch_size, td.device)
