"""ChessEnv: texts that come back in data: which rows begin anew, how castling is read, which kinds are refused."""

from __future__ import annotations

import io
from typing import Any

import chess
import chess.pgn
import pytest
import torch
from chess_reference import number
from tensordict import NonTensorData, NonTensorStack, TensorDict

from marlenv.errors import BadNotation, DtypeError, ShapeError
from marlenv.games.chess import ChessEnv

ENDING = "8/8/8/4k3/8/8/4P3/4K3 w - - 5 40"
CASTLED = "1. e4 e5 2. Nf3 Nf6 3. Bc4 Bc5 4. O-O *"


def end(pgn: str) -> str:
    """The FEN after the moves of a score, as python-chess reads it."""
    game = chess.pgn.read_game(io.StringIO(pgn))
    assert game is not None
    assert not game.errors
    return game.end().board().fen()


def moved(env: Any, td: Any, *sans: str) -> Any:
    """The data after a move in each row."""
    actions = torch.stack([number(san) for san in sans]).reshape(env.batch_size)
    return env.step(td.set("action", actions))["next"]


def test_a_new_position_in_one_row_leaves_the_past_of_the_others() -> None:
    env = ChessEnv(stateful=False, include_fen=True, include_san=True, include_pgn=True, draws="claim", batch_size=[2])
    board, td = chess.Board(), env.reset()
    shuffle = ["Nf3", "Nf6", "Ng1", "Ng8", "Nf3", "Nf6", "Ng1"]
    for san in shuffle:
        board.push_san(san)
        td = env.step_mdp(env.step(td.set("action", number(san).expand(2))))
    td["fen"] = NonTensorStack(td["fen"][0], ENDING)
    out = moved(env, td, "Ng8", "Kd2")
    board.push_san("Ng8")
    assert board.is_repetition(3)
    assert out["done"].flatten().tolist() == [True, False]
    assert env.outcomes[int(env.rules.outcome(env.read(out))[0])] == "threefold repetition"
    assert [end(text) for text in out["pgn"]] == list(out["fen"]) == [board.fen(), "8/8/8/4k3/8/8/3KP3/8 b - - 6 40"]
    assert list(out["san"]) == ["Ng8", "Kd2"]


@pytest.mark.parametrize("stateful", [True, False])
def test_a_score_that_leads_elsewhere_begins_with_the_fen(stateful: bool) -> None:
    env = ChessEnv(stateful=stateful, include_fen=True, include_san=True, include_pgn=True)
    old = moved(env, env.reset(), "e4")
    td = env.reset(TensorDict({"fen": ENDING, "pgn": old["pgn"], "san": old["san"]}))
    assert (td["san"], td["fen"], end(td["pgn"])) == ("<start>", ENDING, ENDING)
    out = moved(env, td, "Kd2")
    game = chess.pgn.read_game(io.StringIO(out["pgn"]))
    assert game is not None
    assert (game.headers["FEN"], str(game.mainline_moves())) == (ENDING, "40. Kd2")
    td = env.reset(TensorDict({"fen": old["fen"], "pgn": old["pgn"], "san": "Nf3"}))  # it leads to this one
    assert (td["san"], td["pgn"]) == ("e4", old["pgn"])
    assert moved(env, td, "e5")["pgn"].endswith("1. e4 e5 *")


def test_a_new_fen_in_the_data_of_a_game_begins_its_score_anew() -> None:
    env = ChessEnv(stateful=False, include_fen=True, include_san=True, include_pgn=True)
    td = moved(env, env.reset(), "e4")
    td["fen"] = ENDING
    out = moved(env, td, "Kd2")
    assert (out["san"], end(out["pgn"])) == ("Kd2", out["fen"])
    texts = ChessEnv(include_fen=True, include_san=True)
    assert texts.reset(TensorDict({"fen": ENDING, "san": "e4"}))["san"] == "<start>"


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("tags", ["", '[Variant "Chess960"]\n\n'])
@pytest.mark.parametrize("chess960", [True, False])
def test_castling_in_a_score_is_read_by_the_rules_of_the_env(chess960: bool, tags: str, stateful: bool) -> None:
    env = ChessEnv(include_pgn=True, include_fen=True, include_san=True, chess960=chess960, stateful=stateful)
    td = env.reset(TensorDict({"pgn": tags + CASTLED}))
    assert (td["fen"], td["san"], bool(td["turn"])) == (end(CASTLED), "O-O", False)
    out = moved(env, td, "O-O")
    assert end(out["pgn"]) == out["fen"] == end(CASTLED.replace("*", "O-O *"))
    assert ('[Variant "Chess960"]' in out["pgn"]) == (chess960 or bool(tags))


def test_scores_that_the_rules_do_not_know_are_refused() -> None:
    shuffled = "1. Nf3 Nf6 2. Ng1 Ng8 3. Nf3 Nf6 4. Ng1 Ng8 5. e4 *"
    for stateful in (True, False):
        env = ChessEnv(include_pgn=True, draws="claim", stateful=stateful)
        with pytest.raises(
            BadNotation, match=r"row 0: the PGN goes on with e4 after the end .*\(threefold repetition\)"
        ):
            env.reset(TensorDict({"pgn": shuffled}))
        start = '[Variant "Chess960"]\n[FEN "bbrknrqn/pppppppp/8/8/8/8/PPPPPPPP/BBRKNRQN w KQkq - 0 1"]\n\n1. e4 *'
        with pytest.raises(BadNotation, match="impossible position: White cannot castle") as caught:
            env.reset(TensorDict({"pgn": start}))
        assert caught.value.__notes__[-1] == "in 'pgn' of row 0 of a ChessEnv with chess960=False"
        with pytest.raises(BadNotation, match="the side to move, w or b, got 'x'") as caught:
            ChessEnv(stateful=stateful, include_fen=True, batch_size=[2]).reset(
                TensorDict({"fen": NonTensorStack(ENDING, ENDING.replace("w", "x"))}, [2])
            )
        assert caught.value.__notes__ == ["in 'fen' of row 1"]


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a number": (NonTensorStack(ENDING, 5), DtypeError, "'fen' must be a text in every row, got int 5 in row 1"),
    "nothing": (NonTensorStack(None, ENDING), DtypeError, "'fen' must be a text in every row, got None in row 0"),
    "bytes": (NonTensorData(b"8", batch_size=[2]), DtypeError, "got bytes b'8' in row 0"),
    "a tensor": (
        torch.zeros(2, 3),
        DtypeError,
        r"'fen' must be a text in every row, got a tensor torch.float32 \[2, 3\]",
    ),
    "texts": (
        NonTensorStack(NonTensorStack(ENDING, ENDING), NonTensorStack(ENDING, ENDING)),
        ShapeError,
        "got 4 texts",
    ),
}


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_text_is_named_with_its_row(wrong: str, stateful: bool) -> None:
    value, error, says = WRONG[wrong]
    env = ChessEnv(stateful=stateful, include_fen=True, batch_size=[2])
    with pytest.raises(error, match=f"^ChessEnv: .*{says}"):
        env.reset(TensorDict({"fen": value}, [2]))


def test_hashes_of_another_kind_are_refused() -> None:
    env = ChessEnv(include_fen=True, include_hash=True, include_hash_inv=True)
    with pytest.raises(ShapeError, match=r"ChessEnv: fen_hash must be uint8 \[32\], got a tensor torch.uint8 \[31\]"):
        env.reset(TensorDict({"fen_hash": torch.zeros(31, dtype=torch.uint8)}))
    with pytest.raises(DtypeError, match=r"ChessEnv: fen_hash must be uint8 \[32\], got a tensor torch.float32"):
        env.reset(TensorDict({"fen_hash": torch.zeros(32)}))


def test_an_env_without_a_batch_size_begins_any_number_of_games() -> None:
    env, other = (ChessEnv(stateful=False, include_fen=True, **size) for size in ({}, {"batch_size": [2]}))
    black = "7k/8/8/8/8/8/6p1/K7 b - - 0 1"
    given = TensorDict({"fen": NonTensorStack(ENDING, black)}, [2])
    td, want = env.reset(given.clone()), other.reset(given.clone())
    assert torch.equal(td["action_mask"], want["action_mask"])
    assert td["action_mask"].sum(-1).tolist() == [chess.Board(fen).legal_moves.count() for fen in (ENDING, black)]
    out = env.step(td.set("action", torch.stack([number("Kd2"), number("g1=Q+")])))["next"]
    assert list(out["fen"]) == ["8/8/8/4k3/8/8/3KP3/8 b - - 6 40", "7k/8/8/8/8/8/8/K5q1 w - - 0 2"]
    drawn = env.rand_action(td.clone())["action"]
    assert bool(td["action_mask"].gather(-1, drawn.unsqueeze(-1)).all())
    assert env.reset()["action_mask"].shape == (29275,)
