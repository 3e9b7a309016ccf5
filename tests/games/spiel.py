"""Random games that are played by our rules and by OpenSpiel's at once, and compared at every position."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Size

from marlenv.games import Rules
from marlenv.games.rules import State

Same = Callable[[int], "int | list[int]"]


def compare(rules: Rules[State], peer_name: str, games: int, seed: int = 0, *, peers_action: Same = int) -> int:
    """Plays random games; fails at the first difference in legal actions, player to move, end or returns.

    Args:
        rules: ours.
        peer_name: OpenSpiel's name of the game, with options.
        games: how many.
        seed: of the choice of moves.
        peers_action: from our numbers of actions to the peer's; to several where the position says which is legal.

    Returns:
        How many positions were compared.
    """
    import pyspiel

    peer = pyspiel.load_game(peer_name)
    to_peer = np.array([peers_action(a) for a in range(rules.n_actions)]).reshape(rules.n_actions, -1)
    choose = np.random.default_rng(seed)
    state, peers = rules.start(Size([games])), [peer.new_initial_state() for _ in range(games)]
    compared = 0
    while peers:
        compared += len(peers)
        ended = np.array([p.is_terminal() for p in peers])
        assert rules.over(state).tolist() == ended.tolist()
        assert ((rules.outcome(state) > 0) == rules.over(state)).all()
        assert rules.returns(state).tolist() == [
            p.returns() if e else [0.0, 0.0] for p, e in zip(peers, ended, strict=True)
        ]
        legal = rules.legal(state).numpy()
        assert not legal[ended].any()
        if ended.any():
            going = torch.from_numpy(~ended)
            state, legal = type(state)(*(leaf[going] for leaf in state)), legal[~ended]
            peers = [p for p, e in zip(peers, ended, strict=True) if not e]
        if not peers:
            break
        assert rules.player(state).tolist() == [p.current_player() for p in peers]
        theirs = np.zeros((len(peers), peer.num_distinct_actions()), dtype=bool)
        for row, p in zip(theirs, peers, strict=True):
            row[p.legal_actions()] = True
        same = np.array_equal(mapped := theirs[:, to_peer].any(-1), legal) and theirs.sum() == legal.sum()
        assert same, next(f"\n{p}" for p, a, b in zip(peers, mapped, legal, strict=True) if (a != b).any())
        actions = (legal * choose.random(legal.shape)).argmax(-1)
        for p, row, numbers in zip(peers, theirs, to_peer[actions], strict=True):
            p.apply_action(next(a for a in numbers.tolist() if row[a]))
        state = rules.play(state, torch.from_numpy(actions))
    return compared
