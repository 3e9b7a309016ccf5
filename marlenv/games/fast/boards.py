"""The fast form of a board game of two who move in turn: the kernels are given a game that begins, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Size

from marlenv.games.fast.compiled_rules import CompiledRules, rows_of
from marlenv.games.rules import State


class FastBoard(CompiledRules[State]):
    """The :class:`CompiledRules` of a board game in which all games begin alike, so that rows of them are copied.

    The options of steps and rollouts are ``(options, (state, observations, masks))``, with a game that begins, one row.
    """

    held = True

    def _playing(self, kind: np.dtype[Any]) -> tuple[Any, ...]:
        start = self.rules.start(Size([1]))
        seen, legal = self.rules.observe(start)[0].numpy(), self.rules.legal(start)
        masks = torch.cat((legal, torch.ones_like(legal))).numpy()
        rows = (np.ascontiguousarray(part.reshape(1, -1)) for part in (*seen.astype(kind), *masks))
        first, second, mine, others = rows
        return self.options, (rows_of(start, 1), (first, second), (mine, others))
