"""Any rules as an env: whose turn it is, rewards per player, ends, illegal moves, opponents and chance.

The position travels in the data, so an env has no memory: any batch shape is taken, positions can be given to
``reset``, stored, indexed and branched. What the data look like is said by subclasses: ``game_env.py`` for all games.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Generic, Literal, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.envs.compiling import outside_graphs
from marlenv.envs.stepping import STEP, WHOLE
from marlenv.errors import DtypeError, KeyMissing, ResetError, ShapeError, SpecError, whole
from marlenv.games.env.draws import Draws
from marlenv.games.env.illegal_moves import SAID_BY, lost_games, penalty, refusal
from marlenv.games.env.opponents import Asked, Seats, check_answer, without_actions
from marlenv.games.env.time_step import TimeStep, streams_where
from marlenv.games.env.trial import check_positions, check_rules
from marlenv.games.fast.compiled import like
from marlenv.games.fast.fast_rules import fast_form
from marlenv.games.rules import Rules, where
from marlenv.keys import DONE_NAMES
from marlenv.rng import RowRNG
from marlenv.specs import Categorical, Composite
from marlenv.tensordicts import anything, entries, get, is_nested, put, rows

S = TypeVar("S", bound="tuple[Any, ...]")
Illegal = Literal["raise", "lose"]
Opponent = Callable[[TensorDictBase], TensorDictBase] | Literal["random"] | None

GRAPHS = "compile the policy apart: games look at their data, and have code of their own for speed (numba)"
OPPONENT, GAMES, FIRST = 2, 3, 4  # the streams of RowRNG that a random opponent, chance and first positions draw from
BESIDE = PLIES, OPPONENT_RNG, OPENING, FIRST_RNG = "plies_played", "opponent_rng", "opening_rewards", "first_rng"
"""What travels with a position besides its own tensors."""


class TurnBasedEnv(EnvBase, Generic[S]):
    """An env over the rules of a game, whose positions travel in the data. Abstract.

    A subclass is a layout of the data: it assigns specs, reads positions and actions (:meth:`read`, :meth:`act`) and
    writes actions and time steps (:meth:`choose`, :meth:`write`). :class:`GameEnv` is the layout that all games
    share.

    Args:
        rules: of the game.
        batch_size: how many games; empty takes any batch size.
        device: where the data live.
        illegal: what an illegal move does: ``"raise"`` :class:`~marlenv.errors.IllegalAction`, or ``"lose"``: the
            game ends at once, the mover gets -1 and, in a zero-sum game, the others share +1. It is never played.
        max_plies: cut games off (``truncated``) after so many moves.
        opponent: who plays all seats but ``seat``: ``"random"``, or a policy that reads and writes the env's keys
            (:class:`~marlenv.games.PolicyPerRow` plays different policies in different rows). The env then takes no
            actions for their groups, and where all act at once it does not show the opponent what the caller chose.
        seat: the seat that is left to the caller when there is an opponent. What moves before its first one earn is
            paid in the first step. If they end the game, that is ``done`` after the reset already, nobody's action is
            read in its one step, and that step says what the game was worth (in the layouts with TorchRL's keys such a
            reset is a :class:`~marlenv.errors.ResetError`).
        seed: of all that is random, as :meth:`set_seed` takes it: chance, a random opponent and random actions.
        run_type_checks: check every action and every answer against its spec, which takes time.
    """

    batch_locked = False
    supports_set_state = resets_without_looking = gives_all_flags = resets_in_one = resets_in_place = True
    _pays_openings = False
    """Whether a layout holds what games have earned before the caller's first move, which may have ended them."""

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
        run_type_checks: bool = False,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device, run_type_checks=run_type_checks)
        who = type(self).__name__
        if not type(rules).__module__.startswith("marlenv."):  # the tests of marlenv try its own
            check_rules(rules)
        if illegal not in ("raise", "lose"):
            raise SpecError(f"{who}: illegal must be 'raise' or 'lose', got {illegal!r}")
        seat = whole(who, "seat", seat, 0, len(rules.players) - 1)
        self._asks = Asked(who, opponent)
        if max_plies is not None:
            max_plies = whole(who, "max_plies", max_plies, 1)
        self.rules, self.illegal, self.max_plies, self.opponent, self.seat = rules, illegal, max_plies, opponent, seat
        self._game_seed: int | None = None
        self._episode = 0
        self._example = rules.start(Size([1]), rng=RowRNG(0, [1]))
        self._kind = type(self._example)
        self._fields: tuple[str, ...] = self._kind._fields  # type: ignore[attr-defined]
        if taken := [name for name in self._fields if name in BESIDE]:
            raise SpecError(
                f"{who}: a position of {type(rules).__name__} has a field {taken[0]!r}, as what the env keeps beside "
                f"positions is called ({', '.join(BESIDE)}); name the field otherwise"
            )
        self._chance = "rng" in self._fields
        self._fast = fast_form(rules)
        self._answers: Any = rules if self._fast is None else self._fast
        self._draws: Draws | None = None
        self.batch_locked = bool(self.batch_size)
        if seed is not None:
            self.set_seed(seed)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The words for ``outcome``: those of the rules, and what ends games from outside."""
        return (*self.rules.outcomes, "illegal move", "move limit")

    # --- hooks: the layout -----------------------------------------------------------------------

    @abstractmethod
    def read(self, tensordict: TensorDictBase) -> S:
        """The positions in the data."""

    def _positions(self, tensordict: TensorDictBase) -> S | None:
        """The positions in the data; None where there are none."""
        try:
            return self.read(tensordict)
        except KeyMissing:
            return None

    @abstractmethod
    def act(self, tensordict: TensorDictBase, state: S) -> Tensor:
        """The actions of the players to move; int64 ``[*B]``, or ``[*B, P]`` where all act at once."""

    @abstractmethod
    def choose(self, tensordict: TensorDictBase, state: S, action: Tensor) -> TensorDictBase:
        """Writes actions, as :meth:`act` reads them, into the data, and returns them."""

    @abstractmethod
    def write(self, step: TimeStep[S], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a time step, without root flags.

        No two entries share memory, nor any with what is held elsewhere.
        """

    @abstractmethod
    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """What travels with the positions.

        ``"plies_played"`` int64 ``[*B]``, ``"opponent_rng"`` or ``"first_rng"`` int64 ``[*B, 2]`` or, where the layout
        holds it, ``"opening_rewards"`` float32 ``[*B, P]``; if it is there.
        """

    def widened(self, action: Tensor) -> Tensor:
        """Actions of any integer dtype as int64: what rules make of fewer bits, by shifts and sums, does not fit there.

        Raises:
            DtypeError: they are no integers; :meth:`step` says so with the key before a layout reads them.
        """
        if action.dtype not in WHOLE:
            raise DtypeError(
                f"{type(self).__name__}: actions must be torch.int64, got {action.dtype} of the policy; an action is "
                f"the number of a choice"
            )
        return action.to(torch.int64)

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """The data after a step, by a layout's own short way; None where that cannot play this step.

        Args:
            tensordict: the data before it.
            ahead: whether the data with a new game in place of each that is over, without rewards, are wanted too.
        """
        return None

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """The data with a new game in the rows of ``mask``, bool ``[*B]``, by a layout's own short way.

        None where there is none.
        """
        return None

    def fast_action(self, tensordict: TensorDictBase, draws: Draws) -> bool:
        """Writes random legal actions of those to move by a layout's own short way, and moves ``draws`` on.

        False where there is none, and nothing was written.
        """
        return False

    def flags(self) -> Composite:
        """The specs of the root flags."""
        shape = self.batch_size
        return Composite({name: Categorical(2, (*shape, 1), dtype=torch.bool) for name in DONE_NAMES}, shape=shape)

    # --- starting --------------------------------------------------------------------------------

    @outside_graphs(GRAPHS)
    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None) -> TensorDict:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        if set_state and tensordict is not None:
            return self._set_state(tensordict)
        partial = tensordict is not None and get(tensordict, "_reset") is not None
        return self._data(self._first(batch, tensordict if partial else None))

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDict:
        return self._data(self._first(tensordict.batch_size, tensordict))

    def _step_and_reset(self, tensordict: TensorDictBase) -> tuple[TensorDict, TensorDict | None] | None:
        return self._fast_step(tensordict, ahead=True)

    def _fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """:meth:`fast_step`, but where games may be over by what positions do not say."""
        done = self._flag(tensordict) if self.illegal == "lose" else None
        if done is not None and done.is_cpu and anything(done):
            return None
        return self.fast_step(tensordict, ahead=ahead)

    def _restart(self, tensordict: TensorDictBase, mask: Tensor) -> bool:
        """New positions take the places of old ones, and observations follow from all of them at once."""
        if self._auto_reset is not None or self._positions(tensordict) is None:
            return False
        reset, done = mask.squeeze(-1), self._flag(tensordict)
        if done is not None and done is not mask and anything(done & ~mask):
            return False  # what is over and stays so is not said by positions alone
        fast = self.fast_reset(tensordict, reset)
        if fast is not None:
            _overlay(tensordict, fast)
            return True
        fresh, state = self._first(tensordict.batch_size, tensordict, answer=False), self.read(tensordict)
        plies, first_rng = self.extra(tensordict, PLIES), self._first_rng(tensordict)
        step = fresh._replace(
            state=where(reset, fresh.state, state),
            first_rng=streams_where(reset, fresh.first_rng, first_rng),
            plies=None if fresh.plies is None or plies is None else torch.where(reset, 0, plies),
        )
        if (owed := self._owed(tensordict)) is not None:
            step = step._replace(opening_rewards=owed.masked_fill(reset.unsqueeze(-1), 0.0))
        if self._has_opponent():
            step = self._answer(step).as_first()
        _overlay(tensordict, self._data(step))
        return True

    def _done(self, tensordict: TensorDictBase) -> Tensor | None:
        """Which games are over, as the data say; bool ``[*B]``, or None where they do not say."""
        done = self._flag(tensordict)
        return None if done is None else done.squeeze(-1)

    def _flag(self, tensordict: TensorDictBase) -> Tensor | None:
        """The same as the data have it, ``[*B, 1]``."""
        done: Tensor | None = get(tensordict, "done")
        if done is None:
            return None
        want = (*tensordict.batch_size, 1)
        if done.dtype != torch.bool or done.shape != want:
            raise ShapeError(
                f"{type(self).__name__}: 'done' must be bool {list(want)}, got {done.dtype} {list(done.shape)}; "
                f"begin with env.reset(), whose data have it"
            )
        return done

    def _first(self, batch: Size, before: TensorDictBase | None = None, *, answer: bool = True) -> TimeStep[S]:
        """New games in all rows; their chance follows from that of the positions ``before``, where there are any."""
        rng, opponent_rng = self._streams(batch, before)
        state = self.rules.start(batch, rng=rng, device=self.device)
        return self._opened(state, opponent_rng=opponent_rng, answer=answer)

    def _streams(self, batch: Size, before: TensorDictBase | None) -> tuple[RowRNG | None, Tensor | None]:
        """What new games draw from: chance, and a random opponent.

        Games that follow others go on from their streams.
        """
        held = None if before is None or not self._chance else self._positions(before)
        opponent_rng = None if before is None else self.extra(before, OPPONENT_RNG)
        rng = None if held is None else RowRNG.from_state(held[self._fields.index("rng")]).fork(0)
        random = self.opponent == "random"
        if (self._chance and rng is None) or (random and opponent_rng is None):
            seeded = RowRNG(self._seed_of_games(), batch, self.device).fork(GAMES).fork(self._episode)
            self._episode += 1
            rng = seeded if rng is None and self._chance else rng
            opponent_rng = seeded.fork(OPPONENT).state if opponent_rng is None and random else opponent_rng
        return rng, opponent_rng

    _draws_first = False
    """Whether first positions are drawn, and positions hold no stream to draw the next from: it travels beside them."""

    def _first_rng(self, tensordict: TensorDictBase) -> Tensor | None:
        """That stream of each row in the data, int64 ``[*B, 2]``; None where no first positions are drawn."""
        return None

    def _opened(
        self,
        state: S,
        plies: Tensor | None = None,
        opponent_rng: Tensor | None = None,
        owed: Tensor | None = None,
        first_rng: Tensor | None = None,
        *,
        answer: bool = True,
    ) -> TimeStep[S]:
        """Games that begin at ``state``; with the opponent's answer, where it moves first."""
        streams = {OPPONENT_RNG: opponent_rng, FIRST_RNG: first_rng}
        step = TimeStep.first(self.rules, state, plies=plies, limit=self.max_plies, **streams)
        if self._pays_openings:
            none = step.terminated.new_zeros((*step.terminated.shape, len(self.rules.players)), dtype=torch.float32)
            step = step._replace(opening_rewards=none if owed is None else owed)
        return self._answer(step).as_first() if answer and self._has_opponent() else step

    def _has_opponent(self) -> bool:
        """Whether there is an opponent; it may be another policy than before."""
        return self._asks.there_is(self.opponent)

    def _owed(self, tensordict: TensorDictBase) -> Tensor | None:
        """What the next step pays of what was earned before it; float32 ``[*B, P]``, None for nothing."""
        return self.extra(tensordict, OPENING) if self._pays_openings else None

    # --- playing ---------------------------------------------------------------------------------

    @outside_graphs(GRAPHS)
    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        fast = self._fast_step(tensordict, ahead=False)
        if fast is not None:
            return fast[0]
        state = self.read(tensordict)
        done = self._done(tensordict)
        done = self.rules.over(state) if done is None else done
        if (mask := get(tensordict, STEP)) is not None:  # what stands in rows that wait is no move
            done = done | ~rows(mask, tensordict.ndim)
        if done is not None and done.device.type == "cpu" and not bool(done.any()):
            done = None
        lost = None if done is None else self._lost(tensordict, state)
        action, plies = self.act(tensordict, state), self.extra(tensordict, PLIES)
        opponent_rng, first_rng = self.extra(tensordict, OPPONENT_RNG), self._first_rng(tensordict)
        held = [*state, *(x for x in (opponent_rng, plies, first_rng) if x is not None)]
        if self._has_opponent() and self.rules.simultaneous:
            action, opponent_rng = self._joined(tensordict, state, action, opponent_rng)
        step = self._move(state, action, done, plies, opponent_rng)._replace(first_rng=first_rng)
        if lost is not None:
            step = step.lost(lost, len(self.rules.outcomes))
        if self._pays_openings:
            step = step.paying(self._owed(tensordict))
        if self._has_opponent() and not self.rules.simultaneous:
            step = self._answer(step)
        return self._data(step, held)

    def _move(
        self, state: S, action: Tensor, done: Tensor | None, plies: Tensor | None, opponent_rng: Tensor | None
    ) -> TimeStep[S]:
        """Plays one action per row where the game is not ``done``, bool ``[*B]``; None stands for no row."""
        rules = self.rules
        if done is not None:
            action = action.masked_fill(done.unsqueeze(-1) if rules.simultaneous else done, 0)
        wrong = self._wrong(state, action, done)
        forfeit = None if wrong is None else wrong.any(-1)
        stays = done if forfeit is None else forfeit if done is None else done | forfeit
        if wrong is not None:
            action = action.clamp(0, rules.n_actions - 1)
        played = rules.play(state, action)
        if stays is not None:
            played = where(stays, state, played)
        rewards = rules.returns(played) + 0.0  # 0 and not -0
        if not rules.pays_at_end:
            rewards = (rewards - rules.returns(state)).to(torch.float32)
        if done is not None:
            rewards = rewards.masked_fill(done.unsqueeze(-1), 0.0)
        if wrong is not None and forfeit is not None:
            rewards = torch.where(forfeit.unsqueeze(-1), penalty(self.rules, wrong), rewards)
        if plies is not None:
            plies = plies + 1 if done is None else torch.where(done, plies, plies + 1)
        return TimeStep.following(
            rules, played, rewards, forfeit=forfeit, plies=plies, limit=self.max_plies, opponent_rng=opponent_rng
        )

    def _wrong(self, state: S, action: Tensor, done: Tensor | None) -> Tensor | None:
        """Who chose an illegal action; bool ``[*B, P]``, or None for nobody. Raises if that is the policy."""
        fine = self._answers.permits(state, action)
        if done is not None:
            fine = fine | (done.unsqueeze(-1) if self.rules.simultaneous else done)
        if fine.device.type == "cpu" and bool(fine.all()):
            return None
        if self.illegal == "raise":
            if fine.device.type == "cpu":
                raise refusal(self, state, action, ~fine)
            # no look at the data from the host: the device stops by itself
            torch._assert_async(fine.all(), f"{type(self).__name__}: an illegal action; see env.illegal")
            return None
        return ~fine if self.rules.simultaneous else ~fine.unsqueeze(-1) & self._turns(state)

    def _lost(self, tensordict: TensorDictBase, state: S) -> Tensor | None:
        """Which games an illegal move has ended; bool ``[*B]``, or None for none."""
        return lost_games(self.rules, state, tensordict) if self.illegal == "lose" else None

    def _turns(self, state: S) -> Tensor:
        """Whose turn it is; bool ``[*B, P]``."""
        player = self.rules.player(state)
        return torch.arange(len(self.rules.players), device=player.device) == player.unsqueeze(-1)

    def _in_words(self, one: S, seat: int, chosen: int, row: tuple[int, ...]) -> tuple[str, list[str]]:
        """An illegal action, and what is legal in that position."""
        name = f" ({self.rules.action_name(one, chosen)})" if 0 <= chosen < self.rules.n_actions else ""
        return f"{chosen}{name}", list(self.rules.legal_names(one, seat))

    # --- opponents -------------------------------------------------------------------------------

    def _answer(self, step: TimeStep[S]) -> TimeStep[S]:
        """Lets the opponent move until it is the caller's turn everywhere."""
        if self.rules.simultaneous:
            return step
        answered = self._answered(step)
        if step.rewards is None and not self._pays_openings:
            self._refuse_over(answered.done & ~step.done, answered.outcome)
        return answered

    def _refuse_over(self, over: Tensor, outcome: Tensor) -> None:
        """Raises for games that are over before the caller's first move, where data cannot hold what they paid."""
        if over.device.type != "cpu" or not bool(over.any()):
            return
        row = over.nonzero()[0].tolist()
        raise ResetError(
            f"{type(self).__name__}: the opponent has ended the game{f' in row {row}' if row else ''} before seat "
            f"{self.seat} has moved ({self.outcomes[int(outcome[tuple(row)])]}); begin with another position, or take "
            f"GameEnv(...), whose first step says how such games ended"
        )

    def _answered(self, step: TimeStep[S]) -> TimeStep[S]:
        """The games after the moves of the opponent, where it is its turn."""
        rules = self.rules
        while True:
            waiting = ~step.done & (rules.player(step.state) != self.seat)
            if (waiting.device.type == "cpu" or not rules.alternating) and not bool(waiting.any()):
                return step
            action, opponent_rng = self._opponent_action(step, waiting)
            step = step.then(self._move(step.state, action, ~waiting, step.plies, opponent_rng), waiting)
            if rules.alternating:
                return step

    def _opponent_action(self, step: TimeStep[S], waiting: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the opponent plays, and what its stream is afterwards; a row that did not draw stays where it was."""
        if self.opponent != "random":
            return self._asked(self._data(step), step.state, waiting), step.opponent_rng
        rng = RowRNG.from_state(self._opponent_rng(step.opponent_rng, waiting.shape))
        before = rng.counter
        action = self._answers.pick(step.state, rng.uniform())
        rng.counter = torch.where(waiting, rng.counter, before)
        return action, rng.state

    def _joined(
        self, tensordict: TensorDictBase, state: S, action: Tensor, opponent_rng: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The actions of all players where all act at once: ours, and the opponent's for the other seats."""
        mine = torch.arange(len(self.rules.players), device=action.device) == self.seat
        if self.opponent != "random":
            shown = without_actions(tensordict, [*self.action_keys, *self._opponent_seats])
            theirs = self._asked(shown, state, ~self.rules.over(state))
        else:
            rng = RowRNG.from_state(self._opponent_rng(opponent_rng, action.shape[:-1]))
            theirs = self._answers.pick(state, rng.uniform(shape=[len(self.rules.players)]))
            opponent_rng = rng.state
        return torch.where(mine, action, theirs), opponent_rng

    def _asked(self, tensordict: TensorDictBase, state: S, waiting: Tensor) -> Tensor:
        """What the opponent answers to the data, as :meth:`act` reads it; it must where games are ``waiting``."""
        who, places = type(self).__name__, self._opponent_seats
        with self._asks.blamed():
            answer = self._asks.answer(self, tensordict, places)
            check_answer(who, self.rules, self.seat, places, answer, state, waiting)
            return self.act(answer, state)

    @property
    def _opponent_seats(self) -> Seats:
        """Where an opponent writes its actions, and the seats that have theirs there."""
        return dict.fromkeys(self.action_keys, range(len(self.rules.players)))

    def _opponent_rng(self, held: Tensor | None, batch: Size) -> Tensor:
        """A stream per row for a random opponent; positions that were made by hand have none."""
        return RowRNG(self._seed_of_games(), batch, self.device).fork(OPPONENT).state if held is None else held

    # --- random actions --------------------------------------------------------------------------

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random actions from the env's own stream, legal in the positions of ``tensordict``.

        The actions of those to move are what :meth:`marlenv.EnvBase.rand_action` would draw from the masks; here they
        come from the positions, which is cheaper. Those who do not move get the same number, which is not read.
        """
        if tensordict is None:
            return super().rand_action(tensordict)
        draws = self._draws_of(tensordict.batch_size)
        if self.fast_action(tensordict, draws):
            return tensordict
        state = self._positions(tensordict)
        if state is None:
            return super().rand_action(tensordict)
        action, shape = None, (*tensordict.batch_size, *[len(self.rules.players)] * self.rules.simultaneous)
        if like(state, self._example):
            action = draws.drawn(self._fast, state, self._offsets, shape)
        if action is None:
            action = self._answers.pick(state, self._unit(state, draws))
        return self.choose(tensordict, state, action)

    def _draws_of(self, batch: Size) -> Draws:
        """The numbers that random actions of so many games are drawn with."""
        draws, stream = self._draws, self.action_stream
        if draws is None or not draws.fits(stream, batch):
            draws = self._draws = Draws(stream, batch, self._numbers_of_actions)
        return draws

    @property
    def _offsets(self) -> tuple[int, ...] | None:
        """Where among the numbers of a row that of each seat is; None where the layout does not say."""
        return None

    @property
    def _numbers_of_actions(self) -> int:
        """How many numbers a row of random actions takes."""
        return sum(prod(entry.draw) for entry in self.plan.actions)

    @abstractmethod
    def _unit(self, state: S, draws: Draws) -> Tensor:
        """The numbers of those to move; ``[*B]``, or ``[*B, P]``."""

    # --- data, state, randomness -----------------------------------------------------------------

    def _data(self, step: TimeStep[S], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a time step, with root flags; they share no memory with what is held elsewhere."""
        out = self.write(step, held)
        data = out._tensordict
        data["terminated"] = over = step.terminated.unsqueeze(-1).clone()
        data["truncated"] = torch.zeros_like(over) if step.truncated is None else step.truncated.unsqueeze(-1)
        data["done"] = over | data["truncated"]
        return out

    def _seed_of_games(self) -> int:
        if self._game_seed is None:
            self._game_seed = self.action_stream.seed
        return self._game_seed

    def _set_seed(self, seed: int | None) -> None:
        self._game_seed, self._episode = seed, 0

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if tensordict is None:
            raise SpecError(
                f"{type(self).__name__}.get_state: the position travels in the data; pass it, get_state(td)"
            )
        said = [name for name in SAID_BY if get(tensordict, name) is not None] if self.illegal == "lose" else []
        return tensordict.select(*self.state_keys, *said[:1]).clone()

    def _state_of(self, state: TensorDictBase, mask: Tensor, tensordict: TensorDictBase | None) -> TensorDictBase:
        chosen = super()._state_of(state, mask, tensordict)
        for name in SAID_BY:
            if get(state, name) is None and (said := get(chosen, name)) is not None:  # of the games before
                put(chosen, name, said.masked_fill(mask.reshape(said.shape), 0))
        return chosen

    def _set_state(self, state: TensorDictBase) -> TensorDict:
        held = self._positions(state)
        if held is None:
            raise KeyMissing(
                f"{type(self).__name__}: no positions to start from; the data must hold {self.state_keys}, as "
                f"env.get_state(td) gives them, got {sorted(map(str, state.keys(True, True)))}"
            )
        check_positions(type(self).__name__, self.rules, held)
        opponent_rng, owed, lost = self.extra(state, OPPONENT_RNG), self._owed(state), self._lost(state, held)
        if self.opponent == "random":
            opponent_rng = self._opponent_rng(opponent_rng, state.batch_size)
        if owed is not None:  # where the opponent is to move in a game that goes on, it is asked again
            again = ~self.rules.over(held) & (self.rules.player(held) != self.seat)
            again = again if lost is None else again & ~lost
            owed = owed.masked_fill(again.unsqueeze(-1), 0.0)
        step = self._opened(held, self.extra(state, PLIES), opponent_rng, owed, self._first_rng(state), answer=False)
        step = step if lost is None else step.lost(lost, len(self.rules.outcomes))
        step = self._answer(step).as_first() if self._has_opponent() else step
        return self._data(step, list(state.values(True, True)))


def _overlay(td: TensorDictBase, top: TensorDictBase) -> None:
    """Writes the entries of ``top`` over those of ``td``, level by level."""
    for name, value in entries(top):
        mine = get(td, name) if is_nested(value) else None
        if mine is not None:
            _overlay(mine, value)
        else:
            put(td, name, value)
