"""What games with chance, hidden hands or simultaneous moves share: one graph, one device, one kind of randomness."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Size, Tensor

from marlenv.games import Backgammon, Hanabi, KuhnPoker, LeducPoker, MatrixGame, Rules
from marlenv.rng import RowRNG

RULES = [KuhnPoker(), LeducPoker(3), MatrixGame("chicken", 3), Backgammon("full"), Hanabi()]


def step(rules: Rules[Any], state: Any, unit: Tensor) -> list[Tensor]:
    after = rules.play(state, rules.pick(state, unit))
    seen = [rules.legal(after), rules.observe(after), rules.returns(after), rules.outcome(after), rules.player(after)]
    return [*after, *seen]


def units(rules: Rules[Any], rows: int, device: str = "cpu") -> Tensor:
    shape = (rows, len(rules.players)) if rules.simultaneous else (rows,)
    return torch.rand(shape, generator=torch.Generator().manual_seed(rows)).to(device)


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: type(rules).__name__)
def test_a_step_is_one_graph_that_gives_the_same(rules: Rules[Any]) -> None:
    state = rules.start(Size([8]), rng=RowRNG(0, [8]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(step, fullgraph=True, backend="eager")(rules, state, units(rules, 8))
    for ours, want in zip(compiled, step(rules, state, units(rules, 8)), strict=True):
        assert torch.equal(ours, want)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: type(rules).__name__)
def test_nothing_is_made_on_another_device_or_looked_at_by_the_host(rules: Rules[Any]) -> None:
    """On the device ``meta``, whose values nobody can look at, and which does not mix with others."""
    state = rules.start(Size([4]), rng=RowRNG(0, [4], torch.device("meta")), device=torch.device("meta"))
    assert {leaf.device.type for leaf in step(rules, state, units(rules, 4, "meta"))} == {"meta"}


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: type(rules).__name__)
def test_a_finished_game_stays_as_it_is(rules: Rules[Any]) -> None:
    state = rules.start(Size([3]), rng=RowRNG(1, [3]))
    for _ in range(1000):
        if bool(rules.over(state).all()):
            break
        state = rules.play(state, rules.pick(state, units(rules, 3)))
    assert bool(rules.over(state).all())
    for before, after in zip(state, rules.play(state, rules.pick(state, units(rules, 3)) * 0), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: type(rules).__name__)
def test_rows_play_as_they_would_alone(rules: Rules[Any]) -> None:
    batch = rules.start(Size([6]), rng=RowRNG(2, [6]))
    single = type(batch)(*(leaf[5] for leaf in batch))
    for t in range(30):
        unit = units(rules, 6 + t)[:6]
        batch = rules.play(batch, rules.pick(batch, unit))
        single = rules.play(single, rules.pick(single, unit[5]))
    for whole, part in zip(step(rules, batch, unit), step(rules, single, unit[5]), strict=True):
        assert torch.equal(whole[5], part)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: type(rules).__name__)
def test_pictures_are_drawn_at_every_position(rules: Rules[Any]) -> None:
    from xml.etree import ElementTree

    state = rules.start(Size([1]), rng=RowRNG(3, [1]))
    for _ in range(12):
        one = type(state)(*(leaf[0] for leaf in state))
        assert ElementTree.fromstring(rules.svg(one)).tag.endswith("svg")
        for seat in range(len(rules.players)):
            assert rules.view(one, seat).count("\n") == rules.show(one).count("\n")
        state = rules.play(state, rules.pick(state, units(rules, 1)))
