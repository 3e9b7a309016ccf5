"""Any rules as an env: whose turn it is, masks, rewards per player, ends, illegal moves and opponents.

The position travels in the data, so an env has no memory: any batch shape is taken, positions can be given to
``reset``, stored, indexed and branched.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.errors import IllegalAction, SpecError
from marlenv.games.rules import Rules, where
from marlenv.groups import GroupTree, MarlGroupMapType, resolve
from marlenv.groups.maps import GroupMap
from marlenv.keys import DONE_NAMES, nested
from marlenv.rng import RowRNG
from marlenv.specs import Binary, Categorical, Composite, TensorSpec, Unbounded
from marlenv.tensordicts import get, nest, new

S = TypeVar("S", bound=tuple)
Illegal = Literal["raise", "lose"]
Opponent = Callable[[TensorDictBase], TensorDictBase] | Literal["random"] | None

OPPONENT = 2  # the stream of RowRNG that a random opponent draws from
OPPONENT_STATE = "opponent_rng"


class Moment(NamedTuple, Generic[S]):
    """A position with what the last move earned and whether it ended the game."""

    state: S
    over: Tensor
    """bool ``[*B]``"""
    truncated: Tensor
    """bool ``[*B]``"""
    outcome: Tensor
    """int8 ``[*B]``: why it ended, an index into the rules' ``outcomes``; one past them for an illegal move."""
    rewards: Tensor | None
    """float32 ``[*B, P]``; None after a reset."""
    plies: Tensor | None
    """int64 ``[*B]``: how many moves were played, if there is a limit."""


class TurnBasedEnv(EnvBase, Generic[S]):
    """An env over the rules of a game, whose positions travel in the data. Abstract.

    A subclass assigns specs and says how positions, actions and moments are laid out in the data (:meth:`read`,
    :meth:`act`, :meth:`write`); :class:`GameEnv` is the layout that all games share.

    Args:
        rules: of the game.
        batch_size: how many games; empty takes any batch size.
        device: where the data live.
        illegal: what an illegal move does: ``"raise"`` :class:`~marlenv.errors.IllegalAction`, or ``"lose"``: the game ends
            at once, the mover gets -1 and the others share +1. It is never played.
        max_plies: cut games off after so many moves.
        opponent: who plays all seats but ``seat``: ``"random"``, or a policy that reads and writes the env's keys.
        seat: the seat that is left to the caller when there is an opponent.
        seed: of chance and of a random opponent.
    """

    batch_locked = False

    def __init__(
        self,
        rules: Rules[S],
        *,
        batch_size: Sequence[int] | int | None = None,
        device: torch.device | str | int | None = None,
        illegal: Illegal = "raise",
        max_plies: int | None = None,
        opponent: Opponent = None,
        seat: int = 0,
        seed: int | None = None,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        who = type(self).__name__
        if illegal not in ("raise", "lose"):
            raise SpecError(f"{who}: illegal must be 'raise' or 'lose', got {illegal!r}")
        if not 0 <= seat < len(rules.players):
            raise SpecError(f"{who}: seat must be in 0..{len(rules.players) - 1} ({rules.players}), got {seat}")
        if opponent is not None and opponent != "random" and not callable(opponent):
            raise SpecError(f"{who}: opponent must be 'random' or a policy, got {opponent!r}")
        if opponent is not None and rules.simultaneous:
            raise SpecError(f"{who}: all players act at once in this game; it has no turns for an opponent to take")
        self.rules, self.illegal, self.max_plies, self.opponent, self.seat = rules, illegal, max_plies, opponent, seat
        self._game_seed, self._episode = seed, 0
        self._opponent_rng: RowRNG | None = None
        self.batch_locked = bool(self.batch_size)

    supports_set_state = True

    # --- hooks: the layout -----------------------------------------------------------------------

    @abstractmethod
    def read(self, tensordict: TensorDictBase) -> S:
        """The positions in the data."""

    @abstractmethod
    def act(self, tensordict: TensorDictBase, state: S) -> Tensor:
        """The actions of the players to move; int64 ``[*B]``, or ``[*B, P]`` where all act at once."""

    @abstractmethod
    def write(self, moment: Moment[S]) -> TensorDict:
        """The data of a moment, without root flags."""

    def plies(self, tensordict: TensorDictBase) -> Tensor | None:
        """How many moves were played, int64 ``[*B]``, if the layout keeps it and there is a limit."""
        return None

    def flags(self) -> Composite:
        """The specs of the root flags."""
        shape = self.batch_size
        return Composite({name: Categorical(2, (*shape, 1), dtype=torch.bool) for name in DONE_NAMES}, shape=shape)

    # --- an episode ------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None, **_: Any) -> TensorDict:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        if set_state and tensordict is not None:
            return self._opened(self.read(tensordict), self.plies(tensordict))
        rng = RowRNG(self._seed_of_games(), batch, self.device).fork(self._episode)
        self._episode += 1
        return self._opened(self.rules.start(batch, rng=rng, device=self.device))

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDict:
        old = self.read(tensordict)._asdict().get("rng")  # type: ignore[attr-defined]
        if old is None:
            return self._reset(request)
        return self._opened(
            self.rules.start(tensordict.batch_size, rng=RowRNG.from_state(old).fork(0), device=self.device)
        )

    def _opened(self, state: S, plies: Tensor | None = None) -> TensorDict:
        """The first data of games that stand at ``state``."""
        over = self.rules.over(state)
        if plies is None and self.max_plies is not None:
            plies = torch.zeros_like(over, dtype=torch.int64)
        moment = Moment(state, over, torch.zeros_like(over), self.rules.outcome(state), None, plies)
        if self.opponent is not None:
            moment = self._answer(moment)._replace(rewards=None)
        return self._told(moment)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        state = self.read(tensordict)
        gone = get(tensordict, "done")
        gone = self.rules.over(state) if gone is None else self.rules.over(state) | gone.squeeze(-1)
        moment = self._move(state, self.act(tensordict, state), gone, self.plies(tensordict))
        if self.opponent is not None:
            moment = self._answer(moment)
        return self._told(moment)

    def _move(self, state: S, action: Tensor, gone: Tensor, plies: Tensor | None) -> Moment[S]:
        """Plays one action per row where the game is not over."""
        rules = self.rules
        wrong = self._wrong(state, action, gone)
        played = rules.play(state, action.clamp(0, rules.n_actions - 1))
        played = where(gone | wrong.any(-1), state, played)
        rewards = rules.returns(played) - rules.returns(state)
        forfeit = wrong.any(-1)
        if self.illegal == "lose":
            rewards = torch.where(forfeit.unsqueeze(-1), self._penalty(wrong), rewards)
        over = rules.over(played) | forfeit
        outcome = torch.where(forfeit, len(rules.outcomes), rules.outcome(played)).to(torch.int8)
        if plies is None or self.max_plies is None:
            return Moment(played, over, torch.zeros_like(over), outcome, rewards, None)
        plies = torch.where(gone, plies, plies + 1)
        return Moment(played, over, (plies >= self.max_plies) & ~over, outcome, rewards, plies)

    def _wrong(self, state: S, action: Tensor, gone: Tensor) -> Tensor:
        """Who chose an illegal action; bool ``[*B, P]``. Raises if that is the policy."""
        legal = self.rules.legal(state)
        n = self.rules.n_actions
        chosen = action if self.rules.simultaneous else action.unsqueeze(-1)
        legal = legal if self.rules.simultaneous else legal.unsqueeze(-2)
        fine = legal.gather(-1, chosen.clamp(0, n - 1).unsqueeze(-1)).squeeze(-1) & (chosen >= 0) & (chosen < n)
        wrong = ~fine & ~gone.unsqueeze(-1)
        if self.illegal == "raise":
            if wrong.device.type == "cpu":
                if bool(wrong.any()):
                    self._raise_illegal(state, chosen, wrong, legal)
            else:  # no look at the data from the host: the device stops by itself
                torch._assert_async(~wrong.any(), f"{type(self).__name__}: an illegal action; see env.illegal")
        if self.rules.simultaneous:
            return wrong
        mover = torch.arange(len(self.rules.players), device=wrong.device) == self.rules.player(state).unsqueeze(-1)
        return wrong & mover

    def _raise_illegal(self, state: S, chosen: Tensor, wrong: Tensor, legal: Tensor) -> None:
        *row, column = wrong.nonzero()[0].tolist()
        at = tuple(row)
        one = type(state)(*(leaf[at] for leaf in state))
        seat = column if self.rules.simultaneous else int(self.rules.player(state)[at])
        action = int(chosen[(*at, column)])
        allowed = legal[(*at, column)].nonzero().flatten().tolist()
        inside = 0 <= action < self.rules.n_actions
        name = f" ({self.rules.action_name(one, action)})" if inside else ""
        words = [self.rules.action_name(one, a) for a in allowed[:20]]
        raise IllegalAction(
            f"{type(self).__name__}: action {action}{name} of player {self.rules.players[seat]!r}"
            f"{f' in row {row}' if row else ''} is illegal; legal are {words}{' ...' if len(allowed) > 20 else ''}"
        )

    def _penalty(self, wrong: Tensor) -> Tensor:
        """-1 for those who moved illegally, +1 shared by the others."""
        others = (len(self.rules.players) - wrong.sum(-1, keepdim=True)).clamp(min=1)
        share = wrong.sum(-1, keepdim=True) / others
        return torch.where(wrong, -1.0, share)

    def _answer(self, moment: Moment[S]) -> Moment[S]:
        """Lets the opponent move until it is the caller's turn everywhere."""
        rules = self.rules
        while True:
            waiting = ~moment.over & ~moment.truncated & (rules.player(moment.state) != self.seat)
            if not bool(waiting.any()):
                return moment
            reply = self._move(moment.state, self._opponent_action(moment, waiting), ~waiting, moment.plies)
            moment = reply._replace(
                over=moment.over | (reply.over & waiting),
                truncated=moment.truncated | (reply.truncated & waiting),
                outcome=torch.where(waiting, reply.outcome, moment.outcome),
                rewards=reply.rewards if moment.rewards is None else moment.rewards + reply.rewards,
            )

    def _opponent_action(self, moment: Moment[S], waiting: Tensor) -> Tensor:
        if self.opponent != "random":
            td = self.opponent(self._told(moment))  # type: ignore[operator]
            return self.act(td, moment.state)
        rng = self._opponent_stream(waiting.shape)
        before = rng.counter
        action = rng.choice(self.rules.legal(moment.state))
        rng.counter = torch.where(waiting, rng.counter, before)  # a row that did not draw stays where it was
        return action

    def _opponent_stream(self, batch: Size) -> RowRNG:
        """What a random opponent draws from."""
        if self._opponent_rng is None or self._opponent_rng.rows != batch:
            self._opponent_rng = RowRNG(self._seed_of_games(), batch, self.device).fork(OPPONENT)
        return self._opponent_rng

    def _told(self, moment: Moment[S]) -> TensorDict:
        """The data of a moment, with root flags."""
        out = self.write(moment)
        data = out._tensordict
        data["terminated"], data["truncated"] = moment.over.unsqueeze(-1), moment.truncated.unsqueeze(-1)
        data["done"] = data["terminated"] | data["truncated"]
        return out

    # --- randomness and state --------------------------------------------------------------------

    def _seed_of_games(self) -> int:
        if self._game_seed is None:
            self._game_seed = self.action_stream.seed
        return self._game_seed

    def _set_seed(self, seed: int | None) -> None:
        self._game_seed, self._episode, self._opponent_rng = seed, 0, None

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if tensordict is None:
            raise SpecError(
                f"{type(self).__name__}.get_state: the position travels in the data; pass it, get_state(td)"
            )
        out = tensordict.select(*self.state_keys)
        if self.opponent == "random":
            out.set(OPPONENT_STATE, self._opponent_stream(out.batch_size).state)
        return out

    def _set_state(self, state: TensorDictBase) -> TensorDict:
        if (drawn := state.get(OPPONENT_STATE, None)) is not None:
            self._opponent_rng = RowRNG.from_state(drawn)
        return self._opened(self.read(state), self.plies(state))


class GameEnv(TurnBasedEnv[S]):
    """Any game with a group per player (or other groups), the layout that all games share.

    | key | shape | meaning |
    |---|---|---|
    | `(group, "observation")` | `[*B, A, ...]` | what each player may know, from its own seat |
    | `(group, "action")` | int64 `[*B, A]` | read where `mask` is True |
    | `(group, "action_mask")` | bool `[*B, A, n]` | legal actions; all True for those who do not act |
    | `(group, "mask")`, `(group, "alive")` | bool `[*B, A]` | whose turn it is; whether the game goes on |
    | `(group, "reward")` | `[*B, A, 1]` | what the last move earned this player |
    | `(group, "done")`, ... | bool `[*B, A, 1]` | as at the root |
    | `turn` | int64 `[*B, 1]` | the seat to move |
    | `outcome` | int8 `[*B, 1]` | why the game ended: an index into the rules' `outcomes`, 0 while it goes on |
    | `("state", ...)` | | the position; give it to `reset(td, set_state=True)` |

    Args:
        rules: of the game.
        group_map: group -> players; a group per player when left out.
        **options: those of :class:`TurnBasedEnv`.

    >>> env = GameEnv(marlenv.games.TicTacToe(), batch_size=[4], seed=0)
    >>> td = env.rollout(9, break_when_any_done=False)
    >>> bool((td["next", "x", "reward"] + td["next", "o", "reward"] == 0).all())
    True
    """

    def __init__(
        self, rules: Rules[S], *, group_map: GroupMap | MarlGroupMapType | str | None = None, **options: Any
    ) -> None:
        super().__init__(rules, **options)
        players = list(rules.players)
        self.group_map = resolve(group_map, players, default=MarlGroupMapType.ONE_GROUP_PER_AGENT)
        self.tree = GroupTree(self.group_map)
        self._seats = {path: [players.index(a) for a in agents] for path, agents in self.tree.groups.items()}
        self._make_specs()

    def _make_specs(self) -> None:
        rules, shape = self.rules, self.batch_size
        state = rules.start(Size([1]), rng=RowRNG(0, [1]))
        seen_by_all = rules.observe(state)
        self._kind = type(state)
        seen, acted, earned, done = (Composite(shape=shape) for _ in range(4))
        for path, seats in self._seats.items():
            lead, key = (*shape, len(seats)), nested(path)
            flag = lambda *tail, lead=lead: Binary(shape=(*lead, *tail), dtype=torch.bool)  # noqa: E731
            seen[key] = Composite(
                observation=_example_spec(seen_by_all[0, 0], lead),
                action_mask=flag(rules.n_actions),
                mask=flag(),
                alive=flag(),
                shape=lead,
            )
            acted[key] = Composite(action=Categorical(rules.n_actions, lead), shape=lead)
            earned[key] = Composite(reward=Unbounded((*lead, 1)), shape=lead)
            done[key] = Composite({name: flag(1) for name in DONE_NAMES}, shape=lead)
        position = Composite({n: _example_spec(leaf[0], shape) for n, leaf in state._asdict().items()}, shape=shape)  # type: ignore[attr-defined]
        if self.max_plies is not None:
            position["ply"] = Unbounded((*shape, 1), dtype=torch.int64)
        seen["turn"] = Categorical(len(rules.players), (*shape, 1))
        seen["outcome"] = Categorical(len(rules.outcomes) + 1, (*shape, 1), dtype=torch.int8)
        seen["state"] = position
        self.observation_spec, self.action_spec, self.reward_spec = seen, acted, earned
        self.state_spec = Composite(state=position.clone(), shape=shape)
        self.full_done_spec = done.update(self.flags())

    def read(self, tensordict: TensorDictBase) -> S:
        held = tensordict.get("state")
        return self._kind(*(get(held, name) for name in self._kind._fields))  # type: ignore[attr-defined, no-any-return]

    def plies(self, tensordict: TensorDictBase) -> Tensor | None:
        return None if self.max_plies is None else tensordict.get(("state", "ply")).squeeze(-1)

    def act(self, tensordict: TensorDictBase, state: S) -> Tensor:
        chosen: list[Tensor] = [torch.empty(0)] * len(self.rules.players)
        for path, seats in self._seats.items():
            actions = tensordict.get((*path, "action"))
            for i, seat in enumerate(seats):
                chosen[seat] = actions[..., i]
        stacked = torch.stack(chosen, -1)
        if self.rules.simultaneous:
            return stacked
        return stacked.gather(-1, self.rules.player(state).unsqueeze(-1)).squeeze(-1)

    def write(self, moment: Moment[S]) -> TensorDict:
        rules, state = self.rules, moment.state
        batch, ended = moment.over.shape, moment.over | moment.truncated
        player = rules.player(state)
        observed, going = rules.observe(state), ~ended
        legal = rules.legal(state)
        data: dict[str, Any] = {"turn": player.unsqueeze(-1), "outcome": moment.outcome.unsqueeze(-1)}
        position = dict(state._asdict())  # type: ignore[attr-defined]
        if moment.plies is not None:
            position["ply"] = moment.plies.unsqueeze(-1)
        data["state"] = new(position, batch, self.device)
        acts = going.unsqueeze(-1) if rules.simultaneous else None
        seat_index = torch.arange(len(rules.players), device=ended.device)
        acting = (
            acts.expand(*batch, len(rules.players))
            if acts is not None
            else (seat_index == player.unsqueeze(-1)) & going.unsqueeze(-1)
        )
        free = (legal if rules.simultaneous else legal.unsqueeze(-2)) | ~acting.unsqueeze(-1)
        free = free | ~free.any(-1, keepdim=True)
        flags = {"terminated": moment.over, "truncated": moment.truncated, "done": ended}
        for path, seats in self._seats.items():
            pick = _picker(seats, len(rules.players))
            lead = Size((*batch, len(seats)))
            entries = {
                "observation": pick(observed, len(batch)),
                "action_mask": pick(free, len(batch)),
                "mask": pick(acting, len(batch)),
                "alive": going.unsqueeze(-1).expand(lead),
            }
            if moment.rewards is not None:
                entries["reward"] = pick(moment.rewards, len(batch)).unsqueeze(-1)
            entries |= {n: f.unsqueeze(-1).expand(lead).unsqueeze(-1) for n, f in flags.items()}
            node = data
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = new(entries, lead, self.device)
        return nest(data, batch, self.device)


def _picker(seats: list[int], players: int) -> Callable[[Tensor, int], Tensor]:
    """Picks the rows of some seats along a dimension; the tensor itself for all seats in order."""
    if seats == list(range(players)):
        return lambda t, dim: t
    if seats == list(range(seats[0], seats[0] + len(seats))):
        return lambda t, dim: t.narrow(dim, seats[0], len(seats))
    return lambda t, dim: t.index_select(dim, torch.tensor(seats, device=t.device))


def _example_spec(example: Tensor, lead: Sequence[int]) -> TensorSpec:
    """The spec of values like an example, with leading dimensions."""
    shape = (*lead, *example.shape)
    if example.dtype == torch.bool:
        return Binary(shape=shape, dtype=torch.bool)
    return Unbounded(shape, dtype=example.dtype)
