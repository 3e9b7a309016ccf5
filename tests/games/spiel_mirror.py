"""Plays our rules and OpenSpiel's side by side, and compares every position of every game.

Chance is ours: OpenSpiel's chance nodes are given what our position says came up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyspiel
import torch
from torch import Size, Tensor

from marlenv.games import Rules
from marlenv.rng import RowRNG

Chance = Callable[[Any, Any], int]  # (our position without batch dimensions, theirs at a chance node) -> their action


def mirror(
    rules: Rules[Any],
    theirs: str,
    chance: Chance,
    *,
    games: int,
    seed: int = 0,
    tensor: str | None = "observation_tensor",
    seen: Callable[[Tensor], Tensor] = lambda ours: ours,
    compare: Callable[[Any, Any], None] | None = None,
    every: int = 1,
    paid: bool = True,
    last: bool = True,
    actions: np.ndarray | None = None,
    choose: Callable[[Any, Tensor], Tensor] | None = None,
) -> int:
    """Plays random games; returns the number of positions that were the same.

    Args:
        tensor: the method of their states that gives what our ``observe`` does.
        seen: turns our observations into theirs.
        compare: more to compare: our position and theirs.
        actions: for each player and action of ours, theirs; int64 ``[P, n]``. The same when left out.
        choose: picks actions from our positions and numbers in [0, 1); any legal ones when left out.
        paid: whether to compare returns.
        last: whether to compare observations of finished games.
        every: compare observations in every so many-th game only.
    """
    generator = torch.Generator().manual_seed(seed)
    peer = pyspiel.load_game(theirs)
    assert peer.num_distinct_actions() == rules.n_actions
    ours = rules.start(Size([games]), rng=RowRNG(seed, [games]))
    states = [peer.new_initial_state() for _ in range(games)]
    table = np.tile(np.arange(rules.n_actions), (len(rules.players), 1)) if actions is None else actions
    positions = 0
    while True:
        going = []
        legal, over, player = rules.legal(ours).numpy(), rules.over(ours).tolist(), rules.player(ours).tolist()
        returns, observed = rules.returns(ours).numpy(), None
        if tensor is not None:
            observed = seen(rules.observe(ours)).flatten(2).to(torch.float32).numpy()
        for i, other in enumerate(states):
            while other.is_chance_node():
                other.apply_action(chance(type(ours)(*(leaf[i] for leaf in ours)), other))
            where = f"game {i}: {other.history()}"
            assert over[i] == other.is_terminal(), where
            assert not paid or returns[i].tolist() == other.returns(), where
            if not over[i]:
                going.append(i)
                assert player[i] == other.current_player(), where
            mine = np.sort(table[player[i], legal[i]])
            assert mine.tolist() == other.legal_actions(), where
            if observed is not None and tensor is not None and i % every == 0 and (last or not over[i]):
                for seat in range(len(rules.players)):
                    np.testing.assert_array_equal(
                        observed[i, seat], np.array(getattr(other, tensor)(seat), np.float32), where
                    )
            if compare is not None:
                compare(type(ours)(*(leaf[i] for leaf in ours)), other)
            positions += 1
        if not going:
            return positions
        ours = type(ours)(*(leaf[going] for leaf in ours))
        states = [states[i] for i in going]
        action = (choose or rules.pick)(ours, torch.rand(len(going), generator=generator))
        for i, (other, chosen) in enumerate(zip(states, action.tolist(), strict=True)):
            other.apply_action(int(table[player[going[i]], chosen]))
        ours = rules.play(ours, action)
