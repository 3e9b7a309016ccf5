"""A number for every move that SAN can write: TorchRL's, in which ``e4``, ``e4+`` and ``e4#`` are three moves.

The moves are all that SAN can write on a board by geometry, shorter ones first, then in alphabetical order; the last
number, 29274, is the empty text. Which number a move has depends on the whole position: on the other pieces that
could go there, and on whether it gives check or mate. So numbers are made for all legal moves of a position at once.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.chess.bits import unpack
from marlenv.games.chess.board import (
    FULLMOVE,
    KINGS,
    MOST,
    OFFSETS,
    OPPONENT,
    OWN,
    PASSANT,
    PAWNS,
    PLANES,
    STEPS,
    TURN,
    WORDS,
    State,
)
from marlenv.games.chess.fast import paths
from marlenv.games.chess.moves import advance, generate
from marlenv.games.chess.text.position import FILES, name_of
from marlenv.games.parts.tables import Table

KINDS = ("", "N", "B", "R", "Q", "K", "=N", "=B", "=R", "=Q")  # a pawn's move, a piece's, a promotion
SAID = ("", *FILES, *"12345678", *(name_of(square) for square in range(64)))  # how the piece is told from others
SUFFIXES = ("", "+", "#")
CASTLING = ("O-O", "O-O-O")


def _ways(kind: str, target: int) -> list[tuple[int, tuple[int, int]]]:
    """The squares from which a piece comes to ``target``, each with the way it comes.

    One at most on each way counts.
    """
    found = []
    for start in range(64):
        x, y = (target & 7) - (start & 7), (target >> 3) - (start >> 3)
        far = max(abs(x), abs(y))
        if kind == "N":
            if {abs(x), abs(y)} == {1, 2}:
                found.append((start, (x, y)))
        elif far and ((0 in (x, y) and kind in "RQ") or (abs(x) == abs(y) and kind in "BQ")):
            found.append((start, (x // far, y // far)))
    return found


def _pieces(kind: str, target: int) -> set[str]:
    """How SAN says where a piece comes from, whatever others may stand around."""
    said = {""}
    ways = [] if kind == "K" else _ways(kind, target)
    for start, way in ways:
        rivals = [(square, its) for square, its in ways if its != way]
        files = [its for square, its in rivals if square & 7 == start & 7]
        ranks = [its for square, its in rivals if square >> 3 == start >> 3]
        if len(files) < len(rivals):
            said.add(FILES[start & 7])
        if files:
            said.add(str((start >> 3) + 1))
        if any(one != other for one in files for other in ranks):
            said.add(name_of(start))
    return said


@cache
def san_moves() -> tuple[str, ...]:
    """Every move of the numbering, 29275 texts.

    >>> san_moves()[:3], san_moves().index("Nf3"), len(san_moves())
    (('a2', 'a3', 'a4'), 218, 29275)
    """
    found = set(CASTLING)
    for target in range(64):
        name = name_of(target)
        for kind in "NBRQK":
            found |= {kind + said + takes + name for said in _pieces(kind, target) for takes in ("", "x")}
        ends = [""] if 0 < target >> 3 < 7 else ["=N", "=B", "=R", "=Q"]
        pawns = [name, *(f"{FILES[f]}x{name}" for f in ((target & 7) - 1, (target & 7) + 1) if 0 <= f < 8)]
        found |= {move + end for move in pawns for end in ends}
    written = (move + suffix for move in found for suffix in SUFFIXES)
    return (*sorted(written, key=lambda move: (len(move), move)), "")


def _key(kind: int, said: int, takes: int, target: int, suffix: int) -> int:
    return (((kind * len(SAID) + said) * 2 + takes) * 64 + target) * 3 + suffix


KEYS = _key(len(KINDS), 0, 0, 0, 0)  # six more follow: castling to the right, to the left, each with its suffixes


def _numbers() -> Tensor:
    """The number at each key, int32; -1 where SAN writes no such move."""
    table = torch.full((KEYS + 6,), -1, dtype=torch.int32)
    place = {text: number for number, text in enumerate(san_moves())}
    for kind, letter in enumerate(KINDS):
        front, back = ("", letter) if "=" in letter else (letter, "")
        for said, start in enumerate(SAID):
            if letter == "" and len(start) > 1:
                break
            for target in range(64):
                for takes, cross in enumerate(("", "x")):
                    for suffix, sign in enumerate(SUFFIXES):
                        number = place.get(f"{front}{start}{cross}{name_of(target)}{back}{sign}", -1)
                        table[_key(kind, said, takes, target, suffix)] = number
    for side, text in enumerate(CASTLING):
        for suffix, sign in enumerate(SUFFIXES):
            table[KEYS + 3 * side + suffix] = place[text + sign]
    return table


NUMBERS = Table(_numbers)


class Numbered(NamedTuple):
    """The legal moves of positions, in the order of our actions; rows are filled up with -1."""

    numbers: Tensor  # [*B, 218] int64
    actions: Tensor  # [*B, 218] int64

    def mask(self) -> Tensor:
        """The legal moves; bool ``[*B, 29275]``."""
        size = len(san_moves())
        mask = torch.zeros((*self.numbers.shape[:-1], size + 1), dtype=torch.bool, device=self.numbers.device)
        return mask.scatter_(-1, self.numbers.remainder(size + 1), True)[..., :size].contiguous()

    def action(self, number: Tensor) -> Tensor:
        """Our actions of numbers; int64 ``[*B]``, -1 where no legal move has the number."""
        same = (self.numbers == number.unsqueeze(-1)) & (self.actions >= 0)
        return torch.where(same, self.actions, -1).amax(-1)

    def number(self, action: Tensor) -> Tensor:
        """The numbers of our actions; int64 ``[*B]``, -1 where an action is not legal."""
        same = (self.actions == action.unsqueeze(-1)) & (self.actions >= 0)
        return torch.where(same, self.numbers, -1).amax(-1)


def numbered(state: State, chess960: bool, path: paths.Path = "auto") -> Numbered:
    """The numbers of all legal moves.

    >>> from marlenv.games.chess import Chess
    >>> moves = numbered(Chess().start(torch.Size([])), False)
    >>> [san_moves()[n] for n in moves.numbers[:4].tolist()]
    ['a3', 'b3', 'c3', 'd3']
    """
    if paths.compiled(path, state.board):
        return Numbered(*paths.san(state, NUMBERS.on(state.board.device), chess960))
    return _numbered(state, chess960)


def _numbered(state: State, chess960: bool) -> Numbered:
    """The same in torch operations; waits for the device, as the number of moves shapes what follows."""
    lead = state.board.shape[:-1]
    words, moves = state.board.reshape(-1, WORDS), state.moves.reshape(-1, PLANES)
    row, action = unpack(moves).nonzero(as_tuple=True)
    found = torch.full((2, words.shape[0], MOST), -1, dtype=torch.int64, device=words.device)
    if len(row):
        first = torch.searchsorted(row, torch.arange(words.shape[0], device=row.device))
        place = torch.arange(len(row), device=row.device) - first[row]
        table = NUMBERS.on(row.device)
        found[0, row, place] = table[_keys(words[row], moves[row], action, chess960)].to(torch.int64)
        found[1, row, place] = action
    return Numbered(*found.reshape(2, *lead, MOST))


def _keys(words: Tensor, moves: Tensor, action: Tensor, chess960: bool) -> Tensor:
    """The key of each action ``[M]``, played in the position of its words ``[M, 16]`` with legal moves ``[M, 73]``."""
    after = generate(advance(words.t().contiguous()[: FULLMOVE + 1], action, chess960), chess960)
    stuck = (after.planes == 0).all(0)
    suffix = (after.checkers != 0).long() * (1 + stuck.long())
    plane, start = action >> 6, action & 63
    offsets = torch.tensor(OFFSETS, device=action.device)
    target = start + offsets[plane]
    one, goal = torch.ones_like(start) << start, torch.ones_like(start) << target
    sets = words[:, PAWNS : KINGS + 1]
    kind = (((sets & one.unsqueeze(-1)) != 0) * torch.arange(6, device=action.device)).sum(-1)
    same = sets.gather(-1, kind.unsqueeze(-1)).squeeze(-1) & words[:, OWN]
    king = kind == KINGS - PAWNS
    castles = king & ((goal & words[:, OWN]) != 0) if chess960 else king & ((plane == 4) | (plane == 32))
    pawn = kind == 0
    takes = ((goal & words[:, OPPONENT]) != 0) | (pawn & ((goal & words[:, PASSANT]) != 0))
    said = torch.where(pawn, torch.where(takes, 1 + (start & 7), 0), _said(moves, same, start, target, offsets))
    said = said.masked_fill(king, 0)
    promoted = torch.where(plane >= 64, 6 + (plane - 64) // 3, 9)
    kind = torch.where(pawn & (target >= 56), promoted, kind)
    seen = torch.where(words[:, TURN] == 1, target ^ 56, target)
    said = torch.where((words[:, TURN] == 1) & (said >= 9), _turned(said), said)
    key = (((kind * len(SAID) + said) * 2 + takes.long()) * 64 + seen) * 3 + suffix
    left = (offsets[plane] < 0).long()
    return torch.where(castles, KEYS + 3 * left + suffix, key)


def _said(moves: Tensor, same: Tensor, start: Tensor, target: Tensor, offsets: Tensor) -> Tensor:
    """How a piece is told from others of its kind, ``same``, that may go to ``target``: an index into :data:`SAID`."""
    squares = target.unsqueeze(-1) - offsets[:64]
    x, y = torch.tensor(STEPS[:64], device=start.device).unbind(-1)
    file, rank = (target & 7).unsqueeze(-1) - x, (target >> 3).unsqueeze(-1) - y
    inside = (file >= 0) & (file < 8) & (rank >= 0) & (rank < 8)
    squares = squares.clamp(0, 63)
    may = ((moves[:, :64] & same.unsqueeze(-1)) >> squares) & 1
    rival = inside & (may != 0) & (squares != start.unsqueeze(-1))
    on_file = (rival & (file == (start & 7).unsqueeze(-1))).any(-1)
    on_rank = (rival & (rank == (start >> 3).unsqueeze(-1))).any(-1)
    some = torch.where(on_file, torch.where(on_rank, 17 + start, 9 + (start >> 3)), 1 + (start & 7))
    return some.masked_fill(~rival.any(-1), 0)


def _turned(said: Tensor) -> Tensor:
    """Ranks and squares as White sees them."""
    return torch.where(said >= 17, 17 + ((said - 17) ^ 56), 9 + (7 - (said - 9)))
