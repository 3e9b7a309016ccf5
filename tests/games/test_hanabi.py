"""Hanabi: OpenSpiel's games (the Hanabi Learning Environment) bit by bit, and what a player may not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from spiel_mirror import mirror
from torch import Size

import marlenv
from marlenv.errors import SpecError
from marlenv.games.hanabi import Hanabi, State
from marlenv.rng import RowRNG
from marlenv.testing import run_contract


def deal(ours: State, theirs: Any) -> int:
    """The next card of the first deal, or the one that the last mover drew."""
    players, hand = ours.hands.shape
    dealt = len(theirs.history())
    if dealt < players * hand:
        return int(ours.hands.flatten()[dealt])
    return int(ours.hands[(int(ours.turn) - 1) % players, -1])


def play(games: int, every: int = 1, seed: int = 0, choose: Any = None, **options: int) -> int:
    names = {"num_players": "players", "max_hints": "max_information_tokens", "max_lives": "max_life_tokens"}
    theirs = ",".join(f"{names.get(name, name)}={value}" for name, value in options.items())
    return mirror(Hanabi(**options), f"hanabi({theirs})", deal, games=games, every=every, seed=seed, choose=choose)


SMALL = {"num_players": 3, "colors": 2, "ranks": 3, "hand_size": 2, "max_hints": 3, "max_lives": 2}


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(
    "options",
    [{"num_players": 2}, {"num_players": 3}, {"num_players": 4}, {"num_players": 5, "max_lives": 20}, SMALL],
    ids=["2", "3", "4", "5, to the end", "small"],
)
def test_openspiel_plays_the_same_games(options: dict[str, int]) -> None:
    assert play(games=30, **options) > 200


@pytest.mark.slow
@pytest.mark.reference
def test_openspiel_plays_the_same_games_many_times(sized: Callable) -> None:
    for seed in range(sized(2, 10)):
        assert play(games=500, every=10, seed=seed, num_players=2, max_lives=20) > 20_000
        assert play(games=500, every=10, seed=seed, num_players=2 + seed % 4) > 5_000
    assert play(games=1000, every=10, **SMALL) > 7_500


class Cheat:
    """Looks at its own cards: plays what fits, and discards what is not needed."""

    def __init__(self, rules: Hanabi) -> None:
        self.rules = rules
        self.best = 0

    def __call__(self, state: State, unit: torch.Tensor) -> torch.Tensor:
        rules, legal = self.rules, self.rules.legal(state)
        self.best = max(self.best, int(state.fireworks.sum(-1).max()))
        mine = state.hands[torch.arange(len(unit)), state.turn]
        height = state.fireworks.gather(-1, mine.clamp(min=0) // rules.ranks)
        rank, held = mine % rules.ranks, mine >= 0
        fits, done = (rank == height) & held, (rank < height) & held & legal[:, : rules.hand]
        other = legal.clone()
        other[:, rules.hand : 2 * rules.hand] = False
        action = torch.where(other.any(-1), other.float().argmax(-1), rules.hand)
        action = torch.where(done.any(-1), done.int().argmax(-1), action)
        return torch.where(fits.any(-1), rules.hand + fits.int().argmax(-1), action)


@pytest.mark.reference
def test_openspiel_agrees_on_games_that_are_won() -> None:
    rules = Hanabi(**SMALL)
    cheat = Cheat(rules)
    assert play(games=60, choose=cheat, **SMALL) > 400
    assert cheat.best >= rules.colors * rules.ranks - 1  # the last card ends the game


def test_a_complete_game_and_a_lost_one_say_so() -> None:
    rules = Hanabi()
    state = rules.start(Size([1]), rng=RowRNG(0, [1]))
    state = state._replace(fireworks=torch.tensor([[5, 5, 5, 5, 4]]), hints=torch.tensor([3]))
    state = state._replace(hands=state.hands.index_fill(-1, torch.tensor([0]), 24))
    won = rules.play(state, torch.tensor([rules.read_action(State(*(leaf[0] for leaf in state)), "play 1")]))
    assert rules.outcomes[int(rules.outcome(won))] == "all fireworks"
    assert rules.returns(won).tolist() == [[25.0, 25.0]]
    assert int(won.hints) == 4  # a complete color gives a hint back
    state = state._replace(fireworks=torch.tensor([[5, 5, 5, 5, 3]]), lives=torch.tensor([1]))
    lost = rules.play(state, torch.tensor([5]))
    assert rules.outcomes[int(rules.outcome(lost))] == "no lives left"
    assert rules.returns(lost).tolist() == [[0.0, 0.0]]
    assert not bool(rules.legal(lost).any())


def test_players_do_not_see_their_own_cards_but_what_they_were_told() -> None:
    rules = Hanabi(3)
    state = rules.start(Size([1]), rng=RowRNG(0, [1]))
    other = state._replace(hands=state.hands.clone())
    other.hands[0, 1] = torch.tensor([24, 23, 22, 21, 20])
    assert torch.equal(rules.observe(state)[:, 1], rules.observe(other)[:, 1])
    assert not torch.equal(rules.observe(state)[:, 0], rules.observe(other)[:, 0])
    blue = State(*(leaf[0] for leaf in other))
    assert rules.view(blue, 1).splitlines()[4].split() == ["player_1", "?", "?", "?", "?", "?"]
    told = rules.play(blue, torch.tensor(rules.read_action(blue, "tell player_1 blue")))
    assert rules.view(told, 1).splitlines()[4].split() == [">", "player_1", *["?(b)"] * 5]
    assert rules.view(told, 0).splitlines()[4].split()[2] == "B5(b)"
    assert not torch.equal(rules.observe(told)[1], rules.observe(blue)[1])


def test_cards_are_never_lost_or_doubled() -> None:
    rules = Hanabi(4)
    copies = torch.tensor([3, 2, 2, 2, 1] * 5)
    state = rules.start(Size([64]), rng=RowRNG(7, [64]))
    generator = torch.Generator().manual_seed(0)
    for _ in range(70):
        held = torch.nn.functional.one_hot(state.hands.flatten(1) + 1, 26).sum(1)[:, 1:]
        built = (torch.arange(5) < state.fireworks.unsqueeze(-1)).flatten(1)
        assert torch.equal(held + built + state.deck + state.discards, copies.expand(64, 25))
        state = rules.play(state, rules.pick(state, torch.rand(64, generator=generator)))
    assert bool(rules.over(state).any())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"num_players": 3, "group_map": "ALL_IN_ONE_GROUP"}])
def test_the_contract_holds(options: dict[str, object]) -> None:
    results = list(run_contract(lambda: marlenv.make("hanabi", num_envs=3, **options)))
    assert not [r for r in results if r.verdict == "broken"]


def test_all_share_the_reward() -> None:
    env = marlenv.make("hanabi", num_envs=16, seed=2, num_players=3)
    data = env.rollout(30, break_when_any_done=False)
    rewards = torch.stack([data["next", name, "reward"] for name in env.rules.players])
    assert bool((rewards == rewards[0]).all())
    assert float(rewards.max()) == 1.0
    assert float(rewards.min()) < 0.0  # what was built is lost with the last life


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_players": 6}, "num_players must be an integer from 2 to 5, got 6"),
        ({"ranks": 1}, "ranks must be an integer from 2 to 5, got 1"),
        ({"num_players": 5, "colors": 1}, "5 hands of 4 cards need a deck of more than 10"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, int], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Hanabi(**options)
