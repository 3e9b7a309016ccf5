"""Othello (https://en.wikipedia.org/wiki/Reversi) for any batch of boards at once.

A board is two int64 words; bit ``8 * row + column`` is a cell. Lines are followed in all eight directions at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.games.fast.boards import FastBoard
from marlenv.games.parts import drawing
from marlenv.games.parts.bits import cells, counted, flags, planes
from marlenv.games.parts.tables import Table
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG, signed

PASS = 64
WHOLE = -1
BLACK, WHITE = cells(28, 35), cells(27, 36)
INNER = signed(0x7E7E7E7E7E7E7E7E)  # not in the first or last column: what a line may run through from side to side
STEPS = Table(lambda: torch.tensor([1, 8, 7, 9]))
KEPT = Table(
    lambda: torch.tensor([signed((1 << (64 - n)) - 1) for n in (1, 8, 7, 9)])
)  # what a shift to the right leaves
THROUGH = Table(lambda: torch.tensor([INNER, WHOLE, INNER, INNER]))


class State(NamedTuple):
    """A position."""

    own: Tensor  # [*B] int64: discs of the player to move
    other: Tensor  # [*B] int64: discs of the other
    moves: Tensor  # [*B] int64: where the player to move may play; 0 is a pass, or the end
    turn: Tensor  # [*B] int64: whose turn it is
    ended: Tensor  # [*B] bool: neither can move


@dataclass(frozen=True)
class Othello(Rules[State]):
    """Enclose discs of the other between two of your own to turn them over; most discs win. Black begins.

    The actions are cells, row by row from the upper left corner, ``a1`` first for people, and 64, a pass, which is
    legal when nothing else is::

          a b c d e f g h
        1 . . . . . . . .
        2 . . . . . . . .
        3 . . . * . . . .
        4 . . * o x . . .
        5 . . . x o * . .
        6 . . . . * . . .
        7 . . . . . . . .
        8 . . . . . . . .

    - observation: planes ``[3, 8, 8]``: own discs, the other's discs, ones if it is my turn
    - action: a cell, or 64
    - reward: +1 for more discs, -1 for less, 0 for as many
    - ends: when neither can move

    >>> rules = Othello()
    >>> state = rules.start(Size([]))
    >>> list(rules.legal_names(state))
    ['d3', 'c4', 'f5', 'e6']

    Source: https://www.worldothello.org/about/about-othello/othello-rules/official-rules/english
    """

    players: ClassVar[tuple[str, ...]] = ("black", "white")
    outcomes: ClassVar[tuple[str, ...]] = ("", "nobody can move")
    alternating: ClassVar[bool] = True
    pays_at_end: ClassVar[bool] = True

    @property
    def n_actions(self) -> int:
        return 65

    @property
    def longest(self) -> int:
        return 120  # each of 60 discs at worst after a pass

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (3, 8, 8)

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        zero = torch.zeros(batch_size, dtype=torch.int64, device=device)
        return State(zero + BLACK, zero + WHITE, zero + cells(19, 26, 37, 44), zero, zero.to(torch.bool))

    def player(self, state: State) -> Tensor:
        return state.turn

    def legal(self, state: State) -> Tensor:
        passes = (state.moves == 0) & ~state.ended
        return torch.cat((flags(state.moves, 8, 8).flatten(-2), passes.unsqueeze(-1)), -1)

    def permits(self, state: State, action: Tensor) -> Tensor:
        can = ((state.moves >> action.clamp(0, 63)) & 1) != 0
        return (can & (action >= 0) & (action < PASS)) | ((action == PASS) & (state.moves == 0) & ~state.ended)

    def play(self, state: State, action: Tensor) -> State:
        disc = torch.where((action == PASS) | state.ended, 0, torch.ones_like(state.own) << action.clamp(max=63))
        turned = _turned(state.own, state.other, disc)
        own, other = state.own | disc | turned, state.other & ~turned
        both = torch.stack((own, other))
        mine, theirs = _moves(both, both.flip(0))
        ended = (mine | theirs) == 0
        keep = state.ended
        return State(
            torch.where(keep, own, other),
            torch.where(keep, other, own),
            torch.where(keep, state.moves, theirs),
            torch.where(keep, state.turn, 1 - state.turn),
            ended,
        )

    def over(self, state: State) -> Tensor:
        return state.ended

    def returns(self, state: State) -> Tensor:
        lead = (counted(state.own) - counted(state.other)).sign() * (1 - 2 * state.turn)
        black = (lead * state.ended).to(torch.float32)
        return torch.stack((black, -black), -1)

    def observe(self, state: State) -> Tensor:
        """Planes ``[3, 8, 8]``: own discs, the other's, ones if it is my turn; bool ``[*B, 2, 3, 8, 8]``."""
        return planes(*_by_seat(state), state.turn)

    def fast_form(self) -> FastBoard[State]:
        """The same answers for envs of many rows, see :mod:`marlenv.games.fast`."""
        return FastBoard(self, "othello_kernels", (8,), work=(20, 300))

    # --- for people ------------------------------------------------------------------------------

    def action_name(self, state: State, action: int) -> str:
        """Column and row, or ``pass``."""
        return "pass" if action == PASS else f"{'abcdefgh'[action % 8]}{action // 8 + 1}"

    def marks(self, state: State) -> str:
        """``x`` for black, ``o`` for white, ``*`` for where the player to move may play, ``.`` for other cells."""
        black, white = (int(word) for word in _by_seat(state))
        sets = (("x", black), ("o", white), ("*", int(state.moves)))
        return "".join(next((mark for mark, word in sets if word >> cell & 1), ".") for cell in range(64))

    def show(self, state: State, *, color: bool = False) -> str:
        """The board; a star is where the player to move may play."""
        paint = {"x": drawing.green, "o": drawing.bold, "*": drawing.yellow, ".": drawing.faint}
        shown = [paint[mark](mark, color) for mark in self.marks(state)]
        rows = [" ".join(shown[row : row + 8]) for row in range(0, 64, 8)]
        return drawing.labelled(rows, "abcdefgh", color=color, numbers=range(1, 9))

    def svg(self, state: State) -> str:
        """The board with black and white discs."""
        picture = drawing.Picture(8, 8)
        picture.rect((0, 0), (8, 8), drawing.FELT)
        for at in range(9):
            picture.line((at, 0), (at, 8), drawing.BLACK, 0.02)
            picture.line((0, at), (8, at), drawing.BLACK, 0.02)
        for cell, mark in enumerate(self.marks(state)):
            center = (cell % 8 + 0.5, cell // 8 + 0.5)
            if mark in "xo":
                picture.disc(center, drawing.BLACK if mark == "x" else drawing.WHITE, 0.4)
            elif mark == "*":
                picture.disc(center, drawing.BLACK, 0.06)
        for at in range(8):
            picture.text((at + 0.5, -0.25), "abcdefgh"[at])
            picture.text((-0.25, at + 0.5), str(at + 1))
        return picture.svg()


def _by_seat(state: State) -> tuple[Tensor, Tensor]:
    """The discs of black and of white; int64 ``[*B]`` each."""
    black = torch.where(state.turn == 0, state.own, state.other)
    return black, state.own ^ state.other ^ black


def _lines(start: Tensor, through: Tensor) -> tuple[Tensor, Tensor]:
    """What is reached from ``start`` along unbroken lines of up to six cells of ``through``.

    int64 ``[4, *B]`` each way.
    """
    steps, kept, inner = (t.on(start.device).reshape(4, *[1] * start.ndim) for t in (STEPS, KEPT, THROUGH))
    open_ = through & inner
    up, down = open_ & (start << steps), open_ & ((start >> steps) & kept)
    for _ in range(5):
        up, down = up | (open_ & (up << steps)), down | (open_ & ((down >> steps) & kept))
    return up, down


def _moves(own: Tensor, other: Tensor) -> Tensor:
    """Where ``own`` may play; int64 ``[*B]``."""
    steps, kept = (t.on(own.device).reshape(4, *[1] * own.ndim) for t in (STEPS, KEPT))
    up, down = _lines(own, other)
    ends = (up << steps) | ((down >> steps) & kept)
    a, b, c, d = ends.unbind(0)
    return (a | b | c | d) & ~(own | other)


def _turned(own: Tensor, other: Tensor, disc: Tensor) -> Tensor:
    """What ``disc`` turns over: the lines from it that end at one of ``own``; int64 ``[*B]``."""
    steps, kept = (t.on(own.device).reshape(4, *[1] * own.ndim) for t in (STEPS, KEPT))
    up, down = _lines(disc, other)
    up = torch.where(((up << steps) & own) != 0, up, 0)
    down = torch.where((((down >> steps) & kept) & own) != 0, down, 0)
    a, b, c, d = (up | down).unbind(0)
    return a | b | c | d
