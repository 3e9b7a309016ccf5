"""Games of a tournament from beginning to end, against the loops that people write; one game is the unit.

Ours is ``Arena.play`` with a schedule; its rows are refilled, and its results are counted. OpenSpiel plays one game
after another with ``evaluate_bots``, in Python and in C++; TorchRL plays a batch of games in lockstep, each of them
nine plies long, as its env has no rows that begin anew; a loop with networks is the same networks on OpenSpiel, one
position at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marlenv.cli.benches.timing import Figure, chosen, interleaved
from marlenv.optional import need

Play = Callable[[], int]
WHO = "marlenv bench tournament"
ROWS, CHESS_ROWS = 4096, 1024


def arena(rules: Any, players: Mapping[str, Any], rows: int, games: int, max_plies: int | None = None) -> Play:
    """Games of two players who sit both ways."""
    from marlenv.tournament import Arena, Game

    held, (a, b) = Arena(rules, players, rows=rows, max_plies=max_plies), players
    schedule = [Game(k, (a, b) if k % 2 else (b, a)) for k in range(games)]

    def play() -> int:
        held.play(schedule).results()
        return games

    return play


def spiel_bots(game: str, games: int, *, python: bool) -> Play:
    """Random bots of OpenSpiel, one game after another, in the loop of either language."""
    pyspiel = need("pyspiel", WHO)
    made = pyspiel.load_game(game)
    rng: Any = 0
    if python:
        evaluate = need("open_spiel.python.algorithms.evaluate_bots", WHO).evaluate_bots
        bot = need("open_spiel.python.bots.uniform_random", WHO).UniformRandomBot
        bots = [bot(seat, np.random.RandomState(seat)) for seat in range(2)]
        rng = np.random.RandomState(0)
    else:
        evaluate = pyspiel.evaluate_bots
        bots = [pyspiel.make_uniform_random_bot(seat, seat) for seat in range(2)]

    def play() -> int:
        for _ in range(games):
            evaluate(made.new_initial_state(), bots, rng)
        return games

    return play


def torchrl_lockstep(rows: int) -> Play:
    """A batch of TorchRL's tic-tac-toe at random, played until the last game must be over."""
    peer = need("torchrl.envs", WHO).TicTacToeEnv()
    start = peer.reset(peer.fake_tensordict().expand(rows).clone())

    def play() -> int:
        td = peer.reset(start.clone())
        for _ in range(9):
            td = peer.step_mdp(peer.step(peer.rand_action(td)))
        return rows

    return play


def network(seed: int) -> nn.Module:
    """What both sides ask: a small network that has never learned anything."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(27, 64), nn.Tanh(), nn.Linear(64, 9))


def weights(logits: Tensor, legal: Tensor) -> Tensor:
    """What both sides draw by: the softmax over what is legal, which need not sum to 1."""
    return logits.exp() * legal


def networks(rows: int, games: int) -> Play:
    """Two networks in the arena: each draws from its softmax over what is legal."""
    from marlenv.games import TicTacToe
    from marlenv.tournament import Turn

    def player(module: nn.Module) -> Callable[[Turn], Tensor]:
        def draws(turn: Turn) -> Tensor:
            with torch.no_grad():
                return turn.rng.choice(weights(module(turn.observation.flatten(1).float()), turn.legal))

        return draws

    return arena(TicTacToe(), {"a": player(network(0)), "b": player(network(1))}, rows, games)


def networks_one_by_one(games: int) -> Play:
    """The same networks, asked about one position at a time."""
    pyspiel = need("pyspiel", WHO)
    made, both, rng = pyspiel.load_game("tic_tac_toe"), (network(0), network(1)), torch.Generator().manual_seed(0)

    def play() -> int:
        with torch.no_grad():
            for number in range(games):
                state = made.new_initial_state()
                while not state.is_terminal():
                    seat = state.current_player()
                    logits = both[(seat + number) % 2](torch.tensor(state.observation_tensor()))
                    legal = torch.tensor(state.legal_actions_mask(), dtype=torch.bool)
                    state.apply_action(int(torch.multinomial(weights(logits, legal), 1, generator=rng)))
        return games

    return play


def with_ledger(env: str, rows: int, games: int, *, ledger: bool) -> Play:
    """A tournament from its config, with its games written into a ledger or not."""
    from marlenv.tournament.config import Config
    from marlenv.tournament.drive import open_ledger, run
    from marlenv.tournament.plan import following
    from marlenv.tournament.play import blank

    players = {"a": "random", "b": "random"}
    config = Config.of({"env": env, "players": players, "cycles": games // 2, "rows": rows})

    def play() -> int:
        if not ledger:
            held = config.arena()  # as a run from a ledger makes one
            held.play(following(config, held, blank([], 2)))
            return games
        with tempfile.TemporaryDirectory() as folder:
            book = open_ledger(config, Path(folder) / "games.sqlite")
            run(book)
            book.close()
        return games

    return play


def tictactoe_figures(rounds: int) -> list[Figure]:
    """Random players of tic-tac-toe."""
    from marlenv.games import TicTacToe
    from marlenv.tournament import random_player

    players = {"a": random_player, "b": random_player}
    sides = {
        "ours": arena(TicTacToe(), players, ROWS, 16 * ROWS),
        "TorchRL, lockstep": torchrl_lockstep(ROWS),
        "OpenSpiel, Python": spiel_bots("tic_tac_toe", 1000, python=True),
        "OpenSpiel, C++": spiel_bots("tic_tac_toe", 4000, python=False),
    }
    got = interleaved(sides, rounds)
    what = f"random tic-tac-toe, {ROWS} rows"
    return [Figure(what, got["ours"], us, name, "us/game") for name, us in got.items() if name != "ours"]


def network_figures(rounds: int) -> list[Figure]:
    """Networks against each other."""
    got = interleaved({"ours": networks(ROWS, 8 * ROWS), "one by one": networks_one_by_one(200)}, rounds)
    return [Figure(f"two networks, {ROWS} rows", got["ours"], got["one by one"], "one by one", "us/game")]


def chess_figures(rounds: int) -> list[Figure]:
    """Random players of chess."""
    from marlenv.games.chess import Chess
    from marlenv.tournament import random_player

    players = {"a": random_player, "b": random_player}
    sides = {
        "ours": arena(Chess(), players, CHESS_ROWS, 6 * CHESS_ROWS),
        "OpenSpiel, C++": spiel_bots("chess", 100, python=False),
    }
    got = interleaved(sides, rounds)
    return [Figure(f"random chess, {CHESS_ROWS} rows", got["ours"], got["OpenSpiel, C++"], "OpenSpiel, C++", "us/game")]


def useful_figures(_: int) -> list[Figure]:
    """How many rows are stepped for each ply of a game, and how many if rows wait for the slowest."""
    from marlenv.games import TicTacToe
    from marlenv.tournament import Arena, Game, random_player

    held = Arena(TicTacToe(), {"a": random_player}, rows=ROWS)
    played = held.play([Game(k, ("a", "a")) for k in range(16 * ROWS)])
    plies = int(played.plies.sum())
    lockstep = ROWS * sum(int(part.max()) for part in played.plies.split(ROWS))
    return [Figure(f"tic-tac-toe, {ROWS} rows", held.row_steps / plies, lockstep / plies, "lockstep", "row-steps/ply")]


def ledger_figures(rounds: int) -> list[Figure]:
    """What the ledger costs, beside games of nothing and beside games of some length."""
    out = []
    for name, env, rows, games in (
        ("tic-tac-toe", "tic_tac_toe", ROWS, 256 * ROWS),
        ("chess", "chess", CHESS_ROWS, 8 * CHESS_ROWS),
    ):
        sides = {str(with_): with_ledger(env, rows, games, ledger=with_) for with_ in (True, False)}
        got = interleaved(sides, rounds)
        what = f"random {name} with its ledger, {rows} rows"
        out.append(Figure(what, got["True"], got["False"], "no ledger", "us/game"))
    return out


FIGURES: dict[str, Callable[[int], list[Figure]]] = {
    "tic-tac-toe": tictactoe_figures,
    "networks": network_figures,
    "chess": chess_figures,
    "useful": useful_figures,
    "ledger": ledger_figures,
}


def measure(rounds: int, *, only: str = "") -> list[Figure]:
    """Times all sides.

    Args:
        rounds: how often each side is timed.
        only: measure only what has this in its name.
    """
    return [figure for name in chosen("tournament", FIGURES, only) for figure in FIGURES[name](rounds)]
