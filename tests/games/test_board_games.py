"""Games on boards: the same as OpenSpiel's, known numbers of positions, laws, drawings."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import first
from spiel import compare
from torch import Size

import marlenv
from marlenv.errors import BadNotation, ShapeError, SpecError, UnknownName
from marlenv.games import Breakthrough, ConnectFour, GameEnv, Go, Hex, Othello, Rules, TicTacToe
from marlenv.games.rules import picked
from marlenv.testing.comparison import differences
from marlenv.testing.contract import run_contract

PEERS: dict[str, tuple[Rules, str, int]] = {
    "tic-tac-toe": (TicTacToe(), "tic_tac_toe", 300),
    "connect four": (ConnectFour(), "connect_four", 300),
    "connect four, 5 x 6, three in a row": (ConnectFour(5, 6, 3), "connect_four(rows=5,columns=6,x_in_row=3)", 300),
    "hex": (Hex(), "hex(board_size=11)", 200),
    "hex, 4 x 7": (Hex(4, 7), "hex(num_rows=4,num_cols=7)", 300),
    "hex, swap": (Hex(4, swap=True), "hex(board_size=4,swap=True)", 500),
    "othello": (Othello(), "othello", 300),
    "go 2 x 2": (Go(2, 0.5, "draw"), "go(board_size=2,komi=0.5)", 500),
    "go 4 x 4, integer komi": (Go(4, 1.0, "draw"), "go(board_size=4,komi=1.0)", 200),
    "go 9 x 9": (Go(repetition="draw"), "go(board_size=9)", 100),
    "go 19 x 19": (Go(19, repetition="draw"), "go(board_size=19)", 3),
}
SMALL: dict[str, Rules] = {
    "tic_tac_toe": TicTacToe(),
    "connect_four": ConnectFour(),
    "othello": Othello(),
    "hex": Hex(4, swap=True),
    "go": Go(5, repetition="forbid"),
    "breakthrough": Breakthrough(5, 4),
}


@pytest.mark.reference
@pytest.mark.parametrize("game", PEERS)
def test_open_spiel_agrees_at_every_position(game: str) -> None:
    rules, peer, games = PEERS[game]
    assert compare(rules, peer, games) > games


@pytest.mark.reference
@pytest.mark.parametrize(
    ("rows", "columns", "games"), [(8, 8, 200), (6, 6, 200), (5, 8, 200), (8, 3, 300), (3, 5, 300), (2, 2, 20)]
)
def test_open_spiel_plays_the_same_breakthrough(rows: int, columns: int, games: int) -> None:
    """Theirs begins at the upper edge, has six directions for our three, and other numbers for captures."""

    def theirs(action: int) -> list[int]:
        (row, column), direction = divmod(action // 3, columns), action % 3
        numbers = [((rows - 1 - row) * columns + column) * 12 + 2 * ahead + direction * 2 for ahead in (0, 3)]
        return [number + captures for number in numbers for captures in (0, 1)]

    rules = Breakthrough(rows, columns)
    compared = compare(rules, f"breakthrough(rows={rows},columns={columns})", games, peers_action=theirs)
    assert games < compared <= games * (rules.longest + 1)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("game", ["tic-tac-toe", "connect four", "hex", "othello", "go 9 x 9"])
def test_open_spiel_agrees_on_many_games(game: str, sized: Callable) -> None:
    rules, peer, _ = PEERS[game]
    for seed in range(sized(2, 10)):
        compare(rules, peer, 1000, seed=1 + seed)


def next_positions(rules: Rules, state: tuple) -> tuple:
    """All positions after one move, each as often as there are ways to it."""
    rows, actions = rules.legal(state).nonzero(as_tuple=True)
    return rules.play(type(state)(*(leaf[rows] for leaf in state)), actions)


def test_othello_has_the_known_numbers_of_games() -> None:
    state, counts = Othello().start(Size([1])), []
    for _ in range(7):
        state = next_positions(Othello(), state)
        counts.append(len(state.own))
    assert counts == [4, 12, 56, 244, 1396, 8200, 55092]  # OEIS A124005


def test_connect_four_has_the_known_numbers_of_positions() -> None:
    state, counts = ConnectFour().start(Size([1])), []
    for _ in range(8):
        state = next_positions(ConnectFour(), state)
        keep = torch.from_numpy(np.unique(state.board.numpy(), axis=0, return_index=True)[1])
        state = type(state)(*(leaf[keep] for leaf in state))
        counts.append(len(keep))
    assert counts == [7, 49, 238, 1120, 4263, 16422, 54859, 184275]  # OEIS A212693


@pytest.mark.parametrize(("size", "boards"), [(2, 57), (3, 12675)])
def test_go_reaches_all_legal_boards_and_no_others(size: int, boards: int) -> None:
    rules = Go(size)  # the numbers: J. Tromp, G. Farnebäck, "Combinatorics of Go"; OEIS A094777
    weights = 3 ** torch.arange(size * size)
    state, seen = rules.start(Size([1])), torch.zeros(0, dtype=torch.int64)
    found = {0}
    while len(state.ply):
        board = ((state.chain[:, :-1].sign().long() % 3) * weights).sum(-1)
        found.update(board.tolist())
        free = (state.legal.long() * (1 << torch.arange(rules.n_actions))).sum(-1)
        key = (board * 2 + (state.ply & 1)) << rules.n_actions | free  # the ko is in what is legal
        order = key.argsort(stable=True)
        first = torch.cat((torch.ones(1, dtype=torch.bool), key[order].diff() != 0))
        keep = order[first]
        keep = keep[~torch.isin(key[keep], seen)]
        seen = torch.cat((seen, key[keep]))
        state = type(state)(*(leaf[keep] for leaf in state))
        still = torch.zeros_like(state.ply)  # without ends, all that is kept is the board and whose turn it is
        state = state._replace(ply=state.ply & 1, passes=still, outcome=still.to(torch.int8), score=still.float())
        state = next_positions(rules, state)
    assert len(found) == boards


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_superko_forbids_just_the_boards_that_stood_before(size: int) -> None:
    strict, lax, games = Go(size, repetition="forbid", moves=60), Go(size, moves=61), 40
    state, plain = strict.start(Size([games])), lax.start(Size([games]))
    history = [{(0,) * size**2} for _ in range(games)]
    forbidden = 0
    choose = torch.Generator().manual_seed(0)
    while not bool(strict.over(state).all()):
        for row in range(games):
            allowed = strict.legal(state)[row].clone()
            if bool(strict.over(state)[row]):
                continue
            tried = plain._replace(
                **{n: leaf[row].expand(size**2, *leaf.shape[1:]) for n, leaf in plain._asdict().items()}
            )
            after = lax.play(tried, torch.arange(size**2)).chain[:, :-1].sign().tolist()
            want = [bool(ok) and tuple(b) not in history[row] for ok, b in zip(plain.legal[row], after, strict=False)]
            assert allowed[:-1].tolist() == want
            forbidden += int((plain.legal[row, :-1] & ~allowed[:-1]).sum())
        stones = strict.legal(state).clone()
        stones[:, -1] &= ~stones[:, :-1].any(-1) | (torch.rand(games, generator=choose) < 0.05)
        action = picked(stones, torch.rand(games, generator=choose))
        state, plain = strict.play(state, action), lax.play(plain, action)
        plain = plain._replace(outcome=state.outcome, passes=torch.zeros_like(plain.passes))
        for row, board in enumerate(state.chain[:, :-1].sign().tolist()):
            history[row].add(tuple(board))
    assert forbidden > 20


def test_captured_stones_go_and_a_ko_waits() -> None:
    rules = Go(5)
    state = play(rules, "B1 C1 A2 D2 B3 C3 C2 B2")  # white takes C2
    assert rules.show(state).splitlines()[2:5] == ["3 . X O . .", "2 X O . O .", "1 . X O . ."]
    with pytest.raises(BadNotation, match="no legal move is called 'C2'"):
        rules.read_action(state, "C2")
    state = play(rules, "E5 E1 C2", state)
    assert rules.show(state).splitlines()[3] == "2 X . X O ."


def play(rules: Rules, names: str, state: tuple | None = None) -> tuple:
    """The position after moves as people write them."""
    state = rules.start(Size([])) if state is None else state
    for name in names.split():
        state = rules.play(state, torch.tensor(rules.read_action(state, name)))
    return state


@pytest.mark.parametrize(("names", "winner"), [("a1 b1 a2 b2 a3 b3 a4 b4", "x"), ("a1 a4 a2 b3 a3 c2 b1 d1", "o")])
def test_hex_is_won_by_a_chain_between_ones_own_edges(names: str, winner: str) -> None:
    rules = Hex(4)
    state, moves = rules.start(Size([])), names.split()
    for name in moves:
        if bool(rules.over(state)):
            break
        state = play(rules, name, state)
    assert rules.returns(state).tolist() == ([1, -1] if winner == "x" else [-1, 1])


@pytest.mark.parametrize(
    ("rules", "moves", "outcome", "winner"),
    [
        (Breakthrough(4, 3), "b1a2 b4c3 a2b3 c3b2 b3a4", "breakthrough", "white"),
        (Breakthrough(4, 3), "b1b2 a4a3 b2b3 a3a2 b3c4", "breakthrough", "white"),  # with a capture
        (Breakthrough(4, 3), "b1b2 a4a3 b2c3 a3a2 c1c2 a2b1", "breakthrough", "black"),
        (Breakthrough(4, 2), "b1b2 a4b3 b2a3 b3b2 a1b2 b4a3 b2a3", "all captured", "white"),
        (Breakthrough(4, 2), "b1b2 b4a3 b2b3 a4b3 a1b2 a3b2", "all captured", "black"),
    ],
)
def test_breakthrough_ends_at_the_edge_or_with_the_last_capture(
    rules: Rules, moves: str, outcome: str, winner: str
) -> None:
    state = play(rules, moves)
    assert rules.outcomes[int(rules.outcome(state))] == outcome
    assert rules.returns(state).tolist() == ([1, -1] if winner == "white" else [-1, 1])
    assert not rules.over(play(rules, moves.rpartition(" ")[0]))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(sorted(SMALL)))
def test_a_batch_is_a_stack_of_singles(seed: int, game: str) -> None:
    rules, rows = SMALL[game], 3
    units = torch.rand(30, rows, generator=torch.Generator().manual_seed(seed))
    whole, singles = rules.start(Size([rows])), [rules.start(Size([])) for _ in range(rows)]
    for unit in units:
        whole = rules.play(whole, rules.pick(whole, unit).clamp(max=rules.n_actions - 1))
        singles = [
            rules.play(s, rules.pick(s, u).clamp(max=rules.n_actions - 1)) for s, u in zip(singles, unit, strict=True)
        ]
        for leaf, parts in zip(whole, zip(*singles, strict=True), strict=True):
            assert torch.equal(leaf, torch.stack(parts))
        seen = rules.observe(whole)
        assert torch.equal(seen, torch.stack([rules.observe(s) for s in singles]))
        grid = type(whole)(*(leaf.reshape(1, rows, 1, *leaf.shape[1:]) for leaf in whole))
        assert torch.equal(rules.observe(grid).reshape(seen.shape), seen)
        assert torch.equal(rules.legal(grid).reshape(rows, -1), rules.legal(whole))


def positions(rules: Rules, count: int = 400, plies: int = 30) -> list[tuple]:
    """Positions of random games, ends included."""
    state, out = rules.start(Size([count])), []
    for unit in torch.rand(plies, count, generator=torch.Generator().manual_seed(7)):
        out.append(state)
        state = rules.play(state, rules.pick(state, unit))
    return [*out, state]


@pytest.mark.parametrize("game", SMALL)
def test_short_ways_give_what_the_legal_actions_say(game: str) -> None:
    rules = SMALL[game]
    every = torch.arange(-1, rules.n_actions + 1)
    for state in positions(rules):
        legal, over = rules.legal(state), rules.over(state)
        assert torch.equal(legal.any(-1), ~over)
        many = type(state)(*(leaf.unsqueeze(1).expand(-1, len(every), *leaf.shape[1:]) for leaf in state))
        permitted = rules.permits(many, every.expand(len(over), -1))
        assert torch.equal(permitted[:, 1:-1], legal)
        assert not bool(permitted[:, [0, -1]].any())
        unit = torch.rand(len(over), generator=torch.Generator().manual_seed(3))
        assert torch.equal(rules.pick(state, unit)[~over], picked(legal, unit)[~over])
        assert bool((rules.pick(state, unit) < rules.n_actions).all())


@pytest.mark.parametrize("game", SMALL)
def test_both_players_see_the_same_board_from_their_own_seat(game: str) -> None:
    rules = SMALL[game]
    for state in positions(rules, 50):
        first, second = rules.observe(state).unbind(1)
        assert torch.equal(first[:, [1, 0]], second[:, :2])
        assert bool((first[:, 2] != second[:, 2]).all())
        assert torch.equal(first[:, 2].flatten(1).all(-1), rules.player(state) == 0)


ALIKE = {
    "tic-tac-toe": lambda: marlenv.TicTacToeEnv(batch_size=[90]),
    "tic-tac-toe, grouped": lambda: marlenv.make("tic_tac_toe", num_envs=90, seed=3),
    "tic-tac-toe, bits": lambda: GameEnv(TicTacToe(), batch_size=[9, 10], seed=3, observation_dtype=torch.bool),
    "tic-tac-toe, tree": lambda: GameEnv(
        TicTacToe(), batch_size=[90], seed=3, group_map={"b": ["o"], "a": {"c": ["x"]}}
    ),
    "connect four": lambda: GameEnv(ConnectFour(), batch_size=[9, 10], seed=3),
    "connect four, bits": lambda: GameEnv(ConnectFour(4, 5, 3), batch_size=[90], seed=3, observation_dtype=torch.bool),
    "connect four, tree": lambda: GameEnv(
        ConnectFour(), batch_size=[90], seed=3, group_map={"b": ["o"], "a": {"c": ["x"]}}
    ),
    "connect four, half": lambda: GameEnv(ConnectFour(), batch_size=[90], seed=3, observation_dtype=torch.bfloat16),
}


FAST = ["connect_four", "tic_tac_toe"]
"""Games that play a whole step of many rows at once."""


@pytest.mark.slow
@pytest.mark.parametrize("env", ALIKE)
def test_numba_and_torch_give_the_same_bits(env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    quick = ALIKE[env]()
    quick.set_seed(3)
    a = quick.rollout(60, break_when_any_done=False)
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)
    plain = ALIKE[env]()
    plain.set_seed(3)
    b = plain.rollout(60, break_when_any_done=False)
    assert int(a["next", "done"].sum()) > 50
    assert not differences(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("game", FAST)
def test_games_that_are_over_wait(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    a = marlenv.make(game, num_envs=90, seed=1).rollout(50, break_when_all_done=True)
    monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", False)
    b = marlenv.make(game, num_envs=90, seed=1).rollout(50, break_when_all_done=True)
    assert bool(a["next", "done"][:, -1].all())
    assert not bool(a["next", "done"][:, -2].all())
    assert not differences(a, b)


@pytest.mark.parametrize("game", FAST)
def test_games_that_are_over_stay_as_they_are_and_pay_no_more(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    played = []
    for numba in (True, False):
        monkeypatch.setattr("marlenv.games.fast.compiled.NUMBA", numba)
        env = marlenv.make(game, num_envs=90, seed=1)
        td = env.reset()
        for _ in range(50):  # nobody resets
            data = env.step(env.rand_action(td))
            played.append(data["next"])
            td = env.step_mdp(data)
        assert bool(td["done"].all())
    for a, b in zip(played[:50], played[50:], strict=True):
        assert not differences(a, b)


@pytest.mark.parametrize("game", FAST)
def test_what_was_handed_out_is_never_written_again(game: str) -> None:
    env = marlenv.make(game, num_envs=200, seed=0)
    kept, td = [], env.reset()
    for _ in range(40):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        kept.append((data, data.clone(), td["x", "observation"].numpy(), td["x", "observation"].clone()))
    for data, copy, memory, same in kept:
        assert bool((data == copy).all())
        assert (memory == same.numpy()).all()


@pytest.mark.parametrize("game", FAST)
def test_what_a_user_writes_over_an_observation_is_not_told_again(game: str) -> None:
    env = marlenv.make(game, num_envs=200, seed=0)
    td = env.reset()
    for _ in range(30):
        td["x", "observation"].numpy()[:] = 7.0  # around torch's count of writes
        _, td = env.step_and_maybe_reset(env.rand_action(td))
        seen = env.rules.observe(env.read(td)).float().unbind(1)
        assert torch.equal(td["x", "observation"].squeeze(1), seen[0])
        assert torch.equal(td["o", "observation"].squeeze(1), seen[1])


@pytest.mark.parametrize("rows", [3, 200])
def test_a_position_of_another_width_is_refused(rows: int) -> None:
    env = marlenv.make("connect_four", num_envs=rows, seed=0)
    td = env.rand_action(env.reset())
    td["state", "board"] = td["state", "board"][:, :2]
    with pytest.raises(ShapeError, match=rf"\('state', 'board'\) of shape \[{rows}, 4\], got \[{rows}, 2\]"):
        env.step(td)
    with pytest.raises(ShapeError, match="take positions from env.reset"):
        env.rand_action(td)


ENVS = {
    "connect four": lambda: marlenv.make("connect_four", num_envs=3),
    "hex, limited": lambda: marlenv.make("hex", num_envs=3, rows=3, swap=True, illegal="lose", max_steps=5),
    "go": lambda: GameEnv(Go(3, moves=6), opponent="random", seat=1, batch_size=[4]),
    "go, superko": lambda: GameEnv(Go(2, moves=4, repetition="forbid"), group_map="all_in_one_group"),
    "othello": lambda: marlenv.make("othello", num_envs=2, group_map={"both": ["white", "black"]}),
}


@pytest.mark.slow
@pytest.mark.parametrize("env", first(ENVS, 4))
def test_the_contract_holds(env: str) -> None:
    broken = [f"{r.name}: {r.says}" for r in run_contract(ENVS[env]) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.slow
@pytest.mark.parametrize("game", first(SMALL, 3))
def test_a_won_game_pays_the_loser_minus_one_in_the_same_step(game: str) -> None:
    env = GameEnv(SMALL[game], batch_size=[64], seed=1)
    data = env.rollout(130, break_when_all_done=True)
    rewards = torch.stack([data["next", p, "reward"].squeeze((-1, -2)) for p in env.rules.players])
    assert torch.equal(rewards[0], -rewards[1])
    assert set(rewards.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert not bool(rewards[:, ~data["next", "done"].squeeze(-1)].any())
    assert float(rewards.abs().sum()) >= 64
    assert bool((data["next", "outcome"].squeeze(-1)[data["next", "done"].squeeze(-1)] > 0).all())


def test_names_and_moves_belong_together() -> None:
    assert Go(19).action_name(Go(19).start(Size([])), 8 + 19 * 3) == "J4"
    assert Go(19).read_action(Go(19).start(Size([])), "q16") == 15 * 19 + 15
    assert Othello().read_action(Othello().start(Size([])), "D3") == 19
    assert Breakthrough().read_action(Breakthrough().start(Size([])), "a2 b3") == 3 * 48 + 2
    assert Hex(5).read_action(Hex(5).start(Size([])), "c2") == 7
    assert ConnectFour().read_action(ConnectFour().start(Size([])), "4") == 3
    for game, rules in SMALL.items():
        for state in positions(rules, 3):
            one = type(state)(*(leaf[0] for leaf in state))
            for name, action in rules.legal_names(one).items():
                assert rules.read_action(one, name) == action, (game, name)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ConnectFour(8), "ConnectFour: rows must be an integer from 1 to 7, got 8"),
        (lambda: Breakthrough(columns=9), "Breakthrough: columns must be an integer from 2 to 8, got 9"),
        (lambda: Hex(30), "Hex: rows must be an integer from 2 to 26, got 30"),
        (lambda: Hex(3, 4, swap=True), "Hex: swap needs a square board, got 3 rows and 4 columns"),
        (lambda: Go(1), "Go: size must be an integer from 2 to 25, got 1"),
        (lambda: Go(9.5), "Go: size must be an integer from 2 to 25, got 9.5"),
        (lambda: Go(komi=float("nan")), "Go: komi must be a finite number, got nan"),
        (lambda: Go(komi=10**400), "Go: komi must be a finite number, got 10+"),
        (lambda: Go(komi="7"), "Go: komi must be a finite number, got '7'"),
        (lambda: Go(moves=0), "Go: moves must be an integer from 1 on, got 0"),
    ],
)
def test_impossible_boards_are_errors(make: object, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        make()


def test_a_misspelt_rule_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'forbid'"):
        Go(repetition="forbidden")


@pytest.mark.parametrize("repetition", ["draw", "forbid"])
def test_go_remembers_no_boards_that_come_after_the_moves_made(repetition: Any) -> None:
    """A board of moves that were taken back was played as one that stood before: set with fewer moves, it was drawn."""
    env = GameEnv(Go(3, repetition=repetition), batch_size=[2], seed=0)
    td = env.rollout(4)[:, -1]["next"]
    assert torch.equal(env.reset(env.get_state(td), set_state=True)["state", "seen"], td["state", "seen"])
    for ply in (torch.tensor([4, 3]), torch.tensor([4, -1]), torch.tensor([4, 19])):
        state = env.get_state(td)
        state["state", "ply"] = ply.reshape(state["state", "ply"].shape)
        with pytest.raises(SpecError, match=r"GameEnv.set_state: expected positions of Go, .* in row 1"):
            env.reset(state, set_state=True)
    with pytest.raises(TypeError, match="Go has no option 'komy'; did you mean 'komi'"):
        marlenv.make("go", komy=1)


def test_boards_are_drawn_as_people_draw_them() -> None:
    assert ConnectFour().show(play(ConnectFour(), "4 4 3")).splitlines()[-3:] == [
        ". . . o . . .",
        ". . x x . . .",
        "1 2 3 4 5 6 7",
    ]
    assert Hex(3).show(play(Hex(3), "b2 a1")) == "   a b c\n 1 o . .\n  2 . x .\n   3 . . ."
    assert Othello().show(play(Othello(), "d3")).splitlines()[:5] == [
        "1 . . . . . . . .",
        "2 . . . . . . . .",
        "3 . . * x * . . .",
        "4 . . . x x . . .",
        "5 . . * x o . . .",
    ]
    assert Breakthrough(3, 3).show(play(Breakthrough(3, 3), "a1b2")) == "3 b b b\n2 . w .\n1 . w w\n  a b c"
    assert Go(3).show(play(Go(3), "A1 C3")) == "3 . . O\n2 . + .\n1 X . .\n  A B C"


@pytest.mark.parametrize("game", SMALL)
def test_pictures_hold_every_stone(game: str) -> None:
    rules = SMALL[game]
    for state in positions(rules, 2)[::6]:
        one = type(state)(*(leaf[0] for leaf in state))
        root, text = ET.fromstring(rules.svg(one)), rules.svg(one)
        assert root.tag.endswith("svg")
        first, second = (int(plane.sum()) for plane in rules.observe(one)[0, :2])
        marks: dict[str, tuple[int, int]] = {
            "tic_tac_toe": ((text.count('stroke="#c8372d"')) // 2, text.count('fill="none" stroke="#2f6db5"')),
            "connect_four": (text.count('fill="#c8372d"'), text.count('fill="#d9a520"')),
            "hex": (text.count('fill="#c8372d"'), text.count('fill="#2f6db5"')),
            "othello": (text.count('r="19.2" fill="#1d1d1f"'), text.count('r="19.2" fill="#fbfaf5"')),
            "go": (text.count('r="22.08" fill="#1d1d1f"'), text.count('r="22.08" fill="#fbfaf5"')),
            "breakthrough": (text.count('r="17.28" fill="#fbfaf5"'), text.count('r="17.28" fill="#1d1d1f"')),
        }
        assert marks[game] == (first, second)


@pytest.mark.parametrize("game", SMALL)
def test_colours_change_nothing_else(game: str) -> None:
    rules = SMALL[game]
    state = type(s := positions(rules, 1, 9)[-1])(*(leaf[0] for leaf in s))
    assert re.sub(r"\x1b\[[0-9;]*m", "", rules.show(state, color=True)) == rules.show(state)
    assert rules.show(state, color=True).count("\x1b[") > 10


def sides(rules: Go, names: str) -> torch.Tensor:
    return rules.observe(play(rules, names))


def test_states_of_go_that_differ_look_different() -> None:
    """Ko, a pass, the player to move, komi and the moves that are left are on the planes, each on its own."""
    rules = Go(4, komi=0.5)
    taken = play(rules, "B1 C1 A2 D2 B3 C3 C2 B2")  # white has taken C2, and black may not take B2 at once
    ko = rules.observe(taken)[0, 4]
    assert ko.nonzero().tolist() == [[0, 3], [1, 2]]  # D1 would be suicide
    assert "C2" not in rules.legal_names(taken)
    later = rules.observe(play(rules, "A4 D4", taken))[0, 4]  # moves elsewhere lift the ko
    assert not later[1, 2]
    assert rules.observe(play(rules, "pass", taken))[:, 3].all()
    assert not rules.observe(taken)[:, 3].any()
    first, second = Go(4, komi=0.5), Go(4, komi=7.5)
    assert sides(first, "A1")[:, 5, 0, 0].tolist() == [-0.5, 0.5]
    assert sides(second, "A1")[:, 5, 0, 0].tolist() == [-7.5, 7.5]
    assert torch.equal(sides(first, "A1")[:, :5], sides(second, "A1")[:, :5])
    share = [float(sides(Go(4, moves=8), " ".join(["A1", "B2", "C3", "D4"][:n]))[0, 6, 0, 0]) for n in range(5)]
    assert share == [1.0, 0.875, 0.75, 0.625, 0.5]


def test_no_two_states_of_a_small_board_look_alike() -> None:
    """All positions of four moves on 2 x 2: the same observation only where all that follows is the same."""
    rules, state = Go(2, komi=0.5), Go(2, komi=0.5).start(Size([1]))
    met: dict[bytes, tuple[bytes, ...]] = {}
    for _ in range(5):
        for row in range(len(state.ply)):
            one = type(state)(*(leaf[row] for leaf in state))
            looks = rules.observe(one).numpy().tobytes()
            follows = (one.legal, one.ply, one.passes, one.chain.sign(), one.outcome)
            said = tuple(leaf.numpy().tobytes() for leaf in follows)
            assert met.setdefault(looks, said) == said
        state = next_positions(rules, state)
    assert len(met) > 100
