"""Games that begin where a text says: TorchRL's ChessEnv and ours are asked the same and answer the same."""

from __future__ import annotations

import warnings

import pytest
import torch
from tensordict import TensorDict

import marlenv

pytestmark = pytest.mark.reference

MIDDLE = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3"
MATE = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
PGN = "1. e4 e5 2. Nf3 *"
GIVEN = {
    "fen": {"fen": MIDDLE},
    "pgn": {"pgn": PGN},
    "nothing": {},
    "mate": {"fen": MATE},
    "nonsense": {"fen": "nonsense"},
}
TEXTS = {
    "fen": {"include_fen": True, "include_san": True, "include_legal_moves": True},
    "pgn": {"include_pgn": True},  # TorchRL fails at the last move of a PGN with include_san
    "both": {"include_fen": True, "include_pgn": True},
}


@pytest.fixture(scope="module")
def peer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torchrl.envs", reason="the oracle of this file").ChessEnv


def answer(made, given, **how):
    """What a reset, and a step from there, say; or the class of the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchRL announces that it will want set_state=True
            td = made.reset(TensorDict(given, []), **how)
        seen = {k: td[k] for k in ("fen", "san", "pgn") if k in td.keys()}
        legal = td["action_mask"].nonzero().flatten()
        out = made.step(td.set("action", legal[3]))["next"]
    except ValueError:
        return "ValueError"
    return seen, bool(td["turn"]), legal.tolist(), bool(out["turn"]), out["action_mask"].nonzero().flatten().tolist()


@pytest.mark.parametrize("how", [{}, {"set_state": True}, {"set_state": False}], ids=str)
@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("options", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("stateful", [True, False])
def test_a_reset_begins_where_torchrls_does(peer, options, given, how, stateful):
    if "fen" in given and "include_fen" not in options:
        return  # TorchRL reads the texts that it emits only; ours any
    if "pgn" in given and "include_fen" in options:
        return  # TorchRL reads the PGN only if it emits no FEN
    mine, theirs = (answer(make(stateful=stateful, **options), given, **how) for make in (marlenv.ChessEnv, peer))
    assert mine == theirs
    assert (mine == "ValueError") == (given.get("fen") in (MATE, "nonsense") and how != {"set_state": False})


@pytest.mark.parametrize("stateful", [True, False])
def test_all_actions_are_torchrls(peer, stateful):
    answers = []
    for make in (marlenv.ChessEnv, peer):
        env = make(include_fen=True, stateful=stateful)
        before = env.all_actions()["action"], env.cardinality()
        env.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = env.all_actions(TensorDict({"fen": MIDDLE}, []))["action"]
        moves = sorted(env.get_legal_moves()) if stateful else None
        answers.append((before, given, moves))
    (mine_before, mine, mine_moves), (their_before, theirs, their_moves) = answers
    assert torch.equal(mine_before[0], their_before[0])
    assert mine_before[1] == their_before[1] == 29275
    assert torch.equal(mine, theirs)
    assert mine_moves == their_moves


def test_a_rollout_begins_at_a_given_position(peer):
    for make in (marlenv.ChessEnv, peer):
        env = make(include_fen=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rollout = env.rollout(2, tensordict=TensorDict({"fen": MIDDLE}, []))
        assert rollout[0]["fen"] == MIDDLE
