"""The arena on envs: the same games as rules play them, any number of rows, teams, seats, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import Compose, DropMessages, NoopResetEnv, RandomTruncationTransform, StepCounter, TransformedEnv
from marlenv.errors import IllegalAction, SpecError
from marlenv.games import KuhnPoker, TicTacToe
from marlenv.tournament import ENDINGS, Arena, Game, ModulePlayer, Turn, cross_play_teams, random_player, round_robin
from marlenv.tournament.streams import CHANCE, streams


def first_legal(turn: Turn) -> torch.Tensor:
    return turn.legal.int().argmax(-1)


def last_legal(turn: Turn) -> torch.Tensor:
    return turn.legal.shape[-1] - 1 - turn.legal.flip(-1).int().argmax(-1)


PLAYERS = {"first": first_legal, "last": last_legal, "random": random_player}


def test_open_spiels_tic_tac_toe_is_ours() -> None:
    """OpenSpiel numbers the squares in the same order, so every game must have the same moves and returns."""
    pytest.importorskip("pyspiel")
    games = round_robin(list(PLAYERS), double=True)
    ours = Arena(TicTacToe(), PLAYERS, seed=5, record=True).play(games)
    theirs = Arena(lambda: marlenv.make("open_spiel/tic_tac_toe"), PLAYERS, rows=4, seed=5).play(games)
    assert torch.equal(ours.returns, theirs.returns)
    assert torch.equal(ours.plies, theirs.plies)
    assert any(ours.returns[:, 0] != ours.returns[0, 0])


def test_open_spiels_kuhn_poker_pays_what_the_policies_are_worth() -> None:
    """Both always bet (or call): the first earns 2 with the higher card, so 0 on average, and every game is worth 2."""
    pytest.importorskip("pyspiel")
    games = [Game(k, ("last", "last")) for k in range(60)]
    arena = Arena(lambda: marlenv.make("open_spiel/kuhn_poker", categorical_actions=True), PLAYERS, rows=8)
    played = arena.play(games)
    assert played.returns.abs().eq(2).all()
    assert len(played.returns[:, 0].unique()) == 2  # the deal differs from game to game
    one = Arena(lambda: marlenv.make("open_spiel/kuhn_poker"), PLAYERS, rows=1).play(games[:20])
    assert torch.equal(one.returns, played.returns[:20])


@pytest.mark.parametrize("seats", ["groups", "agents"])
def test_a_batched_scenario_plays_the_same_games_at_any_batch_size(seats: str) -> None:
    def left(turn: Turn) -> torch.Tensor:
        return torch.full((*turn.data.batch_size, 2), -0.5)

    players, plain = {"left": left, "random": random_player}, None
    for rows in (1, 3, 8):
        env = marlenv.make("simple_tag", num_envs=rows, max_steps=6, compile="none")
        arena = Arena(env, players, seed=2, seats=seats)
        games = cross_play_teams(
            list(players), {name: [name] for name in arena.seats} if seats == "groups" else env.group_map
        )
        played = arena.play(games + [Game(9, games[1].players, chance=0)])
        assert played.plies.tolist() == [6] * 5
        assert played.cut.all()
        plain = plain or played
        for got, want in zip(played[1:6], plain[1:6], strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert len(plain.digest.unique()) == 5
    assert plain.returns.shape == (5, len(arena.seats))


def by_what_it_hears(turn: Turn) -> torch.Tensor:
    """Whoever is told something else plays something else."""
    seen = turn.data["observation"].double().abs().sum(-1, keepdim=True) * 1e4
    return turn.spec.low + (seen.long() % 97).float() / 96 * (turn.spec.high - turn.spec.low)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chain",
    [
        lambda: DropMessages(0.5),
        lambda: NoopResetEnv(3),
        lambda: Compose(StepCounter(), RandomTruncationTransform(2, 9, prob=0.5, first_episode_prob=0.1)),
        lambda: Compose(NoopResetEnv(2), DropMessages(0.5), DropMessages(0.5, mode="last")),
    ],
    ids=["messages", "idle steps", "limits", "several"],
)
def test_what_transforms_draw_belongs_to_the_game(chain) -> None:
    """As many rows as one likes, and whatever was played in them before."""
    games, first = [Game(k, ("a", "a")) for k in range(8)], None
    for rows in (1, 3, 5):
        env = marlenv.make("simple_reference", num_envs=rows, max_steps=9, compile="none")
        arena = Arena(TransformedEnv(env, chain()), {"a": by_what_it_hears}, seed=4)
        for _ in range(2):
            played = arena.play(games)
            first = first or played
            for got, want in zip(played[1:6], first[1:6], strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert len(first.digest.unique()) == 8


def test_random_limits_of_games_are_those_of_a_first_episode() -> None:
    """Which are drawn from 1 on, all equally likely."""
    env = marlenv.make("simple_reference", num_envs=16, max_steps=9, compile="none")
    chain = Compose(StepCounter(), RandomTruncationTransform(3, 4))
    played = Arena(TransformedEnv(env, chain), {"a": random_player}).play([Game(k, ("a", "a")) for k in range(200)])
    counts = played.plies.bincount(minlength=5)
    assert counts.sum() == counts[1:5].sum() == 200
    assert (counts[1:5] - 50).abs().max() < 25  # four deviations


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


GAMES = [Game(k, ("r", "r")) for k in range(5)]


def outcomes(rows: int) -> list[torch.Tensor]:
    env = marlenv.make("simple_tag", num_envs=rows, max_steps=3, compile="none")
    played = [
        Arena(TicTacToe(), {"r": random_player}, rows=rows).play(GAMES),
        Arena(env, {"r": lambda turn: torch.full((*turn.data.batch_size, 2), 0.25)}).play(GAMES),
    ]
    assert all(one.returns.dtype == torch.float32 for one in played)
    return [played[0].returns, played[0].digest, played[1].digest, played[1].plies]


PLAIN = outcomes(2)


@pytest.mark.usefixtures("double")
def test_games_are_the_same_where_float64_is_the_default() -> None:
    for rows in (2, 5):
        for got, want in zip(outcomes(rows), PLAIN, strict=True):
            assert torch.equal(got, want)


def test_the_arena_earns_what_a_rollout_earns() -> None:
    env = marlenv.make("simple_spread", num_envs=2, max_steps=5, compile="none")

    def still(turn: Turn) -> torch.Tensor:
        return torch.zeros((*turn.data.batch_size, 2))

    returns = Arena(env, {"still": still}, seed=1).play([Game(4, ("still",) * 3)]).returns
    again = marlenv.make("simple_spread", num_envs=1, max_steps=5, compile="none")
    from marlenv.tournament.streams import CHANCE, streams

    again.reset()
    state = again.get_state()
    state["rng"] = torch.stack([streams(1, torch.tensor([4]), CHANCE), torch.zeros(1, dtype=torch.int64)], -1)
    again.set_state(state)

    def zeros(td):
        return td.set(again.action_key, torch.zeros(1, 3, 2))

    earned = again.rollout(5, zeros, auto_reset=True)["next", again.reward_key].sum(1)
    torch.testing.assert_close(returns, earned.reshape(1, -1).expand(1, 3))


def test_a_seat_of_several_agents_is_asked_once_and_sees_their_data() -> None:
    env, shapes = marlenv.make("simple_tag", num_envs=2, max_steps=2, compile="none"), []

    def pair(turn: Turn) -> torch.Tensor:
        shapes.append((tuple(turn.data["observation"].shape), turn.seat.tolist()))
        return torch.zeros((*turn.data.batch_size, 2))

    seats = {"two": ["adversary_0", "adversary_2"], "one": ["adversary_1"], "prey": ["agent_0"]}
    arena = Arena(env, {"p": pair}, seats=seats)
    arena.play([Game(0, ("p", "p", "p"))])
    assert shapes[:3] == [((1, 2, 16), [0]), ((1, 1, 16), [1]), ((1, 1, 14), [2])]


def test_a_policy_with_group_keys_plays_as_it_was_trained() -> None:
    env = marlenv.make("simple_tag", num_envs=2, max_steps=3, compile="none")

    def module(td):
        seen = td["adversary", "observation"]
        return td.set(("adversary", "action"), seen[..., :2].clamp(-1, 1))

    def plain(turn: Turn) -> torch.Tensor:
        return turn.data["observation"][..., :2].clamp(-1, 1)

    games = [Game(0, ("a", "r")), Game(1, ("b", "r"), chance=0)]
    players = {"a": ModulePlayer(module, group="adversary"), "b": plain, "r": plain}
    played = Arena(env, players).play(games)
    assert torch.equal(played.returns[0], played.returns[1])
    assert torch.equal(played.digest[0], played.digest[1])


class Counting(torch.nn.Module):
    """Writes how often it was asked in this game into its memory, and plays by it."""

    def forward(self, td: TensorDict) -> TensorDict:
        assert torch.equal(td["is_init"].squeeze(-1), td["count"].squeeze(-1) == 0)
        td["next", "count"] = td["count"] + 1
        legal = td["action_mask"].float()
        wanted = td["count"].long() * 4 % 9  # another square at each turn
        td["action"] = (legal + torch.nn.functional.one_hot(wanted.squeeze(-1), 9) * legal).argmax(-1)
        return td


@pytest.mark.parametrize("rows", [1, 4, 64])
def test_recurrent_players_remember_each_game_alone(rows: int) -> None:
    players = {
        "counts": ModulePlayer(Counting(), memory={"count": torch.zeros(1)}),
        "random": random_player,
    }
    games = round_robin(list(players), double=True, cycles=10) + [Game(99, ("counts", "counts"))]
    played = Arena(TicTacToe(), players, rows=rows, seed=1, record=True).play(games)
    for game, moves in zip(played.games, played.moves, strict=True):
        taken: set[int] = set()
        for ply, (move,) in enumerate(moves):
            if game.players[ply % 2] == "counts":
                wanted = (ply // 2) * 4 % 9
                free = [s for s in range(9) if s not in taken]
                assert move == (wanted if wanted in free else free[0])
            taken.add(move)


def fails_on_corner(turn: Turn) -> torch.Tensor:
    if bool(turn.legal[:, 0].logical_not().any()):
        raise RuntimeError("no corner left")
    return last_legal(turn)


@pytest.mark.parametrize("rows", [1, 16])
def test_failures_lose_the_game_in_which_they_happen(rows: int) -> None:
    def illegal(turn: Turn) -> torch.Tensor:
        return torch.where(turn.games % 2 == 0, 99, first_legal(turn))

    players = {"first": first_legal, "illegal": illegal, "fails": fails_on_corner}
    games = [Game(k, ("first", "fails")) for k in range(3)] + [Game(k, ("illegal", "first")) for k in range(3, 7)]
    played = Arena(TicTacToe(), players, rows=rows, forfeits=True).play(games)
    assert played.ending.tolist() == [4, 4, 4, 0, 3, 0, 3]
    assert played.culprit.tolist() == [1, 1, 1, -1, 0, -1, 0]
    assert played.returns[:3].tolist() == [[1, -1]] * 3
    assert played.plies.tolist()[:3] == [1, 1, 1]
    assert played.scores().tolist()[4] == 0
    with pytest.raises(RuntimeError, match="no corner left") as error:
        Arena(TicTacToe(), players).play(games[:1])
    assert error.value.__notes__ == ["while player 'fails' was to move"]


@pytest.mark.parametrize("kind", [{"dtype": torch.float32}, {"dtype": torch.complex64}, {"device": "meta"}], ids=str)
def test_answers_that_are_no_actions_lose_the_game(kind: dict) -> None:
    players = {"first": first_legal, "soft": lambda turn: first_legal(turn).to(**kind)}
    played = Arena(TicTacToe(), players, forfeits=True).play([Game(0, ("soft", "first")), Game(1, ("first", "first"))])
    assert [ENDINGS[k] for k in played.ending.tolist()] == ["crash", "over"]
    assert played.culprit.tolist() == [0, -1]


def test_unsigned_integers_are_actions() -> None:
    players = {"first": first_legal, "short": lambda turn: first_legal(turn).to(torch.uint16)}
    played = Arena(TicTacToe(), players).play([Game(0, ("short", "first")), Game(1, ("first", "first"))])
    assert played.digest[0] == played.digest[1]


def half(turn: Turn) -> torch.Tensor:
    return torch.full((*turn.data.batch_size, 2), 0.5)


def test_who_answers_integers_does_not_round_the_actions_of_others() -> None:
    def still(turn: Turn) -> torch.Tensor:
        return half(turn).to(torch.int64)

    env = marlenv.make("simple_tag", num_envs=2, max_steps=2, compile="none")
    digests = [
        Arena(env, {"still": one, "half": half}, seats="agents")
        .play([Game(0, ("still", "half", "half", "half"))])
        .digest
        for one in (still, lambda turn: 0 * half(turn))
    ]
    assert torch.equal(*digests)


def test_a_failure_is_a_crash_where_actions_are_fractions() -> None:
    def fails(turn: Turn) -> torch.Tensor:
        if bool((turn.games == 0).any()):
            raise RuntimeError("no idea")
        return half(turn)

    env = marlenv.make("simple_tag", num_envs=2, max_steps=2, compile="none")
    played = Arena(env, {"fails": fails}, forfeits=True).play([Game(k, ("fails", "fails")) for k in range(2)])
    assert [ENDINGS[k] for k in played.ending.tolist()] == ["crash", "move limit"]


def test_a_player_that_takes_too_long_loses() -> None:
    import time

    def slow(turn: Turn) -> torch.Tensor:
        time.sleep(0.05)
        return first_legal(turn)

    played = Arena(TicTacToe(), {"slow": slow, "first": first_legal}, forfeits=True, move_seconds=0.02).play(
        [Game(0, ("first", "slow"))]
    )
    assert (played.ending.tolist(), played.culprit.tolist()) == ([5], [1])


def test_a_player_whose_clock_runs_out_loses() -> None:
    import time

    def slow(turn: Turn) -> torch.Tensor:
        time.sleep(0.05)
        return first_legal(turn)

    def steps(**clocks: float) -> tuple[int, int]:
        arena = Arena(TicTacToe(), {"slow": slow, "last": last_legal}, forfeits=True, **clocks)
        played = arena.play([Game(0, ("slow", "last"))])
        assert 0.05 * played.plies[0] / 2 <= played.seconds[0, 0] < 5
        assert played.seconds[0, 1] < 0.05
        return int(played.ending[0]), int(played.plies[0])

    assert steps(game_seconds=0.08) == (5, 2)  # its second move is too late
    assert steps(game_seconds=10.0)[0] == 0
    assert steps(game_seconds=0.08, increment=10.0)[0] == 0
    assert steps(game_seconds=0.01, increment=10.0) == (5, 0)  # what a move adds is for the next one


def test_forfeits_in_an_env_cost_one() -> None:
    pytest.importorskip("pyspiel")

    def resigns(turn: Turn) -> torch.Tensor:
        return torch.full_like(turn.seat, -1)

    players = {"resigns": resigns, "first": first_legal}
    played = Arena(lambda: marlenv.make("open_spiel/tic_tac_toe"), players, rows=2, forfeits=True).play(
        round_robin(list(players), double=True)
    )
    assert played.ending.tolist() == [2, 2]
    assert sorted(played.returns.tolist()) == [[-1.0, 0.0], [0.0, -1.0]]
    assert played.results().points.tolist() in ([0, 2], [2, 0])


def test_games_of_three_are_counted_seat_by_seat() -> None:
    pytest.importorskip("pyspiel")
    arena = Arena(lambda: marlenv.make("open_spiel/kuhn_poker(players=3)"), PLAYERS, rows=4)
    played = arena.play([Game(k, ("first", "last", "random")) for k in range(12)])
    assert played.returns.sum(1).abs().max() == 0
    assert played.pairs().games == 36
    ours = Arena(KuhnPoker(num_players=3), PLAYERS).play([Game(k, ("first", "last", "random")) for k in range(12)])
    assert ours.returns.shape == (12, 3)


def leans(turn: Turn) -> torch.Tensor:
    """Forces by what is seen."""
    return turn.data["observation"][..., :2].clamp(-1, 1)


@pytest.mark.parametrize("rows", [1, 2])
def test_games_of_vmas_are_those_of_its_own_loop(rows: int) -> None:
    """An env with one row for each game, which VMAS itself seeds; batched, it cannot be seeded game by game."""
    vmas = pytest.importorskip("vmas")
    arena = Arena(lambda: marlenv.make("vmas/balance", max_steps=8), {"a": leans, "b": leans}, rows=rows, seed=3)
    played = arena.play([Game(k, ("a", "b", "a")) for k in range(3)])
    for k, key in enumerate(streams(3, torch.arange(3), CHANCE).tolist()):
        theirs = vmas.make_env("balance", num_envs=1, max_steps=8)
        theirs.seed(key & 0x7FFFFFFF)
        seen, earned = theirs.reset(), torch.zeros(3)
        for _ in range(8):
            seen, rewards, *_ = theirs.step([one[..., :2].clamp(-1, 1) for one in seen])
            earned += torch.stack(rewards).flatten()
        assert earned.abs().min() > 0.1
        assert torch.equal(played.returns[k], earned)
    assert played.plies.tolist() == [8, 8, 8]
    with pytest.raises(SpecError, match="Arena: VmasEnv does not give its state away.*give the arena a function"):
        Arena(marlenv.make("vmas/balance", num_envs=4), {"a": leans})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Arena(3, PLAYERS), "expected rules, an env, or a function"),
        (lambda: Arena(lambda: 3, PLAYERS), "expected an env, and .* made int"),
        (lambda: Arena(TicTacToe(), PLAYERS, seats="agents"), "seats= are of envs"),
        (
            lambda: Arena(marlenv.make("simple_tag", num_envs=2, compile="none"), PLAYERS, seats={"a": ["agent_0"]}),
            "are in no seat",
        ),
        (
            lambda: Arena(marlenv.make("simple_tag", num_envs=2, compile="none"), PLAYERS, seats={"a": ["agent_9"]}),
            "did you mean",
        ),
        (
            lambda: Arena(marlenv.make("simple_tag", num_envs=2, compile="none"), PLAYERS, seats="teams"),
            "seats must be 'groups'",
        ),
        (
            lambda: Arena(marlenv.make("simple_tag", num_envs=2, compile="none"), PLAYERS, openings=[[0]]),
            "openings are of games",
        ),
    ],
)
def test_mistakes_about_envs_are_named(make, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        make()


def test_an_action_out_of_bounds_is_illegal() -> None:
    env = marlenv.make("simple_tag", num_envs=2, max_steps=2, compile="none")
    with pytest.raises(IllegalAction, match="player 'p' chose"):
        Arena(env, {"p": lambda turn: torch.full((*turn.data.batch_size, 2), 7.0)}).play([Game(0, ("p", "p"))])
