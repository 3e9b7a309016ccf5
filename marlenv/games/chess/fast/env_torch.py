"""A step of an env in torch operations on the CPU: what ``env_kernels.py`` does, into the same memory.

``paths.py`` calls this where numba is not installed or not wanted. The rules are those of ``moves.py`` and
``ending.py``. Making a large tensor costs more than filling it, so what is large is written where it is handed out,
and what is not written yet holds what is needed on the way there. Inference mode spares every operation a fifth of
its time; what is handed out was made outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marlenv.games.chess import bits, ending
from marlenv.games.chess.board import CHECKMATE, HALFMOVE, HASH, OUTCOME, PLANES, REPEATS, TURN, WORDS, State
from marlenv.games.chess.ending import Limits
from marlenv.games.chess.moves import Scratch, advance, generate
from marlenv.games.fast.compiled import ALL_GO_ON, ILLEGAL, SOME_OVER
from marlenv.games.fast.step_buffers import StepBuffers
from marlenv.rng import GOLDEN, mix_

WHITE = 0  # the seat


@torch.inference_mode()
def step(
    state: State,
    actions: Sequence[Tensor],
    done: Tensor,
    limits: Limits,
    chess960: bool,
    out: StepBuffers[State],
    fresh: State | None,
    restarted: StepBuffers[State] | None,
) -> int:
    """See :func:`marlenv.games.chess.fast.env_kernels.step`, which is given addresses; here are the tensors themselves.

    Args:
        state: of ``[*B]`` games.
        actions: of White, of Black; int64, a number per game.
        done: which games are over, bool ``[*B]``.
        limits: when games without progress are drawn.
        chess960: how castling is numbered.
        out: what an env says after the ply; written to.
        fresh: a first position without batch dimensions, if what follows is wanted.
        restarted: what an env says with a new game in place of each that is over, but its history and Black's mask;
            written to.
    """
    board, history, moves = (_rows(part) for part in state)
    words, done, n = bits.columns(board), done.reshape(-1), len(board)
    white, black = (chosen.reshape(-1) for chosen in actions)
    action = torch.where(words[TURN] == 0, white, black)
    legal, action = bits.chosen(moves, action)
    some_done = bool(done.any())
    if not bool((torch.where(done, words[OUTCOME], legal) if some_done else legal).all()):
        return ILLEGAL
    after, repeats = advance(words, action, chess960, bits.apart(words, WORDS, n)), None
    if some_done:
        after, repeats = words ^ ((words ^ after) & legal), words[REPEATS] & ~legal
    new_board, new_history, new_moves = (_rows(part) for part in out.state)
    scratch = Scratch(_in(new_history, PLANES, n), _in(out.action_masks[WHITE], 24, n))  # both are written later
    found = generate(after, chess960, scratch)
    hashed, stuck = ending.keyed(after, found), ending.stuck(found.planes)
    new_moves.copy_(found.planes.t())
    seen = torch.eq(history, hashed.unsqueeze(-1), out=new_history).sum(-1)
    outcome = ending.judged(after, stuck, found.checkers, ending.repetitions(seen, repeats), limits)
    kept, before = ending.progressing(after), words[HALFMOVE].clamp(max=limits.plies)
    torch.bitwise_and(history, kept.unsqueeze(-1), out=new_history)
    new_history.scatter_(-1, before.unsqueeze(-1), (words[HASH] & kept).unsqueeze(-1))
    new_board.copy_(after.t())
    rows = outcome.nonzero().squeeze(-1)
    new_moves.index_fill_(0, rows, 0)
    _write(after[TURN], outcome, out)
    _write_rewards(outcome, after[TURN], done, out)
    _write_mask(new_moves, out.flags[4:6], out.action_masks)
    if not len(rows):
        return ALL_GO_ON
    if fresh is not None and restarted is not None:
        restarted.action_masks[WHITE].copy_(out.action_masks[WHITE])
        _restart(rows, fresh, out.state, restarted)
        goes_on = bits.unfilled(outcome)
        _write(after[TURN] & goes_on, outcome & goes_on, restarted)  # White begins
    return SOME_OVER


@torch.inference_mode()
def reset(state: State, done: Tensor, fresh: State, out: StepBuffers[State]) -> bool:
    """See :func:`marlenv.games.chess.fast.env_kernels.reset`.

    ``fresh`` has no batch dimensions, or those of the games.
    """
    done = done.reshape(-1)
    if bool((done & (_rows(state.board)[:, OUTCOME] == 0)).any()):
        return False
    board, _, moves = (_rows(part) for part in state)
    white = (board[:, TURN] == 0) & (board[:, OUTCOME] == 0)
    _write_mask(moves, white.unsqueeze(0), out.action_masks[:1])
    _restart(done.nonzero().squeeze(-1), fresh, state, out)
    goes_on = done.to(torch.int64) - 1
    _write(board[:, TURN] & goes_on, board[:, OUTCOME] & goes_on, out)
    return True


def draw(state: State, key: Tensor, counter: int, offsets: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """A legal action of each mover for both players, see :func:`marlenv.games.chess.fast.env_kernels.draw`.

    int64 ``[*B, 1]`` each.
    """
    chosen = torch.empty(
        (2, *key.shape, 1), dtype=torch.int64, device=key.device
    )  # players share no memory that one of them may write to
    with torch.inference_mode():
        place = state.board[..., TURN] * (offsets[1] - offsets[0]) + (counter + offsets[0] + 1)
        number = mix_(key + place.mul_(GOLDEN)).bitwise_and_(-1 << 40)
        chosen.copy_(bits.sample(state.moves, number).unsqueeze(-1))
    return chosen[0], chosen[1]


def _rows(part: Tensor) -> Tensor:
    """A part of many games, one row after another."""
    return part.reshape(-1, part.shape[-1])


def _in(memory: Tensor, rows: int, n: int) -> Tensor:
    """The first part of some memory as words int64 ``[rows, n]``.

    The rows lie as :func:`marlenv.games.chess.bits.apart` lays them; closer together where the memory is too small
    for that.
    """
    words = memory.view(-1).view(torch.int64)
    return words.as_strided((rows, n), (min(n + 8, len(words) // rows), 1))


def _write(turn: Tensor, outcome: Tensor, out: StepBuffers[State]) -> None:
    """Writes turns, outcomes, flags and observations, given whose turn it is and why games ended; int64 ``[N]``."""
    out.turn.view(-1).copy_(turn)
    out.outcome.view(-1).copy_(outcome)
    over, second = outcome != 0, turn != 0
    going = ~over
    black = going & second
    own = (over, torch.zeros_like(over), over, going)
    torch.stack((*own, going ^ black, black, *own, *own), out=out.flags.view(14, -1))
    for observation in out.observations:
        observation.copy_(out.state.board.unsqueeze(-2))


def _write_rewards(outcome: Tensor, turn: Tensor, done: Tensor, out: StepBuffers[State]) -> None:
    """Writes the rewards of a move in the games that were not ``done`` before, given who is to move after it."""
    mated, second = (outcome == CHECKMATE) & ~done, turn != 0
    white = mated & second
    rewards = out.rewards.view(2, -1)
    rewards[0].copy_(white.view(torch.int8) - (mated ^ white).view(torch.int8))
    torch.neg(rewards[0], out=rewards[1])


def _write_mask(moves: Tensor, acts: Tensor, masks: Tensor) -> None:
    """Writes what seats may do, packed or as bools.

    Anything where they do not act, ``acts`` being bool ``[k, ...]``.
    """
    waits = (acts.reshape(len(acts), -1, 1).to(torch.int64)).sub_(1)
    if masks.dtype == torch.bool:
        bits.unpack(moves | waits, masks.view(len(acts), len(moves), -1))
    else:
        torch.bitwise_or(moves, waits, out=masks.view(len(acts), len(moves), -1))


def _restart(rows: Tensor, fresh: State, old: State, out: StepBuffers[State]) -> None:
    """Writes boards and moves, fresh ones in some rows; there White's mask, too."""
    first = State(*(part if part.ndim == 1 else _rows(part).index_select(0, rows) for part in fresh))
    white = out.action_masks[WHITE]
    out.state.board.copy_(old.board)
    out.state.moves.copy_(old.moves)
    mask = first.moves if white.dtype == torch.int64 else bits.unpack(first.moves)
    for part, start in ((out.state.board, first.board), (out.state.moves, first.moves), (white, mask)):
        _rows(part).index_copy_(0, rows, start.expand(len(rows), -1))
