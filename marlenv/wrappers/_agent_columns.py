"""``AgentColumns``: what the agents of a batch observe and do, sorted into groups.

For simulators that give the data of all their agents side by side, in arrays ``[*B, n, ...]``: a group is some of those
columns.
"""

from __future__ import annotations

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.keys import DONE_NAMES, nested
from marlenv.specs import Binary, Composite, TensorSpec, Unbounded


class AgentColumns:
    """The groups of an env with several agents.

    Args:
        names: the agents, in the simulator's order.
        group_map: group -> agents; one group ``agents`` when None.
        own_rewards: whether each agent has a reward; else their team has one, which stands at the root.
    """

    def __init__(
        self, names: list[str], group_map: GroupMap | MarlGroupMapType | str | None, *, own_rewards: bool = True
    ) -> None:
        self.names, self.count, self.own_rewards = names, len(names), own_rewards
        self.group_map = resolve(group_map, names, default=MarlGroupMapType.ALL_IN_ONE_GROUP)
        self.tree = GroupTree(self.group_map)
        order = {name: i for i, name in enumerate(names)}
        self.columns = {path: torch.tensor([order[a] for a in agents]) for path, agents in self.tree.groups.items()}
        self.own: list[str] = []

    # --- specs -----------------------------------------------------------------------------------

    def observations(self, seen: Composite, own: list[str]) -> Composite:
        """The specs of groups and root, of the specs of all agents side by side.

        Args:
            seen: all entries.
            own: those that each agent has a column of; all others stand at the root.
        """
        self.own = own
        flags = Binary(shape=(self.count,), dtype=torch.bool)
        entries = Composite({name: seen[name] for name in own})
        entries = self._split(entries.update(Composite(alive=flags, mask=flags.clone())))
        return entries.update(Composite({name: spec for name, spec in seen.items() if name not in own}))

    def actions(self, spec: TensorSpec) -> Composite:
        """The specs of the groups' actions, of those of all agents side by side."""
        return self._split(Composite(action=spec))

    def rewards(self) -> Composite:
        """The specs of the groups' rewards, or of the team's."""
        if not self.own_rewards:
            return Composite(reward=Unbounded((1,)))
        return self._split(Composite(reward=Unbounded((self.count, 1))))

    def flags(self) -> Composite:
        """The specs of the groups' flags."""
        flag = Binary(shape=(self.count, 1), dtype=torch.bool)
        return self._split(Composite({name: flag.clone() for name in DONE_NAMES}))

    def _split(self, side_by_side: Composite) -> Composite:
        found = Composite()
        for path, columns in self.columns.items():
            group = Composite({name: spec[columns] for name, spec in side_by_side.items()}, shape=(len(columns),))
            found[nested(path)] = group
        return found

    # --- data ------------------------------------------------------------------------------------

    def side_by_side(self, parts: list[Tensor], dim: int) -> Tensor:
        """The actions of the groups ``[*B, A, ...]`` as those of all agents ``[*B, n, ...]``; ``dim`` is theirs."""
        order = torch.cat(list(self.columns.values())).argsort()
        return torch.cat(parts, dim).index_select(dim, order.to(parts[0].device))

    def sort(self, data: TensorDict, before: TensorDictBase | None) -> TensorDict:
        """Root and groups of what all agents got side by side.

        Args:
            data: their entries ``[*B, n, ...]`` and those of the root; ``done`` bool ``[*B]``: the episode is over;
                ``discount`` ``[*B, n]``: an agent whose discount is 0 has terminated, and stays so, and those that have
                not are truncated by the last step; ``reward`` ``[*B, n]`` or ``[*B]``; ``acting`` bool ``[*B, n]``,
                all who are alive when left out.
            before: what the step started from; None in a reset.
        """
        over, discount, reward = data.pop("done"), data.pop("discount"), data.pop("reward", None)
        dim = data.ndim
        own = {name: data.pop(name) for name in self.own}
        terminated = discount == 0
        if before is not None:
            held = [before.get(nested((*path, "terminated")), None) for path in self.columns]
            for columns, flags in zip(self.columns.values(), held, strict=True):
                if flags is not None:
                    terminated[..., columns] |= flags.squeeze(-1).to(terminated.device)
        truncated = over.unsqueeze(-1) & ~terminated
        done = terminated | truncated
        acting = data.pop("acting", None)
        own |= {"alive": ~done, "mask": ~done if acting is None else acting & ~done}
        own |= {name: flag.unsqueeze(-1) for name, flag in zip(DONE_NAMES, (done, terminated, truncated), strict=True)}
        if "action_mask" in own:
            own["action_mask"] = own["action_mask"] | ~own["mask"].unsqueeze(-1)
        if reward is not None and self.own_rewards:
            own["reward"] = reward.unsqueeze(-1)
        elif reward is not None:
            data["reward"] = reward.unsqueeze(-1)
        for path, columns in self.columns.items():
            group = {name: value.index_select(dim, columns) for name, value in own.items()}
            data[nested(path)] = TensorDict(group, [*data.batch_size, len(columns)])
        won = over & terminated.all(-1)
        for name, flag in zip(DONE_NAMES, (over, won, over & ~won), strict=True):
            data[name] = flag.unsqueeze(-1)
        return data
