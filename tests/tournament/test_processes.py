"""Programs that play: whatever ends them, nothing of them is left when they are closed."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from marlenv.tournament.players import CRASH, TIME
from marlenv.tournament.processes import Answer, Crew, Program

pytestmark = pytest.mark.slow  # processes that hang and die take seconds


class Mute(Program):
    """A program that is waited for and never says anything."""

    async def greet(self) -> None:
        """It says nothing."""

    async def answer(self, question: Any) -> Answer:
        """What it does not say."""
        return Answer(await self.line())


@pytest.mark.parametrize(
    ("script", "how"),
    [
        pytest.param("exec 1>&-; exec sleep 60", CRASH, id="says that it ends, and goes on"),
        pytest.param("sleep 3 &", TIME, id="leaves a child behind"),  # which holds its output open
        pytest.param("exit", CRASH, id="ends"),
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
