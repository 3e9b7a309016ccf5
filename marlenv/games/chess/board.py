r"""How a chess position lies in tensors: sixteen words, a row of hashes, and the legal moves as 73 words of 64 bits.

Every board is seen by the player to move, who plays up the board: White's view when White is to move, and for Black the
board with its ranks turned over (``square ^ 56``; files keep their side). One rule book therefore serves both colours.
Moves are made in ``moves.py``, games end in ``ending.py``, text is read in ``notation.py``; here are numbers and
places.

The squares, each the number of its bit in a word:

    8 | 56 57 58 59 60 61 62 63
    7 | 48 49 50 51 52 53 54 55
    6 | 40 41 42 43 44 45 46 47
    5 | 32 33 34 35 36 37 38 39       up: where the player to move is heading
    4 | 24 25 26 27 28 29 30 31
    3 | 16 17 18 19 20 21 22 23
    2 |  8  9 10 11 12 13 14 15
    1 |  0  1  2  3  4  5  6  7
         a  b  c  d  e  f  g  h

An action is ``plane * 64 + from``: the plane says how the piece goes, the bit says where it starts. The planes are
the 73 of AlphaZero (Silver et al. 2018, https://doi.org/10.1126/science.aar6404), in an order of our own:

     1  2  3           .  58   .  59   .       64  65  66   promotion to a knight: straight, to the left, to the right
      \ | /           56   .   .   .  57       67  68  69   to a bishop
    28- o -0           .   .   o   .   .       70  71  72   to a rook
      / | \           61   .   .   .  60
    31 30 29           .  63   .  62   .

The star is drawn for a step of one square; a step of ``n`` squares adds ``4 (n - 1)``, so 0..27 go up or right and
28..55 down or left. A pawn that reaches the last rank on planes 1, 2 or 3 becomes a queen. Castling is the king's
step of two squares (planes 4 and 32); under Chess960 it is the king's step onto its own rook, however far that is.
"""

from __future__ import annotations

from functools import cache
from numbers import Integral
from typing import NamedTuple

from torch import Tensor

from marlenv.errors import BadNotation, DtypeError

# The words of a board. The first nine are sets of squares.
(OWN, OPPONENT, PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS) = range(8)
CASTLING = 8  # the rooks that may still castle, of both sides
PASSANT = 9  # the square that a pawn may capture en passant on, set only where such a capture is legal
TURN = 10  # 0 White, 1 Black
HALFMOVE = 11  # plies since the last capture or pawn move
FULLMOVE = 12  # the number that the move would have in a score, from 1
HASH = 13  # stands for everything that must agree when a position is repeated
REPEATS = 14  # how often the position has stood on the board, this time included
OUTCOME = 15  # index into OUTCOMES
WORDS = 16

PLANES = 73
SQUARES = 64
ACTIONS = PLANES * SQUARES
MOST = 218  # legal moves in one position, https://www.chessprogramming.org/Chess_Position

OUTCOMES = (
    "",
    "checkmate",
    "insufficient material",
    "stalemate",
    "fifty moves",
    "threefold repetition",
    "seventy-five moves",
    "fivefold repetition",
)
"""Why a game ended. Where two reasons meet, the first of the list is given."""

CHECKMATE, INSUFFICIENT, STALEMATE = 1, 2, 3

# draws= -> (repetitions, plies without progress, codes of the two)
LIMITS = {"claim": (3, 100, 5, 4), "forced": (5, 150, 7, 6), "torchrl": (5, 100, 7, 4)}

STANDARD = 518  # the number of the usual first position among the 960


class State(NamedTuple):
    """Positions of chess, any batch of them; ``K`` is 101 where fifty moves end a game and 151 where seventy-five do.

    Games of the same moves have bit-equal states. A state can be indexed, stacked, and chosen from row by row with
    ``torch.where``.
    """

    board: Tensor  # [*B, 16] int64: the words above, sets of squares as the player to move sees them
    history: Tensor  # [*B, K] int64: hashes of earlier positions by halfmove clock; 0 from now on, and after the end
    moves: Tensor  # [*B, 73] int64: bit s of word p is action p * 64 + s; all 0 in a finished game


STEPS: tuple[tuple[int, int], ...] = (
    *((n * x, n * y) for n in range(1, 8) for x, y in ((1, 0), (-1, 1), (0, 1), (1, 1))),
    *((-n * x, -n * y) for n in range(1, 8) for x, y in ((1, 0), (-1, 1), (0, 1), (1, 1))),
    *((-2, 1), (2, 1), (-1, 2), (1, 2), (2, -1), (-2, -1), (1, -2), (-1, -2)),
    *((0, 1), (-1, 1), (1, 1)) * 3,
)
"""How far each plane goes: squares to the right, squares up."""

OFFSETS: tuple[int, ...] = tuple(x + 8 * y for x, y in STEPS)
"""What each plane adds to the number of the square."""

UNDERPROMOTION_PLANE = 64
CASTLE_RIGHT, CASTLE_LEFT = 4, 32  # the planes of castling in standard chess

ALL = (1 << 64) - 1
FILE_A, FILE_H = 0x0101010101010101, 0x8080808080808080
RANK_1, RANK_2, RANK_7, RANK_8 = 0xFF, 0xFF << 8, 0xFF << 48, 0xFF << 56
DARK = 0xAA55AA55AA55AA55  # a1 and every square of its colour


def flipped(word: int) -> int:
    """A word with its ranks turned over: the other player's view."""
    return int.from_bytes((word & ALL).to_bytes(8, "little"), "big")


def squares_of(word: int) -> list[int]:
    """The numbers of the bits that are set, lowest first.

    >>> squares_of(0b1010)
    [1, 3]
    """
    word &= ALL
    found = []
    while word:
        low = word & -word
        found.append(low.bit_length() - 1)
        word ^= low
    return found


@cache
def starts(step: tuple[int, int]) -> int:
    """The squares from which a step stays on the board, as a word."""
    x, y = step
    return sum(1 << s for s in range(SQUARES) if 0 <= s % 8 + x < 8 and 0 <= s // 8 + y < 8)


def back_rank(number: int) -> str:
    """The pieces on White's first rank in one of the 960 starting positions.

    Args:
        number: 0 to 959; 518 is the usual position.

    Raises:
        BadNotation: there is no position of this number.
        DtypeError: it is no whole number.

    >>> back_rank(518)
    'RNBQKBNR'

    Source: Reinhard Scharnagl's numbering, https://en.wikipedia.org/wiki/Fischer_random_chess_numbering_scheme
    """
    if not isinstance(number, Integral) or isinstance(number, bool):
        raise DtypeError(f"back_rank: number must be an integer from 0 to 959, got {number!r}")
    if not 0 <= number < 960:
        raise BadNotation(f"back_rank: there are 960 starting positions, numbered 0 to 959; got {number}")
    rank = [""] * 8
    rest, light = divmod(number, 4)
    rest, dark = divmod(rest, 4)
    knights, queen = divmod(rest, 6)
    rank[2 * light + 1] = rank[2 * dark] = "B"

    def empty() -> list[int]:
        return [file for file, piece in enumerate(rank) if not piece]

    rank[empty()[queen]] = "Q"
    pair = [(i, j) for i in range(5) for j in range(i + 1, 5)][knights]
    for file in [empty()[i] for i in pair]:
        rank[file] = "N"
    for file, piece in zip(empty(), "RKR", strict=True):
        rank[file] = piece
    return "".join(rank)


def start_words(number: int = STANDARD) -> list[int]:
    """The words of a starting position, up to :data:`FULLMOVE`, as unsigned ints."""
    rank = back_rank(number)
    ends = {piece: sum(1 << file for file in range(8) if rank[file] == piece) for piece in "NBRQK"}
    sets = [bits | bits << 56 for bits in ends.values()]
    return [RANK_1 | RANK_2, RANK_7 | RANK_8, RANK_2 | RANK_7, *sets, sets[2], 0, 0, 0, 1]
