"""Steps and draws of Go, compiled by numba: the same bits as the rules in ``go.py``.

Only what a stone touches is looked at again: its chain, and the chains beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.board_kernels import (
    NONE,
    ONE,
    WORD,
    above,
    at_a_time,
    at_hand,
    below,
    bits,
    carry,
    draw_place,
    enter,
    equal,
    fetch,
    fill,
    finish,
    hand_on,
    hands,
    load,
    lowest,
    nth,
    put,
    replace,
    store,
    words_of,
)
from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.plain_arrays import bare, rows_from
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

Board = tuple[int, tuple[float, float], int, int, Array, Array]
"""Size, the points that komi gives black and white, what repetitions do (``ALLOW`` ...), after how many moves games
end, the neighbours of each cell ``[N + 1, 4]``, and what black's and white's stones add to the hash of a board
``[2, N + 1]``."""
ALLOW, DRAW, FORBID = range(3)
PLACES = 16  # bits of a hash that say where it is marked
MADE, PLACE, BEFORE = 2, 3, 4  # rows of numbers, behind those of both colours

BLACK, WHITE, FREE, WEAK, LEGAL, ALL, NOT_FIRST, NOT_LAST, CHAIN, TAKEN, OPEN, BARRED = range(12)  # rows of words
Desk = tuple[Array, Array, Array, Array, Array, Array]
"""What one position is worked on in: the number of each cell's chain, int16; words, ``[12, 1 + w + 1]``; bytes as the
data have them; the cells of a stack; numbers, int64 ``[5, 64 w]``: what stones of black and of white add to the hash of
a board, what those that capture change, which of these captures each chain, and words of marks before; marks, a bit for
each of ``2 ** PLACES`` places of what a stone adds, ``[2, 2 ** PLACES / 64]``."""


@compiled
def _desk(board: Board) -> Desk:
    n, size = board[0] * board[0], board[0]
    count = words_of(n + 1)
    words = np.zeros((12, count + 2), np.uint64)
    for i in range(n):
        w, bit = 1 + i // WORD, ONE << np.uint64(i % WORD)
        words[ALL, w] |= bit
        words[NOT_FIRST, w] |= bit if i % size > 0 else NONE
        words[NOT_LAST, w] |= bit if i % size < size - 1 else NONE
    wide = WORD * count
    stack, numbers = np.empty(n + 1, np.int64), np.zeros((5, wide), np.int64)
    marks = np.zeros((2, (1 << PLACES) // WORD), np.uint64)
    if board[2] == FORBID:
        for player in range(2):
            for cell in range(n):
                numbers[player, cell] = board[5][player, cell]
                _mark(marks, player, numbers[player, cell])
    return np.zeros(wide, np.int16), words, np.zeros(wide, np.bool_), stack, numbers, marks


@compiled
def _read(desk: Desk, chains: Array, ataris: Array, b: int) -> None:
    """Reads row ``b`` of positions."""
    chain, words, flags = desk[0], desk[1], desk[2]
    load(chains, b, chain)
    load(ataris, b, flags)
    for w in range(1, words.shape[1] - 1):
        at, every = WORD * (w - 1), words[ALL, w]
        words[BLACK, w], words[WHITE, w] = above(chain, at, 0) & every, below(chain, at, 0) & every
        words[WEAK, w] = equal(flags, at, True) & every
        words[FREE, w] = every & ~(words[BLACK, w] | words[WHITE, w])


@compiled
def _look_ahead(state: tuple[Array, ...], b: int, repetition: int) -> None:
    """Has what is read of row ``b`` of positions at hand soon."""
    fetch(state[0], b, state[0].shape[1])
    fetch(state[1], b, state[1].shape[1])
    if repetition != ALLOW:
        fetch(state[7], b, state[3][b, 0] + 1)


@compiled
def _beside(words: Array, k: int, w: int, size: int) -> np.uint64:
    """Word ``w`` of the cells beside those of row ``k``, which are all on the board; some beyond it are set, too."""
    here, before, behind, up = words[k, w], words[k, w - 1], words[k, w + 1], np.uint64(size)
    down, last = np.uint64(WORD - size), np.uint64(WORD - 1)
    left = ((here << ONE) | (before >> last)) & words[NOT_FIRST, w]
    right = ((here >> ONE) | (behind << last)) & words[NOT_LAST, w]
    return left | right | (here << up) | (before >> down) | (here >> up) | (behind << down)


@compiled
def _chain(desk: Desk, number: int) -> None:
    """Writes the cells of a chain."""
    chain, words = desk[0], desk[1]
    for w in range(1, words.shape[1] - 1):
        words[CHAIN, w] = equal(chain, WORD * (w - 1), number)


@compiled
def _warn(desk: Desk, size: int, number: int) -> None:
    """Says whether a chain is in atari: whether it has one liberty."""
    words = desk[1]
    _chain(desk, number)
    liberties = 0
    for w in range(1, words.shape[1] - 1):
        liberties += bits(_beside(words, CHAIN, w, size) & words[FREE, w])
    for w in range(1, words.shape[1] - 1):
        words[WEAK, w] &= ~words[CHAIN, w]
        words[WEAK, w] |= words[CHAIN, w] if liberties == 1 else NONE


@compiled
def _renumber(chain: Array, old: int, new: int) -> None:
    """Gives the cells of a chain another number."""
    for at in range(0, chain.size, WORD):
        replace(chain, at, old, new)


@compiled
def _take(desk: Desk, number: int, other: int) -> int:
    """Takes a chain of a colour off; returns how many stones that are."""
    words, count = desk[1], 0
    _chain(desk, number)
    for w in range(1, words.shape[1] - 1):
        gone = words[CHAIN, w]
        words[other, w], words[WEAK, w] = words[other, w] & ~gone, words[WEAK, w] & ~gone
        words[FREE, w], words[TAKEN, w] = words[FREE, w] | gone, words[TAKEN, w] | gone
        count += bits(gone)
    _renumber(desk[0], number, 0)
    return count


@compiled
def _rescue(desk: Desk, size: int, mine: int) -> None:
    """Of the chains of a colour that were in atari, those beside what was taken are no more."""
    chain, words = desk[0], desk[1]
    for w in range(1, words.shape[1] - 1):
        words[OPEN, w] = _beside(words, TAKEN, w, size)
    for w in range(1, words.shape[1] - 1):
        saved = words[OPEN, w] & words[mine, w] & words[WEAK, w]
        while saved:
            _chain(desk, chain[WORD * (w - 1) + lowest(saved)])
            for v in range(1, words.shape[1] - 1):
                words[WEAK, v] &= ~words[CHAIN, v]
            saved &= words[WEAK, w]


@compiled
def _place(desk: Desk, size: int, cell: int, player: int, near: Array) -> int:
    """Puts a stone on a free cell, where it may stand, and takes off what it captures.

    Returns:
        The cell where the other may not answer at once (ko); ``size * size`` where there is none.
    """
    chain, words = desk[0], desk[1]
    n, taken, in_eye, mine, other = size * size, 0, True, BLACK + player, WHITE - player
    sign = np.int16(1 - 2 * player)
    number = np.int16((cell + 1) * sign)
    for k in range(4):
        in_eye &= near[cell, k] == n or chain[near[cell, k]] * sign < 0
    words[TAKEN, :] = 0
    for k in range(4):
        at = near[cell, k]
        if chain[at] * sign < 0 and _has(words, WEAK, at):
            taken += _take(desk, chain[at], other)
    for k in range(4):
        met = chain[near[cell, k]]
        if met * sign > 0 and met != number:
            _renumber(chain, met, number)
    w, bit = 1 + cell // WORD, ONE << np.uint64(cell % WORD)
    chain[cell], words[mine, w], words[FREE, w] = number, words[mine, w] | bit, words[FREE, w] & ~bit
    if taken:
        _rescue(desk, size, mine)
    _warn(desk, size, number)
    for k in range(4):
        at = near[cell, k]
        if chain[at] * sign < 0 and not _has(words, WEAK, at):
            _warn(desk, size, chain[at])
    return nth(words, TAKEN, 0) if in_eye and taken == 1 else n


@compiled
def _has(words: Array, k: int, cell: int) -> bool:
    """Whether a cell is among those of row ``k``."""
    return (words[k, 1 + cell // WORD] >> np.uint64(cell % WORD)) & ONE != NONE


@compiled
def _allow(desk: Desk, size: int, player: int, ko: int) -> None:
    """Writes where a player may put stones, if the game goes on and boards may repeat."""
    words, mine, other = desk[1], BLACK + player, WHITE - player
    for w in range(1, words.shape[1] - 1):
        weak = words[WEAK, w]
        words[OPEN, w] = words[FREE, w] | (words[mine, w] & ~weak) | (words[other, w] & weak)
    for w in range(1, words.shape[1] - 1):
        words[LEGAL, w] = _beside(words, OPEN, w, size) & words[FREE, w]
    if ko < size * size:
        words[LEGAL, 1 + ko // WORD] &= ~(ONE << np.uint64(ko % WORD))


# --- repetitions -------------------------------------------------------------------------------------


@compiled
def _taken(words: Array, keys: Array) -> Any:
    """What stones of a colour that were just taken added to the hash of the board."""
    total = np.int64(0)
    for w in range(1, words.shape[1] - 1):
        left = words[TAKEN, w]
        while left:
            total += keys[WORD * (w - 1) + lowest(left)]
            left &= left - ONE
    return total


@compiled
def _known(old: Array, b: int, moves: int, here: int) -> bool:
    """Whether a board is one of the first ones."""
    known = False
    for i in range(moves):
        known |= old[b, i] == here
    return known


@inline
def _place_of(number: int) -> tuple[Any, Any]:
    """Where a number is marked: the word, and the bit."""
    place = np.uint64(number) >> np.uint64(WORD - PLACES)
    return np.int64(place >> np.uint64(6)), place & np.uint64(WORD - 1)


@inline
def _mark(marks: Array, player: int, number: int) -> Any:
    """Marks the place of a number; returns the word of marks that was there."""
    at, bit = _place_of(number)
    before = marks[player, at]
    marks[player, at] = before | (ONE << bit)
    return before


@compiled
def _forbid(desk: Desk, board: Board, player: int, seen: Array, start: int, moves: int) -> None:
    """Takes from the legal cells those where a stone would make a board that stood before.

    A stone changes the hash of the board by a number. Boards so far that differ by one that is marked are looked at.

    Args:
        desk: the position.
        board: what there is to know of the rules.
        player: whose stone.
        seen: the boards so far, from ``start`` on.
        start: the place of the first.
        moves: how many were made.
    """
    numbers, marks, here = desk[4], desk[5], seen[start + moves]
    count = _capture(desk, board, player)
    for i in range(count):
        numbers[BEFORE, i] = np.int64(_mark(marks, player, numbers[MADE, i]))
    for i in range(start, start + moves + 1):
        at, bit = _place_of(seen[i] - here)
        if (marks[player, at] >> bit) & ONE:
            _ban(desk, player, seen[i] - here, count)
    for i in range(count - 1, -1, -1):
        at, _ = _place_of(numbers[MADE, i])
        marks[player, at] = np.uint64(numbers[BEFORE, i])


@compiled
def _capture(desk: Desk, board: Board, player: int) -> int:
    """Writes where a stone captures, and how that changes the hash of the board; returns at how many cells."""
    chain, words, cells, numbers = desk[0], desk[1], desk[3], desk[4]
    near, other, count = board[4], 1 - player, 0
    for w in range(1, words.shape[1] - 1):
        left = words[TAKEN, w] = words[WEAK, w] & words[BLACK + other, w]
        while left:
            numbers[PLACE, abs(np.int64(chain[WORD * (w - 1) + lowest(left)]))] = -1  # its liberty may be no legal cell
            left &= left - ONE
    for w in range(1, words.shape[1] - 1):
        left = words[OPEN, w] = words[LEGAL, w] & _beside(words, TAKEN, w, board[0])
        while left:
            cell = WORD * (w - 1) + lowest(left)
            cells[count], numbers[MADE, count] = cell, numbers[player, cell]
            for k in range(4):
                numbers[PLACE, abs(np.int64(chain[near[cell, k]]))] = count
            count, left = count + 1, left & (left - ONE)
    for w in range(1, words.shape[1] - 1):
        left = words[TAKEN, w]
        while left:
            at = WORD * (w - 1) + lowest(left)
            place = numbers[PLACE, abs(np.int64(chain[at]))]
            if place >= 0:
                numbers[MADE, place] -= numbers[other, at]
            left &= left - ONE
    return count


@compiled
def _ban(desk: Desk, player: int, change: int, count: int) -> None:
    """Takes from the legal cells those where a stone changes the hash of the board so."""
    words, cells, numbers = desk[1], desk[3], desk[4]
    for w in range(1, words.shape[1] - 1):
        words[LEGAL, w] &= ~equal(numbers[player], WORD * (w - 1), change) | words[OPEN, w]
    for i in range(count):
        if numbers[MADE, i] == change:
            words[LEGAL, 1 + cells[i] // WORD] &= ~(ONE << np.uint64(cells[i] % WORD))


# --- the end, and what is seen -----------------------------------------------------------------------


@compiled
def _area(desk: Desk, size: int, near: Array) -> Any:
    """What black is ahead by without komi: stones, and free cells from which only black is reached."""
    chain, mark, stack = desk[0], desk[2], desk[3]
    n, lead = size * size, np.int64(0)
    for i in range(n):
        lead += np.int64(chain[i] > 0) - np.int64(chain[i] < 0)
        mark[i] = chain[i] != 0
    for start in range(n):
        if mark[start]:
            continue
        black, white, done, found = False, False, 0, 1
        stack[0], mark[start] = start, True
        while done < found:
            for k in range(4):
                at = near[stack[done], k]
                if at == n:
                    continue
                black |= chain[at] > 0
                white |= chain[at] < 0
                if not mark[at]:
                    mark[at] = True
                    stack[found] = at
                    found += 1
            done += 1
        lead += found * (np.int64(black) - np.int64(white))
    return lead


@inline
def _show(
    words: Array,
    n: int,
    turn: int,
    left: float,
    passed: bool,
    komi: tuple[float, float],
    seen: Array,
    r: int,
    seat: int,
) -> None:
    """Writes what a player sees."""
    at = 7 * n * r
    put(seen, at, words, BLACK + seat, n)
    put(seen, at + n, words, WHITE - seat, n)
    fill(seen, at + 2 * n, np.float32(turn == seat), n)
    fill(seen, at + 3 * n, np.float32(passed), n)
    put(seen, at + 4 * n, words, BARRED, n)
    fill(seen, at + 5 * n, np.float32(komi[seat]), n)
    fill(seen, at + 6 * n, np.float32(left), n)


@inline
def _permit(words: Array, n: int, turn: int, over: bool, masks: tuple[Array, Array], r: int) -> None:
    """Writes what both players may do: anything where they do not act."""
    mine, other, at = masks[turn], masks[1 - turn], (n + 1) * r
    fill(other, at, True, n + 1)
    if over:
        fill(mine, at, True, n + 1)
    else:
        put(mine, at, words, LEGAL, n)
        mine[at + n] = True


@inline
def _play(board: Board, desk: Desk, old: tuple[Array, ...], b: int, cell: int, new: tuple[Array, ...], r: int) -> None:
    """Plays a legal move of row ``b`` of old positions; the desk holds that row, and what follows afterwards."""
    size, komi, repetition, longest, near, keys = board
    words, n, player = desk[1], size * size, old[3][b, 0] & 1
    _, _, _, moves, passes, score, outcome, seen = new
    ko = _place(desk, size, cell, player, near) if cell < n else n
    ply, run, repeated = old[3][b, 0] + 1, old[4][b, 0] + 1 if cell == n else 0, False
    start, last = r * old[7].shape[1], min(ply, longest)
    if repetition != ALLOW:
        here = old[7][b, last - 1]
        if cell < n:
            here += keys[player, cell] - _taken(words, keys[1 - player])
        repeated = repetition == DRAW and cell < n and _known(old[7], b, last, here)
        carry(old[7], b, seen, r)
        seen[start + last] = here
    why = 1 if run == 2 else 2 if repeated else 3 if ply >= longest else 0
    score[r] = np.float32(_area(desk, size, near)) - np.float32(komi[1]) if why in (1, 3) else np.float32(0)
    if why:
        words[LEGAL, :] = 0
    else:
        _allow(desk, size, 1 - player, ko)
        if repetition == FORBID:
            _forbid(desk, board, 1 - player, seen, start, last)
    moves[r], passes[r], outcome[r] = ply, run, why


@inline
def _stay(desk: Desk, old: tuple[Array, ...], b: int, new: tuple[Array, ...], r: int) -> None:
    """Leaves row ``b`` of old positions as it is; the desk holds that row."""
    words, flags = desk[1], desk[2]
    load(old[2], b, flags)
    carry(old[7], b, new[7], r)
    for w in range(1, words.shape[1] - 1):
        words[LEGAL, w] = equal(flags, WORD * (w - 1), True) & words[ALL, w]
    new[3][r], new[4][r], new[5][r], new[6][r] = old[3][b, 0], old[4][b, 0], old[5][b, 0], old[6][b, 0]


@inline
def _write(desk: Desk, over: bool, new: tuple[Array, ...], r: int) -> None:
    """Writes the board on the desk to row ``r`` of new positions."""
    chain, words, flags = desk[:3]
    n = desk[3].size - 1
    store(chain, new[0], r, n + 1)
    put(flags, 0, words, WEAK, n)
    flags[n] = False
    store(flags, new[1], r, n + 1)
    put(flags, 0, words, LEGAL, n)
    flags[n] = not over
    store(flags, new[2], r, n + 1)
    for w in range(1, words.shape[1] - 1):
        words[BARRED, w] = words[FREE, w] & ~words[LEGAL, w]


@compiled
def play(
    options: tuple[Board, Data], before: Before, how: How, following: Data, restarted: Data, start: int, stop: int
) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    board, opening = options
    size, komi, repetition, longest = board[:4]
    (state, (black, white), done), (ahead, always, steps) = before, how
    cells = size * size
    after, seen, masks, turn, outcome, flags, rewards = following
    past, block = at_a_time(steps * done.size, seen[0])
    kept = (_hand_of(after, block), hands(seen, block), hands(masks, block)), _desk(board), np.empty((12, 5), np.int64)
    now, desk, entries = bare(kept)
    hand, seen_now, masks_now = now
    enter(entries, following[:3], restarted[:3], opening, now, state, steps > 1)
    last = start if always else -1
    for first in range(start, stop, block):
        new = rows_from(state, first) if steps > 1 else hand
        for b in range(first, min(first + block, stop)):
            r = b - first
            if past and steps == 1 and b + 1 < stop:
                _look_ahead(state, b + 1, repetition)
            _read(desk, state[0], state[1], b)
            if done[b]:
                _stay(desk, state, b, new, r)
            else:
                cell = white[b] if state[3][b, 0] & 1 else black[b]
                if cell < 0 or cell > cells or not state[2][b, cell]:
                    return 0
                _play(board, desk, state, b, cell, new, r)
            ply, why, passed = new[3][r], new[6][r], new[4][r] > 0
            pays = np.float32(0) if done[b] else np.sign(new[5][r])
            rewards[0, b], rewards[1, b] = pays, np.float32(0) - pays
            turn[b, 0], outcome[b, 0], flags[2, b] = ply & 1, why, why != 0
            _write(desk, why != 0, new, r)
            left = np.float32(longest - ply) / np.float32(longest)
            for seat in range(2):
                _show(desk[1], cells, ply & 1, left, passed, komi, seen_now[seat], r, seat)
            _permit(desk[1], cells, ply & 1, why != 0, masks_now, r)
        last = hand_on(entries, first, min(block, stop - first), flags[2], past, ahead, steps, last)
    result = finish(entries, following, restarted, ahead, last, start, stop)
    kept[2][0, 0] = 0  # until here they are held
    return result


@inline
def _hand_of(state: tuple[Array, ...], block: int) -> tuple[Array, ...]:
    """Memory for blocks of positions."""
    a, b, c, d, e, f, g, h = state
    first = at_hand(a, block), at_hand(b, block), at_hand(c, block), at_hand(d, block)
    return (*first, at_hand(e, block), at_hand(f, block), at_hand(g, block), at_hand(h, block))


@compiled
def draw(board: Board, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int) -> int:
    """See :mod:`marlenv.games.fast.whole_games`."""
    legal, ply = state[2], state[3]
    n = legal.shape[1]
    kept = np.zeros((1, words_of(n) + 2), np.uint64), np.zeros(WORD * words_of(n), np.bool_)
    words, flags = bare(kept)
    for b in range(start, stop):
        load(legal, b, flags)
        count = 0
        for w in range(1, words.shape[1] - 1):
            words[0, w] = equal(flags, WORD * (w - 1), True)
            count += bits(words[0, w])
        place = draw_place(keys[b], at, offsets, ply[b, 0] & 1, count)
        out[b, 0] = nth(words, 0, place) if count else n - 1
    kept[1][0] = False  # until here they are held
    return 2
