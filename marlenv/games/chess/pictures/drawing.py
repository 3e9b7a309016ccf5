"""A position for people: letters or coloured figures in a terminal, and an SVG picture. Pieces drawn by ourselves."""

from __future__ import annotations

from collections.abc import Iterable

from marlenv.games.chess.text.position import FILES, Position

SQUARE = 100  # units of the picture
MARGIN = 40
LIGHT, DARK, LIGHT_MARKED, DARK_MARKED = "#ead9b9", "#a97f5c", "#dcd06a", "#b5a43a"
FIGURES = {"P": "♟", "N": "♞", "B": "♝", "R": "♜", "Q": "♛", "K": "♚"}

_BASE = '<rect x="27" y="78" width="46" height="9" rx="3"/>'
SHAPES = {  # in a square of 100 units
    "P": '<circle cx="50" cy="36" r="13"/><path d="M36 78L44 47h12L64 78z"/>' + _BASE,
    "N": '<path d="M30 78L35 60 50 47 35 53 26 47 40 29 44 17 51 26 65 33 73 53 70 78z"/>'
    '<circle cx="45" cy="35" r="2"/>' + _BASE,
    "B": '<circle cx="50" cy="16" r="5"/><path d="M50 21C67 35 66 50 58 58L63 78H37L42 58C34 50 33 35 50 21z"/>'
    '<path d="M50 34v14M43 41h14"/>' + _BASE,
    "R": '<path d="M28 24h10v8h7v-8h10v8h7v-8h10v18l-8 5v23l8 8H28l8-8V47l-8-5z"/>' + _BASE,
    "Q": '<path d="M21 32L35 56 36 25 46 54 50 21 54 54 64 25 65 56 79 32 70 69V78H30V69z"/>' + _BASE,
    "K": '<path d="M47 9h6v6h6v6h-6v9h-6v-9h-6v-6h6z"/>'
    '<path d="M50 33C62 22 83 34 71 57L66 78H34L29 57C17 34 38 22 50 33z"/>' + _BASE,
}


def show(position: Position, *, color: bool = False) -> str:
    """The board from White's side, with letters as in a FEN, or with ``color`` as figures on coloured squares.

    >>> from marlenv.games.chess.text.notation import read_fen
    >>> print(show(read_fen("8/8/8/8/8/2k5/1p6/1K6 w - - 0 1")).splitlines()[5])
    3  . . k . . . . .
    """
    lines = []
    for rank in range(7, -1, -1):
        row = position.squares[8 * rank : 8 * rank + 8]
        if color:
            lines.append(
                f"{rank + 1} " + "".join(_colored(piece, rank + file) for file, piece in enumerate(row)) + "\x1b[0m"
            )
        else:
            lines.append(f"{rank + 1}  " + " ".join(row))
    letters = " ".join(FILES)
    return "\n".join([*lines, f"   {letters}", f"{'Black' if position.black else 'White'} to move"])


def _colored(piece: str, parity: int) -> str:
    """One square in the 256 colours of a terminal."""
    ground = 137 if parity % 2 == 0 else 180
    return f"\x1b[48;5;{ground};38;5;{16 if piece.islower() else 231}m{FIGURES.get(piece.upper(), ' ')} "


def svg(position: Position, marked: Iterable[int] = ()) -> str:
    """A picture from White's side; the ``marked`` squares, numbered from a1, stand out.

    >>> from marlenv.games.chess.text.notation import read_fen
    >>> svg(read_fen("8/8/8/8/8/2k5/1p6/1K6 w - - 0 1")).count("<use")
    3
    """
    marked = set(marked)
    side = 8 * SQUARE + 2 * MARGIN
    used = sorted({piece.upper() for piece in position.squares} - {"."})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" width="480" height="480">',
        f'<rect width="{side}" height="{side}" fill="#5b4636"/>',
        "<defs>" + "".join(f'<g id="{piece}">{SHAPES[piece]}</g>' for piece in used) + "</defs>",
    ]
    for square in range(64):
        x, y = _corner(square)
        dark = (square + (square >> 3)) % 2 == 0
        plain, bright = (DARK, DARK_MARKED) if dark else (LIGHT, LIGHT_MARKED)
        fill = bright if square in marked else plain
        parts.append(f'<rect x="{x}" y="{y}" width="{SQUARE}" height="{SQUARE}" fill="{fill}"/>')
    for square, piece in enumerate(position.squares):
        if piece != ".":
            x, y = _corner(square)
            fill, line = ("#fdfbf5", "#222") if piece.isupper() else ("#2b2b2b", "#d8d2c8")
            parts.append(
                f'<use href="#{piece.upper()}" x="{x}" y="{y}" fill="{fill}" stroke="{line}" stroke-width="2.5" '
                'stroke-linejoin="round"/>'
            )
    text = 'font-family="sans-serif" font-size="26" fill="#ead9b9" text-anchor="middle"'
    for i in range(8):
        at = MARGIN + i * SQUARE + SQUARE // 2
        parts.append(f'<text x="{at}" y="{side - 12}" {text}>{FILES[i]}</text>')
        parts.append(f'<text x="{MARGIN // 2}" y="{at + 9}" {text}>{8 - i}</text>')
    return "\n".join([*parts, "</svg>"])


def _corner(square: int) -> tuple[int, int]:
    return MARGIN + SQUARE * (square & 7), MARGIN + SQUARE * (7 - (square >> 3))
