"""One position on the host: sixty-four letters and what else a FEN says. Between text and words, and the judge of both.

Absolute squares here, a1 = 0 to h8 = 63, whoever is to move; ``board.py`` draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from marlenv.games.chess.board import (
    ALL,
    CASTLING,
    FULLMOVE,
    HALFMOVE,
    KINGS,
    OWN,
    PASSANT,
    PAWNS,
    STEPS,
    TURN,
    flipped,
    squares_of,
)
from marlenv.rng import signed

LETTERS = "PNBRQK"
FILES = "abcdefgh"
_AROUND = (*STEPS[:4], *STEPS[28:32])
_LEAPS = STEPS[56:64]
_GLYPHS = np.frombuffer(
    f".{LETTERS.lower()}.{LETTERS}".encode(), dtype=np.uint8
)  # of a square: its kind, 7 more if white
_WEIGHTS = np.array([7, *range(1, 7)], dtype=np.uint8)


def name_of(square: int) -> str:
    """The name of a square.

    >>> name_of(0), name_of(63)
    ('a1', 'h8')
    """
    return FILES[square & 7] + str((square >> 3) + 1)


@dataclass(frozen=True)
class Position:
    """What a FEN says, letter by letter. Nothing is checked when it is made; :meth:`broken_rule` does that."""

    squares: str  # 64 letters from a1, b1 .. to h8; capitals are White's, "." is an empty square
    black: bool  # Black is to move
    castling: frozenset[int]  # squares of the rooks that may still castle
    passant: int | None  # the square behind a pawn that has just gone two squares
    halfmove: int
    fullmove: int

    @classmethod
    def from_words(cls, words: Sequence[int]) -> Position:
        """The position of a row of ``State.board``, its sixteen words as ints."""
        black = bool(words[TURN])
        sets = [flipped(word) if black else word & ALL for word in words[: PASSANT + 1]]
        white = sets[1 - OWN] if black else sets[OWN]
        packed = np.array([white, *sets[PAWNS : KINGS + 1]], dtype="<u8").view(np.uint8)
        bits = np.unpackbits(packed, bitorder="little").reshape(-1, 64)
        squares = _GLYPHS[_WEIGHTS @ bits].tobytes().decode()
        castling = frozenset(squares_of(sets[CASTLING]))
        passant = squares_of(sets[PASSANT])
        return cls(squares, black, castling, passant[0] if passant else None, words[HALFMOVE], words[FULLMOVE])

    def words(self) -> list[int]:
        """The first thirteen words of a row of ``State.board``, as signed ints."""
        pieces = [self.where(letter) | self.where(letter.lower()) for letter in LETTERS]
        white, black = (sum(map(self.where, letters)) for letters in (LETTERS, LETTERS.lower()))
        castling = sum(1 << square for square in self.castling)
        passant = 0 if self.passant is None else 1 << self.passant
        sets = [*((black, white) if self.black else (white, black)), *pieces, castling, passant]
        seen = [flipped(word) for word in sets] if self.black else sets
        return [*map(signed, seen), int(self.black), self.halfmove, self.fullmove]

    def where(self, letter: str) -> int:
        """The squares of a kind of piece, as a word."""
        return sum(1 << square for square, here in enumerate(self.squares) if here == letter)

    def king(self, black: bool) -> int:
        """The square of a king."""
        return self.squares.index("k" if black else "K")

    def castling_sides(self, black: bool) -> Iterator[tuple[int, bool]]:
        """The rooks of a side that may castle, from the right to the left; True with those on the king's right."""
        home = 56 if black else 0
        king = self.king(black)
        for square in sorted(self.castling, reverse=True):
            if square & 56 == home:
                yield square, square > king

    def attackers(self, target: int, black: bool) -> list[int]:
        """The squares of the pieces of a side that attack a square."""
        found = [square for step in _LEAPS if (square := self._first(target, step, 1)) is not None]
        found = [square for square in found if self.squares[square] == ("n" if black else "N")]
        for x, y in _AROUND:
            square = self._first(target, (x, y), 7)
            if square is None or self.squares[square].islower() is not black:
                continue
            kinds = "QR" if 0 in (x, y) else "QB"
            near = max(abs((square & 7) - (target & 7)), abs((square >> 3) - (target >> 3))) == 1
            if near:
                kinds += "K"
                if x and y == (1 if black else -1):
                    kinds += "P"
            if self.squares[square].upper() in kinds:
                found.append(square)
        return found

    def _first(self, square: int, step: tuple[int, int], reach: int) -> int | None:
        """The nearest piece in a direction."""
        file, rank = square & 7, square >> 3
        for _ in range(reach):
            file, rank = file + step[0], rank + step[1]
            if not (0 <= file < 8 and 0 <= rank < 8):
                return None
            if self.squares[rank * 8 + file] != ".":
                return rank * 8 + file
        return None

    def broken_rule(self, chess960: bool) -> str | None:
        """What makes the position impossible, in words; None for a position that can be played.

        It is not asked whether a game could have led here, except where the answer is on the board.
        """
        for black, who in ((False, "White"), (True, "Black")):
            letters = LETTERS.lower() if black else LETTERS
            count = {letter: self.squares.count(letter) for letter in letters}
            if count[letters[5]] != 1:
                return f"{who} must have one king, and has {count[letters[5]]}"
            if count[letters[0]] > 8:
                return f"{who} has {count[letters[0]]} pawns; there are 8"
            if sum(count.values()) > 16:
                return f"{who} has {sum(count.values())} pieces; there are 16"
        for square in (*range(8), *range(56, 64)):
            if self.squares[square] in "Pp":
                return f"a pawn cannot stand on {name_of(square)}, on the first or the last rank"
        broken = self._broken_castling(chess960) or self._broken_passant()
        if broken:
            return broken
        to_move, waits = ("Black", "White") if self.black else ("White", "Black")
        if self.attackers(self.king(not self.black), self.black):
            return f"{waits} is in check, but it is {to_move}'s turn, who could capture the king"
        if len(checkers := self.attackers(self.king(self.black), not self.black)) > 2:
            return f"{to_move} is in check by {len(checkers)} pieces; no move gives check by more than 2"
        return None

    def _broken_castling(self, chess960: bool) -> str | None:
        for black, who, rook in ((False, "White", "R"), (True, "Black", "r")):
            king = self.king(black)
            home = 56 if black else 0
            sides: list[bool] = []
            for square, right in self.castling_sides(black):
                place = name_of(square)
                if self.squares[square] != rook:
                    return f"{who} cannot castle with {place}: there is no rook of his"
                if king & 56 != home or (not chess960 and king != home + 4):
                    return f"{who} cannot castle with the king on {name_of(king)}"
                if not chess960 and square & 7 not in (0, 7):
                    return f"{who} castles with the rook on {place} only in Chess960"
                if right in sides:
                    return f"{who} can castle with one rook on each side of the king"
                sides.append(right)
        if any(square & 56 not in (0, 56) for square in self.castling):
            return "castling rooks stand on the first and the last rank"
        return None

    def _broken_passant(self) -> str | None:
        if self.passant is None:
            return None
        name = name_of(self.passant)
        ahead, rank, pawn = (8, 2, "P") if self.black else (-8, 5, "p")
        if self.passant >> 3 != rank:
            whose = "Black" if self.black else "White"
            return f"an en-passant square is on rank {rank + 1} when it is {whose}'s turn, not {name}"
        if self.squares[self.passant + ahead] != pawn:
            return f"no pawn has just passed the en-passant square {name}"
        if self.squares[self.passant] != "." or self.squares[self.passant - ahead] != ".":
            return f"the pawn cannot have come over the en-passant square {name}: something stands in its way"
        return None
