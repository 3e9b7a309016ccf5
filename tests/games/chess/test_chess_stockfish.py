"""Full games against Stockfish over UCI: every move of its is legal for us, and both count the same successors."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import torch

from marlenv.games.chess import Chess, divide, read_pgn, record
from marlenv.rng import RowRNG

BINARY = shutil.which("stockfish") or shutil.which("/usr/games/stockfish")
pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(BINARY is None, reason="no stockfish binary; on Debian and Ubuntu: apt-get install stockfish"),
]


class Engine:
    """A Stockfish process that is asked questions."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.ask("uci", "uciok")
        self.tell("setoption name Threads value 1")
        self.tell("setoption name Skill Level value 3")

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")

    def ask(self, line: str, until: str) -> list[str]:
        self.tell(line)
        lines = []
        while not (lines and lines[-1].startswith(until)):
            lines.append(self.process.stdout.readline().strip())
        return lines

    def place(self, fen: str, moves: list[str], chess960: bool) -> None:
        self.tell(f"setoption name UCI_Chess960 value {str(chess960).lower()}")
        self.tell(f"position fen {fen}" + (f" moves {' '.join(moves)}" if moves else ""))

    def divide(self, depth: int) -> dict[str, int]:
        lines = self.ask(f"go perft {depth}", "Nodes searched")
        return {m[1]: int(m[2]) for line in lines if (m := re.fullmatch(r"([a-h1-8qrbn]+): (\d+)", line))}

    def best(self, nodes: int) -> str:
        return self.ask(f"go nodes {nodes}", "bestmove")[-1].split()[1]

    def fen(self) -> str:
        return self.ask("d", "Checkers")[-3].removeprefix("Fen: ")


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.tell("quit")
    engine.process.wait(timeout=10)
    engine.process.stdin.close()
    engine.process.stdout.close()


@pytest.mark.parametrize("chess960", [False, True], ids=["standard", "chess960"])
def test_whole_games_against_stockfish(engine: Engine, chess960: bool) -> None:
    rules, rng = Chess(chess960=chess960), RowRNG(11, [1])
    for game in range(2):
        state = rules.start_from(torch.tensor([100 + game])) if chess960 else rules.start(torch.Size([1]))
        first, moves, actions = rules.fens(state)[0], [], []
        while not rules.over(state).item():
            engine.place(first, moves, chess960)
            if len(moves) % 8 == 0:
                fen = rules.fens(state, shredder=chess960)[0]
                assert engine.divide(2) == divide(rules.fens(state)[0], 2, chess960)
                assert engine.fen().split()[:3] == fen.split()[:3]
            if len(moves) % 2 == game:
                action = rules.read_ucis(state, [engine.best(200)])
            else:
                action = rules.sample(state, rng.bits([1]).squeeze(-1))
            moves += rules.ucis(state, action)
            actions.append(int(action))
            state = rules.play(state, action)
        engine.place(first, moves, chess960)
        legal = engine.divide(1)
        if rules.outcomes[int(rules.outcome(state))] in ("checkmate", "stalemate"):
            assert legal == {}
        (again,) = read_pgn(str(record(actions, fen=first, chess960=chess960)))
        assert again.actions == actions


def test_stockfish_counts_the_same(engine: Engine) -> None:
    for fen in (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
        "8/8/8/8/k2Pp2Q/8/8/4K3 b - d3 0 1",
    ):
        engine.place(fen, [], False)
        assert engine.divide(4) == divide(fen, 4)
