"""torchrl's collectors and pools of processes over our envs. Makers are functions of this module: workers import it."""

from __future__ import annotations

import warnings
from functools import partial

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
    from torchrl.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
    from torchrl.envs import ParallelEnv

import marlenv

pytestmark = pytest.mark.filterwarnings("ignore:::torchrl", "ignore:::torch")


def make(name: str, rows: int = 3, **options):
    return marlenv.to_torchrl(marlenv.make(name, num_envs=rows, **options))


@pytest.mark.parametrize("maker", [False, True])
@pytest.mark.parametrize("name", ["tic_tac_toe", "simple_tag", "navigation"])
def test_a_collector_takes_an_instance_or_a_maker_and_needs_no_policy(name: str, maker: bool) -> None:
    env = partial(make, name) if maker else make(name)
    collector = Collector(env, None, frames_per_batch=30, total_frames=60)
    collector.set_seed(0)
    collector.reset()  # it was reset when it was made
    batches = list(collector)
    again = marlenv.make(name, num_envs=3)
    again.set_seed(0)
    alone = again.rollout(20, break_when_any_done=False)
    assert [batch.shape for batch in batches] == [(3, 10), (3, 10)]
    for key in [*again.observation_keys, *again.action_keys]:
        assert torch.equal(torch.cat([batch[key] for batch in batches], 1), alone[key]), key


def test_a_collector_cuts_trajectories_at_every_level() -> None:
    collector = Collector(make("simple_tag"), None, frames_per_batch=60, total_frames=60, max_frames_per_traj=8)
    (batch,) = list(collector)
    for key in ("truncated", ("agent", "truncated"), ("adversary", "truncated")):
        ends = batch["next"].get(key).flatten(2).all(-1)
        assert ends[0].nonzero().flatten().tolist() == [7, 15], key
    assert not batch["next", "terminated"].any()


def test_a_collector_resets_when_it_is_told_to() -> None:
    collector = Collector(make("simple_spread", max_steps=50), None, frames_per_batch=30, total_frames=90)
    it = iter(collector)
    next(it)
    before = next(it)["agents", "observation"][:, -1].clone()
    collector.reset()
    after = next(it)["agents", "observation"][:, 0]
    assert not torch.allclose(before, after)
    assert not after[..., 2:4].any()  # a new episode begins at rest
    collector.shutdown()


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
def test_replay_buffers_give_back_what_was_put_in(storage) -> None:
    env = marlenv.make("kuhn_poker", num_envs=4, seed=0)
    data = env.rollout(10, break_when_any_done=False).reshape(-1)
    buffer = ReplayBuffer(storage=storage(len(data)), sampler=SamplerWithoutReplacement(), batch_size=len(data))
    buffer.extend(data)
    for key in data.keys(True, True):
        assert torch.equal(buffer[:][key], data[key]), key
    sample = TensorDictReplayBuffer(storage=storage(100), batch_size=7)
    sample.extend(data)
    assert sample.sample()["player_0", "observation"].shape == (7, 1, 11)


@pytest.mark.slow
def test_seeded_workers_play_different_episodes_and_the_same_ones_again() -> None:
    def collected() -> torch.Tensor:
        collector = MultiSyncCollector(
            [partial(make, "simple_spread")] * 2, None, frames_per_batch=60, total_frames=60, cat_results="stack"
        )
        try:
            collector.set_seed(0)
            (batch,) = list(collector)
            return batch["agents", "observation"].clone(), batch["agents", "action"].clone()
        finally:
            collector.shutdown()

    first, second = collected(), collected()
    for one, other in zip(first, second, strict=True):
        assert not torch.equal(one[0], one[1])
        assert torch.equal(one, other)


@pytest.mark.slow
def test_workers_need_not_wait_for_one_another() -> None:
    collector = MultiAsyncCollector([partial(make, "tic_tac_toe")] * 2, None, frames_per_batch=30, total_frames=120)
    try:
        batches = list(collector)
    finally:
        collector.shutdown()
    assert sum(batch.numel() for batch in batches) == 120
    assert all(batch["next", "done"].any() for batch in batches)


@pytest.mark.slow
def test_a_pool_of_torchrls_processes_gives_what_our_series_gives() -> None:
    pool = ParallelEnv(2, partial(make, "simple_tag", max_steps=6))
    series = marlenv.SerialEnv(2, lambda: marlenv.make("simple_tag", num_envs=3, max_steps=6))
    try:
        pool.set_seed(4), series.set_seed(4)
        actions = [series.full_action_spec.rand() for _ in range(15)]

        def played(env):
            moves = iter(actions)
            return env.rollout(15, lambda td: td.update(next(moves)), break_when_any_done=False)

        a, b = played(pool), played(series)
        for key in b.keys(True, True):
            assert torch.equal(a[key], b[key]), key
    finally:
        pool.close()
