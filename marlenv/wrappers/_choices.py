"""Actions that are choices, and which values are none: ``Choices`` of many agents, ``check_choices``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import GroupError, IllegalAction
from marlenv.groups import GroupTree
from marlenv.groups.packing import VECTORS
from marlenv.groups.specs import Unequal
from marlenv.keys import Path, path
from marlenv.specs import Binary, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from marlenv.specs.onehot import are_one_hot
from marlenv.tensordicts import get

Acts = dict[str, dict[str, Any]]
FEW = 128  # numbers


class Choices:
    """What every agent can choose from.

    Args:
        who: the wrapper, for messages.
        tree: the groups.
        acted: agent -> the entries of its action.
        unequal: what to do in a group whose agents differ.

    Raises:
        GroupError: agents that are stacked lazily act by entries of other names.

    >>> choices = Choices("Here", GroupTree({"all": ["a"]}), {"a": Composite(turn=Categorical(3))}, unequal="stack")
    >>> choices.checked({"a": {"turn": 3}})
    Traceback (most recent call last):
    marlenv.errors.IllegalAction: Here.step: actions of agent 'a' are numbers from 0 to below 3, got 3
    """

    def __init__(self, who: str, tree: GroupTree, acted: Mapping[str, Composite], *, unequal: Unequal) -> None:
        if unequal == "stack":
            _check_alike(who, tree, acted)
        self.who, self._allowed = who, {agent: _allowed(entries) for agent, entries in acted.items()}

    def checked(self, acts: Acts) -> Acts:
        """The same actions, entry by entry, as arrays and numbers; one-hot vectors become numbers.

        Raises:
            IllegalAction: a number is that of no choice, or a vector is not one-hot.
        """
        for agent, entries in acts.items():
            for where, name, allowed in self._allowed[agent]:
                inside: Any = entries
                for one in where:
                    inside = inside[one]
                chosen = inside[name]
                if isinstance(allowed, VECTORS):
                    inside[name] = self._number(agent, allowed, chosen)
                    continue
                fits = 0 <= chosen < allowed if type(allowed) is int else ((chosen >= 0) & (chosen < allowed)).all()
                if not fits:
                    raise _none(self.who, f"actions of agent {agent!r}", allowed, chosen)
        return acts

    def _number(self, agent: str, spec: OneHot | MultiOneHot, vector: Any) -> Any:
        """What one-hot vectors stand for."""
        if type(spec) is OneHot and spec.register is None and len(row := vector.tolist()) <= FEW and is_lone(row):
            return np.int64(row.index(1))
        value = torch.from_numpy(vector)
        check_one_hot(self.who, spec, value, what=f"actions of agent {agent!r}")
        return spec.to_numpy(value)


def is_lone(numbers: Sequence[Any]) -> bool:
    """Whether one of a few numbers is 1 and the others are 0: lists are seen through fastest.

    >>> is_lone([0, 1, 0]), is_lone([False, False]), is_lone([1.0, 0.5])
    (True, False, False)
    """
    return numbers.count(1) == 1 and numbers.count(0) == len(numbers) - 1


def check_choices(who: str, spec: TensorSpec, action: Any, acting: Tensor | None = None) -> None:
    """Raises IllegalAction where actions are no choices.

    Args:
        who: the wrapper, for messages.
        spec: that of the actions, or of their parts.
        action: may have more dimensions in front.
        acting: whose are read, bool; the one-hot vectors of others may be zeros.

    >>> check_choices("Here", OneHot(2), torch.zeros(3, 2))
    Traceback (most recent call last):
    marlenv.errors.IllegalAction: Here.step: actions must be one-hot, got [0.0, 0.0]
    """
    if isinstance(spec, Composite):
        for name, part in spec.items():
            check_choices(who, part, get(action, name), acting)
        return
    n = count_of(spec)
    if n is not None:
        if bool(((action < 0) | (action >= n)).any()):
            raise _none(who, "actions", _shown(spec), action.tolist())
    else:
        check_one_hot(who, spec, action, acting)


def check_one_hot(
    who: str, spec: TensorSpec, action: Tensor, acting: Tensor | None = None, *, what: str = "actions"
) -> None:
    """Raises IllegalAction where actions of a one-hot spec are not one-hot; arguments are those of
    :func:`check_choices`, and ``what`` they are called.

    >>> check_one_hot("Here", OneHot(2), torch.tensor([1.0, 1.0]))
    Traceback (most recent call last):
    marlenv.errors.IllegalAction: Here.step: actions must be one-hot, got [1.0, 1.0]
    """
    if not isinstance(spec, VECTORS):
        return
    if action.numel() <= FEW and len(spec.space_sizes) == 1:
        rows = [action.tolist()] if action.ndim == 1 else action.reshape(-1, action.shape[-1]).tolist()
        if all(map(is_lone, rows)):
            return
    bad = ~are_one_hot(action, spec.space_sizes).all(-1)
    bad = bad if acting is None else bad & acting.to(bad.device)
    if bool(bad.any()):
        raise IllegalAction(
            f"{who}.step: {what} must be one-hot, got {action[bad].reshape(-1, action.shape[-1])[0].tolist()}"
        )


def check_acting(where: str, agents: Sequence[str], spec: TensorSpec, action: Tensor, acting: Tensor) -> None:
    """Raises IllegalAction where agents act by what is no action.

    Args:
        where: what is called, for messages.
        agents: their names.
        spec: that of their actions.
        action: their actions ``[B, A, ...]``.
        acting: whose are read, bool ``[B, A]``.

    >>> check_acting("Here.step", ["a"], OneHot(2), torch.zeros(1, 1, 2), torch.ones(1, 1, dtype=torch.bool))
    Traceback (most recent call last):
    marlenv.errors.IllegalAction: Here.step: the action of agent 'a' in row 0 must be one-hot, got [0.0, 0.0]
    """
    n = count_of(spec)
    if n is not None:
        several = "numbers" if isinstance(spec, MultiCategorical) else "a number"
        bad, wanted = (action < 0) | (action >= n), f"{several} from 0 to below {_shown(spec)}"
    elif isinstance(spec, VECTORS):
        bad, wanted = ~are_one_hot(action, spec.space_sizes), "one-hot"
    elif action.is_floating_point():
        bad, wanted = ~action.isfinite(), "finite"
    else:
        return
    bad = (bad.flatten(2).any(-1) if bad.ndim > 2 else bad) & acting.to(bad.device)
    if bool(bad.any()):
        row, i = bad.nonzero()[0].tolist()
        raise IllegalAction(
            f"{where}: the action of agent {agents[i]!r} in row {row} must be {wanted}, got {action[row, i].tolist()}"
        )


def _none(who: str, what: str, n: Any, got: Any) -> IllegalAction:
    return IllegalAction(f"{who}.step: {what} are numbers from 0 to below {n}, got {got}")


def _shown(spec: TensorSpec) -> Any:
    """How many choices there are, for messages."""
    return list(spec.space_sizes) if isinstance(spec, MultiCategorical) else count_of(spec)


def count_of(spec: TensorSpec) -> Any:
    """How many choices there are, a number or a tensor of them; None where actions are no numbers of choices."""
    if isinstance(spec, MultiCategorical):
        return spec.nvec
    if isinstance(spec, Binary):  # its n is how many there are
        return 2
    return spec.n if isinstance(spec, Categorical) else None


def _allowed(entries: Composite) -> list[tuple[Path, str, Any]]:
    """Where choices are, the last name apart, and what is allowed: numbers below a number or an array of the entry's
    shape, or the vectors of a one-hot spec.
    """
    found: list[tuple[Path, str, Any]] = []
    for key, spec in entries.items(True, True):
        *inside, name = path(key)
        n = count_of(spec)
        if isinstance(spec, VECTORS):
            found.append((tuple(inside), name, spec))
        elif n is not None:
            found.append((tuple(inside), name, np.asarray(n) if spec.shape else int(n)))
    return found


def _check_alike(who: str, tree: GroupTree, acted: Mapping[str, Composite]) -> None:
    """Raises where agents of a group act by entries of other names, which no key of the group would be of all."""
    for members in tree.groups.values():
        names = {agent: sorted(map(str, acted[agent].keys(True, True))) for agent in members}
        first = members[0]
        if other := next((agent for agent in members if names[agent] != names[first]), None):
            raise GroupError(
                f"{who}: agents of a group must act by entries of the same names, got {names[first]} of {first!r} and "
                f"{names[other]} of {other!r}; put them into groups of their own, by group_map='by_spec' for instance"
            )
