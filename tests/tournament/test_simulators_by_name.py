"""Tournaments of other people's simulators by name: the games are those of a loop over the simulator itself."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import torch

from marlenv.errors import Unsupported
from marlenv.tournament import Turn, random_player
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.store import Ledger
from marlenv.tournament.streams import CHANCE, streams

SEED, CYCLES = 3, 4
ASKED: dict[int, list[tuple[int, list[float], list[int], int]]] = defaultdict(list)
"""What was asked in each game, move by move: seat, observation, legal actions, and the answer."""


def noted(turn: Turn) -> torch.Tensor:
    """Chance, which notes what it was asked and what it said."""
    action = random_player(turn)
    rows = (turn.games, turn.seat, turn.observation.double().flatten(1), turn.legal, action)
    for game, seat, seen, legal, chosen in zip(*rows, strict=True):
        ASKED[int(game)].append((int(seat), seen.tolist(), legal.nonzero().flatten().tolist(), int(chosen)))
    return action


def tournament(path: Path, env: str, rows: int) -> Ledger:
    """Two who play at random from both seats, noted."""
    ASKED.clear()
    players = {"a": "test_simulators_by_name:noted", "b": "test_simulators_by_name:noted"}
    config = {"env": env, "players": players, "cycles": CYCLES, "seed": SEED, "rows": rows, "forfeits": False}
    ledger = open_ledger(Config.of(config), path)
    run(ledger)
    assert ledger.counts() == {"open": 0, "leased": 0, "finished": 2 * CYCLES}
    return ledger


def chance_of(ledger: Ledger) -> list[int]:
    """The seed that each game gives its env."""
    chances = [game.id if game.chance is None else game.chance for game in ledger.games()]
    return [key & 0x7FFFFFFF for key in streams(SEED, torch.tensor(chances), CHANCE).tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tictactoe_v3", "connect_four_v3", "leduc_holdem_v4"])
def test_games_of_pettingzoo_are_those_of_its_own_loop(tmp_path: Path, name: str) -> None:
    """The cards of Leduc follow from the seed of a game; those of a pair are the same."""
    module = pytest.importorskip(f"pettingzoo.classic.{name}", reason="PettingZoo's classic games are not installed")
    ledger = tournament(tmp_path / "a.sqlite", f"pettingzoo/{name}", rows=5)
    played, lengths = ledger.played(), set()
    for k, (game, seed) in enumerate(zip(played.games, chance_of(ledger), strict=True)):
        raw = module.env()
        raw.reset(seed=seed)
        earned, asked = dict.fromkeys(raw.possible_agents, 0.0), iter(ASKED[game.id])
        while raw.agents:
            agent = raw.agent_selection
            observation, _, terminated, truncated, _ = raw.last()
            if terminated or truncated:
                raw.step(None)
                continue
            seat, seen, legal, action = next(asked)
            assert raw.possible_agents[seat] == agent
            assert observation["observation"].astype(float).flatten().tolist() == seen
            assert observation["action_mask"].nonzero()[0].tolist() == legal
            raw.step(action)
            for who, reward in raw.rewards.items():
                earned[who] += reward
        assert next(asked, None) is None
        assert played.returns[k].tolist() == list(earned.values())
        assert int(played.plies[k]) == len(ASKED[game.id])
        lengths.add(len(ASKED[game.id]))
    assert len(lengths) > 1
    assert len(played.returns.unique(dim=0)) > 1
    again = tournament(tmp_path / "b.sqlite", f"pettingzoo/{name}", rows=1).played()
    assert torch.equal(again.digest, played.digest)
    assert torch.equal(again.returns, played.returns)


@pytest.mark.parametrize("name", ["connect_four", "kuhn_poker"])
def test_games_of_openspiel_are_those_of_its_own_loop(tmp_path: Path, name: str) -> None:
    """Without chance, move by move; with it, the cards are looked for that explain what was seen."""
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel is not installed")
    ledger = tournament(tmp_path / "a.sqlite", f"open_spiel/{name}", rows=5)
    played, made = ledger.played(), pyspiel.load_game(name)
    for k, game in enumerate(played.games):
        states = dealt(made.new_initial_state())
        for seat, seen, legal, action in ASKED[game.id]:
            fits = []
            for state in states:
                shown = state.current_player() == seat and state.observation_tensor() == seen
                if shown and state.legal_actions() == legal:
                    state.apply_action(action)
                    fits.append(state)
            states = fits
            assert states, f"game {game.id}: no position of {name} shows this"
        over = [state.returns() for state in states if state.is_terminal()]
        assert played.returns[k].tolist() in over
        assert int(played.plies[k]) == len(ASKED[game.id])
    assert len(played.returns.unique(dim=0)) > 1
    again = tournament(tmp_path / "b.sqlite", f"open_spiel/{name}", rows=1).played()
    assert torch.equal(again.digest, played.digest)
    assert torch.equal(again.returns, played.returns)


def dealt(state: Any) -> list[Any]:
    """All ways to deal the cards with which a game begins; just the state where there are none."""
    if not state.is_chance_node():
        return [state]
    return [leaf for action in state.legal_actions() for leaf in dealt(state.child(action))]


@pytest.mark.parametrize("env", ["pettingzoo/tictactoe_v3", "pettingzoo/leduc_holdem_v4", "open_spiel/tic_tac_toe"])
@pytest.mark.parametrize(
    ("player", "says"),
    [
        ("mcts", "MCTSPlayer: it can only think about games of rules .* got an env"),
        ({"kind": "uci", "command": "true"}, "UCIPlayer: engines play chess, got an env"),
        ({"kind": "gtp", "command": "true"}, "GTPPlayer: engines that speak GTP play games of black and white, got an"),
    ],
)
def test_who_cannot_play_a_simulator_is_refused_before_anything_is_written(
    tmp_path: Path, env: str, player: Any, says: str
) -> None:
    """Else it would lose every game by forfeit, and be rated by that."""
    pytest.importorskip("pyspiel" if env.startswith("open") else "pettingzoo", reason="the simulator is not installed")
    config = Config.of({"env": env, "players": {"thinks": player, "random": "random"}})
    with pytest.raises(Unsupported, match=says) as raised:
        open_ledger(config, tmp_path / "a.sqlite")
    assert raised.value.__notes__ == ["player 'thinks' cannot play this"]
    assert not list(tmp_path.iterdir())


def sees_the_position(turn: Turn) -> Any:
    return turn.state


def test_who_asks_an_env_for_positions_stops_the_tournament(tmp_path: Path) -> None:
    """It is no move of a game that failed, so no game is lost by it."""
    pytest.importorskip("pettingzoo.classic", reason="PettingZoo's classic games are not installed")
    players = {"looks": "test_simulators_by_name:sees_the_position", "random": "random"}
    ledger = open_ledger(Config.of({"env": "pettingzoo/tictactoe_v3", "players": players}), tmp_path / "a.sqlite")
    with pytest.raises(Unsupported, match=r"an env gives its players no positions; read turn.data") as raised:
        run(ledger)
    assert raised.value.__notes__ == ["while player 'looks' was to move"]
    assert ledger.counts()["finished"] == 0
