"""Where every entry of a game's data is: the one table that specs, steps, fast steps and resets loop over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.games.fast.step_buffers import Blank, StepBuffers
from marlenv.groups.regroup_plan import Part
from marlenv.keys import DONE_NAMES, Path, nested
from marlenv.specs import Binary, Composite, TensorSpec
from marlenv.tensordicts import get, is_nested, new, plant, put, raw

Values = Mapping[str, Tensor]
FLAGS = ("terminated", "truncated", "done")  # in the order of StepBuffers


class Group(NamedTuple):
    """Players whose entries are stacked under one key."""

    path: Path
    seats: list[int]
    pick: Callable[[Tensor, int], Tensor]
    """Picks the group's seats along a dimension, into memory of their own; all seats in order are the tensor itself."""


class GameLayout:
    """Says :class:`~marlenv.GameEnv` where the entries of its data are; made when the env is made.

    The root holds the entries of ``root``, three flags, the position under ``"state"``, and a node for each group,
    which holds the entries of ``player`` and ``action``, the reward, four flags and ``mask``.

    Args:
        groups: path -> seats.
        players: how many there are.
        acting: the groups that actions are read from.
        root: the specs of the entries of one game.
        state: the specs of one position and of what travels with it.
        player: the specs of what one player observes.
        action: the spec of one player's action.
        reward: the spec of one player's reward.
    """

    def __init__(
        self,
        groups: Mapping[Path, list[int]],
        players: int,
        *,
        acting: Sequence[Path],
        root: Mapping[str, TensorSpec],
        state: Mapping[str, TensorSpec],
        player: Mapping[str, TensorSpec],
        action: TensorSpec,
        reward: TensorSpec,
    ) -> None:
        self.groups = [Group(path, seats, _picker(seats, players)) for path, seats in groups.items()]
        self.acting = [group for group in self.groups if group.path in acting]
        self._flat = all(len(group.path) == 1 for group in self.groups)
        self.root, self.state, self.player = root, state, player
        self.action, self.reward = action, reward

    def specs(self, batch: Size) -> dict[str, Composite]:
        """The specs of observations, actions, rewards, flags and states, for a batch of games."""
        found = {kind: Composite(shape=batch) for kind in ("observation", "action", "reward", "done", "state")}
        flag = Binary(shape=(1,), dtype=torch.bool)
        one = Binary(shape=(), dtype=torch.bool)
        kinds: dict[str, Mapping[str, TensorSpec]] = {
            "observation": {**self.player, "mask": one, "alive": one},
            "action": {"action": self.action},
            "reward": {"reward": self.reward},
            "done": dict.fromkeys(DONE_NAMES, flag),
        }
        for group in self.groups:
            lead = (*batch, len(group.seats))
            for kind, entries in kinds.items():
                if kind != "action" or group in self.acting:
                    found[kind][nested(group.path)] = _spread(entries, Size(lead))
        found["observation"].update(_spread(self.root, batch))
        found["observation"]["state"] = _spread(self.state, batch)
        found["state"]["state"] = _spread(self.state, batch)
        return found

    def tree(
        self, root: Values, state: Values, players: Values, flags: Tensor, device: torch.device | None
    ) -> TensorDict:
        """The data of games, without root flags.

        Args:
            root: the entries of the root.
            state: those of the position.
            players: those of all players, ``[*B, P, ...]`` each.
            flags: whether games are terminated, truncated, done, alive; ``[4, *B]``.
            device: of the data.
        """
        batch = flags.shape[1:]
        dim, flags, nodes = len(batch), flags.unsqueeze(-1).unsqueeze(-1), []
        for group in self.groups:
            lead = (*batch, len(group.seats), 1)
            own = flags.expand(4, *lead).clone(memory_format=torch.contiguous_format)
            terminated, truncated, done, alive = own.unbind(0)
            entries = {name: group.pick(value, dim) for name, value in players.items()}
            ends = {"terminated": terminated, "truncated": truncated, "done": done, "alive": alive.squeeze(-1)}
            nodes.append(entries | ends)
        return self._planted(root, state, nodes, batch, device)

    def buffers(self, blank: Blank, kind: Callable[..., Any]) -> StepBuffers[Any]:
        """Memory for a fast step of games whose players have a group each.

        Args:
            blank: gives the memory.
            kind: makes positions of tensors.
        """
        state = kind(*(blank((), tuple(spec.shape), spec.dtype) for spec in self.state.values()))
        seen, mask = self.player["observation"], self.player["action_mask"]
        observations = [blank((), (1, *seen.shape), seen.dtype) for _ in self.groups]
        masks = blank((len(self.groups),), (1, *mask.shape), mask.dtype)
        return StepBuffers.blank(blank, state, observations, masks)

    def of_buffers(self, buffers: StepBuffers[Any], device: torch.device | None, *, rewards: bool) -> TensorDict:
        """The data that a fast step writes, root flags included; over the memory of the buffers."""
        batch = buffers.turn.shape[:-1]
        terminated, truncated, done, _, *others = buffers.flags.unbind(0)
        players = len(buffers.observations)
        acts, owns = others[:players], others[players:]

        nodes = []
        for group in self.groups:
            [seat] = group.seats
            *own, alive = owns[4 * seat : 4 * seat + 4]
            entries = {
                "observation": buffers.observations[seat],
                "action_mask": buffers.action_masks[seat],
                "mask": acts[seat],
            }
            if rewards:
                entries["reward"] = buffers.rewards[seat]
            entries |= {name: flag.unsqueeze(-1) for name, flag in zip(FLAGS, own, strict=True)}
            nodes.append(entries | {"alive": alive})
        root = {"turn": buffers.turn, "outcome": buffers.outcome}
        data = self._planted(root, buffers.state._asdict(), nodes, batch, device)
        for name, flag in zip(FLAGS, (terminated, truncated, done), strict=True):
            put(data, name, flag)
        return data

    def _planted(
        self,
        root: Values,
        state: Values,
        nodes: Sequence[dict[str, Any]],
        batch: Size,
        device: torch.device | None,
    ) -> TensorDict:
        """The tree of data, given the entries of the root, of the position and of each group."""
        data = new({**root, "state": new(dict(state), batch, device)}, batch, device)
        for group, entries in zip(self.groups, nodes, strict=True):
            plant(data, group.path, new(entries, Size((*batch, len(group.seats))), device))
        return data

    def nodes(
        self, td: TensorDictBase, make: Size | None = None, device: torch.device | None = None
    ) -> list[tuple[Group, Any]]:
        """The groups with their nodes in data, None where there is none.

        Args:
            td: the data.
            make: ``[*B]``: of the groups that act only, and nodes that are missing are made.
            device: of what is made.
        """
        groups, inside = self.groups if make is None else self.acting, raw(td)
        if self._flat and inside is not None:
            short = [(group, inside.get(group.path[0])) for group in groups]
            if make is None or all(type(node) is TensorDict for _, node in short):
                return short
        found = []
        for group in groups:
            node: Any = td
            for i, name in enumerate(group.path, 1):
                below = None if node is None else get(node, name)
                if make is not None and type(below) is not TensorDict and not is_nested(below):
                    below = new({}, Size((*make, len(group.seats))) if i == len(group.path) else make, device)
                    put(node, name, below)
                node = below
            found.append((group, node))
        return found


def _spread(entries: Mapping[str, TensorSpec], lead: Size) -> Composite:
    """Specs of single things as specs of many."""
    return Composite({name: spec.expand(*lead, *spec.shape) for name, spec in entries.items()}, shape=lead)


def _picker(seats: list[int], players: int) -> Callable[[Tensor, int], Tensor]:
    part = Part((), tuple(seats), players)
    if part.whole or not part.view:
        return part.take
    return partial(_run, seats[0], len(seats))


def _run(start: int, count: int, x: Tensor, dim: int) -> Tensor:
    """A run of neighbouring seats along a dimension, in memory of its own."""
    return x.narrow(dim, start, count).clone(memory_format=torch.contiguous_format)
