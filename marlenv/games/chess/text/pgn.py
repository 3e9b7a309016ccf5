"""Games as text: reading and writing PGN, with comments, annotations and variations.

A game is a list of plies from a first position; a ply may carry variations, which are lists of plies played instead
of it. Reading plays every move, so that an illegal one is found where it stands. Draws by repetition or want of
progress do not stop a game here: people play on.

Source: Steven Edwards, "Portable Game Notation Specification and Implementation Guide" (1994).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from marlenv.errors import BadNotation, DtypeError, IllegalAction, UnknownName, nearest
from marlenv.games.chess.board import WORDS
from marlenv.games.chess.fast import paths
from marlenv.games.chess.text.notation import (
    as_text,
    describe,
    fault,
    quoted,
    read_fen,
    read_quoted,
    read_san,
    write_fen,
    write_san,
)
from marlenv.games.chess.text.position import Position

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
ROSTER = {"Event": "?", "Site": "?", "Date": "????.??.??", "Round": "?", "White": "?", "Black": "?", "Result": "*"}
"""The seven tags that every game has, with what is written when nothing is known."""

RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
GLYPHS = {"!": 1, "?": 2, "!!": 3, "??": 4, "!?": 5, "?!": 6}
STANDARD = ("", "standard", "chess", "normal", "from position")  # what the Variant tag may say
CHESS960 = ("chess960", "chess 960", "fischerandom", "fischerrandom", "fischer random", "freestyle")
DEEPEST = 50  # variations within variations
WIDTH = 79  # columns of movetext

_NAME = re.compile(r"[A-Za-z0-9_]+")
_TOKEN = re.compile(r"[0-9]+\.*(?![^\s.(){};$!?*])|\.+|[!?]{1,2}|\*|[A-Za-z0-9+#=:\-/][A-Za-z0-9+#=:\-/.]*")
_TAG = re.compile(r"^[ \t]*\[[ \t]*[A-Za-z0-9_]+[ \t]*\"", re.M)
_NAG = re.compile(r"\$([0-9]{1,3})(?![0-9])")


@dataclass(frozen=True)
class Walker:
    """A position on the host from which legal moves can be played, whatever draws the rules would see."""

    board: list[int]  # the words
    actions: list[int]  # the legal ones
    check: bool
    chess960: bool
    path: paths.Path

    @classmethod
    def at(cls, position: Position, chess960: bool = False, path: paths.Path = "auto") -> Walker:
        """A walker in a possible position."""
        words = position.words()
        return cls._after([*words, *[0] * (WORDS - len(words))], -1, chess960, path)

    @classmethod
    def _after(cls, board: list[int], action: int, chess960: bool, path: paths.Path) -> Walker:
        board, moves, check = paths.follow(board, action, chess960, path)
        planes = moves.nonzero()[0]  # a few of 73
        bits = np.unpackbits(moves[planes].astype("<i8").view(np.uint8), bitorder="little").nonzero()[0]  # 64 a plane
        return cls(board, (planes[bits >> 6] << 6 | bits & 63).tolist(), check, chess960, path)

    @cached_property
    def position(self) -> Position:
        """Where the walker stands."""
        return Position.from_words(self.board)

    def play(self, action: int) -> Walker:
        """The walker after a legal action.

        Raises:
            IllegalAction: the action is not legal.
        """
        if action not in self.actions:
            raise IllegalAction(
                f"chess: {describe(action, self.position)} (action {action}) is not legal in {write_fen(self.position)}"
            )
        return self._after(self.board, action, self.chess960, self.path)

    def san(self, action: int, then: Walker) -> str:
        """A legal action in SAN; ``then`` is where it leads."""
        suffix = ("+" if then.actions else "#") if then.check else ""
        return write_san(action, self.position, self.actions, suffix)


@dataclass
class Ply:
    """One move of a score."""

    action: int
    san: str
    nags: list[int] = field(default_factory=list)
    before: str = ""  # a comment in front of the move, where a line begins with one
    after: str = ""  # a comment behind the move
    variations: list[list[Ply]] = field(default_factory=list)  # what could have been played instead


@dataclass
class Game:
    """A game with what PGN says about it."""

    tags: dict[str, str] = field(default_factory=dict)
    plies: list[Ply] = field(default_factory=list)
    result: str = "*"
    comment: str = ""  # of a game without moves; else it belongs to a ply
    error: BadNotation | None = None  # why it ends here, where reading went on with the next game

    @property
    def chess960(self) -> bool:
        """Whether the tags say that this is Chess960."""
        return self.tags.get("Variant", "").lower() in CHESS960

    @property
    def fen(self) -> str:
        """The first position."""
        return self.tags.get("FEN", START)

    @property
    def actions(self) -> list[int]:
        """The moves that were played."""
        return [ply.action for ply in self.plies]

    def __str__(self) -> str:
        """The game in PGN."""
        return write_pgn([self])


def record(
    actions: Iterable[int],
    *,
    fen: str = START,
    chess960: bool = False,
    tags: Mapping[str, str] | None = None,
    result: str | None = None,
) -> Game:
    """The game that these actions make.

    Args:
        actions: legal ones, from the first position on.
        fen: the first position.
        chess960: whether it is Chess960.
        tags: what else is known.
        result: one of ``1-0 0-1 1/2-1/2 *``; left out, what the ``Result`` tag says, or the last position: mate,
            stalemate or ``*``.

    Raises:
        IllegalAction: an action is not legal.
        BadNotation: a tag says another position, variant or no result.
        DtypeError: an action is no whole number, or a tag no text.

    >>> print(record([6 * 64 + 12, 6 * 64 + 12]).plies[1].san)
    e5
    """
    game = Game(dict(tags or {}))
    _check_tags(game.tags)
    _check_start(game, fen, chess960)
    if chess960:
        game.tags["Variant"] = "Chess960"
    walker = Walker.at(read_fen(fen, chess960=chess960), chess960)
    if fen != START:
        game.tags.update(SetUp="1", FEN=fen)
    for one in actions:
        try:
            action = operator.index(one)  # the elements of a tensor are tensors
        except TypeError:
            raise DtypeError(f"record: an action is a whole number, got {type(one).__name__} {one!r}") from None
        then = walker.play(action)
        game.plies.append(Ply(action, walker.san(action, then)))
        walker = then
    if result is None and game.tags.get("Result", "*") != "*":
        result = game.tags["Result"]
    if result is not None:
        _check_result(result)
    if result is None:
        loses = "0-1" if not walker.position.black else "1-0"
        result = "*" if walker.actions else loses if walker.check else "1/2-1/2"
    game.result = result
    return game


def _check_result(result: str) -> None:
    if result not in RESULTS:
        raise BadNotation(f"PGN: a result is one of {' '.join(RESULTS)}, got {result!r}")


def _check_tags(tags: Mapping[str, str]) -> None:
    """Raises for tags that nobody could read."""
    for name, text in tags.items():
        if not _NAME.fullmatch(as_text("PGN: the name of a tag", name)):
            raise BadNotation(f"PGN: the name of a tag is letters, digits and _, got {name!r}")
        as_text(f"PGN: the tag {name!r}", text)
    variant = tags.get("Variant", "")
    if variant.lower() not in (*STANDARD, *CHESS960):
        raise BadNotation(f"PGN: the tag 'Variant' is Standard or Chess960, got {variant!r}")


def _check_start(game: Game, fen: str, chess960: bool) -> None:
    """Raises where the tags of a game say another beginning."""
    variant, tagged = game.tags.get("Variant"), game.tags.get("FEN")
    if variant is not None and game.chess960 is not chess960:
        raise BadNotation(f"record: the tag 'Variant' is {variant!r}, but chess960={chess960}; leave the tag out")
    if tagged is not None and read_fen(tagged, chess960=chess960) != read_fen(fen, chess960=chess960):
        raise BadNotation(f"record: the tag 'FEN' is {tagged!r}, but fen={fen!r}; leave the tag out, fen= writes it")


Errors = Literal["raise", "keep"]


def read_pgn(
    text: str, *, variations: bool = True, errors: Errors = "raise", chess960: bool | None = None
) -> list[Game]:
    """The games of a text.

    Args:
        text: any number of games in PGN.
        variations: whether variations are kept; skipped ones are not read closely.
        errors: what a game that cannot be read does: ``"raise"``, or ``"keep"`` for its moves up to there with the
            reason as its ``error``; reading then goes on with the next game that begins with a tag.
        chess960: whether castling is that of Chess960, whatever the tags say; left out, what they say.

    Raises:
        BadNotation: something cannot be read, or a move is not legal; names line and column.

    >>> game, = read_pgn('[White "me"] 1. e4 e5 2. Nf3 {natural} Nc6 (2... d6!?) 1/2-1/2')
    >>> [ply.san for ply in game.plies], game.plies[2].after, game.plies[3].variations[0][0].nags
    (['e4', 'e5', 'Nf3', 'Nc6'], 'natural', [5])
    """
    if errors not in get_args(Errors):
        raise UnknownName(f"read_pgn: errors={errors!r}; {nearest(errors, get_args(Errors))}")
    reader = _Reader(as_text("PGN", text), variations, chess960)
    games = []
    while not reader.ended():
        game = Game()
        games.append(game)
        try:
            reader.game(game)
        except BadNotation as error:
            if errors == "raise":
                error.add_note("read_pgn(text, errors='keep') reads the other games")
                raise
            game.error = error
            reader.next_game(game)
    return games


class _Reader:
    """Goes through a text once. ``at`` is the place of the next character."""

    def __init__(self, text: str, variations: bool, chess960: bool | None) -> None:
        self.text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
        self.variations, self.chess960 = variations, chess960
        self.at = 1 if text.startswith("\ufeff") else 0
        self.at_result = self.fen_at = 0

    def fault(self, expected: str, at: int | None = None, got: str | None = None) -> BadNotation:
        return fault("PGN", self.text, self.at if at is None else at, expected, got)

    def ended(self) -> bool:
        """Skips space and lines that begin with ``%``; whether nothing follows."""
        text = self.text
        while self.at < len(text):
            if text[self.at] == "%" and (self.at == 0 or text[self.at - 1] == "\n"):
                self.at = self.line_end()
            elif text[self.at].isspace():
                self.at += 1
            else:
                return False
        return True

    def line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def game(self, game: Game) -> None:
        """Reads the next game into one that is empty; what cannot be read leaves there what came before it."""
        self.tags(game.tags)
        chess960 = game.chess960 if self.chess960 is None else self.chess960
        try:
            position = read_fen(game.fen, chess960=chess960)
        except BadNotation as error:
            error.add_note(f"in the FEN tag of line {self.text.count(chr(10), 0, self.fen_at) + 1}")
            raise
        line = _Line(Walker.at(position, chess960))
        game.plies = line.plies
        tagged = game.tags.get("Result", "*")
        game.result = tagged if tagged in RESULTS else "*"
        game.result = self.moves(line) or game.result
        game.comment = line.waiting

    def next_game(self, game: Game) -> None:
        """To the first tag behind the moves of a game that could not be read."""
        if not game.plies:
            while not self.ended() and self.text[self.at] == "[":  # its other tags
                self.at = self.line_end()
        found = _TAG.search(self.text, min(self.at + 1, len(self.text)))
        self.at = found.start() if found else len(self.text)

    def tags(self, tags: dict[str, str]) -> None:
        while not self.ended() and self.text[self.at] == "[":
            self.at += 1
            self.ended()
            match = _NAME.match(self.text, self.at)
            if match is None or match.group() in tags:
                raise self.fault("the name of a tag, each once")
            self.at = match.end()
            if self.ended() or self.text[self.at] != '"':
                raise self.fault("'\"' before the value of the tag")
            name, start = match.group(), self.at
            tags[name], self.at = read_quoted("PGN", self.text, start)
            if name == "Variant" and tags[name].lower() not in (*STANDARD, *CHESS960):
                raise self.fault("Standard or Chess960 as the variant", start, repr(tags[name]))
            if name == "FEN":
                self.fen_at = start
            if self.ended() or self.text[self.at] != "]":
                raise self.fault("']' after the value of the tag")
            self.at += 1

    def moves(self, main: _Line) -> str | None:
        """Reads the main line with all that hangs on it; the result if there is one."""
        lines = [main]  # and the variations that are open, innermost last
        while not self.ended() and not (self.text[self.at] == "[" and len(lines) == 1):
            letter, line = self.text[self.at], lines[-1]
            if letter in "{;":
                line.comment(self.comment())
            elif letter == "$":
                line.annotate(self, self.nag())
            elif letter == "(":
                if not line.plies:
                    raise self.fault("a move before its variation")
                if not self.variations:
                    self.skip_variation()
                    continue
                if len(lines) > DEEPEST:
                    raise self.fault(f"at most {DEEPEST} variations within each other")
                self.at += 1
                lines.append(_Line(line.last))
            elif letter == ")":
                if len(lines) == 1 or not line.plies:
                    raise self.fault("a move" if len(lines) > 1 else "a move or the result")
                self.at += 1
                lines.pop()
                lines[-1].plies[-1].variations.append(line.plies)
            elif self.symbol(line, main=len(lines) == 1):
                return self.text[self.at_result : self.at]
        if len(lines) > 1:
            raise self.fault(f"')' that closes {len(lines) - 1} open variations")
        return None

    def symbol(self, line: _Line, main: bool) -> bool:
        """A move, a move number, a glyph or the result; True for the result of the game."""
        start = self.at
        match = _TOKEN.match(self.text, start)
        if match is None:
            raise self.fault("a move, a comment, a variation or the result")
        word = match.group()
        self.at = match.end()
        if word in RESULTS:
            self.at_result = start
            if not main:
                raise self.fault("')' before the result", start, repr(word))
            return True
        if word in GLYPHS:
            line.annotate(self, GLYPHS[word], start)
        elif not (word.rstrip(".").isdigit() or not word.strip(".") or word == "e.p."):
            line.play(self, word, start)
        return False

    def comment(self) -> str:
        start = self.at
        if self.text[start] == ";":
            self.at = self.line_end()
            return self.text[start + 1 : self.at].strip()
        end = self.text.find("}", start)
        if end < 0:
            raise self.fault("'}' that closes the comment", len(self.text))
        self.at = end + 1
        return " ".join(self.text[start + 1 : end].split())

    def nag(self) -> int:
        match = _NAG.match(self.text, self.at)
        if match is None or int(match[1]) > 255:
            raise self.fault("an annotation from $0 to $255")
        self.at = match.end()
        return int(match[1])

    def skip_variation(self) -> None:
        """To behind the parenthesis that closes the one here."""
        start, depth = self.at, 0
        while not self.ended():
            letter = self.text[self.at]
            if letter in "{;":
                self.comment()
                continue
            depth += (letter == "(") - (letter == ")")
            self.at += 1
            if depth == 0:
                return
        raise self.fault(f"')' that closes the variation of line {self.text.count(chr(10), 0, start) + 1}")


class _Line:
    """A line of play while it is being read."""

    def __init__(self, first: Walker) -> None:
        self.last = first  # the position before the last move
        self.walker = first
        self.plies: list[Ply] = []
        self.waiting = ""  # a comment before the first move

    def play(self, reader: _Reader, word: str, at: int) -> None:
        action = read_san(word, self.walker.position, self.walker.actions, kind="PGN", source=reader.text, at=at)
        then = self.walker.play(action)
        self.plies.append(Ply(action, self.walker.san(action, then), before=self.waiting))
        self.last, self.walker, self.waiting = self.walker, then, ""

    def comment(self, text: str) -> None:
        if self.plies:
            self.plies[-1].after = f"{self.plies[-1].after} {text}".strip()
        else:
            self.waiting = f"{self.waiting} {text}".strip()

    def annotate(self, reader: _Reader, nag: int, at: int | None = None) -> None:
        if not self.plies:
            raise reader.fault("a move before its annotation", at)
        self.plies[-1].nags.append(nag)


def write_pgn(games: Iterable[Game], width: int | None = WIDTH) -> str:
    """Games in PGN, each as tags, an empty line, movetext and an empty line.

    Args:
        games: what to write.
        width: the columns of movetext; None for one line.

    Raises:
        BadNotation: a result, a variant or the name of a tag is none.
        DtypeError: a tag is no text, or the games are one game.

    >>> print(write_pgn([record([6 * 64 + 12])]).splitlines()[-1])
    1. e4 *
    """
    if isinstance(games, Game):
        raise DtypeError("write_pgn: expected a list of games, got one Game: write [game], or str(game)")
    return "\n".join(_written(game, width) for game in games)


def _written(game: Game, width: int | None) -> str:
    _check_result(game.result)
    _check_tags(game.tags)
    tags = {**ROSTER, **game.tags, "Result": game.result}
    names = [*ROSTER, *sorted(set(tags) - set(ROSTER))]
    head = "".join(f"[{name} {quoted(tags[name])}]\n" for name in names)
    fields = game.fen.split()
    first = 2 * (int(fields[5]) if len(fields) > 5 else 1) - 2 + (fields[1:2] == ["b"])
    comment = _braced(game.comment) if game.comment and not game.plies else ()
    return f"{head}\n{_wrapped([*comment, *_words(game.plies, first), game.result], width)}\n"


def _words(plies: Sequence[Ply], number: int) -> Iterator[str]:
    """The words of a line that begins at a ply, counted from White's first move."""
    numbered = True
    for index, ply in enumerate(plies, number):
        if ply.before:
            yield from _braced(ply.before)
        if index % 2 == 0 or numbered or ply.before:
            yield f"{index // 2 + 1}{'.' if index % 2 == 0 else '...'}"
        yield ply.san
        yield from (f"${nag}" for nag in ply.nags)
        if ply.after:
            yield from _braced(ply.after)
        for variation in ply.variations:
            inside = [*_words(variation, index)]
            yield from ("(" + inside[0], *inside[1:-1], inside[-1] + ")") if len(inside) > 1 else ()
        numbered = bool(ply.after or ply.variations)


def _braced(comment: str) -> list[str]:
    """The words of a comment; one that holds a brace runs to the end of its line."""
    words = comment.split() or [""]
    if "}" in comment:
        return [f";{' '.join(words)}\n"]
    words[0] = "{" + words[0]
    words[-1] += "}"
    return words


def _wrapped(words: Iterable[str], width: int | None) -> str:
    """Words in lines; none but the first word of a text begins a line with ``%``, which would hide the line."""
    lines = [""]
    for word in words:
        long = width is not None and len(lines[-1]) + 1 + len(word) > width and not word.startswith("%")
        if lines[-1].endswith("\n"):
            lines[-1] = lines[-1].rstrip("\n")
            lines.append(word)
        elif lines[-1] and long:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return "\n".join(lines)
