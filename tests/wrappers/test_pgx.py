"""Pgx through the wrapper, compared move by move with the raw games, compiled and mapped over rows by hand."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from rows import copies_go_on, entry_of, equal, state_is_a_value
from sizes import some

import marlenv
from marlenv.errors import IllegalAction, KeyMissing, NeedsReset, ShapeError, SpecError, UnknownName
from marlenv.optional import has, need
from marlenv.testing import run_contract
from marlenv.wrappers.pgx import PgxEnv, PgxWrapper

pytestmark = [
    pytest.mark.sim,
    pytest.mark.slow,
    pytest.mark.skipif(not has("pgx"), reason="needs Pgx: VENV=.venv tests/simulators.sh pgx"),
]

QUICK = ["tic_tac_toe", "connect_four", "kuhn_poker", "leduc_holdem", "backgammon", "2048", "sparrow_mahjong"]
LONG = ["othello", "hex", "go_9x9", "animal_shogi", "minatar-breakout", "minatar-freeway", "gardner_chess", "chess"]


@lru_cache
def sim_of(name: str) -> Any:
    """One simulator for all envs of a name."""
    return need("pgx", "test").make(name)


@lru_cache
def by_hand(name: str) -> Any:
    """A raw game: how it begins, how it goes on, and what each player sees; compiled, and mapped over rows."""
    jax, sim = need("jax", "test"), sim_of(name)

    def seen(state: Any) -> Any:
        return [sim.observe(state, i) for i in range(sim.num_players)]

    return tuple(jax.jit(jax.vmap(f)) for f in (sim.init, sim.step, seen))


class Hand:
    """Games played by hand, with the keys that the wrapper documents."""

    def __init__(self, name: str, rows: int, seed: int) -> None:
        jax = need("jax", "test")
        self.begin, self.advance, self.seen = by_hand(name)
        self.players = sim_of(name).num_players
        self.split = jax.vmap(jax.random.split)
        self.keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.PRNGKey(seed), i))(np.arange(rows))

    def draw(self) -> Any:
        both = self.split(self.keys)
        self.keys = both[:, 0]
        return both[:, 1]

    def reset(self) -> None:
        self.state = self.begin(self.draw())

    def step(self, actions: np.ndarray) -> None:
        self.state = self.advance(self.state, actions, self.draw())


def compare(env: PgxWrapper, td: Any, hand: Hand, *, paid: bool) -> None:
    state = hand.state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        seen = hand.seen(state)
    over = np.asarray(state.terminated)
    mover = np.where(over, -1, np.asarray(state.current_player))
    equal(td["current_player"], mover, "current_player")
    for i, player in enumerate(env.agent_names):
        equal(entry_of(env, td, player, "observation"), seen[i], (player, "observation"))
        acts = mover == i
        equal(entry_of(env, td, player, "mask"), acts, (player, "mask"))
        equal(entry_of(env, td, player, "alive"), ~over, (player, "alive"))
        legal = np.asarray(state.legal_action_mask) | ~acts[:, None]
        equal(entry_of(env, td, player, "action_mask"), legal, (player, "action_mask"))
        equal(entry_of(env, td, player, "done"), over, (player, "done"))
        if paid:
            equal(entry_of(env, td, player, "reward"), np.asarray(state.rewards)[:, i], (player, "reward"))
    equal(td["done"], over, "done")


def follow(name: str, seed: int, *, moves: int, rows: int = 8, **options: Any) -> int:
    """Plays random moves with rows that go on when they are over; how many games ended."""
    env, hand = PgxWrapper(sim_of(name), num_envs=rows, seed=seed, **options), Hand(name, rows, seed)
    td = env.reset()
    hand.reset()
    compare(env, td, hand, paid=False)
    for _ in range(moves):
        td = env.rand_action(td)
        chosen = np.stack([number_of(env, td, name) for name in env.agent_names])
        mover = np.maximum(td["current_player"].numpy(), 0)
        hand.step(chosen[mover, np.arange(rows)].astype(np.int32))
        td = env.step_mdp(env.step(td))
        compare(env, td, hand, paid=False)
        if bool(td["done"].all()):
            break
    return int(td["done"].sum())


def number_of(env: PgxWrapper, td: Any, player: str) -> np.ndarray:
    action = entry_of(env, td, player, "action")
    return (action if env.categorical_actions else action.int().argmax(-1)).numpy()


@pytest.mark.parametrize("name", some(QUICK, 3))
def test_whole_games_are_the_simulators(name: str) -> None:
    assert follow(name, 5, moves=600) >= 6


@pytest.mark.parametrize("name", some(LONG, 2))
def test_the_moves_of_long_games_are_the_simulators(name: str) -> None:
    follow(name, 5, moves=40)


@pytest.mark.parametrize("name", ["connect_four", "leduc_holdem"])
def test_every_player_is_paid_in_every_step_whoever_moves(name: str) -> None:
    env, hand = PgxWrapper(sim_of(name), num_envs=8, seed=2), Hand(name, 8, 2)
    td, paid = env.reset(), 0
    hand.reset()
    while not td["done"].any():
        td = env.step(env.rand_action(td))
        mover = td["current_player"].long()
        hand.step(td["agents", "action"].gather(1, mover[:, None])[:, 0].int().numpy())
        compare(env, td["next"], hand, paid=True)
        paid += int((td["next", "agents", "reward"] != 0).all(1).sum())
        td = env.step_mdp(td)
    assert paid > 0


def test_groups_are_as_they_are_asked_for() -> None:
    groups = {"seconds": ["player_1"], "all": {"firsts": ["player_0"]}}
    follow("tic_tac_toe", 3, moves=9, group_map=groups, categorical_actions=False)
    assert follow("sparrow_mahjong", 4, moves=300, group_map="one_group_per_agent") == 8


@pytest.mark.parametrize(("ours", "theirs"), [("tic_tac_toe", "tic_tac_toe"), ("connect_four", "connect_four")])
def test_the_rules_are_those_of_the_native_game(ours: str, theirs: str) -> None:
    native, env = marlenv.make(ours, num_envs=32, seed=0), PgxWrapper(sim_of(theirs), num_envs=32, seed=1)
    first, second = native.group_map
    td, other, won = native.reset(), env.reset(), 0
    order = torch.stack([other["current_player"], 1 - other["current_player"]], 1).long()  # who has which colour
    while not td["done"].all():
        native.rand_action(td)
        at = torch.arange(32)
        turn = td["turn"].reshape(-1).clamp(min=0)
        action = torch.where(turn == 0, td[first, "action"].reshape(-1), td[second, "action"].reshape(-1))
        live = ~td["done"].reshape(-1)
        mine = torch.where((turn == 0)[:, None], td[first, "action_mask"][:, 0], td[second, "action_mask"][:, 0])
        assert torch.equal(mine[live], other["agents", "action_mask"][at, order[at, turn]][live])
        other["agents", "action"] = action[:, None].expand(32, 2).clone()
        td, other = native.step(td)["next"], env.step(other)["next"]
        assert torch.equal(td["done"], other["done"])
        for k, player in enumerate((first, second)):
            assert torch.equal(td[player, "reward"].reshape(-1), other["agents", "reward"][at, order[:, k]].reshape(-1))
        won += int((td[first, "reward"] != 0).sum())
    assert won > 10


def placed(env: PgxWrapper, **entries: Any) -> Any:
    """The env in the position that it is in, with other numbers in its state; the data to go on from."""
    state = env.get_state()
    for name, value in entries.items():
        state["state", *name.split("__")].fill_(value)
    return env.set_state(state)


@pytest.mark.parametrize(
    ("name", "counters", "limit"),
    [
        ("chess", ["_x__step_count"], 512),
        ("gardner_chess", ["_step_count"], 256),
        ("animal_shogi", ["_step_count"], 256),
        pytest.param("shogi", ["_x__step_count"], 512, marks=pytest.mark.full),
    ],
)
def test_the_limit_of_a_games_moves_truncates(name: str, counters: list[str], limit: int) -> None:
    env = PgxWrapper(sim_of(name), num_envs=2, seed=0)
    env.reset()
    td = placed(env, **dict.fromkeys(counters, limit - 2))
    td = env.step_mdp(env.rand_step(td))
    assert not td["done"].any()
    td = env.rand_step(td)["next"]
    assert td["truncated"].all()
    assert td["agents", "truncated"].all()
    assert not td["terminated"].any()


def test_the_time_of_freeway_truncates() -> None:
    env = PgxWrapper(sim_of("minatar-freeway"), num_envs=2, seed=0)
    env.reset()
    td = placed(env, _terminate_timer=1)
    for _ in range(3):
        td = env.step_mdp(env.rand_step(td))
        if td["done"].any():
            break
    assert td["truncated"].all()
    assert not td["terminated"].any()


def test_a_game_of_go_that_ends_by_the_rules_in_the_last_move_has_terminated() -> None:
    sim = need("pgx.go", "test").Go(size=3, komi=0.5, max_terminal_steps=4)
    passing = 9
    for moves, won in (([0, 4, passing, passing], True), ([0, 4, 8, 2], False)):
        env = PgxWrapper(sim, num_envs=1, seed=0)
        td = env.reset()
        for move in moves:
            assert not td["done"].any()
            td["agents", "action"] = torch.full((1, 2), move)
            td = env.step(td)["next"]
        assert (bool(td["terminated"]), bool(td["truncated"])) == (won, not won)
        assert td["agents", "reward"].abs().sum() == 2


def test_an_illegal_move_loses_even_in_the_last_move() -> None:
    sim = need("pgx.go", "test").Go(size=3, komi=0.5, max_terminal_steps=2)
    env = PgxWrapper(sim, num_envs=1, seed=0)
    td = env.reset()
    for _ in range(2):  # the second stone where the first one is
        td["agents", "action"] = torch.zeros(1, 2, dtype=torch.int64)
        mover, td = int(td["current_player"]), env.step(td)["next"]
    assert bool(td["terminated"])
    assert td["agents", "reward"][0, mover] == -1
    assert td["agents", "reward"][0, 1 - mover] == 1


def test_a_time_limit_of_the_wrapper_truncates() -> None:
    data = PgxWrapper(sim_of("tic_tac_toe"), num_envs=2, seed=0, max_steps=3).rollout(5)["next"]
    assert data["truncated"].squeeze(-1).tolist() == [[False, False, True]] * 2
    assert not data["terminated"].any()


@pytest.mark.parametrize("name", ["tic_tac_toe", "leduc_holdem", "2048"])
def test_the_contract_holds(name: str) -> None:
    found = run_contract(lambda: PgxWrapper(sim_of(name), num_envs=3))
    broken = [f"{r.name}: {r.says}" for r in found if r.verdict == "broken"]
    assert not broken, "\n".join(broken)


def test_a_row_does_not_know_how_many_rows_there_are() -> None:
    few, many = (PgxWrapper(sim_of("backgammon"), num_envs=n, seed=7).rollout(9) for n in (2, 5))
    for key in ("current_player", ("agents", "observation")):
        assert torch.equal(few[key], many[key][:2])


def test_steps_are_compiled_once() -> None:
    env = PgxWrapper(sim_of("tic_tac_toe"), num_envs=3, seed=0)
    env.rollout(20, break_when_any_done=False)
    assert [f._cache_size() for f in (env._functions.start, env._functions.step, env._functions.restart)] == [1, 1, 1]


def test_a_state_is_a_value() -> None:
    env = PgxWrapper(sim_of("backgammon"), num_envs=2, seed=3)
    state_is_a_value(env)
    with pytest.raises(NeedsReset, match="call reset"):
        PgxWrapper(sim_of("backgammon")).get_state()


def test_copies_and_pickles_go_on_as_the_env_does() -> None:
    env = PgxWrapper(sim_of("backgammon"), num_envs=2, seed=3)
    copies_go_on(env, env.rand_action(env.step_mdp(env.rand_step(env.reset()))))


def test_pgx_draws_the_games(tmp_path: Any) -> None:
    env = PgxWrapper(sim_of("tic_tac_toe"), num_envs=2, seed=0)
    with pytest.raises(NeedsReset, match="call reset"):
        _ = env.sim_state
    env.rollout(3)
    env.sim_state.save_svg(tmp_path / "games.svg")
    assert (tmp_path / "games.svg").read_text().count("<circle") >= 2


def test_envs_are_made_by_name() -> None:
    env = marlenv.make("pgx/kuhn_poker", num_envs=4, seed=0)
    assert env.rollout(2)["next", "agents", "reward"].shape == (4, 2, 2, 1)
    assert {"go_19x19", "shogi", "minatar-seaquest"} <= set(PgxEnv.available_envs)
    with pytest.raises(UnknownName, match="PgxEnv: Pgx has no game 'go_9x8'; did you mean 'go_9x9'"):
        PgxEnv("go_9x8")
    with pytest.raises(TypeError, match=r"^PgxEnv has no option 'komi'; .*pgx\.make takes no options: PgxWrapper"):
        PgxEnv("go_9x9", komi=5.5)
    with pytest.raises(SpecError, match=r"PgxWrapper: expected a pgx\.Env, got str; PgxEnv takes names"):
        PgxWrapper("go_9x9")
    with pytest.raises(ShapeError, match=r"PgxEnv: batch_size must be \[num_envs\], with a row or more, got \[\]"):
        PgxEnv("tic_tac_toe", batch_size=[])


def test_a_draw_by_repetition_in_animal_shogi_has_terminated() -> None:
    """Its limit is far: the pieces went to and fro until a position came the third time."""
    env = PgxWrapper(sim_of("animal_shogi"), num_envs=1, seed=0)
    td = env.reset()
    for move in (7, 7, 75, 86, 19, 7, 75, 86, 19):
        assert not td["done"].any()
        td["agents", "action"] = torch.full((1, 2), move)
        td = env.step(td)["next"]
    assert (bool(td["terminated"]), bool(td["truncated"])) == (True, False)
    assert not td["agents", "reward"].any()


def test_nothing_happens_in_rows_that_are_over() -> None:
    env = PgxWrapper(sim_of("tic_tac_toe"), num_envs=8, seed=0, max_steps=5)
    td = env.reset()
    for _ in range(5):
        td = env.rand_step(td)["next"]
    assert td["done"].all()
    last, board = td.clone(), env.get_state()["state", "_x", "board"]
    for _ in range(4):
        td = env.rand_step(td)["next"]
        assert not td["agents", "reward"].any()
    assert torch.equal(env.get_state()["state", "_x", "board"], board)
    assert bool((td.exclude(("agents", "reward")) == last.exclude(("agents", "reward"))).all())


def test_what_is_no_action_is_an_error_of_whoever_moves() -> None:
    env = PgxWrapper(sim_of("tic_tac_toe"), num_envs=2, seed=0)
    td, wait = env.reset(), -7  # what the others give is not read
    mover = td["current_player"].long()
    for number in (9, -1, 2**40 + 3):
        action = torch.full((2, 2), wait)
        action[1, mover[1]], action[0, mover[0]] = number, 3
        words = rf"PgxWrapper.step: .* 'player_{mover[1]}' in row 1 must be a number from 0 to below 9, got {number}$"
        with pytest.raises(IllegalAction, match=words):
            env.step(td.clone().set(("agents", "action"), action))
    action[1, mover[1]] = 3
    assert env.step(td.clone().set(("agents", "action"), action))["next", "agents", "observation"][
        ..., 3 // 3, 0, :
    ].any()
    hot = PgxWrapper(sim_of("tic_tac_toe"), num_envs=2, seed=0, categorical_actions=False)
    for vector in (torch.zeros(9), torch.ones(9)):
        given = hot.reset().set(("agents", "action"), vector.long().expand(2, 2, 9).clone())
        with pytest.raises(IllegalAction, match="in row 0 must be one-hot, got"):
            hot.step(given)


def test_a_state_of_another_game_is_refused() -> None:
    env, other = (PgxWrapper(sim_of(name), num_envs=2) for name in ("tic_tac_toe", "kuhn_poker"))
    env.reset(), other.reset()
    with pytest.raises(KeyMissing, match=r"PgxWrapper.set_state: the state has no 'steps'; give it as an env of the"):
        env.set_state(env.get_state().exclude("steps"))
    with pytest.raises(ShapeError, match=r"PgxWrapper.set_state: .* must have shape \[2, 3, 3, 2\], got \[2, 7\]"):
        env.set_state(other.get_state())
