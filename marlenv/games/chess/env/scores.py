"""The texts that :class:`~marlenv.ChessEnv` gives of its games: last moves, FENs, PGN, and their hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import BadNotation, DtypeError, KeyMissing, ShapeError
from marlenv.games.chess.board import CHECKMATE, OUTCOMES, State
from marlenv.games.chess.numberings.san import san_moves
from marlenv.games.chess.rules import Chess
from marlenv.games.chess.text import pgn
from marlenv.games.chess.text.notation import read_fen, write_fen
from marlenv.specs import Composite, NonTensor, Unbounded
from marlenv.tensordicts import get

TEXTS = ("san", "fen", "pgn")
CLAIMED = ("fifty moves", "threefold repetition")
BEGINNING = "<start>"  # the last move where there was none


@dataclass
class Record:
    """Games of an env with how they came here; one text per row."""

    state: State
    sans: list[str]
    """The last moves."""
    pgns: list[str]
    """The games so far; empty texts where nobody asked for them."""

    def copy(self) -> Record:
        """A record that can be written on; positions are never written to."""
        return Record(self.state, list(self.sans), list(self.pgns))

    def chosen(self, mask: Tensor, other: Record, state: State) -> Record:
        """The texts of this record in the rows of ``mask``, else those of the ``other``; around the positions
        ``state``.
        """
        flags = mask.reshape(-1).tolist()
        sans, pgns = (
            [a if flag else b for flag, a, b in zip(flags, mine, theirs, strict=True)]
            for mine, theirs in ((self.sans, other.sans), (self.pgns, other.pgns))
        )
        return Record(state, sans, pgns)


class Scores:
    """Reads and writes the texts of games.

    Args:
        rules: of the games.
        texts: which of ``"san"``, ``"fen"`` and ``"pgn"`` are wanted.
        hashes: whether their hashes are.
        inverse: whether hashes that were written may come back in place of texts.
    """

    def __init__(self, rules: Chess, texts: Sequence[str], *, hashes: bool, inverse: bool) -> None:
        self.rules, self.texts, self.hashes, self.inverse = rules, texts, hashes, inverse
        self._hashed: dict[bytes, str] = {}
        self._written: dict[str, pgn.Game] = {}

    def specs(self, batch: Size) -> tuple[Composite, Composite]:
        """The specs of what is written, and of what is read."""
        written, read = Composite(shape=batch), Composite(shape=batch)
        for name, example in zip(TEXTS, ("Nc6", "any", _line(pgn.Game())), strict=True):
            if name in self.texts:
                written[name], read[name] = (NonTensor(batch, example_data=example, feature_dims=0) for _ in range(2))
                if self.hashes:
                    written[f"{name}_hash"] = Unbounded((*batch, 32), dtype=torch.uint8)
                if self.inverse:
                    read[f"{name}_hash"] = Unbounded((*batch, 32), dtype=torch.uint8)
        return written, read

    def read(self, tensordict: TensorDictBase, name: str) -> list[str] | None:
        """The texts of an entry, one per row, or those that its hashes stand for; None where there is neither."""
        if name not in self.texts:
            return None
        batch, value = tensordict.batch_size, get(tensordict, name)
        if value is not None:
            return _texts(name, value, batch)
        hashed = get(tensordict, f"{name}_hash") if self.inverse else None
        if hashed is None:
            return None
        if not isinstance(hashed, Tensor) or hashed.dtype != torch.uint8:
            raise DtypeError(f"ChessEnv: {name}_hash must be uint8 {[*batch, 32]}, got {_said(hashed)}")
        if hashed.shape != (*batch, 32):
            raise ShapeError(f"ChessEnv: {name}_hash must be uint8 {[*batch, 32]}, got {_said(hashed)}")
        digests = [bytes(row) for row in hashed.reshape(-1, 32).tolist()]
        if unknown := [d.hex() for d in digests if d not in self._hashed]:
            raise KeyMissing(f"ChessEnv: no text of this env has the {name}_hash {unknown[0]}")
        return [self._hashed[d] for d in digests]

    def entries(self, record: Record) -> dict[str, Any]:
        """The texts of a record, and their hashes, as entries of data."""
        batch, device = record.state.board.shape[:-1], record.state.board.device
        fens = self.rules.fens(record.state) if "fen" in self.texts else []
        listed, data = {"san": record.sans, "fen": fens, "pgn": record.pgns}, {}
        for name in self.texts:
            data[name] = wrapped(listed[name], batch)
            if self.hashes:
                digests = [hashlib.sha256(text.encode()).digest() for text in listed[name]]
                if self.inverse:
                    self._hashed.update(zip(digests, listed[name], strict=True))
                rows = torch.tensor([list(digest) for digest in digests], dtype=torch.uint8, device=device)
                data[f"{name}_hash"] = rows.reshape(*batch, 32)
        return data

    def begin(self, state: State) -> Record:
        """The record of games that begin with ``state``."""
        return Record(state, [BEGINNING] * state.board.shape[:-1].numel(), self.openings(state))

    def openings(self, state: State) -> list[str]:
        """The PGN of games that begin with ``state``."""
        if "pgn" not in self.texts:
            return [""] * state.board.shape[:-1].numel()
        rules = self.rules
        return [_line(pgn.record([], fen=fen, chess960=rules.chess960, result="*")) for fen in rules.fens(state)]

    def moved(self, record: Record, fens: list[str], pgns: list[str] | None) -> Record:
        """A record whose games go on elsewhere in the rows in which a FEN is of another position."""
        state, shown = record.state, self.rules.fens(record.state)
        rows = [row for row, (new, old) in enumerate(zip(fens, shown, strict=True)) if new != old]
        if not rows:
            return record
        batch, device = state.board.shape[:-1], state.board.device
        new = self.begun({row: fens[row] for row in rows}, pgns, Size([len(rows)]), device)
        at, record = torch.tensor(rows, device=device), record.copy()
        pairs = zip(state, new.state, strict=True)
        parts = (old.reshape(-1, old.shape[-1]).index_copy(0, at, part) for old, part in pairs)
        record.state = State(*(part.reshape(*batch, part.shape[-1]) for part in parts))
        for place, row in enumerate(rows):
            record.sans[row], record.pgns[row] = new.sans[place], new.pgns[place]
        return record

    def begun(
        self, fens: Mapping[int, str], pgns: list[str] | None, batch: Size, device: torch.device | None
    ) -> Record:
        """The games that go on where FENs say, with the scores that lead there.

        Args:
            fens: where, by the number of the row.
            pgns: the scores, one per row; where one leads elsewhere, the score begins with the FEN.
            batch: of the games.
            device: where their positions live.
        """
        positions = []
        for row, fen in fens.items():
            try:
                positions.append(read_fen(fen, chess960=self.rules.chess960))
            except BadNotation as error:
                error.add_note(f"in 'fen' of row {row}")
                raise
        placed = self.rules.from_positions(positions, device=device)
        now = self.begin(State(*(part.reshape(*batch, part.shape[-1]) for part in placed)))
        if pgns is not None:
            for place, (row, fen) in enumerate(zip(fens, self.rules.fens(placed), strict=True)):
                game = self._game(pgns[row], row)
                if self._end(game) == fen:
                    now.pgns[place] = pgns[row]
                    now.sans[place] = game.plies[-1].san if game.plies else BEGINNING
        return now

    def _end(self, game: pgn.Game) -> str:
        """The FEN of the last position of a score."""
        chess960, path = self.rules.chess960, self.rules.path
        walker = pgn.Walker.at(read_fen(game.fen, chess960=chess960), chess960, path)
        for action in game.actions:
            walker = walker.play(action)
        return write_fen(walker.position)

    def replay(self, pgns: list[str], batch: Size, device: torch.device | None) -> Record:
        """The games that PGN tells, up to their last positions."""
        states, sans = [], []
        for row, text in enumerate(pgns):
            game = self._game(text, row)
            state = self.rules.from_fens([game.fen], device=device)
            for ply in game.plies:
                if bool(self.rules.over(state)):
                    why = OUTCOMES[int(self.rules.outcome(state))]
                    raise BadNotation(
                        f"ChessEnv: row {row}: the PGN goes on with {ply.san} after the end of the game ({why}) by "
                        f"draws={self.rules.draws!r}; leave out what follows, or take other draws="
                    )
                action = torch.tensor([ply.action], device=state.board.device)
                self.rules.check(state, action)
                state = self.rules.play(state, action)
            states.append(state)
            sans.append(game.plies[-1].san if game.plies else BEGINNING)
        state = State(*(torch.cat(parts).reshape(*batch, parts[0].shape[-1]) for parts in zip(*states, strict=True)))
        return Record(state, sans, pgns)

    def note(self, record: Record, numbers: Tensor, actions: Tensor, turns: Tensor, outcomes: Sequence[str]) -> None:
        """Writes moves down in a record.

        Args:
            record: of the games before them; written to.
            numbers: of the moves in SAN, int64 ``[*B]``; negative where none was played.
            actions: the moves.
            turns: who played, int64 ``[*B]``.
            outcomes: why each game has ended, ``""`` where it goes on.
        """
        written: dict[str, pgn.Game] = {}
        columns = (part.reshape(-1).tolist() for part in (numbers, actions, turns))
        for row, (number, action, turn, why) in enumerate(zip(*columns, outcomes, strict=True)):
            if number < 0:
                continue
            record.sans[row] = san_moves()[number]
            if "pgn" in self.texts:
                game = self._game(record.pgns[row], row)
                plies = [*game.plies, pgn.Ply(action, record.sans[row])]
                after = pgn.Game(game.tags, plies, self._result(why, turn))
                record.pgns[row] = _line(after)
                written[record.pgns[row]] = after
        self._written = written

    def _game(self, text: str, row: int) -> pgn.Game:
        """The game of a text, which may be one that was written last; castling is read by the rules of the env."""
        found = self._written.get(text)
        if found is None:
            chess960 = self.rules.chess960
            try:
                games = pgn.read_pgn(text, variations=False, chess960=chess960)
            except BadNotation as error:
                error.add_note(f"in 'pgn' of row {row} of a ChessEnv with chess960={chess960}")
                raise
            if len(games) != 1:
                raise BadNotation(f"ChessEnv: row {row}: expected the PGN of one game, got {len(games)} games")
            [found] = games
            if chess960 and not found.chess960:
                found.tags["Variant"] = "Chess960"
        return found

    def _result(self, why: str, turn: int) -> str:
        """How a score ends; a draw that TorchRL's games take without a claim is no result there."""
        if why == OUTCOMES[CHECKMATE]:
            return "0-1" if turn else "1-0"
        if not why or why not in OUTCOMES or (why in CLAIMED and self.rules.draws == "torchrl"):
            return "*"
        return "1/2-1/2"


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


def _texts(name: str, value: Any, batch: Size) -> list[str]:
    """The texts of an entry, one per row."""
    listed = value.tolist() if hasattr(value, "tolist") and not isinstance(value, Tensor) else value
    texts = _flat(listed) if isinstance(listed, list) else [listed]
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DtypeError(f"ChessEnv: {name!r} must be a text in every row, got {_said(text)} in row {row}")
    if len(texts) != batch.numel():
        raise ShapeError(f"ChessEnv: {name!r} must be a text for each row of {[*batch]}, got {len(texts)} texts")
    return texts


def _flat(nested: Any) -> list[Any]:
    return [one for part in nested for one in _flat(part)] if isinstance(nested, list) else [nested]


def _said(value: Any) -> str:
    """A value as errors say it."""
    if isinstance(value, Tensor):
        return f"a tensor {value.dtype} {list(value.shape)}"
    return "None" if value is None else f"{type(value).__name__} {value!r}"
