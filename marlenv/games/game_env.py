"""The layout that all games share: groups of players, with observations, masks, rewards and flags of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import KeyMissing, ShapeError, SpecError
from marlenv.games.draws import Draws
from marlenv.games.memory import SOME_OVER, Pages, for_numba
from marlenv.games.rules import Rules, Told
from marlenv.games.turn_based import LUCK, PLY, Moment, TurnBasedEnv
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.keys import DONE_NAMES, NestedKey, Path, nested
from marlenv.specs import Binary, Categorical, Composite, TensorSpec, Unbounded
from marlenv.tensordicts import entries, get, is_nested, new, put, separate

S = TypeVar("S", bound="tuple[Any, ...]")

FEW = 1 << 12  # masks of so many entries are combined as they are
WRITTEN = (torch.bool, torch.float32, torch.float64)  # observations that numba writes


class _Group(NamedTuple):
    """A group of players."""

    path: Path
    seats: list[int]
    pick: Callable[[Tensor, int], Tensor]
    """Picks the group's seats along a dimension."""


class GameEnv(TurnBasedEnv[S]):
    """Any game with a group per player (or other groups), the layout that all games share.

    | key | shape | meaning |
    |---|---|---|
    | `(group, "observation")` | `[*B, A, ...]` | what each player may know, from its own seat |
    | `(group, "action")` | int64 `[*B, A]` | read where `mask` is True; with an opponent of its seat's group only |
    | `(group, "action_mask")` | bool `[*B, A, n]` | legal actions; all True for those who do not act |
    | `(group, "mask")`, `(group, "alive")` | bool `[*B, A]` | whose turn it is; whether the game goes on |
    | `(group, "reward")` | `[*B, A, 1]` | what the last move earned this player |
    | `(group, "done")`, ... | bool `[*B, A, 1]` | as at the root |
    | `turn` | int64 `[*B, 1]` | the seat to move; 0 where all act at once |
    | `outcome` | int8 `[*B, 1]` | why the game ended: an index into `env.outcomes`, 0 while it goes on |
    | `("state", ...)` | | the position, hidden parts and chance included; give it to `reset(td, set_state=True)` |

    Args:
        rules: of the game.
        group_map: group -> players; a group per player when left out.
        observation_dtype: observations that the rules give as bool come as this; ``torch.bool`` leaves them as they are.
        **options: those of :class:`TurnBasedEnv`.

    >>> env = GameEnv(marlenv.games.TicTacToe(), batch_size=[4], seed=0)
    >>> td = env.rollout(9, break_when_any_done=False)
    >>> bool((td["next", "x", "reward"] + td["next", "o", "reward"] == 0).all())
    True
    """

    def __init__(
        self,
        rules: Rules[S],
        *,
        group_map: GroupMap | MarlGroupMapType | str | None = None,
        observation_dtype: torch.dtype = torch.float32,
        **options: Any,
    ) -> None:
        super().__init__(rules, **options)
        if not (observation_dtype.is_floating_point or observation_dtype == torch.bool):
            raise SpecError(f"GameEnv: observation_dtype must be a float type or torch.bool, got {observation_dtype}")
        players = list(rules.players)
        self.group_map = resolve(group_map, players, default=MarlGroupMapType.ONE_GROUP_PER_AGENT)
        self.tree = GroupTree(self.group_map)
        self.observation_dtype = observation_dtype
        seats = {path: [players.index(a) for a in agents] for path, agents in self.tree.groups.items()}
        self._groups = [_Group(path, own, _picker(own, len(players))) for path, own in seats.items()]
        pair = [seat for own in seats.values() for seat in own]
        self._pair = [pair.index(0), pair.index(1)] if len(seats) == len(players) == 2 else None
        self._by_seat = _order([seat for own in seats.values() for seat in own], len(players))
        self._opening: TensorDict | None = None
        self._pages = Pages()
        plain = self.opponent is None and self.max_plies is None and self._pair is not None
        self._lean = plain and type(rules).turn is not Rules.turn and observation_dtype in WRITTEN
        self._make_specs()
        places = [entry.path[:-1] for entry in self.plan.actions]
        self._actors = [group for group in self._groups if group.path in places]
        self._lane_of_seat = _order([seat for path in places for seat in seats[path]], len(players))

    def _make_specs(self) -> None:
        rules, shape = self.rules, self.batch_size
        seen_by_one = self._observed(self._example)[0, 0]
        seen, acted, earned, done = (Composite(shape=shape) for _ in range(4))
        for path, seats, _ in self._groups:
            lead, key = (*shape, len(seats)), nested(path)
            flag = lambda *tail, lead=lead: Binary(shape=(*lead, *tail), dtype=torch.bool)  # noqa: E731
            seen[key] = Composite(
                observation=_example_spec(seen_by_one, lead),
                action_mask=self._mask_spec(lead),
                mask=flag(),
                alive=flag(),
                shape=lead,
            )
            if self.opponent is None or self.seat in seats:
                acted[key] = Composite(action=Categorical(rules.n_actions, lead), shape=lead)
            earned[key] = Composite(reward=Unbounded((*lead, 1)), shape=lead)
            done[key] = Composite({name: flag(1) for name in DONE_NAMES}, shape=lead)
        position = {n: _example_spec(leaf[0], shape) for n, leaf in zip(self._fields, self._example, strict=True)}
        if self.max_plies is not None:
            position[PLY] = Unbounded((*shape, 1), dtype=torch.int64)
        if self.opponent == "random":
            position[LUCK] = Unbounded((*shape, 2), dtype=torch.int64)
        seen["turn"] = Categorical(len(rules.players), (*shape, 1))
        seen["outcome"] = Categorical(len(self.outcomes), (*shape, 1), dtype=torch.int8)
        seen["state"] = Composite(position, shape=shape)
        self.observation_spec, self.action_spec, self.reward_spec = seen, acted, earned
        self.state_spec = Composite(state=seen["state"].clone(), shape=shape)
        self.full_done_spec = done.update(self.flags())

    # --- positions, actions ----------------------------------------------------------------------

    def read(self, tensordict: TensorDictBase) -> S:
        """The positions in the data."""
        held = get(tensordict, "state")
        if held is None:
            raise KeyMissing(f"GameEnv: no entry 'state'; the data has {sorted(map(str, tensordict.keys()))}")
        return self._fitting(self._kind(*(get(held, name) for name in self._fields)), held.batch_size)

    def _fitting(self, state: S, batch: Size) -> S:
        """The positions ``[*B]`` themselves, if their parts have the shapes of the rules."""
        for name, leaf, known in zip(self._fields, state, self._example, strict=True):
            if leaf is None or leaf.shape[len(batch) :] != known.shape[1:]:
                raise ShapeError(
                    f"GameEnv: a position has ('state', {name!r}) of shape {[*batch, *known.shape[1:]]}, got "
                    f"{'none' if leaf is None else list(leaf.shape)}; take positions from env.reset() or env.get_state(td)"
                )
        return state

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """The move count or the opponent's stream, where there is one."""
        held = get(tensordict, "state")
        value: Tensor | None = None if held is None else get(held, name)
        return value.squeeze(-1) if value is not None and name == PLY else value

    def act(self, tensordict: TensorDictBase, state: S) -> Tensor:
        """The actions of the players to move."""
        found: list[Tensor] = []
        for path, seats, _ in self._groups:
            node: Any = tensordict
            for name in path:
                node = get(node, name)
            action = get(node, "action")
            if action is None:  # an opponent writes for its own seat; a seat that should have written stays illegal
                batch = tensordict.batch_size
                action = torch.full((*batch, len(seats)), -1, dtype=torch.int64, device=tensordict.device)
            found.append(action)
        if self._pair is not None and not self.rules.simultaneous:
            first, second = (found[i].squeeze(-1) for i in self._pair)
            return torch.where(self.rules.player(state) == 0, first, second)
        actions = self._seated(found, self._by_seat)
        if self.rules.simultaneous:
            return actions
        return actions.gather(-1, self.rules.player(state).unsqueeze(-1)).squeeze(-1)

    def choose(self, tensordict: TensorDictBase, state: S, action: Tensor) -> TensorDictBase:
        """Writes the actions of those to move; the others get the same number."""
        batch = action.shape[:-1] if self.rules.simultaneous else action.shape
        for n, (path, seats, pick) in enumerate(self._actors):
            lead = Size((*batch, len(seats)))
            node: Any = tensordict
            for i, name in enumerate(path, 1):
                below = get(node, name)
                if not is_nested(below):
                    below = new({}, lead if i == len(path) else batch, self.device)
                    put(node, name, below)
                node = below
            if self.rules.simultaneous:
                mine = pick(action, len(batch))
            else:  # groups share nothing: a change of one's actions must not be a change of another's
                mine = action.unsqueeze(-1) if n == 0 else action.clone().unsqueeze(-1)
                mine = mine if len(seats) == 1 else mine.expand(lead).clone()
            put(node, "action", mine)
        return tensordict

    @property
    def _opponent_keys(self) -> list[NestedKey]:
        others = [path for path, seats, _ in self._groups if self.seat not in seats]
        return [nested((*path, "action")) for path in others] or list(self.action_keys)

    def _unit(self, state: S, draws: Draws) -> Tensor:
        lanes = self._lane_of_seat
        if draws.width == 1:  # of the one who has an opponent
            unit = draws.one(None)
            return unit.unsqueeze(-1).expand(*unit.shape, len(self.rules.players)) if self.rules.simultaneous else unit
        if self.rules.simultaneous:
            return draws.all() if lanes is None else draws.all()[..., lanes]
        player = self.rules.player(state)
        if lanes is None:
            return draws.one(player)
        if lanes == [1, 0]:
            return draws.one(1 - player)
        return draws.one(torch.tensor(lanes, device=player.device)[player])

    @property
    def _lanes_of_seats(self) -> tuple[int, int] | None:
        if self.rules.simultaneous or len(self.rules.players) != 2:
            return None
        first, second = self._lane_of_seat or (0, 1)
        return first, second

    def _seated(self, parts: list[Tensor], order: list[int] | None) -> Tensor:
        """What groups hold, ``[*B, A]`` each, as one tensor in the order of seats, ``[*B, P]``."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return whole if order is None else whole[..., order]

    # --- data ------------------------------------------------------------------------------------

    def write(self, moment: Moment[S], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a moment, without root flags."""
        rules, state = self.rules, moment.state
        ended = moment.ended
        going, players = ~ended, range(len(rules.players))
        turn = torch.zeros_like(ended, dtype=torch.int64) if rules.simultaneous else rules.player(state)
        acting = [going if rules.simultaneous else (turn == seat) & going for seat in players]
        masks = torch.stack(acting, -1)
        seen = {"observation": self._observed(state), "action_mask": self._allowed(state, masks), "mask": masks}
        if moment.rewards is not None:
            seen["reward"] = moment.rewards.unsqueeze(-1)
        position = dict(zip(self._fields, state, strict=True))
        if moment.plies is not None:
            position[PLY] = moment.plies.unsqueeze(-1)
        if moment.luck is not None:
            position[LUCK] = moment.luck
        parts = {"turn": turn.unsqueeze(-1), "outcome": moment.outcome.unsqueeze(-1)}
        own = iter(separate((*position.values(), *parts.values(), *seen.values()), held))
        position, parts, seen = ({name: next(own) for name in entries} for entries in (position, parts, seen))
        cut = torch.zeros_like(going) if moment.truncated is None else moment.truncated
        return self._laid_out(parts, position, seen, torch.stack((moment.over, cut, ended, going)))

    def _laid_out(
        self, parts: dict[str, Any], position: dict[str, Any], seen: dict[str, Tensor], flags: Tensor
    ) -> TensorDict:
        """The data of a moment, without root flags.

        Args:
            parts: the other entries of the root.
            position: the entries of ``"state"``.
            seen: what the players see, ``[*B, P, ...]`` each.
            flags: whether rows are terminated, truncated, done, alive; ``[4, *B]``.
        """
        batch, device = flags.shape[1:], self.device
        dim, flags = len(batch), flags.unsqueeze(-1).unsqueeze(-1)
        data: dict[str, Any] = {**parts, "state": new(position, batch, device)}
        for path, seats, pick in self._groups:
            node: dict[str, Any] = data
            for name in path[:-1]:
                below = node.get(name)
                if below is None:
                    below = node[name] = new({}, batch, device)
                node = below._tensordict
            own = flags.expand(4, *batch, len(seats), 1).clone(memory_format=torch.contiguous_format)
            terminated, truncated, done, alive = own.unbind(0)
            ends = {"terminated": terminated, "truncated": truncated, "done": done, "alive": alive.squeeze(-1)}
            entries = {name: pick(value, dim) for name, value in seen.items()}
            node[path[-1]] = new({**entries, **ends}, Size((*batch, len(seats))), device)
        return new(data, batch, device)

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step in one pass, where the rules have one and no action is illegal."""
        gone = self._ended(tensordict) if self._lean else None
        if gone is None:
            return None
        state, batch = self.read(tensordict), tensordict.batch_size
        actions: list[Any] = [None, None]
        for seat, node in self._nodes(tensordict):
            actions[seat] = get(node, "action")
        if not for_numba(*state, *actions, rows=batch.numel()):
            return None
        data, arrays = self._room(batch)
        begun, begun_arrays = self._room(batch, begun=True) if ahead else (None, None)
        what = self.rules.turn(state, actions, gone, arrays, begun_arrays)
        return (data, begun if what == SOME_OVER else None) if what else None

    def _nodes(self, tensordict: TensorDictBase, rows: Size | None = None) -> list[tuple[int, Any]]:
        """The groups of data, of one seat each, with their seats; those that are missing are made where ``rows`` says how."""
        found = []
        for path, seats, _ in self._groups:
            node: Any = tensordict
            for i, name in enumerate(path, 1):
                below = None if node is None else get(node, name)
                if below is None and rows is not None:
                    below = new({}, Size((*rows, 1)) if i == len(path) else rows, self.device)
                    put(node, name, below)
                node = below
            found.append((seats[0], node))
        return found

    def _room(self, batch: Size, *, begun: bool = False) -> tuple[TensorDict, Any]:
        """Data to be written after a ply, or after games that are over have begun anew, and what is written to."""
        return self._pages.take((batch, begun, self.device), lambda: self._page(batch, begun=begun))

    def _page(self, batch: Size, *, begun: bool) -> tuple[TensorDict, Any]:
        """A new page for :meth:`_room`."""
        state = self._kind(*(torch.empty((*batch, *part.shape[1:]), dtype=part.dtype) for part in self._example))
        shape, dtype = self.rules.observation_shape, self.observation_dtype
        seen = [torch.empty((*batch, 1, *shape), dtype=dtype) for _ in self.rules.players]
        allowed = torch.empty((len(self.rules.players), *batch, 1, self.rules.n_actions), dtype=torch.bool)
        told = Told.blank(batch, state, seen, allowed)
        return self._retold(told, rewards=not begun), told.arrays()

    def _retold(self, told: Told[S], *, rewards: bool) -> TensorDict:
        """The data of what is told, root flags included."""
        device, batch = self.device, told.turn.shape[:-1]
        terminated, truncated, done, _, *others = told.flags.unbind(0)
        acts, owns = others[:2], (others[2:6], others[6:])
        root = {"terminated": terminated, "truncated": truncated, "done": done}
        position = new(dict(zip(self._fields, told.state, strict=True)), batch, device)
        data: dict[str, Any] = {"turn": told.turn, "outcome": told.outcome, "state": position, **root}
        for path, (seat,), _ in self._groups:
            node = data
            for name in path[:-1]:
                node = node.setdefault(name, new({}, batch, device))._tensordict
            *own, alive = owns[seat]
            entries = {name: flag.unsqueeze(-1) for name, flag in zip(root, own, strict=True)}
            entries |= {
                "alive": alive,
                "observation": told.seen[seat],
                "action_mask": told.allowed[seat],
                "mask": acts[seat],
            }
            if rewards:
                entries["reward"] = told.earned[seat]
            node[path[-1]] = new(entries, Size((*batch, 1)), device)
        return new(data, batch, device)

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """The data with the rows that are marked as they are when a game begins, where all games begin in the same way."""
        if self._chance or self.opponent is not None or mask.device.type != "cpu" or not mask.ndim:
            return None
        if self._opening is None:
            self._opening = self._told(self._first(Size([1])))
        return _begun(tensordict, self._opening, mask.reshape(-1).nonzero().squeeze(-1), mask.shape)

    def _observed(self, state: S) -> Tensor:
        """What each player may know, in the dtype asked for; ``[*B, P, ...]``."""
        observed = self.rules.observe(state)
        if observed.dtype != torch.bool or self.observation_dtype == torch.bool:
            return observed
        return observed.view(torch.int8).to(self.observation_dtype)  # from bytes: CPUs convert these faster than bools

    def _mask_spec(self, lead: Sequence[int]) -> TensorSpec:
        """The spec of the legal actions of a group ``lead``."""
        return Binary(shape=(*lead, self.rules.n_actions), dtype=torch.bool)

    def _allowed(self, state: S, acting: Tensor) -> Tensor:
        """What each player may do, given who acts, bool ``[*B, P]``; all actions for those who do not; ``[*B, P, n]``."""
        return self._free(self.rules.legal(state), acting)

    def _free(self, legal: Tensor, acting: Tensor) -> Tensor:
        """The legal actions of those who act, and all actions of the others; bool ``[*B, P, n]``.

        Of many rows, whole rows are copied: combining two masks of different shapes takes CPUs many times as long.
        """
        if legal.numel() <= FEW or legal.device.type != "cpu":
            return (legal if self.rules.simultaneous else legal.unsqueeze(-2)) | ~acting.unsqueeze(-1)
        n, acts = self.rules.n_actions, acting.movedim(-1, 0)  # a player's masks lie together
        rows = legal.reshape(-1, n)
        index = torch.arange(acts[0].numel(), device=legal.device).reshape(acts.shape[1:])
        if self.rules.simultaneous:
            seats = torch.arange(acts.shape[0], device=legal.device).reshape(-1, *[1] * index.ndim)
            index = index * acts.shape[0] + seats
        index = torch.where(acts, index, rows.shape[0])
        rows = torch.cat((rows, rows.new_ones(1, n)))
        return rows.index_select(0, index.reshape(-1)).reshape((*acts.shape, n)).movedim(0, -2)


def _begun(td: TensorDictBase, opening: TensorDictBase, rows: Tensor, batch: Size) -> TensorDict:
    """The entries of ``td`` that ``opening``, one row, has too, with that row in some rows; int64 ``[n]``."""
    data: dict[str, Any] = {}
    for name, first in entries(opening):
        held = get(td, name)
        if is_nested(first):
            data[name] = _begun(held, first, rows, batch)
        elif name in DONE_NAMES:  # nothing is done now
            data[name] = torch.zeros_like(held)
        else:
            flat = held.flatten(0, len(batch) - 1).clone(memory_format=torch.contiguous_format)
            flat.index_copy_(0, rows, first.expand(len(rows), *first.shape[1:]))
            data[name] = flat.unflatten(0, batch)
    return new(data, td.batch_size, td.device)


def _order(seats: list[int], players: int) -> list[int] | None:
    """Where each seat is in a list of seats, 0 for those that are not; None when all are there in order."""
    if seats == list(range(players)):
        return None
    return [seats.index(seat) if seat in seats else 0 for seat in range(players)]


def _picker(seats: list[int], players: int) -> Callable[[Tensor, int], Tensor]:
    """Picks the rows of some seats along a dimension, into memory of their own; the tensor itself for all seats in order."""
    if seats == list(range(players)):
        return _all
    first, count = seats[0], len(seats)
    if seats == list(range(first, first + count)):
        return partial(_run, first=first, count=count)
    return partial(_some, seats=seats)


def _all(t: Tensor, dim: int) -> Tensor:
    return t


def _run(t: Tensor, dim: int, first: int, count: int) -> Tensor:
    return t.narrow(dim, first, count).clone(memory_format=torch.contiguous_format)


def _some(t: Tensor, dim: int, seats: list[int]) -> Tensor:
    return t.index_select(dim, torch.tensor(seats, device=t.device))


def _example_spec(example: Tensor, lead: Sequence[int]) -> TensorSpec:
    """The spec of values like an example, with leading dimensions."""
    shape = (*lead, *example.shape)
    if example.dtype == torch.bool:
        return Binary(shape=shape, dtype=torch.bool)
    return Unbounded(shape, dtype=example.dtype)
