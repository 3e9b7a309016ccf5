"""A step of an env in one call: a ply of many games with all that the env says about it; compiled by numba for the CPU.

``paths.py`` calls this. The rules are those of ``kernels.py``.

What an env says about ``n`` games stands in five places: the seats to move, int64 ``[n]``; flags, bool ``[14, n]``, as
:class:`marlenv.games.fast.step_buffers.StepBuffers` lists them; why games ended, int8 ``[n]``; the rewards of White
and Black, float32 ``[2, n]``; and the boards, int64 ``[3, n, 16]``: the games', and those that the players see.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from marlenv.games.chess.fast.kernels import (
    GOLDEN,
    ONE,
    ZERO,
    RowArray,
    U,
    Word,
    _copy,
    _count,
    _index,
    _lowest,
    _mixed,
    _permitted,
    _ply,
    numba,
)
from marlenv.games.fast.by_rows import by_rows
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.plain_arrays import bare

MANY = 256
"""From so many games on one of them nearly always ends, and new games are written while a row is at hand."""

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Entries = tuple[RowArray, Bytes, Bytes, Floats, RowArray]
"""Turns, flags, outcomes, rewards; the boards, and behind them those that the players see."""
Masks = tuple[RowArray, int, bool]
"""Of a seat: words of all games, their address, and whether they are written past the caches."""

CACHE = 1 << 21
"""Bytes; larger masks are written past the caches: reading what is written over would take longer than writing it."""
BLOCK = 64
"""Games whose plies are played before their masks are written.

A core that waits for memory at every game plays slowly.
"""


@inline
def _write(b: int, board: RowArray, moved: bool, entries: Entries) -> None:
    """Writes what an env says about game ``b``, in which somebody has just moved, or not."""
    _say(b, board, moved, entries)
    turns, boards = entries[0], entries[4]
    _copy(board, boards[len(turns) + b])
    _copy(board, boards[2 * len(turns) + b])


@inline
def _say(b: int, board: RowArray, moved: bool, entries: Entries) -> None:
    """The same without the boards."""
    seat, why = board[10], board[15]
    turns, flags, ends, rewards, _ = entries
    won = np.float32(2 * seat - 1) if why == 1 and moved else np.float32(0.0)
    rewards[0, b], rewards[1, b] = won, 0.0 - won
    turns[b, 0], ends[b] = seat, why
    flags[0, b], flags[1, b], flags[2, b], flags[3, b] = why != 0, 0, why != 0, why == 0
    flags[4, b], flags[5, b] = why == 0 and seat == 0, why == 0 and seat == 1
    for own in (6, 10):
        flags[own, b], flags[own + 1, b], flags[own + 2, b], flags[own + 3, b] = why != 0, 0, why != 0, why == 0


def _inttoptr(context: Any, address: Any) -> Any:
    """The code of a number as a pointer."""
    return types.voidptr(types.int64), lambda context, builder, signature, args: builder.inttoptr(
        args[0], cgutils.voidptr_t
    )


_pointer: Any = intrinsic(_inttoptr)


def _spreading(past: bool) -> Any:
    """Writes the 64 bits of a word as 64 bools to an address.

    Past the caches, if that is a multiple of 64, or through them.
    """

    def typed(context: Any, address: Any, word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bools = ir.VectorType(ir.IntType(8), 64)
            spread = builder.zext(builder.bitcast(args[1], ir.VectorType(ir.IntType(1), 64)), bools)
            written = builder.store(spread, builder.inttoptr(args[0], bools.as_pointer()), align=64 if past else 1)
            if past:
                written.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), code

    return intrinsic(typed)


_spread: Any = _spreading(past=False)
_spread_past: Any = _spreading(past=True)


@inline
def _rows(address: int, n: int, width: int) -> RowArray:
    return numba.carray(_pointer(address), (n, width), np.int64)


@inline
def _positions(at: tuple[int, int, int], n: int, kept: int) -> tuple[RowArray, RowArray, RowArray]:
    """Boards, histories and moves at their addresses."""
    return _rows(at[0], n, 16), _rows(at[1], n, kept), _rows(at[2], n, 73)


@inline
def _masks(address: int, n: int, width: int) -> Masks:
    return _rows(address, n, width), address, 8 * n * width > CACHE and address & 63 == 0


@inline
def _flags(address: int, n: int) -> Bytes:
    return numba.carray(_pointer(address), (n,), np.uint8)


@inline
def _entries(n: int, at: tuple[int, int, int, int, int]) -> Entries:
    flags = numba.carray(_pointer(at[1]), (14, n), np.uint8)
    rewards = numba.carray(_pointer(at[3]), (2, n), np.float32)
    return _rows(at[0], n, 1), flags, _flags(at[2], n), rewards, _rows(at[4], 3 * n, 16)


@inline
def _write_mask(b: int, moves: RowArray, acts: bool, masks: Masks) -> None:
    """Writes what a seat may do in game ``b``, packed or as bools: anything where it does not act."""
    rows, address, streams = masks
    if rows.shape[1] == moves.shape[0]:
        for p in range(moves.shape[0]):
            rows[b, p] = moves[p] if acts else -1
        return
    at = address + 8 * rows.shape[1] * b
    if streams:
        for p in range(moves.shape[0]):
            _spread_past(at + 64 * p, moves[p] if acts else -1)
    else:
        for p in range(moves.shape[0]):
            _spread(at + 64 * p, moves[p] if acts else -1)


@inline
def _restart(
    b: int,
    f: int,
    over: bool,
    fresh: tuple[RowArray, RowArray],
    old: tuple[RowArray, RowArray],
    new: tuple[RowArray, RowArray],
    masks: Masks,
    entries: Entries,
) -> None:
    """Writes board, moves and White's mask of game ``b``, fresh ones (number ``f``) where it is over, and all else.

    Histories and Black's masks are written by :func:`_begin`, where they are wanted.
    """
    if over:
        _copy(fresh[0][f], new[0][b])
        _copy(fresh[1][f], new[1][b])
    else:
        _copy(old[0][b], new[0][b])
        _copy(old[1][b], new[1][b])
    _write_mask(b, new[1][b], new[0][b, 15] == 0 and new[0][b, 10] == 0, masks)
    _write(b, new[0][b], False, entries)


@inline
def _begin(
    b: int,
    first: tuple[RowArray, RowArray],
    old: tuple[RowArray, RowArray, RowArray],
    new: tuple[RowArray, RowArray, RowArray],
    masks: tuple[Masks, Masks],
    entries: Entries,
    whole: bool,
) -> None:
    """Writes game ``b``, or one that begins where it is over; of the ``whole`` history and Black's mask, too.

    Those are the same in both.
    """
    _restart(b, 0, old[0][b, 15] != 0, first, (old[0], old[1]), (new[0], new[1]), masks[0], entries)
    if whole:
        _copy(old[2][b], new[2][b])
        _write_mask(b, old[1][b], old[0][b, 15] == 0 and old[0][b, 10] == 1, masks[1])


@inline
def _chosen(b: int, board: RowArray, white: RowArray, black: RowArray) -> Any:
    """The action of who is to move in game ``b``."""
    return black[b, 0] if board[b, 10] else white[b, 0]


@compiled
def step(
    threads: tuple[int, int],
    n: int,
    kept: int,
    width: int,
    old: tuple[int, int, int],
    chosen: tuple[int, int],
    done_at: int,
    limits: RowArray,
    chess960: bool,
    new: tuple[int, int, int],
    masks: tuple[int, int],
    entries_at: tuple[int, int, int, int, int],
    restarted: tuple[int, int, int, int, int],
    taken_over: tuple[int, int],
    restarted_entries_at: tuple[int, int, int, int, int],
) -> int:
    """Plays the actions of those to move in ``n`` games, and writes what an env says about what follows.

    0, and nothing of use, if an action is illegal; 2 if the restarted ones were written, as games are over or all of
    them are wanted; else 1.

    Games that are done must be over by the rules. Arguments are addresses of int64 (done: of bool): reading a number
    costs much less than reading an array does.

    Args:
        threads: what :func:`marlenv.threads.shared` says.
        n: games.
        kept: positions in a history.
        width: words of a mask.
        old: board, history, moves.
        chosen: the actions of White, of Black.
        done_at: which games are over, bool ``[n]``.
        limits: see ``kernels.play``.
        chess960: how castling is numbered.
        new: board, history, moves to write to.
        masks: of White and Black, to write to.
        entries_at: what an env says, to write to.
        restarted: a fresh board and its moves; the boards, moves and White's mask with a new game in place of each
            that is over, to write to. Zeros: none of it is wanted.
        taken_over: the histories and Black's mask of those, to write to; zeros: not wanted.
        restarted_entries_at: what an env says of those, to write to.
    """
    at_once = n >= MANY or threads[0] > 1  # a game of another thread may be over
    given = n, kept, width, old, chosen, done_at, bare(limits), chess960, new, masks, entries_at
    least = by_rows(_step, (*given, restarted, taken_over, restarted_entries_at, at_once), n, threads)
    return 0 if least == 0 else 3 - least


@compiled
def _step(
    n: int,
    kept: int,
    width: int,
    old: tuple[int, int, int],
    chosen: tuple[int, int],
    done_at: int,
    limits: RowArray,
    chess960: bool,
    new: tuple[int, int, int],
    masks: tuple[int, int],
    entries_at: tuple[int, int, int, int, int],
    restarted: tuple[int, int, int, int, int],
    taken_over: tuple[int, int],
    restarted_entries_at: tuple[int, int, int, int, int],
    at_once: bool,
    first_game: int,
    last_game: int,
) -> int:
    """See :func:`step`; 0 if an action is illegal, 1 where step says 2, else 2.

    ``at_once`` says that restarted ones are written while a row is at hand, whether or not a game is over.
    """
    board, history, moves = _positions(old, n, kept)
    white, black, done = _rows(chosen[0], n, 1), _rows(chosen[1], n, 1), _flags(done_at, n)
    new_board, new_history, new_moves = _positions(new, n, kept)
    white_mask, black_mask = _masks(masks[0], n, width), _masks(masks[1], n, width)
    entries, over = _entries(n, entries_at), False
    for b in range(first_game, last_game):
        if not (board[b, 15] if done[b] else _permitted(moves[b], _chosen(b, board, white, black))):
            return 0
    words, past, planes, before = new_board.view(U), new_history.view(U), new_moves.view(U), history.view(U)
    first = _rows(restarted[0], 1, 16), _rows(restarted[1], 1, 73)
    played, whole = (new_board, new_moves, new_history), taken_over[0] != 0
    fresh = _rows(restarted[2], n, 16), _rows(restarted[3], n, 73), _rows(taken_over[0], n, kept)
    fresh_masks = _masks(restarted[4], n, width), _masks(taken_over[1], n, width)
    fresh_entries = _entries(n, restarted_entries_at)
    for start in range(first_game, last_game, BLOCK):
        block = range(start, min(start + BLOCK, last_game))
        for b in block:
            _copy(board[b], new_board[b])
            if done[b]:
                _copy(history[b], new_history[b])
                _copy(moves[b], new_moves[b])
            else:
                a = _chosen(b, board, white, black)
                _ply(words[b], before[b], past[b], planes[b], a, limits, chess960)
            _write(b, new_board[b], done[b] == 0, entries)
            over = over or new_board[b, 15] != 0
        for b in block:
            _write_mask(b, new_moves[b], new_board[b, 15] == 0 and new_board[b, 10] == 0, white_mask)
        for b in block:
            _write_mask(b, new_moves[b], new_board[b, 15] == 0 and new_board[b, 10] == 1, black_mask)
        if restarted[0] != 0 and at_once:
            for b in block:
                _begin(b, first, played, fresh, fresh_masks, fresh_entries, whole)
    if restarted[0] == 0 or not (over or whole):
        return 2
    if not at_once:
        for b in range(first_game, last_game):
            _begin(b, first, played, fresh, fresh_masks, fresh_entries, whole)
    return 1


@compiled
def reset(
    threads: tuple[int, int],
    n: int,
    width: int,
    done_at: int,
    many: bool,
    fresh: tuple[int, int],
    old: tuple[int, int],
    new: tuple[int, int],
    mask_at: int,
    entries_at: tuple[int, int, int, int, int],
) -> bool:
    """Writes fresh boards and moves (one, or one per row), White to move, where games are done, else the old ones.

    What an env says is written for all games. Of the masks White's is written; Black's mask of a game that is over fits
    that of a fresh one. False, and nothing of use, if a game that is done is not over by the rules.
    """
    return by_rows(_reset, (n, width, done_at, many, fresh, old, new, mask_at, entries_at), n, threads) != 0


@compiled
def _reset(
    n: int,
    width: int,
    done_at: int,
    many: bool,
    fresh: tuple[int, int],
    old: tuple[int, int],
    new: tuple[int, int],
    mask_at: int,
    entries_at: tuple[int, int, int, int, int],
    start: int,
    stop: int,
) -> int:
    many_rows = n if many else 1
    first = _rows(fresh[0], many_rows, 16), _rows(fresh[1], many_rows, 73)
    held, done = (_rows(old[0], n, 16), _rows(old[1], n, 73)), _flags(done_at, n)
    started, masks = (_rows(new[0], n, 16), _rows(new[1], n, 73)), _masks(mask_at, n, width)
    entries = _entries(n, entries_at)
    for b in range(start, stop):
        if done[b] and not held[0][b, 15]:
            return 0
    for b in range(start, stop):
        _restart(b, b if many else 0, done[b] != 0, first, held, started, masks, entries)
    return 1


@inline
def _ranked(moves: RowArray, random: Word) -> np.int64:
    """The action that 24 random bits choose; 0 where there is none."""
    total = ZERO
    for p in range(73):
        total += _count(U(moves[p]))
    rank = (random * total) >> U(24)
    for p in range(73):
        left = U(moves[p])
        here = _count(left)
        if rank < here:
            for _ in range(rank):
                left &= left - ONE
            return 64 * p + _index(_lowest(left))
        rank -= here
    return np.int64(0)


@compiled
def draw(
    threads: tuple[int, int],
    n: int,
    board_at: int,
    moves_at: int,
    key_at: int,
    counter: int,
    offsets: tuple[int, int],
    chosen: tuple[int, int],
) -> None:
    """Draws a legal action per row with the number of the mover, and gives it to both players."""
    by_rows(_draw, (n, board_at, moves_at, key_at, counter, offsets, chosen), n, threads)


@compiled
def _draw(
    n: int,
    board_at: int,
    moves_at: int,
    key_at: int,
    counter: int,
    offsets: tuple[int, int],
    chosen: tuple[int, int],
    start: int,
    stop: int,
) -> int:
    board, moves, key = _rows(board_at, n, 16), _rows(moves_at, n, 73), _rows(key_at, n, 1)
    white, black = _rows(chosen[0], n, 1), _rows(chosen[1], n, 1)
    for b in range(start, stop):
        at = U(counter + (offsets[1] if board[b, 10] else offsets[0]) + 1)
        number = _mixed(U(key[b, 0]) + at * GOLDEN)
        white[b, 0] = black[b, 0] = _ranked(moves[b], number >> U(40))
    return 0
