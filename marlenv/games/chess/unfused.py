"""What ``fused.py`` does in one compiled call, as torch operations on the CPU, into the same memory.

The rules are those of ``moves.py`` and ``ending.py``. Making a large tensor costs more than filling it, so what is large is
written where it is handed out, and what is not written yet holds what is needed on the way there. Inference mode spares
every operation a fifth of its time; what is handed out was made outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marlenv.games.chess import bits, ending
from marlenv.games.chess.board import CHECKMATE, HALFMOVE, HASH, OUTCOME, PLANES, REPEATS, TURN, WORDS, State
from marlenv.games.chess.ending import Limits
from marlenv.games.chess.moves import Room, advance, generate
from marlenv.games.memory import SOME_OVER
from marlenv.games.rules import Told
from marlenv.rng import GOLDEN, mix_

WHITE = 0  # the seat


@torch.inference_mode()
def turn(
    state: State,
    actions: Sequence[Tensor],
    gone: Tensor,
    limits: Limits,
    chess960: bool,
    out: Told[State],
    fresh: State | None,
    renewed: Told[State] | None,
) -> int:
    """See :func:`marlenv.games.chess.fused.turn`, which is given addresses; here are the tensors themselves.

    Args:
        state: of ``[*B]`` games.
        actions: of White, of Black; int64, a number per game.
        gone: which games are over, bool ``[*B]``.
        limits: when games without progress are drawn.
        chess960: how castling is numbered.
        out: what is told after the ply; written to.
        fresh: a first position without batch dimensions, if what follows is wanted.
        renewed: what is told when games that are over have begun anew, but its history and Black's mask; written to.
    """
    board, history, moves = (_rows(part) for part in state)
    words, gone, n = bits.columns(board), gone.reshape(-1), len(board)
    white, black = (chosen.reshape(-1) for chosen in actions)
    action = torch.where(words[TURN] == 0, white, black)
    legal, action = bits.chosen(moves, action)
    some_gone = bool(gone.any())
    if not bool((torch.where(gone, words[OUTCOME], legal) if some_gone else legal).all()):
        return 0
    after, repeats = advance(words, action, chess960, bits.apart(words, WORDS, n)), None
    if some_gone:
        after, repeats = words ^ ((words ^ after) & legal), words[REPEATS] & ~legal
    new_board, new_history, new_moves = (_rows(part) for part in out.state)
    room = Room(_in(new_history, PLANES, n), _in(out.allowed[WHITE], 24, n))  # both are written later
    found = generate(after, chess960, room)
    hashed, stuck = ending.keyed(after, found), ending.stuck(found.planes)
    new_moves.copy_(found.planes.t())
    seen = torch.eq(history, hashed.unsqueeze(-1), out=new_history).sum(-1)
    outcome = ending.judged(after, stuck, found.checkers, ending.counted(seen, repeats), limits)
    kept, before = ending.progressing(after), words[HALFMOVE].clamp(max=limits.plies)
    torch.bitwise_and(history, kept.unsqueeze(-1), out=new_history)
    new_history.scatter_(-1, before.unsqueeze(-1), (words[HASH] & kept).unsqueeze(-1))
    new_board.copy_(after.t())
    rows = outcome.nonzero().squeeze(-1)
    new_moves.index_fill_(0, rows, 0)
    _tell(after[TURN], outcome, out)
    _earn(outcome, after[TURN], gone, out)
    _allow(new_moves, out.flags[4:6], out.allowed)
    if not len(rows):
        return 1
    if fresh is not None and renewed is not None:
        renewed.allowed[WHITE].copy_(out.allowed[WHITE])
        _begin(rows, fresh, out.state, renewed)
        goes_on = bits.unfilled(outcome)
        _tell(after[TURN] & goes_on, outcome & goes_on, renewed)  # White begins
    return SOME_OVER


@torch.inference_mode()
def renew(state: State, gone: Tensor, fresh: State, out: Told[State]) -> bool:
    """See :func:`marlenv.games.chess.fused.renew`; ``fresh`` has no batch dimensions, or those of the games."""
    gone = gone.reshape(-1)
    if bool((gone & (_rows(state.board)[:, OUTCOME] == 0)).any()):
        return False
    board, _, moves = (_rows(part) for part in state)
    white = (board[:, TURN] == 0) & (board[:, OUTCOME] == 0)
    _allow(moves, white.unsqueeze(0), out.allowed[:1])
    _begin(gone.nonzero().squeeze(-1), fresh, state, out)
    goes_on = gone.to(torch.int64) - 1
    _tell(board[:, TURN] & goes_on, board[:, OUTCOME] & goes_on, out)
    return True


def choose(state: State, key: Tensor, counter: int, lanes: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """A legal action of each mover for both players, see :func:`marlenv.games.chess.fused.choose`; int64 ``[*B, 1]`` each."""
    chosen = torch.empty((2, *key.shape, 1), dtype=torch.int64)  # players share no memory that one of them may write to
    with torch.inference_mode():
        lane = state.board[..., TURN] * (lanes[1] - lanes[0]) + (counter + lanes[0] + 1)
        number = mix_(key + lane.mul_(GOLDEN)).bitwise_and_(-1 << 40)
        chosen.copy_(bits.sample(state.moves, number).unsqueeze(-1))
    return chosen[0], chosen[1]


def _rows(part: Tensor) -> Tensor:
    """A part of many games, one row after another."""
    return part.reshape(-1, part.shape[-1])


def _in(memory: Tensor, rows: int, n: int) -> Tensor:
    """The first part of some memory as words int64 ``[rows, n]``.

    The rows lie as :func:`marlenv.games.chess.bits.apart` lays them; closer together where the memory is too small for that.
    """
    words = memory.view(-1).view(torch.int64)
    return words.as_strided((rows, n), (min(n + 8, len(words) // rows), 1))


def _tell(turn: Tensor, outcome: Tensor, told: Told[State]) -> None:
    """Writes what is told of games, given whose turn it is and why they ended; int64 ``[N]``."""
    told.turn.view(-1).copy_(turn)
    told.outcome.view(-1).copy_(outcome)
    over, second = outcome != 0, turn != 0
    going = ~over
    black = going & second
    own = (over, torch.zeros_like(over), over, going)
    torch.stack((*own, going ^ black, black, *own, *own), out=told.flags.view(14, -1))
    for seen in told.seen:
        seen.copy_(told.state.board.unsqueeze(-2))


def _earn(outcome: Tensor, turn: Tensor, gone: Tensor, told: Told[State]) -> None:
    """Writes what was earned by those who came to move, or to no move, in games that were not ``gone`` before."""
    mated, second = (outcome == CHECKMATE) & ~gone, turn != 0
    white = mated & second
    earned = told.earned.view(2, -1)
    earned[0].copy_(white.view(torch.int8) - (mated ^ white).view(torch.int8))
    torch.neg(earned[0], out=earned[1])


def _allow(moves: Tensor, acts: Tensor, masks: Tensor) -> None:
    """Writes what seats may do, packed or as bools: anything where they do not act, ``acts`` being bool ``[k, ...]``."""
    waits = (acts.reshape(len(acts), -1, 1).to(torch.int64)).sub_(1)
    if masks.dtype == torch.bool:
        bits.unpack(moves | waits, masks.view(len(acts), len(moves), -1))
    else:
        torch.bitwise_or(moves, waits, out=masks.view(len(acts), len(moves), -1))


def _begin(rows: Tensor, fresh: State, old: State, told: Told[State]) -> None:
    """Writes boards and moves, fresh ones in some rows; there White's mask, too."""
    first = State(*(part if part.ndim == 1 else _rows(part).index_select(0, rows) for part in fresh))
    white = told.allowed[WHITE]
    told.state.board.copy_(old.board)
    told.state.moves.copy_(old.moves)
    allowed = first.moves if white.dtype == torch.int64 else bits.unpack(first.moves)
    for part, begun in ((told.state.board, first.board), (told.state.moves, first.moves), (white, allowed)):
        _rows(part).index_copy_(0, rows, begun.expand(len(rows), -1))
