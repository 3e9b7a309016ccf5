"""What positions consist of is said in words, which the pages of games show, and is looked at when they are read."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
from torch import Size

import marlenv
from marlenv.errors import SpecError
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


PLAYED = ["backgammon", "breakthrough", "chess", "connect_four", "go", "hanabi", "hex", "kuhn_poker", "leduc_poker"]


@pytest.mark.parametrize("name", [*PLAYED, "othello", "tic_tac_toe"])
def test_positions_without_a_part_or_with_other_numbers_are_refused_by_name(name: str) -> None:
    """They ended in errors of the operations that met them, or were played: hints of Hanabi as float32."""
    env = marlenv.make(name, num_envs=3, seed=0)
    td = env.rand_action(env.reset())
    for field, x in env.read(td)._asdict().items():
        other = td.clone()
        other["state", field] = x.to(torch.float64 if x.dtype != torch.float64 else torch.int64)
        with pytest.raises(SpecError, match=f"a position .*{field}.*{other['state', field].dtype}"):
            env.step(other)
        with pytest.raises(
            SpecError, match=rf"a position has \('state', '{field}'\) .*, got none; take positions from"
        ):
            env.step(td.exclude(("state", field)))
    env.step(td)


@pytest.mark.parametrize(
    ("name", "field", "row"),
    [
        *[(name, "turn", [seat]) for name in ("othello", "leduc_poker", "hanabi", "backgammon") for seat in (-2, 7)],
        ("tic_tac_toe", "code", [-2]),
        ("tic_tac_toe", "code", [3**9]),
        ("kuhn_poker", "cards", [-2, 0]),
        ("kuhn_poker", "cards", [1, 1]),
        ("leduc_poker", "cards", [0, 6]),
    ],
)
def test_positions_with_numbers_out_of_range_are_refused_where_they_are_given(
    name: str, field: str, row: list[int]
) -> None:
    """They ended in bare errors of the operations that met them; cards that there are not were played."""
    env = marlenv.make(name, num_envs=3, seed=0)
    td = env.rand_step(env.reset())["next"]
    state = env.get_state(td)
    assert env.reset(state.clone(), set_state=True)["state", field].equal(td["state", field])
    state["state", field][1] = torch.tensor(row).reshape(state["state", field][1].shape)
    with pytest.raises(SpecError, match=rf"expected positions of .*{field}.* in row 1; give what env.get_state"):
        env.reset(state, set_state=True)
