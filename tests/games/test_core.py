"""What games get from the core: chance, hidden cards, moves at once, one to five players, groups, ends, opponents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tensordict import TensorDict
from torch import Size, Tensor

import marlenv
from marlenv.errors import DtypeError, IllegalAction, KeyMissing, ResetError, SpecError
from marlenv.games import ChessEnv, ConnectFour, GameEnv, PolicyPerRow, Rules, TicTacToe, TicTacToeEnv
from marlenv.games.chess import Chess, GroupedChessEnv
from marlenv.games.env.time_step import TimeStep
from marlenv.games.rules import where
from marlenv.rng import RowRNG
from marlenv.testing.contract import run_contract


class State(NamedTuple):
    cards: Tensor  # [*B, P] int64: a hidden card of 0 to 5
    pot: Tensor  # [*B, P] float32: what each has earned
    ply: Tensor  # [*B] int64
    rng: Tensor  # [*B, 2] int64


@dataclass(frozen=True)
class Dice(Rules[State]):
    """A game of chance: in turn, everybody earns a stake of 0 to 3 times a coin, plus a hidden card that is not my own.

    The stake 3 is for those with a high card only.
    """

    seats: int = 3
    rounds: int = 2

    hidden: ClassVar[bool] = True
    zero_sum: ClassVar[bool] = False

    @property
    def players(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(self.seats))

    @property
    def n_actions(self) -> int:
        return 4

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (2,)

    @property
    def longest(self) -> int:
        return self.seats * self.rounds

    def start(self, batch_size: Size, *, rng: RowRNG | None = None, device: torch.device | None = None) -> State:
        rng = RowRNG(0, batch_size) if rng is None else rng
        cards = rng.randint(0, 6, [self.seats])
        return State(cards, torch.zeros(cards.shape), torch.zeros(batch_size, dtype=torch.int64), rng.state)

    def player(self, state: State) -> Tensor:
        return state.ply % self.seats

    def _allowed(self, state: State) -> Tensor:
        high = (state.cards >= 3).unsqueeze(-1)
        return torch.where(torch.arange(4) == 3, high, True) & ~self.over(state)[..., None, None]

    def legal(self, state: State) -> Tensor:
        seat = self.player(state)[..., None, None].expand(*state.ply.shape, 1, 4)
        return self._allowed(state).gather(-2, seat).squeeze(-2)

    def _paid(self, state: State, stakes: Tensor) -> State:
        rng = RowRNG.from_state(state.rng)
        coin = rng.randint(0, 2, [self.seats])
        paid = state.pot + stakes * coin + (stakes > 0) * state.cards.roll(1, -1) / 8
        return where(self.over(state), state, State(state.cards, paid, state.ply + 1, rng.state))

    def play(self, state: State, action: Tensor) -> State:
        mine = torch.arange(self.seats) == self.player(state).unsqueeze(-1)
        return self._paid(state, mine * action.unsqueeze(-1))

    def over(self, state: State) -> Tensor:
        return state.ply >= self.longest

    def returns(self, state: State) -> Tensor:
        return state.pot.float()

    def observe(self, state: State) -> Tensor:
        return torch.stack((state.cards.float(), state.ply.unsqueeze(-1).expand(state.cards.shape).float()), -1)


@dataclass(frozen=True)
class DiceAtOnce(Dice):
    """The same with all stakes at once."""

    simultaneous: ClassVar[bool] = True

    @property
    def longest(self) -> int:
        return self.rounds

    def legal(self, state: State) -> Tensor:
        return self._allowed(state)

    def play(self, state: State, action: Tensor) -> State:
        return self._paid(state, action)


@dataclass(frozen=True)
class DiceToTwo(Dice):
    """The same, over as soon as somebody has earned two."""

    def over(self, state: State) -> Tensor:
        return super().over(state) | (state.pot >= 2).any(-1)


GAMES = {
    "any batch": lambda: GameEnv(Dice(3)),
    "opponent": lambda: GameEnv(Dice(5), batch_size=[2, 2], opponent="random", seat=1),
    "over before our move": lambda: GameEnv(DiceToTwo(4), batch_size=[5], opponent="random", seat=3),
    "forfeits": lambda: GameEnv(Dice(2), batch_size=[3], illegal="lose", max_plies=2, group_map="all_in_one_group"),
    "tree of groups": lambda: GameEnv(Dice(3), group_map={"a": ["p1"], "b": {"c": ["p2"], "d": ["p0"]}}),
    "at once": lambda: GameEnv(DiceAtOnce(3), batch_size=[2]),
    "at once, opponent": lambda: GameEnv(DiceAtOnce(2), batch_size=[2], opponent="random", seat=1),
    "at once, groups": lambda: GameEnv(
        DiceAtOnce(3), illegal="lose", max_plies=1, group_map={"a": ["p1"], "b": ["p2", "p0"]}
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_games_of_chance_keep_the_contract(game: str) -> None:
    broken = [f"{r.name}: {r.says}" for r in run_contract(GAMES[game]) if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("kind", [Dice, DiceAtOnce])
def test_rewards_add_up_to_the_returns_for_every_player(kind: type[Dice]) -> None:
    env = GameEnv(kind(3), batch_size=[64], seed=5)
    data = env.rollout(20, break_when_all_done=True)
    earned = torch.stack([data["next", p, "reward"].sum(1).flatten() for p in ("p0", "p1", "p2")], -1)
    assert torch.allclose(earned, env.rules.returns(env.read(data[:, -1]["next"])))
    assert data.shape[1] == env.rules.longest


@pytest.mark.parametrize("kind", [Dice, DiceToTwo])
def test_what_was_earned_before_our_first_move_is_paid_with_it(kind: type[Dice]) -> None:
    """Also where that ended the game: its one step is no move of ours, and says what it was worth."""
    env = GameEnv(kind(4), batch_size=[64], opponent="random", seat=3, seed=2)
    data = env.rollout(12, break_when_any_done=False)
    paid = torch.stack([data["next", p, "reward"].flatten(1) for p in env.rules.players], -1)
    returns, ended, at_once = env.rules.returns(env.read(data["next"])), 0, 0
    for row, over in enumerate(data["next", "done"].squeeze(-1)):
        first = 0
        for last in over.nonzero().flatten().tolist():
            assert torch.allclose(paid[row, first : last + 1].sum(0), returns[row, last])
            at_once += bool(data["done"][row, first])
            assert bool(data["done"][row, first]) != bool(data["p3", "mask"][row, first])
            first, ended = last + 1, ended + 1
    assert ended > 64
    assert (at_once > 10) == (kind is DiceToTwo)
    assert not bool(data["next", "state", "opening_rewards"].any())


def test_what_is_to_be_paid_travels_with_the_position() -> None:
    env = GameEnv(DiceToTwo(4), batch_size=[64], opponent="random", seat=3, seed=2)
    td = env.reset()
    owed = td["state", "opening_rewards"].clone()
    assert torch.equal(owed, env.rules.returns(env.read(td)))
    back = env.reset(env.get_state(td), set_state=True)
    assert bool((back == td).all())
    some = torch.arange(64).unsqueeze(-1) % 2 == 0
    fresh = env.reset(td.clone().set("_reset", some))
    new = fresh["state", "opening_rewards"]
    assert torch.equal(new, env.rules.returns(env.read(fresh)))
    assert torch.equal(new[1::2], owed[1::2])
    assert not torch.equal(new[::2], owed[::2])
    td = env.rand_action(td).set("_step", some.squeeze(-1))
    following = env.step(td)["next"]
    assert torch.equal(following["state", "opening_rewards"][1::2], owed[1::2])
    assert not bool(following["state", "opening_rewards"][::2].any())


def test_an_opponent_that_begins_with_an_illegal_move_has_lost() -> None:
    asked = lambda td: td.set(("x", "action"), torch.full((2, 1), 9))  # noqa: E731
    env = GameEnv(TicTacToe(), batch_size=[2], opponent=asked, seat=1, illegal="lose")
    data = env.rollout(3, break_when_any_done=False)
    assert data["next", "o", "reward"].flatten().tolist() == [1.0] * 6
    assert data["next", "x", "reward"].flatten().tolist() == [-1.0] * 6
    assert [env.outcomes[i] for i in data["next", "outcome"].flatten().tolist()] == ["illegal move"] * 6
    td = env.reset()
    assert bool((env.reset(env.get_state(td), set_state=True) == td).all())


@pytest.mark.parametrize("rows", [2, 300])
def test_a_game_that_an_illegal_move_has_ended_stays_over(rows: int) -> None:
    """When it is stepped, and when others begin anew: its position alone does not say it."""
    env = GameEnv(TicTacToe(), batch_size=[rows], illegal="lose", seed=0)
    td = env.rand_action(env.reset())
    td["x", "action"][1] = 9
    after = env.step_mdp(env.step(td))
    again = env.step(env.rand_action(after.clone()))["next"]
    begun = env.reset(after.clone().set("_reset", torch.arange(rows).unsqueeze(-1) == 0))
    for one in (after, again, begun):
        assert one["done"].flatten().nonzero().flatten().tolist() == [1]
        assert one["outcome"].flatten()[:2].tolist() == [0, len(env.rules.outcomes)]
    assert not bool(again["x", "reward"].any())


def test_a_game_that_an_illegal_move_has_ended_is_kept_as_such() -> None:
    """By ``get_state``, with an opponent; without one no game begins there, as none begins after a move limit."""
    env = GameEnv(ConnectFour(), batch_size=[2], illegal="lose", opponent="random", seed=0)
    td = env.rand_action(env.reset())
    td["x", "action"][1] = 99
    after = env.step_mdp(env.step(td))
    again = env.reset(env.get_state(after), set_state=True)
    assert again["done"].flatten().tolist() == [False, True]
    assert [env.outcomes[i] for i in again["outcome"].flatten()] == ["", "illegal move"]
    assert bool((again == after.select(*again.keys(True, True))).all())
    assert not bool(env.step(env.rand_action(again))["next", "x", "reward"][1].any())
    alone = GameEnv(ConnectFour(), batch_size=[2], illegal="lose")
    td = alone.rand_action(alone.reset())
    td["x", "action"][1] = 99
    after = alone.step_mdp(alone.step(td))
    with pytest.raises(ResetError, match="is True after a reset"):
        alone.reset(alone.get_state(after), set_state=True)
    assert "outcome" not in GameEnv(ConnectFour()).get_state(after).keys()
    first, both = alone.reset(), torch.tensor([True, True])
    for mask, over in ((both, [False, False]), (both & torch.tensor([True, False]), [False, True])):
        assert alone.set_state(first.select("state"), mask, after)["done"].flatten().tolist() == over
    assert alone.set_state(alone.get_state(after), both, first)["done"].flatten().tolist() == [False, True]


@pytest.mark.parametrize("game", [TicTacToe(), ConnectFour()], ids=repr)
def test_a_game_that_the_move_limit_has_ended_says_so_where_it_is_set(game: Rules[Any]) -> None:
    env = GameEnv(game, batch_size=[2], max_plies=2, opponent="random", seed=0)
    after = env.step_mdp(env.step(env.rand_action(env.reset())))
    again = env.reset(env.get_state(after), set_state=True)
    for td in (after, again):
        assert bool(td["truncated"].all())
        assert [env.outcomes[i] for i in td["outcome"].flatten()] == ["move limit"] * 2


@pytest.mark.parametrize("stateful", [True, False])
def test_chess_in_torchrls_layout_refuses_games_that_are_over_before_our_move(stateful: bool) -> None:
    env = ChessEnv(opponent="random", seat=1, max_plies=1, batch_size=[2], stateful=stateful)
    with pytest.raises(ResetError, match=r"has ended the game in row \[0\] before seat 1 has moved \(move limit\)"):
        env.reset()


def test_chance_is_fair_and_differs_between_rows_episodes_and_seeds() -> None:
    env = GameEnv(Dice(2), batch_size=[3000], seed=1)
    first, second = env.reset()["state", "cards"], env.reset()["state", "cards"]
    for cards in (first, second):
        counts = cards.flatten().bincount(minlength=6)
        assert float(((counts - 1000) ** 2 / 1000).sum()) < 20.5  # chi squared, 5 degrees: 0.1 %
    assert 0.1 < float((first == second).float().mean()) < 0.24  # one in six
    assert not torch.equal(GameEnv(Dice(2), batch_size=[3000], seed=2).reset()["state", "cards"], first)


@pytest.mark.parametrize("opponent", [None, "random"])
@pytest.mark.parametrize("rules", [TicTacToe(), Dice(3), DiceAtOnce(2), Chess(chess960=True)], ids=repr)
def test_a_seed_that_an_env_is_made_with_seeds_all_that_is_random(rules: Rules[Any], opponent: Any) -> None:
    layout = GroupedChessEnv if isinstance(rules, Chess) else GameEnv
    make = lambda **options: layout(rules, batch_size=[3], opponent=opponent, **options)  # noqa: E731
    seeded, other = make(), make(seed=4)
    seeded.set_seed(3)
    want = seeded.rollout(6, break_when_any_done=False)
    assert bool((make(seed=3).rollout(6, break_when_any_done=False) == want).all())
    assert not bool((other.rollout(6, break_when_any_done=False) == want).all())


def test_the_chance_of_a_game_is_not_that_of_random_actions() -> None:
    env = GameEnv(Dice(2), batch_size=[4000], seed=1)
    for _ in range(4):  # also in later episodes
        td = env.rand_action(env.reset())
        high = td["state", "cards"][:, 0] >= 3
        for action in range(3):
            share = (td["p0", "action"][high, 0] == action).float().mean()
            assert float(share) == pytest.approx(0.25, abs=0.04)
        pair = torch.stack((td["p0", "action"].squeeze(-1).double(), td["state", "cards"][:, 1].double()))
        assert abs(float(pair.corrcoef()[0, 1])) < 0.06


def test_a_branched_game_of_chance_goes_on_in_the_same_way_whatever_the_batch() -> None:
    env = GameEnv(Dice(3))
    td = env.reset(TensorDict(batch_size=[5]))
    one = env.reset(env.get_state(td)[2].clone(), set_state=True)
    for _ in range(6):
        td, one = env.rand_action(td), one.update(env.rand_action(td)[2].select(*env.action_keys))
        td, one = (env.step_and_maybe_reset(x)[1] for x in (td, one))
        assert bool((td[2] == one).all())


def test_an_opponent_may_not_see_more_than_a_player_of_its_seat() -> None:
    asked = []

    def policy(td: TensorDict) -> TensorDict:
        asked.append(td["p1", "observation"])
        return td.set(("p1", "action"), torch.zeros(td.batch_size + (1,), dtype=torch.int64))

    env = GameEnv(Dice(2), batch_size=[4], opponent=policy, seat=0, seed=0)
    td = env.rand_step(env.reset())
    assert torch.equal(asked[0][:, 0, 0], td["state", "cards"][:, 1].float())
    assert bool((td["next", "turn"] == 0).all())
    silent = GameEnv(Dice(2), batch_size=[4], opponent=lambda td: td, seat=0)
    with pytest.raises(KeyMissing, match=r"the opponent wrote no \('p1', 'action'\), the action of p1"):
        silent.rand_step(silent.reset())


@pytest.mark.parametrize("seat", [0, 1])
def test_with_an_opponent_a_policy_of_one_seat_is_enough(seat: int) -> None:
    me, other = ("x", "o")[seat], ("x", "o")[1 - seat]

    class InTheMiddle(torch.nn.Module):  # a function of observations writes where the opponent's actions are
        def forward(self, x_observation: torch.Tensor) -> torch.Tensor:
            return torch.full((3, 1), 3)

    env = GameEnv(ConnectFour(), batch_size=[3], opponent=InTheMiddle(), seat=seat)
    assert env.action_keys == [(me, "action")]
    td = env.reset()
    assert (other, "action") not in td.keys(True)
    data = env.rollout(4, lambda td: td.set((me, "action"), torch.full((3, 1), 0)))
    assert (other, "action") not in data.keys(True)
    filled = data[me, "observation"][:, -1, 0, :2].flatten(2)  # own stones, the other's, of 6 times 7 cells
    assert set(filled[:, 0].nonzero()[:, 1].remainder(7).tolist()) == {0}
    assert set(filled[:, 1].nonzero()[:, 1].remainder(7).tolist()) == {3}


def test_a_policy_per_row_that_writes_nothing_is_named() -> None:
    play = lambda td: td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1))  # noqa: E731

    def sleep(td: TensorDict) -> TensorDict:
        return td

    which = torch.tensor([0, 1, 0, 1])
    env = GameEnv(ConnectFour(), batch_size=[4], opponent=PolicyPerRow([play, sleep], which))
    td = env.reset().set(("x", "action"), torch.zeros(4, 1, dtype=torch.int64))
    with pytest.raises(KeyMissing, match=r"PolicyPerRow: policy 1 \(sleep\), which plays rows \[1, 3\], wrote nothing"):
        env.step(td)
    notes = lambda td: td.set(("x", "action"), td["x", "action_mask"].int().argmax(-1))  # noqa: E731
    per_row = PolicyPerRow([play, notes], which)
    with pytest.raises(
        KeyMissing, match=r"policy 1 \(<lambda>\), which plays rows \[1, 3\], wrote no \('o', 'action'\)"
    ):
        per_row(env.reset())
    scored = PolicyPerRow([play, lambda td: play(td).set("value", torch.ones(2))], which)(env.reset())
    assert scored["value"].isnan().tolist() == [True, False, True, False]


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_policies_per_row_may_decide_under_inference_mode(mode: Any) -> None:
    left = lambda td: td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1))  # noqa: E731
    env = GameEnv(ConnectFour(), batch_size=[4], opponent=PolicyPerRow([left, left], torch.tensor([0, 1, 1, 0])))
    with mode():
        td = env.rand_action(env.reset())
        assert env.step(td)["next", "x", "observation"].shape[0] == 4
    env.step(td)  # from data of inference


def test_different_rows_can_have_different_opponents() -> None:
    left = lambda td: td.set(("o", "action"), td["o", "action_mask"].int().argmax(-1))  # noqa: E731
    right = lambda td: td.set(("o", "action"), 6 - td["o", "action_mask"].int().flip(-1).argmax(-1))  # noqa: E731
    env = GameEnv(ConnectFour(), batch_size=[4], opponent=PolicyPerRow([left, right], torch.tensor([0, 1, 1, 0])))
    td = env.reset()
    td["x", "action"] = torch.full((4, 1), 3)
    board = env.step(td)["next", "x", "observation"][:, 0, 1, -1]
    assert board.argmax(-1).tolist() == [0, 6, 6, 0]


def test_illegal_moves_name_the_player_and_what_is_legal() -> None:
    env = GameEnv(DiceAtOnce(3), batch_size=[2], seed=0)
    td = env.reset()
    td["state", "cards"] = torch.tensor([[5, 5, 5], [5, 0, 5]])
    for player in env.rules.players:
        td[player, "action"] = torch.full((2, 1), 3)
    with pytest.raises(
        IllegalAction, match=r"action 3 \(3\) of player 'p1' in row \[1\] is illegal; legal are \['0', '1', '2'\]"
    ):
        env.step(td)
    lose = GameEnv(DiceAtOnce(3), batch_size=[2], illegal="lose")
    out = lose.step(td)["next"]
    assert out["terminated"].flatten().tolist() == [False, True]
    assert [float(out[p, "reward"][1]) for p in env.rules.players] == [0.0, -1.0, 0.0]
    assert lose.outcomes[int(out["outcome"][1])] == "illegal move"


@pytest.mark.parametrize("make", [ChessEnv, TicTacToeEnv, lambda: GameEnv(ConnectFour()), lambda: GameEnv(Dice())])
def test_a_fraction_is_no_choice(make: Callable[[], Any]) -> None:
    env = make()
    td = env.rand_action(env.reset())
    for key in env.action_keys:
        td[key] = torch.full_like(td[key], 1.5, dtype=torch.float32)
    with pytest.raises(
        DtypeError, match=r"step: action .* must be torch.int64, got torch.float32; it is the number of"
    ):
        env.step(td)


def test_those_who_do_not_act_may_write_anything() -> None:
    env = GameEnv(Dice(3), batch_size=[8], seed=0)
    td = env.rand_action(env.reset())
    other = td.clone()
    other["p1", "action"] = torch.full((8, 1), 3)
    other["p2", "action"] = torch.full((8, 1), 2)
    assert bool((env.step(td)["next"] == env.step(other)["next"]).all())
    assert bool(td["p1", "action_mask"].all())
    assert not bool(td["p1", "mask"].any())


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: TicTacToeEnv(batch_size=[128]),
        lambda: marlenv.make("chess", batch_size=[64], seed=0),
        lambda: GameEnv(ConnectFour(), batch_size=[64]),
    ],
    ids=["tictactoe", "chess", "connect_four"],
)
def test_what_the_caller_wrote_under_next_is_there_in_the_next_step(make: Callable[[], Any]) -> None:
    """Also where games end and begin anew in the call that plays."""
    env = make()
    env.set_seed(0)
    td, ended = env.reset(), False
    for i in range(16):
        td = env.rand_action(td)
        td["mine"] = torch.full(td.batch_size, i)
        td["next"] = TensorDict({"mine": torch.full(td.batch_size, 100 + i)}, td.batch_size)
        played, td = env.step_and_maybe_reset(td)
        ended |= bool(played["next", "done"].any())
        assert bool((played["next", "mine"] == 100 + i).all())
        assert bool((td["mine"] == 100 + i).all())
    assert ended or isinstance(env.rules, Chess)


MADE = {
    "chess": (ChessEnv, ChessEnv),
    "chess, all options": (
        lambda: ChessEnv(
            stateful=False, include_pgn=True, include_hash=True, mask_actions=False, pixels=True, opponent="random"
        ),
        ChessEnv,
    ),
    "chess, torchrl by name": (lambda: marlenv.make("chess", layout="torchrl"), ChessEnv),
    "chess, grouped": (lambda: GroupedChessEnv(Chess()), GroupedChessEnv),
    "chess, grouped by name": (lambda: marlenv.make("chess"), GroupedChessEnv),
    "tic-tac-toe": (TicTacToeEnv, TicTacToeEnv),
    "tic-tac-toe, single player": (lambda: TicTacToeEnv(single_player=True, batch_size=[2]), TicTacToeEnv),
    "tic-tac-toe, torchrl by name": (lambda: marlenv.make("tic_tac_toe", layout="torchrl"), TicTacToeEnv),
    "tic-tac-toe by name": (lambda: marlenv.make("tic_tac_toe"), GameEnv),
    "any game": (lambda: GameEnv(ConnectFour()), GameEnv),
}


@pytest.mark.parametrize("name", MADE)
def test_an_env_is_what_was_asked_for_and_is_finished_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, kind = MADE[name]
    finished, finish = [], kind._finish_init
    monkeypatch.setattr(kind, "_finish_init", lambda env, locked: (finished.append(env), finish(env, locked)))
    env = make()
    assert type(env) is kind
    assert len(finished) == 1
    assert finished[0] is env
    assert env.is_spec_locked


@pytest.mark.parametrize("game", ["chess", "tic_tac_toe", "kuhn_poker"])
def test_a_layout_that_a_game_has_not_is_refused(game: str) -> None:
    with pytest.raises(SpecError, match="layout='torch'; "):
        marlenv.make(game, layout="torch")
    if game == "kuhn_poker":
        with pytest.raises(SpecError, match="layout='torchrl'; "):
            marlenv.make(game, layout="torchrl")


def test_chess_with_torchrls_keys_says_where_the_other_layout_is() -> None:
    with pytest.raises(SpecError, match=r"needs layout='grouped': make\('chess', layout='grouped'"):
        ChessEnv(layout="grouped")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.permutations(range(9)), min_size=1, max_size=6),
    st.integers(0, 9),
    st.integers(1, 9),
    st.integers(0, 63),
)
def test_flags_of_a_time_step_fit_each_other(orders: list[list[int]], plies: int, limit: int, forfeits: int) -> None:
    rules, rows = TicTacToe(), len(orders)
    state = rules.start(Size([rows]))
    for t in range(plies):
        state = rules.play(state, torch.tensor(orders)[:, t])
    forfeit = torch.tensor([bool(forfeits >> row & 1) for row in range(rows)])
    played = torch.full((rows,), plies)
    after = TimeStep.following(rules, state, rules.returns(state), forfeit=forfeit, plies=played, limit=limit)
    assert torch.equal(after.terminated, rules.over(state) | forfeit)
    assert not bool((after.terminated & after.truncated).any())
    assert torch.equal(after.done, after.terminated | after.truncated)
    assert torch.equal(after.done, after.outcome != 0)
    assert torch.equal(after.done, rules.over(state) | forfeit | (played >= limit))
    first = TimeStep.first(rules, state, plies=played, limit=limit)
    assert first.rewards is None
    assert torch.equal(first.done, rules.over(state) | (played >= limit))
    both = first.then(after, forfeit)
    assert torch.equal(both.terminated, first.terminated | (after.terminated & forfeit))
    assert both.as_first().rewards is None
