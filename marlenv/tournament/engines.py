"""Chess engines as players: programs that speak UCI, in processes of their own.

Source: Huber and Meyer-Kahlen 2006, the UCI protocol, https://www.shredderchess.com/chess-features/uci-universal-chess-interface.html
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from marlenv.errors import BadNotation, SpecError, Unsupported, whole
from marlenv.tournament.players import CRASH, TIME
from marlenv.tournament.turns import Turn

WRONG = -4
"""The answer for a move that is none, or not legal."""


class UCIPlayer:
    """Plays what a chess engine plays: ``UCIPlayer("stockfish", nodes=1000)``.

    The engine is asked about each position by itself, as if a game began there: what it plays depends on nothing else,
    as long as it is limited by ``nodes`` or ``depth`` and not by time. Without the moves before, it does not see
    repetitions coming. An engine that ends, answers nothing or plays an illegal move loses that game where the arena
    has ``forfeits=True``, and is started again for the others.

    Args:
        command: the program, with its arguments.
        nodes: how many positions it may look at for a move.
        depth: how many plies it may look ahead.
        move_seconds: how long it may think about a move. One of the three is given; 1,000 nodes if none is.
        options: of the engine, by their UCI names.
        processes: how many of them think at the same time.
        patience: seconds to wait for an answer beyond ``move_seconds``; then it counts as lost.

    Raises:
        SpecError: there is no such program, or more than one limit.

    >>> UCIPlayer("stockfish", nodes=500, options={"Hash": 16})  # doctest: +SKIP
    UCIPlayer('stockfish', 'go nodes 500')
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        nodes: int | None = None,
        depth: int | None = None,
        move_seconds: float | None = None,
        options: Mapping[str, Any] | None = None,
        processes: int = 1,
        patience: float = 10.0,
    ) -> None:
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self.command or shutil.which(self.command[0]) is None:
            raise SpecError(f"UCIPlayer: no program {command!r} was found; install the engine or give its whole path")
        movetime = None if move_seconds is None else max(1, round(1000 * move_seconds))
        limits = {"nodes": nodes, "depth": depth, "movetime": movetime}
        given = {name: value for name, value in limits.items() if value is not None} or {"nodes": 1000}
        if len(given) > 1:
            raise SpecError("UCIPlayer: expected one of nodes, depth and move_seconds, got several")
        for name, value in given.items():
            whole("UCIPlayer", name, value, 1)
        whole("UCIPlayer", "processes", processes, 1)
        self.go = "go {} {}".format(*next(iter(given.items())))
        self.options, self.processes, self.patience = dict(options or {}), processes, patience
        self.wait = patience + (move_seconds or 0)
        self._crew: _Crew | None = None

    def __call__(self, turn: Turn) -> Tensor:
        rules: Any = turn.rules  # chess is not loaded for those who play without
        if not hasattr(rules, "read_ucis"):
            raise Unsupported(
                f"UCIPlayer: engines play chess, got {'an env' if rules is None else type(rules).__name__}"
            )
        if self._crew is not None and self._crew.chess960 != rules.chess960:
            self.close()
        if self._crew is None:
            self._crew = _Crew(self, rules.chess960)
        answers = self._crew.ask(rules.fens(turn.state))
        return torch.tensor([self._action(rules, turn.state, k, said) for k, said in enumerate(answers)])

    @staticmethod
    def _action(rules: Any, state: Any, k: int, said: str | int) -> int:
        if isinstance(said, int):
            return said
        try:
            return int(rules.read_ucis(type(state)(*(leaf[k : k + 1] for leaf in state)), [said]))
        except BadNotation:
            return WRONG

    def close(self) -> None:
        """Ends the processes; the next turn starts them again."""
        if self._crew is not None:
            self._crew.close()
            self._crew = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None}  # another process starts its own

    def __repr__(self) -> str:
        return f"UCIPlayer({shlex.join(self.command)!r}, {self.go!r})"


class _Crew:
    """The processes of a player, and the thread in which their answers are waited for."""

    def __init__(self, player: UCIPlayer, chess960: bool) -> None:
        self.chess960 = chess960
        options = {**player.options, **({"UCI_Chess960": "true"} if chess960 else {})}
        self.engines = [_Engine(player, options) for _ in range(player.processes)]
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="engines", daemon=True)
        self.thread.start()
        self.close = weakref.finalize(self, _end, self.engines, self.loop, self.thread)

    def ask(self, fens: Sequence[str]) -> list[str | int]:
        """A move in UCI for each position, or why there is none."""
        return asyncio.run_coroutine_threadsafe(self._share(fens), self.loop).result()

    async def _share(self, fens: Sequence[str]) -> list[str | int]:
        count = len(self.engines)
        answers: list[str | int] = [*fens]
        await asyncio.gather(*(self._some(i, count, fens, answers) for i in range(count)))
        return answers

    async def _some(self, first: int, step: int, fens: Sequence[str], answers: list[str | int]) -> None:
        for k in range(first, len(fens), step):
            answers[k] = await self.engines[first].move(fens[k])


class _Engine:
    """One process that speaks UCI."""

    def __init__(self, player: UCIPlayer, options: Mapping[str, Any]) -> None:
        self.command, self.go, self.wait = player.command, player.go, player.wait
        self.options = options
        self.process: asyncio.subprocess.Process | None = None

    async def move(self, fen: str) -> str | int:
        """Its move in a position; CRASH or TIME where it has none."""
        try:
            async with asyncio.timeout(self.wait):
                if self.process is None:
                    await self._start()
                await self._say("ucinewgame", "isready")
                await self._until("readyok")
                await self._say(f"position fen {fen}", self.go)
                return (await self._until("bestmove"))[1]
        except TimeoutError:
            self.kill()
            return TIME
        except (EOFError, OSError, IndexError, ValueError):  # the last one: a line without an end
            self.kill()
            return CRASH

    async def _start(self) -> None:
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        self.process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe, stderr=none)
        await self._say("uci")
        await self._until("uciok")
        await self._say(*(f"setoption name {name} value {value}" for name, value in self.options.items()))

    async def _say(self, *lines: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        await self.process.stdin.drain()

    async def _until(self, word: str) -> list[str]:
        """The words of the next line that begins with ``word``."""
        assert self.process is not None
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            words = line.decode(errors="replace").split()
            if words[:1] == [word]:
                return words
        raise EOFError

    def kill(self) -> None:
        """Ends the process, whatever it does."""
        process, self.process = self.process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


def _end(engines: list[_Engine], loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    async def ended() -> None:
        held = [engine.process for engine in engines if engine.process is not None]
        for engine in engines:
            engine.kill()
        await asyncio.gather(*(process.wait() for process in held))

    asyncio.run_coroutine_threadsafe(ended(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


__all__ = ["UCIPlayer"]
