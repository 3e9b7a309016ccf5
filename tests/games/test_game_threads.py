"""Machine code of games on several threads: the same entries, whoever computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from sizes import first
from tensordict import TensorDictBase

import marlenv
from marlenv import threads
from marlenv.envs.rollout import RolloutOptions, rollout
from marlenv.games import ConnectFour, TicTacToe, TicTacToeEnv
from marlenv.games.chess import ChessEnv
from marlenv.games.chess.fast import paths
from marlenv.games.fast import compiled_rules
from marlenv.games.tictactoe import env as tictactoe_env

numba = pytest.importorskip("numba")

ROWS = 64 * 3 + 7  # whole lines of rows, and some more
MADE: dict[str, Callable[[], Any]] = {
    "chess": lambda: marlenv.make("chess", num_envs=ROWS),
    "chess, bools": lambda: marlenv.make("chess", num_envs=ROWS, mask="bool"),
    "chess, TorchRL's keys": lambda: ChessEnv(batch_size=[ROWS]),
    "tic-tac-toe": lambda: marlenv.make("tic_tac_toe", num_envs=ROWS),
    "tic-tac-toe, TorchRL's keys": lambda: TicTacToeEnv(batch_size=[ROWS]),
    "connect four": lambda: marlenv.make("connect_four", num_envs=ROWS),
    "a small board": lambda: marlenv.make("connect_four", num_envs=ROWS, rows=4, columns=5, line=3),
    "hex": lambda: marlenv.make("hex", num_envs=ROWS, rows=5, columns=5),
    "othello": lambda: marlenv.make("othello", num_envs=ROWS),
    "breakthrough": lambda: marlenv.make("breakthrough", num_envs=ROWS, rows=4),
    "go": lambda: marlenv.make("go", num_envs=ROWS, size=4, repetition="draw"),
    "go, superko": lambda: marlenv.make("go", num_envs=ROWS, size=4, repetition="forbid"),
    "hanabi": lambda: marlenv.make("hanabi", num_envs=ROWS),
    "backgammon": lambda: marlenv.make("backgammon", num_envs=ROWS, hyper=True),
    "kuhn poker": lambda: marlenv.make("kuhn_poker", num_envs=ROWS),
    "leduc poker": lambda: marlenv.make("leduc_poker", num_envs=ROWS),
    "a matrix": lambda: marlenv.make("prisoners_dilemma", num_envs=ROWS),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads kernels were given, of work that is always worth it."""
    found, shared, before = [], threads.shared, torch.get_num_threads()

    def share(work: float) -> tuple[int, int]:
        found.append(shared(work)[0])
        return shared(work)

    monkeypatch.setattr(threads, "WORTH", 0.01)
    for module in (compiled_rules, tictactoe_env, paths):
        monkeypatch.setattr(module, "shared", share)
    yield found
    torch.set_num_threads(before)


def played(make: Callable[[], Any], many: int) -> list[TensorDictBase]:
    """Rollouts in one call, which stop or go on; steps by hand, a reset of some rows, and random actions."""
    torch.set_num_threads(many)
    env = make()
    env.set_seed(1)
    steps = 3 if isinstance(env, ChessEnv) else 30
    data = [env.rollout(steps, break_when_any_done=stops) for stops in (True, False)]
    data.append(rollout(env, steps, None, RolloutOptions(break_when_any_done=False)))
    td = marlenv.step_mdp(data[-1][..., -1])
    td["_reset"] = td["done"] | (torch.arange(ROWS) % 3 == 0).unsqueeze(-1)
    td = env.reset(td)
    return [*data, td, env.rand_action(td)]


@pytest.mark.slow
@pytest.mark.parametrize("name", first(MADE, 7))
def test_any_number_of_threads_plays_the_same_games(name: str, asked: list[int]) -> None:
    one = played(MADE[name], 1)
    assert set(asked) == {1}
    for many in (2, 3, 7):
        asked.clear()
        for a, b in zip(one, played(MADE[name], many), strict=True):
            assert list(a.keys(True)) == list(b.keys(True))
            for key in a.keys(True, True):
                assert torch.equal(a.get(key), b.get(key)), key
        assert set(asked) == {many}


def test_small_batches_stay_on_one_thread() -> None:
    torch.set_num_threads(max(2, torch.get_num_threads()))
    costs = [max(rules.fast_form().work) for rules in (TicTacToe(), ConnectFour())]
    for rows, cost in ((100, costs[0]), (100, costs[1]), (64, paths.PLAYING)):
        assert threads.shared(rows * cost) == threads.ONE


@numba.njit(nogil=True)
def _count(seen: Any, bad: int, start: int, stop: int) -> int:
    least = 1000
    for b in range(start, stop):
        if b == bad:
            raise ValueError
        seen[b] += 1
        least = min(least, 500 - b)
    return least


@pytest.mark.parametrize("many", [1, 2, 3, 7])
def test_every_row_is_computed_once_and_the_least_answer_counts(many: int, asked: list[int]) -> None:
    from marlenv.games.fast.by_rows import by_rows
    from marlenv.games.fast.plain_arrays import bare

    @numba.njit
    def counted(shares: tuple[int, int], seen: Any, bad: int) -> int:
        return by_rows(_count, (bare(seen), bad), seen.size, shares)

    torch.set_num_threads(many)
    shares = threads.shared(1e9)
    assert shares[0] == many
    for rows in (1, 63, 64, 65, 128, 1000):
        seen = torch.zeros(rows, dtype=torch.int64)
        assert counted(shares, seen.numpy(), -1) == 501 - rows
        assert bool((seen == 1).all())
        with pytest.raises(RuntimeError, match="an error in a block of rows"):
            counted(shares, seen.numpy(), rows - 1)


@numba.njit(nogil=True)
def _size(given: Any, start: int, stop: int) -> int:
    return given[0].size


def test_arrays_whose_holders_are_counted_are_refused() -> None:
    """Threads that count who holds the same array wait for one another: two played chess 1.7 times as fast as one."""
    from marlenv.games.fast.by_rows import by_rows
    from marlenv.games.fast.plain_arrays import bare

    fine = numba.njit(lambda words: by_rows(_size, (bare((words, 3)),), 5, (1, 0)))
    counted = numba.njit(lambda words: by_rows(_size, ((words, 3),), 5, (1, 0)))
    words = torch.arange(4).numpy()
    assert fine(words) == 4
    with pytest.raises(RuntimeError, match="an array that is not bare"):
        counted(words)
