"""Leduc poker: OpenSpiel's games position by position, what players may not see, and the card that chance turns up."""

from __future__ import annotations

import pytest
import torch
from spiel_mirror import mirror
from torch import Size

import marlenv
from marlenv.errors import IllegalAction
from marlenv.games.leduc import CALL, FOLD, RAISE, LeducPoker, State
from marlenv.rng import RowRNG
from marlenv.testing import run_contract


def deal(ours: State, theirs: object) -> int:
    dealt = len(theirs.history())  # type: ignore[attr-defined]
    return int(ours.cards[dealt] if dealt < len(ours.cards) else ours.public)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("players", [2, 3, 4, 10])
@pytest.mark.parametrize("recall", [True, False])
def test_openspiel_plays_the_same_games(players: int, recall: bool) -> None:
    tensor = "information_state_tensor" if recall else "observation_tensor"
    theirs = f"leduc_poker(players={players})"
    assert mirror(LeducPoker(players, recall), theirs, deal, games=100, seed=players, tensor=tensor) > 400


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("players", [2, 3])
def test_openspiel_plays_the_same_games_10000_times(players: int) -> None:
    theirs = f"leduc_poker(players={players})"
    assert mirror(LeducPoker(players), theirs, deal, games=10_000, tensor="information_state_tensor", every=4) > 40_000


def played(rules: LeducPoker, cards: list[int], *actions: int) -> State:
    state = rules.start(Size([1]), rng=RowRNG(0, [1]))._replace(cards=torch.tensor([cards]))
    for action in actions:
        state = rules.play(state, torch.tensor([action]))
    return state


def test_a_pair_with_the_table_wins_and_equal_cards_share() -> None:
    rules = LeducPoker()
    end = played(rules, [0, 4], CALL, CALL)._replace(public=torch.tensor([1]))
    end = rules.play(rules.play(end, torch.tensor([RAISE])), torch.tensor([CALL]))
    assert rules.returns(end).tolist() == [[5.0, -5.0]]
    same = played(rules, [2, 3], CALL, RAISE, RAISE, CALL, CALL, CALL)
    assert rules.returns(same).tolist() == [[0.0, 0.0]]
    assert rules.outcomes[int(rules.outcome(same))] == "showdown"


def test_the_card_on_the_table_is_any_of_the_others() -> None:
    rules = LeducPoker()
    state = rules.start(Size([4000]), rng=RowRNG(2, [4000]))
    state = state._replace(cards=torch.tensor([1, 4]).expand(4000, 2))
    for _ in range(2):
        state = rules.play(state, torch.full((4000,), CALL))
    counts = torch.bincount(state.public, minlength=6)
    assert counts[[1, 4]].tolist() == [0, 0]
    assert bool(((counts[[0, 2, 3, 5]] - 1000).abs() < 140).all())  # five standard deviations


def test_the_same_position_can_be_branched_with_other_luck() -> None:
    rules = LeducPoker()
    state = State(*(leaf.expand(64, *leaf.shape[1:]) for leaf in played(rules, [1, 4], CALL)))
    state = state._replace(rng=RowRNG(9, [64]).state)
    assert len(rules.play(state, torch.full((64,), CALL)).public.unique()) == 4


def test_what_a_player_sees_does_not_depend_on_the_others_cards() -> None:
    rules = LeducPoker(3)
    one, other = played(rules, [1, 2, 3], CALL, RAISE), played(rules, [1, 5, 7], CALL, RAISE)
    assert torch.equal(rules.observe(one)[:, 0], rules.observe(other)[:, 0])
    assert rules.view(State(*(leaf[0] for leaf in one)), 0) == rules.view(State(*(leaf[0] for leaf in other)), 0)


def test_who_folded_shows_no_card_at_the_showdown() -> None:
    """All cards were laid open to everybody, those of players who had folded, too."""
    rules = LeducPoker(3)
    end = played(rules, [0, 3, 6], RAISE, FOLD, CALL, CALL, CALL)
    assert rules.outcomes[int(rules.outcome(end))] == "showdown"
    one = State(*(leaf[0] for leaf in end))
    hands = [[line.split()[1] for line in rules.view(one, seat).splitlines()[:3]] for seat in range(3)]
    assert hands == [["Ts", "??", "Ks"], ["Ts", "Jh", "Ks"], ["Ts", "??", "Ks"]]
    assert [line.split()[1] for line in rules.show(one).splitlines()[:3]] == ["Ts", "Jh", "Ks"]


def test_folding_without_a_raise_is_illegal_and_says_what_is_legal() -> None:
    env = marlenv.make("leduc_poker", num_envs=2)
    td = env.rand_action(env.reset())
    td["player_0", "action"] = torch.tensor([[CALL], [FOLD]])
    with pytest.raises(
        IllegalAction, match=r"action 0 \(fold\) of player 'player_0' in row \[1\] .* \['call', 'raise'\]"
    ):
        env.step(td)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"num_players": 3, "recall": False, "group_map": "ALL_IN_ONE_GROUP"}])
def test_the_contract_holds(options: dict[str, object]) -> None:
    results = list(run_contract(lambda: marlenv.make("leduc_poker", num_envs=3, **options)))
    assert not [r for r in results if r.verdict == "broken"]
