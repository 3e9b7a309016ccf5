"""Who plays, and which actions are legal.

- ``alive`` ``[*B, A]``: the agent exists and is not done.
- ``mask`` ``[*B, A]``: its action is read at the next step.
- ``action_mask`` ``[*B, A, n]``: its legal actions; never all False, so that every row can be sampled from.
"""

from __future__ import annotations

from torch import Tensor

from marlenv.errors import IllegalAction


def open_rows(action_mask: Tensor, mask: Tensor | None = None) -> Tensor:
    """The action mask with everything allowed on rows that do not act, and on rows with no legal action.

    Args:
        action_mask: bool ``[*B, A, n]``.
        mask: who acts, bool ``[*B, A]``; decided by the action mask alone when left out.

    >>> open_rows(torch.tensor([[True, False], [False, False]]))
    tensor([[ True, False],
            [ True,  True]])
    """
    closed = ~action_mask.any(-1, keepdim=True)
    if mask is not None:
        closed = closed | ~mask.unsqueeze(-1)
    return action_mask | closed


def check_actions(action: Tensor, action_mask: Tensor, mask: Tensor | None, who: str, agents: list[str]) -> None:
    """Raises if an agent that acts chose an action that its mask forbids.

    Args:
        action: int ``[*B, A]``.
        action_mask: bool ``[*B, A, n]``.
        mask: who acts, bool ``[*B, A]``; everybody when None.
        who: the env, for the message.
        agents: the names along ``A``.

    Raises:
        IllegalAction: names the first agent at fault, its action and what is legal.
    """
    n = action_mask.shape[-1]
    in_range = (action >= 0) & (action < n)
    legal = action_mask.gather(-1, action.long().clamp(0, n - 1).unsqueeze(-1)).squeeze(-1) & in_range
    wrong = ~legal if mask is None else ~legal & mask
    if not bool(wrong.any()):
        return
    at = tuple(wrong.nonzero()[0].tolist())
    allowed = action_mask[at].nonzero().flatten().tolist()
    row = f" in row {list(at[:-1])}" if len(at) > 1 else ""
    shown = f"{allowed[:20]}{' ...' if len(allowed) > 20 else ''}"
    raise IllegalAction(
        f"{who}: action {int(action[at])} of agent {agents[at[-1]]!r}{row} is illegal; legal are {shown}"
    )


def alive_after(alive: Tensor, done: Tensor) -> Tensor:
    """Who lives after a step: those who lived and are not done; bool ``[*B, A]`` from flags ``[*B, A, 1]``.

    >>> alive_after(torch.tensor([True, True]), torch.tensor([[False], [True]]))
    tensor([ True, False])
    """
    return alive & ~done.squeeze(-1)


def masked_mean(value: Tensor, alive: Tensor) -> Tensor:
    """The mean over the agents that live; ``[*B]`` from ``[*B, A, 1]`` or ``[*B, A]``; 0 where nobody does.

    >>> masked_mean(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    tensor(1.)
    """
    value = value.squeeze(-1) if value.ndim > alive.ndim else value
    return value.masked_fill(~alive, 0).sum(-1) / alive.sum(-1).clamp(min=1)
