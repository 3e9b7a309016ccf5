"""Policies that were trained on the env of a game play in an arena what they play in the env."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential

import marlenv
from marlenv.errors import SpecError
from marlenv.tournament import Arena, Game, ModulePlayer, Turn, random_player

DTYPES = [torch.float32, torch.float64, torch.bool]


class Net(torch.nn.Module):
    """Linear in what a player sees; the best legal move by it."""

    def __init__(self, shape: torch.Size, moves: int) -> None:
        super().__init__()
        self.scores, self.ndim = torch.nn.Linear(shape.numel(), moves), len(shape)

    def forward(self, seen: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        return self.scores(seen.flatten(-self.ndim)).masked_fill(~legal, -torch.inf).argmax(-1)


def policies(env: Any) -> dict[str, TensorDictModule]:
    """An untrained policy of each seat, with the keys of its group."""
    torch.manual_seed(0)
    found = {}
    for seat in env.group_map:
        shape = env.full_observation_spec_unbatched[seat, "observation"].shape[1:]
        net = Net(shape, env.full_action_spec_unbatched[seat, "action"].space.n)
        found[seat] = TensorDictModule(net, [(seat, "observation"), (seat, "action_mask")], [(seat, "action")])
    return found


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "hex"])
@pytest.mark.parametrize("given", ["env", "maker", "rules"])
def test_a_policy_plays_the_game_that_it_plays_in_its_env(name: str, given: str) -> None:
    env = marlenv.make(name, num_envs=1, seed=0)
    mine = policies(env)
    data = env.rollout(200, TensorDictSequential(*mine.values()))
    moves = [
        data[seat, "action"][0, t, 0].item()
        for t in range(data.shape[1])
        for seat in mine
        if data[seat, "mask"][0, t, 0]
    ]
    game = {"env": env, "maker": lambda: marlenv.make(name), "rules": env.rules}[given]
    players = {seat: ModulePlayer(policy, group=seat) for seat, policy in mine.items()}
    played = Arena(game, players, record=True).play([Game(0, tuple(mine))])
    assert [move for move in torch.as_tensor(played.moves[0]).flatten().tolist() if move >= 0] == moves
    assert played.returns[0].tolist() == [data["next", seat, "reward"].sum().item() for seat in mine]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_observations_come_as_the_env_gave_them(dtype: torch.dtype) -> None:
    env = marlenv.make("kuhn_poker", num_envs=1, seed=0, observation_dtype=dtype)
    seen = []

    def module(td: Any) -> Any:
        seen.append(td["observation"].clone())
        return td.set("action", td["action_mask"].int().argmax(-1))

    Arena(env, {"me": ModulePlayer(module, observation_dtype=dtype)}, rows=1).play([Game(0, ("me", "me"))])
    assert {one.dtype for one in seen} == {env.full_observation_spec["player_0", "observation"].dtype} == {dtype}


def test_what_is_bool_for_others_stays_so() -> None:
    """The rules' own observation, which functions read, is not touched."""
    seen = []

    def look(turn: Turn) -> torch.Tensor:
        seen.append(turn.observation.dtype)
        return random_player(turn)

    Arena(marlenv.make("tic_tac_toe"), {"look": look}).play([Game(0, ("look", "look"))])
    assert set(seen) == {torch.bool}


def test_an_error_of_the_module_says_what_it_was_given() -> None:
    env = marlenv.make("chess")

    def module(td: Any) -> Any:
        return torch.nn.Linear(16, 1)(td["observation"])

    with pytest.raises(RuntimeError) as raised:
        Arena(env, {"me": ModulePlayer(module)}, rows=1).play([Game(0, ("me", "me"))])
    assert (
        "ModulePlayer: the module was given 'observation' torch.float32 [1, 23, 8, 8], 'action_mask' torch.bool "
        "[1, 4672], 'seat' torch.int64 [1]"
    ) in raised.value.__notes__


def recurrent(front: tuple[str, ...], following: Any) -> TensorDictModule:
    """Plays the first legal move, and counts its turns."""
    return TensorDictModule(
        lambda legal, count: (legal.int().argmax(-1), count + 1),
        [(*front, "action_mask"), (*front, "count")],
        [(*front, "action"), following],
    )


@pytest.mark.parametrize(
    ("front", "following"),
    [((), ("next", "count")), (("x",), ("next", "x", "count")), (("x",), ("x", "next", "count"))],
)
def test_a_recurrent_module_must_be_given_what_it_keeps(front: tuple[str, ...], following: Any) -> None:
    module = recurrent(front, following)
    for memory in (None, {"hidden": torch.zeros(1)}):
        with pytest.raises(SpecError, match=r"reads \['count'\]; .* memory=\{'count': torch.zeros\(...\)\}"):
            ModulePlayer(module, group=front, memory=memory)
    player = ModulePlayer(module, group=front, memory={"count": torch.zeros(1)})
    assert Arena(marlenv.make("tic_tac_toe"), {"me": player}).play([Game(0, ("me", "me"))]).plies.item() == 7


def test_a_module_that_asks_whether_a_game_begins_must_be_given_what_it_keeps() -> None:
    module = TensorDictModule(lambda legal, begins: legal.int().argmax(-1), ["action_mask", "is_init"], ["action"])
    with pytest.raises(SpecError, match="reads is_init; pass what it keeps"):
        ModulePlayer(module)
