"""The constant tensors of chess, made once per device: what lies where on an empty board, and what each plane does.

Columns of shape ``[n, 1]`` meet words of shape ``[n, N]``; the kernels of ``moves.py`` keep the batch last.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marlenv.games.chess.board import ALL, CASTLE_LEFT, CASTLE_RIGHT, OFFSETS, STEPS, UNDERPROMOTION_PLANE, starts
from marlenv.games.parts.bits import low_bits
from marlenv.rng import UNSIGNED_1, UNSIGNED_2, UNSIGNED_GOLDEN, signed

KNIGHT, RING, PAWN = 8, 9, 10  # rows of Tables.around: after eight rays, three sets of squares


class Tables(NamedTuple):
    """The constants that the rules in torch work with, all int64; :func:`tables` gives them.

    Parts of others save slicing at every call.
    """

    far: Tensor  # [28, 1] how far planes 0..27 shift; their opposites, 28..55, shift as far back
    far_up: Tensor  # [28, 1] the squares from which such a step upwards stays on the board
    far_down: Tensor  # [28, 1] the squares from which its opposite does
    slide: Tensor  # [24, 1] the first of far, without the longest slides
    slide_up: Tensor  # [24, 1] the first of far_up
    slide_down: Tensor  # [24, 1] the first of far_down
    axis: Tensor  # [4, 1] the first of far
    axis_2: Tensor  # [4, 1] twice as far
    axis_4: Tensor  # [4, 1] four times
    axis_up: Tensor  # [4, 1] the first of far_up
    axis_down: Tensor  # [4, 1] the first of far_down
    aside: Tensor  # [2, 1] how far a pawn steps that captures to the left, to the right
    aside_up: Tensor  # [2, 1] the squares from which such a step stays on the board
    leap: Tensor  # [4, 1] the same for planes 56..59 and their opposites, 60..63
    leap_up: Tensor  # [4, 1]
    leap_down: Tensor  # [4, 1]
    around: Tensor  # [11, 64] for a king on each square: rays of planes 0..3 and 28..31, knight's steps, king's, pawn's
    ring: Tensor  # [64] the king's steps alone
    corner: Tensor  # [2, 1] h1 and a1, whose rooks castle with a king on e1
    between: Tensor  # [2, 1] the squares between him and them
    king_way: Tensor  # [2, 1] the squares that he stands on or passes
    king_goal: Tensor  # [2, 1] where the king ends that castles to the right, to the left
    rook_goal: Tensor  # [2, 1] where his rook ends
    distance: Tensor  # [7, 1] 1 to 7
    plane: Tensor  # [9, 73] what each plane does in standard chess, see plane_row
    plane960: Tensor  # [9, 73] and in Chess960
    straight_first: Tensor  # [3] ahead, left, right as indices into left, ahead, right
    hash_keys: Tensor  # [8, 1] added to the words before they are mixed
    spread: Tensor  # [256] the eight bits of a byte as eight bytes of one word


def around(square: int) -> list[int]:
    """Rays, knight's steps, king's steps and the squares of pawns that would give check, seen from one square."""

    def reach(step: tuple[int, int]) -> int:
        return 1 << square + step[0] + 8 * step[1] if starts(step) >> square & 1 else 0

    rays = [sum(reach((n * x, n * y)) for n in range(1, 8)) for x, y in STEPS[:4] + STEPS[28:32]]
    sets = [STEPS[56:64], STEPS[:4] + STEPS[28:32], ((-1, 1), (1, 1))]
    return rays + [sum(map(reach, steps)) for steps in sets]


def plane_row(plane: int, chess960: bool) -> list[int]:
    """Offset, double step (a mask), goals of king and rook that castle, the rook, promotion to N, B, R, Q (masks).

    Under Chess960 the king steps onto the rook, so that any plane to the side may be castling and the rook is known.
    """
    right, left = (0x40, 0x20, 0x80), (0x04, 0x08, 0x01)
    if chess960:
        castling = right if OFFSETS[plane] > 0 else left
    else:
        castling = {CASTLE_RIGHT: right, CASTLE_LEFT: left}.get(plane, (0, 0, 0))
    under = (plane - UNDERPROMOTION_PLANE) // 3 if plane >= UNDERPROMOTION_PLANE else 3
    return [OFFSETS[plane], -(plane == 6), *castling, *[-(kind == under) for kind in range(4)]]


def hash_keys() -> list[int]:
    """Eight odd numbers without structure: the fractional parts of multiples of the golden ratio, hashed once more."""
    keys = []
    for i in range(8):
        x = (i + 1) * UNSIGNED_GOLDEN & ALL
        x = (x ^ x >> 30) * UNSIGNED_1 & ALL
        keys.append((x ^ x >> 27) * UNSIGNED_2 & ALL | 1)
    return keys


def _make() -> Tables:
    def row(words: list[int]) -> Tensor:
        return torch.tensor([signed(word) for word in words], dtype=torch.int64)

    def rows(words: list[list[int]]) -> Tensor:
        return row([word for line in words for word in line]).reshape(len(words), -1)

    def column(words: list[int]) -> Tensor:
        return row(words).unsqueeze(-1)

    def stepping(up: range, down: range) -> tuple[Tensor, Tensor, Tensor]:
        from_up, from_down = (column([starts(STEPS[plane]) for plane in planes]) for planes in (up, down))
        return column([OFFSETS[plane] for plane in up]), from_up, from_down

    (far, far_up, far_down), leaps = stepping(range(28), range(28, 56)), stepping(range(56, 60), range(60, 64))
    return Tables(
        far=far,
        far_up=far_up,
        far_down=far_down,
        slide=far[:24],
        slide_up=far_up[:24],
        slide_down=far_down[:24],
        axis=far[:4],
        axis_2=2 * far[:4],
        axis_4=4 * far[:4],
        axis_up=far_up[:4],
        axis_down=far_down[:4],
        aside=far[1:4:2],
        aside_up=far_up[1:4:2],
        leap=leaps[0],
        leap_up=leaps[1],
        leap_down=leaps[2],
        around=rows([around(square) for square in range(64)]).t().contiguous(),
        ring=row([around(square)[RING] for square in range(64)]),
        corner=column([0x80, 0x01]),
        between=column([0x60, 0x0E]),
        king_way=column([0x70, 0x1C]),
        king_goal=column([0x40, 0x04]),
        rook_goal=column([0x20, 0x08]),
        distance=column([*range(1, 8)]),
        straight_first=row([1, 0, 2]),
        plane=rows([plane_row(p, False) for p in range(73)]).t().contiguous(),
        plane960=rows([plane_row(p, True) for p in range(73)]).t().contiguous(),
        hash_keys=column(hash_keys()),
        spread=low_bits(torch.arange(256), 8).view(torch.int64).squeeze(-1),
    )


_made: dict[torch.device, Tables] = {torch.device("cpu"): _make()}


def tables(device: torch.device) -> Tables:
    """The tables on a device, copied there when they are first asked for."""
    if device not in _made:
        made = Tables(*(part.to(device) for part in _made[torch.device("cpu")]))
        if torch.compiler.is_compiling():
            return made  # what a graph makes must not outlive it
        _made[device] = made
    return _made[device]
