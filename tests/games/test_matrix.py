"""Matrix games: OpenSpiel's payoffs and repeated games, tables of one's own, and games without end."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch import Size

import marlenv
from marlenv.errors import BadNotation, IllegalAction, SpecError
from marlenv.games.matrix import NAMED, MatrixGame
from marlenv.testing import run_contract

PEERS = {
    "prisoners_dilemma": "pd",
    "stag_hunt": "sh",
    "chicken": "cd",
    "bach_or_stravinsky": "bos",
    "coordination": "coordination",
    "matching_pennies": "mp",
    "rock_paper_scissors": "rps",
    "shapleys_game": "shapleys_game",
}


@pytest.mark.reference
@pytest.mark.parametrize("name", NAMED)
def test_openspiel_pays_the_same_for_every_pair_of_choices(name: str) -> None:
    import pyspiel

    peer, rules = pyspiel.load_game(f"matrix_{PEERS[name]}"), MatrixGame(name)
    start = rules.start(Size([]))
    assert [rules.action_name(start, a) for a in range(rules.n_actions)] == [
        peer.row_action_name(a) for a in range(peer.num_rows())
    ]
    for pair in product(range(rules.n_actions), repeat=2):
        other = peer.new_initial_state()
        other.apply_actions(list(pair))
        end = rules.play(start, torch.tensor(pair))
        assert rules.returns(end).tolist() == other.returns()
        assert bool(rules.over(end))
        assert other.is_terminal()
    assert rules.zero_sum == (peer.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["prisoners_dilemma", "rock_paper_scissors", "chicken"])
def test_openspiel_repeats_them_in_the_same_way(name: str) -> None:
    import pyspiel

    peer = pyspiel.load_game(f"repeated_game(stage_game=matrix_{PEERS[name]}(),num_repetitions=10)")
    rules = MatrixGame(name, rounds=10)
    generator = torch.Generator().manual_seed(1)
    ours, others = rules.start(Size([200])), [peer.new_initial_state() for _ in range(200)]
    for t in range(10):
        choices = torch.randint(0, rules.n_actions, (200, 2), generator=generator)
        ours = rules.play(ours, choices)
        seen = rules.observe(ours)
        assert torch.equal(seen[..., -1], torch.full((200, 2), (9 - t) / 10))
        for i, other in enumerate(others):
            other.apply_actions(choices[i].tolist())
            assert rules.returns(ours)[i].tolist() == other.returns()
            assert seen[i, 0, :-1].tolist() == other.observation_tensor(0)
            assert seen[i, 1, :-1].unflatten(-1, (2, -1)).flip(0).flatten().tolist() == other.observation_tensor(1)
    assert bool(rules.over(ours).all())
    assert all(other.is_terminal() for other in others)
    assert torch.equal(rules.play(ours, choices).score, ours.score)


def test_tables_of_ones_own_may_have_many_players_and_different_numbers_of_choices() -> None:
    table = torch.arange(2 * 3 * 2 * 3).reshape(2, 3, 2, 3).tolist()
    env = marlenv.make("matrix_game", num_envs=2, payoffs=table, rounds=2)
    td = env.reset()
    assert [td[f"player_{i}", "action_mask"][0, 0].tolist() for i in range(3)] == [
        [True, True, False],
        [True] * 3,
        [True, True, False],
    ]
    for i, choice in enumerate((1, 2, 0)):
        td[f"player_{i}", "action"] = torch.full((2, 1), choice)
    step = env.step(td)["next"]
    assert [step[f"player_{i}", "reward"].flatten().tolist() for i in range(3)] == [[30.0] * 2, [31.0] * 2, [32.0] * 2]
    td["player_2", "action"][1] = 2
    with pytest.raises(IllegalAction, match=r"action 2 \(2\) of player 'player_2' in row \[1\]"):
        env.step(td)


def test_a_game_without_end_is_cut_off_by_the_move_limit() -> None:
    env = marlenv.make("matrix_game/stag_hunt", num_envs=2, rounds=None, max_steps=5)
    data = env.rollout(9)
    assert data.shape == (2, 5)
    assert bool(data["next", "truncated"][:, -1].all())
    assert not bool(data["next", "terminated"].any())


def test_rewards_keep_their_digits_in_games_that_go_on_for_long() -> None:
    env = marlenv.make("matrix_game", payoffs=[[(0.1, 0.3), (0.1, 0.3)], [(0.1, 0.3), (0.1, 0.3)]], rounds=None)
    state = env.get_state(env.reset())
    state["state", "score"] += 1e6
    step = env.rand_step(env.reset(state, set_state=True))["next"]
    assert [float(step[f"player_{i}", "reward"]) for i in (0, 1)] == pytest.approx([0.1, 0.3], abs=1e-7)


def test_tit_for_tat_against_a_defector_earns_what_axelrod_says() -> None:
    """https://en.wikipedia.org/wiki/Tit_for_tat: it loses the first round and no other."""
    rules = MatrixGame([[(3, 3), (0, 5)], [(5, 0), (1, 1)]], rounds=200, choices=("C", "D"))
    state = rules.start(Size([]))
    for _ in range(200):
        mirror = state.last[1].clamp(min=0)
        state = rules.play(state, torch.stack((mirror, torch.tensor(1))))
    assert rules.returns(state).tolist() == [199.0, 204.0]
    assert rules.read_action(rules.start(Size([])), "d") == 1
    with pytest.raises(BadNotation, match="'X'"):
        rules.read_action(rules.start(Size([])), "X")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"payoffs": "prisoner_dilema"}, "no game is called 'prisoner_dilema'.*prisoners_dilemma"),
        ({"payoffs": [[1, 2], [3, 4]]}, r"a table of 1 choices must hold 1 numbers per cell.*got 2.*\[2, 2\]"),
        ({"payoffs": [[(1, 2)], [(3,)]]}, "no table of numbers"),
        ({"payoffs": "chicken", "rounds": 0}, "rounds must be an integer from 1 on, got 0"),
        ({"payoffs": "chicken", "choices": ["only"]}, "names for 2 choices"),
        ({"payoffs": "chicken", "choices": "AB"}, "choices must be a list of names, got 'AB'"),
        ({"payoffs": "chicken", "choices": 2}, "choices must be a list of names, got 2"),
        ({"payoffs": "chicken", "choices": [0, 1]}, r"names of choices must be texts, got \[0, 1\]"),
        ({"payoffs": "chicken", "choices": ["A", "A"]}, r"different names, .*got \['A', 'A'\]"),
        ({"payoffs": "chicken", "choices": ["go on", "Go On"]}, "different names"),
        ({"payoffs": [[(float("nan"), 1)]]}, "payoffs must be finite numbers"),
        ({"payoffs": np.full((1, 1, 2), np.inf)}, "payoffs must be finite numbers"),
        ({"payoffs": [[(10**400, 1)]]}, "no table of numbers"),
        ({"payoffs": [[("a", 1)]]}, "no table of numbers, as one of them is 'a'"),
        ({"payoffs": {0: 1}}, "no table of numbers, as one of them is {0: 1}"),
    ],
)
def test_bad_tables_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        MatrixGame(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table",
    [
        np.array([[(3, 3), (0, 5)], [(5, 0), (1, 1)]]),
        np.array([[(3, 3), (0, 5)], [(5, 0), (1, 1)]], dtype=np.float32),
        [[np.array([3, 3]), (np.int64(0), np.float32(5))], [torch.tensor([5, 0]), (1, 1)]],
        torch.tensor([[(3, 3), (0, 5)], [(5, 0), (1, 1)]]),
    ],
)
def test_a_table_of_any_library_is_the_table_of_its_numbers(table: object) -> None:
    want = MatrixGame([[(3, 3), (0, 5)], [(5, 0), (1, 1)]])
    assert MatrixGame(table) == want
    assert hash(MatrixGame(table)) == hash(want)
    env = marlenv.make("matrix_game", payoffs=table)
    step = env.step(
        env.reset().update({name: {"action": torch.tensor([k])} for k, name in enumerate(env.rules.players)})
    )
    assert [float(step["next", name, "reward"]) for name in env.rules.players] == [0, 5]


def test_choices_are_names_however_they_are_listed() -> None:
    games = [MatrixGame("chicken", choices=names) for names in (["a", "b"], ("a", "b"), np.array(["a", "b"]))]
    assert len({hash(rules) for rules in games}) == 1
    assert games[0] == games[1] == games[2]
    assert games[0].legal_names(games[0].start(Size([])), 0) == {"a": 0, "b": 1}


ZERO = [[(0.1, 0.2, -0.3), (0.3, -0.1, -0.2)], [(0.7, -0.6, -0.1), (0, 0, 0)]]


@pytest.mark.parametrize("scale", [1.3e-6, 1.0, 1.1e7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_hide_that_a_game_is_zero_sum(scale: float, dtype: torch.dtype) -> None:
    """Each cell adds up to zero on paper, and in floats to something near."""
    table = torch.tensor([ZERO, ZERO], dtype=dtype) * scale
    assert float(table.double().sum(-1).abs().max()) > 0
    rules = MatrixGame(table)
    assert rules.zero_sum
    assert not MatrixGame(table + scale * 1e-4).zero_sum
    env = marlenv.GameEnv(rules, illegal="lose", batch_size=[1])
    td = env.rand_action(env.reset())
    td["player_0", "action"] = torch.tensor([[7]])
    step = env.step(td)["next"]
    assert [float(step[name, "reward"]) for name in rules.players] == [-1.0, 0.5, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["prisoners_dilemma", "matrix_game/rock_paper_scissors"])
def test_the_contract_holds(task: str) -> None:
    results = list(run_contract(lambda: marlenv.make(task, num_envs=3, rounds=4)))
    assert not [r for r in results if r.verdict == "broken"]
