"""Opponents of several kinds in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import ShapeError, SpecError

Policy = Callable[[TensorDictBase], TensorDictBase]


class PolicyPerRow:
    """A policy that lets each row of a batch be played by one of several policies.

    Args:
        policies: what is to choose from; each reads and writes a tensordict.
        which: int64 ``[*B]``, the index of the policy that plays each row; one that is computed from the data when it is a
            function of them.

    >>> first = lambda td: td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1))
    >>> last = lambda td: td.set(("o", "action"), 8 - td["o", "action_mask"].int().flip(-1).argmax(-1))
    >>> opponent = PolicyPerRow([first, last], torch.tensor([0, 1]))
    >>> env = marlenv.GameEnv(marlenv.games.TicTacToe(), batch_size=[2], opponent=opponent)
    >>> td = env.reset()
    >>> td["x", "action"], td["o", "action"] = torch.full((2, 1), 4), torch.zeros(2, 1, dtype=torch.int64)
    >>> env.rules.returns(env.read(env.step(td)["next"])).shape, env.read(env.step(td)["next"]).board[:, [0, 8]]
    (torch.Size([2, 2]), tensor([[-1,  0],
            [ 0, -1]], dtype=torch.int8))
    """

    def __init__(self, policies: Sequence[Policy], which: Tensor | Callable[[TensorDictBase], Tensor]) -> None:
        if not policies:
            raise SpecError("PolicyPerRow: expected at least one policy, got none")
        self.policies = list(policies)
        self.which = which

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Asks every policy about its rows and writes their answers into the data."""
        which = self.which if isinstance(self.which, Tensor) else self.which(tensordict)
        if which.shape != tensordict.batch_size:
            raise ShapeError(
                f"PolicyPerRow: which must say a policy for each row {list(tensordict.batch_size)}, got {list(which.shape)}"
            )
        out: TensorDictBase | None = None
        for index, policy in enumerate(self.policies):
            rows = which == index
            if not bool(rows.any()):
                continue
            answer = policy(tensordict[rows].clone(recurse=True))
            if out is None:
                out = tensordict.copy()
            for key in answer.keys(True, True):
                value = answer.get(key)
                if not isinstance(value, Tensor):
                    continue
                held = out.get(key, None)
                whole = value.new_zeros((*which.shape, *value.shape[1:])) if held is None else held.clone()
                whole[rows] = value
                out.set(key, whole)
        if out is None or bool(((which < 0) | (which >= len(self.policies))).any()):
            raise SpecError(
                f"PolicyPerRow: which must be in 0..{len(self.policies) - 1}, got values from {int(torch.as_tensor(which).min())} "
                f"to {int(torch.as_tensor(which).max())}"
            )
        return out
