"""Who is there, who acts, and how every agent's episode ended: the flags and masks of one env, kept agent by agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from marlenv.groups import Flags, GroupTree, aggregate
from marlenv.groups.done import Rule
from marlenv.tensordicts import get, parts, put

End = tuple[bool, bool]
"""Terminated, truncated."""

GOES_ON: End = (False, False)
FLAGS = ("terminated", "truncated", "done")
MASKS = ("alive", "mask")


class Board:
    """The flags of an episode. An agent that has left keeps the flags of its last step.

    Args:
        tree: the groups.
        rule: what ends the episode: ``"any"`` agent that is done, or ``"all"``.
        masks: whether to write ``alive`` and ``mask``.

    >>> board = Board(GroupTree({"wolves": ["a", "b"]}), "all", masks=True)
    >>> board.open()
    >>> board.note({"a": (False, False), "b": (False, False)}), board.note({"b": (False, True)})
    (None, None)
    >>> board.living, board.ended  # "a" left without a word
    (set(), {'a': (True, False), 'b': (False, True)})
    """

    def __init__(self, tree: GroupTree, rule: Rule, *, masks: bool) -> None:
        self.tree, self.rule, self.masks = tree, rule, masks
        self.open()

    def open(self, steps: int = 0) -> None:
        """A new episode, or one of which so many steps were played: nobody is there yet."""
        self.steps = steps
        """How many steps were played."""
        self.living: set[str] = set()
        """Who is there and not done."""
        self.ended: dict[str, End] = {}
        """How those who are done have ended."""

    def note(self, got: Mapping[str, End]) -> None:
        """What one step brought: the flags of those who got something; the living who are not in it have left."""
        ended = self.ended
        for agent in self.living - got.keys():
            ended[agent] = (True, False)
        for agent, end in got.items():
            if agent not in ended:
                self.living.add(agent)
                if end[0] or end[1]:
                    ended[agent] = end
        if ended:
            self.living -= ended.keys()

    def root(self) -> tuple[bool, bool, bool]:
        """Terminated, truncated and done, of the whole episode."""
        ends = [
            self.ended.get(agent, GOES_ON) for agent in self.tree.place if agent in self.living or agent in self.ended
        ]
        return _root(tuple(ends), self.rule)

    def write(self, td: TensorDict, acting: Collection[str] | None) -> None:
        """Writes flags and masks into the tensordict of one moment.

        Args:
            td: holds a tensordict per group.
            acting: whose actions are read next; of all who live when None.
        """
        ended, living = self.ended, self.living
        acts = living if acting is None else living.intersection(acting)
        for path, agents in self.tree.groups.items():
            node: Any = td
            for name in path:
                node = get(node, name)
            flags, masks = np.zeros((3, len(agents), 1), dtype=np.bool_), np.zeros((2, len(agents)), dtype=np.bool_)
            for i, agent in enumerate(agents):
                if (end := ended.get(agent)) is not None:
                    flags[:, i, 0] = (*end, True)
                elif agent in living:
                    masks[:, i] = (True, agent in acts)
            _write(node, FLAGS, flags)
            if self.masks:
                _write(node, MASKS, masks)
        _write(td, FLAGS, np.array(self.root(), dtype=np.bool_).reshape(3, 1))


def _write(node: Any, names: tuple[str, ...], columns: Any) -> None:
    rows = parts(node)
    for name, column in zip(names, columns, strict=True):
        value = torch.from_numpy(column)
        put(node, name, value if rows is None else list(value.unbind(0)))


@lru_cache(maxsize=4096)
def _root(ends: tuple[End, ...], rule: Rule) -> tuple[bool, bool, bool]:
    flags = aggregate(Flags(*torch.tensor(ends or (GOES_ON,), dtype=torch.bool).unbind(-1)), rule)
    return bool(flags.terminated), bool(flags.truncated), bool(flags.done)
