"""Programs that play: whatever ends them, nothing of them is left when they are closed."""

from __future__ import annotations

import gc
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from marlenv.errors import DtypeError, SpecError
from marlenv.tournament import GTPPlayer, UCIPlayer
from marlenv.tournament.players import CRASH, TIME
from marlenv.tournament.processes import Answer, Crew, Program
from marlenv.tournament.store import gone, me

slow = pytest.mark.slow  # processes that hang and die take seconds


class Mute(Program):
    """A program that is waited for and never says anything that is one."""

    async def greet(self) -> None:
        """It says nothing."""

    async def answer(self, question: Any) -> Answer:
        """What it does not say."""
        while True:
            await self.line()


class Echo(Mute):
    """A program that says what it is told."""

    async def answer(self, question: Any) -> Answer:
        """What it was told."""
        await self.say(question)
        return Answer(await self.line())


@slow
@pytest.mark.parametrize(
    ("script", "how"),
    [
        pytest.param("exec 1>&-; exec sleep 60", CRASH, id="says that it ends, and goes on"),
        pytest.param("sleep 3 &", TIME, id="leaves a child behind"),  # which holds its output open
        pytest.param("exit", CRASH, id="ends"),
        pytest.param("exec 0<&-; exec sleep 60", TIME, id="does not listen"),
        pytest.param("sleep 60; echo over", TIME, id="is wrapped by another"),
        pytest.param("yes ''", TIME, id="writes without end"),
        pytest.param("setsid sleep 3 & exit", TIME, id="leaves a child behind that nobody finds"),
    ],
)
def test_nothing_is_left_of_a_program_that_failed(
    script: str, how: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Python warns, where nobody can catch it, of processes and pipes that were forgotten while they were open; asyncio
    logs those whose end somebody else has asked for.
    """
    gc.collect()
    forgotten: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: forgotten.append(str(what.exc_value)))
    for _ in range(3):
        crew = Crew([Mute(["sh", "-c", script], 30.0 if how == CRASH else 0.5) for _ in range(3)])
        assert crew.ask([None] * 3) == [Answer(how)] * 3
        crew.close()
        del crew
    gc.collect()
    assert not forgotten
    assert not caplog.records


@slow
def test_an_engine_that_another_program_has_started_ends_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    crew = Crew([Mute(["sh", "-c", f"sh -c 'echo $$ > {noted}; exec sleep 60'; echo over"], 0.5)])
    assert crew.ask([None]) == [Answer(TIME)]
    host, end = me().rpartition(":")[0], time.monotonic() + 10
    while not gone(f"{host}:{noted.read_text().strip()}"):
        assert time.monotonic() < end
        time.sleep(0.01)
    crew.close()


@slow
def test_after_an_interrupt_questions_get_their_own_answers() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    crew = Crew([Echo(["sh", "-c", "while read x; do sleep 1; echo $x; done"], 30.0)])
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            crew.ask(["first"])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert crew.ask(["second"]) == [Answer("second")]
    crew.close()


def test_a_command_may_be_a_text_a_path_or_a_list_of_them() -> None:
    python = Path(sys.executable)
    for player in (UCIPlayer, GTPPlayer):
        for command, want in (
            (python, [str(python)]),
            (f"{python} -c 'a b'", [str(python), "-c", "a b"]),
            ([python, Path("x"), "y z"], [str(python), "x", "y z"]),
            ((str(python), "x"), [str(python), "x"]),
        ):
            made = player(command)
            assert made.command == want
            assert all(word.replace(" ", "") in repr(made).replace(" ", "") for word in want)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"command": None}, SpecError, "expected a command as a text, a path or a list of them, got None"),
        ({"command": 5}, SpecError, "expected a command .* got 5"),
        ({"command": [sys.executable, 5]}, SpecError, "expected a command .*, 5]"),
        ({"command": sys.executable.encode()}, SpecError, "expected a command .*"),
        ({"command": 'stock"fish'}, SpecError, "is no command: No closing quotation; a list says where words end"),
        ({"command": []}, SpecError, r"no program \[\] was found"),
        (
            {"options": [("Hash", 1)]},
            SpecError,
            r"options must be a table of values by their UCI names, got \[\('Hash'",
        ),
        ({"options": {1: 2}}, SpecError, "options must be a table of values"),
        ({"clock": "no"}, DtypeError, "clock must be True or False, got 'no'"),
        ({"patience": True}, SpecError, "patience must be a number of seconds above 0, got True"),
    ],
)
def test_what_starts_no_engine_is_said(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=f"UCIPlayer: .*{says}"):
        UCIPlayer(**{"command": sys.executable, **options})
