"""A policy made of several: opponents of several kinds in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError
from marlenv.keys import NestedKey

Policy = Callable[[TensorDictBase], TensorDictBase]


class PolicyPerRow:
    """A policy that lets each row of a batch be played by one of several policies.

    Numbers that a policy does not write, and others do, are NaN in its rows; whole numbers, such as choices, all must
    write.

    Args:
        policies: what is to choose from; each reads and writes a tensordict.
        which: int64 ``[*B]``, the index of the policy that plays each row; one that is computed from the data when it
            is a function of them.

    >>> first = lambda td: td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1))
    >>> last = lambda td: td.set(("o", "action"), 8 - td["o", "action_mask"].int().flip(-1).argmax(-1))
    >>> opponent = PolicyPerRow([first, last], torch.tensor([0, 1]))
    >>> env = marlenv.GameEnv(marlenv.games.TicTacToe(), batch_size=[2], opponent=opponent)
    >>> td = env.reset()
    >>> td["x", "action"] = torch.full((2, 1), 4)
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
                f"PolicyPerRow: which must say a policy for each row {list(tensordict.batch_size)}, got "
                f"{list(which.shape)}"
            )
        if not bool(((which >= 0) & (which < len(self.policies))).all()):
            raise SpecError(
                f"PolicyPerRow: which must be in 0..{len(self.policies) - 1}, got values from {int(which.min())} to "
                f"{int(which.max())}"
            )
        out = tensordict.copy()
        written: dict[NestedKey, Tensor] = {}  # entries that were not there before: the rows that have them
        for index, policy in enumerate(self.policies):
            rows = which == index
            if not bool(rows.any()):
                continue
            for key, value in self._answer(index, policy, tensordict, rows).items():
                held = out.get(key, None)
                if held is None:
                    fill = float("nan") if value.is_floating_point() else 0
                    held = torch.full((*which.shape, *value.shape[1:]), fill, dtype=value.dtype, device=value.device)
                    written[key] = torch.zeros_like(rows)
                whole = held.clone()
                whole[rows] = value
                out.set(key, whole)
                written.get(key, rows).logical_or_(rows)
        for key, rows in written.items():
            if not bool(rows.all()) and not out.get(key).is_floating_point():
                index = int(which[~rows][0])
                raise KeyMissing(f"{self._who(index, which == index)} wrote no {key!r}, which other policies wrote")
        return out

    def _answer(self, index: int, policy: Policy, tensordict: TensorDictBase, rows: Tensor) -> dict[NestedKey, Tensor]:
        """The entries that a policy wrote for its rows."""
        given = tensordict[rows]
        if torch.is_inference_mode_enabled() or any(
            x.is_inference() for x in given.values(True, True) if isinstance(x, Tensor)
        ):
            with torch.inference_mode(False), torch.no_grad():  # where nobody counts how often a tensor is changed
                given = given.clone()
        else:
            given = given.clone()
        before = {key: (x, x._version) for key, x in given.items(True, True) if isinstance(x, Tensor)}
        answer = policy(given)
        if answer is None:
            answer = given
        if not isinstance(answer, TensorDictBase):
            raise TypeError(f"PolicyPerRow: policy {index} must return a tensordict, got {type(answer).__name__}")
        out = {}
        for key, x in answer.items(True, True):
            known = before.get(key)
            if isinstance(x, Tensor) and (known is None or known[0] is not x or known[1] != x._version):
                out[key] = x
        if not out:
            raise KeyMissing(f"{self._who(index, rows)} wrote nothing; a policy must write its action into the data")
        return out

    def _who(self, index: int, rows: Tensor) -> str:
        policy, mine = self.policies[index], rows.nonzero().tolist()
        listed = [row[0] if len(row) == 1 else row for row in mine[:10]]
        name = getattr(policy, "__name__", type(policy).__name__)
        return f"PolicyPerRow: policy {index} ({name}), which plays rows {listed}{' ...' if len(mine) > 10 else ''},"
