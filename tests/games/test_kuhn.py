"""Kuhn poker: OpenSpiel's games position by position, the known value of the game, and what players may not see."""

from __future__ import annotations

import pytest
import torch
from sizes import first
from spiel_mirror import mirror
from torch import Size

import marlenv
from marlenv.errors import SpecError
from marlenv.games.kuhn import KuhnPoker, State
from marlenv.rng import RowRNG
from marlenv.testing import run_contract


def deal(ours: State, theirs: object) -> int:
    return int(ours.cards[len(theirs.history())])  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("players", [2, 3, 4, 10])
@pytest.mark.parametrize("recall", [True, False])
def test_openspiel_plays_the_same_games(players: int, recall: bool) -> None:
    tensor = "information_state_tensor" if recall else "observation_tensor"
    rules = KuhnPoker(players, recall)
    assert mirror(rules, f"kuhn_poker(players={players})", deal, games=100, seed=players, tensor=tensor) > 300


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("players", [2, 3])
def test_openspiel_plays_the_same_games_10000_times(players: int) -> None:
    theirs = f"kuhn_poker(players={players})"
    assert mirror(KuhnPoker(players), theirs, deal, games=10_000, tensor="information_state_tensor") > 30_000


def test_kuhns_equilibrium_is_worth_minus_an_eighteenth() -> None:
    """All deals and all lines at once, each weighted by how often the equilibrium (Kuhn 1950, alpha = 0) plays it."""
    rules = KuhnPoker()
    bet = torch.tensor([[0.0, 0.0, 0.0], [1 / 3, 0.0, 1.0], [0.0, 1 / 3, 1.0], [0.0, 1 / 3, 1.0]])
    # rows: first move; second move after a pass; second move after a bet; the answer of who passed first
    deals = torch.tensor([[a, b] for a in range(3) for b in range(3) if a != b])
    state = rules.start(Size([6]), rng=RowRNG(0, [6]))._replace(cards=deals)
    weight, value = torch.full((6,), 1 / 6), torch.tensor(0.0)
    for ply in range(3):
        situation = (
            torch.where(state.moves[:, 0] == 1, 2, 1) if ply == 1 else torch.full((len(weight),), 3 if ply else 0)
        )
        chance = bet[situation, state.cards.gather(1, rules.player(state).unsqueeze(-1)).squeeze(-1)]
        both = [rules.play(state, torch.full((len(weight),), action)) for action in (0, 1)]
        state = State(*(torch.cat(leaves) for leaves in zip(*both, strict=True)))
        weight = torch.cat((weight * (1 - chance), weight * chance))
        over = rules.over(state)
        value += (weight * rules.returns(state)[:, 0])[over].sum()
        state, weight = State(*(leaf[~over] for leaf in state)), weight[~over]
    assert not len(weight)
    assert float(value) == pytest.approx(-1 / 18, abs=1e-6)


def test_what_a_player_sees_does_not_depend_on_the_others_cards() -> None:
    rules = KuhnPoker(3)
    state = rules.start(Size([256]), rng=RowRNG(0, [256]))
    for seat in range(3):
        for card in range(4):
            seen = rules.observe(state)[state.cards[:, seat] == card, seat]
            assert bool((seen == seen[0]).all())
    shown = rules.view(State(*(leaf[0] for leaf in state)), 1)
    assert shown.count("?") == 2


@pytest.mark.parametrize(
    ("moves", "laid"), [([0, 0, 0], "JQK"), ([1, 0, 1], "JK"), ([0, 1, 0, 0], ""), ([1, 0, 0], ""), ([1, 1], "")]
)
def test_cards_are_laid_open_at_a_showdown_by_those_who_have_not_folded(moves: list[int], laid: str) -> None:
    """All cards were, of whoever had folded and of who had won without a call, too."""
    rules = KuhnPoker(3)
    state = rules.start(Size([]))._replace(cards=torch.tensor([0, 1, 2]) + 1)
    for move in moves:
        state = rules.play(state, torch.tensor(move))
    for seat, own in enumerate("JQK"):
        hands = [line.split()[1] for line in rules.view(state, seat).splitlines()[:3]]
        assert hands == [card if card in laid + own else "?" for card in "JQK"]


def test_deals_are_all_equally_likely_and_rows_are_independent() -> None:
    rules = KuhnPoker()
    many = rules.start(Size([6000]), rng=RowRNG(5, [6000]))
    counts = torch.bincount(many.cards[:, 0] * 3 + many.cards[:, 1], minlength=9)
    assert counts[[0, 4, 8]].tolist() == [0, 0, 0]
    assert bool(((counts[[1, 2, 3, 5, 6, 7]] - 1000).abs() < 150).all())  # five standard deviations
    assert torch.equal(rules.start(Size([4]), rng=RowRNG(5, [4])).cards, many.cards[:4])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", first([{"num_players": 3, "recall": False, "group_map": "ALL_IN_ONE_GROUP"}, {}], 2)
)
def test_the_contract_holds(options: dict[str, object]) -> None:
    results = list(run_contract(lambda: marlenv.make("kuhn_poker", num_envs=3, **options)))
    assert not [r for r in results if r.verdict == "broken"]


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(SpecError, match="num_players must be an integer from 2 to 10, got 11"):
        marlenv.make("kuhn_poker", num_players=11)


def test_games_of_a_rollout_are_dealt_anew() -> None:
    env = marlenv.make("kuhn_poker", num_envs=64, seed=1)
    data = env.rollout(40, break_when_any_done=False)
    first = data["state", "cards"]
    assert len(first.flatten(0, 1).unique(dim=0)) == 6
    assert bool((data["next", "player_0", "reward"] + data["next", "player_1", "reward"] == 0).all())
