"""ChessEnv: what is refused, and in which words; whatever comes is played or explained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

import chess
import pytest
import torch
from chess_reference import ODD_STARTS, number
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict

import marlenv
from marlenv.envs import EnvBase
from marlenv.errors import BadNotation, IllegalAction, KeyMissing, ResetError, ShapeError, SpecError
from marlenv.games import ConnectFour, GameEnv, TicTacToe, TicTacToeEnv
from marlenv.games.chess import Chess, ChessEnv
from marlenv.testing.comparison import differences


def test_an_illegal_move_names_row_player_and_move() -> None:
    env = marlenv.make("chess", batch_size=[2])
    td = env.reset()
    td["white", "action"] = torch.tensor([[6 * 64 + 12], [6 * 64 + 36]])
    td["black", "action"] = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(
        IllegalAction, match=r"action 420 \(e5e7\) of player 'white' in row \[1\] is illegal; legal are \['a3'"
    ):
        env.step(td)
    td["white", "action"] = torch.tensor([[6 * 64 + 12], [4672]])
    with pytest.raises(IllegalAction, match=r"action 4672 of player 'white' in row \[1\]"):
        env.step(td)
    kept = ChessEnv()
    with pytest.raises(IllegalAction, match=r"\('Qh4#'\) of player 'white' is illegal; legal are \['a2a3', "):
        kept.step(kept.reset().set("action", number("Qh4#")))
    with pytest.raises(IllegalAction, match=r"action -5 \(out of 0..29274\) of player 'white' is illegal"):
        kept.step(kept.reset().set("action", torch.tensor(-5)))


def test_an_illegal_move_can_lose() -> None:
    env = marlenv.make("chess", illegal="lose")
    td = env.reset()
    td["white", "action"] = td["black", "action"] = torch.tensor([0])
    out = env.step(td)["next"]
    assert (float(out["white", "reward"]), float(out["black", "reward"]), bool(out["done"])) == (-1.0, 1.0, True)
    assert env.rules.fens(env.read(out)) == [chess.STARTING_FEN]
    kept = ChessEnv(illegal="lose")
    out = kept.step(kept.reset().set("action", number("e5")))["next"]
    assert (float(out["reward"]), bool(out["terminated"])) == (-1.0, True)


@pytest.mark.parametrize("stateful", [True, False])
@pytest.mark.parametrize("seat", [0, 1])
def test_whose_illegal_move_it_was_says_the_reward(seat: int, stateful: bool) -> None:
    """Against an opponent the caller's earned 0 beside games that went on, and the opponent's cost the caller 1."""

    def wrong(td: TensorDict) -> TensorDict:
        return td.set("action", torch.full(td.batch_size, number("Qh4#")))

    options = {"illegal": "lose", "stateful": stateful, "seat": seat, "batch_size": [2], "seed": 0}
    env = ChessEnv(opponent="random", **options)
    td = env.rand_action(env.reset())
    td["action"][1] = -1
    out = env.step(td)["next"]
    assert (out["reward"].flatten().tolist(), out["done"].flatten().tolist()) == ([0.0, -1.0], [False, True])
    if seat == 0:
        env = ChessEnv(opponent=wrong, **options)
        out = env.step(env.rand_action(env.reset()))["next"]
        assert (out["reward"].flatten().tolist(), bool(out["done"].all())) == ([1.0, 1.0], True)


@pytest.mark.parametrize(
    "make", [partial(ChessEnv, stateful=False), ChessEnv, TicTacToeEnv, partial(GameEnv, TicTacToe())]
)
def test_a_game_that_an_illegal_move_ended_does_not_go_on(make: Callable[..., EnvBase]) -> None:
    """With TorchRL's keys the next step opened it again."""
    env = make(illegal="lose", batch_size=[2], seed=0)
    td = env.rand_action(env.reset())
    for key in env.action_keys:
        td.get(key)[1] = -1
    td = env.step_mdp(env.step(td))
    ended, state = td.clone(), env.get_state(td)
    for _ in range(3):
        td = env.step(env.rand_action(td))
        assert not any(td["next", key][1].any() for key in env.reward_keys)
        td = env.step_mdp(td)
        assert td["terminated"].flatten().tolist() == td["done"].flatten().tolist() == [False, True]
    again = env.set_state(state)
    assert differences(again, ended.select(*again.keys(True, True))) == []


def mated_and_begun(env: ChessEnv) -> TensorDict:
    """The data of two games, of which one is over."""
    td = env.reset()
    for sans in (("f3", "a3"), ("e5", "a6"), ("g4", "b3"), ("Qh4#", "b6")):
        td = env.step_mdp(env.step(td.set("action", torch.stack([number(san) for san in sans]))))
    return td


@pytest.mark.parametrize("stateful", [True, False])
def test_a_state_is_put_into_rows_beside_a_game_that_is_over(stateful: bool) -> None:
    """The row that was over refused the state of the other one."""
    env = ChessEnv(stateful=stateful, batch_size=[2], include_pgn=True)
    first = env.get_state(env.reset())
    td = mated_and_begun(env)
    kept = env.get_state(td)
    out = env.set_state(first, torch.tensor([False, True]), td)
    assert out["terminated"].flatten().tolist() == [True, False]
    assert [text.splitlines()[-1] for text in out["pgn"]] == ["1. f3 e5 2. g4 Qh4# 0-1", "*"]
    again = env.set_state(kept)
    assert not differences(again, td.exclude("action"))
    assert env.step(env.rand_action(again))["next", "done"].flatten().tolist() == [True, False]
    with pytest.raises(BadNotation, match=r"row 0: the game is over \(checkmate\) in 'rnb1kbnr"):
        env.reset(kept, set_state=True)


@pytest.mark.parametrize("why", ["illegal move", "move limit"])
@pytest.mark.parametrize("stateful", [True, False])
def test_no_game_begins_where_one_was_ended_and_what_is_kept_goes_on(stateful: bool, why: str) -> None:
    """The env had taken the game up by the time that it refused it; an illegal move had been forgotten."""
    env = ChessEnv(stateful=stateful, illegal="lose", max_plies=2)
    td = env.step_mdp(env.step(env.reset().set("action", number("e4"))))
    td = env.step_mdp(env.step(td.set("action", number("e4" if why == "illegal move" else "e5"))))
    ended = env.get_state(td)
    td = env.reset()
    with pytest.raises(
        ResetError, match=rf"^ChessEnv.reset: row 0: the game is over \({why}\) in 'rnbqkbnr/.* one that"
    ):
        env.reset(ended, set_state=True)
    assert not bool(env.step(td.set("action", number("d4")))["next", "done"])
    again = env.set_state(ended)
    assert (bool(again["done"]), bool(again["terminated"])) == (True, why == "illegal move")
    bare = again.exclude("done", "terminated", "truncated") if stateful and why == "illegal move" else again
    then = env.step(bare.set("action", number("d5")))["next"]  # nobody's action is read
    assert (bool(then["done"]), bool(then["terminated"])) == (True, why == "illegal move")


@pytest.mark.parametrize("stateful", [True, False])
def test_a_partial_reset_leaves_a_game_that_the_opponent_has_lost(stateful: bool) -> None:
    """The opponent was asked again in a game that its illegal move had ended."""
    asked: list[list[int]] = []

    def opponent(td: TensorDict) -> TensorDict:
        asked.append(td["turn"].flatten().tolist())
        return td.set(
            "action", torch.where(torch.tensor([len(asked) == 1, False]), -1, td["action_mask"].int().argmax(-1))
        )

    env = ChessEnv(stateful=stateful, illegal="lose", opponent=opponent, batch_size=[2])
    td = env.step_mdp(env.step(env.reset().set("action", number("e4").expand(2))))
    assert td["done"].flatten().tolist() == [True, False]
    before, count = env.get_state(td), len(asked)
    td = env.reset(td.set("_reset", torch.tensor([[False], [True]])))
    assert (len(asked), td["done"].flatten().tolist()) == (count, [True, False])
    assert not differences(env.get_state(td)[0], before[0])


def test_bad_options_and_data_are_explained() -> None:
    with pytest.raises(SpecError, match="layout='group'; did you mean 'grouped'"):
        marlenv.make("chess", layout="group")
    with pytest.raises(SpecError, match="mask='bits' needs layout='grouped'"):
        ChessEnv(mask="bits")
    with pytest.raises(SpecError, match="^GroupedChessEnv: mask must be 'bits' or 'bool', got 'packed'"):
        marlenv.make("chess", mask="packed")
    with pytest.raises(TypeError, match="no option 'chess690'; did you mean 'chess960'"):
        marlenv.make("chess", chess690=True)
    with pytest.raises(KeyMissing, match=r"call reset\(\) first"):
        ChessEnv().step(TensorDict({"action": number("e4")}, []))
    env = marlenv.make("chess")
    state = Chess(draws="forced").start(torch.Size([]))._asdict()
    with pytest.raises(SpecError, match=r"history \[\*B, 101\] .* got .*\[151\]"):
        env.reset(TensorDict({"state": state}, []), set_state=True)
    mated = Chess().from_fens(["7k/6Q1/6K1/8/8/8/8/8 b - - 1 1"])
    with pytest.raises(ResetError, match="True after a reset"):
        env.reset(TensorDict({"state": mated._asdict()}, [1]), set_state=True)
    two = marlenv.make("chess", batch_size=[2])
    with pytest.raises(ShapeError, match=r"batch size \[2\]"):
        two.step(env.reset())


class Failing:
    """An opponent that plays the fourth of its moves, or fails."""

    def __init__(self, how: str) -> None:
        self.how, self.fails = how, False

    def __call__(self, td: TensorDict) -> TensorDict:
        if self.fails and self.how == "raises":
            raise ValueError("the engine died")
        legal = td["action_mask"].nonzero().flatten()
        return td.set("action", torch.tensor(-1) if self.fails else legal[3])


@pytest.mark.parametrize("how", ["raises", "plays illegally"])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_game_goes_on_where_it_was_after_the_opponent_has_failed(seat: int, how: str) -> None:
    opponent, calm = Failing(how), Failing(how)
    env, other = (ChessEnv(opponent=one, seat=seat, include_pgn=True, max_plies=9) for one in (opponent, calm))
    td, wanted = env.reset(), other.reset()
    start = Chess(draws="torchrl").start(torch.Size([]))._asdict()
    for _ in range(2):
        td["action"] = wanted["action"] = td["action_mask"].nonzero().flatten()[5]
        before, mask = env.get_state(), env.action_spec.mask.clone()
        opponent.fails = True
        refused = [partial(env.step, td.clone())]
        if seat == 1:  # the opponent begins
            refused += [env.reset, partial(env.set_state, TensorDict({"state": start}, []))]
        for call in refused:
            with pytest.raises(ValueError, match="the engine died|is illegal"):
                call()
            assert not differences(env.get_state(), before)
            assert torch.equal(env.action_spec.mask, mask)
        opponent.fails = False
        td, wanted = env.step(td)["next"], other.step(wanted)["next"]
        assert not differences(td, wanted)


@pytest.mark.parametrize("stateful", [True, False])
def test_a_state_without_a_game_is_refused_and_the_game_goes_on(stateful: bool) -> None:
    env = ChessEnv(stateful=stateful)
    td = env.step(env.reset().set("action", number("e4")))["next"]
    for state in ({"foo": torch.tensor(1)}, {"fen": chess.STARTING_FEN}):  # this env emits no FEN
        with pytest.raises(KeyMissing, match=r"^ChessEnv: expected 'state'.*, the data has \['(foo|fen)'\]"):
            env.set_state(TensorDict(state, []))
    assert not bool(env.step(td.set("action", number("e5")))["next", "done"])


@pytest.mark.parametrize("rows", [3, 128])
@pytest.mark.parametrize("layout", ["grouped", "connect four"])
def test_flags_and_positions_that_would_be_read_beyond_their_end_are_refused(rows, layout):
    """Compiled code goes by addresses: what is too short must not get there."""
    four = layout == "connect four"
    env = GameEnv(ConnectFour(), batch_size=[rows]) if four else marlenv.make("chess", layout=layout, batch_size=[rows])
    td = env.rand_action(env.reset())
    for flags in (torch.zeros(rows, 50, dtype=torch.bool), torch.zeros(rows, 1), torch.zeros(rows, dtype=torch.bool)):
        with pytest.raises(ShapeError, match=rf"'done' must be bool \[{rows}, 1\], got"):
            env.step(td.clone().set("done", flags))
        with pytest.raises(ShapeError, match=rf"'done' must be bool \[{rows}, 1\], got"):
            env.maybe_reset(td.clone().set("done", torch.ones_like(flags)))
    if not four:
        wrong = td.clone()
        wrong["state", "history"] = wrong["state", "history"].int()
        with pytest.raises(SpecError, match=r"a position is int64 .* 'history': 'torch.int32"):
            env.step(wrong)


@settings(max_examples=60, deadline=None)
@given(
    number=st.one_of(st.integers(-9, 4680), st.integers(-(2**63), 2**63 - 1)),
    layout=st.sampled_from(["torchrl", "grouped"]),
)
def test_any_number_is_played_or_refused(number: int, layout: str) -> None:
    env = marlenv.make("chess", layout=layout)
    td = env.reset()
    if layout == "torchrl":
        td["action"] = torch.tensor(number)
    else:
        td["white", "action"] = td["black", "action"] = torch.tensor([number])
    says: list[str] = []
    try:
        env.step(td)
    except IllegalAction as error:
        says.append(str(error))
    assert all("player 'white'" in text and f"action {number}" in text for text in says)


@settings(max_examples=60, deadline=None)
@given(text=st.one_of(st.text(max_size=40), st.sampled_from(ODD_STARTS).map(lambda fen: fen[1:])))
def test_any_text_begins_a_game_or_is_explained(text: str) -> None:
    env = ChessEnv(include_fen=True)
    with contextlib.suppress(BadNotation, ResetError):
        assert chess.Board(env.reset(TensorDict({"fen": text}, []), set_state=True)["fen"]).is_valid()
