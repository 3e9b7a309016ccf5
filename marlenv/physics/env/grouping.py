"""Between the groups of a world and the groups of an env's data: the same agents, stacked with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.groups import GroupTree, RegroupPlan
from marlenv.groups.regroup_plan import Entries, layout
from marlenv.keys import Path
from marlenv.tensordicts import get, new


class Grouping:
    """Tells :class:`~marlenv.ScenarioEnv` how its world's groups become those of its data, and how actions come back.

    Args:
        tree: the groups of the data.
        native: the groups of the world: name -> agents, in order.
        entries: example data of each group of the world, ``[B, A, ...]``.
        widths: the size of the last dimension of their actions; None for one without.

    >>> world, see = {"a": ["a_0", "a_1"], "b": ["b_0"]}, {"observation": torch.zeros(8, 3, 4)}
    >>> tree = GroupTree({"odd": ["a_1", "b_0"], "even": ["a_0"]})
    >>> [part.rows for part in Grouping(tree, world, {"a": see, "b": see}, {"a": 2, "b": 2}).plan.parts["odd",]]
    [(1,), (0,)]
    """

    def __init__(
        self,
        tree: GroupTree,
        native: Mapping[str, Sequence[str]],
        entries: Mapping[str, Entries],
        widths: Mapping[str, int | None],
    ) -> None:
        acts = {group: (Size(() if width is None else (width,)), None) for group, width in widths.items()}
        layouts: dict[Path, dict[str, Any]] = {
            (group,): {**layout(one), "action": acts[group]} for group, one in entries.items()
        }
        self.tree, self.widths = tree, widths
        self.plan = RegroupPlan(GroupTree({group: list(agents) for group, agents in native.items()}), tree, layouts)
        for largest in self.plan.padded.values():
            del largest["action"]  # it makes agents unlike, but is no entry of what they observe
        self.whole = {path: group for path, (group,) in self.plan.whole.items()}
        """The groups of the data that are groups of the world."""
        self._origin = {group: path for path, group in self.whole.items()}
        self._places = {group: [tree.place[agent] for agent in agents] for group, agents in native.items()}

    def join(self, path: Path, data: Mapping[Path, Entries], batch: Size, device: torch.device | None) -> TensorDict:
        """A group of the data ``[B, A]``, from the entries of every group of the world.

        Args:
            path: the group.
            data: entries by the path of the group in the world.
            batch: ``[B]``.
            device: of the tensordict.

        """
        return wrap(self.plan.join(path, data), Size((*batch, len(self.tree.groups[path]))), device)

    def actions(self, td: TensorDictBase) -> dict[str, Tensor]:
        """The actions of every group of the world, ``[B, A, ...]``, from the groups of the data."""
        out = {}
        for group, places in self._places.items():
            origin = self._origin.get(group)
            if origin is not None:
                out[group] = get(_node(td, origin), "action")
                continue
            width = self.widths[group]
            alone = [get(_node(td, path), "action")[:, i] for path, i in places]
            out[group] = torch.stack(alone if width is None else [x[..., :width] for x in alone], 1)
        return out


def wrap(entries: Entries, batch: Size, device: torch.device | None) -> TensorDict:
    """Nested entries as a nested tensordict."""
    return new({n: x if isinstance(x, Tensor) else wrap(x, batch, device) for n, x in entries.items()}, batch, device)


def _node(td: TensorDictBase, path: Path) -> TensorDictBase:
    for name in path:
        td = get(td, name)
    return td
