"""Chess with TorchRL's keys, arguments and results, for any batch of games."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.envs.compiling import outside_graphs
from marlenv.errors import BadNotation, NeedsReset, PositionMissing, ResetError, SpecError, Unsupported, flag
from marlenv.games.chess.board import CHECKMATE, MOST, OUTCOMES, PLANES, TURN, WORDS, State
from marlenv.games.chess.env.grouped_chess_env import ChessTurns, checked
from marlenv.games.chess.env.scores import BEGINNING, TEXTS, Record, Scores, wrapped
from marlenv.games.chess.fast import paths
from marlenv.games.chess.numberings.san import NUMBERS, Numbered, numbered, san_moves
from marlenv.games.chess.pictures import sprites
from marlenv.games.chess.rules import Chess
from marlenv.games.env.draws import Draws
from marlenv.games.env.time_step import TimeStep, streams_where
from marlenv.games.env.turn_based import FIRST_RNG, GRAPHS, OPPONENT_RNG, PLIES
from marlenv.games.rules import where
from marlenv.groups import open_rows
from marlenv.specs import Binary, Bounded, Categorical, Composite, Unbounded
from marlenv.tensordicts import get, new, put, separate

INCLUDED = [f"include_{name}" for name in (*TEXTS, "legal_moves", "hash", "hash_inv")]
FLAGS = ("stateful", *INCLUDED, "mask_actions", "pixels")


class ChessEnv(ChessTurns):
    """Chess with TorchRL's keys, for any batch of games. An action is an index into :meth:`san_moves`.

    ``make("chess")`` is chess with a group per player instead: :class:`~marlenv.games.chess.GroupedChessEnv`.

    | key | shape | meaning |
    |---|---|---|
    | `turn` | bool `[*B]` | True when White is to move |
    | `action` | int64 `[*B]` | a move in SAN, by its number in `env.san_moves` |
    | `action_mask` | bool `[*B, 29275]` | the legal moves, with `mask_actions` |
    | `legal_moves` | int64 `[*B, 219]` | their numbers, filled up with 29275, with `include_legal_moves` |
    | `san`, `fen`, `pgn` | text | the last move, the position, the game so far |
    | `san_hash`, ... | uint8 `[*B, 32]` | SHA-256 of the texts, with `include_hash` |
    | `pixels` | uint8 `[*B, 3, 390, 390]` | the board, with `pixels` |
    | `reward` | `[*B, 1]` | 1 to the move that mates, 0.5 to the one that draws |
    | `("state", ...)` | int64 | the position and its past, with `stateful=False` |

    Args:
        stateful: the env keeps the games; else they travel in the data. Data with a ``fen`` or ``pgn`` but no
            ``state``, or with a ``fen`` of another position, start from the text, row by row, and a ``pgn`` that does
            not lead to that ``fen`` begins anew there; so does ``reset(td)``, but with ``set_state=False`` or a
            ``"_reset"`` mask. Chess960 castles by this env's rules, whatever the ``Variant`` of a ``pgn``.
        include_san: emit the last move.
        include_fen: emit the position.
        include_pgn: emit the game.
        include_legal_moves: emit the numbers of the legal moves.
        include_hash: emit hashes of the texts.
        include_hash_inv: take hashes of texts that were emitted in place of the texts.
        mask_actions: emit the mask of legal moves, and keep that of ``action_spec``.
        pixels: emit pictures.
        batch_size: how many games.
        draws: ``"claim"`` or ``"forced"``, see :class:`~marlenv.games.chess.Chess`; ``"torchrl"``, which is this
            env's own, ends games at the fifth repetition and after 50 moves.
        chess960: Chess960, in a first position of its own per game, or in that of ``number``.
        number: the first position, 0 to 959.
        path: ``"auto"``, ``"numba"`` or ``"torch"``.
        **options: those of :class:`~marlenv.games.TurnBasedEnv`: ``device, illegal, max_plies, opponent, seat, seed``.

    >>> env = ChessEnv(include_san=True, include_fen=True)
    >>> td = env.reset()
    >>> td = env.step(td.set("action", env.san_moves.index("e4")))["next"]
    >>> td["san"], td["fen"], bool(td["turn"])
    ('e4', 'rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1', False)
    """

    def __init__(
        self,
        *,
        stateful: bool = True,
        include_san: bool = False,
        include_fen: bool = False,
        include_pgn: bool = False,
        include_legal_moves: bool = False,
        include_hash: bool = False,
        include_hash_inv: bool = False,
        mask_actions: bool = True,
        pixels: bool = False,
        batch_size: Sequence[int] | int | None = None,
        draws: Literal["claim", "forced", "torchrl"] = "torchrl",
        chess960: bool = False,
        number: int | None = None,
        path: Literal["auto", "torch", "numba"] = "auto",
        **options: Any,
    ) -> None:
        if include_hash_inv and not include_hash:
            raise SpecError("ChessEnv: include_hash_inv=True needs include_hash=True, got include_hash=False")
        for name in ("mask", "layout", "group_map"):
            if name in options:
                raise SpecError(
                    f"ChessEnv: {name}={options[name]!r} needs layout='grouped': make('chess', layout='grouped', ...) "
                    f"or GroupedChessEnv(Chess(...)); this env has TorchRL's keys, and its masks are bools of SAN moves"
                )
        rules = Chess(draws=draws, chess960=chess960, number=number, path=path)
        super().__init__(rules, batch_size=batch_size, **options)
        self.stateful, self.mask_actions, self.pixels = stateful, mask_actions, pixels
        self.include_san, self.include_fen, self.include_pgn = include_san, include_fen, include_pgn
        self.include_legal_moves, self.include_hash, self.include_hash_inv = (
            include_legal_moves,
            include_hash,
            include_hash_inv,
        )
        for name in FLAGS:
            flag("ChessEnv", name, getattr(self, name))
        texts = [n for n, asked in zip(TEXTS, (include_san, include_fen, include_pgn), strict=True) if asked]
        self._scores = Scores(rules, texts, hashes=include_hash, inverse=include_hash_inv)
        self._now: Record | None = None
        self._held: Record | None = None
        self._coded: tuple[State, Numbered] | None = None
        if stateful:
            self.batch_locked = self.handles_partial_steps = True
        self._make_specs()

    def _make_specs(self) -> None:
        shape, size = self.batch_size, len(san_moves())
        both = Composite(turn=Categorical(2, shape, dtype=torch.bool), shape=shape)
        if self.include_legal_moves:
            both["legal_moves"] = Bounded(0, size + 1, (*shape, MOST + 1), dtype=torch.int64)
        if self.max_plies is not None and not self.stateful:
            both[PLIES] = Unbounded((*shape, 1), dtype=torch.int64)
        if self.opponent == "random" and not self.stateful:
            both[OPPONENT_RNG] = Unbounded((*shape, 2), dtype=torch.int64)
        if self._draws_first and not self.stateful:
            both[FIRST_RNG] = Unbounded((*shape, 2), dtype=torch.int64)
        if not self.stateful:
            parts = zip(self._fields, self._example, strict=True)
            position = {name: Unbounded((*shape, leaf.shape[-1]), dtype=torch.int64) for name, leaf in parts}
            both["state"] = Composite(position, shape=shape)
        written, read = self._scores.specs(shape)
        observed = both.clone().update(written)
        if self.pixels:
            observed["pixels"] = Unbounded((*shape, 3, sprites.SIDE, sprites.SIDE), dtype=torch.uint8)
        if self.mask_actions:
            observed["action_mask"] = Binary(shape=(*shape, size), dtype=torch.bool)
        self.observation_spec, self.state_spec = observed, both.update(read)
        self.action_spec = Categorical(size, shape)
        self.reward_spec = Unbounded((*shape, 1), dtype=torch.float32)
        done = self.flags()
        if self.max_plies is None:
            del done["truncated"]
        self.full_done_spec = done

    @property
    def san_moves(self) -> tuple[str, ...]:
        """The moves that actions number."""
        return san_moves()

    # --- where the games are ---------------------------------------------------------------------

    def read(self, tensordict: TensorDictBase) -> State:
        """The positions: those that the env keeps, or those in the data."""
        if self.stateful:
            if self._held is None:
                raise PositionMissing("ChessEnv: no game yet; call reset() first")
            self._now = self._held.copy()
            return self._now.state
        self._now = self._read(tensordict)
        return self._now.state

    def _read(self, tensordict: TensorDictBase) -> Record:
        """The games in the data."""
        scores, batch = self._scores, tensordict.batch_size
        fens, pgns, sans = (scores.read(tensordict, name) for name in ("fen", "pgn", "san"))
        held = get(tensordict, "state")
        if held is not None:
            state = checked(State(*(get(held, name) for name in self._fields)), self.rules)
            now = Record(state, sans or [BEGINNING] * batch.numel(), pgns or scores.openings(state))
            return now if fens is None else scores.moved(now, fens, pgns)
        if fens is not None:
            return scores.begun(dict(enumerate(fens)), pgns, batch, self.device)
        if pgns is not None:
            return scores.replay(pgns, batch, self.device)
        raise PositionMissing(
            f"ChessEnv: expected 'state', or the 'fen' or 'pgn' that include_fen or include_pgn emits, the data has "
            f"{sorted(map(str, tensordict.keys()))}; call reset() first, whose data have it, as get_state()'s have"
        )

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """How many moves were played, and what a random opponent and first positions are drawn from."""
        if self.stateful:
            return {PLIES: self._plies, OPPONENT_RNG: self._drawn_from, FIRST_RNG: self._first_from}[name]
        value: Tensor | None = get(tensordict, name)
        return value.squeeze(-1) if value is not None and name == PLIES else value

    _plies: Tensor | None = None
    _drawn_from: Tensor | None = None
    _first_from: Tensor | None = None
    _ended: Tensor | None = None
    """Which of the games that the env keeps an illegal move has ended, bool ``[*B]``; no position says so."""

    def _done(self, tensordict: TensorDictBase) -> Tensor | None:
        done = super()._done(tensordict)
        if done is not None or self._ended is None or self._held is None:
            return done
        return self.rules.over(self._held.state) | self._ended

    def _lost(self, tensordict: TensorDictBase, state: State) -> Tensor | None:
        said = get(tensordict, "terminated") is not None
        return super()._lost(tensordict, state) if said or self._ended is None else self._ended

    # --- starting --------------------------------------------------------------------------------

    @outside_graphs(GRAPHS)
    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None) -> TensorDict:
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        mask = None if tensordict is None else get(tensordict, "_reset")
        given = set_state or (set_state is None and mask is None)
        if tensordict is not None and given and self._holds_games(tensordict):
            taken = self._taken_up(tensordict)
            self._refuse_ended(taken[0])
            return self._beginning(*taken)
        held = self._held if self.stateful else None
        partial = mask is not None and held is not None
        step = self._first(
            batch, tensordict if partial or (mask is not None and not self.stateful) else None, answer=False
        )
        now = self._scores.begin(step.state)
        if partial and held is not None and tensordict is not None and mask is not None:
            step, now = self._with_held(mask.reshape(batch), step, now, held, tensordict)
        return self._beginning(step, now)

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        out = self.fast_reset(tensordict, get(request, "_reset").reshape(tensordict.batch_size))
        return super()._reset_rows(request, tensordict) if out is None else out

    def _beginning(self, step: TimeStep[State], now: Record) -> TensorDict:
        """The data of games at their start, after the opponent's first move."""
        self._now = now
        if self.opponent is not None:
            step = self._answer(step).as_first()
        return self._data(step)

    def _with_held(
        self, mask: Tensor, step: TimeStep[State], now: Record, held: Record, tensordict: TensorDictBase
    ) -> tuple[TimeStep[State], Record]:
        """Games that begin in the rows of ``mask``, and those that are held, or in the data, in the others."""
        state, plies = where(mask, step.state, held.state), self.extra(tensordict, PLIES)
        if plies is not None:
            plies = plies.masked_fill(mask, 0)
        first_rng = streams_where(mask, step.first_rng, self._first_rng(tensordict))
        step = self._opened(state, plies, step.opponent_rng, first_rng=first_rng, answer=False)
        lost = self._lost(tensordict, held.state)
        step = step if lost is None else step.lost(lost & ~mask, len(self.rules.outcomes))
        return step, now.chosen(mask, held, state)

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those of ``mask`` with a new game."""
        self.read(tensordict)
        held = self._now
        step = self._first(tensordict.batch_size, tensordict, answer=False)
        if held is None:
            return None
        return self._beginning(*self._with_held(mask, step, self._scores.begin(step.state), held, tensordict))

    def _holds_games(self, tensordict: TensorDictBase) -> bool:
        """Whether data hold positions, or texts of them."""
        texts = (self._scores.read(tensordict, name) for name in ("fen", "pgn"))
        return get(tensordict, "state") is not None or any(text is not None for text in texts)

    def _set_state(self, state: TensorDictBase) -> TensorDict:
        return self._beginning(*self._taken_up(state))

    def _taken_up(self, state: TensorDictBase) -> tuple[TimeStep[State], Record]:
        """The games in the data, which may be over, and their texts."""
        now = self._read(state.clone())  # the env, or the data of this game, keep it
        found = (get(state, name) for name in (PLIES, OPPONENT_RNG, FIRST_RNG))
        ply, opponent_rng, first_rng = (None if x is None else x.clone() for x in found)
        first_rng = self._drawing_on(first_rng, state.batch_size)
        if self.opponent == "random":
            opponent_rng = self._opponent_rng(opponent_rng, state.batch_size)
        plies, lost = None if ply is None else ply.squeeze(-1), super()._lost(state, now.state)
        step = self._opened(now.state, plies, opponent_rng, first_rng=first_rng, answer=False)
        return (step if lost is None else step.lost(lost, len(self.rules.outcomes))), now

    def _refuse_ended(self, step: TimeStep[State]) -> None:
        """Raises for games that are over, from which none can begin."""
        if not bool(step.done.any()):
            return
        row = int(step.done.reshape(-1).nonzero()[0])
        fen, outcome = self.rules.fens(step.state)[row], int(step.outcome.reshape(-1)[row])
        kind = BadNotation if outcome < len(OUTCOMES) else ResetError
        raise kind(
            f"ChessEnv.reset: row {row}: the game is over ({self.outcomes[outcome]}) in {fen!r}; begin with one that "
            f"goes on"
        )

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if not self.stateful:
            if tensordict is None:
                return super()._get_state(None)
            said = ["terminated"] * (self.illegal == "lose")
            keys = [key for key in [*self.state_keys, *said] if tensordict.get(key, None) is not None]
            return tensordict.select(*keys).clone()
        if self._held is None:
            raise NeedsReset.before("ChessEnv", "get_state")
        batch = self._held.state.board.shape[:-1]
        data = {"state": new(self._held.state._asdict(), batch, self.device).clone()}
        out = new(data, batch, self.device)
        if self._plies is not None:
            put(out, PLIES, self._plies.unsqueeze(-1).clone())
        if self._drawn_from is not None:
            put(out, OPPONENT_RNG, self._drawn_from.clone())
        if self._first_from is not None:
            put(out, FIRST_RNG, self._first_from.clone())
        if self._ended is not None:
            put(out, "terminated", (self.rules.over(self._held.state) | self._ended).unsqueeze(-1))
        for name, texts in (("san", self._held.sans), ("pgn", self._held.pgns)):
            if name in self._scores.texts:
                put(out, name, wrapped(texts, batch))
        return out

    # --- playing ---------------------------------------------------------------------------------

    def _numbers(self, state: State) -> Numbered:
        """The numbers of the legal moves; those of the last positions are kept."""
        kept = self._coded
        if kept is None or not self.stateful or kept[0].moves is not state.moves:  # others may write to data
            kept = self._coded = (state, numbered(state, self.rules.chess960, self.rules.path))
        return kept[1]

    @outside_graphs(GRAPHS)
    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        mask = get(tensordict, "_step")
        if mask is not None:  # rows that are not stepped are like those whose game is over
            done = get(tensordict, "done")
            waits = ~mask.reshape(*tensordict.batch_size, 1)
            tensordict = tensordict.copy()
            put(tensordict, "done", waits if done is None else done | waits)
        return super()._step(tensordict)

    def _answer(self, step: TimeStep[State]) -> TimeStep[State]:
        """Lets the opponent move, who may ask the env; where it fails, the env keeps the games that it had."""
        spec = self.full_action_spec["action"]
        kept, mask = (self._held, self._plies, self._drawn_from, self._first_from, self._ended), spec.mask
        done = self._done_before
        try:
            answered = super()._answer(step)
        except BaseException:
            (self._held, self._plies, self._drawn_from, self._first_from, self._ended), self._masked = kept, None
            spec.update_mask(mask)
            raise
        self._done_before = done  # of the whole step: who ended the game in it is paid, though the opponent waits there
        return answered

    def act(self, tensordict: TensorDictBase, state: State) -> Tensor:
        """The moves that were chosen, in our numbers; -1 for illegal ones."""
        action = get(tensordict, "action")
        self._chosen = action if action.dtype == torch.int64 else self.widened(action)
        return self._numbers(state).action(self._chosen)

    @cached_property
    def _plain(self) -> bool:
        """Whether all that a step says are turns, masks and rewards, of games that the env keeps."""
        asked = self._scores.texts or self.include_legal_moves or self.pixels or self.opponent or self.max_plies
        return type(self) is ChessEnv and self.stateful and self.mask_actions and not asked

    def _quick(self, batch: Size) -> bool:
        """Whether compiled code can play the games that are kept, ``[*B]``."""
        held = self._held
        if held is None or not self._plain or held.state.board.shape[:-1] != batch:
            return False
        return paths.compiled(self.rules.path, held.state.board) and batch.numel() > 0

    def fast_action(self, tensordict: TensorDictBase, draws: Draws) -> bool:
        """Writes the numbers of random legal moves, out of the list of those."""
        if self._held is None or not self._quick(tensordict.batch_size):
            return False
        numbers, actions = self._numbers(self._held.state)
        put(tensordict, "action", paths.san_pick(numbers, actions, draws.one(None)))
        return True

    def fast_step(self, tensordict: TensorDictBase, *, ahead: bool) -> tuple[TensorDict, TensorDict | None] | None:
        """A step in one call, where no game is over before or after it and no move is illegal."""
        held, action = self._held, get(tensordict, "action")
        if held is None or ahead or not self._quick(tensordict.batch_size) or (done := self._done(tensordict)) is None:
            return None
        if action.dtype != torch.int64 or action.shape != done.shape or not action.is_cpu:
            return None
        how, numbers = (self.rules.limits, self.rules.chess960), self._numbers(held.state)
        table, size = NUMBERS.on(done.device), len(san_moves())
        made = paths.san_step(held.state, numbers, action, done, table, *how, size)
        if made is None:
            return None
        state, found, mask, turn = made
        self._now, self._held = held.copy(), Record(state, list(held.sans), list(held.pgns))
        self._plies = self._drawn_from = self._ended = self._done_before = None
        self._chosen, self._coded = action, (state, Numbered(*found))
        self._mask_actions(mask, some=True)
        terminated, over = torch.zeros((2, *done.shape, 1), dtype=torch.bool, device="cpu").unbind(0)
        reward = torch.zeros((*done.shape, 1), dtype=torch.float32, device="cpu")
        data = {"turn": turn, "action_mask": mask, "reward": reward, "terminated": terminated, "done": over}
        return new(data, done.shape, self.device), None

    def choose(self, tensordict: TensorDictBase, state: State, action: Tensor) -> TensorDictBase:
        """Writes the moves to play."""
        put(tensordict, "action", self._numbers(state).number(action).clamp(min=0))
        return tensordict

    def _unit(self, state: State, draws: Draws) -> Tensor:
        return draws.one(None)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Draws random legal moves from the env's own stream; without data, for the games that the env keeps."""
        if tensordict is None and self.stateful and self._held is not None:
            tensordict = new({}, self._held.state.board.shape[:-1], self.device)
        elif tensordict is not None and (mask := get(tensordict, "action_mask")) is not None and self.mask_actions:
            self._mask_actions(mask)
        return super().rand_action(tensordict)

    def _mask_actions(self, mask: Tensor, *, some: bool = False) -> None:
        """Lets the action spec allow what a mask ``[*B, n]`` of the data allows; ``some``: that is never nothing."""
        now = (mask, -1 if mask.is_inference() else mask._version)  # of inference nobody counts the changes
        if self._masked is None or self._masked[0] is not mask or self._masked[1] != now[1] or now[1] < 0:
            held = mask.shape[:-1] == self.batch_size  # an env without a batch size plays games of any
            self.full_action_spec["action"].update_mask(None if not held else mask if some else open_rows(mask))
            self._masked = now

    _masked: tuple[Tensor, int] | None = None

    def _in_words(self, one: State, seat: int, chosen: int, row: tuple[int, ...]) -> tuple[str, list[str]]:
        if self._chosen is None or chosen >= 0:
            return super()._in_words(one, seat, chosen, row)
        number = int(self._chosen[row])
        word = repr(san_moves()[number]) if 0 <= number < len(san_moves()) else f"out of 0..{len(san_moves()) - 1}"
        return f"{number} ({word})", self.get_legal_moves(uci=True, state=one)

    _chosen: Tensor | None = None

    def _move(
        self, state: State, action: Tensor, done: Tensor | None, plies: Tensor | None, opponent_rng: Tensor | None
    ) -> TimeStep[State]:
        step = super()._move(state, action, done, plies, opponent_rng)
        self._done_before = done
        if self._now is not None and (self.include_san or self.include_pgn):
            numbers = self._numbers(state).number(action)
            numbers = numbers if done is None else numbers.masked_fill(done, -1)
            why = [self.outcomes[code] for code in step.outcome.reshape(-1).tolist()]
            self._scores.note(self._now, numbers, action, state.board[..., TURN], why)
        return step

    # --- data ------------------------------------------------------------------------------------

    def write(self, step: TimeStep[State], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a time step, without root flags."""
        state, batch = step.state, step.state.board.shape[:-1]
        now = Record(state, [], []) if self._now is None else self._now
        now = Record(state, list(now.sans), list(now.pgns))
        data: dict[str, Any] = {"turn": state.board[..., TURN] == 0}
        if self.stateful:
            self._held, self._plies, self._drawn_from = now, step.plies, step.opponent_rng
            self._first_from = step.first_rng
            self._ended = step.outcome == len(self.rules.outcomes) if self.illegal == "lose" else None
        else:
            data["state"] = new(dict(zip(self._fields, separate(state, held), strict=True)), batch, self.device)
            if step.plies is not None:
                [data[PLIES]] = separate([step.plies.unsqueeze(-1)], held)
            if step.opponent_rng is not None:
                [data[OPPONENT_RNG]] = separate([step.opponent_rng], held)
            if step.first_rng is not None:
                [data[FIRST_RNG]] = separate([step.first_rng], held)
        data |= self._scores.entries(now)
        if self.mask_actions or self.include_legal_moves:
            coded = self._numbers(state)
            if bool(step.terminated.any()):
                coded = numbered(self._continued(state), self.rules.chess960, self.rules.path)
            if self.include_legal_moves:
                size = len(san_moves())
                listed = torch.where(coded.numbers < 0, size, coded.numbers)
                data["legal_moves"] = torch.cat((listed, torch.full_like(listed[..., :1], size)), -1)
            if self.mask_actions:
                data["action_mask"] = coded.mask()
                self._mask_actions(data["action_mask"])
        if self.pixels:
            data["pixels"] = sprites.pixels(state.board)
        if step.rewards is not None:
            data["reward"] = self._reward(step, step.rewards).unsqueeze(-1)
        return new(data, batch, self.device)

    def _reward(self, step: TimeStep[State], rewards: Tensor) -> Tensor:
        """What the last move earned who made it, or the seat that plays against an opponent; ``[*B]``."""
        turn, why, known = step.state.board[..., TURN], step.outcome, len(OUTCOMES)
        mover = torch.where(why == known, turn, 1 - turn)  # after an illegal move it is still one's turn
        mover = mover if self.opponent is None else torch.full_like(turn, self.seat)
        reward = rewards.gather(-1, mover.unsqueeze(-1)).squeeze(-1)
        reward = torch.where((why > CHECKMATE) & (why < known), 0.5, reward)
        return reward if self._done_before is None else reward.masked_fill(self._done_before, 0.0)

    _done_before: Tensor | None = None

    def _continued(self, state: State) -> State:
        """The positions with what could be played if draws did not end games."""
        moves = state.moves.reshape(-1, PLANES).clone()
        board = state.board.reshape(-1, WORDS)
        for row in self.rules.over(state).reshape(-1).nonzero().flatten().tolist():
            _, left, _ = paths.follow(board[row].tolist(), -1, self.rules.chess960, self.rules.path)
            moves[row] = torch.from_numpy(left)
        return state._replace(moves=moves.reshape(state.moves.shape))

    def _data(self, step: TimeStep[State], held: Sequence[Tensor] = ()) -> TensorDict:
        out = super()._data(step, held)
        if self.max_plies is None:
            del out._tensordict["truncated"]
        return out

    # --- TorchRL's helpers -----------------------------------------------------------------------

    def get_legal_moves(
        self, tensordict: TensorDictBase | None = None, uci: bool = False, *, state: State | None = None
    ) -> list[str]:
        """The legal moves of one game, in SAN or UCI.

        Args:
            tensordict: the data of the game; not needed where the env keeps it.
            uci: UCI instead of SAN.
            state: a position, instead of the game.

        >>> env = ChessEnv()
        >>> td = env.reset()
        >>> env.get_legal_moves()[:3], len(env.get_legal_moves(uci=True))
        (['a3', 'b3', 'c3'], 20)
        """
        if state is None:
            if tensordict is None and not self.stateful:
                raise SpecError("ChessEnv.get_legal_moves: the games travel in the data; pass it, get_legal_moves(td)")
            state = self.read(new({}, self.batch_size) if tensordict is None else tensordict)
        names = self.rules.legal_names(state)
        if not uci:
            return list(names)
        actions = torch.tensor(list(names.values()), dtype=torch.int64, device=state.board.device)
        return self.rules.ucis(State(*(part.expand(len(actions), -1) for part in state)), actions)

    def all_actions(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """The legal moves of one game, stacked along a new first dimension; before the first reset, all there are.

        Args:
            tensordict: data with a position, in which the env is put, as by ``reset``.
        """
        if not self.mask_actions:
            raise Unsupported(
                "ChessEnv.all_actions: made with mask_actions=False; env.full_action_spec.enumerate() gives all moves"
            )
        if tensordict is None and (self._held is None or not self.stateful):
            return self.full_action_spec.enumerate()
        if tensordict is not None and self.stateful and self._holds_games(tensordict):
            self.reset(tensordict.copy(), set_state=True)
        state = self.read(new({}, self.batch_size) if tensordict is None else tensordict)
        numbers = self._numbers(state).numbers
        if numbers.ndim != 1:
            raise Unsupported(
                f"ChessEnv.all_actions: one game at a time, got the batch {list(numbers.shape[:-1])}; index it"
            )
        return TensorDict({"action": numbers[numbers >= 0].sort()[0]}, [int((numbers >= 0).sum())])

    def cardinality(self, tensordict: TensorDictBase | None = None) -> int:
        """How many legal moves there are in one game."""
        return len(self.all_actions(tensordict))
