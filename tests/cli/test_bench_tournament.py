"""``marlenv bench tournament`` compares like with like: all sides play whole games, and as many as they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from marlenv.cli.__main__ import main
from marlenv.cli.benches import tournament
from marlenv.errors import SpecError


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tournament, "ROWS", 16)
    monkeypatch.setattr(tournament, "CHESS_ROWS", 4)


@pytest.mark.slow
def test_rows_are_refilled_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (figure,) = tournament.measure(1, only="useful")
    assert figure.ours == 1.0  # every row that is stepped is a ply of a game
    assert 1.05 < figure.peer < 2
    assert main(["bench", "tournament", "--rounds", "1", "--only", "ledger", "--json", str(tmp_path / "a.json")]) == 0
    assert "random tic-tac-toe with its ledger" in capsys.readouterr().out
    with pytest.raises(SpecError, match="nothing has 'go' in its name; there are tic-tac-toe, networks"):
        tournament.measure(1, only="go")


@pytest.mark.slow
@pytest.mark.reference
def test_all_sides_are_measured() -> None:
    pytest.importorskip("pyspiel")
    pytest.importorskip("torchrl")
    figures = tournament.measure(1)
    assert [figure.peer_name for figure in figures] == [
        "TorchRL, lockstep", "OpenSpiel, Python", "OpenSpiel, C++", "one by one", "OpenSpiel, C++", "lockstep",
        "no ledger", "no ledger",
    ]  # fmt: skip
    assert all(figure.ours > 0 and figure.peer > 0 for figure in figures)
