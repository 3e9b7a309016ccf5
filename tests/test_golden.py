"""Every registered env plays as it did when its file was written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from marlenv.testing import golden

FOLDER = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", golden.names())
def test_playthrough(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    assert path.exists(), f"{name} has no playthrough; write it: python -m marlenv.testing.golden {name}"
    for number, (want, got) in enumerate(
        zip(path.read_text().splitlines(), golden.text(name).splitlines(), strict=True), 1
    ):
        assert got == want, f"{path.name}, line {number}"


def test_no_playthrough_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(golden.names())
