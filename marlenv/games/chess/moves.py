"""The legal moves of any number of positions, and the positions after them, as torch operations on words.

Nothing here loops over boards or squares, looks at the data, or knows a device: the same lines run eagerly, compiled
and in a CUDA graph. Words come batch last, ``[n, N]``. ``kernels.py`` says the same one board at a time.

Sliding attacks are parallel-prefix fills ("Kogge-Stone", https://www.chessprogramming.org/Kogge-Stone_Algorithm). A
move is found from its target: shifted back by its step, the set of targets falls onto the squares where the piece
must stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.chess.bits import filled_single, turned, unfilled
from marlenv.games.chess.board import (
    CASTLING,
    FULLMOVE,
    HALFMOVE,
    HASH,
    KINGS,
    KNIGHTS,
    OPPONENT,
    OWN,
    PASSANT,
    PAWNS,
    RANK_1,
    RANK_2,
    RANK_7,
    RANK_8,
    ROOKS,
    TURN,
)
from marlenv.games.chess.tables import KNIGHT, PAWN, Tables, tables
from marlenv.rng import signed

EXPONENT = 0x7FF << 52  # of a float of 64 bits


class Moves(NamedTuple):
    """What :func:`generate` finds."""

    planes: Tensor  # [73, N] int64: packed actions
    checkers: Tensor  # [N] int64: the pieces that give check
    passant: Tensor  # [N] int64: the square of an en-passant capture, where one is legal


class Scratch(NamedTuple):
    """Memory for :func:`generate` to work in; a step of an env lends it what is written later."""

    planes: Tensor  # [73, N] in which they are returned, too
    over: Tensor  # [24, N]


class Side(NamedTuple):
    """The words of one position that several steps need; int64 ``[N]``, with a leading dimension where it says so."""

    own: Tensor
    opponent: Tensor
    occupied: Tensor
    king: Tensor
    pawns: Tensor  # own
    enemies: Tensor  # [4, N] the opponent's sliders along each axis: rank, down-right, file, up-right


class Guard(NamedTuple):
    """What :func:`generate` knows of the king's safety, which the other pieces must keep."""

    danger: Tensor  # [N] squares that the king must not enter
    checkers: Tensor  # [N] the pieces that give check
    target: Tensor  # [N] squares where a move of another piece answers the check; all where there is none
    free: Tensor  # [4, N] own pieces that may leave along each axis without exposing the king
    exposing: Tensor  # [N] pieces that shield the king on a diagonal
    paired: Tensor  # [N] two neighbours on the king's rank which shield him together


def generate(words: Tensor, chess960: bool = False, scratch: Scratch | None = None) -> Moves:
    """Every legal move of positions given by their first ten words, ``[10+, N]``.

    Found in a ``scratch``, or in new memory.
    """
    t = tables(words.device)
    own, opponent, pawns, knights, bishops, rooks, queens, kings, castling, passant = words[: PASSANT + 1].unbind(0)
    sliders = torch.stack((rooks, bishops, rooks, bishops)).bitwise_or_(queens)
    side = Side(own, opponent, own | opponent, kings & own, pawns & own, sliders & opponent)
    guard = _guard(t, side, pawns & opponent, knights & opponent, kings & opponent)

    planes, between = (None, None) if scratch is None else scratch
    target, empty, source = (~own).bitwise_and_(guard.target), ~side.occupied, guard.free & sliders
    # where a piece stands whose step ends on a target
    onto = torch.bitwise_right_shift(target, t.far, out=_part(planes, 0, 28)).bitwise_and_(t.far_up)
    over = torch.bitwise_right_shift(empty, t.slide, out=between).bitwise_and_(t.slide_up)
    pushes, double = _pushes(t, side, guard, onto, over)
    up_far = _slides(source, onto, over, scratch is not None)
    onto = torch.bitwise_left_shift(target, t.far, out=_part(planes, 28, 56)).bitwise_and_(t.far_down)
    over = torch.bitwise_left_shift(empty, t.slide, out=between).bitwise_and_(t.slide_down)
    down_far = _slides(source, onto, over, scratch is not None)

    safe = (own | guard.danger).bitwise_not_()
    up_far[0].bitwise_or_((safe >> t.axis).bitwise_and_(t.axis_up).bitwise_and_(side.king))
    down_far[0].bitwise_or_((safe << t.axis).bitwise_and_(t.axis_down).bitwise_and_(side.king))
    up_far[0][1:].bitwise_or_(pushes)
    up_far[1][2].bitwise_or_(double)
    beside, square = _passant(t, side, guard, passant)
    up_far[0][1::2].bitwise_or_(beside)
    if not chess960:
        right, left = _castles(t, side, guard.danger, castling).unbind(0)
        up_far[1][0].bitwise_or_(right)
        down_far[1][0].bitwise_or_(left)
    leapers = (guard.free[0] & guard.free[1]).bitwise_and_(knights)  # a pin takes a piece from three of the four axes
    promoted = pushes.index_select(0, t.straight_first).bitwise_and_(signed(RANK_7))
    leaps = (
        torch.bitwise_right_shift(target, t.leap, out=_part(planes, 56, 60)).bitwise_and_(t.leap_up),
        torch.bitwise_left_shift(target, t.leap, out=_part(planes, 60, 64)).bitwise_and_(t.leap_down),
    )
    for leap in leaps:
        leap.bitwise_and_(leapers)
    if planes is None:
        planes = torch.cat((*up_far, *down_far, *leaps, promoted, promoted, promoted))
    else:
        planes[64:].view(3, *promoted.shape).copy_(promoted)  # the others lie there
    if chess960:
        right, left = _castles960(t, side, guard.danger, castling).unbind(0)
        planes[0:28:4].bitwise_or_((right >> t.distance).bitwise_and_(side.king))
        planes[28:56:4].bitwise_or_((left << t.distance).bitwise_and_(side.king))
    return Moves(planes, guard.checkers, square)


def _part(memory: Tensor | None, first: int, last: int) -> Tensor | None:
    return None if memory is None else memory[first:last]


def _fill_up(t: Tables, start: Tensor, through: Tensor) -> Tensor:
    """Squares that sliders attack upwards along each axis, the first piece in the way included; ``[4, N]``."""
    through = through & t.axis_down
    reached = (start << t.axis).bitwise_and_(through).bitwise_or_(start)
    through.bitwise_and_(through << t.axis)
    reached.bitwise_or_((reached << t.axis_2).bitwise_and_(through))
    through.bitwise_and_(through << t.axis_2)
    reached.bitwise_or_((reached << t.axis_4).bitwise_and_(through))
    return reached.bitwise_left_shift_(t.axis).bitwise_and_(t.axis_down)


def _fill_down(t: Tables, start: Tensor, through: Tensor) -> Tensor:
    """The same downwards; where one can land clears what the sign bit left behind, too."""
    through = through & t.axis_up
    reached = (start >> t.axis).bitwise_and_(through).bitwise_or_(start)
    through.bitwise_and_(through >> t.axis)
    reached.bitwise_or_((reached >> t.axis_2).bitwise_and_(through))
    through.bitwise_and_(through >> t.axis_2)
    reached.bitwise_or_((reached >> t.axis_4).bitwise_and_(through))
    return reached.bitwise_right_shift_(t.axis).bitwise_and_(t.axis_up)


def _first(pieces: Tensor) -> Tensor:
    """The nearest piece on each of eight rays, ``[2, 4, N]``: the lowest bit going up, the highest going down."""
    up, down = pieces.unbind(0)
    return torch.stack((_lowest(up), _highest(down)))


def _guard(t: Tables, side: Side, pawns: Tensor, knights: Tensor, king: Tensor) -> Guard:
    """Checks, pins and attacked squares; ``pawns``, ``knights`` and ``king`` are the opponent's."""
    here, there = _index(torch.stack((side.king, king))).unbind(0)
    ours = t.around.gather(1, here.expand(len(t.around), -1))  # [11, N]

    rays = ours[:8].view(2, *side.enemies.shape)
    pieces = rays & side.occupied
    first = _first(pieces)
    behind = pieces.bitwise_xor_(first)
    second = _first(behind)
    hit = first & side.enemies
    shield = filled_single(second & side.enemies).bitwise_and_(first)

    leaps = (ours[PAWN] & pawns).bitwise_or_(ours[KNIGHT] & knights)
    (ray_up, ray_down), (hit_up, hit_down) = rays.unbind(0), hit.unbind(0)
    lines = filled_single(hit_up).add_(hit_up).bitwise_or_(hit_up).bitwise_and_(ray_up)
    lines.bitwise_or_((-hit_down).bitwise_and_(ray_down))
    checkers = hit.flatten(0, 1).sum(0).bitwise_or_(leaps)
    target = lines.sum(0).bitwise_or_(leaps)
    target.masked_fill_((checkers - 1).bitwise_and_(checkers) != 0, 0).masked_fill_(checkers == 0, -1)

    shield_up, shield_down = shield.unbind(0)
    shields = shield_up | shield_down
    pins = shields & side.own
    free = pins.bitwise_xor_(pins.sum(0)).bitwise_not_().bitwise_and_(side.own)
    return Guard(
        danger=_danger(t, side, pawns, knights).bitwise_or_(t.ring.index_select(0, there)),
        checkers=checkers,
        target=target,
        free=free,
        exposing=shields[1] | shields[3],
        paired=_paired(first[:, 0], second[:, 0], behind[:, 0], side.enemies[0]),
    )


def _index(one: Tensor) -> Tensor:
    """The number of the only bit of a word, read off the exponent of a float; 0 where there is none."""
    exponent = (one.to(torch.float64).view(torch.int64) >> 52).bitwise_and_(0x7FF)
    return exponent.sub_(1023).clamp_(min=0)


def _lowest(x: Tensor) -> Tensor:
    """The lowest bit of sets."""
    return (-x).bitwise_and_(x)


def _highest(x: Tensor) -> Tensor:
    """The highest bit of sets on a line from a king.

    As a float without its fraction, which seven bits never round up.
    """
    return x.to(torch.float64).view(torch.int64).bitwise_and_(EXPONENT).view(torch.float64).to(torch.int64)


def _paired(first: Tensor, second: Tensor, behind: Tensor, enemies: Tensor) -> Tensor:
    """Two pieces to one side of the king that shield him together from a third, all on his rank; inputs ``[2, N]``."""
    right, left = (behind ^ second).unbind(0)
    third = torch.stack((_lowest(right), _highest(left))).bitwise_and_(enemies)
    right, left = filled_single(third).bitwise_and_(first | second).unbind(0)
    return right | left


def _danger(t: Tables, side: Side, pawns: Tensor, knights: Tensor) -> Tensor:
    """Squares that sliders, knights and pawns of the opponent attack when the king is not in their way."""
    through = ~(side.occupied ^ side.king)
    attacked = _fill_up(t, side.enemies, through)
    attacked.bitwise_or_(_fill_down(t, side.enemies, through))
    attacked.bitwise_or_((knights << t.leap).bitwise_and_(t.leap_down))
    attacked.bitwise_or_((knights >> t.leap).bitwise_and_(t.leap_up))
    attacked[1::2].bitwise_or_((pawns >> t.aside).bitwise_and_(t.aside_up))
    a, b, c, d = attacked.unbind(0)
    return (a | b).bitwise_or_(c).bitwise_or_(d)


def _slides(source: Tensor, onto: Tensor, over: Tensor, in_place: bool) -> Sequence[Tensor]:
    """Where sliders start that go 1 to 7 squares along each axis: seven times ``[4, N]``.

    In place of ``onto``, or apart.
    """
    ends, passed = onto.view(7, *source.shape).unbind(0), over.view(6, *source.shape).unbind(0)
    found = []
    for i, end in enumerate(ends):
        source = source & passed[i - 1] if i else source
        found.append(end.bitwise_and_(source) if in_place else end & source)
    return found


def _pushes(t: Tables, side: Side, guard: Guard, onto: Tensor, over: Tensor) -> tuple[Tensor, Tensor]:
    """Where pawns start that capture to the left, go straight on, capture to the right, ``[3, N]``.

    And go two ahead.
    """
    pawns = guard.free[1:] & side.pawns
    left, right = (side.opponent >> t.aside).unbind(0)
    allowed = torch.stack((left, over[2], right)).bitwise_and_(pawns)
    double = (onto[6] & over[6]).bitwise_and_(allowed[1]).bitwise_and_(RANK_2)
    return allowed.bitwise_and_(onto[1:4]), double


def _passant(t: Tables, side: Side, guard: Guard, passant: Tensor) -> tuple[Tensor, Tensor]:
    """Pawns that may capture en passant to the left and to the right, ``[2, N]``, and the square where it happens.

    Two pawns leave the king's rank, or the captured one leaves a diagonal; a file stays closed by the capturing pawn.
    """
    captured = passant >> 8
    answers = (passant | captured).bitwise_and_(guard.target)
    paired = filled_single(captured & guard.paired).bitwise_and_(guard.paired)
    stopped = unfilled(answers).bitwise_or_(filled_single(captured & guard.exposing)).bitwise_or_(paired)
    able = stopped.bitwise_not_().bitwise_and_(side.pawns)
    beside = (passant >> t.aside).bitwise_and_(t.aside_up).bitwise_and_(able).bitwise_and_(guard.free[1::2])
    left, right = beside.unbind(0)
    return beside, filled_single(left | right).bitwise_and_(passant)


def _castles(t: Tables, side: Side, danger: Tensor, castling: Tensor) -> Tensor:
    """The king where he may castle now, to the right and to the left; ``[2, N]``. He stands on e1 while he may."""
    bad = (side.occupied & t.between).bitwise_or_(danger & t.king_way)
    rooks = (castling & t.corner).bitwise_and_(unfilled(bad))
    return filled_single(rooks).bitwise_and_(side.king)


def _castles960(t: Tables, side: Side, danger: Tensor, castling: Tensor) -> Tensor:
    """The rooks with which the king may castle now in Chess960, to the right and to the left; ``[2, N]``."""
    king, home = side.king, castling & RANK_1
    rooks = torch.stack((home & -(king << 1), home & (king - 1)))
    king_way = (torch.maximum(king, t.king_goal) << 1).sub_(torch.minimum(king, t.king_goal))
    rook_way = (torch.maximum(rooks, t.rook_goal) << 1).sub_(torch.minimum(rooks, t.rook_goal))
    bad = (king_way | rook_way).bitwise_and_(side.occupied).bitwise_and_(~(king | rooks)).bitwise_or_(king_way & danger)
    # a rook on b1 that leaves may uncover the king on c1 to a rook or queen on a1
    bad[1].bitwise_or_((side.enemies[0] << 1) & rooks[1] & 0x02)
    return rooks.masked_fill_(bad != 0, 0)


def advance(words: Tensor, action: Tensor, chess960: bool = False, out: Tensor | None = None) -> Tensor:
    """The words after a legal action, as the next player sees them, the last three as they were; ``[16, N]``.

    The en-passant square is set after every double step; ``ending.settle`` takes it back where nobody can capture.
    """
    t = tables(words.device)
    each = words.unbind(0)
    castling, turn = each[CASTLING], each[TURN]
    does = t.plane960 if chess960 else t.plane
    does = does.gather(1, (action >> 6).expand(len(does), -1))
    offset, stepped, king_goal, rook_goal, rook_from = does[:5].unbind(0)
    start = action & 63
    from_bit, to_bit = 1 << start, 1 << (start + offset)

    kind = filled_single(words[PAWNS : KINGS + 1] & from_bit)  # [6, N] which piece moves
    is_pawn, *_, is_king = kind.unbind(0)
    captured = (each[PASSANT] & to_bit).bitwise_and_(is_pawn).bitwise_right_shift_(8)
    captured.bitwise_or_(each[OPPONENT] & to_bit)
    lost = (is_king & RANK_1).bitwise_or_(from_bit).bitwise_or_(to_bit)
    if chess960:
        rook_from = to_bit & each[OWN]  # the king steps onto his own rook
        castles = filled_single(rook_from)
        to_bit = (to_bit & ~castles) | (king_goal & castles)
        rook_to = rook_goal & castles
    else:
        rook_from, rook_to = rook_from & is_king, rook_goal & is_king
    queened = (is_pawn & to_bit).bitwise_and_(signed(RANK_8))
    stay = (from_bit | captured).bitwise_or_(rook_from).bitwise_not_()
    sets = words[: KINGS + 1] & stay
    sets[OWN].bitwise_or_(to_bit).bitwise_or_(rook_to)
    sets[PAWNS:].bitwise_or_(kind & (to_bit ^ queened))
    sets[KNIGHTS:KINGS].bitwise_or_(does[5:9] & queened)
    sets[ROOKS].bitwise_or_(rook_to)
    rights = lost.bitwise_not_().bitwise_and_(castling)
    double = (from_bit << 8).bitwise_and_(is_pawn).bitwise_and_(stepped)
    clock = filled_single(captured).bitwise_or_(is_pawn).bitwise_not_().bitwise_and_(each[HALFMOVE] + 1)
    own, opponent = sets[OWN : OWN + 1], sets[OPPONENT : OPPONENT + 1]
    seen = turned(torch.cat((opponent, own, sets[PAWNS:], rights.unsqueeze(0), double.unsqueeze(0))))
    counts = torch.stack((1 - turn, clock, each[FULLMOVE] + turn))
    return torch.cat((seen, counts, words[HASH:]), out=out)
