"""Data belong to who got them: they can be saved, sent, shared and written into, and nothing writes into them
afterwards."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

import marlenv
from marlenv.buffer_pool import LARGE, BufferPool
from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.physics.jit import cache
from marlenv.registration import make
from marlenv.testing.mocks import CountingEnv, GroupedEnv, MaskedEnv
from marlenv.transforms import ActionMask, Compose, RewardSum, StepCounter, TransformedEnv
from marlenv.vector import SerialEnv

compiled = pytest.mark.skipif(cache.compiler() is None, reason="needs a C++ compiler")
ENVS = {
    "scenario": lambda: make("simple_spread", 5, seed=0, max_steps=4, compile="none"),
    "scenario, machine code": lambda: make("simple_tag", 5, seed=0, max_steps=4, compile="aot"),
    "scenario, infos": lambda: make("balance", 5, seed=0, max_steps=4, compile="none"),
    "scenario, one row": lambda: make("give_way", 1, seed=0, max_steps=4, compile="none"),
    "scenario, other groups": lambda: make("simple_tag", 5, seed=0, max_steps=4, group_map="all_in_one_group"),
    "cards": lambda: make("leduc_poker", 5, seed=0),
    "at once": lambda: make("prisoners_dilemma", 5, seed=0),
    "board": lambda: make("connect_four", 5, seed=0),
    "board, many rows": lambda: make("connect_four", 130, seed=0),
    "chess": lambda: make("chess", 130, seed=0),
    "chess, two rows": lambda: make("chess", 2, seed=0, mask="bool"),
    "tic-tac-toe of torchrl": lambda: marlenv.TicTacToeEnv(batch_size=[5]),
    "tic-tac-toe of torchrl, many rows": lambda: marlenv.TicTacToeEnv(batch_size=[130]),
    "chess of torchrl": lambda: marlenv.ChessEnv(batch_size=[2], stateful=False),
    "groups": lambda: GroupedEnv(terminate={"agent_0": 2}, batch_size=[3]),
    "transformed": lambda: TransformedEnv(CountingEnv(3, batch_size=[4]), Compose(RewardSum(), StepCounter())),
}
every_env = pytest.mark.parametrize(
    "make_env",
    [pytest.param(env, marks=compiled if "machine" in name else (), id=name) for name, env in ENVS.items()],
)


def leaves(td: TensorDictBase, *path: str) -> dict[tuple[str, ...], torch.Tensor]:
    found = {}
    for name in td.keys():
        x = td.get(name)
        if isinstance(x, TensorDictBase):
            found |= leaves(x, *path, name)
        elif isinstance(x, torch.Tensor):
            found[*path, name] = x
    return found


def bytes_of(x: torch.Tensor) -> list[int]:
    """The address of every entry."""
    at = torch.zeros((), dtype=torch.int64)
    for size, step in zip(x.shape, x.stride(), strict=True):
        at = at.unsqueeze(-1) + step * x.element_size() * torch.arange(size)
    return (x.data_ptr() + at).flatten().tolist()


def moments(env: EnvBase):
    """What resets, steps and rollouts return."""
    td = env.reset()
    yield "reset", td
    for i in range(6):
        data, td = env.step_and_maybe_reset(env.rand_action(td))
        yield f"step {i}", data
        yield f"after step {i}", td
    yield "step_mdp", env.step_mdp(data)
    yield "step", env.step(env.rand_action(env.reset()))
    yield "rollout", env.rollout(5, break_when_any_done=False)


@every_env
def test_no_entries_share_memory(make_env) -> None:
    for name, td in moments(make_env()):
        taken: dict[int, tuple[str, ...]] = {}
        for key, x in leaves(td).items():
            for where in bytes_of(x):
                assert where not in taken, (name, key, taken[where])
                taken[where] = key


@every_env
def test_writing_into_old_data_changes_nothing_that_follows(make_env) -> None:
    spoilt, left = make_env(), make_env()
    for env in (spoilt, left):
        env.set_seed(3)
    a, b = spoilt.reset(), left.reset()
    for _ in range(8):
        old = spoilt.rand_action(a)
        acted = b.update(old.select(*spoilt.action_keys).clone())
        step, following = spoilt.step_and_maybe_reset(old)
        other, b = left.step_and_maybe_reset(acted)
        assert all(torch.equal(x, other.get(key)) for key, x in leaves(step).items())
        a = following.clone()
        for td in (old, step, following):
            for x in leaves(td).values():
                x.fill_(1)


@every_env
def test_data_can_be_saved_shared_and_stored(make_env, tmp_path) -> None:
    env = make_env()
    rollout = env.rollout(4, break_when_any_done=False)
    for i, td in enumerate((rollout, env.rand_step(env.reset()))):
        file = io.BytesIO()
        torch.save(td, file)
        file.seek(0)
        shared = td.clone(recurse=False).share_memory_()
        ways = [
            torch.load(file, weights_only=False),
            pickle.loads(pickle.dumps(td)),
            shared,
            td.memmap(tmp_path / str(i)),
            td.consolidate(),
        ]
        for one in ways:
            assert all(torch.equal(x, one.get(key)) for key, x in leaves(td).items())
        assert all(x.is_shared() for x in leaves(shared).values())
    only = leaves(rollout)["next", "done"]
    file = io.BytesIO()
    torch.save(only, file)
    assert file.tell() < 2000 + only.numel() * only.element_size()  # and not the whole rollout with it


@pytest.mark.reference
@every_env
def test_a_replay_buffer_of_torchrl_takes_them(make_env, tmp_path) -> None:
    data = pytest.importorskip("torchrl.data")
    env = make_env()
    rollout = env.rollout(4, break_when_any_done=False).reshape(-1)
    for storage in (data.LazyTensorStorage(100_000), data.LazyMemmapStorage(100_000, scratch_dir=tmp_path)):
        buffer = data.ReplayBuffer(storage=storage, batch_size=7)
        buffer.extend(rollout)
        kept = buffer[: len(rollout)]
        assert all(torch.equal(x, kept.get(key)) for key, x in leaves(rollout).items())
        assert buffer.sample().batch_size == (7,)


@pytest.mark.parametrize("tier", ["none", pytest.param("aot", marks=compiled)])
def test_a_receiver_sees_what_was_sent(tier) -> None:
    env = make("simple_spread", 2048, seed=0, compile=tier)
    queue = mp.get_context("fork").Queue()
    data = env.rollout(20)
    kept = data.clone()
    queue.put(data)
    received = queue.get()
    del data
    for _ in range(4):
        env.rollout(20)
    assert all(torch.equal(x, kept.get(key)) for key, x in leaves(received).items())


def test_a_reset_can_be_updated_in_place() -> None:
    for tier in ("none", "auto"):
        env = make("simple_tag", 4, seed=0, compile=tier)
        first, second = env.reset(), env.reset()
        assert torch.equal(first.update_(second)["agent", "observation"], second["agent", "observation"])
        td = env.rand_step(first)
        rewards = td["next", "adversary", "reward"].clone()
        td["next", "adversary", "reward"][:, 0] = 100
        assert torch.equal(td["next", "adversary", "reward"][:, 1:], rewards[:, 1:])
        td["next", "agent", "done"].fill_(True)
        assert not td["next", "done"].any()


def test_lent_memory_comes_back_when_nobody_sees_it() -> None:
    size = ((LARGE,), torch.uint8)
    for keep in (lambda x: x[5:], lambda x: x.numpy(), np.from_dlpack, lambda x: memoryview(x.numpy())):
        pool = BufferPool()
        [x] = pool.lend([size])
        held = keep(x)
        del x
        assert pool.free == 0
        assert pool.lend([size])[0].data_ptr() != np.asarray(held).__array_interface__["data"][0]
        del held
        assert pool.free == LARGE
    pool = BufferPool()
    [x] = pool.lend([size])
    x.fill_(3).share_memory_()  # moves it
    assert pool.free == LARGE
    pool.lend([size])[0].fill_(4)
    assert bool((x == 3).all())
    [x, y] = pool.lend([size, size])
    del x, y
    assert pool.free == 2 * LARGE
    pool.lend([((2 * LARGE,), torch.uint8)])
    assert pool.free == 2 * LARGE  # that one; blocks of another size are let go
    pool = copy.copy(BufferPool(spare=1))
    x = pool.lend([size])
    y = pool.lend([size])  # while the last is still seen
    del x, y
    assert pool.free == 2 * LARGE


def test_truncating_the_last_step_leaves_what_had_ended() -> None:
    env = GroupedEnv(terminate={"agent_0": 2}, batch_size=[3], rule="all")
    data = env.rollout(2, set_truncated=True)["next", "agents"][:, -1]
    assert data["terminated"][..., 0].tolist() == [[True, False, False]] * 3
    assert data["truncated"][..., 0].tolist() == [[False, True, True]] * 3
    assert bool(data["done"].all())
    over = make("balance", 40, seed=0)
    data = over.rollout(200, set_truncated=True)["next"][:, -1]
    ended = data["terminated"]
    assert 0 < int(ended.sum()) < 40
    assert torch.equal(data["truncated"], ~ended)
    assert torch.equal(data["agents", "truncated"][:, 0], ~ended)


def test_states_put_back_are_told_to_transforms() -> None:
    env = TransformedEnv(MaskedEnv(n=3, max_steps=9), ActionMask())
    games = TransformedEnv(make("connect_four", 2, seed=0), ActionMask(("x", "action"), ("x", "action_mask")))
    del env
    td = games.reset()
    state = games.get_state(td)
    for _ in range(14):
        td = games.step_mdp(games.step(games.rand_action(td)))
    start = games.set_state(state)
    mask = games.full_action_spec["x", "action"].mask
    assert torch.equal(mask, start["x", "action_mask"])


def test_rows_that_go_on_keep_what_transforms_remember() -> None:
    env = TransformedEnv(make("simple_spread", 3, seed=0), Compose(StepCounter(), RewardSum()))
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.rand_step(td))
    state = env.get_state(td)
    for _ in range(4):
        td = env.step_mdp(env.rand_step(td))
    mask = torch.tensor([True, False, False])
    again = env.set_state(state, mask, td)
    assert again["step_count"].flatten().tolist() == [3, 7, 7]
    assert torch.equal(again["agents", "episode_reward"][1:], td["agents", "episode_reward"][1:])
    for given in ((state, mask), (env.get_state(), mask, td)):
        with pytest.raises(SpecError, match=r"set_state: .*step_count.* live in the data; with a mask, save them too"):
            env.set_state(*given)


def test_transforms_under_and_over_a_vector_of_envs_remember() -> None:
    envs = SerialEnv(2, lambda: TransformedEnv(make("simple_spread", 3, seed=0, compile="none"), StepCounter()))
    env = TransformedEnv(envs, RewardSum())
    td = env.reset()
    for _ in range(3):
        td = env.step_mdp(env.rand_step(td))
    state, then = env.get_state(td), td
    for _ in range(4):
        td = env.step_mdp(env.rand_step(td))
    mask = torch.tensor([[True, False, False], [False, True, False]])
    again = env.set_state(state, mask, td)
    assert again["step_count"].flatten().tolist() == [3, 7, 7, 7, 3, 7]
    sums = torch.where(mask[..., None, None], then["agents", "episode_reward"], td["agents", "episode_reward"])
    assert torch.equal(again["agents", "episode_reward"], sums)
    assert bool((env.set_state(state)["step_count"] == 3).all())
    for given in ((state, mask), (env.get_state(), mask, td)):
        for one in (env, envs):
            with pytest.raises(SpecError, match=r"set_state: .*(step_count|episode_reward).* live in the data"):
                one.set_state(*given)


def test_step_mdp_makes_new_containers_of_anything() -> None:
    def nested(**entries: torch.Tensor) -> TensorDict:
        return TensorDict(entries, [2])

    zero, one = torch.zeros(2), torch.ones(2)
    td = TensorDict(
        {"data": nested(x=zero, action=zero), "next": nested(data=nested(x=one), rest=nested(reward=one))}, [2]
    )
    td["next", "agents"] = LazyStackedTensorDict(nested(x=one), nested(x=zero), stack_dim=1)
    keys = {"reward_keys": ("rest", "reward"), "action_keys": ("data", "action")}
    for given in (td, td.clone().lock_()):
        out = marlenv.step_mdp(given, **keys)
        assert set(out.keys()) == {"data", "agents"}  # what became empty is gone
        for name in ("data", "agents"):
            assert out.get(name) is not given["next"].get(name)
            assert not out.get(name).is_locked
        out["data", "y"] = one
        out["agents", "y"] = torch.zeros(2, 2)
        assert "y" not in given["next", "data"].keys()
        assert "y" not in given["next", "agents"].keys()
