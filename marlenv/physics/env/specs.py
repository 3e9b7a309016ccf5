"""What the agents of a simulation see and do, as specs of one agent each, without batch dimensions."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import NotInSpec
from marlenv.groups import GroupTree, pad
from marlenv.keys import LIFE_NAMES, Path, nested
from marlenv.physics.task.actions import Control
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
from marlenv.specs.onehot import are_one_hot


def free(entries: Mapping[str, Any], lead: int) -> Composite:
    """Unbounded specs of the shapes and dtypes of ``entries``, without their first ``lead`` dimensions."""
    return Composite(
        {
            n: free(x, lead)
            if not isinstance(x, Tensor)
            else Binary(shape=x.shape[lead:], dtype=torch.bool)
            if n in LIFE_NAMES and lead == 2
            else Unbounded(x.shape[lead:], dtype=x.dtype)
            for n, x in entries.items()
        }
    )


def stacked(tree: GroupTree, per_agent: Mapping[str, Composite], rows: int, padded: Container[Path] = ()) -> Composite:
    """The specs of agents in groups, ``[B]``.

    Args:
        tree: the groups.
        per_agent: agent -> its entries.
        rows: ``B``.
        padded: the groups whose agents differ: entries grow to the largest size.

    """
    out = Composite(shape=(rows,))
    for path, agents in tree.groups.items():
        specs = {agent: per_agent[agent] for agent in agents}
        alone: list[Any] = list((pad(specs)[0] if path in padded else specs).values())
        out[nested(path)] = torch.stack(alone).expand(rows, len(agents))
    return out


def action_spec(control: Control, agent: int, *, one_hot: bool) -> TensorSpec:
    """What an agent of a group can do."""
    if control.mode == "continuous":
        low, high = control.bounds()
        return Bounded(low[agent], high[agent], (control.width,), dtype=torch.float32)
    if control.mode == "multidiscrete":
        return MultiOneHot(control.choices) if one_hot else MultiCategorical(control.choices)
    (n,) = control.sizes
    return OneHot(n) if one_hot else Categorical(n, ())


def numbers(action: Tensor, control: Control) -> Tensor:
    """One-hot actions ``[B, A, n]`` as numbers, ``[B, A]`` or ``[B, A, k]``.

    >>> from marlenv.physics import Agent
    >>> control = Control("agents", [Agent()], 0, "multidiscrete")
    >>> numbers(torch.tensor([[[0, 1, 0, 1, 0, 0]]]), control)
    tensor([[[1, 0]]])
    """
    scores = action.to(torch.uint8) if action.dtype == torch.bool else action
    if control.mode == "discrete":
        return scores.argmax(-1)
    return torch.stack([part.argmax(-1) for part in scores.split(control.choices, -1)], -1)


def check_one_hot(action: Tensor, control: Control, agents: Sequence[str], where: Tensor | None) -> None:
    """Raises where actions are not one-hot. It looks at data.

    Args:
        action: of a group, ``[B, A, n]``.
        control: of the group.
        agents: their names.
        where: the rows that count, bool ``[B]``; all when left out.

    Raises:
        NotInSpec: with the row and the agent.
    """
    sizes = control.sizes
    bad = ~are_one_hot(action, sizes).all(-1)
    bad = bad if where is None else bad & where.unsqueeze(-1)
    if bool(bad.any()):
        row, agent = bad.nonzero()[0].tolist()
        wanted = "a one-hot vector" if len(sizes) == 1 else f"one-hot vectors of {list(sizes)} numbers side by side"
        raise NotInSpec(
            f"actions of {control.group!r}: row {row}, agent {agents[agent]!r}: expected {wanted}, got "
            f"{action[row, agent].tolist()}; numbers of choices are taken with categorical_actions=True"
        )
