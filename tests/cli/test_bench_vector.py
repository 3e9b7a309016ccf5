"""``marlenv bench vector`` says where the time of a step goes."""

from __future__ import annotations

import pytest

from marlenv.cli.benches import vector


@pytest.mark.slow
def test_the_parts_of_a_step_are_timed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector, "_timed", lambda run, times=1: (run(), 1.0)[1])
    lines = vector.parts(4).splitlines()
    assert lines[0].startswith("4 envs in 2 workers")
    assert [line.split(":")[0].split()[0] for line in lines[2:]] == ["env", "pack", "signal", "merge", "the"]
