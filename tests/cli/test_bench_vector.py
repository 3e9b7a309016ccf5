"""``marlenv bench vector`` says where the time of a step goes."""

from __future__ import annotations

import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from marlenv.cli.benches import vector


@pytest.mark.slow
def test_the_parts_of_a_step_are_timed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector, "_timed", lambda run, times=1: (run(), 1.0)[1])
    lines = vector.parts(4).splitlines()
    assert lines[0].startswith("4 envs in 2 workers")
    assert [line.split(":")[0].split()[0] for line in lines[2:]] == ["env", "pack", "signal", "merge", "the"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_pufferlibs_processes_rest_while_others_play() -> None:
    pytest.importorskip("pufferlib", reason="needs PufferLib: VENV=.venv tests/simulators.sh pufferlib")
    before = set(active_children())
    play, close = vector.puffered(4)
    workers = set(active_children()) - before
    assert 1 <= len(workers) <= vector.WORKERS
    assert play() == 4 * vector.STEPS
    until = time.monotonic() + 30
    while {state(worker.pid) for worker in workers} != {"T"}:  # stopped
        assert time.monotonic() < until
    close()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()


def state(process: int | None) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
