"""The flags and masks of one episode, agent by agent, for envs around simulators with several agents."""

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
from marlenv.wrappers._agent import AgentStep

End = tuple[bool, bool]
"""Terminated, truncated."""

Arrays = tuple[Any, Any]
"""Flags and masks, group by group: ``[3 * A, 1]`` of the agents, and their masks and the root's flags."""

GOES_ON: End = (False, False)
FLAGS = ("terminated", "truncated", "done")
MASKS = ("alive", "mask")


class EpisodeFlags:
    """Who is there, who acts, and how every agent's episode ended. An agent that has left keeps the flags of its last
    step.

    Args:
        tree: the groups.
        rule: what ends the episode: ``"any"`` agent that is done, or ``"all"``.
        masks: whether to write ``alive`` and ``mask``.

    >>> flags = EpisodeFlags(GroupTree({"wolves": ["a", "b"]}), "all", masks=True)
    >>> flags.open()
    >>> flags.note({"a": AgentStep({}), "b": AgentStep({})}), flags.note({"b": AgentStep({}, truncated=True)})
    (None, None)
    >>> flags.living, flags.ended  # "a" left without a word
    (set(), {'a': (True, False), 'b': (False, True)})
    """

    def __init__(self, tree: GroupTree, rule: Rule, *, masks: bool) -> None:
        self.tree, self.rule, self.masks = tree, rule, masks
        self._agents = [agent for agents in tree.groups.values() for agent in agents]
        self._names = MASKS if masks else ()
        sizes = [len(agents) for agents in tree.groups.values()]
        self._split = [n for n in sizes for _ in FLAGS], [*(n for n in sizes for _ in self._names), 1, 1, 1]
        self.mask_at: dict[str, int] = {}
        """Where every agent's ``mask`` stands in what is shown."""
        for agents in tree.groups.values():  # whose masks stand behind their ``alive``
            start = 2 * len(self.mask_at) + len(agents)
            self.mask_at |= {agent: start + i for i, agent in enumerate(agents)}
        self._all_here: Arrays | None = None
        self._all_act: Arrays | None = None
        self.open()

    def open(self, steps: int = 0) -> None:
        """A new episode, or one of which so many steps were played: nobody is there yet."""
        self.steps = steps
        """How many steps were played."""
        self.living: set[str] = set()
        """Who is there and not done."""
        self.ended: dict[str, End] = {}
        """How those who are done have ended."""
        self._cut = False
        self._shown: Arrays | None = None

    def note(self, got: Mapping[str, AgentStep], *, cut: bool = False) -> None:
        """What one step brought; the living who got nothing have left.

        Args:
            got: what the agents got.
            cut: whether this step is the last that is allowed: whoever did not terminate is truncated.
        """
        living, ended = self.living, self.ended
        if not ended and not cut and living == got.keys():
            for step in got.values():
                if step.terminated or step.truncated:
                    break
            else:
                return
        before, self._cut = (len(living), len(ended), self._cut), cut
        for agent in living - got.keys():
            ended[agent] = (True, False)
        for agent, step in got.items():
            if agent not in ended:
                living.add(agent)
                terminated = bool(step.terminated)
                truncated = bool(step.truncated) or (cut and not terminated)
                if terminated or truncated:
                    ended[agent] = (terminated, truncated)
        if ended:
            living.difference_update(ended)
        if before != (len(living), len(ended), cut):
            self._shown = None

    @property
    def over(self) -> bool:
        """Whether the episode is done."""
        if self._shown is None:
            self._shown = self._now()
        return bool(self._shown[1][-1])

    def root(self) -> tuple[bool, bool, bool]:
        """Terminated, truncated and done, of the whole episode."""
        ends = [
            self.ended.get(agent, GOES_ON) for agent in self.tree.place if agent in self.living or agent in self.ended
        ]
        return _root(tuple(ends) or ((False, self._cut),), self.rule)  # nobody has ever been there, maybe

    def write(self, td: TensorDict, acting: Collection[str]) -> None:
        """Writes flags and masks into the tensordict of one step.

        Args:
            td: holds a tensordict per group.
            acting: whose actions are read next.
        """
        if self._shown is None:
            self._shown = self._now()
        flags, words = self._shown[0].copy(), self._shown[1].copy()
        if self.masks:
            for agent in acting:
                words[self.mask_at[agent]] = True
        ends = iter(torch.from_numpy(flags).unsafe_split_with_sizes(self._split[0]))
        others = iter(torch.from_numpy(words).unsafe_split_with_sizes(self._split[1]))
        for path in self.tree.groups:
            node = fetch(td, path)
            plain = raw(node)
            if plain is None:
                _write(node, FLAGS, ends)
                _write(node, self._names, others)
            else:  # strict would take one more
                plain.update(zip(FLAGS, ends, strict=False))
                plain.update(zip(self._names, others, strict=False))
        td._tensordict.update(zip(FLAGS, others, strict=False))

    def of_all(self) -> tuple[Iterator[Tensor], Iterator[Tensor]]:
        """What :meth:`write` writes where everybody is there, goes on and acts: the flags of the groups; then their
        masks, and the flags of the root.
        """
        if self._all_act is None:
            flags, words = self.shown()[0], self.shown()[1].copy()
            if self.masks:
                words[list(self.mask_at.values())] = True
            self._all_act = flags, words
        flags, words = self._all_act
        ends = torch.from_numpy(flags.copy()).unsafe_split_with_sizes(self._split[0])
        others = torch.from_numpy(words.copy()).unsafe_split_with_sizes(self._split[1])
        return iter(ends), iter(others)

    def shown(self) -> Arrays:
        """Flags and masks now, without who acts next; not to be written to."""
        if self._shown is None:
            self._shown = self._now()
        return self._shown

    def _now(self) -> Arrays:
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
        arrays = np.array(flags, dtype=np.bool_).reshape(-1, 1), np.array(words, dtype=np.bool_)
        if everybody:
            self._all_here = arrays
        return arrays


def _write(td: TensorDictBase, names: tuple[str, ...], values: Iterator[Tensor]) -> None:
    """Writes the next values under the names, agent by agent of a lazy stack."""
    for name, value in zip(names, values, strict=False):  # strict would take one more
        put(td, name, value if parts(td) is None else list(value.unbind(0)))


@lru_cache(maxsize=4096)
def _root(ends: tuple[End, ...], rule: Rule) -> tuple[bool, bool, bool]:
    flags = aggregate(Flags(*torch.tensor(ends, dtype=torch.bool).unbind(-1)), rule)
    return bool(flags.terminated), bool(flags.truncated), bool(flags.done)
