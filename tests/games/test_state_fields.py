"""What positions consist of is said in words: the pages of games show it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from torch import Size

import marlenv
from marlenv.rng import RowRNG

GAMES = ["Backgammon", "Breakthrough", "Chess", "ConnectFour", "Go", "Hanabi", "Hex", "KuhnPoker", "LeducPoker"]
GAMES += ["MatrixGame", "Othello", "TicTacToe"]


@pytest.mark.parametrize("name", GAMES)
def test_every_field_has_a_meaning(name: str) -> None:
    """Go's page said of the outcome "[*B] int8", and nothing else."""
    rules: Any = getattr(marlenv.games, name)()
    source = inspect.getsource(type(rules.start(Size([1]), rng=RowRNG(0, [1]))))
    fields = re.findall(r'^    (\w+): Tensor(?:  # (.*)|\n    """([^"]*)""")', source, re.M)
    assert fields
    for field, *texts in fields:
        said = re.sub(r"`{0,2}\[.*?\]`{0,2}|\b(?:bool|u?int\d+|float\d+)\b|see \w+$", "", "".join(texts))
        assert re.search(r"[a-z]{3}", said), f"{name}.{field}: {texts}"
