"""Any game as an env.

A group per player (or other groups), with observations, masks, rewards and flags of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.compiling import outside_graphs
from marlenv.errors import GroupError, PositionMissing, ShapeError, SpecError
from marlenv.games.env.draws import Draws
from marlenv.games.env.fused_rollout import RolloutsInMemory, in_order
from marlenv.games.env.layout import GameLayout
from marlenv.games.env.opponents import Seats
from marlenv.games.env.time_step import TimeStep
from marlenv.games.env.turn_based import FIRST_RNG, GRAPHS, OPENING, OPPONENT_RNG, PLIES
from marlenv.games.env.usual_step import UsualStep
from marlenv.games.fast.compiled import (
    ALL_PLAYED,
    GAME_OVER,
    ILLEGAL_NEXT,
    SOME_OVER,
    as_rows,
    for_numba,
    like,
    worth_compiling,
)
from marlenv.games.fast.data_pool import DataPool
from marlenv.games.fast.fast_rules import FastRollouts, FastSteps
from marlenv.games.fast.step_buffers import Blank, StepBuffers, new_memory
from marlenv.games.rules import Rules
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.keys import DONE_NAMES, nested
from marlenv.specs import Binary, Categorical, TensorSpec, Unbounded
from marlenv.tensordicts import copy_over, entries, get, is_nested, new, put, raw, separate

S = TypeVar("S", bound="tuple[Any, ...]")

CPU = torch.device("cpu")
MANY = 256  # games from which on memory for them is used again when all begin
FEW = 1 << 12  # masks of so many entries are combined as they are
WRITTEN = (torch.bool, torch.float32, torch.float64)  # observations that numba writes


class GameEnv(RolloutsInMemory[S]):
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
    | `("state", "opening_rewards")` | `[*B, P]` | with an opponent: what the next step pays of the moves before it |

    Args:
        rules: of the game.
        group_map: group -> players; a group per player when left out.
        observation_dtype: observations that the rules give as bool come as this; ``torch.bool`` leaves them as they
            are. A name such as ``"float16"`` will do.
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
        observation_dtype: torch.dtype | str = torch.float32,
        **options: Any,
    ) -> None:
        super().__init__(rules, **options)
        dtype = _observed_dtype(observation_dtype)
        players = list(rules.players)
        self.group_map = resolve(group_map, players, default=MarlGroupMapType.ONE_GROUP_PER_AGENT)
        self.tree = GroupTree(self.group_map)
        self.observation_dtype = dtype
        self._pays_openings = self._allow_done_after_reset = self.opponent is not None and not rules.simultaneous
        seats = {path: [players.index(a) for a in agents] for path, agents in self.tree.groups.items()}
        in_order = [seat for own in seats.values() for seat in own]
        self._pair = [in_order.index(0), in_order.index(1)] if len(seats) == len(players) == 2 else None
        self._by_seat = _order(in_order, len(players))
        self._opening: TensorDict | None = None
        self._pool = DataPool()
        self._shapes: tuple[Size, list[tuple[Size, torch.dtype]]] | None = None
        self._players = len(players)
        alone = all(len(own) == 1 for own in seats.values())
        plain = self.opponent is None and self.max_plies is None and alone
        fast = self._fast if plain and dtype in WRITTEN else None
        self._fast_steps = fast if isinstance(fast, FastSteps) else None
        self.layout = self._make_layout(seats)
        specs = self.layout.specs(self.batch_size)
        self.observation_spec, self.action_spec, self.reward_spec = (
            specs[k] for k in ("observation", "action", "reward")
        )
        self.state_spec, self.full_done_spec = specs["state"], specs["done"].update(self.flags())
        places = [entry.path[:-1] for entry in self.plan.actions]
        self._stream_order = _order([seat for path in places for seat in seats[path]], len(players))

    def _make_layout(self, seats: dict[Any, list[int]]) -> GameLayout:
        rules, position = self.rules, zip(self._fields, self._example, strict=True)
        state: dict[str, TensorSpec] = {name: _like(leaf[0]) for name, leaf in position}
        if self.max_plies is not None:
            state[PLIES] = Unbounded((1,), dtype=torch.int64)
        if self.opponent == "random":
            state[OPPONENT_RNG] = Unbounded((2,), dtype=torch.int64)
        if self._draws_first:
            state[FIRST_RNG] = Unbounded((2,), dtype=torch.int64)
        if self._pays_openings:
            state[OPENING] = Unbounded((len(rules.players),), dtype=torch.float32)
        root: dict[str, TensorSpec] = {
            "turn": Categorical(len(rules.players), (1,)),
            "outcome": Categorical(len(self.outcomes), (1,), dtype=torch.int8),
        }
        for path in seats:
            if path[0] in ("state", *root):
                raise GroupError(
                    f"GameEnv: {path[0]!r} cannot name a group, as it names an entry of the data (state, "
                    f"{', '.join(root)}); name the player otherwise, or give a group_map"
                )
        return GameLayout(
            seats,
            len(rules.players),
            acting=[path for path, own in seats.items() if self.opponent is None or self.seat in own],
            root=root,
            state=state,
            player={"observation": _like(self._observed(self._example)[0, 0]), "action_mask": self._mask_spec()},
            action=Categorical(rules.n_actions, ()),
            reward=Unbounded((1,), dtype=torch.float32),
        )

    # --- positions, actions ----------------------------------------------------------------------

    def read(self, tensordict: TensorDictBase) -> S:
        """The positions in the data."""
        held = get(tensordict, "state")
        if held is None:
            found = sorted(map(str, tensordict.keys()))
            raise PositionMissing(
                f"GameEnv: no entry 'state'; the data has {found}; call reset() first, and step its data"
            )
        inside = raw(held)
        parts = [get(held, name) for name in self._fields] if inside is None else map(inside.get, self._fields)
        return self._fitting(self._kind(*parts), held.batch_size)

    def _fitting(self, state: S, batch: Size) -> S:
        """The positions ``[*B]`` themselves, if their parts have the shapes and dtypes of the rules."""
        known = self._shapes
        if known is None or known[0] != batch:
            known = self._shapes = (batch, [(Size((*batch, *x.shape[1:])), x.dtype) for x in self._example])
        for leaf, (shape, dtype) in zip(state, known[1], strict=True):
            if leaf is None or leaf.shape != shape or leaf.dtype is not dtype:
                return self._fitting_rows(state, batch)
        return state

    def _fitting_rows(self, state: S, batch: Size) -> S:
        """The same, looked at without what comes before the shapes of the rules."""
        rows = len(batch)
        for name, leaf, known in zip(self._fields, state, self._example, strict=True):
            if leaf is None or leaf.shape[rows:] != known.shape[1:]:
                raise ShapeError(
                    f"GameEnv: a position has ('state', {name!r}) of shape {[*batch, *known.shape[1:]]}, got "
                    f"{'none' if leaf is None else list(leaf.shape)}; take positions from env.reset() or "
                    f"env.get_state(td)"
                )
            if leaf.dtype != known.dtype:
                raise SpecError(
                    f"GameEnv: a position has ('state', {name!r}) of {known.dtype}, got {leaf.dtype}; take positions "
                    f"from env.reset() or env.get_state(td)"
                )
        return state

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """The move count, the opponent's stream or what is owed, where there is one."""
        held = get(tensordict, "state")
        value: Tensor | None = None if held is None else get(held, name)
        return value.squeeze(-1) if value is not None and name == PLIES else value

    def act(self, tensordict: TensorDictBase, state: S) -> Tensor:
        """The actions of the players to move."""
        found: list[Tensor] = []
        for group, node in self.layout.nodes(tensordict):
            action = get(node, "action")
            if action is None:  # of who is not to move
                lead = (*tensordict.batch_size, len(group.seats))
                action = torch.full(lead, -1, dtype=torch.int64, device=tensordict.device)
            elif action.dtype != torch.int64:
                action = self.widened(action)
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
        nodes = self.layout.nodes(tensordict, batch, self.device)
        if self.rules.simultaneous:
            for group, node in nodes:
                put(node, "action", group.pick(action, len(batch)))
            return tensordict
        own = action.unsqueeze(-1)
        for n, (group, node) in enumerate(nodes):
            count = len(group.seats)
            if count > 1:
                mine = own.expand(*batch, count).clone()
            else:  # groups share nothing: a change of one's actions must not be a change of another's
                mine = own if n == 0 else own.clone()
            put(node, "action", mine)
        return tensordict

    def fast_action(self, tensordict: TensorDictBase, draws: Draws) -> bool:
        """Actions that are drawn in the shape in which groups of one player hold them."""
        usual = self._usual_step(tensordict)
        return usual is not None and usual.draw(self, tensordict, draws)

    @property
    def _opponent_seats(self) -> Seats:
        others = (group for group in self.layout.groups if group.seats != [self.seat])
        return {nested((*path, "action")): seats for path, seats, _ in others}

    def _unit(self, state: S, draws: Draws) -> Tensor:
        order = self._stream_order
        if draws.width == 1:  # of the one who has an opponent
            unit = draws.one(None)
            return unit.unsqueeze(-1).expand(*unit.shape, len(self.rules.players)) if self.rules.simultaneous else unit
        if self.rules.simultaneous:
            return draws.all() if order is None else draws.all()[..., order]
        player = self.rules.player(state)
        if order is None:
            return draws.one(player)
        if order == [1, 0]:
            return draws.one(1 - player)
        return draws.one(torch.tensor(order, device=player.device)[player])

    @property
    def _offsets(self) -> tuple[int, ...] | None:
        return tuple(self._stream_order or range(self._players))

    def _seated(self, parts: list[Tensor], order: list[int] | None) -> Tensor:
        """What groups hold, ``[*B, A]`` each, as one tensor in the order of seats, ``[*B, P]``."""
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return whole if order is None else whole[..., order]

    # --- data ------------------------------------------------------------------------------------

    def write(self, step: TimeStep[S], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a time step, without root flags."""
        rules, state = self.rules, step.state
        done = step.done
        going = ~done
        turn = torch.zeros_like(done, dtype=torch.int64) if rules.simultaneous else rules.player(state)
        seats = range(len(rules.players))
        masks = torch.stack([going if rules.simultaneous else (turn == seat) & going for seat in seats], -1)
        players = {"observation": self._observed(state), "action_mask": self._allowed(state, masks), "mask": masks}
        if step.rewards is not None:
            players["reward"] = step.rewards.unsqueeze(-1)
        position = dict(zip(self._fields, state, strict=True))
        if step.plies is not None:
            position[PLIES] = step.plies.unsqueeze(-1)
        if step.opponent_rng is not None:
            position[OPPONENT_RNG] = step.opponent_rng
        if step.first_rng is not None:
            position[FIRST_RNG] = step.first_rng
        if step.opening_rewards is not None:
            position[OPENING] = step.opening_rewards
        root = {"turn": turn.unsqueeze(-1), "outcome": step.outcome.unsqueeze(-1)}
        own = iter(separate((*position.values(), *root.values(), *players.values()), held))
        position, root, players = ({name: next(own) for name in part} for part in (position, root, players))
        truncated = torch.zeros_like(going) if step.truncated is None else step.truncated
        flags = torch.stack((step.terminated, truncated, done, going))
        return self.layout.tree(root, position, players, flags, self.device)

    # --- the short ways of the CPU ---------------------------------------------------------------

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        usual = self._usual_step(tensordict)
        made = None if usual is None else usual.go_on(self, tensordict)
        return super().step_and_maybe_reset(tensordict) if made is None else made

    def _usual_step(self, tensordict: Any) -> UsualStep[S] | None:
        """What steps and draws for so many games at once; None where that cannot be."""
        if type(tensordict) is not TensorDict or not self._locked or torch.compiler.is_dynamo_compiling():
            return None
        batch, known = tensordict.batch_size, self._cache.get("usual step")
        if known is None or known[0] != batch:
            known = self._cache["usual step"] = (batch, UsualStep(self, batch) if self._steps_at_once(batch) else None)
        return known[1]

    def _steps_at_once(self, batch: Size) -> bool:
        """Whether a fast form plays the steps of so many games, whose actions are where this layout has them."""
        if batch != self.batch_size and (self.batch_size or self.batch_locked):
            return False
        asked = {entry.path: entry.spec.shape for entry in self.plan.actions}
        here = {(group.path[0], "action"): Size((*self.batch_size, 1)) for group in self.layout.groups}
        return self._fast_steps is not None and self.fuses(batch) and asked == here

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step in one pass, where the game has a fast form that plays steps and no action is illegal."""
        done = None if self._fast_steps is None else self._flag(tensordict)
        if done is None or self._fast_steps is None:
            return None
        state, batch, actions = self.read(tensordict), tensordict.batch_size, self.actions_by_seat(tensordict)
        if not (for_numba(*actions, rows=batch.numel()) and like(state, self._example)):
            return None
        data, following = self._lend(batch, rewards=True)
        fresh, restarted = self._reserve(batch, rewards=False) if ahead else (None, None)
        result = self.fast_play(state, actions, done, following, restarted)
        return (data, fresh() if fresh is not None and result == SOME_OVER else None) if result else None

    def fuses(self, batch: Size) -> bool:
        """Whether :meth:`fast_play` plays all steps of so many games, and is all that a step does."""
        return type(self) is GameEnv and self._fast_steps is not None and worth_compiling(batch.numel())

    def fast_play(
        self, state: S, actions: Sequence[Tensor], done: Tensor, following: Any, restarted: Any | None
    ) -> int:
        """Plays a step into memory, as :meth:`FastSteps.step` does."""
        assert self._fast_steps is not None
        return self._fast_steps.step(state, actions, done, following, restarted)

    def actions_by_seat(self, tensordict: TensorDictBase) -> list[Any]:
        """The actions of players who have a group each."""
        actions: list[Any] = [None] * self._players
        for group, node in self.layout.nodes(tensordict):
            action = get(node, "action")
            if action is not None and action.dtype != torch.int64:
                action = self.widened(action)
            actions[group.seats[0]] = action
        return actions

    def _lend(self, batch: Size, *, rewards: bool) -> tuple[TensorDict, Any]:
        """Data for a fast step to write to, and what it is given of them; without rewards for games that begin."""
        give, memory = self._reserve(batch, rewards=rewards)
        return give(), memory

    def _reserve(self, batch: Size, *, rewards: bool) -> tuple[Callable[[], TensorDict], Any]:
        """The same, with a function that gives the data."""
        return self._pool.reserve((batch, rewards, self.device), lambda: self._make_buffers(batch, rewards=rewards))

    def _make_buffers(self, batch: Size, *, rewards: bool) -> tuple[TensorDict, Any]:
        """New memory for :meth:`_lend`."""
        buffers = self.blank_buffers(new_memory(batch))
        return self.data_of(buffers, rewards=rewards), self.places(buffers)

    def blank_buffers(self, blank: Blank) -> StepBuffers[S]:
        """Memory for a fast step."""
        return self.layout.buffers(blank, self._kind)

    def data_of(self, buffers: StepBuffers[S], *, rewards: bool) -> TensorDict:
        """The data over memory of a fast step."""
        return self.layout.of_buffers(buffers, self.device, rewards=rewards)

    def blank_actions(self, blank: Blank) -> list[Tensor]:
        """Memory for the actions of each seat."""
        return [blank((), (1,), torch.int64) for _ in self.rules.players]

    def put_actions(self, data: TensorDict, actions: Sequence[Tensor]) -> None:
        """Writes the actions of each seat into the data."""
        for group, node in self.layout.nodes(data):
            put(node, "action", actions[group.seats[0]])

    def places(self, buffers: StepBuffers[S]) -> Any:
        """What :meth:`fast_play` is given of memory that it writes to."""
        return buffers.arrays()

    def fast_rollout(
        self, steps: int, before: StepBuffers[S], after: StepBuffers[S], actions: list[Tensor], *, stops: bool
    ) -> tuple[int, int]:
        """Random play into memory, in one call where the game's fast form has it, else step by step."""
        batch, fast = before.turn.shape[:-1], self._fast_steps
        draws, offsets = self._draws_of(batch), self._offsets
        if not isinstance(fast, FastRollouts) or draws.keys is None or offsets is None:
            return self._step_by_step(steps, before, after, actions, stops=stops)
        memory = before.arrays_of_steps(steps), after.arrays_of_steps(steps)
        chosen = tuple(as_rows(x, batch.numel()) for x in actions)
        count, why = fast.rollout(steps, *memory, chosen, (draws.keys, draws.at, draws.width, offsets), stops=stops)
        draws.move(count)
        return count, why

    def _step_by_step(
        self, steps: int, before: StepBuffers[S], after: StepBuffers[S], actions: list[Tensor], *, stops: bool
    ) -> tuple[int, int]:
        """The same as :meth:`fast_rollout` does."""
        batch, now = before.turn.shape[:-1], before
        for t in range(steps):
            td = new({"state": new(dict(zip(self.layout.state, now.state, strict=True)), batch)}, batch)
            for memory, action in zip(actions, self.actions_by_seat(self.rand_action(td)), strict=True):
                memory[t].copy_(action)
            then, last = after.later(t), t == steps - 1
            following = None if last else before.later(t + 1)
            restarted = None if stops or following is None else self.places(following)
            done = now.flags[2].squeeze(-1)
            result = self.fast_play(now.state, [x[t] for x in actions], done, self.places(then), restarted)
            if not result:
                self._draws_of(batch).move(-1)
                return t, ILLEGAL_NEXT
            if stops and bool(then.flags[2].any()):
                return t + 1, GAME_OVER
            if following is None:
                break
            if restarted is None or result != SOME_OVER:
                following.take(then)
            now = following
        return steps, ALL_PLAYED

    @outside_graphs(GRAPHS)
    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None) -> TensorDict:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        some = tensordict is not None and (set_state or get(tensordict, "_reset") is not None)
        if some or self._chance or not self._lends(batch):
            return super()._reset(tensordict, set_state=set_state)
        opening = self._first_data
        data = in_order(self._lend(batch, rewards=False)[0], opening)
        copy_over(data, opening)
        return data

    def _lends(self, batch: Size) -> bool:
        """Whether data for so many games are written into memory that is used again."""
        here = self.device in (None, CPU) and not torch.compiler.is_compiling()
        return here and batch.numel() >= MANY and self.fuses(batch)

    @property
    def _first_data(self) -> TensorDict:
        """A game that begins, ``[1]``, where all begin in the same way."""
        if self._opening is None:
            self._opening = self._data(self._first(Size([1])))
        return self._opening

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """The data with a new game in the rows of ``mask``, where all games begin in the same way."""
        if self._chance or self.opponent is not None or mask.device.type != "cpu" or not mask.ndim:
            return None
        rows, opening = mask.reshape(-1).nonzero().squeeze(-1), self._first_data
        if not _fits(tensordict, opening, mask.shape):
            return None
        lent = self._lend(mask.shape, rewards=False)[0] if self._lends(mask.shape) else None
        return _with_rows(tensordict, opening, rows, mask.shape, lent)

    def _observed(self, state: S) -> Tensor:
        """What each player may know, in the dtype asked for; ``[*B, P, ...]``."""
        observed = self.rules.observe(state)
        if observed.dtype != torch.bool or self.observation_dtype == torch.bool:
            return observed
        return observed.view(torch.int8).to(self.observation_dtype)  # from bytes: CPUs convert these faster than bools

    def _mask_spec(self) -> TensorSpec:
        """The spec of the legal actions of a player."""
        return Binary(shape=(self.rules.n_actions,), dtype=torch.bool)

    def _allowed(self, state: S, acting: Tensor) -> Tensor:
        """What each player may do, given who acts, bool ``[*B, P]``; all actions for those who do not.

        ``[*B, P, n]``.
        """
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


def _fits(td: Any, opening: TensorDictBase, batch: Size) -> bool:
    """Whether ``td`` has the entries of ``opening``, one row, for ``[*B]`` games."""
    for name, first in entries(opening):
        held = None if td is None else get(td, name)
        if is_nested(first):
            if not is_nested(held) or not _fits(held, first, batch):
                return False
        elif held is None or held.dtype != first.dtype or held.shape != (*batch, *first.shape[1:]):
            return False
    return True


def _with_rows(
    td: TensorDictBase, opening: TensorDictBase, rows: Tensor, batch: Size, lent: TensorDictBase | None
) -> TensorDict:
    """The entries of ``td`` that ``opening``, one row, has too, with that row in some rows; int64 ``[n]``.

    They are written over those of ``lent``, if given.
    """
    data: dict[str, Any] = {}
    for name, first in entries(opening):
        held, mine = get(td, name), None if lent is None else get(lent, name)
        if is_nested(first):
            data[name] = _with_rows(held, first, rows, batch, mine)
        elif name in DONE_NAMES:  # nothing is done now
            data[name] = torch.zeros_like(held) if mine is None else mine.zero_()
        else:
            mine = held.clone(memory_format=torch.contiguous_format) if mine is None else mine.copy_(held)
            mine.flatten(0, len(batch) - 1).index_copy_(0, rows, first.expand(len(rows), *first.shape[1:]))
            data[name] = mine
    return new(data, td.batch_size, td.device)


def _order(seats: list[int], players: int) -> list[int] | None:
    """Where each seat is in a list of seats, 0 for those that are not; None when all are there in order."""
    if seats == list(range(players)):
        return None
    return [seats.index(seat) if seat in seats else 0 for seat in range(players)]


def _observed_dtype(asked: Any) -> torch.dtype:
    """The dtype of observations, which may be asked for by its name."""
    dtype = getattr(torch, asked, None) if isinstance(asked, str) else asked
    if not isinstance(dtype, torch.dtype) or not (dtype.is_floating_point or dtype == torch.bool):
        raise SpecError(f"GameEnv: observation_dtype must be a float type or torch.bool, or its name, got {asked!r}")
    return dtype


def _like(example: Tensor) -> TensorSpec:
    """The spec of values like an example."""
    if example.dtype == torch.bool:
        return Binary(shape=example.shape, dtype=torch.bool)
    return Unbounded(example.shape, dtype=example.dtype)
