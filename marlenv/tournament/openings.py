"""How games begin: suites of openings, as moves or positions, read from what people keep them in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Size

from marlenv.errors import BadNotation, SpecError
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG

FEN = "fen "  # what a position of an opening begins with, as in UCI


class Opening(NamedTuple):
    """How a game begins: some moves, from the beginning of the game or from another position."""

    moves: tuple[int, ...] = ()
    """The actions."""
    start: Any = None
    """The position, ``[1, ...]`` in each of its tensors; None for the beginning."""

    @classmethod
    def of(cls, given: Opening | Sequence[int]) -> Opening:
        """An opening, where only moves are given too."""
        return given if isinstance(given, Opening) else cls(tuple(given))


def read_opening(rules: Rules[Any], words: Sequence[str]) -> Opening:
    """An opening as people of the game write it: moves, before them a position if the first word begins with ``fen``.

    Raises:
        BadNotation: a move is none, or illegal.
        SpecError: a position of a game that has no way to write them.

    >>> from marlenv.games import TicTacToe
    >>> read_opening(TicTacToe(), ["5"]).moves
    (5,)
    """
    left, start = list(words), None
    if left and left[0].startswith(FEN):
        read = getattr(rules, "from_fens", None)
        if read is None:
            raise SpecError(f"openings: positions of {type(rules).__name__} cannot be read; give moves")
        start = read([left.pop(0)[len(FEN) :]])
    state = rules.start(Size([]), rng=RowRNG(0, [])) if start is None else type(start)(*(leaf[0] for leaf in start))
    actions = []
    for word in left:
        if bool(rules.over(state)):
            raise BadNotation(f"openings: the game is over before {word!r} in {' '.join(words)!r}")
        actions.append(rules.read_action(state, word))
        state = rules.play(state, torch.tensor(actions[-1]))
    if bool(rules.over(state)):
        raise BadNotation(f"openings: nothing is left to play after {' '.join(words)!r}")
    return Opening(tuple(actions), start)


def read_suite(path: Path, plies: int | None = None) -> list[tuple[str, ...]]:
    """The openings of a file, as :func:`read_opening` takes them.

    Args:
        path: ``.epd``, a position of chess or Chess960 in each line; ``.pgn``, games of chess, in UTF-8 or Latin-1;
            else text, the moves of an opening in each line, of any game, and ``#`` before comments. In a line with
            commas these stand between moves, whose names may then have spaces (``8/5 6/5, 24/20``); a comma at the end
            of a line with one move says so too.
        plies: how many moves of a game of PGN are taken; all if left out.

    Raises:
        SpecError: there is no such file, or nothing in it, or it is no text in UTF-8.
    """
    if not path.is_file():
        raise SpecError(f"openings: there is no file {path}")
    kinds = {".epd": _epd, ".pgn": _pgn}
    try:
        found = kinds.get(path.suffix.lower(), _lines)(_text(path), plies)
    except BadNotation as error:
        error.add_note(f"in {path}")
        raise
    if not found:
        raise SpecError(f"openings: {path} has none")
    return found


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if path.suffix.lower() == ".pgn":  # whose standard says so, in section 4.1
            return data.decode("latin-1")
        raise SpecError(f"openings: {path} is no text in UTF-8: {error}; save it as UTF-8") from None


def _lines(text: str, plies: int | None) -> list[tuple[str, ...]]:
    lines = (_words(line.partition("#")[0]) for line in text.splitlines())
    return [words[:plies] for words in lines if words]


def _words(line: str) -> tuple[str, ...]:
    """The moves in a line."""
    words = [" ".join(word.split()) for word in line.split(",")] if "," in line else line.split()
    return tuple(word for word in words if word)


def _epd(text: str, _: int | None) -> list[tuple[str, ...]]:
    from marlenv.games.chess import Position, read_epd, write_fen

    def position(line: str) -> Position:
        try:
            return read_epd(line)[0]
        except BadNotation:  # what both can read is one position in both
            return read_epd(line, chess960=True)[0]

    return [(FEN + write_fen(position(line)),) for line in text.splitlines() if line.strip()]


def _pgn(text: str, plies: int | None) -> list[tuple[str, ...]]:
    from marlenv.games.chess import read_pgn

    games = read_pgn(text, variations=False)
    starts = [[FEN + game.fen] if "FEN" in game.tags else [] for game in games]
    return [(*first, *(p.san for p in game.plies[:plies])) for first, game in zip(starts, games, strict=True)]
