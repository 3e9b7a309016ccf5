"""Options of games that are no truth value or contradict each other are refused; limits with TorchRL's keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import marlenv
from marlenv.errors import DtypeError, GroupError, SpecError, UnknownName
from marlenv.games import (
    Backgammon,
    Breakthrough,
    Chess,
    ChessEnv,
    ConnectFour,
    GameEnv,
    Go,
    Hanabi,
    Hex,
    KuhnPoker,
    LeducPoker,
    MatrixGame,
    TicTacToe,
    TicTacToeEnv,
)
from marlenv.testing import CountingEnv, run_contract
from marlenv.testing.comparison import differences

FLAGS: list[tuple[Callable[..., Any], str]] = [
    (Backgammon, "hyper"),
    (Hex, "swap"),
    (KuhnPoker, "recall"),
    (LeducPoker, "recall"),
    (Chess, "chess960"),
    (TicTacToeEnv, "single_player"),
    *((ChessEnv, name) for name in ("stateful", "include_fen", "include_hash_inv", "mask_actions", "pixels")),
]


@pytest.mark.parametrize("value", ["false", "true", 0, 2, None])
@pytest.mark.parametrize(("make", "name"), FLAGS)
def test_a_truth_value_is_true_or_false(make: Callable[..., Any], name: str, value: object) -> None:
    """ "false" was true: it played Chess960, and gave a fen."""
    given = {"include_hash": True, name: value} if name == "include_hash_inv" else {name: value}
    with pytest.raises(DtypeError, match=rf": {name} must be True or False, got {value!r}"):
        make(**given)


def test_truth_is_no_komi() -> None:
    with pytest.raises(SpecError, match="komi must be a finite number, got True"):
        Go(komi=True)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        (
            "matrix_game/chicken",
            {"payoffs": "stag_hunt"},
            "the name says payoffs='chicken', and payoffs='stag_hunt' was",
        ),
        ("pettingzoo/simple_spread_v3", {"task": "simple_tag_v3"}, "the name says task='simple_spread_v3', and task="),
        ("tic_tac_toe", {"rules": "marlenv.games:ConnectFour"}, "the name says rules='marlenv.games.tictac"),
        ("simple_spread", {"scenario": "marlenv.scenarios.mpe.simple_tag:SimpleTag"}, "the name says scenario='mar"),
        ("go", {"num_envs": 3, "batch_size": [2]}, r"num_envs=3 is batch_size=\[3\], got batch_size=\[2\] too"),
        ("go", {"max_steps": 3, "max_plies": 4}, "max_steps is another name of max_plies, got 3 and 4"),
        ("chess", {"num_envs": 3, "batch_size": 2}, r"num_envs=3 is batch_size=\[3\], got batch_size=2 too"),
        ("chess", {"max_steps": 3, "max_plies": 4}, "max_steps is another name of max_plies, got 3 and 4"),
    ],
)
def test_what_is_said_twice_must_agree(name: str, options: dict[str, Any], says: str) -> None:
    if name.startswith("pettingzoo"):
        pytest.importorskip("pettingzoo")
    with pytest.raises(SpecError, match=says):
        marlenv.make(name, **options)


def test_what_is_said_twice_and_agrees_is_fine() -> None:
    env = marlenv.make("go", num_envs=3, batch_size=(3,), max_steps=4, max_plies=4)
    assert env.batch_size == (3,)
    assert env.max_plies == 4
    chicken = marlenv.make("matrix_game/chicken", payoffs="chicken")
    assert chicken.rules == marlenv.make("matrix_game/chicken").rules


class Counted(CountingEnv):
    def __init__(self, num_workers: int) -> None:
        super().__init__(batch_size=[num_workers])


def test_the_number_of_envs_is_heard_by_the_factorys_own_name_too() -> None:
    """It was overwritten: EnvPool made one env whatever ``num_workers`` said."""
    entry = marlenv.registration.Registration("counted", "custom", Counted, batched=True, count_option="num_workers")
    marlenv.registration._TABLE["counted"] = entry
    try:
        assert marlenv.make("counted").batch_size == (1,)
        assert marlenv.make("counted", num_workers=4).batch_size == (4,)
        assert marlenv.make("counted", 4, num_workers=4).batch_size == (4,)
        with pytest.raises(SpecError, match="num_envs says num_workers=3, and num_workers=4 was given"):
            marlenv.make("counted", 3, num_workers=4)
    finally:
        marlenv.registration.unregister("counted")


# --- tic-tac-toe with TorchRL's keys -------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 70])
@pytest.mark.parametrize("opponent", [None, "random"])
def test_a_limit_cuts_tic_tac_toe_off(rows: int, opponent: str | None) -> None:
    """After so many moves, those of the opponent included, as in the layout that all games have."""
    env = marlenv.make("tic_tac_toe", rows, layout="torchrl", max_steps=4, opponent=opponent, seed=1)
    data = env.rollout(8, break_when_any_done=False)
    each = 1 if opponent is None else 2
    want = torch.tensor([each * t % 4 for t in range(8)]).expand(rows, 8)
    assert torch.equal(data["plies_played"].squeeze(-1), want)  # nobody has a line after four moves
    cut = torch.tensor([each * (t + 1) % 4 == 0 for t in range(8)]).expand(rows, 8)
    assert torch.equal(data["next", "truncated"].squeeze(-1), cut)
    assert torch.equal(data["next", "done"].squeeze(-1), cut)
    assert not data["next", "terminated"].any()


@pytest.mark.slow
def test_games_under_a_limit_are_those_without_one() -> None:
    free = TicTacToeEnv(batch_size=[70], seed=5).rollout(12, break_when_any_done=False)
    limited = TicTacToeEnv(batch_size=[70], seed=5, max_plies=9).rollout(12, break_when_any_done=False)
    limited = limited.exclude("plies_played", ("next", "plies_played"))
    assert differences(free, limited) == []


def test_the_limit_goes_on_where_a_game_is_taken_up() -> None:
    env = TicTacToeEnv(max_plies=3, seed=0)
    td = env.step_mdp(env.step(env.rand_action(env.reset())))
    taken = env.reset(env.get_state(td), set_state=True)
    assert taken["plies_played"].tolist() == [1]
    assert env.rollout(9, tensordict=taken, auto_reset=False).shape == (2,)


@pytest.mark.slow
def test_the_env_may_begin_in_tic_tac_toe() -> None:
    env = TicTacToeEnv(opponent="random", seat=1, batch_size=[5], seed=2)
    td = env.reset()
    assert td["turn"].eq(1).all()
    assert (td["board"] == 0).flatten(1).sum(-1).eq(1).all()  # the other's stone
    results = run_contract(lambda: TicTacToeEnv(opponent="random", seat=1, max_plies=6, batch_size=[3], seed=2))
    assert [f"{one.name}: {one.says}" for one in results if one.verdict == "broken"] == []


@pytest.mark.parametrize(
    ("option", "hint"), [("foo", "known"), ("group_map", "known"), ("seat_", "did you mean 'seat'")]
)
def test_an_option_that_torchrls_keys_have_not_is_named(option: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"TicTacToe with layout='torchrl' has no option '{option}'; {hint}"):
        marlenv.make("tic_tac_toe", layout="torchrl", **{option: 1})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GameEnv(Hex(), seat_=1), "GameEnv has no option 'seat_'; did you mean 'seat'"),
        (lambda: GameEnv(Hex(), auto_rest=True), "GameEnv has no option 'auto_rest'; did you mean 'auto_reset'"),
        (lambda: ChessEnv(max_plie=1), "ChessEnv has no option 'max_plie'; did you mean 'max_plies'"),
        (lambda: TicTacToeEnv(group_map="x"), "TicTacToeEnv has no option 'group_map'; known: ['auto_reset', "),
        (lambda: CountingEnv(max_step=1), "CountingEnv has no option 'max_step'; did you mean 'max_steps'"),
        (
            lambda: marlenv.SerialEnv(2, CountingEnv, create_env_kwarg={}),
            "SerialEnv has no option 'create_env_kwarg'; did you mean 'create_env_kwargs'",
        ),
    ],
)
def test_an_env_says_which_option_it_has_not(make: Callable[[], object], says: str) -> None:
    """Python named the constructor of a base, which nobody had called."""
    with pytest.raises(TypeError, match=f"^{re.escape(says)}"):
        make()


@pytest.mark.parametrize("name", ["state", "turn", "outcome"])
def test_no_group_is_called_as_an_entry_of_the_data(name: str) -> None:
    """A player "outcome" took the place of the outcome."""
    named = type("Named", (TicTacToe,), {"players": (name, "o")})()
    for make in (lambda: GameEnv(named), lambda: GameEnv(TicTacToe(), group_map={name: ["x", "o"]})):
        with pytest.raises(GroupError, match=f"GameEnv: {name!r} cannot name a group, as .*state, turn, outcome"):
            make()
    env = GameEnv(named, group_map={"both": [name, "o"]}, batch_size=[2], seed=0)
    assert env.rollout(9)["next", "outcome"][:, -1].any()


@pytest.mark.parametrize("field", ["plies_played", "opponent_rng", "opening_rewards"])
def test_no_position_has_a_field_that_the_env_keeps_beside_it(field: str) -> None:
    kind = NamedTuple("Kept", [("code", torch.Tensor), (field, torch.Tensor)])  # type: ignore[misc]

    class Counting(TicTacToe):
        def start(self, batch_size: torch.Size, **how: Any) -> Any:
            return kind(TicTacToe.start(self, batch_size, **how).code, torch.zeros(batch_size, dtype=torch.int64))

        def play(self, state: Any, action: torch.Tensor) -> Any:
            return state._replace(code=TicTacToe.play(self, state, action).code)

    with pytest.raises(SpecError, match=f"GameEnv: a position of Counting has a field '{field}', .* name the field"):
        GameEnv(Counting(), max_plies=2)


@pytest.mark.parametrize("kind", [Chess, TicTacToe])
@pytest.mark.parametrize("text", [None, 5, b"e4"])
def test_what_is_no_text_is_no_move(kind: Callable[[], Any], text: Any) -> None:
    rules = kind()
    with pytest.raises(
        DtypeError, match=rf"{type(rules).__name__}.read_action: expected a str, got {type(text).__name__}"
    ):
        rules.read_action(rules.start(torch.Size([])), text)


SIZES: list[tuple[Callable[..., Any], dict[str, int]]] = [
    (ConnectFour, {"rows": 6, "columns": 7, "line": 4}),
    (Breakthrough, {"rows": 5, "columns": 4}),
    (Hex, {"rows": 5, "columns": 4}),
    (Go, {"size": 13, "moves": 20}),
    (Hanabi, {"num_players": 3, "colors": 3, "ranks": 4, "hand_size": 3, "max_hints": 2, "max_lives": 2}),
    (KuhnPoker, {"num_players": 3}),
    (LeducPoker, {"num_players": 3}),
    (MatrixGame, {"rounds": 3}),
    (Chess, {"chess960": True, "number": 5}),
]


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
@pytest.mark.parametrize(("rules", "sizes"), SIZES)
def test_sizes_from_numpy_are_kept_as_ints(
    rules: Callable[..., Any], sizes: dict[str, int], kind: Callable[[int], Any]
) -> None:
    given = {name: size if isinstance(size, bool) or size > 127 else kind(size) for name, size in sizes.items()}
    made = rules(**given)
    assert made == rules(**sizes)
    assert all(type(getattr(made, name)) is type(size) for name, size in sizes.items())


def test_lines_are_found_on_boards_of_numpys_sizes() -> None:
    """x drops all its stones into the first column: the fourth is a line. As uint8 the bits of a line overflowed."""
    rows, columns, line = np.array([6, 7, 4], dtype=np.uint8)
    rules = ConnectFour(rows, columns, line)
    state = rules.start(torch.Size([]))
    for column in (0, 1, 0, 1, 0, 1):
        state = rules.play(state, torch.tensor(column))
        assert not bool(rules.over(state))
    state = rules.play(state, torch.tensor(0))
    assert bool(rules.over(state))
    assert rules.returns(state).tolist() == [1, -1]
    env = marlenv.make("breakthrough", rows=np.int64(8))  # was an OverflowError
    assert env.reset()["white", "action_mask"].sum() == 22  # 8 stones, three ways each, but for those at the sides


def test_komi_and_limits_of_any_number() -> None:
    """Black's one stone on 2 by 2 owns all four cells: it is ahead by 4 - komi."""
    for komi in (np.float32(4.5), Fraction(9, 2), np.float64(4.5), 4.5):
        rules = Go(2, komi)
        state = rules.start(torch.Size([]))
        for action in (0, 4, 4):
            state = rules.play(state, torch.tensor(action))
        assert float(state.score) == -0.5
        assert type(rules.komi) is float
    env = GameEnv(TicTacToe(), seat=np.int8(1), max_plies=np.uint8(3), opponent="random", seed=0)  # type: ignore[arg-type]
    assert (env.seat, env.max_plies) == (1, 3)
    assert type(env.seat) is type(env.max_plies) is int


@pytest.mark.parametrize("payoffs", [3, 2.5, torch.tensor(3.0), np.int64(3)])
def test_a_number_is_no_table(payoffs: Any) -> None:
    with pytest.raises(SpecError, match=r"^MatrixGame: payoffs must be a table.*, got [23]"):
        MatrixGame(payoffs)


@pytest.mark.parametrize("choices", [torch.tensor(3), np.array(3), 3, "ab"])
def test_one_thing_is_no_list_of_choices(choices: Any) -> None:
    with pytest.raises(SpecError, match="^MatrixGame: choices must be a list of names, got"):
        MatrixGame(choices=choices)


@pytest.mark.parametrize("draws", [[3], {}, None, "never"])
def test_draws_of_chess_are_one_of_three_words(draws: Any) -> None:
    with pytest.raises(UnknownName, match="^Chess: draws=.*; known: "):
        Chess(draws=draws)


GAMES = {
    "chess": {},
    "chess with TorchRL's keys": {"layout": "torchrl"},
    "tic_tac_toe": {},
    "tic_tac_toe with TorchRL's keys": {"layout": "torchrl"},
    "go": {"size": 5},
    "hanabi": {},
    "leduc_poker": {},
}


@pytest.mark.parametrize("which", GAMES)
def test_games_take_what_every_env_takes(which: str) -> None:
    """Checks of every step change nothing but the error that a wrong action gets."""
    name, options = which.split(" ", maxsplit=1)[0], {"num_envs": 3, "seed": 0, **GAMES[which]}
    checked = marlenv.make(name, run_type_checks=True, **options)
    plain = marlenv.make(name, spec_locked=False, **options)
    assert checked.run_type_checks
    assert checked.is_spec_locked
    assert not plain.is_spec_locked
    found, want = (env.rollout(12, break_when_any_done=False) for env in (checked, plain))
    assert not list(differences(found, want))
    with pytest.raises(TypeError, match=r"no option 'run_type_check'; did you mean 'run_type_checks'\?"):
        marlenv.make(name, run_type_check=True, **options)
