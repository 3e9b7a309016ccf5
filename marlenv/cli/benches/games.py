"""Random legal play with auto-reset, measured through the env API: chess, tic-tac-toe and connect four, against peers.

Ours is ``rand_action`` and ``step_and_maybe_reset``, tensordict in and out; a step is one ply of one game. OpenSpiel is
driven from Python, one game after another, by ``legal_actions`` and ``apply_action``; TorchRL by its own ``rand_action``
and ``step_and_maybe_reset``; Pgx, where it is installed, by a jitted scan that draws from its masks.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.optional import has, need

Play = Callable[[], int]

CHESS_ROWS, TICTACTOE_ROWS, FOUR_ROWS = 1024, 4096, 1024


def stepping(env: Any, rows: int, steps: int, warm: int = 0) -> Play:
    """Random legal play of an env with our interface; TorchRL's is the same."""
    td = env.reset()
    held = [td]

    def play(count: int = steps) -> int:
        td = held[0]
        for _ in range(count):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        held[0] = td
        return count * rows

    if warm:
        play(warm)
    return play


def spiel(game: str, plies: int) -> Play:
    """Random legal play of one OpenSpiel game after another."""
    made, choose = need("pyspiel", "marlenv bench games").load_game(game), random.Random(0)
    held = [made.new_initial_state()]

    def play() -> int:
        state = held[0]
        for _ in range(plies):
            if state.is_terminal():
                state = made.new_initial_state()
            state.apply_action(choose.choice(state.legal_actions()))
        held[0] = state
        return plies

    return play


def pgx(game: str, rows: int, steps: int) -> Play:
    """Random legal play with auto-reset in Pgx, jitted; compiled in the first call."""
    jax, peer = need("jax", "marlenv bench games"), need("pgx", "marlenv bench games")
    auto_reset = need("pgx.experimental", "marlenv bench games").auto_reset
    env = peer.make(game)
    init, step = jax.jit(jax.vmap(env.init)), jax.vmap(auto_reset(env.step, env.init))

    @jax.jit  # type: ignore[misc]
    def one(state: Any, key: Any) -> Any:
        logits = jax.numpy.where(state.legal_action_mask, 0.0, -jax.numpy.inf)
        first, second = jax.random.split(key)
        return step(state, jax.random.categorical(first, logits, axis=-1), jax.random.split(second, rows))

    keys = iter(jax.random.split(jax.random.PRNGKey(0), 100_000))
    held = [init(jax.random.split(next(keys), rows))]

    def play() -> int:
        state = held[0]
        for _ in range(steps):
            state = one(state, next(keys))
        jax.block_until_ready(state)
        held[0] = state
        return steps * rows

    return play


def chess(rows: int, mask: str, path: str, steps: int, device: str) -> Play:
    """Our chess; some plies away from the beginning, where games differ."""
    from marlenv.games.chess import ChessEnv

    env = ChessEnv(layout="grouped", mask=mask, batch_size=[rows], path=path, device=device)
    return stepping(env, rows, steps, warm=60)


def measure(rounds: int, device: str = "cpu") -> list[Figure]:
    """Times all sides; on a GPU, ours with CUDA graphs beside ours without."""
    if torch.device(device).type == "cuda":
        from marlenv.cli.benches.games_cuda import on_gpu

        return on_gpu(rounds, device)
    return [*chess_figures(rounds), *board_figures(rounds)]


def chess_figures(rounds: int) -> list[Figure]:
    """Chess beside OpenSpiel, TorchRL and Pgx."""
    from marlenv.games.chess import ChessEnv

    peers = need("torchrl.envs", "marlenv bench games")
    sides = {
        "packed": chess(CHESS_ROWS, "bits", "auto", 8, "cpu"),
        "bool": chess(CHESS_ROWS, "bool", "auto", 4, "cpu"),
        "eager": chess(CHESS_ROWS, "bits", "torch", 4, "cpu"),
        "one": chess(1, "bits", "auto", 60, "cpu"),
        "one torchrl": stepping(ChessEnv(), 1, 60),
        "OpenSpiel": spiel("chess", 1000),
        "TorchRL": stepping(peers.ChessEnv(), 1, 20),
    }
    if has("pgx"):
        sides["Pgx"] = pgx("chess", CHESS_ROWS, 1)
    got = interleaved(sides, rounds)
    rows = f"B={CHESS_ROWS}"
    figures = [
        Figure(f"chess {rows}, {mask} mask", got[side], got[peer], peer)
        for side, mask in (("packed", "packed"), ("bool", "bool"))
        for peer in ("OpenSpiel", "TorchRL", "Pgx")
        if peer in got
    ]
    return [
        *figures,
        Figure(f"chess {rows}, packed mask, eager torch", got["eager"], got["OpenSpiel"], "OpenSpiel"),
        Figure("chess B=1, packed mask", got["one"], got["TorchRL"], "TorchRL"),
        Figure("chess B=1, TorchRL's keys", got["one torchrl"], got["TorchRL"], "TorchRL"),
    ]


def board_figures(rounds: int) -> list[Figure]:
    """Tic-tac-toe beside TorchRL and Pgx, connect four beside OpenSpiel."""
    from marlenv.games import ConnectFour, GameEnv, TicTacToeEnv

    peers = need("torchrl.envs", "marlenv bench games")
    peer = peers.TicTacToeEnv()
    batched = peer.reset(peer.fake_tensordict().expand(TICTACTOE_ROWS).clone())
    sides = {
        "tic-tac-toe": stepping(TicTacToeEnv(batch_size=[TICTACTOE_ROWS]), TICTACTOE_ROWS, 20),
        "connect four": stepping(GameEnv(ConnectFour(), batch_size=[FOUR_ROWS]), FOUR_ROWS, 20),
        "TorchRL": _resumed(peer, batched, TICTACTOE_ROWS, 20),
        "OpenSpiel": spiel("connect_four", 2000),
    }
    if has("pgx"):
        sides["Pgx"] = pgx("tic_tac_toe", TICTACTOE_ROWS, 20)
    got = interleaved(sides, rounds)
    figures = [
        Figure(f"tic-tac-toe B={TICTACTOE_ROWS}", got["tic-tac-toe"], got[name], name)
        for name in ("TorchRL", "Pgx")
        if name in got
    ]
    return [*figures, Figure(f"connect four B={FOUR_ROWS}", got["connect four"], got["OpenSpiel"], "OpenSpiel")]


def _resumed(env: Any, td: Any, rows: int, steps: int) -> Play:
    """Random legal play of TorchRL's batched env, from given data."""
    held = [td]

    def play() -> int:
        td = held[0]
        for _ in range(steps):
            _, td = env.step_and_maybe_reset(env.rand_action(td))
        held[0] = td
        return steps * rows

    return play
