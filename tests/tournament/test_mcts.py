"""Monte Carlo tree search where chance decides, beside a law and an exact solution; and moves that are level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from scipy.stats import chisquare
from torch import Size, Tensor

from marlenv.games import Backgammon, Rules, TicTacToe
from marlenv.rng import RowRNG
from marlenv.tournament import Arena, Game, MCTSPlayer, random_player
from marlenv.tournament.mcts import _ChanceTree


class Placed(NamedTuple):
    """A position of :class:`Bet`."""

    ply: Tensor
    won: Tensor
    rng: Tensor


@dataclass(frozen=True)
class Bet(Rules[Placed]):
    """Who begins wins with a chance of 0.7 by action 1, of 0.3 by action 0; then the other moves for nothing."""

    players: ClassVar[tuple[str, ...]] = ("a", "b")
    n_actions: ClassVar[int] = 2
    observation_shape: ClassVar[tuple[int, ...]] = (1,)
    longest: ClassVar[int | None] = 2

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> Placed:
        rng = RowRNG(0, batch_size, device) if rng is None else rng
        return Placed(torch.zeros(batch_size, dtype=torch.int64), torch.zeros(batch_size), rng.state)

    def player(self, state: Placed) -> Tensor:
        return state.ply.clamp(max=1)

    def legal(self, state: Placed) -> Tensor:
        return (state.ply < 2).unsqueeze(-1).expand(*state.ply.shape, 2).clone()

    def play(self, state: Placed, action: Tensor) -> Placed:
        rng = RowRNG.from_state(state.rng)
        won = torch.where(rng.uniform() < torch.where(action == 1, 0.7, 0.3), 1.0, -1.0)
        first = state.ply == 0
        return Placed(
            (state.ply + 1).clamp(max=2),
            torch.where(first, won, state.won),
            torch.where(first.unsqueeze(-1), rng.state, state.rng),
        )

    def over(self, state: Placed) -> Tensor:
        return state.ply >= 2

    def returns(self, state: Placed) -> Tensor:
        won = state.won * self.over(state)
        return torch.stack((won, -won), -1)

    def observe(self, state: Placed) -> Tensor:
        return state.ply.float()[..., None, None].expand(*state.ply.shape, 2, 1)


def turn(rules: Rules[Any], state: Any, seed: int, rows: int) -> Any:
    """What a player is asked about the first rows."""
    state = type(state)(*(leaf[:rows] for leaf in state))
    rng = RowRNG(seed, [rows])
    return SimpleNamespace(rules=rules, state=state, rng=rng, seat=rules.player(state), legal=rules.legal(state))


@pytest.mark.slow
def test_it_takes_the_better_chance() -> None:
    """Its best move is action 1, and it thinks of both actions as the law of chance has it."""
    rules = Bet()
    state = rules.start(Size([100]))
    before = torch.random.get_rng_state()
    chosen = MCTSPlayer(1000)(turn(rules, state, 1, 100))
    assert int((chosen == 1).sum()) >= 99
    assert torch.equal(before, torch.random.get_rng_state())
    tree = _ChanceTree(rules, turn(rules, state, 2, 100).state, 200, 1.4, RowRNG(2, [100]).bits())
    for number in range(1, 201):
        tree.simulate(number)
    shares = (tree.value[:, 0].sum(0) / tree.visits[:, 0].sum(0) + 1) / 2
    assert shares.tolist() == pytest.approx([0.3, 0.7], abs=0.04)


def test_games_with_dice_do_not_depend_on_other_rows() -> None:
    players = {"mcts": MCTSPlayer(20), "random": random_player}
    games = [Game(k, ("mcts", "random")) for k in range(12)]
    played = [Arena(Bet(), players, rows=rows).play(games) for rows in (1, 5)]
    assert torch.equal(played[0].digest, played[1].digest)
    state = Bet().start(Size([9]))
    many, few = (MCTSPlayer(7)(turn(Bet(), state, 1, rows)) for rows in (9, 3))
    assert many.unique().numel() == 2
    assert torch.equal(many[:3], few)


def test_a_row_remembers_what_it_thought_whatever_others_think_of() -> None:
    """Rows whose simulation had ended forgot its last position where others thought on."""
    rules = Backgammon(hyper=True)
    state = rules.start(Size([4]), rng=RowRNG(0, [4]))
    trees = [_ChanceTree(rules, turn(rules, state, 1, n).state, 40, 1.4, RowRNG(2, [n]).bits()) for n in (1, 2, 4)]
    for tree in trees:
        for number in range(1, 41):
            tree.simulate(number)
    for tree in trees:
        assert torch.equal(tree.visits, trees[-1].visits[: len(tree.rows)])
        assert int((tree.led[:, 1:] == 0).sum()) == 0  # nobody's game ends in thought


# --- backgammon, when all checkers are home ------------------------------------------------------

Side = tuple[int, ...]  # the points of a player's checkers


def moved(side: Side, number: int) -> set[Side]:
    """What one number can make of a side."""
    out = set()
    for i, point in enumerate(side):
        rest = side[:i] + side[i + 1 :]
        if point > number:
            out.add(tuple(sorted((*rest, point - number))))
        elif point == number or point == max(side):
            out.add(rest)
    return out or {side}


@cache
def after(side: Side, first: int, second: int) -> frozenset[Side]:
    """What a roll can make of a side."""
    orders = [(first,) * 4] if first == second else [(first, second), (second, first)]
    out: set[Side] = set()
    for order in orders:
        now = {side}
        for number in order:
            now = {found for one in now for found in moved(one, number)}
        out |= now
    return frozenset(out)


def left(mine: Side, theirs: Side) -> float:
    """The chance to win of who has moved to ``mine``, if both play as well as can be."""
    return 1 - wins(theirs, mine) if mine else 1.0


@cache
def wins(mine: Side, theirs: Side) -> float:
    """The chance to win of who is about to roll: expectimax."""
    rolls = [(first, second) for first in range(1, 7) for second in range(1, 7)]
    return sum(max(left(side, theirs) for side in after(mine, *roll)) for roll in rolls) / 36


def test_the_solution_knows_what_players_know() -> None:
    """The chances to bear off two checkers in one roll, as every book has them."""
    for side, rolls in {(1, 2): 36, (1, 4): 29, (2, 3): 25, (2, 2): 26, (3, 3): 17, (6, 6): 4}.items():
        assert wins(side, (1,)) == pytest.approx(rolls / 36)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mine", "theirs", "dice"),
    [((1, 3, 3), (1, 6), (2, 1)), ((1, 4, 4), (4, 6), (2, 1)), ((2, 4, 5), (4, 4), (5, 3))],
    ids=str,
)
def test_it_bears_off_as_the_exact_solution_does(mine: Side, theirs: Side, dice: tuple[int, int]) -> None:
    """It takes the best move in each row, and thinks of it as the solution does; some of it is for trying others."""
    rules, rows, simulations = Backgammon(hyper=True), 16, 300
    state = rules.start(Size([rows]), rng=RowRNG(0, [rows]))
    board = torch.zeros_like(state.board)
    for seat, side in enumerate((mine, theirs)):
        for point in side:
            board[:, seat, point - 1] += 1
        board[:, seat, 25] = 3 - len(side)
    rolled, seats = torch.tensor([dice]).expand(rows, 2).clone(), torch.zeros(rows, dtype=torch.int64)
    state = state._replace(board=board, dice=rolled, turn=seats)
    tree = _ChanceTree(rules, state, simulations, 1.4, RowRNG(6, [rows]).bits())
    for number in range(1, simulations + 1):
        tree.simulate(number)
    chosen = tree.visits[:, 0].argmax(-1)
    points = rules.play(state, chosen).board[:, 0, :6].tolist()
    worth = {side: left(side, theirs) for side in after(mine, *dice)}
    best = max(worth, key=worth.__getitem__)
    right = [tuple(p + 1 for p, count in enumerate(row) for _ in range(count)) == best for row in points]
    assert sum(right) >= rows - 1
    earned = (tree.value[:, 0] / tree.visits[:, 0]).gather(1, chosen.unsqueeze(1)).mean().item()
    assert (earned + 1) / 2 == pytest.approx(worth[best], abs=0.07)


# --- moves that it thought of as often ----------------------------------------------------------


@pytest.mark.parametrize("simulations", [5, 10])
def test_no_number_of_an_action_is_favoured(simulations: int) -> None:
    """Squares that a turn or mirror of the board exchanges are chosen alike; 244 of 400 rows had taken square 0."""
    rules, rows = TicTacToe(), 400
    chosen = MCTSPlayer(simulations)(turn(rules, rules.start(Size([rows])), 3, rows)).bincount(minlength=9)
    for alike in ([0, 2, 6, 8], [1, 3, 5, 7]):
        assert chisquare(chosen[alike]).pvalue > 1e-3


def test_of_moves_thought_of_as_often_it_takes_what_earned_most() -> None:
    """Each of two moves was thought of once: 7 draws, 8 wins."""
    rules, rows = TicTacToe(), 20
    state = rules.start(Size([rows]))
    for move in (1, 0, 2, 4, 3, 5, 6):
        state = rules.play(state, torch.full((rows,), move))
    assert MCTSPlayer(2)(turn(rules, state, 1, rows)).tolist() == [8] * rows
