"""Chess engines as players: programs that speak UCI, in processes of their own.

Source: Huber and Meyer-Kahlen 2006, the UCI protocol, https://www.shredderchess.com/chess-features/uci-universal-chess-interface.html
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marlenv.errors import BadNotation, SpecError, Unsupported, flag, whole
from marlenv.tournament.players import RESIGN
from marlenv.tournament.processes import WRONG, Answer, Command, EnginePlayer, Program
from marlenv.tournament.turns import Turn


class UCIPlayer(EnginePlayer):
    """Plays what a chess engine plays: ``UCIPlayer("stockfish", nodes=1000)``.

    The engine is asked about each position by itself, as if a game began there: what it plays depends on nothing else,
    as long as it is limited by ``nodes`` or ``depth`` and not by time. Without the moves before, it does not see
    repetitions coming. An engine that ends, answers nothing or plays an illegal move loses that game where the arena
    has ``forfeits=True``, and is started again for the others.

    Args:
        command: the program, with its arguments: as a shell would read it, a path, or word by word.
        nodes: how many positions it may look at for a move.
        depth: how many plies it may look ahead.
        move_seconds: how long it may think about a move. One of the three is given; 1,000 nodes if none is.
        clock: instead of these, it is told what is left on the clocks of the arena (``game_seconds``).
        options: of the engine, by their UCI names; True or False for those to check, None for buttons.
        resign: it gives up where it finds its position worse than minus so many pawns in ``resign_moves`` moves
            running.
        resign_moves: see there.
        processes: how many of them think at the same time.
        patience: seconds to wait for an answer beyond ``move_seconds``; then it counts as lost.

    Raises:
        SpecError: there is no such program, more than one limit, or an option is out of range.

    >>> UCIPlayer("stockfish", nodes=500, options={"Hash": 16})  # doctest: +SKIP
    UCIPlayer('stockfish', 'go nodes 500')
    """

    def __init__(
        self,
        command: Command,
        *,
        nodes: int | None = None,
        depth: int | None = None,
        move_seconds: float | None = None,
        clock: bool = False,
        options: Mapping[str, Any] | None = None,
        resign: float | None = None,
        resign_moves: int = 3,
        processes: int = 1,
        patience: float = 10.0,
    ) -> None:
        super().__init__(command, processes, patience, move_seconds)
        movetime = None if move_seconds is None else max(1, round(1000 * move_seconds))
        limits = {"nodes": nodes, "depth": depth, "movetime": movetime, "clock": 1 if clock else None}
        given = {name: value for name, value in limits.items() if value is not None} or {"nodes": 1000}
        if len(given) > 1:
            raise SpecError("UCIPlayer: expected one of nodes, depth, move_seconds and clock, got several")
        for name, value in given.items():
            whole("UCIPlayer", name, value, 1)
        whole("UCIPlayer", "resign_moves", resign_moves, 1)
        if resign is not None and (isinstance(resign, bool) or not isinstance(resign, Real) or not resign >= 0):
            raise SpecError(f"UCIPlayer: resign must be a number of pawns from 0 on, got {resign!r}")
        flag("UCIPlayer", "clock", clock)
        if not isinstance(options or {}, Mapping) or not all(isinstance(name, str) for name in options or {}):
            raise SpecError(f"UCIPlayer: options must be a table of values by their UCI names, got {options!r}")
        if lines := [name for name, value in (options or {}).items() if "\n" in f"{name}{value}"]:
            raise SpecError(f"UCIPlayer: options must be of one line each, got more in {lines}")
        self.clock, self.go = clock, "go {} {}".format(*next(iter(given.items())))
        self.options, self.move_seconds = dict(options or {}), move_seconds or 0.0
        self.resign, self.resign_moves = resign, resign_moves
        self.memory: TensorDictBase | None = None
        if resign is not None:
            self.memory = TensorDict({"lost": torch.zeros(1, dtype=torch.int64)})
        self._chess960 = False

    def check(self, rules: Any) -> None:
        """Raises Unsupported where it cannot play: other games than chess."""
        if not hasattr(rules, "read_ucis"):
            raise Unsupported(
                f"UCIPlayer: engines play chess, got {'an env' if rules is None else type(rules).__name__}"
            )

    def __call__(self, turn: Turn) -> Tensor:
        self.check(turn.rules)
        rules: Any = turn.rules  # chess is not loaded for those who play without
        if self._chess960 != rules.chess960:
            self.close()
            self._chess960 = rules.chess960
        answers = self._ask(self._questions(turn, rules), rules.chess960)
        action = torch.tensor([self._action(rules, turn.state, k, said.move) for k, said in enumerate(answers)])
        if self.resign is None or turn.memory is None:
            return action
        bad = torch.tensor([said.score is not None and said.score < -self.resign for said in answers])
        running = (turn.memory["lost"].squeeze(-1) + 1) * bad
        turn.memory["lost"] = running.unsqueeze(-1)
        return torch.where((running >= self.resign_moves) & (action >= 0), RESIGN, action)

    def _questions(self, turn: Turn, rules: Any) -> list[_Question]:
        fens = rules.fens(turn.state)
        if not self.clock:
            return [_Question(fen, self.go, self.move_seconds) for fen in fens]
        if turn.clock is None:
            raise SpecError("UCIPlayer: clock=True needs an arena with clocks: say game_seconds")
        out, more = [], round(1000 * turn.increment)
        for fen, left, seat in zip(fens, turn.clock.tolist(), turn.seat.tolist(), strict=True):
            white, black = (max(1, round(1000 * one)) for one in left)
            out.append(_Question(fen, f"go wtime {white} btime {black} winc {more} binc {more}", left[seat]))
        return out

    def _program(self, *about: Any) -> Program:
        options = {**self.options, **({"UCI_Chess960": True} if about[0] else {})}
        return UCIProgram(self.command, self.patience, options)

    @staticmethod
    def _action(rules: Any, state: Any, k: int, said: str | int) -> int:
        if isinstance(said, int):
            return said
        try:
            return int(rules.read_ucis(type(state)(*(leaf[k : k + 1] for leaf in state)), [said]))
        except BadNotation:
            return WRONG

    def __repr__(self) -> str:
        return f"UCIPlayer({shlex.join(self.command)!r}, {self.go!r})"


class _Question(NamedTuple):
    """A position, what to say, and how long it takes to think about it."""

    fen: str
    go: str
    seconds: float


class UCIProgram(Program):
    """One process that speaks UCI.

    Args:
        command: the program, with its arguments.
        seconds: how long it may take for an answer, beyond the time to think.
        options: of the engine.
    """

    def __init__(self, command: Sequence[str], seconds: float, options: Mapping[str, Any]) -> None:
        super().__init__(command, seconds)
        self.options = options

    async def greet(self) -> None:
        """Waits until it speaks UCI, and sets its options."""
        await self.say("uci")
        await self._until("uciok")
        await self.say(*(_setoption(name, value) for name, value in self.options.items()))

    async def answer(self, question: _Question) -> Answer:
        """Its move in a position."""
        await self.say("ucinewgame", "isready")
        await self._until("readyok")
        await self.say(f"position fen {question.fen}", question.go)
        words, score = await self._until("bestmove")
        return Answer(words[1], score)

    async def _until(self, word: str) -> tuple[list[str], float | None]:
        """The words of the next line that begins with ``word``, and the last score before it."""
        score = None
        while True:
            words = (await self.line()).split()
            if words[:1] == [word]:
                return words, score
            if words[:1] == ["info"]:
                score = _score(words, score)


def _setoption(name: str, value: object) -> str:
    """What sets an option."""
    if value is None:  # a button
        return f"setoption name {name}"
    return f"setoption name {name} value {str(value).lower() if isinstance(value, bool) else value}"


def _score(words: list[str], before: float | None) -> float | None:
    """The score in a line of ``info``, in pawns; the one before where it has none of the best move.

    What follows ``string`` is free text.
    """
    said = words[: words.index("string")] if "string" in words else words
    if "multipv" in said and said[said.index("multipv") + 1 :][:1] != ["1"]:
        return before
    for word, kind, value in zip(said, said[1:], said[2:], strict=False):
        if word == "score" and kind in ("cp", "mate"):
            with contextlib.suppress(ValueError):
                number = int(value)
                return number / 100 if kind == "cp" else 1000.0 if number > 0 else -1000.0
    return before
