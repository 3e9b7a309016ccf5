"""Action specs of our envs in TorchRL: their draws are legal where they are used, in the env they come from or not."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import Categorical, MultiOneHot
from torchrl.modules import EGreedyModule

import marlenv
from marlenv import to_torchrl
from marlenv.testing.mocks import CountingEnv

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.collectors import Collector

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl")

PLAYERS = ("x", "o")


def make(seed: int = 0, **options):
    return to_torchrl(marlenv.make("tic_tac_toe", num_envs=3, seed=seed, **options))


def explorer(specs) -> TensorDictSequential:
    """Always wants the first square, but explores at every move, within the mask in the data."""
    parts = []
    for player in PLAYERS:
        action, mask = (player, "action"), (player, "action_mask")
        first = TensorDictModule(lambda legal: torch.zeros(legal.shape[:-1], dtype=torch.long), [mask], [action])
        greedy = EGreedyModule(specs[player, "action"], 1.0, 1.0, action_key=action, action_mask_key=mask)
        parts += [first, greedy]
    return TensorDictSequential(*parts)


def illegal(data) -> int:
    """How many moves of those who were to move were not legal; read off the boards' masks."""
    count = 0
    for player in PLAYERS:
        legal = data[player, "action_mask"].gather(-1, data[player, "action"].unsqueeze(-1)).squeeze(-1)
        count += int((~legal & data[player, "mask"]).sum())
    return count


def only(square: int) -> torch.Tensor:
    mask = torch.zeros(3, 1, 9, dtype=torch.bool)
    mask[..., square] = True
    return mask


@pytest.mark.parametrize("moved", [False, True], ids=["not played", "played"])
def test_a_policy_explores_legally_in_another_env_than_its_specs(moved: bool) -> None:
    home, away = make(), make(1, illegal="lose")
    policy = explorer(home.full_action_spec)
    if moved:
        home.rollout(3)
    data = away.rollout(40, policy, break_when_any_done=False)
    assert data.shape == (3, 40)
    assert illegal(data) == 0
    assert len(data["x", "action"].unique()) == 9


def test_a_collector_explores_legally_with_the_specs_of_an_env_of_its_own() -> None:
    frames = list(Collector(make, explorer(make().full_action_spec), frames_per_batch=30, total_frames=60))
    assert [illegal(data) for data in frames] == [0, 0]


def test_a_policy_at_home_explores_by_the_seed_of_its_env() -> None:
    """Whatever TorchRL's generator would draw, and after the policy was used on data of another env."""
    played = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        home = make(5)
        policy = explorer(home.full_action_spec)
        if noise:
            policy(make(7).rollout(3)[:, 2])
        played.append(home.rollout(20, policy, break_when_any_done=False))
    for player in PLAYERS:
        assert torch.equal(played[0][player, "action"], played[1][player, "action"])


@pytest.mark.parametrize("clone", [False, True])
def test_a_mask_that_is_given_holds_as_in_torchrl_until_the_env_moves_on(clone: bool) -> None:
    env = make()
    td = env.reset()
    spec, plain = env.full_action_spec["x", "action"], Categorical(9, shape=(3, 1))
    spec = spec.clone() if clone else spec
    for one in (spec, plain):
        one.update_mask(only(3))
    for _ in range(5):
        assert spec.rand().flatten().tolist() == plain.rand().flatten().tolist() == [3, 3, 3]
    assert spec.is_in(torch.full((3, 1), 3))
    assert not spec.is_in(torch.full((3, 1), 4))
    assert pickle.loads(pickle.dumps(spec)).rand().flatten().tolist() == [3, 3, 3]
    td["x", "action"], td["o", "action"] = torch.full((3, 1), 3), torch.zeros(3, 1, dtype=torch.long)
    env.step(td)
    assert torch.equal(spec.mask, td["next", "x", "action_mask"])
    assert not torch.equal(spec.mask, only(3))


def test_a_mask_that_is_given_to_a_clone_is_not_the_envs() -> None:
    env = make()
    td = env.reset()
    spec = env.full_action_spec["x", "action"]
    spec.clone().update_mask(only(3))
    assert torch.equal(spec.mask, td["x", "action_mask"])
    assert spec.mask.all()


def test_several_choices_are_encoded_as_by_torchrl() -> None:
    env = CountingEnv()
    env.action_spec = marlenv.MultiOneHot([2, 3])
    spec, numbers = to_torchrl(env).full_action_spec["action"], torch.tensor([1, 2])
    assert spec.encode(numbers).tolist() == MultiOneHot((2, 3)).encode(numbers).tolist() == [0, 1, 0, 0, 1]
    assert spec.clone().to_numpy(spec.encode(numbers)).tolist() == [1, 2]
