"""Positions as pictures of bytes: every square is a small picture, looked up on the device where the position lives.

The pieces are those of ``drawing.py``, filled here: points of a fine grid are inside a shape by the even-odd rule,
and on its outline near one of its edges.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from marlenv.games.chess.bits import turned, unpack_squares
from marlenv.games.chess.board import KINGS, OWN, PAWNS, TURN, WORDS
from marlenv.games.chess.pictures.drawing import DARK, LIGHT, SHAPES
from marlenv.games.parts.tables import Table

SQUARE, MARGIN = 45, 15  # pixels
SIDE = 8 * SQUARE + 2 * MARGIN
FINE = 4  # grid points per pixel, each way
LINE = 2.5  # width of outlines, in hundredths of a square
FRAME = (0x5B, 0x46, 0x36)
FILL = {
    True: ((0xFD, 0xFB, 0xF5), (0x22, 0x22, 0x22)),
    False: ((0x2B, 0x2B, 0x2B), (0xD8, 0xD2, 0xC8)),
}  # by White or not

Points = list[tuple[float, float]]

_TAG = re.compile(r"<(path|circle|rect) ([^>]*)/>")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_STEP = re.compile(r"([MLHVCZmlhvcz])([^MLHVCZmlhvcz]*)")
_NUMBER = re.compile(r"-?\d+\.?\d*")


def _outlines(shape: str) -> list[Points]:
    """The outlines of a shape, as corners in a square of 100 units."""
    found: list[Points] = []
    for kind, inside in _TAG.findall(shape):
        at = dict(_ATTRIBUTE.findall(inside))
        if kind == "path":
            found += _path(at["d"])
        elif kind == "circle":
            x, y, r = (float(at[name]) for name in ("cx", "cy", "r"))
            turns = torch.arange(24) * (2 * torch.pi / 24)
            found.append(list(zip((x + r * turns.cos()).tolist(), (y + r * turns.sin()).tolist(), strict=True)))
        else:
            x, y, w, h = (float(at[name]) for name in ("x", "y", "width", "height"))
            found.append([(x, y), (x + w, y), (x + w, y + h), (x, y + h)])
    return found


def _path(text: str) -> list[Points]:
    """The lines of an SVG path; curves become eight straight pieces."""
    lines: list[Points] = []
    for letter, rest in _STEP.findall(text):
        numbers, own = [float(n) for n in _NUMBER.findall(rest)], letter.islower()
        if letter in "Zz":
            continue
        if letter in "Mm":
            lines.append([])
        last = lines[-1][-1] if lines[-1] else (0.0, 0.0)
        size = {"H": 1, "V": 1, "C": 6}.get(letter.upper(), 2)
        for i in range(0, len(numbers), size):
            part = numbers[i : i + size]
            base = last if own else (0.0, 0.0)
            if size == 1:
                across = letter.upper() == "H"
                ends = [(base[0] + part[0], last[1]) if across else (last[0], base[1] + part[0])]
            else:
                ends = [(base[0] + part[j], base[1] + part[j + 1]) for j in range(0, size, 2)]
            lines[-1] += _curve(last, ends) if size == 6 else ends
            last = lines[-1][-1]
    return lines


def _curve(start: tuple[float, float], control: Points) -> Points:
    """A cubic Bezier curve without its start."""
    found = []
    for t in (i / 8 for i in range(1, 9)):
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        points = (start, *control)
        found.append(
            (
                sum(w * p[0] for w, p in zip(weights, points, strict=True)),
                sum(w * p[1] for w, p in zip(weights, points, strict=True)),
            )
        )
    return found


def _cover(shape: str) -> tuple[Tensor, Tensor]:
    """How much of each pixel a shape fills, and how much its outline does; float32 ``[45, 45]`` each."""
    grid = (torch.arange(SQUARE * FINE) + 0.5) * (100 / (SQUARE * FINE))
    y, x = grid.unsqueeze(1), grid.unsqueeze(0)
    filled = torch.zeros(SQUARE * FINE, SQUARE * FINE, dtype=torch.bool)
    edge = torch.zeros_like(filled)
    for corners in _outlines(shape):
        inside = torch.zeros_like(filled)
        closed = len(corners) > 2
        for (x1, y1), (x2, y2) in zip(corners, corners[1:] + corners[:1], strict=True):
            if closed and y1 != y2:
                inside ^= ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
            length = (x2 - x1) ** 2 + (y2 - y1) ** 2
            along = (((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / (length or 1.0)).clamp(0, 1)
            distance = (x1 + along * (x2 - x1) - x) ** 2 + (y1 + along * (y2 - y1) - y) ** 2
            edge |= distance < (LINE / 2) ** 2
        filled |= inside
    cells = [
        part.float().unflatten(0, (SQUARE, FINE)).unflatten(2, (SQUARE, FINE)).mean((1, 3)) for part in (filled, edge)
    ]
    return cells[0], cells[1]


def _color(text: str) -> Tensor:
    return torch.tensor([int(text[i : i + 2], 16) for i in (1, 3, 5)], dtype=torch.float32).reshape(3, 1, 1)


def _atlas() -> Tensor:
    """The pictures of a square: dark and light, empty or with White's or Black's pieces.

    uint8 ``[2 * 13, 3, 45, 45]``.
    """
    found = []
    for ground in (DARK, LIGHT):
        plain = _color(ground).expand(3, SQUARE, SQUARE)
        found.append(plain)
        for white in (True, False):
            fill, line = (torch.tensor(c, dtype=torch.float32).reshape(3, 1, 1) for c in FILL[white])
            for shape in SHAPES.values():
                inside, edge = _cover(shape)
                found.append((plain * (1 - inside) + fill * inside) * (1 - edge) + line * edge)
    return torch.stack(found).round().to(torch.uint8)


ATLAS = Table(_atlas)


def pixels(board: Tensor) -> Tensor:
    """Pictures of positions from White's side; uint8 ``[*B, 3, 390, 390]``.

    Args:
        board: the words of ``State.board``, ``[*B, 16]``.

    >>> from marlenv.games.chess import Chess
    >>> pixels(Chess().start(torch.Size([2])).board).shape
    torch.Size([2, 3, 390, 390])
    """
    words = board.reshape(-1, WORDS)
    black = words[:, TURN : TURN + 1] == 1
    sets = torch.where(black, turned(words[:, : KINGS + 1]), words[:, : KINGS + 1])
    own, other = sets[:, OWN : OWN + 1], sets[:, 1 - OWN : 2 - OWN]
    white = torch.where(black, other, own)
    pieces = sets[:, PAWNS:]
    squares = unpack_squares(torch.cat((pieces & white, pieces & ~white), -1))  # [N, 12, 64]
    kinds = (squares.to(torch.int64) * torch.arange(1, 13, device=board.device).unsqueeze(-1)).sum(1)
    number = torch.arange(64, device=board.device)
    light = ((number + (number >> 3)) & 1) * 13
    tiles = ATLAS[kinds + light].reshape(-1, 8, 8, 3, SQUARE, SQUARE).flip(1)
    whole = tiles.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, 8 * SQUARE, 8 * SQUARE)
    frame = torch.tensor(FRAME, dtype=torch.uint8, device=board.device).reshape(1, 3, 1, 1)
    out = frame.expand(whole.shape[0], 3, SIDE, SIDE).clone()
    out[..., MARGIN : MARGIN + 8 * SQUARE, MARGIN : MARGIN + 8 * SQUARE] = whole
    return out.reshape(*board.shape[:-1], 3, SIDE, SIDE)
