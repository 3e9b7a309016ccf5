"""Tables stay aligned, whatever letters names have: checked by hand, as terminals with wide letters show them."""

from __future__ import annotations

import pytest

from marlenv.text_table import shortened, table, width
from marlenv.tournament import Results, rate


def test_wide_letters_take_two_columns() -> None:
    assert table([["ada", 1], ["狼", 10], ["🐺b", 100]], ["name", "n"], right=[1]).splitlines() == [
        "name    n",
        "----  ---",
        "ada     1",
        "狼     10",
        "🐺b   100",
    ]


def test_standings_with_wide_names_are_aligned() -> None:
    lines = rate(Results.of([("狼", "ada", 1), ("ada", "狼", 1), ("狼", "ada", 0.5)]), seat=False).table().splitlines()
    assert len({width(line) for line in lines}) == 1
    assert lines[1].startswith("狼      ")


@pytest.mark.parametrize("name", ["狼" * 40, "wolf狼" * 9, "a" * 40, "e\u0301" * 40])
def test_shortened_names_fit(name: str) -> None:
    for most in (18, 20):
        short = shortened(name, most)
        assert most - 2 <= width(short) <= most
        assert short[0] == name[0]
        assert short[-1] == name[-1]
        assert "…" in short
