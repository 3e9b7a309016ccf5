"""One game of Chess960 after another: how each ends, and that the first positions are drawn anew for every game."""

from __future__ import annotations

from typing import Any

import chess
import pytest
import torch
from tensordict import TensorDictBase

import marlenv
from marlenv.games import GameEnv
from marlenv.games.chess import Chess, ChessEnv
from marlenv.games.chess.board import State
from marlenv.testing.comparison import differences

ENDGAMES = [
    "4k3/8/8/8/8/8/8/4K2R w - - 98 120",  # drawn in two plies, whatever is played
    "7k/8/5KQ1/8/8/8/8/8 w - - 0 90",  # some moves mate
    "7k/5Q2/8/6K1/8/8/8/8 w - - 10 70",  # some moves are stalemate
    "4k3/8/8/8/3Q4/8/8/4K3 w - - 99 130",  # drawn by the next move
    "4k3/8/8/8/8/8/4r3/4K3 w - - 3 60",  # White may take the rook: insufficient material
]
FIRST = {chess.Board.from_chess960_pos(number).fen() for number in range(960)}


def begun(env: GameEnv[State]) -> TensorDictBase:
    """Games in endgames, by streams of their own."""
    td = env.reset()
    for name, part in zip(State._fields, env.rules.from_fens(ENDGAMES), strict=True):
        td["state", name] = part
    return env.reset(td, set_state=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["torch", "auto"])
@pytest.mark.parametrize("options", [{}, {"mask": "bool"}, {"illegal": "lose"}, {"opponent": "random"}], ids=str)
def test_new_games_begin_where_games_end(options: dict[str, Any], path: str) -> None:
    """However they are played on: in one call, step by step, or in a rollout."""
    given = {"chess960": True, "path": path, "seed": 4, **options}
    one, other, rolling = (marlenv.make("chess", len(ENDGAMES), **given) for _ in range(3))
    x, y, steps = begun(one), begun(other), 12
    data = rolling.rollout(steps, tensordict=begun(rolling), auto_reset=False, break_when_any_done=False)
    ended = 0
    for step in range(steps):
        before = [chess.Board(fen, chess960=True) for fen in one.rules.fens(one.read(x))]
        x, y = one.step_and_maybe_reset(one.rand_action(x)), other.step(other.rand_action(y))
        then = other.maybe_reset(other.step_mdp(y))
        assert not differences(x[0], y)
        assert not differences(x[1], then)
        assert not differences(x[0].exclude("next"), data[:, step].exclude("next"))
        assert not differences(x[0]["next"], data[:, step]["next"])
        assert not any(board.is_game_over() or board.halfmove_clock >= 100 for board in before)
        over = x[0]["next", "done"].flatten().tolist()
        left, fens = one.rules.fens(one.read(x[0]["next"])), one.rules.fens(one.read(x[1]))
        for done, last, fen in zip(over, left, fens, strict=True):
            board = chess.Board(last, chess960=True)
            assert done == (board.is_game_over() or board.halfmove_clock >= 100)
            assert fen in FIRST if done and "opponent" not in options else done or fen == last
        ended += sum(over)
        assert not bool(x[1]["done"].any())
        x, y = x[1], then
    assert ended >= 2


def drawn(env: Any, games: int) -> torch.Tensor:
    """The numbers of the first positions of games that are all played alike, ``[rows, games]``."""
    numbers = {chess.Board.from_chess960_pos(number).fen(): number for number in range(960)}
    mated = env.rules.from_fens(["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"])
    td, seen = env.reset(), []
    for _ in range(games):
        seen.append([numbers[fen] for fen in (td["fen"] if "fen" in td else env.rules.fens(env.read(td)))])
        if isinstance(env, GameEnv):  # all games end in the same position
            for name, part in zip(State._fields, mated, strict=True):
                td["state", name] = part.expand_as(td["state", name]).clone()
            td = env.maybe_reset(td.set("done", torch.ones_like(td["done"])))
        else:
            td["action"] = td["action_mask"].int().argmax(-1)
            td = env.step_and_maybe_reset(td)[1]
    return torch.tensor(seen).T


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda rows: marlenv.make("chess", rows, chess960=True, seed=0),
        lambda rows: marlenv.make("chess", rows, chess960=True, seed=0, path="torch"),
        lambda rows: marlenv.make("chess", rows, chess960=True, seed=0, max_steps=1),
        lambda rows: ChessEnv(batch_size=[rows], chess960=True, seed=0, max_plies=1, include_fen=True),
        lambda rows: ChessEnv(batch_size=[rows], chess960=True, seed=0, max_plies=1, include_fen=True, stateful=False),
    ],
    ids=["grouped", "torch", "with a limit", "stateful", "stateless"],
)
def test_first_positions_are_independent_draws(make: Any) -> None:
    """As many of the 960 are seen as draws of each would show; the same players play each game in the same way."""
    rows, games = 2, 300
    seen = drawn(make(rows), games)
    never = (1 - 1 / 960) ** games
    expected = 960 * (1 - never)
    for row in seen:
        assert abs(len(row.unique()) - expected) < 5 * (960 * never * (1 - never)) ** 0.5
    counts, mean = seen.flatten().bincount(minlength=960), rows * games / 960
    assert abs(float(((counts - mean) ** 2 / mean).sum()) - 959) < 4 * (2 * 959) ** 0.5
    assert int((seen[0] == seen[1]).sum()) < 6
    assert torch.equal(drawn(make(1), 20)[0], seen[0, :20])


def test_the_next_first_position_is_in_the_data_of_a_row() -> None:
    env = marlenv.make("chess", 5, chess960=True, seed=1)
    td = env.step_mdp(env.rand_step(env.reset()))
    every = torch.ones(5, 1, dtype=torch.bool)
    whole = env.reset(td.clone().set("_reset", every))
    free = marlenv.make("chess", chess960=True, seed=7)  # of another seed, too
    for i in range(5):
        alone = free.reset(td[i : i + 1].clone().set("_reset", every[:1]))
        assert not differences(alone, whole[i : i + 1])
    some = env.reset(td.clone().set("_reset", torch.arange(5).unsqueeze(-1) == 2))
    assert not differences(some[2], whole[2])
    assert not differences(some[3:], td[3:])
    kept = env.reset(env.get_state(td), set_state=True)
    assert torch.equal(kept["state", "first_rng"], td["state", "first_rng"])


@pytest.mark.parametrize("stateful", [True, False])
def test_a_kept_game_in_torchrls_layout_knows_what_follows(stateful: bool) -> None:
    env = ChessEnv(batch_size=[2], chess960=True, seed=0, max_plies=3, include_fen=True, stateful=stateful)
    td = env.rand_step(env.reset())["next"]
    kept = env.get_state(td)
    follows = []
    for _ in range(2):
        td = env.reset(kept.clone(), set_state=True)
        for _ in range(2):
            td = env.step_and_maybe_reset(td.set("action", td["action_mask"].int().argmax(-1)))[1]
        assert set(td["fen"]) <= FIRST
        follows.append(td["fen"])
    assert follows[0] == follows[1]
    some = env.reset(td.clone().set("_reset", torch.tensor([[True], [False]])))
    assert some["fen"][1] == td["fen"][1]
    assert some["fen"][0] != td["fen"][0]


def test_one_numbered_position_needs_no_stream() -> None:
    env = marlenv.make("chess", 2, chess960=True, number=5, seed=0)
    assert "first_rng" not in env.reset()["state"].keys()
    assert "first_rng" not in marlenv.make("chess", 2).reset()["state"].keys()
    assert Chess(chess960=True, number=5).fens(env.read(env.reset()))[0] in FIRST
