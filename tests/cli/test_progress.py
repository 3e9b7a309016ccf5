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
    assert last.endswith("300/300 games  15/s   \n")
