"""What numba compiles of Hanabi: one pass over the rows, the same bits as ``hanabi.py``, whose words these are.

``options`` are players ``P``, cards of a hand ``H``, colors ``C``, ranks ``R``, most hints and most lives. A position
is a row of whole numbers, the parts of :class:`marlenv.games.hanabi.State` one after another; :func:`_parts` says where
each begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marlenv.games.fast.cached import compiled, inline
from marlenv.games.fast.kernels import Array
from marlenv.games.fast.row_kernels import (
    chosen,
    clear,
    finish_row,
    finish_rows,
    go_on,
    load_row,
    mark,
    ones,
    permuted,
    ranked,
    renewed,
    reward_row,
    seen_row,
    store_row,
    weighted,
    write_masks,
)
from marlenv.games.fast.whole_games import Arrays, Before, Data, How, Offsets

PLAY, DISCARD, HINT_COLOR, HINT_RANK = range(4)  # as in hanabi.py
PLAYER, KIND, TARGET, VALUE, TOUCHED, PLACE, CARD, SCORED, TOKEN = range(9)  # the columns of what was done last
HINTS, LIVES, TURN, LEFT, LAST, RNG, END = 0, 1, 2, 3, 4, 13, 15  # behind the discards
Options = tuple[int, int, int, int, int, int]


@compiled
def _parts(options: Options) -> tuple[int, int, int, int, int]:
    """Where knowledge, fireworks, deck, discards, and what is one number each, begin; the hands are at 0."""
    players, hand, colors, ranks, _, _ = options
    known = players * hand
    fireworks = known + players * hand * 2 * (colors + ranks)
    deck = fireworks + colors
    return known, fireworks, deck, deck + colors * ranks, deck + 2 * colors * ranks


@compiled
def _actions(options: Options) -> int:
    """How many actions there are."""
    players, hand, colors, ranks, _, _ = options
    return 2 * hand + (players - 1) * (colors + ranks)


@compiled
def _copies(rank: int, ranks: int) -> int:
    """How many there are of each card of a rank."""
    return 3 if rank == 0 else 1 if rank == ranks - 1 else 2


@compiled
def _pack(options: Options) -> int:
    """How many cards there are."""
    _, _, colors, ranks, _, _ = options
    return colors * (3 + 2 * (ranks - 2) + 1)


@compiled
def _in_range(options: Options, s: Array) -> bool:
    """Whether all numbers of a position are in range that are places elsewhere."""
    players, hand, colors, ranks, _, _ = options
    _, fireworks, deck, _, rest = _parts(options)
    fine = 0 <= s[rest + TURN] < players
    for i in range(players * hand):
        fine &= -1 <= s[i] < colors * ranks
    for i in range(fireworks, deck):
        fine &= 0 <= s[i] <= ranks
    for i in range(deck, rest):
        fine &= 0 <= s[i] <= 3
    return fine


@compiled
def _sum(s: Array, start: int, stop: int) -> int:
    total = 0
    for i in range(start, stop):
        total += s[i]
    return total


@compiled
def _score(options: Options, s: Array) -> int:
    _, fireworks, deck, _, rest = _parts(options)
    return _sum(s, fireworks, deck) if s[rest + LIVES] > 0 else 0


@compiled
def _outcome(options: Options, s: Array) -> int:
    _, _, colors, ranks, _, _ = options
    rest = _parts(options)[4]
    if s[rest + LIVES] <= 0:
        return 1
    return 2 if _score(options, s) == colors * ranks else 3 if s[rest + LEFT] <= 0 else 0


@compiled
def _legal(options: Options, s: Array, out: Array) -> None:
    """What the player to move may do; into bool ``[n]``."""
    players, hand, colors, ranks, most_hints, _ = options
    rest = _parts(options)[4]
    hints, turn = s[rest + HINTS], s[rest + TURN]
    for i in range(out.size):
        out[i] = False
    if _outcome(options, s) != 0:
        return
    for i in range(hand):
        holds = s[turn * hand + i] >= 0
        out[i], out[hand + i] = holds and hints < most_hints, holds
    if hints > 0:
        for offset in range(players - 1):
            other = (turn + offset + 1) % players * hand
            for i in range(hand):
                card = s[other + i]
                if card >= 0:
                    out[2 * hand + offset * colors + card // ranks] = True
                    out[2 * hand + (players - 1) * colors + offset * ranks + card % ranks] = True


@compiled
def _tell(options: Options, s: Array, target: int, kind: int, value: int) -> None:
    """Tells a player all cards of a color or rank, in place."""
    _, hand, colors, ranks, _, _ = options
    known, _, _, _, rest = _parts(options)
    traits = colors + ranks
    first, behind = (0, colors) if kind == HINT_COLOR else (colors, traits)
    column, touched = first + value, 0
    for i in range(hand):
        card = s[target * hand + i]
        at = known + (target * hand + i) * 2 * traits
        if card >= 0 and (card // ranks if kind == HINT_COLOR else card % ranks) == value:
            for k in range(first, behind):
                s[at + k] &= k == column
            s[at + traits + column] = 1
            touched |= 1 << i
        else:
            s[at + column] = 0
    s[rest + HINTS] -= 1
    last = rest + LAST
    s[last + TARGET], s[last + VALUE], s[last + TOUCHED] = target, value, touched


@compiled
def _lay(options: Options, s: Array, place: int, plays: bool) -> None:
    """Plays or discards a card of the player to move, in place; newer cards move up."""
    _, hand, colors, ranks, most_hints, _ = options
    known, fireworks, _, discards, rest = _parts(options)
    width, mine, last = 2 * (colors + ranks), s[rest + TURN] * hand, rest + LAST
    card = s[mine + place]
    color, rank = card // ranks, card % ranks
    scored = plays and s[fireworks + color] == rank
    token = scored and rank == ranks - 1 and s[rest + HINTS] < most_hints
    for i in range(mine + place, mine + hand - 1):
        s[i] = s[i + 1]
    for i in range(known + (mine + place) * width, known + (mine + hand - 1) * width):
        s[i] = s[i + width]
    s[mine + hand - 1] = -1
    for k in range(width):
        s[known + (mine + hand - 1) * width + k] = k < colors + ranks
    s[fireworks + color] += scored
    s[discards + card] += not scored
    s[rest + LIVES] -= plays and not scored
    s[rest + HINTS] += token or not plays
    s[last + PLACE], s[last + CARD], s[last + SCORED], s[last + TOKEN] = place, card, scored, token


@compiled
def _play(options: Options, s: Array, action: int) -> None:
    """Plays a legal action in place."""
    players, hand, colors, ranks, _, _ = options
    _, _, deck, discards, rest = _parts(options)
    mover, last, rng = s[rest + TURN], rest + LAST, rest + RNG
    clear(s, last, last + 9)
    s[last + PLAYER] = mover
    if action < 2 * hand:
        s[last + KIND] = DISCARD if action < hand else PLAY
        _lay(options, s, action % hand, action >= hand)
    else:
        hint = action - 2 * hand
        by_rank = hint - (players - 1) * colors
        s[last + KIND] = HINT_COLOR if by_rank < 0 else HINT_RANK
        offset, value = (hint // colors, hint % colors) if by_rank < 0 else (by_rank // ranks, by_rank % ranks)
        _tell(options, s, (mover + offset + 1) % players, s[last + KIND], value)
    cards = _sum(s, deck, discards)
    s[rest + TURN] = (mover + 1) % players
    s[rest + LEFT] -= cards == 0
    if action < 2 * hand and cards > 0 and _outcome(options, s) == 0:
        card = weighted(s[rng], s[rng + 1] + 1, s[deck:discards], cards)
        s[mover * hand + hand - 1] = card
        s[deck + card] -= 1
        s[rng + 1] += 1


@compiled
def _start(options: Options, s: Array) -> None:
    """A new game in place of one that is over, whose stream it goes on from."""
    players, hand, colors, ranks, most_hints, most_lives = options
    known, _, deck, _, rest = _parts(options)
    rng = s[rest + RNG : rest + RNG + 2]
    renewed(rng)
    permuted(rng, _pack(options), s[:known])
    clear(s, known, rest + RNG)
    for card in range(colors * ranks):
        s[deck + card] = _copies(card % ranks, ranks)
    for i in range(players * hand):
        card, nth = 0, s[i]
        while nth >= _copies(card % ranks, ranks):
            nth -= _copies(card % ranks, ranks)
            card += 1
        s[i] = card
        s[deck + card] -= 1
    for i in range(players * hand):
        at = known + i * 2 * (colors + ranks)
        s[at : at + colors + ranks] = 1
    s[rest + LAST + KIND] = -1
    s[rest + HINTS], s[rest + LIVES], s[rest + LEFT] = most_hints, most_lives, players


@compiled
def _table(options: Options, s: Array, out: Any, at: int) -> None:
    """Writes what lies on the table."""
    players, hand, colors, ranks, most_hints, most_lives = options
    _, fireworks, deck, discards, rest = _parts(options)
    at = ones(out, at, _sum(s, deck, discards), _pack(options) - players * hand)
    for color in range(colors):
        at = mark(out, at, s[fireworks + color] - 1, ranks)
    at = ones(out, at, s[rest + HINTS], most_hints)
    at = ones(out, at, s[rest + LIVES], most_lives)
    for card in range(colors * ranks):
        at = ones(out, at, s[discards + card], _copies(card % ranks, ranks))


@compiled
def _table_size(options: Options) -> int:
    players, hand, colors, ranks, most_hints, most_lives = options
    return 2 * _pack(options) - players * hand + colors * ranks + most_hints + most_lives


@compiled
def _seen_size(options: Options) -> int:
    players, hand, colors, ranks, _, _ = options
    kinds, traits = colors * ranks, colors + ranks
    move = 2 * players + 4 + traits + 2 * hand + kinds + 2
    return (players - 1) * hand * kinds + players + _table_size(options) + move + players * hand * (kinds + traits)


@compiled
def _moved(options: Options, s: Array, seat: int, out: Any, at: int) -> None:
    """Writes the last move as a seat counts the players."""
    players, hand, colors, ranks, _, _ = options
    last = _parts(options)[4] + LAST
    kind, touched = s[last + KIND], s[last + TOUCHED]
    some, told = kind >= 0, kind >= HINT_COLOR
    at = mark(out, at, (s[last + PLAYER] - seat) % players if some else -1, players)
    at = mark(out, at, kind, 4)
    at = mark(out, at, (s[last + TARGET] - seat) % players if told else -1, players)
    at = mark(out, at, s[last + VALUE] if kind == HINT_COLOR else -1, colors)
    at = mark(out, at, s[last + VALUE] if kind == HINT_RANK else -1, ranks)
    for i in range(hand):
        out[at + i] = (touched >> i) & 1
    at = mark(out, at + hand, s[last + PLACE] if some and not told else -1, hand)
    at = mark(out, at, s[last + CARD] if some and not told else -1, colors * ranks)
    out[at], out[at + 1] = s[last + SCORED] != 0, s[last + TOKEN] != 0


@inline
def _knowledge(options: Options, s: Array, player: int, colors: int, ranks: int, out: Any, at: int) -> None:
    """Writes what hints leave open and have told of a player's cards."""
    hand, known = options[1], _parts(options)[0]
    kinds, traits = colors * ranks, colors + ranks
    for i in range(player * hand, (player + 1) * hand):
        knows, held = known + i * 2 * traits, s[i] >= 0
        for color in range(colors):
            some = held and s[knows + color] != 0
            for rank in range(ranks):
                out[at + color * ranks + rank] = s[knows + colors + rank] if some else 0
        for k in range(traits):
            out[at + kinds + k] = s[knows + traits + k] if held else 0
        at += kinds + traits


@compiled
def _observe(options: Options, s: Array, seat: int, out: Any, first: Any) -> None:
    """Writes what a player sees, into ``[n]``; all players see some of what the ``first`` sees, which is copied."""
    players, hand, colors, ranks, _, _ = options
    kinds, block = colors * ranks, hand * (colors * ranks + colors + ranks)
    at, behind = (players - 1) * hand * kinds, _seen_size(options) - players * block
    clear(out, 0, at + players if seat else behind)
    for i in range(players):
        other = (seat + i) % players * hand
        for j in range(hand):
            card = s[other + j]
            if card < 0:
                out[at + i] = 1
            elif i > 0:
                out[((i - 1) * hand + j) * kinds + card] = 1
    table = at + players
    at = table + _table_size(options)
    if seat == 0:
        _table(options, s, out, table)
    else:
        for i in range(table, at):
            out[i] = first[i]
        clear(out, at, behind)
    _moved(options, s, seat, out, at)
    for i in range(players):
        other, at = (seat + i) % players, behind + i * block
        if seat:
            for k in range(block):
                out[at + k] = first[behind + other * block + k]
        elif colors == 5 and ranks == 5:  # as constants the compiler unrolls what they bound
            _knowledge(options, s, other, 5, 5, out, at)
        else:
            _knowledge(options, s, other, colors, ranks, out, at)


@compiled
def _write(options: Options, s: Array, b: int, legal: Array, out: tuple[Any, ...]) -> bool:
    """Writes a position and what follows from it, all but rewards and most flags; returns whether it is over."""
    why, mover = _outcome(options, s), s[_parts(options)[4] + TURN]
    store_row(out, b, s)
    _legal(options, s, legal)
    for seat in range(options[0]):
        _observe(options, s, seat, seen_row(out, seat, b), seen_row(out, 0, b))
    write_masks(out, options[0], b, legal, -1 if why else mover)
    finish_row(out, b, mover, why)
    return why != 0


@compiled
def draw(
    options: Options, state: Arrays, keys: Array, at: int, offsets: Offsets, out: Array, start: int, stop: int
) -> int:
    """A random legal action for each row; see :mod:`marlenv.games.fast.whole_games`."""
    rest = _parts(options)[4]
    s, legal = np.empty(rest + END, np.int64), np.empty(_actions(options), np.bool_)
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(options, s):
            return 0
        _legal(options, s, legal)
        out[b, 0] = ranked(legal, keys[b], at + offsets[s[rest + TURN]])
    return 2


@compiled
def play(options: Options, before: Before, how: How, following: Data, restarted: Data, start: int, stop: int) -> int:
    """A whole step; see :mod:`marlenv.games.fast.whole_games`."""
    (state, actions, done), (ahead, always, _) = before, how
    rest = _parts(options)[4]
    s, legal = np.empty(rest + END, np.int64), np.empty(_actions(options), np.bool_)
    some_over = False
    for b in range(start, stop):
        load_row(state, b, s)
        if not _in_range(options, s):
            return 0
        gained = -_score(options, s)
        if not done[b]:
            action = chosen(actions, s[rest + TURN], b)
            _legal(options, s, legal)
            if not 0 <= action < legal.size or not legal[action]:
                return 0
            _play(options, s, action)
        gained += _score(options, s)
        for seat in range(options[0]):
            reward_row(following, seat)[b] = gained
        over = _write(options, s, b, legal, following)
        some_over = some_over or over
        if ahead and over:
            _start(options, s)
            _write(options, s, b, legal, restarted)
        elif ahead:
            go_on(following, b, restarted)
    return finish_rows(following, restarted, options[0], False, ahead, always, some_over, start, stop)
