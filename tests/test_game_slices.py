"""The parts of games' observations are what the tables on their pages say: random games beside their positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from marlenv.registration import available, make
from marlenv.rng import RowRNG

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", available("game"))
def test_every_game_has_a_table_on_its_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import game_slices

    assert game_slices.table(name) in (ROOT / "docs" / "envs" / f"{name}.md").read_text()


def test_a_table_that_does_not_fill_an_observation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    import game_slices

    monkeypatch.setitem(game_slices.PARTS, "hex", game_slices.BOARD[:2])
    with pytest.raises(LookupError, match=r"hex: say what the 3 parts of its observation are in docs/game_slices.py"):
        game_slices.table("hex")


def parts_of(name: str, monkeypatch: pytest.MonkeyPatch, plies: int) -> tuple[Any, Any, dict[str, torch.Tensor]]:
    """A game's rules, positions of 32 games after random moves, and what players observe, by the names of its page."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    import game_slices

    rules: Any = make(name, 2).rules
    state = rules.start(torch.Size([32]), rng=RowRNG(0, [32]))
    draws = torch.Generator().manual_seed(1)
    for _ in range(plies):
        legal = rules.legal(state).double() + 1e-9  # games that are over stay as they are
        state = rules.play(state, torch.multinomial(legal.flatten(0, -2), 1, generator=draws).view(legal.shape[:-1]))
    observed = rules.observe(state).long()
    found = observed.split([part.size for part in game_slices.PARTS[name]], 2)
    return rules, state, dict(zip((part.what for part in game_slices.PARTS[name]), found, strict=True))


BOARDS = [("tic_tac_toe", 3), ("connect_four", 7), ("othello", 7), ("hex", 9), ("go", 9)]


@pytest.mark.parametrize(("name", "plies"), BOARDS)
def test_planes_of_boards_are_what_their_table_says(name: str, plies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, state, found = parts_of(name, monkeypatch, plies)
    kind = "discs" if name == "othello" else "stones"
    own, other, mine = (found[what] for what in (f"own {kind}", f"the other's {kind}", "ones if it is my turn"))
    stones = plies + 4 * (name == "othello")  # that lie there, if none is taken
    assert torch.equal(own[:, 0], other[:, 1])
    assert torch.equal(own[:, 1], other[:, 0])
    assert not (own & other).any()
    assert own[:, 0].sum() > other[:, 0].sum()  # who began has moved once more
    assert int((own + other).flatten(1).sum(-1).max()) == 2 * stones
    assert torch.equal(mine[:, :, 0, 0, 0], (rules.player(state).unsqueeze(-1) == torch.arange(2)).long())


def test_parts_of_games_of_cards_are_what_their_tables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    eye, one = torch.eye(2).long(), torch.nn.functional.one_hot
    for name, plies in (("kuhn_poker", 2), ("leduc_poker", 3)):
        _, state, found = parts_of(name, monkeypatch, plies)
        assert torch.equal(found["whose seat this is"], eye.expand(32, 2, 2))
        assert torch.equal(found["own card"].argmax(-1), state.cards)
    assert torch.equal(found["the card on the table"].sum(-1) > 0, (state.public >= 0).unsqueeze(-1).expand(-1, 2))
    _, state, found = parts_of("hanabi", monkeypatch, 9)
    hands = found["the other's five cards, each out of 25"][:, 0].unflatten(-1, (5, 25))
    assert torch.equal(hands.sum(-1), (state.hands[:, 1] >= 0).long())
    for what, many in {
        "how many cards are in the deck, as so many ones": state.deck.sum(-1),
        "the height of each firework": (state.fireworks > 0).sum(-1),
        "hints, as so many ones": state.hints,
        "lives, as so many ones": state.lives,
        "what was discarded: for each card as many ones": state.discards.sum(-1),
    }.items():
        assert torch.equal(found[what].sum(-1), many.unsqueeze(-1).expand(-1, 2)), what
    moved = found["whether it played, discarded, told a color, told a rank"]
    assert torch.equal(moved[:, 0], one(state.last[:, 1], 4))


def test_parts_of_other_games_are_what_their_tables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rules, state, found = parts_of("breakthrough", monkeypatch, 25)
    turn = (rules.player(state).unsqueeze(-1) == torch.arange(2)).long()
    assert torch.equal(found["ones if it is my turn"][..., 0, 0, 0], turn)
    words = torch.stack((state.white, state.black), -1)
    for what, seats in (("own stones", words), ("the other's stones", words.flip(-1))):
        bits = (seats.unsqueeze(-1) >> torch.arange(64)) & 1
        assert torch.equal(found[what].flatten(2), bits)
    rules, state, found = parts_of("backgammon", monkeypatch, 9)
    turn = (rules.player(state).unsqueeze(-1) == torch.arange(2)).long()
    assert torch.equal(found["whether it is my turn"][..., 0], turn)
    assert torch.equal(found["whether it is the other's turn"][..., 0], 1 - turn)
    assert torch.equal(found["the dice, lower first"][:, 0].sort(-1)[0], state.dice.sort(-1)[0])
    points = torch.tensor([1, 2, 3, 1])
    bar, off = found["own checkers on the bar, and off"].unbind(-1)
    own = found["own checkers, for each point: whether there is 1, 2, 3, and how many more"].unflatten(-1, (24, 4))
    counts = torch.where(own[..., 3] > 0, own[..., 3] + 3, (own * points).sum(-1))
    assert (counts.sum(-1) + bar + off == 15).all()
    rules, state, found = parts_of("matrix_game", monkeypatch, 2)
    assert torch.equal(found["own choice in the last round"].argmax(-1), state.last)
    assert torch.equal(found["the other's choice in the last round"].argmax(-1), state.last.flip(-1))
    env = make("chess", 1)
    data = env.rollout(6, env.rand_action)
    turn = data["white", "observation"][0, :, 0, 10]
    assert turn.tolist() == [0, 1, 0, 1, 0, 1]
