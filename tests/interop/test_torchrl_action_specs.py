"""Action specs of our envs in TorchRL: their draws are legal where they are used, in the env they come from or not."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.data import Categorical, MultiCategorical, MultiOneHot
from torchrl.envs import ActionDiscretizer, TransformedEnv
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


def played(env, moves: int = 3) -> TensorDictBase:
    """The data of an env after some random moves."""
    td = env.reset()
    for _ in range(moves):
        _, td = env.step_and_maybe_reset(env.rand_action(td))
    return td


def drawn(env, td: TensorDictBase) -> list[list[int]]:
    """What an env draws for all players in data, each legal by the masks there."""
    td = env.rand_action(td.clone())
    for key in env.action_keys:
        assert td[key[0], "action_mask"].gather(-1, td[key].unsqueeze(-1)).all(), (key, td[key])
    return [td[key].flatten().tolist() for key in env.action_keys]


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


COPIES = {
    "deep": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "to": lambda env: copy.deepcopy(env).to("cpu"),
    "in torchrl's": lambda env: copy.deepcopy(TransformedEnv(env)).base_env,
}


@pytest.mark.parametrize(
    "copied", [lambda spec: spec, COPIES["deep"], COPIES["pickle"]], ids=["same", "deep", "pickle"]
)
def test_numbers_of_choices_are_read_from_specs_of_no_rows(copied) -> None:
    """TorchRL repeats them for all rows, here for none; they may be a part of a longer tensor."""
    spec = copied(MultiCategorical(torch.tensor([9, 3, 2])[1:], shape=torch.Size([0, 2])))
    assert marlenv.from_torchrl(spec) == marlenv.MultiCategorical([3, 2], shape=[0, 2])


@pytest.mark.slow
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("game", ["tic_tac_toe", "leduc_poker"])
def test_a_copy_in_mid_episode_draws_what_the_env_draws(game: str, copied) -> None:
    for seed in range(6):
        ours = marlenv.make(game, num_envs=3, seed=seed)
        env = to_torchrl(ours)
        td = played(env)
        twin = copied(env)
        for key in env.action_keys:
            assert torch.equal(twin.full_action_spec[key].mask, td[key[0], "action_mask"])
        expected = drawn(copy.deepcopy(ours), td)
        assert drawn(twin, td) == drawn(env, td) == expected
        twin.rollout(8, auto_reset=False, tensordict=td, break_when_any_done=False)  # illegal moves are errors


def test_random_actions_are_legal_in_the_data_that_they_are_asked_for() -> None:
    """As after a search that comes back to where it began."""
    for seed in range(10):
        ours, env = (make_(marlenv.make("leduc_poker", num_envs=3, seed=seed)) for make_ in (lambda x: x, to_torchrl))
        seen = []
        for one in (ours, env):
            root = played(one)
            _, later = one.step_and_maybe_reset(one.rand_action(root.clone()))
            seen.append([drawn(one, root), drawn(one, later), drawn(one, root)])
        assert seen[0] == seen[1]
        for key in env.action_keys:  # TorchRL's check holds draws against the spec
            assert torch.equal(env.full_action_spec[key].mask, root[key[0], "action_mask"])


def test_an_env_is_put_into_a_state() -> None:
    for seed in range(10):
        env = to_torchrl(marlenv.make("leduc_poker", num_envs=3, seed=seed))
        before = played(env, 2)
        state = env.get_state(before)
        first, after = env.step_and_maybe_reset(env.rand_action(before.clone()))
        rows = torch.tensor([True, False, True])
        for mask in (rows, None):
            now = env.set_state(state, mask, after)
            for key in env.action_keys:
                at = (key[0], "action_mask")
                want = before[at] if mask is None else torch.where(mask[:, None, None], before[at], after[at])
                assert torch.equal(now[at], want)
                assert torch.equal(env.full_action_spec[key].mask, want)
                assert want.gather(-1, env.full_action_spec[key].rand().unsqueeze(-1)).all()
        for key in env.action_keys:
            now[key] = first[key]
        again = env.step(now)
        assert torch.equal(again["next", "player_0", "observation"], first["next", "player_0", "observation"])


@pytest.mark.slow
def test_a_transform_of_torchrls_may_change_the_actions() -> None:
    """TorchRL refuses that of envs whose class draws in a way of its own."""
    cut = ActionDiscretizer(4, action_key=("agents", "action"), out_action_key=("agents", "choice"))
    env = TransformedEnv(to_torchrl(marlenv.make("navigation", num_envs=2, n_agents=1, seed=0)), cut)
    assert len(env.rollout(20)["agents", "choice"].unique()) == 4
