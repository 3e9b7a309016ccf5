"""Chess with TorchRL's keys, arguments and results, for any batch of games."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import BadNotation, IllegalAction, KeyMissing, SpecError, Unsupported, nearest
from marlenv.games.chess import paths, pgn, sprites
from marlenv.games.chess.board import CHECKMATE, MOST, OUTCOMES, PLANES, TURN, WORDS, State
from marlenv.games.chess.grouped import ChessTurns, GroupedChessEnv, checked
from marlenv.games.chess.rules import Chess
from marlenv.games.chess.san import Numbered, numbered, san_moves
from marlenv.games.draws import Draws
from marlenv.games.rules import where
from marlenv.games.turn_based import LUCK, PLY, Moment
from marlenv.groups import open_rows
from marlenv.specs import Binary, Bounded, Categorical, Composite, NonTensor, Unbounded
from marlenv.tensordicts import get, new, put, separate

RULES = ("draws", "chess960", "number", "path")
TEXTS = ("san", "fen", "pgn")
CLAIMED = ("fifty moves", "threefold repetition")


@dataclass
class Now:
    """The games of an env at one moment; one text per row."""

    state: State
    sans: list[str]
    """The moves that led here; ``<start>`` where there was none."""
    pgns: list[str]


class ChessEnv(ChessTurns):
    """Chess with TorchRL's keys, for any batch of games. An action is an index into :meth:`san_moves`.

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
        stateful: the env keeps the games; else they travel in the data. Data with a ``fen`` or ``pgn`` but no ``state``, or
            with a ``fen`` of another position, start from the text.
        include_san: emit the last move.
        include_fen: emit the position.
        include_pgn: emit the game.
        include_legal_moves: emit the numbers of the legal moves.
        include_hash: emit hashes of the texts.
        include_hash_inv: take hashes of texts that were emitted in place of the texts.
        mask_actions: emit the mask of legal moves, and keep that of ``action_spec``.
        pixels: emit pictures.
        layout: ``"torchrl"``, or ``"grouped"`` for a group per player: a
            :class:`~marlenv.games.chess.grouped.GroupedChessEnv`, which takes ``mask``, ``group_map`` and the options below.
        batch_size: how many games.
        draws: ``"claim"`` or ``"forced"``, see :class:`~marlenv.games.chess.Chess`; ``"torchrl"``, which is this layout's own,
            ends games at the fifth repetition and after 50 moves.
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

    def __new__(cls, *, layout: Literal["torchrl", "grouped"] = "torchrl", **options: Any) -> Any:
        """The env of a layout."""
        if layout == "grouped":
            own = {name: options.pop(name) for name in RULES if name in options}
            return GroupedChessEnv(Chess(**own), **options)
        if layout != "torchrl":
            raise SpecError(f"ChessEnv: layout={layout!r}; {nearest(layout, ['torchrl', 'grouped'])}")
        return super().__new__(cls)

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
        layout: str = "torchrl",
        batch_size: Sequence[int] | int | None = None,
        draws: Literal["claim", "forced", "torchrl"] = "torchrl",
        chess960: bool = False,
        number: int | None = None,
        path: Literal["auto", "torch", "numba"] = "auto",
        **options: Any,
    ) -> None:
        if include_hash_inv and not include_hash:
            raise SpecError("ChessEnv: include_hash_inv=True needs include_hash=True, got include_hash=False")
        if "mask" in options:
            raise SpecError(
                f"ChessEnv: mask={options['mask']!r} needs layout='grouped'; TorchRL's masks are bools of SAN moves"
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
        self._texts = [n for n, asked in zip(TEXTS, (include_san, include_fen, include_pgn), strict=True) if asked]
        self._hashed: dict[bytes, str] = {}
        self._now: Now | None = None
        self._held: Now | None = None
        self._scores: dict[str, pgn.Game] = {}
        self._coded: tuple[State, Numbered] | None = None
        if stateful:
            self.batch_locked = self.handles_partial_steps = True
        self._make_specs()

    def _make_specs(self) -> None:
        shape, size = self.batch_size, len(san_moves())
        seen = Composite(turn=Categorical(2, shape, dtype=torch.bool), shape=shape)
        if self.include_legal_moves:
            seen["legal_moves"] = Bounded(0, size + 1, (*shape, MOST + 1), dtype=torch.int64)
        for name, example in zip(TEXTS, ("Nc6", "any", _line(pgn.Game())), strict=True):
            if name in self._texts:
                seen[name] = NonTensor(shape, example_data=example, feature_dims=0)
        if self.max_plies is not None and not self.stateful:
            seen[PLY] = Unbounded((*shape, 1), dtype=torch.int64)
        if self.opponent == "random" and not self.stateful:
            seen[LUCK] = Unbounded((*shape, 2), dtype=torch.int64)
        held = seen.clone()
        if not self.stateful:
            parts = zip(self._fields, self._example, strict=True)
            position = {name: Unbounded((*shape, leaf.shape[-1]), dtype=torch.int64) for name, leaf in parts}
            seen["state"] = Composite(position, shape=shape)
            held["state"] = seen["state"].clone()
        if self.include_hash:
            for name in self._texts:
                seen[f"{name}_hash"] = Unbounded((*shape, 32), dtype=torch.uint8)
                if self.include_hash_inv:
                    held[f"{name}_hash"] = seen[f"{name}_hash"].clone()
        if self.pixels:
            seen["pixels"] = Unbounded((*shape, 3, sprites.SIDE, sprites.SIDE), dtype=torch.uint8)
        if self.mask_actions:
            seen["action_mask"] = Binary(shape=(*shape, size), dtype=torch.bool)
        self.observation_spec, self.state_spec = seen, held
        self.action_spec = Categorical(size, shape)
        self.reward_spec = Unbounded((*shape, 1))
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
                raise KeyMissing("ChessEnv: no game yet; call reset() first")
            self._now = Now(self._held.state, list(self._held.sans), list(self._held.pgns))
            return self._now.state
        self._now = self._read(tensordict)
        return self._now.state

    def _read(self, tensordict: TensorDictBase) -> Now:
        """The games in the data."""
        rows = tensordict.batch_size.numel()
        fens, pgns = self._text(tensordict, "fen"), self._text(tensordict, "pgn")
        sans = self._text(tensordict, "san") or ["<start>"] * rows
        held = get(tensordict, "state")
        if held is not None:
            state = checked(State(*(get(held, name) for name in self._fields)), self.rules)
            if fens is None or self.rules.fens(state) == fens:
                return Now(state, sans, pgns or self._opening(state))
        if fens is not None:
            state = self._placed(fens, tensordict.batch_size)
            return Now(state, sans, pgns or self._opening(state))
        if pgns is not None:
            return self._replayed(pgns, tensordict.batch_size)
        raise KeyMissing(
            f"ChessEnv: expected 'state', 'fen' or 'pgn', the data has {sorted(map(str, tensordict.keys()))}"
        )

    def _text(self, tensordict: TensorDictBase, name: str) -> list[str] | None:
        """The texts of an entry, one per row, or those that its hashes stand for; None where there is neither."""
        if name not in self._texts:
            return None
        value = get(tensordict, name)
        if value is None and self.include_hash_inv:
            hashed = get(tensordict, f"{name}_hash")
            if hashed is None:
                return None
            digests = [bytes(row) for row in hashed.reshape(-1, 32).tolist()]
            if unknown := [d.hex() for d in digests if d not in self._hashed]:
                raise KeyMissing(f"ChessEnv: no text of this env has the {name}_hash {unknown[0]}")
            return [self._hashed[d] for d in digests]
        if value is None:
            return None
        listed = value.tolist() if hasattr(value, "tolist") else value
        return [listed] if isinstance(listed, str) else _flat(listed)

    def _placed(self, fens: Sequence[str], batch: Size) -> State:
        """The positions of FENs, ``[*B]``."""
        state = self.rules.from_fens(fens, device=self.device)
        return State(*(part.reshape(*batch, part.shape[-1]) for part in state))

    def _replayed(self, pgns: list[str], batch: Size) -> Now:
        """The games that PGN tells, up to their last positions."""
        states, sans = [], []
        for row, text in enumerate(pgns):
            game = self._game(text, row)
            state = self.rules.from_fens([game.fen], device=self.device)
            for action in game.actions:
                state = self.rules.play(state, torch.tensor([action], device=state.board.device))
            states.append(state)
            sans.append(game.plies[-1].san if game.plies else "<start>")
        state = State(*(torch.cat(parts).reshape(*batch, parts[0].shape[-1]) for parts in zip(*states, strict=True)))
        return Now(state, sans, pgns)

    def _game(self, text: str, row: int) -> pgn.Game:
        """The game of a text, which may be one that was written last."""
        found = self._scores.get(text)
        if found is None:
            games = pgn.read_pgn(text, variations=False)
            if len(games) != 1:
                raise BadNotation(f"ChessEnv: row {row}: expected the PGN of one game, got {len(games)} games")
            found = games[0]
        return found

    def _opening(self, state: State) -> list[str]:
        """The PGN of games that begin here."""
        if not self.include_pgn:
            return [""] * state.board.shape[:-1].numel()
        rules = self.rules
        return [_line(pgn.record([], fen=fen, chess960=rules.chess960, result="*")) for fen in rules.fens(state)]

    def extra(self, tensordict: TensorDictBase, name: str) -> Tensor | None:
        """How many moves were played, and what a random opponent draws from."""
        if self.stateful:
            return self._plies if name == PLY else self._drawn_from
        value: Tensor | None = get(tensordict, name)
        return value.squeeze(-1) if value is not None and name == PLY else value

    _plies: Tensor | None = None
    _drawn_from: Tensor | None = None

    # --- starting --------------------------------------------------------------------------------

    def _reset(self, tensordict: TensorDictBase | None, *, set_state: bool | None = None, **_: Any) -> TensorDict:
        if set_state and tensordict is not None:
            return self._set_state(tensordict)
        batch = self.batch_size if tensordict is None else tensordict.batch_size
        mask = None if tensordict is None else get(tensordict, "_reset")
        held = self._held if self.stateful else None
        partial = mask is not None and held is not None
        moment = self._first(
            batch, tensordict if partial or (mask is not None and not self.stateful) else None, answer=False
        )
        now = self._started(moment.state)
        if partial and held is not None and mask is not None:
            moment, now = self._kept(mask.reshape(batch), moment, now, held, self._plies)
        return self._shown(moment, now)

    def _reset_rows(self, request: TensorDictBase, tensordict: TensorDictBase) -> TensorDictBase:
        out = self.fast_reset(tensordict, get(request, "_reset").reshape(tensordict.batch_size))
        return super()._reset_rows(request, tensordict) if out is None else out

    def _shown(self, moment: Moment[State], now: Now) -> TensorDict:
        """The data of games at their start, after the opponent's first move."""
        self._now = now
        if self.opponent is not None:
            moment = self._answer(moment)._replace(rewards=None)
        return self._told(moment)

    def _started(self, state: State) -> Now:
        return Now(state, ["<start>"] * state.board.shape[:-1].numel(), self._opening(state))

    def _kept(
        self, gone: Tensor, moment: Moment[State], now: Now, held: Now, plies: Tensor | None
    ) -> tuple[Moment[State], Now]:
        """The fresh games where ``gone``, else those that are held."""
        state = where(gone, moment.state, held.state)
        flags = gone.reshape(-1).tolist()
        choose = lambda yes, no: [a if flag else b for flag, a, b in zip(flags, yes, no, strict=True)]  # noqa: E731
        if plies is not None:
            plies = plies.masked_fill(gone, 0)
        moment = self._opened(state, plies, moment.luck, answer=False)
        return moment, Now(state, choose(now.sans, held.sans), choose(now.pgns, held.pgns))

    def fast_reset(self, tensordict: TensorDictBase, mask: Tensor) -> TensorDict | None:
        """All rows, those that are mask with a new game."""
        self.read(tensordict)
        held, plies = self._now, self.extra(tensordict, PLY)
        moment = self._first(tensordict.batch_size, tensordict, answer=False)
        if held is None:
            return None
        return self._shown(*self._kept(mask, moment, self._started(moment.state), held, plies))

    def _set_state(self, state: TensorDictBase) -> TensorDict:
        known = get(state, "state") is not None or any(self._text(state, name) is not None for name in ("fen", "pgn"))
        if not known:
            fresh = self._first(state.batch_size, answer=False)
            return self._shown(fresh, self._started(fresh.state))
        now = self._read(state.clone())  # the env, or the data of this game, keep it
        if bool((over := self.rules.over(now.state)).any()):
            row = int(over.reshape(-1).nonzero()[0])
            fen, why = self.rules.fens(now.state)[row], OUTCOMES[int(self.rules.outcome(now.state).reshape(-1)[row])]
            raise BadNotation(
                f"ChessEnv.reset: row {row}: the game is over ({why}) in {fen!r}; begin with one that goes on"
            )
        ply, luck = (None if x is None else x.clone() for x in (get(state, PLY), get(state, LUCK)))
        if self.opponent == "random":
            luck = self._luck(luck, state.batch_size)
        return self._shown(self._opened(now.state, None if ply is None else ply.squeeze(-1), luck, answer=False), now)

    def _get_state(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        if not self.stateful:
            if tensordict is None:
                return super()._get_state(None)
            return tensordict.select(*[key for key in self.state_keys if tensordict.get(key, None) is not None]).clone()
        if self._held is None:
            raise KeyMissing("ChessEnv.get_state: no game yet; call reset() first")
        batch = self._held.state.board.shape[:-1]
        data = {"state": new(self._held.state._asdict(), batch, self.device).clone()}
        out = new(data, batch, self.device)
        if self._plies is not None:
            put(out, PLY, self._plies.unsqueeze(-1).clone())
        if self._drawn_from is not None:
            put(out, LUCK, self._drawn_from.clone())
        for name, texts in (("san", self._held.sans), ("pgn", self._held.pgns)):
            if name in self._texts:
                put(out, name, wrapped(texts, batch))
        return out

    # --- playing ---------------------------------------------------------------------------------

    def _numbers(self, state: State) -> Numbered:
        """The numbers of the legal moves; those of the last positions are kept."""
        kept = self._coded
        if kept is None or not self.stateful or kept[0].moves is not state.moves:  # others may write to data
            kept = self._coded = (state, numbered(state, self.rules.chess960, self.rules.path))
        return kept[1]

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        mask = get(tensordict, "_step")
        if mask is not None:  # rows that are not stepped are like those whose game is over
            done = get(tensordict, "done")
            waits = ~mask.reshape(*tensordict.batch_size, 1)
            tensordict = tensordict.copy()
            put(tensordict, "done", waits if done is None else done | waits)
        return super()._step(tensordict)

    def act(self, tensordict: TensorDictBase, state: State) -> Tensor:
        """The moves that were chosen, in our numbers; -1 for illegal ones."""
        self._chosen = get(tensordict, "action")
        return self._numbers(state).action(self._chosen)

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

    def _mask_actions(self, mask: Tensor) -> None:
        """Lets the action spec allow what a mask ``[*B, n]`` of the data allows."""
        now = (mask, mask._version)
        if self._masked is None or self._masked[0] is not mask or self._masked[1] != now[1]:
            self.full_action_spec["action"].update_mask(open_rows(mask))
            self._masked = now

    _masked: tuple[Tensor, int] | None = None

    def _raise_illegal(self, state: State, action: Tensor, wrong: Tensor) -> None:
        chosen = self._chosen
        if chosen is None or bool((action[wrong] >= 0).any()):
            super()._raise_illegal(state, action, wrong)
            return
        row = tuple(wrong.nonzero()[0].tolist())
        number = int(chosen[row])
        word = repr(san_moves()[number]) if 0 <= number < len(san_moves()) else f"out of 0..{len(san_moves()) - 1}"
        one = State(*(part[row] for part in state))
        names, who = self.get_legal_moves(uci=True, state=one), self.rules.players[int(one.board[TURN])]
        raise IllegalAction(
            f"ChessEnv: action {number} ({word}) of player {who!r}{f' in row {list(row)}' if row else ''} is illegal; legal are "
            f"{names[:20]}{' ...' if len(names) > 20 else ''}"
        )

    _chosen: Tensor | None = None

    def _move(
        self, state: State, action: Tensor, gone: Tensor | None, plies: Tensor | None, luck: Tensor | None
    ) -> Moment[State]:
        moment = super()._move(state, action, gone, plies, luck)
        self._gone = gone
        if self._now is not None and (self.include_san or self.include_pgn):
            self._note(state, action, gone, moment)
        return moment

    def _note(self, state: State, action: Tensor, gone: Tensor | None, moment: Moment[State]) -> None:
        """Writes the moves down where they were played."""
        now, numbers = self._now, self._numbers(state).number(action)
        if gone is not None:
            numbers = numbers.masked_fill(gone, -1)
        rows = zip(numbers.reshape(-1).tolist(), action.reshape(-1).tolist(), strict=True)
        codes, turns = moment.outcome.reshape(-1).tolist(), state.board[..., TURN].reshape(-1).tolist()
        scores: dict[str, pgn.Game] = {}
        for row, (number, ours) in enumerate(rows):
            if number < 0 or now is None:
                continue
            now.sans[row] = san_moves()[number]
            if self.include_pgn:
                game = self._game(now.pgns[row], row)
                result = self._result(codes[row], turns[row])
                after = pgn.Game(game.tags, [*game.plies, pgn.Ply(ours, now.sans[row])], result)
                now.pgns[row] = _line(after)
                scores[now.pgns[row]] = after
        self._scores = scores

    def _result(self, code: int, turn: int) -> str:
        """How a score ends; a draw that TorchRL's games take without a claim is no result there."""
        if code == CHECKMATE:
            return "0-1" if turn else "1-0"
        why = self.outcomes[code]
        if not why or code >= len(OUTCOMES) or (why in CLAIMED and self.rules.draws == "torchrl"):
            return "*"
        return "1/2-1/2"

    # --- data ------------------------------------------------------------------------------------

    def write(self, moment: Moment[State], held: Sequence[Tensor] = ()) -> TensorDict:
        """The data of a moment, without root flags."""
        state, now = moment.state, self._now
        batch = state.board.shape[:-1]
        sans, pgns = ([], []) if now is None else (now.sans, now.pgns)
        data: dict[str, Any] = {"turn": state.board[..., TURN] == 0}
        if self.stateful:
            self._held = Now(state, list(sans), list(pgns))
            self._plies, self._drawn_from = moment.plies, moment.luck
        else:
            data["state"] = new(dict(zip(self._fields, separate(state, held), strict=True)), batch, self.device)
            if moment.plies is not None:
                [data[PLY]] = separate([moment.plies.unsqueeze(-1)], held)
            if moment.luck is not None:
                [data[LUCK]] = separate([moment.luck], held)
        texts = {"san": sans, "fen": self.rules.fens(state) if self.include_fen else [], "pgn": pgns}
        for name in self._texts:
            data[name] = wrapped(texts[name], batch)
            if self.include_hash:
                data[f"{name}_hash"] = self._hash(texts[name]).reshape(*batch, 32)
        if self.mask_actions or self.include_legal_moves:
            coded = self._numbers(state)
            if bool(moment.over.any()):
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
        if moment.rewards is not None:
            data["reward"] = self._earned(moment, moment.rewards).unsqueeze(-1)
        return new(data, batch, self.device)

    def _earned(self, moment: Moment[State], rewards: Tensor) -> Tensor:
        """What the last move earned who made it, or the seat that plays against an opponent; ``[*B]``."""
        turn = moment.state.board[..., TURN]
        mover = 1 - turn if self.opponent is None else torch.full_like(turn, self.seat)
        earned = rewards.gather(-1, mover.unsqueeze(-1)).squeeze(-1)
        why, known = moment.outcome, len(OUTCOMES)
        earned = torch.where((why > CHECKMATE) & (why < known), 0.5, earned)
        earned = torch.where((why == known) & (earned != 0), -1.0, earned)  # an illegal move
        return earned if self._gone is None else earned.masked_fill(self._gone, 0.0)

    _gone: Tensor | None = None

    def _continued(self, state: State) -> State:
        """The positions with what could be played if draws did not end games."""
        moves = state.moves.reshape(-1, PLANES).clone()
        board = state.board.reshape(-1, WORDS)
        for row in self.rules.over(state).reshape(-1).nonzero().flatten().tolist():
            _, left, _ = paths.follow(board[row].tolist(), -1, self.rules.chess960, self.rules.path)
            moves[row] = torch.tensor(left, dtype=torch.int64)
        return state._replace(moves=moves.reshape(state.moves.shape))

    def _hash(self, texts: Sequence[str]) -> Tensor:
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        if self.include_hash_inv:
            self._hashed.update(zip(digests, texts, strict=True))
        return torch.tensor([list(digest) for digest in digests], dtype=torch.uint8, device=self.device)

    def _told(self, moment: Moment[State], held: Sequence[Tensor] = ()) -> TensorDict:
        out = super()._told(moment, held)
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
        """The legal moves of one game, stacked along a new first dimension."""
        if not self.mask_actions:
            raise Unsupported(
                "ChessEnv.all_actions: made with mask_actions=False; env.full_action_spec.enumerate() gives all moves"
            )
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


def wrapped(texts: list[str], batch: Size) -> Any:
    """Texts as an entry of a tensordict, one per row."""
    if not batch:
        return NonTensorData(texts[0])
    if len(batch) == 1:
        return NonTensorStack(*[NonTensorData(text) for text in texts])
    size = batch[1:].numel()
    return NonTensorStack(*[wrapped(texts[i * size : (i + 1) * size], batch[1:]) for i in range(batch[0])])


def _line(game: pgn.Game) -> str:
    """A game in PGN with its moves in one line."""
    return pgn.write_pgn([game], width=None).rstrip()


def _flat(nested: Any) -> list[str]:
    return [nested] if isinstance(nested, str) else [text for part in nested for text in _flat(part)]
