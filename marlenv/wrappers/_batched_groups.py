"""``BatchedGroups``: the groups' data and actions of simulators of a batch of worlds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.groups import GroupTree, group_specs
from marlenv.keys import Path, nested
from marlenv.specs import Composite, TensorSpec
from marlenv.tensordicts import columns, get, nest, parts, placed, plant
from marlenv.wrappers._choices import check_acting
from marlenv.wrappers._roster import AgentsWrapper


class BatchedGroups(AgentsWrapper):
    """An env around a simulator of a batch of worlds: what there is of its groups. Abstract."""

    tree: GroupTree
    categorical_actions: bool
    _lazy: dict[Path, bool]
    """Whether the data of a group are stacked lazily."""

    def _grouped(self, agents: Mapping[str, Mapping[str, TensorSpec]]) -> Composite:
        specs = {a: Composite(dict(entries)).to(self.device) for a, entries in agents.items()}
        return group_specs(self.tree, specs, batch_size=self.batch_size)

    def rooted(self, root: dict[str, Any], groups: Mapping[Path, Any]) -> TensorDict:
        """The tensordict ``[B]`` of the root's entries and the groups' tensordicts."""
        for path, data in groups.items():
            plant(root, path, data)
        made = nest(root, self.batch_size)
        return made if self.device is None else placed(made, self.device)

    def group_actions(self, td: TensorDictBase) -> dict[Path, Tensor | list[Tensor]]:
        """Group -> its actions ``[B, A, ...]``, one-hot ones as numbers; a tensor per agent where they are stacked
        lazily.
        """
        found: dict[Path, Tensor | list[Tensor]] = {}
        for path in self.tree.groups:
            spec, action = self._acts(td, path)
            if isinstance(action, list):
                found[path] = [self._as_numbers(s, c) for s, c in zip(spec, action, strict=True)]
            else:
                found[path] = self._as_numbers(spec, action)
        return found

    def check_actions(self, td: TensorDictBase, acting: Mapping[Path, Tensor] | None = None) -> None:
        """Raises IllegalAction where somebody who acts does what is none of the actions. It looks at data.

        Args:
            td: holds the actions.
            acting: group -> whose actions are read, bool ``[B, A]``; everybody's when left out.
        """
        who = f"{type(self).__name__}.step"
        for path, agents in self.tree.groups.items():
            acts = torch.ones(*self.batch_size, len(agents), dtype=torch.bool) if acting is None else acting[path]
            spec, action = self._acts(td, path)
            if isinstance(action, list):
                for i, agent in enumerate(agents):
                    check_acting(who, (agent,), spec[i], action[i].unsqueeze(1), acts[:, i : i + 1])
            else:
                check_acting(who, agents, spec, action, acts)

    def _acts(self, td: TensorDictBase, path: Path) -> tuple[Any, Tensor | list[Tensor]]:
        """The spec of a group's actions and the actions; one for each agent where they are stacked lazily."""
        spec: Any = self.full_action_spec[nested(path)]
        group: Any = td
        for name in path:
            group = get(group, name)
        if self._lazy[path] or parts(group) is not None:
            return [part["action"] for part in spec.unbind(1)], [get(one, "action") for one in columns(group, 1)]
        return spec["action"], get(group, "action")

    def scatter(self, td: TensorDictBase) -> dict[str, Tensor]:
        """Agent -> its action ``[B, ...]``, one-hot ones as numbers."""
        actions: dict[str, Tensor] = {}
        for path, action in self.group_actions(td).items():
            each = action if isinstance(action, list) else action.unbind(1)
            actions.update(zip(self.tree.groups[path], each, strict=True))
        return {name: actions[name] for name in self.agent_names}

    def _as_numbers(self, spec: Any, action: Tensor) -> Tensor:
        discrete = not self.categorical_actions and hasattr(spec, "to_categorical")
        return spec.to_categorical(action) if discrete else action
