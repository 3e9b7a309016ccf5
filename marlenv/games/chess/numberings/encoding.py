"""Other people's numbers for chess moves, and the tables between them and ours (see ``board.py``).

| name | numbers | how they count |
|---|---|---|
| ``uci`` | 1968 | every move that UCI can write, in alphabetical order, from the board as White sees it |
| ``lc0`` | 1858 | the policy of Leela Chess Zero: UCI as the mover sees it, sorted by squares, then promotions |
| ``openspiel`` | 4674 | ``(file * 8 + rank) * 73 + kind of step``, and castling to the left 4672, to the right 4673 |
| ``pettingzoo`` | 4672 | ``(file * 8 + rank) * 73 + kind of step`` in another order |

A number may depend on the piece: ``a7a8`` of UCI is a rook's move, a pawn's is ``a7a8q``; ours is the same for both. So
both directions look at the board. SAN names a move within its position; ``Chess.sans`` and ``Chess.read_sans`` serve
there.

Sources: lc0's ``src/chess/bitboard.cc`` (castling is the king's step onto his rook, and a promotion without a letter
is to a knight); OpenSpiel 2.0 ``chess_board.cc``; PettingZoo 1.27 ``classic/chess/chess_utils.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from marlenv.errors import ShapeError, UnknownName, nearest
from marlenv.games.chess.board import (
    ACTIONS,
    CASTLE_LEFT,
    CASTLE_RIGHT,
    KINGS,
    OFFSETS,
    OWN,
    PAWNS,
    ROOKS,
    STEPS,
    TURN,
    UNDERPROMOTION_PLANE,
    WORDS,
    starts,
)
from marlenv.games.chess.board import CASTLING as CASTLING_ROOKS
from marlenv.games.chess.fast import paths
from marlenv.games.chess.text.position import name_of

Name = Literal["uci", "lc0", "openspiel", "pettingzoo"]

PLAIN, PAWN, CASTLING = 0, 1, 2  # the kinds of moves that numberings tell apart


def _step_moves() -> list[tuple[int, int]]:
    """All pairs of squares that a queen or a knight connects, by from-square, then by to-square."""
    steps = STEPS[:64]
    return sorted((s, s + x + 8 * y) for x, y in steps for s in range(64) if starts((x, y)) >> s & 1)


def _promotions(rank: int, letters: str) -> list[str]:
    """The promotions from a rank, by squares, then in the order of the letters."""
    ahead = 8 if rank == 6 else -8
    pairs = [(s, s + ahead + x) for s in range(8 * rank, 8 * rank + 8) for x in (-1, 0, 1) if 0 <= (s & 7) + x < 8]
    return [name_of(a) + name_of(b) + letter for a, b in pairs for letter in letters]


_PAIRS = tuple(name_of(a) + name_of(b) for a, b in _step_moves())

UCI_MOVES: tuple[str, ...] = tuple(sorted([*_PAIRS, *_promotions(6, "bnqr"), *_promotions(1, "bnqr")]))
"""Every move of the ``uci`` numbering."""

LC0_MOVES: tuple[str, ...] = (*_PAIRS, *_promotions(6, "qrb"))
"""Every move of the ``lc0`` numbering."""

_UCI_NUMBER = {move: number for number, move in enumerate(UCI_MOVES)}
_LC0_NUMBER = {move: number for number, move in enumerate(LC0_MOVES)}


@dataclass(frozen=True)
class _Step:
    """One action of ours, taken apart."""

    start: int  # as the player to move sees it
    end: int
    x: int
    y: int
    promotion: str  # "" or one of nbr; q where a pawn comes to the last rank otherwise
    kind: int
    black: bool
    chess960: bool


def _uci(step: _Step) -> int:
    turn = 56 if step.black else 0
    return _UCI_NUMBER.get(name_of(step.start ^ turn) + name_of(step.end ^ turn) + step.promotion, -1)


def _lc0(step: _Step) -> int:
    end = step.end
    if step.kind == CASTLING and not step.chess960:
        end = 7 if step.x > 0 else 0
    return _LC0_NUMBER.get(name_of(step.start) + name_of(end) + step.promotion.replace("n", ""), -1)


_OPENSPIEL_LEAPS = ((-2, -1), (-2, 1), (-1, -2), (-1, 2), (2, -1), (2, 1), (1, -2), (1, 2))
_OPENSPIEL_LINES = ((0, 1), (1, 0), (1, 1), (1, -1))


def _openspiel(step: _Step) -> int:
    if step.kind == CASTLING:
        return ACTIONS + (step.x > 0)
    if step.promotion in ("r", "b", "n"):
        which = 3 * "rbn".index(step.promotion) + step.x % 3
    elif (step.x, step.y) in _OPENSPIEL_LEAPS:
        which = 65 + _OPENSPIEL_LEAPS.index((step.x, step.y))
    else:
        far = max(abs(step.x), abs(step.y))
        line = (step.x // far, step.y // far)
        way = 1 if line in _OPENSPIEL_LINES else -1
        index = _OPENSPIEL_LINES.index((way * line[0], way * line[1]))
        which = 9 + 14 * index + (6 + far if way > 0 else 7 - far)
    return 73 * (8 * (step.start & 7) + (step.start >> 3)) + which


def _pettingzoo(step: _Step) -> int:
    if step.promotion in ("n", "b", "r"):
        which = 64 + 3 * (step.x + 1) + "nbr".index(step.promotion)
    elif {abs(step.x), abs(step.y)} == {1, 2}:
        which = 56 + sorted(STEPS[56:64]).index((step.x, step.y))
    else:
        far = max(abs(step.x), abs(step.y))
        around = sorted((*STEPS[:4], *STEPS[28:32]))
        which = 8 * (far - 1) + around.index((step.x // far, step.y // far))
    return 73 * (8 * (step.start & 7) + (step.start >> 3)) + which


_NUMBERINGS: dict[str, tuple[int, Callable[[_Step], int]]] = {
    "uci": (len(UCI_MOVES), _uci),
    "lc0": (len(LC0_MOVES), _lc0),
    "openspiel": (ACTIONS + 2, _openspiel),
    "pettingzoo": (ACTIONS, _pettingzoo),
}


def _steps(kind: int, black: bool, chess960: bool) -> dict[int, _Step]:
    """The actions that a move of a kind may have."""
    found = {}
    for plane, (x, y) in enumerate(STEPS):
        under = plane >= UNDERPROMOTION_PLANE
        level = y == 0 and (chess960 or plane in (CASTLE_RIGHT, CASTLE_LEFT))
        if (under and kind != PAWN) or (kind == CASTLING and not level):
            continue
        for start in range(64):
            if not starts((x, y)) >> start & 1 or (under and start >> 3 != 6):
                continue
            if kind == CASTLING and (start > 7 if chess960 else start != 4):
                continue
            end = start + OFFSETS[plane]
            promotion = (
                "nbr"[(plane - UNDERPROMOTION_PLANE) // 3] if under else "q" if kind == PAWN and end > 55 else ""
            )
            found[64 * plane + start] = _Step(start, end, x, y, promotion, kind, black, chess960)
    return found


@dataclass(frozen=True)
class Encoding:
    """A numbering of chess moves and the way to ours and back; get one from :func:`encoding`.

    >>> import torch
    >>> from marlenv.games.chess.rules import Chess
    >>> state = Chess().start(torch.Size([1]))
    >>> e2e4 = encoding("lc0").decode(state.board, torch.tensor([322]))
    >>> e2e4.item() == 6 * 64 + 12, encoding("uci").encode(state.board, e2e4)
    (True, tensor([1031]))
    """

    name: Name
    size: int
    chess960: bool

    def encode(self, board: Tensor, action: Tensor) -> Tensor:
        """The numbers of our actions; int64 like ``action``, -1 where they have none.

        Args:
            board: the words of ``State.board``, int64 ``[*B, 16]``.
            action: int64 ``[*B]``, or ``[*B, n]`` for ``n`` actions in each position.
        """
        words = self._words(board, action)
        table = _tables(self.name, self.chess960, board.device).numbers
        inside = (action >= 0) & (action < ACTIONS)
        chosen = action.clamp(0, ACTIONS - 1)
        found = table[words[TURN], self._kind(words, chosen), chosen]
        return torch.where(inside, found, -1)

    def decode(self, board: Tensor, number: Tensor) -> Tensor:
        """Our actions of numbers; int64 like ``number``, -1 where a number means no move of the piece there.

        Args:
            board: the words of ``State.board``, int64 ``[*B, 16]``.
            number: int64 ``[*B]``, or ``[*B, n]``.
        """
        words = self._words(board, number)
        table = _tables(self.name, self.chess960, board.device).actions
        inside = (number >= 0) & (number < self.size)
        chosen = number.clamp(0, self.size - 1)
        found = torch.full_like(number, -1)
        for kind in (PLAIN, PAWN, CASTLING):
            if kind == CASTLING and self.name == "openspiel" and self.chess960:
                action = self._castling(words, chosen)
            else:
                action = table[words[TURN], kind, chosen]
            fits = (action >= 0) & (self._kind(words, action.clamp(min=0)) == kind)
            found = torch.where(fits, action, found)
        return torch.where(inside, found, -1)

    def mask(self, board: Tensor, moves: Tensor) -> Tensor:
        """The legal moves in this numbering; bool ``[*B, size]``.

        Args:
            board: the words of ``State.board``, int64 ``[*B, 16]``.
            moves: the packed actions of ``State.moves``, int64 ``[*B, 73]``.
        """
        ours = paths.unpack(moves, None, "auto")
        t = _tables(self.name, self.chess960, board.device)
        white, black = (ours.index_select(-1, usual.clamp(min=0)) & (usual >= 0) for usual in t.usual)
        mask = torch.where(board[..., TURN : TURN + 1] == 0, white, black)
        action = self.decode(board, t.special.expand(*board.shape[:-1], -1))
        mask[..., t.special] = ours.gather(-1, action.clamp(min=0)) & (action >= 0)
        return mask

    def _words(self, board: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        lead = board.shape[:-1]
        if board.shape[-1:] != (WORDS,) or number.shape[: len(lead)] != lead or number.ndim > len(lead) + 1:
            raise ShapeError(
                f"encoding {self.name!r}: board [*B, {WORDS}] and numbers [*B] or [*B, n], "
                f"got {list(board.shape)} and {list(number.shape)}"
            )
        return (board if number.ndim == len(lead) else board.unsqueeze(-2)).unbind(-1)

    def _kind(self, words: tuple[Tensor, ...], action: Tensor) -> Tensor:
        """What moves: something plain, a pawn, or a king that castles."""
        start = action & 63
        plane = action >> 6
        pawn = (words[PAWNS] & words[OWN]) >> start & 1
        king = (words[KINGS] & words[OWN]) >> start & 1
        if self.chess960:
            offset = _tables(self.name, True, action.device).offsets[plane]
            level = ((plane & 3) == 0) & (plane < 56)
            castles = (words[ROOKS] & words[OWN]) >> (start + offset).clamp(0, 63) & 1 & level
        else:
            castles = ((plane == CASTLE_RIGHT) | (plane == CASTLE_LEFT)).to(torch.int64)
        return pawn * PAWN + (king & castles) * CASTLING

    def _castling(self, words: tuple[Tensor, ...], number: Tensor) -> Tensor:
        """The king's step onto the rook, to the left for the last number but one, to the right for the last."""
        squares = torch.arange(8, device=number.device)

        def index(rank: Tensor) -> Tensor:
            return ((rank.unsqueeze(-1) >> squares & 1) * squares).sum(-1)

        king = words[KINGS] & words[OWN] & 0xFF
        home = words[CASTLING_ROOKS] & 0xFF
        right = home & -(king << 1)
        left = home & (king - 1)
        to_right = 4 * (index(right) - index(king) - 1)
        to_left = 28 + 4 * (index(king) - index(left) - 1)
        plane = torch.where(number == ACTIONS, to_left, to_right)
        exists = torch.where(number == ACTIONS, left, torch.where(number == ACTIONS + 1, right, 0)) != 0
        return torch.where(exists & (king != 0), plane * 64 + index(king), -1)


@cache
def encoding(name: Name, chess960: bool = False) -> Encoding:
    """A numbering by its name.

    Args:
        name: ``"uci"``, ``"lc0"``, ``"openspiel"`` or ``"pettingzoo"``.
        chess960: whether the games are Chess960, where castling is written otherwise.

    Raises:
        UnknownName: there is no such numbering.

    >>> encoding("uci").size
    1968
    """
    if name not in _NUMBERINGS:
        raise UnknownName(f"encoding: no numbering of chess moves is called {name!r}; {nearest(name, _NUMBERINGS)}")
    return Encoding(name, _NUMBERINGS[name][0], chess960)


class _Tables(NamedTuple):
    numbers: Tensor  # [2, 3, 4672] by the player to move, the kind of move and our action; -1 without a number
    actions: Tensor  # [2, 3, size] the way back
    usual: Tensor  # [2, size] the action of a number; -1 where there is none
    special: Tensor  # [S] the numbers that mean one action or another by what moves
    offsets: Tensor  # [73] what our planes add to the square


@cache
def _tables(name: str, chess960: bool, device: torch.device) -> _Tables:
    size, number = _NUMBERINGS[name]
    numbers = torch.full((2, 3, ACTIONS), -1)
    actions = torch.full((2, 3, size), -1)
    usual = torch.full((2, size), -1)
    special = set()
    for black in (0, 1):
        for kind in (PAWN, CASTLING, PLAIN):
            for action, step in _steps(kind, bool(black), chess960).items():
                found = number(step)
                if actions[black, kind, found] >= 0:  # castling that is numbered by its side alone
                    special.add(found)
                numbers[black, kind, action] = found
                actions[black, kind, found] = usual[black, found] = action
        meant = numbers[black, :, usual[black]]  # [3, size] what the usual action of a number is called
        same = ((meant == torch.arange(size)) | (meant < 0)) & ((actions[black] == usual[black]) | (actions[black] < 0))
        special.update((~same.all(0)).nonzero().flatten().tolist())
    parts = (numbers, actions, usual, torch.tensor(sorted(special), dtype=torch.int64), torch.tensor(OFFSETS))
    return _Tables(*(part.to(device) for part in parts))
