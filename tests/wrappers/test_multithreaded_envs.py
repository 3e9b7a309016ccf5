"""EnvPool's envs: the numbers are those of the pool alone, and rows that are done start anew at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from marlenv import MultiThreadedEnv, MultiThreadedEnvWrapper, check_env_specs
from marlenv.errors import DtypeError, IllegalAction, SpecError, SpecTypeError, UnknownName, Unsupported

envpool = pytest.importorskip("envpool", reason="EnvPool is an extra, and has no wheel for every platform")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's, about the precision of its boxes


def made(**options):
    return envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=5, **options)


def test_numbers_are_those_of_the_pool_alone():
    env, alone = MultiThreadedEnvWrapper(made(), categorical_action_encoding=True), made()
    td, seen = env.reset(), alone.reset()[0]
    chance = np.random.default_rng(0)
    ended = 0
    for _ in range(40):
        assert np.array_equal(td["observation"].numpy(), seen)
        actions = chance.integers(0, 2, 3)
        data, td = env.step_and_maybe_reset(td.set("action", torch.from_numpy(actions)))
        seen, reward, terminated, truncated, _ = alone.step(actions.astype(np.int32))
        assert np.array_equal(data["next", "observation"].numpy(), seen)
        assert data["next", "reward"].flatten().tolist() == reward.tolist()
        assert data["next", "terminated"].flatten().tolist() == terminated.tolist()
        assert data["next", "truncated"].flatten().tolist() == truncated.tolist()
        over = np.flatnonzero(terminated | truncated).astype(np.int32)
        if len(over):
            ended += len(over)
            seen = seen.copy()
            seen[over] = alone.reset(over)[0]
    assert ended > 2


def test_steps_of_some_rows_leave_the_others():
    env = MultiThreadedEnv(3, "CartPole-v1", categorical_action_encoding=True)
    td = env.reset()
    mask = torch.tensor([True, False, True])
    after = env.step(env.rand_action(td.clone()).set("_step", mask))["next"]
    assert torch.equal(after["observation"][1], td["observation"][1])
    assert (after["observation"][mask] != td["observation"][mask]).any(-1).all()
    again = env.reset(after.select("observation", "done").set("_reset", mask.unsqueeze(-1)))
    assert torch.equal(again["observation"][1], td["observation"][1])


def test_seeds_make_the_same_data_again():
    env = MultiThreadedEnv(2, "CartPole-v1", create_env_kwargs={"max_episode_steps": 5})
    data = []
    for seed in (3, 3, 4):
        env.set_seed(seed)
        data.append(env.rollout(12, break_when_any_done=False))
    assert (data[0] == data[1]).all()
    assert not (data[0]["observation"] == data[2]["observation"]).all()
    assert data[0]["next", "truncated"].flatten(1).sum(1).tolist() == [2, 2]
    assert data[0]["action"].dtype == torch.bool or data[0]["action"].shape == (2, 12, 2)
    check_env_specs(env)


def test_a_name_of_gymnasiums_atari_games_is_taken():
    env = MultiThreadedEnv(2, "ALE/Pong-v5")
    assert env.env_name == "Pong-v5"
    env.close()


def test_what_is_refused():
    with pytest.raises(UnknownName, match=r"^MultiThreadedEnv: EnvPool has no env 'CartPol-v1'; did you mean 'Cart"):
        MultiThreadedEnv(2, "CartPol-v1")
    with pytest.raises(TypeError, match=r"^MultiThreadedEnv has no option 'categorical_action_encodin'; did you mean"):
        MultiThreadedEnv(2, "CartPole-v1", categorical_action_encodin=True)
    with pytest.raises(SpecTypeError, match=r"Wrapper: env must be what envpool.make\(.*\) gives, got int"):
        MultiThreadedEnvWrapper(3)
    for pool in ("dm", "gymnasium"):
        kind, says = (SpecTypeError, "env_type='gymnasium'") if pool == "dm" else (Unsupported, "a pool takes its seed")
        with pytest.raises(kind, match=says):
            MultiThreadedEnvWrapper(envpool.make("CartPole-v1", num_envs=2, env_type=pool)).set_seed(1)
    for task, kind, says in (
        (3, SpecTypeError, "create_env_kwargs must be a dict, got 3"),
        ({"max_episode_step": 3}, TypeError, "no option 'max_episode_step', and .* did you mean 'max_episode_steps'"),
        ({"num_envs": 3}, SpecError, "must not have another 'num_envs' than 2, which num_workers and the wrapper say"),
        ({"batch_size": 1}, SpecError, "must not have another 'batch_size' than 2"),
        ({"env_type": "dm"}, SpecError, "must not have another 'env_type' than 'gymnasium'"),
        ({"seed": "a"}, DtypeError, "^MultiThreadedEnv: seed must be an int, got 'a'"),
    ):
        with pytest.raises(kind, match=says):
            MultiThreadedEnv(2, "CartPole-v1", create_env_kwargs=task)
    env = MultiThreadedEnv(2, "CartPole-v1", categorical_action_encoding=True)
    with pytest.raises(
        IllegalAction, match=r"^MultiThreadedEnv.step: actions are numbers from 0 to below 2, got \[0, 2\]"
    ):
        env.step(env.reset().set("action", torch.tensor([0, 2])))
    with pytest.raises(Unsupported, match=r"batch_size must be num_envs=3, got 2; all envs step at once"):
        MultiThreadedEnvWrapper(made(batch_size=2))
    with pytest.raises(SpecError, match=r"frame_skip must be 1, got 2"):
        MultiThreadedEnv(2, "CartPole-v1", frame_skip=2)
