"""The rules of ``moves.py``, ``ending.py`` and ``bits.py`` one board at a time, compiled by numba for the CPU.

The answers are the same bit for bit; ``tests/games/chess/test_chess_paths.py`` compares them. Importing this module
needs numba (``optional.need``), the first call compiles (seconds) and later processes read what is kept on disk
(``games/fast/cached.py``).

Words are uint64 here, so shifts to the right bring zeros. Together with a signed integer they would become a float:
every constant is wrapped in ``U``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import cgutils, errors, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from marlenv.games.chess.board import DARK, FILE_A, FILE_H, OFFSETS, STEPS, starts
from marlenv.games.chess.fast.lanes import Eight, Four, eight, four, joined, lane, put, rotated, total, twice, where
from marlenv.games.chess.tables import KNIGHT, PAWN, RING, around, hash_keys
from marlenv.games.fast.cached import compiled, inline
from marlenv.optional import need
from marlenv.rng import UNSIGNED_1, UNSIGNED_2, UNSIGNED_GOLDEN

numba = need("numba", "the numba path of chess")

U = np.uint64
Word = np.uint64
Words = NDArray[np.uint64]  # one board, or its planes
RowArray = NDArray[np.int64]  # as torch has them; their bits are read as words

WAYS = [[*range(4 * n, 4 * n + 4), *range(28 + 4 * n, 32 + 4 * n)] for n in range(7)] + [[*range(56, 64)]]
"""Planes that go the eight ways of a queen, by one square and by up to seven, and those of a knight."""
LEAPS = 7  # the last of them
ROTATION = np.array([[OFFSETS[p] % 64 for p in way] for way in WAYS], dtype=U)
"""How far to rotate so that a bit of where a plane leads lies where it starts."""
START = np.array([[starts(STEPS[p]) for p in way] for way in WAYS], dtype=U)
"""Where the plane may start: so, of what was rotated, nothing came around the end."""
STEP = np.array(OFFSETS[:4], dtype=U)
EVEN = np.array([~U(0), U(0)] * 2 + [~U(0)], dtype=U)
"""All bits of even lanes; of odd ones from the second on."""
OFFSET = np.array(OFFSETS, dtype=np.int64)
AROUND = np.array([around(square) for square in range(64)], dtype=U)
HASH_KEYS = np.array(hash_keys(), dtype=U)

ZERO, ONE, GOLDEN = U(0), U(1), U(UNSIGNED_GOLDEN)
EVERY = ~ZERO
NOT_A, NOT_H = ~U(FILE_A), ~U(FILE_H)
RANK_1, RANK_2, RANK_7 = U(0xFF), U(0xFF00), U(0xFF << 48)
DARK_SQUARES = U(DARK)


@inline
def _count(x: Word) -> Word:
    x = x - ((x >> U(1)) & U(0x5555555555555555))
    x = (x & U(0x3333333333333333)) + ((x >> U(2)) & U(0x3333333333333333))
    x = (x + (x >> U(4))) & U(0x0F0F0F0F0F0F0F0F)
    return (x * U(0x0101010101010101)) >> U(56)


@inline
def _index(one: Word) -> np.int64:
    return np.int64(_count(one - ONE))


@inline
def _lowest(x: Word) -> Word:
    return x & (ZERO - x)


@inline
def _highest(x: Word, step: Word) -> Word:
    below = x | (x >> step)
    below |= below >> (step + step)
    below |= below >> (U(4) * step)
    return x & ~(below >> step)


@inline
def _turned(x: Word) -> Word:
    x = ((x >> U(8)) & U(0x00FF00FF00FF00FF)) | ((x & U(0x00FF00FF00FF00FF)) << U(8))
    x = ((x >> U(16)) & U(0x0000FFFF0000FFFF)) | ((x & U(0x0000FFFF0000FFFF)) << U(16))
    return (x >> U(32)) | (x << U(32))


@inline
def _sliders(w: Words, side: Word) -> Four:
    """What a side has that goes along the four axes: rooks and queens, bishops and queens, and so on."""
    return (((w[5] | w[6]) & side) & four(EVEN, 0)) | (((w[4] | w[6]) & side) & four(EVEN, 1))


@inline
def _danger(w: Words, occupied: Word, king: Word) -> Word:
    """The squares that the king must not enter: eight ways at once, all the way back to where an attacker starts."""
    far, far_2, far_4, start = eight(ROTATION[0], 0), eight(ROTATION[1], 0), eight(ROTATION[3], 0), eight(START[0], 0)
    through = start & ~(occupied ^ king)
    found = twice(_sliders(w, w[1]))
    found |= through & rotated(found, far)
    through &= rotated(through, far)
    found |= through & rotated(found, far_2)
    through &= rotated(through, far_2)
    found |= through & rotated(found, far_4)
    attacked = (rotated(found, far) & start) | (
        rotated(w[3] & w[1], eight(ROTATION[LEAPS], 0)) & eight(START[LEAPS], 0)
    )
    pawns = w[2] & w[1]
    near = AROUND[_index(w[7] & w[1]), RING]
    return joined(attacked) | near | ((pawns >> U(7)) & NOT_A) | ((pawns >> U(9)) & NOT_H)


@inline
def _passant(w: Words, target: Word, exposing: Word, paired: Word) -> Word:
    """Pawns that may capture en passant as far as the king's rank and the captured pawn go."""
    captured = w[9] >> U(8)
    if not (w[9] | captured) & target or captured & exposing:
        return ZERO
    return w[2] & w[0] & ~paired if captured & paired else w[2] & w[0]


@inline
def _span(a: Word, b: Word) -> Word:
    """Two squares of the first rank and all between them."""
    return (max(a, b) << ONE) - min(a, b)


@inline
def _castles(w: Words, planes: Words, occupied: Word, king: Word, danger: Word, chess960: bool) -> None:
    home = w[8] & RANK_1
    rook = home & (ZERO - (king << ONE))
    if rook:
        way = _span(king, U(0x40))
        if not ((way | _span(rook, U(0x20))) & occupied & ~(king | rook) or way & danger):
            planes[4 * (_index(rook) - _index(king) - 1) if chess960 else 4] |= king
    rook = home & (king - ONE)
    if rook:
        way = _span(king, U(0x04))
        uncovered = ((w[5] | w[6]) & w[1] & ONE) << ONE & rook
        if not ((way | _span(rook, U(0x08))) & occupied & ~(king | rook) or way & danger or uncovered):
            planes[28 + 4 * (_index(king) - _index(rook) - 1) if chess960 else 32] |= king


@inline
def _slides(planes: Words, source: Eight, king: Word, safe: Word, onto: Word, empty: Word) -> None:
    """Writes moves of sliders, ``source``, that may leave in eight ways, and the king's."""
    for n in range(7):
        far, start = eight(ROTATION[n], 0), eight(START[n], 0)
        moves = source & start & rotated(onto, far)
        if n == 0:
            moves |= king & start & rotated(safe, far)
        put(moves, planes, 4 * n, 28 + 4 * n)
        source &= start & rotated(empty, far)


@inline
def _axes(near: Words, occupied: Word, enemies: Four) -> tuple[Four, Four, Four]:
    """Along four axes through the king: who gives check, his square and those between, and who shields the king."""
    up, down, step = four(near, 0), four(near, 4), four(STEP, 0)
    above, below = up & occupied, down & occupied
    first, last = _lowest(above), _highest(below, step)
    lines = where(first & enemies, up & (first ^ (first - ONE))) | where(last & enemies, down & (ZERO - last))
    behind = where(_lowest(above ^ first) & enemies, first) | where(_highest(below ^ last, step) & enemies, last)
    return (first | last) & enemies, lines, behind


@inline
def _paired(near: Words, occupied: Word, enemies: Word) -> Word:
    """Two neighbours on the king's rank that shield him together."""
    found = ZERO
    pieces = near[0] & occupied
    first = _lowest(pieces)
    second = _lowest(pieces ^ first)
    if _lowest(pieces ^ first ^ second) & enemies:
        found |= first | second
    pieces = near[4] & occupied
    first = _highest(pieces, ONE)
    second = _highest(pieces ^ first, ONE)
    if _highest(pieces ^ first ^ second, ONE) & enemies:
        found |= first | second
    return found


@compiled
def generate(w: Words, planes: Words, chess960: bool) -> tuple[Word, Word]:
    """Writes the packed actions of one board to ``planes``; returns checkers and the legal en-passant square."""
    own, opponent = w[0], w[1]
    occupied = own | opponent
    empty = ~occupied
    king = w[7] & own
    near = AROUND[_index(king)]
    leaps = (near[PAWN] & w[2] & opponent) | (near[KNIGHT] & w[3] & opponent)
    checks, lines, shields = _axes(near, occupied, _sliders(w, opponent))
    checkers = leaps | joined(checks)
    target = EVERY
    if checkers:
        target = ZERO if checkers & (checkers - ONE) else leaps | joined(lines)

    pins = joined(shields)
    free = own & ~(pins ^ shields)  # to leave along each axis
    danger = _danger(w, occupied, king)
    onto, safe = target & ~own, ~(own | danger)
    _slides(planes, twice(_sliders(w, own) & free), king, safe, onto, empty)
    far, start = eight(ROTATION[LEAPS], 0), eight(START[LEAPS], 0)
    put(w[3] & own & ~pins & start & rotated(onto, far), planes, 56, 60)

    pawns, free_left, free_right = w[2] & own, lane(free, 1), lane(free, 3)
    ahead = pawns & lane(free, 2) & (empty >> U(8))
    push = ahead & (onto >> U(8))
    left = pawns & free_left & ((onto & opponent) >> U(7)) & NOT_A
    right = pawns & free_right & ((onto & opponent) >> U(9)) & NOT_H
    for i in range(64, 73, 3):
        planes[i], planes[i + 1], planes[i + 2] = push & RANK_7, left & RANK_7, right & RANK_7
    passant = ZERO
    if w[9]:
        paired = _paired(near, occupied, (w[5] | w[6]) & opponent)
        able = _passant(w, target, lane(shields, 1) | lane(shields, 3), paired)
        left_too, right_too = (w[9] >> U(7)) & NOT_A & able & free_left, (w[9] >> U(9)) & NOT_H & able & free_right
        left |= left_too
        right |= right_too
        passant = w[9] if left_too | right_too else ZERO
    planes[1] |= left
    planes[2] |= push
    planes[3] |= right
    planes[6] |= ahead & (onto >> U(16)) & (empty >> U(16)) & RANK_2
    if w[8] & RANK_1:
        _castles(w, planes, occupied, king, danger, chess960)
    return checkers, passant


@inline
def _advance(w: Words, action: int, chess960: bool) -> None:
    """Plays a legal action on the first thirteen words and turns the board."""
    plane = action >> 6
    start = U(action & 63)
    from_bit = ONE << start
    to_bit = ONE << U(np.int64(start) + OFFSET[plane])
    gone = from_bit | to_bit
    kind = 2
    for i in range(3, 8):
        if w[i] & from_bit:
            kind = i
    captured = w[1] & to_bit
    rook_from = rook_to = ZERO
    if kind == 2 and to_bit & w[9]:
        captured |= to_bit >> U(8)
    if kind == 7:
        w[8] &= ~RANK_1
        if to_bit & w[0] if chess960 else plane in (4, 32):
            right = OFFSET[plane] > 0
            rook_from = to_bit if chess960 else U(0x80) if right else ONE
            rook_to = U(0x20) if right else U(0x08)
            to_bit = U(0x40) if right else U(0x04)
    w[8] &= ~gone
    left = ~(from_bit | captured | rook_from)
    for i in range(2, 8):
        w[i] &= left
    if kind == 2 and to_bit >> U(56):
        kind = 3 + (plane - 64) // 3 if plane >= 64 else 6
        w[9] = ZERO
        w[11] = ZERO
    else:
        w[9] = from_bit << U(8) if kind == 2 and plane == 6 else ZERO
        w[11] = ZERO if kind == 2 or captured else w[11] + ONE
    w[kind] |= to_bit
    w[5] |= rook_to
    w[0], w[1] = w[1] & left, (w[0] & left) | to_bit | rook_to
    for i in range(10):
        w[i] = _turned(w[i])
    w[12] += w[10]
    w[10] ^= ONE


@inline
def _mixed(x: Word) -> Word:
    """``marlenv.rng.mix``."""
    x = (x ^ (x >> U(30))) * U(UNSIGNED_1)
    x = (x ^ (x >> U(27))) * U(UNSIGNED_2)
    return x ^ (x >> U(31))


@inline
def _insufficient(w: Words) -> bool:
    if w[2] | w[5] | w[6]:
        return False
    minors = w[3] | w[4]
    one_colour = not w[3] and not (w[4] & DARK_SQUARES and w[4] & ~DARK_SQUARES)
    return one_colour or not minors & (minors - ONE)


@inline
def _settle(w: Words, history: Words, planes: Words, limits: RowArray, chess960: bool) -> None:
    """What ``ending.settle`` says.

    ``history`` holds the hashes before the clock, and is emptied when the game is over.
    """
    checkers, w[9] = generate(w, planes, chess960)
    key = _mixed((w[8] | w[9] | w[10] << U(28)) + HASH_KEYS[7])
    key += total(_mixed(four(w, 4) + four(HASH_KEYS, 3)))
    key += _mixed(w[0] + HASH_KEYS[0]) + _mixed(w[2] + HASH_KEYS[1]) + _mixed(w[3] + HASH_KEYS[2])
    clock = np.int64(w[11])
    at = min(clock, history.shape[0] - 1)
    repeats = 1
    for i in range(at - 2, -1, -2):
        repeats += history[i] == key
    some = ZERO
    for i in range(73):
        some |= planes[i]
    outcome = 0
    if not some and checkers:
        outcome = 1
    elif _insufficient(w):
        outcome = 2
    elif not some:
        outcome = 3
    elif clock >= limits[1]:
        outcome = limits[3]
    elif repeats >= limits[0]:
        outcome = limits[2]
    if outcome:
        for i in range(73):
            planes[i] = ZERO
        for i in range(at):
            history[i] = ZERO
    w[13], w[14], w[15] = key, U(repeats), U(outcome)


def _moved(context: Any, source: Any, target: Any) -> Any:
    """The code that copies an array without gaps to another of its size, in one go: element by element takes longer."""
    if not source.layout == target.layout == "C":
        raise errors.TypingError("_copy: arrays must have no gaps")

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        old, new = (
            context.make_array(kind)(context, builder, arg) for kind, arg in zip(signature.args, args, strict=True)
        )
        size = cgutils.unpack_tuple(builder, old.shape)[0]
        cgutils.raw_memmove(builder, new.data, old.data, size, context.get_abi_sizeof(old.data.type.pointee))
        return context.get_dummy_value()

    return types.void(source, target), code


_copy: Any = intrinsic(_moved)


@inline
def _recall(old: Words, new: Words, at: np.int64, key: Word) -> None:
    """The hashes up to the clock ``at``, where ``key`` stood; 0 behind it, and everywhere if it is -1."""
    kept = min(at, new.shape[0] - 1)
    for i in range(new.shape[0]):  # from 0: an index that might be negative costs a look at each
        new[i] = old[i] if i < kept else ZERO
    if kept >= 0:
        new[kept] = key


@inline
def _ply(w: Words, history: Words, past: Words, planes: Words, action: int, limits: RowArray, chess960: bool) -> None:
    """Plays a legal action on the words of one board; ``history`` becomes ``past``, and ``planes`` are written."""
    before, key = np.int64(w[11]), w[13]
    _advance(w, action, chess960)
    _recall(history, past, before if w[11] else np.int64(-1), key)
    _settle(w, past, planes, limits, chess960)


@compiled
def settle(board: RowArray, history: RowArray, moves: RowArray, limits: RowArray, chess960: bool) -> None:
    """Completes ``board`` ``[N, 16]`` in place and fills ``moves`` ``[N, 73]``; ``history`` ``[N, K]`` is all 0."""
    words, past, planes = board.view(U), history.view(U), moves.view(U)
    for b in range(board.shape[0]):
        _settle(words[b], past[b], planes[b], limits, chess960)


@inline
def _permitted(moves: Any, a: np.int64) -> Any:
    """Whether an action is among the packed moves of a row."""
    return 0 <= a < 4672 and bool((moves[a >> 6] >> (a & 63)) & 1)


@compiled
def permits(moves: RowArray, action: RowArray, fits: Any) -> None:
    """Whether each action ``[N]`` is among the ``moves`` of its row; bool ``fits`` ``[N]``."""
    for b in range(moves.shape[0]):
        fits[b] = _permitted(moves[b], action[b])


@compiled
def play(
    board: RowArray,
    history: RowArray,
    moves: RowArray,
    action: RowArray,
    limits: RowArray,
    chess960: bool,
    new_board: RowArray,
    new_history: RowArray,
    new_moves: RowArray,
    same: bool,
) -> None:
    """Writes the positions after ``action`` ``[N]``; a row whose action is not among its ``moves`` stays as it is.

    ``same`` says that the new rows are the old ones.
    """
    words, past, planes = new_board.view(U), new_history.view(U), new_moves.view(U)
    for b in range(board.shape[0]):
        a = action[b]
        legal = _permitted(moves[b], a)
        if not same:
            _copy(board[b], new_board[b])
            if not legal:
                _copy(history[b], new_history[b])
                _copy(moves[b], new_moves[b])
        if legal:
            _ply(words[b], history[b].view(U), past[b], planes[b], a, limits, chess960)


@compiled
def step(
    board: RowArray,
    history: RowArray,
    moves: RowArray,
    action: RowArray,
    limits: RowArray,
    chess960: bool,
    new_board: RowArray,
    new_history: RowArray,
    new_moves: RowArray,
    same: bool,
    fresh_board: RowArray,
    fresh_history: RowArray,
    fresh_moves: RowArray,
    ended: RowArray,
) -> None:
    """``play``, the boards after it to ``ended`` ``[N, 16]``, and a fresh position where the game is over."""
    play(board, history, moves, action, limits, chess960, new_board, new_history, new_moves, same)
    many = fresh_board.shape[0] > 1
    for b in range(board.shape[0]):
        _copy(new_board[b], ended[b])
        if new_board[b, 15]:
            f = b if many else 0
            _copy(fresh_board[f], new_board[b])
            _copy(fresh_history[f], new_history[b])
            _copy(fresh_moves[f], new_moves[b])


@compiled
def restart(
    where: NDArray[np.bool_],
    board: RowArray,
    history: RowArray,
    moves: RowArray,
    fresh_board: RowArray,
    fresh_history: RowArray,
    fresh_moves: RowArray,
    new_board: RowArray,
    new_history: RowArray,
    new_moves: RowArray,
    same: bool,
) -> None:
    """Writes the fresh position (one row, or one per row) where ``where`` ``[N]`` says so, else the old one."""
    many = fresh_board.shape[0] > 1
    for b in range(board.shape[0]):
        if where[b]:
            f = b if many else 0
            _copy(fresh_board[f], new_board[b])
            _copy(fresh_history[f], new_history[b])
            _copy(fresh_moves[f], new_moves[b])
        elif not same:
            _copy(board[b], new_board[b])
            _copy(history[b], new_history[b])
            _copy(moves[b], new_moves[b])


@compiled
def follow(board: RowArray, action: int, moves: RowArray, chess960: bool) -> Word:
    """Plays a legal action on one board ``[16]``, or none if it is negative.

    Writes what may follow, returns checkers.
    """
    words = board.view(U)
    if action >= 0:
        _advance(words, action, chess960)
    checkers, words[9] = generate(words, moves.view(U), chess960)
    return checkers


@inline
def _drawn(planes: Words, random: Word) -> np.int64:
    """The action that 64 random bits choose; 0 where there is none."""
    total = ZERO
    for p in range(73):
        total += _count(planes[p])
    rank = ((random >> U(32)) * total) >> U(32)
    for p in range(73):
        here = _count(planes[p])
        if rank < here:
            left = planes[p]
            for _ in range(rank):
                left &= left - ONE
            return 64 * p + _index(_lowest(left))
        rank -= here
    return np.int64(0)


@compiled
def sample(moves: RowArray, bits: RowArray, action: RowArray) -> None:
    """Draws a legal action per row by the high half of ``bits`` ``[N]``."""
    planes, random = moves.view(U), bits.view(U)
    for b in range(moves.shape[0]):
        action[b] = _drawn(planes[b], random[b])


@compiled
def draw(moves: RowArray, key: RowArray, counter: RowArray, action: RowArray) -> None:
    """The same with the next bits of ``marlenv.rng.RowRNG``, whose ``counter`` stays as it is."""
    planes, keys, counters = moves.view(U), key.view(U), counter.view(U)
    for b in range(moves.shape[0]):
        action[b] = _drawn(planes[b], _mixed(keys[b] + (counters[b] + ONE) * GOLDEN))


@compiled
def unpack(moves: RowArray, mask: RowArray) -> None:
    """Packed actions as bytes of 0 and 1 in ``mask`` ``[N, 584]``, eight to a word."""
    planes, words = moves.view(U), mask.view(U)
    for b in range(moves.shape[0]):
        for i in range(584):
            words[b, i] = ZERO
        for p in range(73):
            left = planes[b, p]
            while left:
                square = _index(_lowest(left))
                words[b, 8 * p + (square >> 3)] |= ONE << U(8 * (square & 7))
                left &= left - ONE


@compiled
def perft(words: Words, depth: int, chess960: bool) -> np.int64:
    """The number of games of ``depth`` plies, at least 1, from the position of ``words`` ``[16]``."""
    boards, planes = np.empty((depth, 16), dtype=U), np.empty((depth, 73), dtype=U)
    boards[0] = words
    generate(boards[0], planes[0], chess960)
    at = np.zeros(depth, dtype=np.int64)
    level, found = 0, np.int64(0)
    while level >= 0:
        if level == depth - 1:
            for p in range(73):
                found += np.int64(_count(planes[level, p]))
            level -= 1
            continue
        while at[level] < 73 and not planes[level, at[level]]:
            at[level] += 1
        if at[level] == 73:
            level -= 1
            continue
        bit = _lowest(planes[level, at[level]])
        planes[level, at[level]] ^= bit
        boards[level + 1] = boards[level]
        _advance(boards[level + 1], 64 * at[level] + _index(bit), chess960)
        level += 1
        generate(boards[level], planes[level], chess960)
        at[level] = 0
    return found
