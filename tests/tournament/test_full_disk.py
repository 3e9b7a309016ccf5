"""Where the disk is full, the error says which file could not be written, and what was there before is there still."""

from __future__ import annotations

from pathlib import Path

import pytest
from full_disks import full_disk

from marlenv.cli.__main__ import main
from marlenv.errors import PoolError
from marlenv.tournament.config import Config
from marlenv.tournament.drive import open_ledger, run
from marlenv.tournament.store import Ledger

CONFIG = {"env": "tic_tac_toe", "players": {"a": "random", "b": "random"}, "cycles": 200, "rows": 64}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    made = open_ledger(Config.of(CONFIG), tmp_path / "a.sqlite")
    run(made)
    made.close()
    return made.path


@pytest.mark.parametrize(("verb", "name"), [("report", "a.html"), ("export", "a.jsonl")])
def test_files_that_cannot_be_written_are_named(
    verb: str, name: str, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ledger.with_name(name)
    out.write_text("of before")
    with full_disk(40_000), pytest.raises(SystemExit):  # the ledger needs 32 KiB beside it
        main(["tournament", verb, str(ledger), "--out", str(out)])
    says = f"error: {verb}: {out} cannot be written: File too large; an older file is as it was\n"
    assert capsys.readouterr().err == says
    assert out.read_text() == "of before"
    assert not list(ledger.parent.glob(".*"))


def test_a_ledger_that_cannot_be_read_without_space_may_be_healthy(ledger: Path) -> None:
    with full_disk(4096), pytest.raises(PoolError, match=r"a.sqlite: .*or the disk is full"):
        Ledger(ledger)
    assert len(Ledger(ledger).played().games) == 400
