"""Actions of any integer dtype play the games that those of int64 play; what numbers nothing is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDict, TensorDictBase
from torch import Size

import marlenv
from marlenv.errors import DtypeError
from marlenv.games import Backgammon, ConnectFour, GameEnv, MatrixGame, Othello, Rules
from marlenv.rng import RowRNG
from marlenv.testing import CountingEnv
from marlenv.testing.comparison import differences

GAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "connect_four": ("connect_four", {}),
    "othello": ("othello", {}),
    "matrix_game": ("matrix_game/chicken", {"rounds": 4}),
    "chess": ("chess", {}),
    "chess, TorchRL's keys": ("chess", {"layout": "torchrl"}),
    "tic_tac_toe, TorchRL's keys": ("tic_tac_toe", {"layout": "torchrl"}),
    "tic_tac_toe": ("tic_tac_toe", {}),
    "hex": ("hex", {"rows": 4, "swap": True}),
    "go": ("go", {"size": 3}),
    "breakthrough": ("breakthrough", {"rows": 4, "columns": 3}),
    "kuhn_poker": ("kuhn_poker", {"num_players": 3}),
    "leduc_poker": ("leduc_poker", {}),
    "backgammon": ("backgammon", {}),
    "hanabi": ("hanabi", {}),
    "chess in the data, TorchRL's keys": ("chess", {"layout": "torchrl", "stateful": False}),
}
NARROW = (torch.int32, torch.int16, torch.uint16)
BYTES = ("connect_four", "othello", "tic_tac_toe", "tic_tac_toe, TorchRL's keys", "matrix_game", "go")
STEPS = 6


def played(game: str, rows: int, dtype: torch.dtype, **options: Any) -> list[TensorDictBase]:
    """What follows on each step of random play whose actions are of a dtype."""
    name, given = GAMES[game]
    env = marlenv.make(name, num_envs=rows, seed=7, **given, **options)
    td, steps = env.reset(), []
    for _ in range(STEPS):
        td = env.rand_action(td)
        for key in env.action_keys:
            td[key] = td[key].to(dtype)
        stepped, td = env.step_and_maybe_reset(td)
        steps.append(stepped["next"].clone())
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 64])
@pytest.mark.parametrize("game", first(GAMES, 3))
def test_games_of_other_integers_are_those_of_int64(game: str, rows: int) -> None:
    variants: list[dict[str, Any]] = [{}, {"illegal": "lose"}, {"opponent": "random"}]
    if "TorchRL" not in game:
        variants.append({"group_map": "ALL_IN_ONE_GROUP"})
    for i, options in enumerate(variants):
        wanted = played(game, rows, torch.int64, **options)
        narrow = {NARROW[i % 3], torch.int32} | ({torch.uint8} if game in BYTES else set())
        for dtype in narrow:
            for want, got in zip(wanted, played(game, rows, dtype, **options), strict=True):
                assert differences(want, got) == [], (options, dtype)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_the_stones_of_small_numbers_fall_where_they_were_thrown(dtype: torch.dtype) -> None:
    """Column 4 to begin with, by the rules alone; with int32 the board stayed empty."""
    rules = ConnectFour()
    state = rules.play(rules.start(Size([])), torch.tensor(3, dtype=dtype))
    assert rules.show(state).splitlines()[-2:] == [". . . x . . .", "1 2 3 4 5 6 7"]
    othello = Othello()
    opened = othello.play(othello.start(Size([])), torch.tensor(19, dtype=dtype))  # d3
    assert othello.marks(opened).count("x") == 4
    assert othello.marks(opened)[19] == "x"


def test_rules_that_divide_actions_or_index_with_them_read_bytes() -> None:
    """676 pairs of places do not fit into a byte, and tensors take bytes for masks where they are indexed."""
    rules: Rules[Any] = Backgammon()
    starts = [rules.start(Size([]), rng=RowRNG(seed, [])) for seed in range(20)]
    moves = [(one, a) for one in starts for a in rules.legal(one).nonzero().flatten() if 676 % 256 <= a < 256]
    assert moves
    chicken = MatrixGame("chicken", rounds=3)
    cases = [(rules, state, action) for state, action in moves]
    cases += [(chicken, chicken.start(Size([])), torch.tensor([n, 1 - n])) for n in (0, 1)]
    for game, state, action in cases:
        want, got = (game.play(state, action.to(dtype)) for dtype in (torch.int64, torch.uint8))
        assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(want, got, strict=True))


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.float32])
@pytest.mark.parametrize("game", ["connect_four", "matrix_game", "chess", "chess, TorchRL's keys"])
def test_what_numbers_no_choice_is_refused_by_its_key(game: str, dtype: torch.dtype) -> None:
    name, options = GAMES[game]
    env = marlenv.make(name, num_envs=2, seed=0, **options)
    td = env.rand_action(env.reset())
    key = env.action_keys[0]
    td[key] = td[key].to(dtype)
    with pytest.raises(DtypeError, match=rf"step: action .*action.* must be torch.int64, got {dtype}; it is the num"):
        env.step(td)


def test_a_spec_of_bools_takes_bools() -> None:
    """Two choices may be numbered False and True, where their spec says so."""

    class TwoChoices(CountingEnv):
        def __init__(self) -> None:
            super().__init__(batch_size=[2])
            self.action_spec = marlenv.Categorical(2, (2,), dtype=torch.bool)

    env = TwoChoices()
    td = env.rand_action(env.reset())
    assert td["action"].dtype == torch.bool
    assert env.step(td)["next", "observation"].shape[0] == 2


def answering(dtype: torch.dtype) -> Callable[[TensorDictBase], TensorDictBase]:
    """An opponent that plays its first legal action, as a number of a dtype."""

    def play(td: TensorDictBase) -> TensorDictBase:
        return td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1).to(dtype))

    return play


@pytest.mark.parametrize("rows", [1, 64])
def test_an_opponents_actions_are_read_in_the_same_way(rows: int) -> None:
    def game(dtype: torch.dtype) -> TensorDict:
        env = GameEnv(ConnectFour(), batch_size=[rows], opponent=answering(dtype), seed=3)
        return env.rollout(STEPS, break_when_any_done=False)["next"]

    assert differences(game(torch.int64), game(torch.int16)) == []
    with pytest.raises(DtypeError, match="GameEnv: actions must be torch.int64, got torch.float32 of the policy"):
        game(torch.float32)
