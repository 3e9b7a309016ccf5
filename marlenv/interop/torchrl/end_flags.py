"""The end of an episode in the flags of every group: TorchRL's losses of one group read no others."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.groups.done import DoneLevel, DonePlan
from marlenv.tensordicts import anything, get, put, shallow


class EndFlags:
    """Writes where an episode is over into the flags of the groups below, as the end of those who go on.

    An env whose episode ends with its first agent that is done leaves the flags of the others False. Who was done
    before keeps the flags it has.

    Args:
        plan: where the env's flags are.

    >>> env = marlenv.testing.GroupedEnv({"red": ["r"], "blue": ["b"]}, terminate={"b": 1})
    >>> following = env.step(env.rand_action(env.reset()))["next"]
    >>> following["red", "done"], EndFlags(env.plan.done).write(following)["red", "done"]
    (tensor([[False]]), tensor([[True]]))
    """

    def __init__(self, plan: DonePlan) -> None:
        self.plan = plan
        below = {
            top: [lv for lv in plan.levels if lv is not top and lv.path[: len(top.path)] == top.path]
            for top in plan.top
        }
        self.below = {top: levels for top, levels in below.items() if levels}
        """The levels that say when all starts anew, each with those below it."""

    def write(self, following: TensorDictBase) -> TensorDictBase:
        """What followed a step, with the flags of all; the same tensordict where no episode is over."""
        out = following
        for top, levels in self.below.items():
            above = self.plan.node(following, top)
            if above is None:
                continue
            over = self.plan.done_of(above, top)
            if over.is_cpu and not anything(over):  # a look would wait for a GPU
                continue
            out = shallow(following) if out is following else out
            for level in levels:
                if (node := self.plan.node(out, level)) is not None:
                    self._write(node, level, above, over)
        return out

    def _write(self, node: TensorDictBase, level: DoneLevel, above: TensorDictBase, over: Tensor) -> None:
        before = self.plan.done_of(node, level)
        for name in level.names:
            cause = over if name == "done" else get(above, name)
            if cause is not None:
                cause = cause.reshape(*above.batch_size, *[1] * (before.ndim - above.ndim))
                put(node, name, torch.where(before, get(node, name), cause))
