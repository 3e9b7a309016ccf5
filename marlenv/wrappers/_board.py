"""Who is there, who acts, and how every agent's episode ended: the flags and masks of one env, kept agent by agent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.groups import Flags, GroupTree, aggregate
from marlenv.groups.done import Rule
from marlenv.tensordicts import fetch, parts, put, raw

End = tuple[bool, bool]
"""Terminated, truncated."""

Columns = tuple[Any, Any]
"""Arrays whose slices are flags and masks, group by group: ``[3 * A, 1]`` of the agents, and their masks and the root's flags."""

GOES_ON: End = (False, False)
CALM = {GOES_ON}
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
        self._agents = [agent for agents in tree.groups.values() for agent in agents]
        self._names = MASKS if masks else ()
        sizes = [len(agents) for agents in tree.groups.values()]
        self._split = [n for n in sizes for _ in FLAGS], [*(n for n in sizes for _ in self._names), 1, 1, 1]
        self._mask_at: dict[str, int] = {}
        for agents in tree.groups.values():  # whose masks stand behind their ``alive``
            start = 2 * len(self._mask_at) + len(agents)
            self._mask_at |= {agent: start + i for i, agent in enumerate(agents)}
        self._all_here: Columns | None = None
        self.open()

    def open(self, steps: int = 0) -> None:
        """A new episode, or one of which so many steps were played: nobody is there yet."""
        self.steps = steps
        """How many steps were played."""
        self.living: set[str] = set()
        """Who is there and not done."""
        self.ended: dict[str, End] = {}
        """How those who are done have ended."""
        self._shown: Columns | None = None

    def note(self, got: Mapping[str, End]) -> None:
        """What one step brought: the flags of those who got something; the living who are not in it have left."""
        living, ended = self.living, self.ended
        if not ended and living == got.keys() and {*got.values()} == CALM:
            return
        before = len(living), len(ended)
        for agent in living - got.keys():
            ended[agent] = (True, False)
        for agent, end in got.items():
            if agent not in ended:
                living.add(agent)
                if end[0] or end[1]:
                    ended[agent] = end
        if ended:
            living.difference_update(ended)
        if before != (len(living), len(ended)):
            self._shown = None

    def root(self) -> tuple[bool, bool, bool]:
        """Terminated, truncated and done, of the whole episode."""
        ends = [
            self.ended.get(agent, GOES_ON) for agent in self.tree.place if agent in self.living or agent in self.ended
        ]
        return _root(tuple(ends), self.rule)

    def write(self, td: TensorDict, acting: Collection[str]) -> None:
        """Writes flags and masks into the tensordict of one moment.

        Args:
            td: holds a tensordict per group.
            acting: whose actions are read next.
        """
        if self._shown is None:
            self._shown = self._now()
        flags, words = self._shown[0].copy(), self._shown[1].copy()
        if self.masks:
            for agent in acting:
                words[self._mask_at[agent]] = True
        ends = iter(torch.from_numpy(flags).unsafe_split_with_sizes(self._split[0]))
        told = iter(torch.from_numpy(words).unsafe_split_with_sizes(self._split[1]))
        for path in self.tree.groups:
            node = fetch(td, path)
            _write(node, FLAGS, ends)
            _write(node, self._names, told)
        _write(td, FLAGS, told)

    def _now(self) -> Columns:
        """What there is to show until somebody comes or goes."""
        everybody = not self.ended and len(self.living) == len(self._agents)
        if everybody and self._all_here is not None:
            return self._all_here
        flags: list[bool] = []
        words: list[bool] = []
        for agents in self.tree.groups.values():
            ends = [self.ended.get(agent, GOES_ON) for agent in agents]
            flags += [end[0] for end in ends] + [end[1] for end in ends] + [agent in self.ended for agent in agents]
            if self.masks:
                words += [agent in self.living for agent in agents] + [False] * len(agents)
        words += self.root()
        columns = np.array(flags, dtype=np.bool_).reshape(-1, 1), np.array(words, dtype=np.bool_)
        if everybody:
            self._all_here = columns
        return columns


def _write(td: TensorDictBase, names: tuple[str, ...], values: Iterator[Tensor]) -> None:
    """Writes the next values under the names; those of a lazy stack agent by agent."""
    named = zip(names, values, strict=False)  # strict would take one more
    plain = raw(td)
    if plain is not None:
        plain.update(named)
        return
    for name, value in named:
        put(td, name, value if parts(td) is None else list(value.unbind(0)))


@lru_cache(maxsize=4096)
def _root(ends: tuple[End, ...], rule: Rule) -> tuple[bool, bool, bool]:
    flags = aggregate(Flags(*torch.tensor(ends or (GOES_ON,), dtype=torch.bool).unbind(-1)), rule)
    return bool(flags.terminated), bool(flags.truncated), bool(flags.done)
