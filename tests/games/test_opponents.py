"""What an opponent that is a policy is shown, and what it must answer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor

import marlenv
from marlenv.errors import IllegalAction, KeyMissing, ShapeError, SpecError
from marlenv.games import PolicyPerRow, TicTacToe, TicTacToeEnv
from marlenv.games.chess import ChessEnv
from marlenv.testing.comparison import differences
from marlenv.tournament import MCTSPlayer, random_player


def lowest(mask: Tensor) -> Tensor:
    return mask.int().argmax(-1)


def writes(td: TensorDictBase) -> TensorDictBase:
    return td.set(("o", "action"), lowest(td["o", "action_mask"]))


def writes_in_place(td: TensorDictBase) -> None:
    writes(td)


def gives_it_alone(td: TensorDictBase) -> TensorDictBase:
    return TensorDict({"o": TensorDict({"action": lowest(td["o", "action_mask"])}, td["o"].batch_size)}, td.batch_size)


@pytest.mark.parametrize("opponent", [writes, writes_in_place, gives_it_alone])
def test_an_answer_may_be_written_in_place_or_returned(opponent: Any) -> None:
    """x takes 8, 7, 6; o, who takes the lowest free cell, has 0, 1 and would have 2: x wins at its third move."""
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=opponent)
    played = env.rollout(9, lambda td: td.set(("x", "action"), 8 - lowest(td["x", "action_mask"].flip(-1))))
    assert played.shape == (2, 3)
    board = TicTacToe().start(torch.Size([]))
    for cell in (8, 0, 7, 1, 6):
        board = TicTacToe().play(board, torch.tensor(cell))
    assert (played["next", "state", "code"][:, -1] == board.code).all()
    assert played["next", "x", "reward"].flatten().tolist() == [0, 0, 1] * 2


def to_root(td: TensorDictBase) -> TensorDictBase:
    return td.set("action", torch.zeros(td.batch_size, dtype=torch.int64))


def nothing(td: TensorDictBase) -> TensorDictBase:
    return td


@pytest.mark.parametrize("illegal", ["raise", "lose"])
@pytest.mark.parametrize(
    ("name", "opponent", "key"),
    [
        ("tic_tac_toe", to_root, r"\('o', 'action'\), the action of o"),
        ("tic_tac_toe", nothing, r"\('o', 'action'\)"),
        ("matrix_game", nothing, r"\('player_1', 'action'\)"),
        ("kuhn_poker", nothing, r"\('player_1', 'action'\)"),
        ("chess", nothing, r"\('black', 'action'\)"),
    ],
)
def test_an_opponent_that_says_nothing_does_not_lose(name: str, opponent: Any, key: str, illegal: Any) -> None:
    """It was an illegal action, -1: with illegal="lose" every game was won by the caller."""
    env = marlenv.make(name, num_envs=2, seed=0, opponent=opponent, illegal=illegal)
    with pytest.raises(KeyMissing, match=rf"the opponent wrote no {key}"):
        env.rollout(5)


@pytest.mark.parametrize("make", [TicTacToeEnv, ChessEnv])
def test_nor_with_torchrls_keys(make: Any) -> None:
    with pytest.raises(KeyMissing, match=rf"^{make.__name__}: the opponent wrote no 'action', the action of "):
        make(opponent=nothing, batch_size=[2]).rollout(3)
    with pytest.raises(ShapeError, match=r"the opponent's action 'action' must have shape \[2\], got \[2, 1\]"):
        make(opponent=lambda td: td.set("action", torch.zeros(2, 1, dtype=torch.int64)), batch_size=[2]).rollout(3)


def test_what_is_no_tensordict_is_refused_as_rollout_refuses_it() -> None:
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=lambda td: lowest(td["o", "action_mask"]))
    with pytest.raises(TypeError, match="GameEnv, opponent: the policy is given the tensordict and must return one"):
        env.rollout(3)


@pytest.mark.parametrize("seats", [None, {"first": ["player_0", "player_2"], "second": ["player_1"]}])
def test_only_seats_to_move_must_be_written(seats: Any) -> None:
    """An opponent that writes for whom it is asked plays as one that writes for all."""
    places = {"player_0": ("player_0", 0), "player_2": ("player_2", 0)}
    places = places if seats is None else {"player_0": ("first", 0), "player_2": ("first", 1)}

    def all_call(td: TensorDictBase) -> TensorDictBase:
        for group, _ in places.values():
            td[group, "action"] = torch.ones(td[group].batch_size, dtype=torch.int64)
        return td

    def one_calls(td: TensorDictBase) -> TensorDictBase:
        for group, at in places.values():
            if bool(td[group, "mask"][:, at].any()):
                td[group, "action"] = torch.ones(td[group].batch_size, dtype=torch.int64)
        return td

    def never(td: TensorDictBase) -> TensorDictBase:
        group, at = places["player_2"]
        return td if bool(td[group, "mask"][:, at].any()) else all_call(td)

    def play(opponent: Any) -> TensorDictBase:
        options: dict[str, Any] = {"num_players": 3, "group_map": seats, "seat": 1, "seed": 0}
        return marlenv.make("leduc_poker", num_envs=1, opponent=opponent, **options).rollout(8)

    assert not differences(play(one_calls), play(all_call))
    with pytest.raises(KeyMissing, match=r"the opponent wrote no .*player_2"):
        play(never)


@pytest.mark.parametrize("group_map", [None, {"all": ["player_0", "player_1"]}])
def test_nobody_sees_a_choice_of_this_round(group_map: Any) -> None:
    """Matching pennies against an opponent that would mirror the caller: it won every round of a game worth 0."""
    mine, theirs = (("all", 0), ("all", 1)) if group_map else (("player_0", 0), ("player_1", 0))
    rounds, seen = 0, []

    def mirrors(td: TensorDictBase) -> TensorDictBase:
        nonlocal rounds
        rounds += 1
        shown = td.get((mine[0], "action"), None)
        seen.append(shown is not None or td.get((theirs[0], "action"), None) is not None)
        choice = torch.zeros(td.batch_size, dtype=torch.int64) if shown is None else 1 - shown[:, mine[1]]
        width = td[theirs[0]].batch_size[-1]
        return td.set((theirs[0], "action"), choice.unsqueeze(-1).repeat(1, width))

    options: dict[str, Any] = {"payoffs": "matching_pennies", "rounds": 20, "group_map": group_map}
    env = marlenv.make("matrix_game", num_envs=50, opponent=mirrors, seed=0, **options)
    played = env.rollout(20)
    assert rounds == 20
    assert not any(seen)
    reward = played["next", mine[0], "reward"][:, :, mine[1]]
    chosen = played[mine[0], "action"][:, :, mine[1]]
    assert torch.equal(reward[..., 0], 1.0 - 2 * chosen)  # heads (0) against heads wins
    assert abs(float(reward.mean())) < 0.2  # 1,000 throws: more than six standard errors
    assert "action" in played[mine[0]].keys()  # the data of the caller are as they were


def highest(td: TensorDictBase) -> TensorDictBase:
    return td.set(("o", "action"), 8 - lowest(td["o", "action_mask"].flip(-1)))


@pytest.mark.parametrize("asked", [False, True])
def test_another_policy_may_take_the_place_of_an_opponent(asked: bool) -> None:
    """The first one played on, and ``env.opponent`` was the other."""
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=writes, seed=0)
    td = env.reset()
    if asked:
        _, td = env.step_and_maybe_reset(td.set(("x", "action"), torch.tensor([[4], [4]])))
        assert td["x", "observation"][:, 0, 1].flatten(1).argmax(-1).tolist() == [0, 0]
    env.opponent = highest
    td = env.reset().set(("x", "action"), torch.tensor([[4], [4]]))
    assert env.step(td)["next", "x", "observation"][:, 0, 1].flatten(1).argmax(-1).tolist() == [8, 8]


def test_a_function_may_take_the_place_of_a_module_and_a_module_that_of_a_function() -> None:
    """PyTorch refused it: "cannot assign ... as child module 'opponent' (torch.nn.Module or None expected)"."""
    modules = [TensorDictModule(lowest, in_keys=[("o", "action_mask")], out_keys=[("o", "action")]) for _ in range(2)]
    several = PolicyPerRow([modules[0], highest], torch.tensor([0, 1]))
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=modules[0], seed=0)
    for now, answers in ((highest, [8, 8]), (modules[1], [0, 0]), (several, [0, 8]), (modules[0], [0, 0])):
        env.opponent = now
        td = env.reset().set(("x", "action"), torch.tensor([[4], [4]]))
        assert env.step(td)["next", "x", "observation"][:, 0, 1].flatten(1).argmax(-1).tolist() == answers
        assert env.opponent is now
        assert list(env.children()) == ([now] if now in modules else [])


@pytest.mark.parametrize(("first", "then"), [("random", writes), (writes, "random"), (writes, None), (writes, 3)])
def test_specs_depend_on_the_kind_of_opponent(first: Any, then: Any) -> None:
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=first, seed=0)
    env.opponent = then
    with pytest.raises(SpecError, match="was made with a .* opponent|opponent must be 'random' or a policy, got 3"):
        env.rollout(3)


@pytest.mark.parametrize("player", [random_player, MCTSPlayer(5)])
def test_players_of_tournaments_are_no_policies(player: Any) -> None:
    with pytest.raises(SpecError, match="is a player of tournaments, which is asked by turns; give a policy"):
        marlenv.make("connect_four", num_envs=2, opponent=player)


def test_a_policy_may_read_whose_turn_it_is() -> None:
    """``turn`` is an observation of games, too."""

    def seventh(turn: Tensor) -> Tensor:
        return torch.full((len(turn), 1), 7)

    env = marlenv.make("connect_four", num_envs=2, opponent=seventh, seed=0)
    with pytest.raises(IllegalAction, match="action 7"):  # there are columns 0 to 6: it was asked, and its answer read
        env.rollout(2)


def test_an_illegal_move_of_the_opponent_is_said_to_be_its() -> None:
    """It named the player alone, as a move of the caller's own."""
    first = torch.zeros(2, 1, dtype=torch.int64)
    env = marlenv.make("tic_tac_toe", num_envs=2, opponent=lambda td: td.set(("o", "action"), first))
    with pytest.raises(IllegalAction, match=r"\(0\) of player 'o' in row \[0\], whom the opponent plays, is illegal"):
        env.step(env.reset().set(("x", "action"), first))
    with pytest.raises(IllegalAction, match=r"action 9 of player 'x' in row \[0\] is illegal"):
        env.step(env.reset().set(("x", "action"), first + 9))
    chess = ChessEnv(opponent=lambda td: td.set("action", torch.tensor(-5)), seat=1)
    with pytest.raises(IllegalAction, match=r"-5 \(out of 0..29274\) of player 'white', whom the opponent plays, is "):
        chess.reset()


def test_errors_of_an_opponent_are_its_own() -> None:
    def fails(td: TensorDictBase) -> TensorDictBase:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer") as found:
        marlenv.make("tic_tac_toe", opponent=fails).rollout(2)
    assert found.value.__notes__ == ["GameEnv: this was the opponent's turn"]
