"""Tic-tac-toe: all 255,168 games with the known counts, TorchRL's keys and results, illegal moves, both layouts."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from torch import Size

import marlenv
from marlenv.errors import IllegalAction, NotInSpec, SpecError
from marlenv.games import GameEnv, TicTacToe
from marlenv.games.env import draws
from marlenv.games.tictactoe import env as tictactoe_env
from marlenv.games.tictactoe.rules import State

RULES = TicTacToe()


def all_games() -> tuple[State, list[int]]:
    """Every game, played at once: the final positions, and how many end after each number of moves."""
    state, ended, lengths = RULES.start(Size([1])), [], []
    while len(state.player):
        rows, cells = RULES.legal(state).nonzero(as_tuple=True)
        state = RULES.play(State(*(x[rows] for x in state)), cells)
        done = RULES.over(state)
        ended.append(State(*(x[done] for x in state)))
        lengths.append(int(done.sum()))
        state = State(*(x[~done] for x in state))
    return State(*(torch.cat(x) for x in zip(*ended, strict=True))), lengths


def test_all_games_have_the_known_counts() -> None:
    end, lengths = all_games()
    assert [int((end.winner == w).sum()) for w in (0, 1, -1)] == [131184, 77904, 46080]
    assert lengths == [0, 0, 0, 0, 1440, 5328, 47952, 72576, 127872]  # OEIS A061221 and Wikipedia's game tree
    returns = RULES.returns(end)
    assert bool((returns.sum(-1) == 0).all())
    assert bool((RULES.outcome(end) == torch.where(end.winner >= 0, 1, 2)).all())


@settings(max_examples=30)
@given(st.lists(st.permutations(range(9)), min_size=1, max_size=8))
def test_a_batch_is_a_stack_of_singles(orders: list[list[int]]) -> None:
    moves = torch.tensor(orders)
    batch = RULES.start(Size([len(orders)]))
    singles = [RULES.start(Size([])) for _ in orders]
    for t in range(9):
        batch = RULES.play(batch, moves[:, t])
        singles = [RULES.play(s, m[t]) for s, m in zip(singles, moves, strict=True)]
        for whole, parts in zip(batch, zip(*singles, strict=True), strict=True):
            assert torch.equal(whole, torch.stack(parts))


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(40))
def test_torchrl_agrees_on_boards_turns_masks_and_winners(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrl.envs import TicTacToeEnv as Peer

        peer = Peer()
    ours = marlenv.TicTacToeEnv()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(seed))
    a, b = ours.reset(), peer.reset()
    for cell in order:
        a, b = ours.step(a.set("action", cell)), peer.step(b.set("action", cell))
        for key in ("board", "turn", "mask", "done", "terminated", "truncated"):
            assert torch.equal(a["next", key], b["next", key]), key
        for one, other in (("player0", "player1"), ("player1", "player0")):
            want = b["next", one, "reward"] - b["next", other, "reward"]  # the peer gives its loser 0; ours gets -1
            assert torch.equal(a["next", one, "reward"], want)
        if bool(a["next", "done"]):
            break
        a, b = ours.step_mdp(a), peer.step_mdp(b)


@pytest.mark.reference
def test_the_specs_have_torchrls_keys_shapes_and_dtypes() -> None:
    from torchrl.envs import TicTacToeEnv as Peer

    peer, ours = Peer(), marlenv.TicTacToeEnv()
    for family in ("observation", "reward", "done", "action", "state"):
        theirs = {k: (s.shape, s.dtype) for k, s in getattr(peer, f"full_{family}_spec").items(True, True)}
        assert {k: (s.shape, s.dtype) for k, s in getattr(ours, f"full_{family}_spec").items(True, True)} == theirs


def test_an_illegal_move_is_an_error_that_names_row_player_and_cell() -> None:
    env = marlenv.TicTacToeEnv(batch_size=[2])
    td = env.step_mdp(env.step(env.reset().set("action", torch.tensor([4, 0]))))
    with pytest.raises(
        IllegalAction, match=r"action 0 \(0\) of player 'o' in row \[1\] is illegal; legal are \['1', '2'"
    ):
        env.step(td.set("action", torch.tensor([0, 0])))
    with pytest.raises(IllegalAction, match="action 9 of player 'o'"):
        env.step(td.set("action", torch.tensor([9, 1])))


def test_an_illegal_move_can_lose_the_game_instead() -> None:
    env = marlenv.TicTacToeEnv(batch_size=[2], illegal="lose")
    td = env.step_mdp(env.step(env.reset().set("action", torch.tensor([4, 0]))))
    out = env.step(td.set("action", torch.tensor([4, 1])))["next"]
    assert out["done"].flatten().tolist() == [True, False]
    assert out["player0", "reward"].flatten().tolist() == [1.0, 0.0]
    assert out["player1", "reward"].flatten().tolist() == [-1.0, 0.0]
    assert torch.equal(out["board"][0], 1 - td["board"][0].where(td["board"][0] >= 0, 2)) or bool(
        (out["board"][0] >= -1).all()
    )


def test_single_player_leaves_the_turn_with_the_caller_and_the_loser_gets_minus_one() -> None:
    env = marlenv.TicTacToeEnv(single_player=True, batch_size=[512])
    env.set_seed(3)
    data = env.rollout(9, break_when_all_done=True)
    assert bool(((data["turn"] == 0) | data["done"]).all())
    first, second = (data["next", f"player{i}", "reward"].sum(1).flatten() for i in range(2))
    assert bool((first == -second).all())
    wins, losses, draws = (float((first == r).float().mean()) for r in (1, -1, 0))
    assert wins == pytest.approx(0.585, abs=0.06)  # random against random: 58.5 %, 28.8 %, 12.7 %
    assert losses == pytest.approx(0.288, abs=0.06)
    assert draws == pytest.approx(0.127, abs=0.05)


def test_an_opponent_can_be_a_policy() -> None:
    def lowest(td: TensorDict) -> TensorDict:
        return td.set("action", td["mask"].int().argmax(-1))

    env = marlenv.TicTacToeEnv(opponent=lowest)
    out = env.step(env.reset().set("action", torch.tensor(8)))["next"]
    assert out["board"].flatten().tolist() == [0, -1, -1, -1, -1, -1, -1, -1, 1]
    assert int(out["turn"]) == 0


def test_a_random_opponent_does_not_depend_on_other_rows() -> None:
    games = []
    for rows in (1, 8):
        env = marlenv.TicTacToeEnv(single_player=True, batch_size=[rows])
        env.set_seed(11)
        games.append(env.rollout(20, break_when_any_done=False)[:1])
    assert bool((games[0] == games[1]).all())


def test_positions_can_be_given_to_reset_and_branched() -> None:
    env = GameEnv(TicTacToe())
    td = env.reset(TensorDict(batch_size=[1]))
    td = env.rand_action(td)
    td["x", "action"] = torch.tensor([[4]])
    td = env.step_mdp(env.step(td))
    many = env.reset(env.get_state(td).expand(8).clone(), set_state=True)
    many = env.rand_action(many)
    many["o", "action"] = torch.tensor([[c] for c in (0, 1, 2, 3, 5, 6, 7, 8)])
    boards = State(env.step(many)["next", "state", "code"]).board
    assert len({tuple(b.tolist()) for b in boards}) == 8
    assert bool((boards[:, 4] == 1).all())


@pytest.mark.parametrize("group_map", [None, "all_in_one_group", {"second": ["o"], "first": ["x"]}])
def test_groups_hold_the_same_game(group_map: object) -> None:
    plain = GameEnv(TicTacToe(), batch_size=[16])
    grouped = GameEnv(TicTacToe(), batch_size=[16], group_map=group_map)
    a, b = plain.reset(), grouped.reset()
    for t in range(9):
        cells = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(i))[t] for i in range(16)])
        for env, td in ((plain, a), (grouped, b)):
            for key in env.action_keys:
                td[key] = cells.unsqueeze(-1).expand(
                    td[key].shape if key in td.keys(True) else env.full_action_spec[key].shape
                )
        a, b = plain.step_and_maybe_reset(a)[0]["next"], grouped.step_and_maybe_reset(b)[0]["next"]
        for seat, player in enumerate(("x", "o")):
            path, i = grouped.tree.place[player]
            for key in ("reward", "mask", "action_mask", "observation", "done"):
                assert torch.equal(a[player, key][:, 0], b[(*path, key)][:, i]), (seat, key)
        if bool(a["done"].any()):
            break


def test_max_plies_truncates() -> None:
    env = GameEnv(TicTacToe(), batch_size=[32], max_plies=4)
    env.set_seed(0)
    data = env.rollout(9, break_when_all_done=True)
    assert data.shape == (32, 4)
    assert bool(data["next", "truncated"][:, -1].all())
    assert not bool(data["next", "terminated"].any())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"illegal": "ignore"}, "illegal must be 'raise' or 'lose', got 'ignore'"),
        ({"seat": 2}, r"seat must be an integer from 0 to 1, got 2"),
        ({"opponent": 3}, "opponent must be 'random' or a policy, got 3"),
        ({"observation_dtype": "int8"}, "must be a float type or torch.bool, or its name, got 'int8'"),
        ({"observation_dtype": "half-float"}, "observation_dtype must be a float type .* got 'half-float'"),
        ({"observation_dtype": None}, "observation_dtype must be a float type .* got None"),
    ],
)
def test_bad_options_are_named(options: dict, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        GameEnv(TicTacToe(), **options)


def test_a_dtype_may_be_named() -> None:
    named, given = (GameEnv(TicTacToe(), observation_dtype=dtype) for dtype in ("float16", torch.float16))
    assert named.full_observation_spec == given.full_observation_spec
    assert named.reset()["x", "observation"].dtype == torch.float16


def test_the_board_is_drawn_with_numbers_on_free_cells() -> None:
    state = RULES.start(Size([]))
    for cell in (4, 0):
        state = RULES.play(state, torch.tensor(cell))
    assert RULES.show(state) == " o | 1 | 2\n---+---+---\n 3 | x | 5\n---+---+---\n 6 | 7 | 8"


def test_a_step_of_many_boards_asks_two_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads the boards by itself: reading them apart took a third of a step."""
    pytest.importorskip("numba")
    asked, kernels = [], tictactoe_env.kernels

    class Counting:
        def __init__(self, game: str = "") -> None:
            self.game = game

        def __getattr__(self, name: str) -> object:
            asked.append(name)
            return getattr(kernels(self.game), name)

    for module in (tictactoe_env, draws):
        monkeypatch.setattr(module, "kernels", Counting)
    env = marlenv.games.TicTacToeEnv(batch_size=[100])
    td = env.reset()
    for _ in range(12):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    assert asked == ["draw", "step"] * 12


@pytest.mark.parametrize("cell", [30, -30, 2**31 - 1, -(2**31)])
def test_a_board_that_cannot_be_is_an_error_in_many_rows_too(cell: int) -> None:
    env = marlenv.games.TicTacToeEnv(batch_size=[100])
    td = env.rand_action(env.reset())
    td["board"][70, 2, 2] = cell
    td["board"][70, 2, 1] = cell
    before = env.action_stream.used
    for act in (env.step, env.rand_action):
        with pytest.raises(NotInSpec, match="a board holds"):
            act(td)
    assert env.action_stream.used == before


def test_boards_with_gaps_in_memory_are_read_like_others() -> None:
    whole, env = (marlenv.games.TicTacToeEnv(batch_size=[rows]) for rows in (200, 100))
    whole.set_seed(0)
    data = whole.rollout(4, break_when_any_done=False)[::2]
    gaps, dense = data[:, 3], data[:, 3].contiguous()
    assert not gaps["board"].is_contiguous()
    assert not gaps["action"].is_contiguous()
    a, b = (env.step(td.select("board", "turn", "action", "done"))["next"] for td in (gaps, dense))
    assert torch.equal(a["board"], data["next", "board"][:, 3])
    assert bool((a == b).all())


FORKS = """
import os, signal, torch
from marlenv.games.tictactoe import positions
torch.set_num_threads(2)
torch.ones(1 << 20).exp()  # starts the threads of OpenMP, which a forked process has not
pid = os.fork()
if not pid:
    signal.alarm(20)
    print(int((positions.WINNER.on(torch.device("cpu")) == 0).sum()), torch.get_num_threads(), flush=True)
    os._exit(0)
print(os.waitpid(pid, 0)[1], int((positions.WINNER.on(torch.device("cpu")) == 0).sum()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_makes_its_tables():
    """Gymnasium's vectors of processes make an env in the parent and fork then."""
    told = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=100, check=False)
    assert told.returncode == 0, told.stderr
    count, threads, ended, same = told.stdout.split()
    assert (count, threads, ended) == (same, "2", "0")
