"""The languages of chess, one position at a time: FEN and EPD, UCI moves, SAN moves. Games are read in ``pgn.py``.

Text is read into a :class:`~marlenv.games.chess.text.position.Position` or an action, and written from them. What
cannot be read raises :class:`~marlenv.errors.BadNotation` with line, column, what was expected and what came. Nothing
here knows tensors.

Source: Steven Edwards, "Portable Game Notation Specification and Implementation Guide" (1994), sections 8.2 and 16; for
Chess960 X-FEN (https://en.wikipedia.org/wiki/X-FEN) and Shredder-FEN; moves as in the UCI protocol of 2006.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from marlenv.errors import BadNotation, DtypeError
from marlenv.games.chess.board import ACTIONS, OFFSETS, STEPS, UNDERPROMOTION_PLANE
from marlenv.games.chess.text.position import FILES, LETTERS, Position, name_of

MOST_PLIES = 99_999  # what a clock may say
_PIECES = frozenset(LETTERS + LETTERS.lower())
_WORD = re.compile(r"\S+")
_UCI = re.compile(r"([a-h][1-8])([a-h][1-8])([nbrqNBRQ]?)")
_SAN = re.compile(
    r"(?P<castle>O-O-O|O-O|0-0-0|0-0)|"
    r"(?P<piece>[NBRQK])?(?P<file>[a-h])?(?P<rank>[1-8])?[x:-]?(?P<to>[a-h][1-8])(?:[=/]?\(?(?P<promotion>[NBRQ])\)?)?"
)
_SUFFIX = re.compile(r"[+#!?]*(?:e\.p\.)?[+#!?]*")
_PLAIN = re.compile(r"[A-Za-z0-9+#=\-./:!?]+")
_OPERATION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
_CLOCKS = ("hmvc", "fmvn")  # operations of EPD with one number

Texts = TypeVar("Texts", bound=Iterable[str])
Move = tuple[int, int, str]
"""From, to and the letter of the promotion ("" without one), in absolute squares."""


def fault(kind: str, text: str, at: int, expected: str, got: str | None = None) -> BadNotation:
    """The error for what stands at a place of a text."""
    line_start = text.rfind("\n", 0, at) + 1
    if got is None:
        got = repr(text[at]) if at < len(text) else "the end"
    where = f"line {text.count(chr(10), 0, at) + 1}, column {at - line_start + 1}"
    return BadNotation(f"{kind}: {where}: expected {expected}, got {got}")


def as_text(kind: str, text: str) -> str:
    """The text, where it is one.

    Raises:
        DtypeError: it is something else.
    """
    if not isinstance(text, str):
        raise DtypeError(f"{kind}: expected a str, got {type(text).__name__} {text!r}")
    return text


def as_texts(kind: str, texts: Texts, each: str = "row") -> Texts:
    """The texts of rows (or whatever ``each`` says), where they are not one text, whose letters would be taken for
    them.

    Raises:
        DtypeError: they are one text.
    """
    if isinstance(texts, str):
        raise DtypeError(
            f"{kind}: expected a list with a text for every {each}, got the str {texts!r}: write [{texts!r}]"
        )
    return texts


def read_fen(text: str, *, chess960: bool = False) -> Position:
    """The position that a FEN describes.

    The clocks may be missing and are then 0 and 1. Castling rooks are named ``KQkq``, where Chess960 takes the
    outermost rook of a side, or by their files (Shredder-FEN).

    Raises:
        BadNotation: the text is no FEN, or no such position can be played.

    >>> read_fen("8/8/8/8/8/8/8/K1k5 w - - 0 1").black
    False
    >>> read_fen("8/8/8/9/8/8/8/K1k5 w - - 0 1")
    Traceback (most recent call last):
    marlenv.errors.BadNotation: FEN: line 1, column 7: expected a piece or 1 to 8 empty squares on rank 5, got '9'
    """
    fields = _fields("FEN", text)
    if len(fields) > 6:
        raise fault("FEN", text, fields[6][0], "the end, after two clocks")
    position = _read_board("FEN", text, fields[:4], chess960)
    clocks = [_read_clock("FEN", text, at, word) for at, word in fields[4:]]
    halfmove, fullmove = (*clocks, *(0, 1)[len(clocks) :])
    return _checked("FEN", text, _with_clocks(position, halfmove, max(fullmove, 1)), chess960)


def write_fen(position: Position, *, shredder: bool = False) -> str:
    """The FEN of a position.

    Args:
        position: the position; one that was read from a state has an en-passant square only where a capture is legal.
        shredder: whether castling rooks are named by their files; else ``KQkq`` names the outermost ones (X-FEN).

    >>> write_fen(read_fen("4k2r/8/8/8/8/8/8/4K3 b k - 3 40"), shredder=True)
    '4k2r/8/8/8/8/8/8/4K3 b h - 3 40'
    """
    return f"{_write_board(position, shredder)} {position.halfmove} {position.fullmove}"


def read_epd(text: str, *, chess960: bool = False) -> tuple[Position, dict[str, tuple[str, ...]]]:
    """The position of a line of EPD, and its operations by name.

    The operations ``hmvc`` and ``fmvn`` are the clocks of the position, and are given like the others.

    Raises:
        BadNotation: the text is no EPD, or no such position can be played.

    >>> read_epd('8/8/8/8/8/8/3K4/R6k b - - bm Kg2 Kh2; id "an end";')[1]
    {'bm': ('Kg2', 'Kh2'), 'id': ('an end',)}
    """
    fields = _fields("EPD", text)[:4]
    position = _read_board("EPD", text, fields, chess960)
    at = fields[3][0] + len(fields[3][1])
    operations: dict[str, tuple[str, ...]] = {}
    clocks = dict(zip(_CLOCKS, (0, 1), strict=True))
    while (at := _skip_space(text, at)) < len(text):
        start = at
        word, at = _read_word(text, at)
        if not _OPERATION.fullmatch(word) or word in operations:
            raise fault("EPD", text, start, "the name of an operation, once", repr(word))
        operands: list[str] = []
        while (at := _skip_space(text, at)) < len(text) and text[at] != ";":
            place = at
            operand, at = _read_word(text, at)
            if word in clocks:
                if operands:
                    raise fault("EPD", text, place, f"';' after the number of {word!r}", repr(operand))
                clocks[word] = _read_clock("EPD", text, place, operand)
            operands.append(operand)
        if at >= len(text):
            raise fault("EPD", text, at, f"';' after the operation {word!r}")
        if word in clocks and not operands:
            raise fault("EPD", text, at, f"a number after {word!r}")
        at += 1
        operations[word] = tuple(operands)
    position = _with_clocks(position, clocks["hmvc"], max(clocks["fmvn"], 1))
    return _checked("EPD", text, position, chess960), operations


def write_epd(
    position: Position, operations: Mapping[str, Iterable[str]] | None = None, *, shredder: bool = False
) -> str:
    """A line of EPD. Operands are quoted where they are more than a word.

    Raises:
        BadNotation: an operation has a name that EPD has not, or is a clock without one number.
        DtypeError: the operands of an operation are no list of texts.

    >>> write_epd(read_fen("8/8/8/8/8/8/8/K1k5 w - - 0 1"), {"id": ["an end"], "acd": ["3"]})
    '8/8/8/8/8/8/8/K1k5 w - - id "an end"; acd 3;'
    """
    parts = [_write_board(position, shredder)]
    for name, texts in (operations or {}).items():
        if not _OPERATION.fullmatch(as_text("EPD: the name of an operation", name)):
            raise BadNotation(
                f"EPD: the name of an operation is a letter, then up to 31 letters, digits and _, got {name!r}"
            )
        operands = [as_text(f"EPD: {name!r}", text) for text in as_texts(f"EPD: {name!r}", texts, "operand")]
        if name in _CLOCKS and (len(operands) != 1 or not _is_clock(operands[0])):
            raise BadNotation(f"EPD: {name!r} has one number from 0 to {MOST_PLIES}, got {operands}")
        words = [word if _PLAIN.fullmatch(word) else quoted(word) for word in operands]
        parts.append(" ".join([name, *words]) + ";")
    return " ".join(parts)


def quoted(text: str) -> str:
    r"""A string of EPD or PGN, on one line.

    >>> print(quoted('a "b"'))
    "a \"b\""
    """
    line = re.sub(r"\r\n|\r|\n", " ", text)
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_quoted(kind: str, text: str, at: int) -> tuple[str, int]:
    """The string that begins with the quote at a place, and the place behind it."""
    start, found = at, []
    at += 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in '"\\':
            at += 1
        elif text[at] == "\n":
            break
        found.append(text[at])
        at += 1
    if at >= len(text) or text[at] != '"':
        raise fault(kind, text, at, f"'\"' that closes the string of column {start - text.rfind(chr(10), 0, start)}")
    return "".join(found), at + 1


def move_of(action: int, position: Position) -> Move:
    """From, to and promotion of an action in absolute squares; ``to`` is off the board where the step leaves it."""
    plane, start = divmod(action, 64)
    x, y = STEPS[plane]
    inside = 0 <= (start & 7) + x < 8 and 0 <= (start >> 3) + y < 8
    end = start + OFFSETS[plane] if inside else -1
    turn = 56 if position.black else 0
    promotion = ""
    if plane >= UNDERPROMOTION_PLANE:
        promotion = "nbr"[(plane - UNDERPROMOTION_PLANE) // 3]
    elif end >= 56 and position.squares[start ^ turn] in "Pp":
        promotion = "q"
    return start ^ turn, end ^ turn if inside else -1, promotion


def write_uci(action: int, position: Position) -> str:
    """An action as UCI writes it; Chess960 castles onto the rook.

    >>> write_uci(6 * 64 + 12, read_fen("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR b KQkq - 0 1"))
    'e7e5'
    """
    start, end, promotion = move_of(action, position)
    return name_of(start) + (name_of(end) if end >= 0 else "??") + promotion


def read_uci(text: str, position: Position, actions: Sequence[int]) -> int:
    """The action that a UCI move means among the legal ``actions``.

    Standard castling may also be written as the king's step onto his rook.

    Raises:
        BadNotation: the text is no UCI move, or the move is not legal.

    >>> read_uci("a1b1", read_fen("7k/8/8/8/8/8/8/K7 w - - 0 1"), [0])
    0
    """
    match = _UCI.fullmatch(as_text("UCI", text))
    if match is None:
        raise fault(
            "UCI",
            text,
            _bad_column(r"([a-h](?:[1-8](?:[a-h](?:[1-8][nbrq]?)?)?)?)?", text),
            "a move like e2e4 or e7e8q",
        )
    by_name = {write_uci(action, position): action for action in actions}
    wanted = text.lower()
    if wanted in by_name:
        return by_name[wanted]
    square = FILES.index(wanted[0]) + 8 * (int(wanted[1]) - 1)
    if position.squares[square] in "Kk" and wanted in ("e1h1", "e1a1", "e8h8", "e8a8"):
        short = wanted.replace("h", "g") if wanted[2] == "h" else wanted[:2] + "c" + wanted[3]
        action = by_name.get(short)
        if action is not None and abs(OFFSETS[action >> 6]) == 2:
            return action
    raise fault("UCI", text, 0, f"a legal move{_few(by_name)}", repr(text))


@cache
def ends_of(black: bool) -> list[int]:
    """Where each action leads when it is a side's turn, in absolute squares; below 0 off the board."""
    turn = 56 if black else 0
    ends = []
    for action in range(ACTIONS):
        plane, start = divmod(action, 64)
        x, y = STEPS[plane]
        inside = 0 <= (start & 7) + x < 8 and 0 <= (start >> 3) + y < 8
        ends.append((start + OFFSETS[plane]) ^ turn if inside else -1)
    return ends


def write_san(action: int, position: Position, actions: Sequence[int], suffix: str = "") -> str:
    """An action as scores write it.

    Args:
        action: a legal action.
        position: where it is played.
        actions: all legal actions there, which decide how much must be said.
        suffix: ``"+"`` or ``"#"``, where the move gives check or mate.

    >>> write_san(0, read_fen("7k/8/8/8/8/8/8/K7 w - - 0 1"), [0])
    'Kb1'
    """
    start, end, promotion = move_of(action, position)
    piece = position.squares[start].upper()
    if castles(start, end, position):
        return ("O-O" if end > start else "O-O-O") + suffix
    takes = "x" if position.squares[end] != "." else ""
    if piece == "P":
        if start & 7 != end & 7:  # en passant finds an empty square
            return f"{FILES[start & 7]}x{name_of(end)}{'=' + promotion.upper() if promotion else ''}{suffix}"
        return f"{name_of(end)}{'=' + promotion.upper() if promotion else ''}{suffix}"
    ends, turn = ends_of(position.black), 56 if position.black else 0
    squares = [other & 63 ^ turn for other in actions if ends[other] == end]
    rivals = [square for square in squares if square != start and position.squares[square].upper() == piece]
    said = ""
    if rivals:
        if all(square & 7 != start & 7 for square in rivals):
            said = FILES[start & 7]
        elif all(square >> 3 != start >> 3 for square in rivals):
            said = str((start >> 3) + 1)
        else:
            said = name_of(start)
    return f"{piece}{said}{takes}{name_of(end)}{suffix}"


def castles(start: int, end: int, position: Position) -> bool:
    """Whether a step is castling: two squares by the king, or onto a piece of his own."""
    king = position.squares[start]
    if king not in "Kk" or end < 0:
        return False
    met = position.squares[end]
    return abs(start - end) == 2 or (met != "." and met.islower() is king.islower())


def read_san(
    text: str, position: Position, actions: Sequence[int], *, kind: str = "SAN", source: str | None = None, at: int = 0
) -> int:
    """The action that a SAN move means among the legal ``actions``.

    Check marks, ``!``, ``?``, ``e.p.`` and a missing ``x`` or ``=`` are of no account; zeros castle like letters.

    Args:
        text: the move.
        position: where it is played.
        actions: all legal actions there.
        kind: what is being read, for errors.
        source: the text that the move stands in, for errors; left out, the move alone.
        at: where it stands there.

    Raises:
        BadNotation: the text is no SAN move, or no legal move answers to it, or several do.

    >>> read_san("Kb1", read_fen("7k/8/8/8/8/8/8/K7 w - - 0 1"), [0])
    0
    """
    whole = text if source is None else source
    match = _SAN.match(as_text(kind, text))
    rest = _SUFFIX.match(text, match.end()) if match else None
    if match is None or rest is None or rest.end() != len(text):
        bad = rest.end() if rest else _bad_column(r"[NBRQK]?[a-h]?[1-8]?[x:-]?[a-h]?", text)
        expected = "the end of the move" if rest else "a move like e4, Nbxd7, e8=Q or O-O"
        raise fault(kind, whole, at + bad, expected, None if bad < len(text) else f"the end of {text!r}")
    found, near = [], actions
    if not match["castle"]:
        ends, to = ends_of(position.black), match["to"]
        goal = FILES.index(to[0]) + 8 * (int(to[1]) - 1)
        near = [action for action in actions if ends[action] == goal]
    for action in near:
        start, end, promotion = move_of(action, position)
        if castles(start, end, position):
            if match["castle"] and (end > start) is (len(match["castle"]) == 3):
                found.append(action)
            continue
        if match["castle"] or (
            position.squares[start].upper() != (match["piece"] or "P")
            or promotion != (match["promotion"] or "").lower()
        ):
            continue
        if match["file"] in (None, FILES[start & 7]) and match["rank"] in (None, str((start >> 3) + 1)):
            found.append(action)
    if len(found) == 1:
        return found[0]
    if found:
        choices = [write_san(action, position, actions) for action in found]
        raise fault(kind, whole, at, f"one move, not any of {choices}", repr(text))
    choices = [write_san(action, position, actions) for action in actions]
    raise fault(kind, whole, at, f"a legal move{_few(choices)}", repr(text))


def describe(action: int, position: Position) -> str:
    """An action in an error message, legal or not."""
    return write_uci(action, position) if 0 <= action < ACTIONS else f"no action at all (there are {ACTIONS})"


def _few(names: Iterable[str]) -> str:
    names = sorted(names)
    if not names:
        return ", but there is none"
    shown = " ".join(names[:8])
    return f" ({shown}{f' and {len(names) - 8} more' if len(names) > 8 else ''})"


def _bad_column(pattern: str, text: str) -> int:
    match = re.match(pattern, text)
    return match.end() if match else 0


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _read_word(text: str, at: int) -> tuple[str, int]:
    """A string in quotes, or everything up to a space or semicolon."""
    if text[at] == '"':
        return read_quoted("EPD", text, at)
    end = at
    while end < len(text) and not text[end].isspace() and text[end] != ";":
        end += 1
    return text[at:end], end


def _is_clock(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= len(str(MOST_PLIES))


def _read_clock(kind: str, text: str, at: int, word: str) -> int:
    if not _is_clock(word):
        raise fault(kind, text, at, f"a number from 0 to {MOST_PLIES}", repr(word))
    return int(word)


def _with_clocks(position: Position, halfmove: int, fullmove: int) -> Position:
    return Position(position.squares, position.black, position.castling, position.passant, halfmove, fullmove)


def _checked(kind: str, text: str, position: Position, chess960: bool) -> Position:
    if broken := position.broken_rule(chess960):
        raise BadNotation(f"{kind}: impossible position: {broken}; got {text.strip()!r}")
    return position


def _fields(kind: str, text: str) -> list[tuple[int, str]]:
    """The words of a text and where they stand; at least the four that FEN and EPD share."""
    fields = [(match.start(), match.group()) for match in _WORD.finditer(as_text(kind, text))]
    missing = ("pieces", "the side to move, w or b", "castling rooks from KQkq, or -", "an en-passant square, or -")
    if len(fields) < len(missing):
        if fields:
            _read_squares(kind, text, *fields[0])  # what is wrong further left is said first
        raise fault(kind, text, len(text), ", then ".join(missing[len(fields) :]))
    return fields


def _read_board(kind: str, text: str, fields: Sequence[tuple[int, str]], chess960: bool) -> Position:
    """The four fields that FEN and EPD share."""
    squares = _read_squares(kind, text, *fields[0])
    at, side = fields[1]
    if side not in ("w", "b"):
        raise fault(kind, text, at, "the side to move, w or b", repr(side))
    castling = _read_castling(kind, text, *fields[2], squares, chess960)
    at, square = fields[3]
    passant = None
    if square != "-":
        if not re.fullmatch("[a-h][36]", square):
            raise fault(kind, text, at, "an en-passant square like e3, or -", repr(square))
        passant = FILES.index(square[0]) + 8 * (int(square[1]) - 1)
    return Position(squares, side == "b", castling, passant, 0, 1)


def _read_squares(kind: str, text: str, at: int, word: str) -> str:
    ranks: list[str] = [""]
    for i, letter in enumerate(word):
        room = 8 - len(ranks[-1])
        counted = i > 0 and word[i - 1].isdigit()  # empty squares in a row are one number
        if letter == "/" and room == 0 and len(ranks) < 8:
            ranks.append("")
        elif letter in _PIECES and room:
            ranks[-1] += letter
        elif letter in "12345678" and int(letter) <= room and not counted:
            ranks[-1] += "." * int(letter)
        else:
            raise fault(kind, text, at + i, _next_on_board(ranks, counted))
    if len(ranks) < 8 or len(ranks[-1]) < 8:
        raise fault(kind, text, at + len(word), _next_on_board(ranks, word[-1].isdigit()))
    return "".join(reversed(ranks))


def _next_on_board(ranks: Sequence[str], counted: bool) -> str:
    """What may follow the ranks that were read, the last of them perhaps in part."""
    room, rank = 8 - len(ranks[-1]), 9 - len(ranks)
    if room == 0:
        return f"'/' and rank {rank - 1}" if rank > 1 else "the end of the board"
    if counted:
        left = "1 square is" if room == 1 else f"{room} squares are"
        return f"a piece on rank {rank}, where {left} left (empty squares in a row are one number)"
    return f"a piece or {'1 empty square' if room == 1 else f'1 to {room} empty squares'} on rank {rank}"


def _read_castling(kind: str, text: str, at: int, word: str, squares: str, chess960: bool) -> frozenset[int]:
    if word == "-":
        return frozenset()
    found: set[int] = set()
    for i, letter in enumerate(word):
        black = letter.islower()
        home, rook, king = (56, "r", "k") if black else (0, "R", "K")
        if letter.upper() in "ABCDEFGH":
            square = home + FILES.index(letter.lower())
        elif letter.upper() in "KQ" and not chess960:
            square = home + (7 if letter.upper() == "K" else 0)
        elif letter.upper() in "KQ":
            rank = squares[home : home + 8]
            place = rank.find(king)
            file = rank.rfind(rook, place) if letter.upper() == "K" else rank[: max(place, 0)].find(rook)
            if place < 0 or file < 0:
                side = "right" if letter.upper() == "K" else "left"
                raise fault(
                    kind,
                    text,
                    at + i,
                    f"a rook on the {side} of {'Black' if black else 'White'}'s king on his first rank",
                )
            square = home + file
        else:
            raise fault(kind, text, at + i, "castling rooks from KQkq, or their files, or -")
        if square in found:
            raise fault(kind, text, at + i, "each castling rook once")
        found.add(square)
    return frozenset(found)


def _write_board(position: Position, shredder: bool) -> str:
    ranks = [position.squares[i : i + 8] for i in range(56, -1, -8)]
    placed = re.sub(r"\.+", lambda gap: str(len(gap.group())), "/".join(ranks))
    castling = ""
    for black in (False, True):
        for square, right in position.castling_sides(black) if position.castling else ():
            name = FILES[square & 7]
            rest = position.squares[square + 1 : (square | 7) + 1] if right else position.squares[square & 56 : square]
            if not shredder and ("r" if black else "R") not in rest:
                name = "k" if right else "q"
            castling += name if black else name.upper()
    passant = "-" if position.passant is None else name_of(position.passant)
    return f"{placed} {'b' if position.black else 'w'} {castling or '-'} {passant}"
