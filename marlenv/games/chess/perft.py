"""Counting the games of a given length from a position: the usual test of a move generator.

Known counts are at https://www.chessprogramming.org/Perft_Results. Repetitions and other draws do not end a game here.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from marlenv.errors import whole
from marlenv.games.chess.bits import unpack
from marlenv.games.chess.board import WORDS
from marlenv.games.chess.fast import paths
from marlenv.games.chess.moves import advance, generate
from marlenv.games.chess.text.notation import read_fen, write_uci
from marlenv.games.parts.bits import counted

CHUNK = 16_384  # positions that the torch path expands at once


def perft(fen: str, depth: int, chess960: bool = False, *, path: paths.Path = "auto") -> int:
    """The number of games of ``depth`` plies from a position.

    Args:
        fen: the position.
        depth: plies, 0 or more.
        chess960: castling by the rules of Chess960.
        path: ``"auto"`` takes numba where it is installed, else torch.

    Raises:
        BadNotation: ``fen`` is no FEN of a possible position.
        SpecError: ``depth`` is no number of plies.

    >>> perft("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 3)
    8902
    """
    whole("perft", "depth", depth, 0)
    words = torch.tensor(read_fen(fen, chess960=chess960).words())
    return _count(words.unsqueeze(-1), depth, chess960, path)


def divide(fen: str, depth: int, chess960: bool = False, *, path: paths.Path = "auto") -> dict[str, int]:
    """The same by first move, in UCI; ``depth`` at least 1.

    Raises:
        BadNotation: ``fen`` is no FEN of a possible position.
        SpecError: ``depth`` is no number of plies.

    >>> divide("7k/8/8/8/8/8/8/K7 w - - 0 1", 2)
    {'a1a2': 3, 'a1b1': 3, 'a1b2': 3}
    """
    whole("divide", "depth", depth, 1)
    position = read_fen(fen, chess960=chess960)
    words = torch.tensor(position.words()).unsqueeze(-1)
    actions = unpack(generate(words, chess960).planes.t().contiguous())[0].nonzero().flatten()
    after = advance(words.expand(-1, len(actions)), actions, chess960)
    counts = [_count(after[:, i : i + 1], depth - 1, chess960, path) for i in range(len(actions))]
    names = [write_uci(action, position) for action in actions.tolist()]
    return dict(sorted(zip(names, counts, strict=True)))


def _count(words: Tensor, depth: int, chess960: bool, path: paths.Path) -> int:
    """The games of ``depth`` plies from one position ``[13, 1]``."""
    if depth == 0:
        return 1
    if not paths.compiled(path, words):
        return _walk(words, depth, chess960)
    row = np.zeros(WORDS, dtype=np.int64)
    row[: len(words)] = words[:, 0].numpy()
    return int(paths.kernels().perft(row.view(np.uint64), depth, chess960))


def _walk(words: Tensor, depth: int, chess960: bool) -> int:
    """The games of ``depth`` plies from positions ``[13, N]``, level by level and chunk by chunk."""
    planes = generate(words, chess960).planes
    if depth == 1:
        return int(counted(planes).sum())
    row, action = unpack(planes.t().contiguous()).nonzero(as_tuple=True)
    chunks = zip(row.split(CHUNK), action.split(CHUNK), strict=True)
    return sum(_walk(advance(words[:, rows], actions, chess960), depth - 1, chess960) for rows, actions in chunks)
