"""Chess engines as players: what they play is what they said; whatever they do, the tournament goes on."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import pytest
import torch

from marlenv.errors import IllegalAction, SpecError, Unsupported
from marlenv.games import TicTacToe
from marlenv.games.chess import Chess
from marlenv.tournament import ENDINGS, Arena, Game, UCIPlayer, random_player, round_robin
from marlenv.tournament.config import Config, load_player
from marlenv.tournament.drive import open_ledger
from marlenv.tournament.engines import UCIProgram, _Question
from marlenv.tournament.export import pgn
from marlenv.tournament.store import me

FAKE = [sys.executable, str(Path(__file__).parent / "fake_engine.py")]
STOCKFISH = shutil.which("stockfish") or shutil.which("/usr/games/stockfish")
needs_stockfish = pytest.mark.skipif(STOCKFISH is None, reason="needs stockfish: apt install stockfish")


@pytest.fixture
def fake() -> Iterator[Callable[..., UCIPlayer]]:
    made: list[UCIPlayer] = []

    def make(*words: str, **options: Any) -> UCIPlayer:
        made.append(UCIPlayer([*FAKE, *words], **options))
        return made[-1]

    yield make
    for player in made:
        player.close()


def alphabetical(turn: Any) -> torch.Tensor:
    """What the fake engine plays, by python-chess alone."""
    moves = [min(map(str, chess.Board(fen).legal_moves)) for fen in turn.rules.fens(turn.state)]
    return turn.rules.read_ucis(turn.state, moves)


@pytest.mark.reference
@pytest.mark.parametrize("processes", [1, 3])
def test_the_moves_are_those_of_the_engine(fake: Callable[..., UCIPlayer], processes: int) -> None:
    games = [Game(k, seats) for k, seats in enumerate([("a", "b"), ("b", "a")] * 3)]
    played = [
        Arena(Chess(), {"a": player, "b": random_player}, rows=4, max_plies=30, record=True).play(games)
        for player in (fake(processes=processes, depth=1, options={"Skill": 3}), alphabetical)
    ]
    assert torch.equal(played[0].digest, played[1].digest)


@pytest.mark.parametrize(
    ("fails", "ending"),
    [
        ("dies", "crash"),
        ("cheats", "illegal move"),
        pytest.param("hangs", "out of time", marks=pytest.mark.slow),
    ],
)
def test_an_engine_that_fails_loses_that_game_alone(fake: Callable[..., UCIPlayer], fails: str, ending: str) -> None:
    players = {"fails": fake(fails, patience=1.5 if fails == "hangs" else 30.0), "random": random_player}
    games = round_robin(list(players), double=True, cycles=2)
    played = Arena(Chess(), players, forfeits=True, max_plies=6).play(games)
    endings = [ENDINGS[k] for k in played.ending.tolist()]
    assert set(endings) == {ending, "move limit"}
    lost = [k for k, how in enumerate(endings) if how == ending]
    assert all(played.returns[k, played.games[k].players.index("fails")] < 0 for k in lost)
    with pytest.raises(IllegalAction, match="player 'fails' "):
        Arena(Chess(), players, max_plies=30).play(games)


class Recorded(UCIProgram):
    """A program that says given lines, and remembers what was said to it."""

    def __init__(self, lines: list[str], options: dict[str, Any] | None = None) -> None:
        super().__init__(FAKE, 1.0, options or {})
        self.lines, self.heard = iter(lines), list[str]()

    async def say(self, *lines: str) -> None:
        self.heard += lines

    async def line(self) -> str:
        return next(self.lines)


def test_options_are_said_as_uci_writes_them() -> None:
    options = {"UCI_LimitStrength": True, "Ponder": False, "Clear Hash": None, "Hash": 16, "Style": "Risky"}
    program = Recorded(["id name x", "uciok"], options)
    asyncio.run(program.greet())
    assert program.heard == [
        "uci",
        "setoption name UCI_LimitStrength value true",
        "setoption name Ponder value false",
        "setoption name Clear Hash",
        "setoption name Hash value 16",
        "setoption name Style value Risky",
    ]


@pytest.mark.parametrize(
    ("says", "score"),
    [
        ("info string evaluation score is good", None),
        ("info string no score", None),
        ("info string score cp 20", None),
        ("info depth 1 score lowerbound cp 20", None),
        ("info depth 1 score cp much", None),
        ("info depth 1 score", None),
        ("info depth 1 score cp -250 upperbound nodes 3", -2.5),
        ("info depth 1 score cp 20 wdl 300 500 200 pv e2e4", 0.2),
        ("info score cp 20 string score cp 90", 0.2),
        ("info score mate -3", -1000.0),
        ("info score mate 2", 1000.0),
        ("info multipv 1 score cp 20\ninfo multipv 2 score cp -900", 0.2),
        ("info depth 1 score cp 20\ninfo depth 2 score cp 30\ninfo nodes 7", 0.3),
    ],
)
def test_scores_are_read_where_there_are_some(says: str, score: float | None) -> None:
    answer = asyncio.run(Recorded(["readyok", *says.splitlines(), "bestmove e2e4"]).answer(_Question("", "go", 0.0)))
    assert answer == ("e2e4", score)


def test_processes_end_with_the_player(fake: Callable[..., UCIPlayer]) -> None:
    player = fake(processes=2)
    game = [Game(k, ("a", "a")) for k in range(2)]
    Arena(Chess(), {"a": player}, max_plies=4).play(game)
    assert player._crew is not None
    pids = [engine.process.pid for engine in player._crew.programs if engine.process]
    assert len(pids) == 2
    again = pickle.loads(pickle.dumps(player))
    assert again._crew is None
    assert repr(again).endswith("'go nodes 1000')")
    player.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    Arena(Chess(), {"a": player}, max_plies=2).play(game)  # it can be asked again


def test_an_engine_gives_up_where_it_finds_itself_lost_for_long(fake: Callable[..., UCIPlayer]) -> None:
    """It despairs in three of four moves, so three moves running are found and four are not."""
    for moves, ending in ((3, "resigned"), (4, "move limit")):
        players = {"sad": fake("despairs", resign=8.0, resign_moves=moves), "random": random_player}
        played = Arena(Chess(), players, forfeits=True, max_plies=24).play([Game(0, ("sad", "random"))])
        assert [ENDINGS[k] for k in played.ending.tolist()] == [ending]
        assert played.returns.tolist() == ([[-1, 1]] if moves == 3 else [[0, 0]])
        assert int(played.plies[0]) == (4 if moves == 3 else 24)


def test_engines_are_told_the_clocks(
    fake: Callable[..., UCIPlayer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    arena = Arena(Chess(), {"a": fake(clock=True), "b": random_player}, game_seconds=60, increment=0.25, max_plies=8)
    played = arena.play([Game(0, ("a", "b"))])
    said = [line.split(" | ")[0].split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [words[1::2] for words in said] == [["wtime", "btime", "winc", "binc"]] * 4
    assert said[0][2:9:2] == ["60000", "60000", "250", "250"]
    left = [int(words[2]) for words in said]
    assert all(b <= a + 250 for a, b in zip(left, left[1:], strict=False))
    assert 0 < float(played.seconds[0, 0]) < 60
    assert float(played.seconds[0, 0]) * 1000 >= 60000 + 3 * 250 - left[-1] - 1
    with pytest.raises(SpecError, match="clock=True needs an arena with clocks: say game_seconds"):
        Arena(Chess(), {"a": fake(clock=True)}, max_plies=2).play([Game(0, ("a", "a"))])


def test_what_cannot_play_is_said() -> None:
    with pytest.raises(SpecError, match="no program 'no_such_engine' was found; install the engine"):
        UCIPlayer("no_such_engine")
    with pytest.raises(SpecError, match="expected one of nodes, depth, move_seconds and clock"):
        UCIPlayer(FAKE, nodes=1, depth=1)
    with pytest.raises(SpecError, match="nodes"):
        UCIPlayer(FAKE, nodes=0)
    with pytest.raises(SpecError, match="UCIPlayer: patience must be a number of seconds above 0, got 0"):
        UCIPlayer(FAKE, patience=0)
    for odd in (float("nan"), -1, True, "8"):
        with pytest.raises(SpecError, match="UCIPlayer: resign must be a number of pawns from 0 on"):
            UCIPlayer(FAKE, resign=odd)
    with pytest.raises(SpecError, match=r"options must be of one line each, got more in \['Book'\]"):
        UCIPlayer(FAKE, options={"Book": "a\nquit"})
    with pytest.raises(Unsupported, match="engines play chess, got TicTacToe"):
        Arena(TicTacToe(), {"a": UCIPlayer(FAKE)}).play([Game(0, ("a", "a"))])
    with pytest.raises(SpecError, match="player 'x': uci does not load: SpecError: UCIPlayer: no program 'nothing'"):
        load_player("x", {"kind": "uci", "command": "nothing"})


@pytest.mark.slow
@needs_stockfish
def test_stockfish_beats_chance_and_plays_the_same_games_again() -> None:
    games = [Game(k, seats) for k, seats in enumerate([("fish", "random"), ("random", "fish")] * 2)]
    played = []
    for processes, rows in ((1, 4), (2, 1)):
        player = UCIPlayer(str(STOCKFISH), nodes=300, options={"Hash": 16}, processes=processes)
        arena = Arena(Chess(draws="claim"), {"fish": player, "random": random_player}, rows=rows, max_plies=160)
        played.append(arena.play(games))
        player.close()
    assert torch.equal(played[0].digest, played[1].digest)
    assert played[0].scores()[::2].tolist() == [1.0, 1.0]
    assert played[0].scores()[1::2].tolist() == [0.0, 0.0]


OTHERS = {"ethereal": "ethereal-chess", "toga": "toga2", "gnu": "gnuchess"}
FOUND = {name: shutil.which(program) or shutil.which(f"/usr/games/{program}") for name, program in OTHERS.items()}


@pytest.mark.slow
@needs_stockfish
@pytest.mark.skipif(not any(FOUND.values()), reason="needs engines: apt install ethereal-chess toga2 gnuchess")
def test_a_round_robin_of_real_engines_goes_on_when_one_is_killed(tmp_path: Path) -> None:
    """Every game is played, who is killed loses one game, and who sees more wins more."""
    kinds: dict[str, Any] = {
        name: {"kind": "uci", "command": [path, *(["--uci"] if name == "gnu" else [])], "move_seconds": 0.02}
        for name, path in FOUND.items()
        if path is not None
    }
    for nodes in (1, 400):
        kinds[f"fish{nodes}"] = {"kind": "uci", "command": [STOCKFISH], "nodes": nodes, "options": {"Hash": 1}}
    config = Config.of(
        {"env": "chess", "players": kinds, "openings": [["e4", "e5"]], "max_plies": 80, "rows": 4, "seed": 1}
    )
    ledger = open_ledger(config, tmp_path / "engines.sqlite")
    arena, games = config.arena(), ledger.lease(me(), 1000)
    place = arena.names.index("fish400")
    fish, asked = arena.players[place], 0

    def killed(turn: Any) -> torch.Tensor:
        nonlocal asked
        asked += 1
        if asked == 20:
            process = fish._crew.programs[0].process
            os.kill(process.pid, signal.SIGKILL)
        return fish(turn)

    arena.players[place] = killed
    ledger.finish(me(), arena.play(games))
    for player in [*arena.players, fish]:
        getattr(player, "close", lambda: None)()
    played = ledger.played()
    assert ledger.counts() == {"open": 0, "leased": 0, "finished": len(kinds) * (len(kinds) - 1)}
    crashed = [k for k, how in enumerate(played.ending.tolist()) if ENDINGS[how] == "crash"]
    by_fish = [k for k in crashed if played.games[k].players[int(played.culprit[k])] == "fish400"]
    assert len(by_fish) == 1
    assert "illegal move" not in {ENDINGS[how] for how in played.ending.tolist()}
    results = played.results(list(kinds))
    table = dict(zip(results.names, results.points.tolist(), strict=True))
    gift = "fish1" in played.games[by_fish[0]].players  # the game that the kill decided says nothing of who sees more
    assert table["fish400"] + 1 > table["fish1"] - gift
    text = "".join(pgn(ledger))
    with io.StringIO(text) as file:
        read = iter(lambda: chess.pgn.read_game(file), None)
        sheets = list(read)
    assert len(sheets) == len(played.games)
    assert all(not sheet.errors for sheet in sheets)
    assert sum(sheet.headers["Termination"] == "crash" for sheet in sheets) == len(crashed)


@pytest.mark.slow
@needs_stockfish
@pytest.mark.parametrize("chess960", [False, True])
def test_an_engine_that_is_killed_loses_one_game(chess960: bool) -> None:
    player = UCIPlayer(str(STOCKFISH), nodes=50, options={"Hash": 1})
    asked = 0

    def killed(turn: Any) -> torch.Tensor:
        nonlocal asked
        asked += 1
        if asked == 5 and player._crew is not None:
            process = player._crew.programs[0].process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
        return player(turn)

    games = [Game(k, seats) for k, seats in enumerate([("fish", "random"), ("random", "fish")] * 2)]
    players = {"fish": killed, "random": random_player}
    played = Arena(Chess(chess960=chess960), players, rows=2, forfeits=True, max_plies=24).play(games)
    player.close()
    endings = [ENDINGS[k] for k in played.ending.tolist()]
    assert endings.count("crash") == 1
