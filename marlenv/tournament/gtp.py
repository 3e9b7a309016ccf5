"""Engines of Go, and of other games on such boards, as players: programs that speak GTP.

Source: Farneback 2002, GTP version 2, https://www.lysator.liu.se/~gunnar/gtp/gtp2-spec-draft2/gtp2-spec.html
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marlenv.errors import BadNotation, SpecError, Unsupported, flag
from marlenv.games.rules import Rules
from marlenv.rng import RowRNG
from marlenv.tournament.players import RESIGN
from marlenv.tournament.processes import WRONG, Answer, Command, EnginePlayer, Program
from marlenv.tournament.turns import Turn

COLORS = ("black", "white")  # of the seats
TIME = "time_settings"


class GTPPlayer(EnginePlayer):
    """Plays what an engine plays that speaks GTP: ``GTPPlayer("gnugo --mode gtp --level 1")``.

    For each move the engine is shown the whole game, from an empty board on. What it plays depends on nothing else if
    its seed is fixed and it remembers nothing, or is started anew for each move (``restart``). Games have two seats,
    black and white, and are written as GTP writes them: Go, Othello, Hex on square boards. An engine that ends,
    refuses, answers nothing or plays an illegal move loses that game where the arena has ``forfeits=True``, and is
    started again for the others.

    Args:
        command: the program, with its arguments: as a shell would read it, a path, or word by word.
        move_seconds: how long it may take for a move, if the engine knows ``time_settings``.
        setup: commands that are sent after the board is cleared; no empty lines or comments, which engines do not
            answer.
        restart: whether it is started anew for each move, as GNU Go has to be: it remembers what it has read.
        processes: how many of them think at the same time.
        patience: seconds to wait for an answer beyond ``move_seconds``; then it counts as lost.

    Raises:
        SpecError: there is no such program, or an option is out of range.

    >>> GTPPlayer("gnugo --mode gtp --seed 1", restart=True)  # doctest: +SKIP
    GTPPlayer('gnugo --mode gtp --seed 1')
    """

    wants_moves = True
    """The arena keeps the moves of each game for it."""

    def __init__(
        self,
        command: Command,
        *,
        move_seconds: float | None = None,
        setup: Sequence[str] = (),
        restart: bool = False,
        processes: int = 1,
        patience: float = 30.0,
    ) -> None:
        super().__init__(command, processes, patience, move_seconds)
        if not isinstance(setup, Sequence) or isinstance(setup, str) or not all(map(_is_command, setup)):
            raise SpecError(f"GTPPlayer: setup must be a list of commands, a line each and no comment, got {setup!r}")
        flag("GTPPlayer", "restart", restart)
        self.setup, self.restart, self.move_seconds = list(setup), restart, move_seconds
        self._rules: Rules[Any] | None = None  # of the games in _said
        self._said: dict[tuple[int, ...], tuple[Any, tuple[str, ...]]] = {}

    def check(self, rules: Rules[Any] | None) -> None:
        """Raises Unsupported where it cannot play: games of other than two who move in turn and see everything, games
        with dice or cards, boards that are not square, envs.
        """
        if rules is None or rules.simultaneous or rules.hidden or len(rules.players) != 2 or _draws(rules):
            got = "an env" if rules is None else type(rules).__name__
            raise Unsupported(
                f"GTPPlayer: engines that speak GTP play games of black and white, got {got}; none with dice or cards"
            )
        rows, columns = _sides(rules)
        if rows != columns:
            raise Unsupported(
                f"GTPPlayer: boards must be square, as boardsize says one side alone; got {type(rules).__name__} with "
                f"{rows} rows and {columns} columns"
            )

    def __call__(self, turn: Turn) -> Tensor:
        self.check(turn.rules)
        rules: Any = turn.rules
        first = self._beginning(rules)
        shown = [self._shown(rules, tuple(moves)) for moves in turn.moves or ()]
        self._compare(rules, turn, [state for state, _ in shown])
        seats = turn.seat.tolist()
        asked = [
            _Question([*first, *lines], COLORS[seat], self.move_seconds or 0.0)
            for (_, lines), seat in zip(shown, seats, strict=True)
        ]
        answers, state = self._ask(asked), turn.state
        return torch.tensor([self._action(rules, state, k, said.move) for k, said in enumerate(answers)])

    def _beginning(self, rules: Any) -> list[str]:
        """What is said before a game."""
        (size, _), komi = _sides(rules), getattr(rules, "komi", None)
        lines = [] if size is None else [f"boardsize {size}"]
        lines += ["clear_board", *([] if komi is None else [f"komi {_digits(komi)}"]), *self.setup]
        seconds = self.move_seconds
        return [*lines, *([] if seconds is None else [f"{TIME} 0 {max(1, round(seconds))} 1"])]

    def _shown(self, rules: Rules[Any], moves: tuple[int, ...]) -> tuple[Any, tuple[str, ...]]:
        """The position after the moves of a game, and these as they are said to the engine; of what was said two plies
        before, nothing is worked out again.
        """
        if rules is not self._rules:
            self._rules, self._said = rules, {}
        known = next((moves[:k] for k in (len(moves), len(moves) - 1, len(moves) - 2) if moves[:k] in self._said), ())
        if known in self._said:
            state, lines = self._said.pop(known)
        else:
            state, lines = rules.start(torch.Size([]), rng=RowRNG(0, [])), ()
        for move in moves[len(known) :]:
            lines = (*lines, f"play {COLORS[int(rules.player(state))]} {rules.action_name(state, move)}")
            state = rules.play(state, torch.tensor(move))
        if len(self._said) > 4096:
            self._said.clear()
        self._said[moves] = state, lines
        return state, lines

    @staticmethod
    def _compare(rules: Rules[Any], turn: Turn, shown: Sequence[Any]) -> None:
        """Raises Unsupported where the positions that were shown are not those that are asked about."""
        keys = rules.position_key(turn.state).tolist()
        for game, key, state in zip(turn.games.tolist(), keys, shown, strict=True):
            if int(rules.position_key(state)) != key:
                raise Unsupported(
                    f"GTPPlayer: engines are shown the moves of a game from its beginning, and game {game} began "
                    f"elsewhere; use openings of moves alone"
                )

    @staticmethod
    def _action(rules: Rules[Any], state: Any, k: int, said: str | int) -> int:
        if isinstance(said, int):
            return said
        if said.lower() == "resign":
            return RESIGN
        try:
            return rules.read_action(type(state)(*(leaf[k] for leaf in state)), said)
        except BadNotation:
            return WRONG

    def _program(self, *about: Any) -> Program:
        return GTPProgram(self.command, self.patience, self.restart)

    def __repr__(self) -> str:
        return f"GTPPlayer({shlex.join(self.command)!r})"


def _is_command(line: object) -> bool:
    """Whether engines answer a line: they read empty ones and comments as nothing."""
    return (
        isinstance(line, str) and "\n" not in line and any(c.isprintable() and c != " " for c in line.partition("#")[0])
    )


def _digits(number: float) -> str:
    """A number with all its digits and no exponent."""
    return format(Decimal(repr(float(number) + 0.0)), "f").removesuffix(".0")  # 0 where it was -0


def _sides(rules: Any) -> tuple[int | None, int | None]:
    """How many rows and columns the board has; None where the rules do not say."""
    size = getattr(rules, "size", None)
    rows = getattr(rules, "rows", size)
    return rows, getattr(rules, "width", getattr(rules, "columns", rows))


def _draws(rules: Rules[Any]) -> bool:
    """Whether a game has dice or cards."""
    return hasattr(rules.start(torch.Size([]), rng=RowRNG(0, [])), "rng")


class _Question(NamedTuple):
    """What to say first, who is to move, and how long it takes to think about it."""

    before: list[str]
    color: str
    seconds: float


class _Refused(ValueError):
    """Raised when an engine does not do what it is told."""


class GTPProgram(Program):
    """One process that speaks GTP.

    Args:
        command: the program, with its arguments.
        seconds: how long it may take for an answer, beyond the time to think.
        restart: whether it is started anew for each move.
    """

    def __init__(self, command: Sequence[str], seconds: float, restart: bool) -> None:
        super().__init__(command, seconds)
        self.restart = restart

    async def greet(self) -> None:
        """Waits until it speaks GTP."""
        await self._ask("protocol_version")

    async def answer(self, question: _Question) -> Answer:
        """Its move after a game."""
        for line in question.before:
            try:
                await self._ask(line)
            except _Refused:
                if not line.startswith(TIME):  # which not every engine knows
                    raise
        move = await self._ask(f"genmove {question.color}")
        if self.restart:
            await self.stop()
        return Answer(move)

    async def _ask(self, command: str) -> str:
        """What it says to a command.

        Raises:
            ValueError: it refuses.
        """
        await self.say(command)
        while not (said := await self.line()):  # what is left of the answer before
            pass
        if said[0] not in "=?":
            raise ValueError(said)
        while await self.line():  # an answer ends with an empty line
            pass
        if said[0] == "?":
            raise _Refused(said)
        return said[1:].strip()
