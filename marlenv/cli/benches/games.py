"""Random legal play with auto-reset, measured through the env API: chess, tic-tac-toe and connect four, against peers;
and every game that OpenSpiel has too, of many rows and of few, beside it.

Ours is ``rand_action`` and ``step_and_maybe_reset``, tensordict in and out; a step is one ply of one game. OpenSpiel is
driven from Python, one game after another, by ``legal_actions`` and ``apply_action``; TorchRL by its own
``rand_action`` and ``step_and_maybe_reset``; Pgx, where it is installed, by a jitted scan that draws from its masks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from marlenv.cli.benches.cuda import captured, finished, without_waiting
from marlenv.cli.benches.spiel import PEERS, Play, peer_figures, spiel, stepping
from marlenv.cli.benches.timing import Figure, interleaved
from marlenv.errors import SpecError
from marlenv.optional import has, need

CHESS_ROWS, TICTACTOE_ROWS, FOUR_ROWS, GPU_ROWS = 1024, 4096, 1024, 16384


def pgx(game: str, rows: int, steps: int) -> Play:
    """Random legal play with auto-reset in Pgx, jitted; compiled in the first call."""
    jax, peer = need("jax", "marlenv bench games"), need("pgx", "marlenv bench games")
    auto_reset = need("pgx.experimental", "marlenv bench games").auto_reset
    env = peer.make(game)
    init, step = jax.jit(jax.vmap(env.init)), jax.vmap(auto_reset(env.step, env.init))

    @jax.jit  # type: ignore[untyped-decorator]
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


def chess(rows: int, mask: Any, path: Any, steps: int, device: str) -> Play:
    """Our chess; some plies away from the beginning, where games differ."""
    from marlenv.games.chess import Chess, GroupedChessEnv

    env = GroupedChessEnv(Chess(path=path), mask=mask, batch_size=[rows], device=device, seed=0)
    return stepping(env, rows, steps, warm=60)


def rollouts(rows: int, steps: int) -> Play:
    """Our chess by ``rollout`` with random actions, as ``make`` makes it."""
    from marlenv.registration import make

    env = make("chess", num_envs=rows, seed=0)

    def play() -> int:
        env.rollout(steps, break_when_any_done=False)
        return rows * steps

    return play


def measure(rounds: int, *, device: str = "cpu", only: str = "") -> list[Figure]:
    """Times all sides; on a GPU, chess with CUDA graphs and without.

    Args:
        rounds: how often each side is timed.
        device: where our side runs.
        only: measure only the games that have this in their name.
    """
    if torch.device(device).type == "cuda":
        return gpu_figures(rounds, device)
    own: dict[str, Callable[[int], list[Figure]]] = {
        "chess": chess_figures,
        "tic-tac-toe": tictactoe_figures,
        "connect four": four_figures,
    }
    chosen = [figures for name, figures in own.items() if only in name]
    chosen += [partial(peer_figures, name) for name in PEERS if only in name]
    if not chosen:
        raise SpecError(f"bench games: nothing has {only!r} in its name; there are {', '.join(PEERS)}")
    return [figure for figures in chosen for figure in figures(rounds)]


def chess_figures(rounds: int) -> list[Figure]:
    """Chess beside OpenSpiel, TorchRL and Pgx."""
    from marlenv.games.chess import ChessEnv

    peers = need("torchrl.envs", "marlenv bench games")
    sides = {
        "packed": chess(CHESS_ROWS, "bits", "auto", 256, "cpu"),
        "bool": chess(CHESS_ROWS, "bool", "auto", 128, "cpu"),
        "rollout": rollouts(CHESS_ROWS, 64),
        "eager": chess(CHESS_ROWS, "bits", "torch", 32, "cpu"),
        "one": chess(1, "bits", "auto", 1000, "cpu"),
        "one torchrl": stepping(ChessEnv(), 1, 200),
        "OpenSpiel": spiel("chess", 20_000),
        "TorchRL": stepping(peers.ChessEnv(), 1, 50),
    }
    if has("pgx"):
        sides["Pgx"] = pgx("chess", CHESS_ROWS, 1)
    got = interleaved(sides, rounds)
    rows = f"chess B={CHESS_ROWS}"
    figures = [
        Figure(f"{rows}, {mask} mask", got[mask], got[peer], peer)
        for mask in ("packed", "bool")
        for peer in ("OpenSpiel", "TorchRL", "Pgx")
        if peer in got
    ]
    return [
        *figures,
        Figure(f"{rows}, rollout(64)", got["rollout"], got["OpenSpiel"], "OpenSpiel"),
        Figure(f"{rows}, packed mask, eager torch", got["eager"], got["OpenSpiel"], "OpenSpiel"),
        Figure("chess B=1, packed mask", got["one"], got["TorchRL"], "TorchRL"),
        Figure("chess B=1, TorchRL's keys", got["one torchrl"], got["TorchRL"], "TorchRL"),
    ]


def tictactoe_figures(rounds: int) -> list[Figure]:
    """Tic-tac-toe beside TorchRL and Pgx."""
    from marlenv.games import TicTacToeEnv

    rows = TICTACTOE_ROWS
    peer = need("torchrl.envs", "marlenv bench games").TicTacToeEnv()
    batched = peer.reset(peer.fake_tensordict().expand(rows).clone())
    sides = {
        "ours": stepping(TicTacToeEnv(batch_size=[rows]), rows, 100),
        "TorchRL": stepping(peer, rows, 10, td=batched),
    }
    if has("pgx"):
        sides["Pgx"] = pgx("tic_tac_toe", rows, 20)
    got = interleaved(sides, rounds)
    return [Figure(f"tic-tac-toe B={rows}", got["ours"], us, name) for name, us in got.items() if name != "ours"]


def four_figures(rounds: int) -> list[Figure]:
    """Connect four beside OpenSpiel."""
    from marlenv.games import ConnectFour, GameEnv

    ours = stepping(GameEnv(ConnectFour(), batch_size=[FOUR_ROWS]), FOUR_ROWS, 512)
    got = interleaved({"ours": ours, "OpenSpiel": spiel("connect_four", 100_000)}, rounds)
    return [Figure(f"connect four B={FOUR_ROWS}", got["ours"], got["OpenSpiel"], "OpenSpiel")]


def gpu_figures(rounds: int, device: str) -> list[Figure]:
    """Chess on a GPU: the env, whose step must not wait for the device, and its rules as a CUDA graph."""
    from marlenv.games.chess import Chess, GroupedChessEnv

    env = GroupedChessEnv(Chess(), batch_size=[GPU_ROWS], device=device)
    plain = stepping(env, GPU_ROWS, 4, warm=20)
    with without_waiting():
        plain()
    sides = {"env": finished(plain), "graph": finished(graphed(GPU_ROWS, device)), "OpenSpiel": spiel("chess", 5000)}
    got = interleaved(sides, rounds)
    rows = f"chess B={GPU_ROWS} on {device}"
    return [
        Figure(f"{rows}, packed mask", got["env"], got["OpenSpiel"], "OpenSpiel"),
        Figure(f"{rows}, rules in a CUDA graph", got["graph"], got["OpenSpiel"], "OpenSpiel"),
    ]


def graphed(rows: int, device: str) -> Play:
    """Draw, play and begin anew as one CUDA graph, from the same memory to the same memory."""
    from marlenv.games.chess import Chess
    from marlenv.rng import RowRNG

    rules, rng = Chess(path="torch"), RowRNG(0, [rows], device)
    state = rules.start(torch.Size([rows]), device=torch.device(device))
    counter = rng.counter

    def ply() -> None:
        action = rules.draw(state, rng)
        rules.step(state, action, out=state)
        counter.copy_(rng.counter)
        rng.counter = counter

    graph = captured(ply, [*state, counter])

    def play() -> int:
        for _ in range(8):
            graph.replay()
        return 8 * rows

    return play
