"""What python-chess says, in our numbers. A test oracle: nothing under marlenv/ imports it."""

from __future__ import annotations

import random

import chess
import torch

from marlenv.games.chess.board import OFFSETS, STEPS, State
from marlenv.games.chess.numberings.san import san_moves
from marlenv.games.chess.rules import Chess

PLANE = {step: plane for plane, step in reversed(list(enumerate(STEPS[:64])))}
WHY = {
    chess.Termination.CHECKMATE: "checkmate",
    chess.Termination.STALEMATE: "stalemate",
    chess.Termination.INSUFFICIENT_MATERIAL: "insufficient material",
    chess.Termination.SEVENTYFIVE_MOVES: "seventy-five moves",
    chess.Termination.FIVEFOLD_REPETITION: "fivefold repetition",
}

# endings and full clocks, so that every reason to stop comes up
ODD_STARTS = (
    "4k3/8/8/8/8/8/8/R3K2R w KQ - 92 80",
    "8/8/4k3/8/8/3NK3/8/8 w - - 60 90",
    "8/1p2k3/8/8/8/3BK3/8/8 b - - 0 90",
    "8/8/4k3/2b5/8/3BK3/8/8 w - - 0 90",
    "8/5k2/8/8/3R4/8/2K3r1/8 w - - 141 200",
    "8/5k2/8/8/3R4/8/2K5/6r1 b - - 45 20",
    "k7/8/1K6/8/8/8/8/6Q1 w - - 0 1",
    "k7/2Q5/8/2K5/8/8/8/8 w - - 97 120",
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "8/8/8/2k5/2pP4/8/B7/4K3 b - d3 0 3",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
)


def action_of(move: chess.Move, board: chess.Board) -> int:
    """Our number of a legal move."""
    turn = 0 if board.turn else 56
    start, end = move.from_square ^ turn, move.to_square ^ turn
    step = ((end & 7) - (start & 7), (end >> 3) - (start >> 3))
    if move.promotion in (None, chess.QUEEN):
        plane = PLANE[step]
    else:
        plane = 64 + 3 * (move.promotion - chess.KNIGHT) + {0: 0, -1: 1, 1: 2}[step[0]]
    assert start + OFFSETS[plane] == end
    return 64 * plane + start


def legal_actions(board: chess.Board) -> dict[int, chess.Move]:
    """Our numbers of all legal moves."""
    return {action_of(move, board): move for move in board.legal_moves}


def why_over(board: chess.Board, draws: str) -> str:
    """The reason why the game has ended, "" while it goes on."""
    outcome = board.outcome(claim_draw=False)
    if outcome is not None and outcome.termination in list(WHY)[:3]:
        return WHY[outcome.termination]
    if draws == "forced":
        return WHY[outcome.termination] if outcome else ""
    if board.halfmove_clock >= 100:
        return "fifty moves"
    return "threefold repetition" if board.is_repetition(3) else ""


class Games:
    """The same games played by us and by python-chess, side by side."""

    def __init__(self, rows: int, seed: int, rules: Chess, *, odd: bool = True) -> None:
        self.rules, self.random = rules, random.Random(seed)
        self.odd = odd
        self.boards = [self.fresh() for _ in range(rows)]
        self.state = rules.from_fens([self.fen(board) for board in self.boards])

    def fen(self, board: chess.Board) -> str:
        return board.fen(en_passant="fen")

    def fresh(self) -> chess.Board:
        if self.rules.chess960:
            return chess.Board.from_chess960_pos(self.random.randrange(960))
        if not self.odd or self.random.random() < 0.5:
            return chess.Board()
        starts = [board for fen in ODD_STARTS if not why_over(board := chess.Board(fen), self.rules.draws)]
        return self.random.choice(starts)

    def choose(self) -> list[chess.Move]:
        """A random move per board; odd rows like to go back and forth."""
        moves = []
        for row, board in enumerate(self.boards):
            legal = list(board.legal_moves)
            quiet = [move for move in legal if not board.is_zeroing(move)]
            if row % 2 and quiet and self.random.random() < 0.85:
                back = [
                    m for m in quiet if len(board.move_stack) > 1 and m.from_square == board.move_stack[-2].to_square
                ]
                back = [m for m in back if m.to_square == board.move_stack[-2].from_square]
                legal = back or quiet
            moves.append(self.random.choice(legal))
        return moves

    def step(self) -> None:
        """One ply in every game; finished games begin anew."""
        moves = self.choose()
        action = torch.tensor([action_of(move, board) for move, board in zip(moves, self.boards, strict=True)])
        for move, board in zip(moves, self.boards, strict=True):
            board.push(move)
        self.state = self.rules.play(self.state, action)

    def renew(self) -> None:
        over = self.rules.over(self.state)
        if over.any():
            for row in over.nonzero().flatten().tolist():
                self.boards[row] = self.fresh()
            fresh = self.rules.from_fens([self.fen(board) for board in self.boards])
            self.state = self.rules.restart(self.state, over, fresh)


def rows(state: State) -> list[State]:
    """The positions of a batch, one by one."""
    return [State(*parts) for parts in zip(*state, strict=True)]


def number(san: str) -> torch.Tensor:
    """The action of a move, as TorchRL numbers them."""
    return torch.tensor(san_moves().index(san))
