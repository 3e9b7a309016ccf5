"""The progress bar says how fast it goes and how long it will take, on terminals alone."""

from __future__ import annotations

import io
import sys

import pytest

from marlenv.cli import text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("live", [True, False])
def test_it_says_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    out, now = Terminal() if live else io.StringIO(), [100.0]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(text.time, "perf_counter", lambda: now[0])
    progress = text.Progress(300, "games")
    for seconds, count in ((2.0, 20), (2.0, 20), (16.0, 260)):
        now[0] += seconds
        progress.step(count)
    if not live:
        assert out.getvalue() == ""
        return
    first, second, last = out.getvalue().split("\r")[1:]
    assert first.strip().endswith("20/300 games  10/s  28s left")
    assert second.strip().endswith("40/300 games  10/s  26s left")
    assert last.rstrip().endswith("300/300 games  15/s")
    assert len(last) == len(second) + 1  # nothing of the line before is left


@pytest.mark.parametrize("columns", [10, 20, 30, 40, 56, 60, 80, 200])
def test_it_stays_on_one_line_of_any_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    out, now = Terminal(), [0.0]
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(text.time, "perf_counter", lambda: now[0])
    progress = text.Progress(250)
    for _ in range(250):
        now[0] += 1 / 3
        progress.step()
    screen = [" "] * columns  # what stands there when each text is written over the one before
    lines = out.getvalue().removesuffix("\n").split("\r")[1:]
    for line in lines:
        assert "\n" not in line
        assert len(line) < columns  # the last column would begin another line
        screen[: len(line)] = line
        assert "".join(screen).strip() == line.strip()
    assert "250/250" in lines[-1]
    assert ("#" in lines[-1]) == (columns >= 30)
