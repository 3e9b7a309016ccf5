"""The usual step of a game by hand: its data are those that the env gave, with actions, and are looked at in one go."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from tensordict import TensorDict
from torch import Size, Tensor

from marlenv.envs.stepping import advance
from marlenv.games.env.draws import Draws
from marlenv.games.fast.compiled import SOME_OVER
from marlenv.tensordicts import raw

if TYPE_CHECKING:
    from marlenv.games.env.game_env import GameEnv

S = TypeVar("S", bound="tuple[Any, ...]")
Data = tuple[TensorDict, TensorDict]
CONTROL = {"next", "_step", "_reset"}


class UsualStep(Generic[S]):
    """Steps so many games of an env, whose fast form plays whole steps, and whose players have a group each.

    What is not as the env gives it is left to the env, which says what is wrong with it.

    Args:
        env: one that fuses.
        batch: its data are ``[*B]``.
    """

    def __init__(self, env: GameEnv[S], batch: Size) -> None:
        data, _ = env._lend(batch, rewards=False)
        self.batch, self._kind, self._fields = batch, env._kind, env._fields
        seats = {group.seats[0]: group.path[0] for group in env.layout.groups}
        self._players = [seats[seat] for seat in sorted(seats)]
        self._ended = False  # whether a game was, in the step before
        self._offsets = env._offsets
        self._in_turn = not env.rules.simultaneous
        self._names = frozenset(data.keys())
        self._player = {*data[self._players[0]].keys(), "action"}
        action, rows = Size((*batch, 1)), [data["state", name] for name in self._fields]
        self._positions = [(x.shape, x.dtype) for x in rows]
        self._kinds = [*self._positions, *[(action, torch.int64)] * len(seats), (action, torch.bool)]
        self._action, self._state = action, frozenset(self._fields)

    def draw(self, env: GameEnv[S], td: TensorDict, draws: Draws) -> bool:
        """Writes random legal actions of those to move, as :meth:`TurnBasedEnv.fast_action` does."""
        inside = raw(td)
        held = None if inside is None or not self._in_turn else raw(inside.get("state"))
        if inside is None or held is None:
            return False
        nodes: list[Any] = [raw(inside.get(name)) for name in self._players]
        state: list[Any] = [held.get(name) for name in self._fields]
        if None in nodes or not _like(state, self._positions):
            return False
        action = draws.drawn(env._fast, self._kind(*state), self._offsets, self._action)
        if action is None:
            return False
        for node in nodes:  # groups share nothing: a change of one's actions must not be a change of another's
            node["action"] = action if node is nodes[0] else action.clone()
        return True

    def go_on(self, env: GameEnv[S], td: TensorDict) -> Data | None:
        """Steps, where nothing is to be looked at twice; returns the data of the step, and those to go on from.

        None: nothing was played.
        """
        inside, fast = raw(td), env._fast_steps
        if inside is None or fast is None or env.is_closed or env.run_type_checks or env._auto_reset is not None:
            return None
        if env.illegal != "raise" or td.device != env.device:
            return None
        given, more = self._given(inside), False
        if given is None:
            given, more = self._given(inside, env.plan.reward_tree), True
        if given is None:
            return None
        fields = len(self._fields)
        state, actions, done = self._kind(*given[:fields]), given[fields:-1], given[-1]
        data, following = env._lend(self.batch, rewards=True)
        fresh, restarted = env._reserve(self.batch, rewards=False)
        result = fast.step(state, actions, done, following, restarted, likely=self._ended)
        if not result:
            return None
        self._ended = result == SOME_OVER
        begun = self._with_old(fresh(), inside, actions, more=more) if self._ended else None
        inside["next"] = data
        if begun is None:
            return td, advance(td, env.plan.reward_tree)
        env._on_reset(begun)
        return td, begun

    def _with_old(self, begun: TensorDict, old: dict[str, Any], actions: list[Tensor], *, more: bool) -> TensorDict:
        """The data after a reset with the actions of those before it, and what they hold besides, if anything."""
        for name, action in zip(self._players, actions, strict=True):
            node = begun._tensordict[name]
            node._tensordict["action"] = action
            if more:
                node._tensordict = {**old[name]._tensordict, **node._tensordict}
        if more:
            begun._tensordict = {**old, **begun._tensordict}
        return begun

    def _given(self, inside: dict[str, Any], left_out: dict[str, Any] | None = None) -> list[Tensor] | None:
        """Positions, actions and flags, where the data have what the env gives.

        Args:
            inside: the data.
            left_out: what does not go on to the next step, as a tree; they may have other tensors besides, then.
        """
        if inside.keys() != self._names and not _plain(inside, self._names, left_out):
            return None
        held = raw(inside["state"])
        if held is None or held.keys() != self._state:
            return None
        given = [held[name] for name in self._fields]
        for name in self._players:
            node = raw(inside[name])
            if node is None or (node.keys() != self._player and not _plain(node, self._player, left_out, name)):
                return None
            given.append(node["action"])
        given.append(inside["done"])
        return given if _like(given, self._kinds) else None


def _plain(node: dict[str, Any], known: Set[str], left_out: dict[str, Any] | None, *group: str) -> bool:
    """Whether a node, that of a group or the root, has what is known, and besides only tensors that go on."""
    if left_out is None:
        return False
    for name in group:
        left_out = left_out.get(name) or {}
    more = node.keys() - known
    if not (node.keys() >= known and more.isdisjoint(CONTROL) and more.isdisjoint(left_out)):
        return False
    return all(type(node[name]) is Tensor for name in more)


def _like(values: list[Any], kinds: list[tuple[Size, torch.dtype]]) -> bool:
    """Whether values are tensors on the CPU of these shapes and dtypes."""
    for value, (shape, dtype) in zip(values, kinds, strict=True):  # a loop: this is asked in every step
        if type(value) is not Tensor or value.shape != shape or value.dtype is not dtype or not value.is_cpu:
            return False
    return True
