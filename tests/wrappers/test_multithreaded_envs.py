"""EnvPool's envs: the numbers are those of the pool alone, and rows that are done start anew at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from marlenv import MultiThreadedEnv, MultiThreadedEnvWrapper, check_env_specs
from marlenv.errors import DtypeError, IllegalAction, SpecError, SpecTypeError, UnknownName, Unsupported
from marlenv.specs import Bounded, Unbounded
from marlenv.wrappers.envpool.specs import Observed, acted

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


def leaves(seen: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a pool gave, entry by entry."""
    for name, value in seen.items() if isinstance(seen, dict) else (("observation", seen),):
        if isinstance(value, dict):
            yield from leaves(value, (*way, name))
        else:
            yield (*way, name), value


def agrees(env, td, where, seen, first):
    """Whether some rows show what the pool gave, in the dtypes of the spec; positions count from ``first``."""
    found, spec = dict(leaves(seen)), env.full_observation_spec
    assert len(found) == len(list(spec.keys(True, True)))
    for key, value in found.items():
        assert td[key].dtype == spec[key].dtype, key
        want = value - first if key == ("position",) else value
        assert np.array_equal(td[key].numpy()[where], want), key


@pytest.mark.parametrize(
    ("name", "first"), [("Taxi-v3", 0), ("CVRP-v1", 0), ("TSP-v1", -1), ("BinPack-v2", 0), ("Jumanji/Maze-v0", 0)]
)
def test_dicts_choices_and_bits_fit_their_specs_and_are_those_of_the_pool(name, first):
    env = MultiThreadedEnv(3, name, create_env_kwargs={"seed": 5}, categorical_action_encoding=True)
    check_env_specs(env)
    env.set_seed(5)
    alone = envpool.make(name, env_type="gymnasium", num_envs=3, seed=5)
    held = env.reset()
    agrees(env, held, slice(None), alone.reset()[0], first)
    for step in range(6):  # some rows at a time; those that end, and one more, start anew
        where = np.array([True, step % 2 == 0, True])
        rows = np.flatnonzero(where).astype(np.int32)
        td = env.step(env.rand_action(held.clone()).set("_step", torch.from_numpy(where)))
        actions = td["action"].numpy().astype(alone.spec.action_space.dtype)
        seen, _, terminated, truncated, _ = alone.step(actions[rows], rows)
        agrees(env, td["next"], where, seen, first)
        ends = np.arange(3) == step % 3
        ends[rows] |= terminated | truncated
        again = env.reset(td["next"].clone().set("_reset", torch.from_numpy(ends).unsqueeze(-1)))
        agrees(env, again, ends, alone.reset(np.flatnonzero(ends).astype(np.int32))[0], first)
        for key in env.observation_keys:
            assert torch.equal(td["next", key][~where], held[key][~where]), key
            assert torch.equal(again[key][~ends], td["next", key][~ends]), key
        held = again


def test_the_smallest_positive_number_and_the_largest_are_no_bounds():
    env = MultiThreadedEnv(2, "CartpoleBalance-v1")
    assert set(map(type, env.full_observation_spec.values(True, True))) == {Unbounded}
    check_env_specs(env)
    assert float(env.rollout(9)["velocity"].min()) < 0
    tiny, most = (getattr(np.finfo(np.float32), end) for end in ("tiny", "max"))
    low, high = np.array([tiny, tiny, 0, -1], np.float32), np.array([most, 1, most, most], np.float32)
    spec = Observed(Box(low, high)).spec["observation"]
    assert isinstance(spec, Bounded)
    assert spec.low.tolist() == [-torch.inf, *low[1:].tolist()]
    assert spec.high.tolist() == [torch.inf, *high[1:].tolist()]
    assert acted(Box(low[:1], high[:1]), categorical=True) == Unbounded((1,))


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


@pytest.mark.parametrize("name", ["CartPole-v1", "LeducHoldem-v1"])
def test_a_pool_that_is_copied_or_pickled_says_what_to_do(name):
    env = MultiThreadedEnv(2, name)
    says = r"^MultiThreadedEnv: a pool can neither be copied nor pickled; .* or an EnvCreator"
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(Unsupported, match=says):
            call(env)
    assert env.rollout(2).shape == (2, 2)


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


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("CartPole-v1", {"num_threads": -1}, "num_threads must be an integer from 0 on, got -1"),
        ("CartPole-v1", {"max_episode_steps": "x"}, "max_episode_steps must be an integer from 1 on, got 'x'"),
        ("CartPole-v1", {"max_episode_steps": 0}, "max_episode_steps must be an integer from 1 on, got 0"),
        ("CartPole-v1", {"max_num_players": 0}, "max_num_players must be an integer from 1 on, got 0"),
        ("CartPole-v1", {"reward_threshold": "x"}, "reward_threshold must be a number, got 'x'"),
        ("Pong-v5", {"stack_num": 0}, "stack_num must be an integer from 1 on, got 0"),
        ("Pong-v5", {"noop_max": 0}, "noop_max must be an integer from 1 on, got 0"),
        ("Pong-v5", {"img_height": -4}, "img_height must be an integer from 1 on, got -4"),
        ("Pong-v5", {"task": "nope"}, "there is no game 'nope', its file would be .*nope.bin"),
        ("Pong-v5", {"task": 3}, "task must be a text, got 3"),
        ("Pong-v5", {"base_path": "/nope"}, "there is no game 'pong', its file would be /nope/atari/roms/pong.bin"),
    ],
)
def test_options_that_would_end_the_program_or_say_nothing_are_refused(name, options, says):
    """As EnvPool takes them: an abort, segmentation faults, an exit; episodes of one step; pages of C++."""
    with pytest.raises((SpecError, SpecTypeError), match=f"^MultiThreadedEnv: '{name}': {says}$"):
        MultiThreadedEnv(2, name, create_env_kwargs=options)


def test_a_seed_that_set_seed_could_not_change_is_refused():
    with pytest.raises(SpecError, match="create_env_kwargs must not have 'env_seed', .* row i begins with seed"):
        MultiThreadedEnv(2, "CartPole-v1", create_env_kwargs={"env_seed": [1, 2]})
