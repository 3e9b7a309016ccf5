"""An asynchronous pool gives what a serial one gives; and each env goes on by itself."""

from __future__ import annotations

import time
from functools import partial

import pytest
import torch
from pools import KINDS, Fragile, Stateless, assert_equal, refusals
from tensordict import LazyStackedTensorDict

from marlenv import AsyncEnvPool, ProcessorAsyncEnvPool, SerialEnv, ThreadingAsyncEnvPool, TransformedEnv, VecNorm
from marlenv.errors import BadIndex, KeyMissing, NeedsReset, ShapeError, SpecError, WorkerFailed
from marlenv.testing import CountingEnv, GroupedEnv, MaskedEnv

BACKENDS = ["threading", "multiprocessing"]


def made(kind, backend, **options):
    makers, kwargs = zip(*KINDS[kind](), strict=True)
    return AsyncEnvPool(list(makers), backend=backend, create_env_kwargs=list(kwargs), **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "kind", ["counting", "rows", "groups", "uneven agents", "transformed", "scenario", "pettingzoo", "gymnasium"]
)
def test_asynchronous_is_serial_entry_by_entry(kind, backend):
    makers, kwargs = zip(*KINDS[kind](), strict=True)
    serial = SerialEnv(len(makers), list(makers), create_env_kwargs=list(kwargs))
    pool = made(kind, backend, **({"envs_per_worker": 3} if backend == "multiprocessing" else {}))
    assert type(pool) is {"threading": ThreadingAsyncEnvPool, "multiprocessing": ProcessorAsyncEnvPool}[backend]
    assert pool.batch_size == serial.batch_size
    assert (pool.num_envs, pool.min_get, pool.backend, pool.stack) == (4, 1, backend, "dense")
    for how in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        assert serial.set_seed(5) == pool.set_seed(5)
        one, two = (env.rollout(6, **how) for env in (serial, pool))
        assert_equal(one, two.exclude("env_index"), how)
    pool.close()


@pytest.fixture(params=BACKENDS)
def pool(request):
    """Three envs that end after 2, 3 and 4 steps."""
    env = AsyncEnvPool(
        [CountingEnv] * 3, backend=request.param, create_env_kwargs=[{"max_steps": n} for n in (2, 3, 4)]
    )
    yield env
    env.close(raise_if_closed=False)


def test_envs_go_on_by_themselves(pool):
    td = pool.rand_action(pool.reset())
    assert list(td["env_index"]) == [0, 1, 2]
    pool.async_step_send(td[[0, 2]])
    first = pool.async_step_recv(min_get=2)
    assert list(first["env_index"]) == [0, 2]
    assert first["next", "observation"].flatten().tolist() == [1, 1]
    assert torch.equal(first["action"], td["action"][[0, 2]])
    again = pool.rand_action(td)[0]
    again["env_index"] = torch.tensor(0)
    pool.async_step_send(again)
    one = pool.async_step_recv(env_index=0)
    assert one.batch_size == ()
    assert one["next", "observation"].item() == 2
    assert one["next", "done"].item()
    pool.async_reset_send(env_index=0)
    assert pool.async_reset_recv()["observation"].flatten().tolist() == [0]
    pool.async_step_send(td[1:], env_index=[1, 2])
    second = pool.async_step_recv(min_get=2)
    assert second["next", "observation"].flatten().tolist() == [1, 2]


def test_steps_and_resets_in_one(pool):
    td = pool.reset()
    for expected in ([1, 1, 1], [0, 2, 2], [1, 0, 3]):
        pool.async_step_and_maybe_reset_send(pool.rand_action(td))
        data, td = pool.async_step_and_maybe_reset_recv(min_get=3)
        assert td["observation"].flatten().tolist() == expected
        assert "reward" not in td.keys()
        assert list(td["env_index"]) == [0, 1, 2]
    assert data["next", "done"].flatten().tolist() == [False, True, False]


def test_least_and_most(pool):
    td = pool.rand_action(pool.reset())
    pool.async_step_send(td)
    with pytest.raises(SpecError, match=r"async_step_recv: cannot wait for 4 envs when 3 are at work"):
        pool.async_step_recv(min_get=4)
    with pytest.raises(SpecError, match=r"async_step_send: envs \[1\] are still at work"):
        pool.async_step_send(td[1:2])
    with pytest.raises(SpecError, match=r"step: envs \[0, 1, 2\] are still at work"):
        pool.step(td)
    seen = []
    while len(seen) < 3:
        seen += list(pool.async_step_recv(max_get=1)["env_index"])
    assert sorted(seen) == [0, 1, 2]
    pool.async_step_send(td)
    pool.min_get = 3
    assert pool.async_step_recv().batch_size == (3,)


@pytest.mark.parametrize("backend", BACKENDS)
def test_slow_envs_are_not_waited_for(backend):
    class Slow(CountingEnv):
        def _step(self, tensordict):
            time.sleep(0.4)
            return super()._step(tensordict)

    env = AsyncEnvPool([CountingEnv, Slow], backend=backend)
    td = env.rand_action(env.reset())
    env.async_step_send(td)
    assert list(env.async_step_recv()["env_index"]) == [0]
    with pytest.raises(TimeoutError, match=r"async_step_recv: 0 of 1 envs have answered in time; receive them later"):
        env.async_step_recv(timeout=0.01)
    assert list(env.async_step_recv(timeout=20)["env_index"]) == [1]
    env.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_envs_of_different_kinds_as_a_lazy_stack(backend):
    env = AsyncEnvPool([CountingEnv, MaskedEnv], stack="lazy", backend=backend)
    td = env.reset()
    assert type(td) is LazyStackedTensorDict
    assert set(td[1].keys()) - set(td[0].keys()) == {"action_mask"}
    stepped = env.rand_step(td)
    assert stepped[0]["action"].dtype is torch.float32
    assert stepped[1]["action"].dtype is torch.int64
    one = env.step_mdp(stepped)[0]
    one["action"] = torch.zeros(1)
    one["env_index"] = torch.tensor(0)
    env.async_step_send(one)
    result = env.async_step_recv()
    assert result["next", "observation"].tolist() == [[2.0]]
    env.close()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["raise", "kill"])
def test_an_env_that_fails_is_named(backend, how):
    if (backend, how) == ("threading", "kill"):
        return  # it would end this process
    env = AsyncEnvPool([Fragile, partial(Fragile, fails_at=1, how=how)], backend=backend)
    env.async_step_send(env.rand_action(env.reset()))
    text = r"env 1 failed in 'step': (ValueError: broken at step 1|its worker process ended with exit code -9)"
    with pytest.raises(WorkerFailed, match=text):
        env.async_step_recv(min_get=2)
    assert env.is_closed
    assert env.reset()["observation"].flatten().tolist() == [0, 0]  # it starts again
    env.close()


def test_an_env_that_fails_may_be_started_again():
    env = AsyncEnvPool([Fragile, partial(Fragile, fails_at=2)], on_failure="restart")
    rollout = env.rollout(3, break_when_any_done=False)
    assert rollout["next", "truncated"].flatten().tolist() == [False, False, False, False, True, False]
    env.close()


def test_attributes_states_and_starting_again(pool):
    assert pool.max_steps == [2, 3, 4]
    assert pool.env_batch_sizes == [torch.Size([])] * 3
    with pytest.raises(AttributeError, match="no_such_thing"):
        pool.no_such_thing  # noqa: B018
    pool.rollout(2)
    state = pool.get_state()
    assert state["count"].flatten().tolist() == [2, 2, 2]
    state["count"][1] = 0
    assert pool.set_state(state)["observation"].flatten().tolist() == [2, 0, 2]
    pool.shutdown()
    pool.update_kwargs({"max_steps": 5})
    assert pool.max_steps == [5, 5, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_question_that_is_refused_leaves_the_envs_alone(backend):
    assert refusals(AsyncEnvPool([Stateless] * 2, backend=backend)) == refusals(SerialEnv(2, Stateless))


def test_a_pool_that_has_ended_is_not_stepped_before_a_reset():
    env = AsyncEnvPool([CountingEnv] * 2)
    td = env.rand_action(env.reset())
    env.close()
    with pytest.raises(NeedsReset, match=r"step: .* envs \[0, 1\] were started again .* call reset\(\)"):
        env.step(td.clone())
    env.async_reset_send(env_index=1)
    env.async_reset_recv()
    env.async_step_send(td[1:].clone())
    assert env.async_step_recv()["next", "observation"].flatten().tolist() == [1]
    with pytest.raises(NeedsReset, match=r"async_step_send: .* envs \[0\]"):
        env.async_step_send(td.clone())
    env.reset()
    assert env.step(td)["next", "observation"].flatten().tolist() == [1, 1]
    env.close()


@pytest.mark.parametrize("none", [[], range(0), torch.tensor([], dtype=torch.int64)], ids=["list", "range", "tensor"])
def test_no_envs_at_all_are_asked_nothing(pool, none):
    td = pool.rand_action(pool.reset())
    pool.async_reset_send(env_index=none)
    pool.async_step_send(td[:0], env_index=none)
    pool.async_step_send(td[:0])
    pool.async_step_send(pool.async_step_recv(min_get=0))
    with pytest.raises(SpecError, match=r"cannot wait for 1 envs when 0 are at work"):
        pool.async_step_recv()
    assert pool.step(td)["next", "observation"].flatten().tolist() == [1, 1, 1]


class Strict(CountingEnv):
    """Wants to be reset before it is stepped."""

    begun = False

    def _reset(self, tensordict, **_):
        self.begun = True
        return super()._reset(tensordict)

    def _step(self, tensordict):
        if not self.begun:
            raise NeedsReset("Strict.step: the env was not reset; call reset() first")
        return super()._step(tensordict)


@pytest.mark.parametrize("backend", BACKENDS)
def test_envs_that_want_a_reset_first_say_so_and_the_others_go_on(backend):
    env = AsyncEnvPool([Strict, CountingEnv, Strict], backend=backend)
    td = env.rand_action()
    env.async_step_send(td, [0, 1, 2])
    with pytest.raises(NeedsReset, match="Strict.step: the env was not reset"):
        env.async_step_recv(min_get=3)
    assert env.async_step_recv()["env_index"] == [1]
    env.async_step_and_maybe_reset_send(td[0], env_index=0)
    with pytest.raises(NeedsReset, match="Strict.step: the env was not reset"):
        env.async_step_and_maybe_reset_recv(env_index=0)
    env.async_reset_send(env_index=[0, 2])
    env.async_reset_recv(min_get=2)
    env.async_step_send(td, [0, 1, 2])
    assert env.async_step_recv(min_get=3)["next", "observation"].flatten().tolist() == [1, 2, 1]
    env.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_envs_have_learnt_is_kept(backend):
    env = AsyncEnvPool([learning, learning], backend=backend)
    env.rollout(5)
    saved = env.state_dict()
    other = SerialEnv(2, learning)
    assert list(saved) == list(other.state_dict()) == ["worker0", "worker1"]
    assert any(value.abs().sum() > 0 for value in saved["worker1"].values())
    other.load_state_dict(saved)
    env.load_state_dict(other.state_dict()["worker0"])
    for before, after in zip(saved["worker0"].values(), env.state_dict()["worker1"].values(), strict=True):
        assert torch.equal(before, after)
    env.close()


def learning():
    """An env that keeps statistics."""
    return TransformedEnv(CountingEnv(), VecNorm(in_keys=["observation"]))


def test_envs_may_be_given_to_threads():
    env = AsyncEnvPool([CountingEnv(max_steps=2), CountingEnv(max_steps=3)])
    assert env.rollout(5)["next", "observation"].flatten().tolist() == [1, 2, 1, 2]
    env.close()
    assert AsyncEnvPool(CountingEnv).num_envs == 1


def test_processes_may_be_bound_to_cpus():
    import os

    cpu = min(os.sched_getaffinity(0))
    env = AsyncEnvPool([Bound] * 2, backend="multiprocessing", envs_per_worker=2, worker_affinity=[[cpu]])
    assert env.cpus == [[cpu]] * 2
    env.close()


class Bound(CountingEnv):
    """Says which CPUs its process may use."""

    @property
    def cpus(self):
        import os

        return sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("make", "text", "kind"),
    [
        (
            lambda: AsyncEnvPool([CountingEnv], backend="asyncio"),
            r"backend must be one of \['multip.*got 'asyncio'",
            SpecError,
        ),
        (
            lambda: AsyncEnvPool([CountingEnv], stack="loose"),
            r"stack must be one of \['dense', .*got 'loose'",
            SpecError,
        ),
        (lambda: AsyncEnvPool([CountingEnv], exchange="shm"), r"are for backend='multiprocessing'", SpecError),
        (
            lambda: AsyncEnvPool([CountingEnv()], backend="multiprocessing"),
            r"ProcessorAsyncEnvPool: env 0 is an env; give a function that makes it",
            SpecError,
        ),
        (
            lambda: AsyncEnvPool([CountingEnv, GroupedEnv]),
            r"all children must have the same entries, but child 1 lacks the action entries",
            SpecError,
        ),
    ],
)
def test_what_is_refused_when_it_is_made(make, text, kind):
    with pytest.raises(kind, match=text):
        make()


def test_what_is_refused_when_it_is_used(pool):
    td = pool.rand_action(pool.reset())
    who = f"{type(pool).__name__}.async_step_send: "
    for data, index, kind, text in (
        (td[:2], [1, 1], SpecError, r"each env once, got env_index \[1\] more than once"),
        (td[:2], [1, 3], BadIndex, r"env_index must be from 0 to 2, got 3"),
        (td, [0, 1], ShapeError, r"expected data of batch size \[2\] for env_index \[0, 1\], got \[3\]"),
        (td.exclude("env_index"), None, SpecError, r"the data have no entry 'env_index'; give env_index="),
        (td, [0.5, 1, 2], SpecError, r"env_index must be integers"),
        (td, [], ShapeError, r"expected data of batch size \[0\] for env_index \[\], got \[3\]"),
    ):
        with pytest.raises(kind, match=who + text):
            pool.async_step_send(data, env_index=index)
    with pytest.raises(
        SpecError, match=r"async_step_recv: env_index must be the number of one env, got \[1\]; min_get"
    ):
        pool.async_step_recv(env_index=[1])
    with pytest.raises(SpecError, match=r"async_step_recv: env 1 is not at work; envs \[\] are"):
        pool.async_step_recv(env_index=1)
    pool.async_step_send(td)
    with pytest.raises(SpecError, match=r"Pool.set_seed: envs \[0, 1, 2\] are still at work"):
        pool.set_seed(0)


@pytest.mark.parametrize("on_failure", ["raise", "restart"])
def test_actions_are_checked_before_any_env_moves(on_failure):
    env = AsyncEnvPool([CountingEnv] * 2, on_failure=on_failure)
    td = env.rand_action(env.reset())
    bad = td.clone().set("action", torch.zeros(2, 7, dtype=torch.int64))
    for send in (env.async_step_send, env.async_step_and_maybe_reset_send):
        with pytest.raises(KeyMissing, match="no action under 'action'"):
            send(td.exclude("action"))
        with pytest.raises(ShapeError, match="action 'action' must have shape"):
            send(bad.clone())
    env.async_step_send(td)
    assert env.async_step_recv(min_get=2)["next", "observation"].flatten().tolist() == [1, 1]
    assert env.failures.tolist() == [0, 0]
    env.close()


def test_what_is_asked_of_pools_must_make_sense():
    one = CountingEnv()
    with pytest.raises(SpecError, match="the same env was given twice"):
        AsyncEnvPool([one, one])
    env = AsyncEnvPool([CountingEnv] * 2)
    td = env.rand_action(env.reset())
    with pytest.raises(SpecError, match="env_index must be integers, got \\[True, False\\]"):
        env.async_step_send(td, [True, False])
    env.async_step_send(td)
    for odd in ({"max_get": 0}, {"min_get": -1}):
        with pytest.raises(SpecError, match="must be an integer from"):
            env.async_step_recv(**odd)
    env.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_look_at_what_has_come_finds_nothing_or_something(backend):
    pool = AsyncEnvPool([CountingEnv] * 2, backend=backend)
    td = pool.rand_action(pool.reset())
    for _ in range(2):
        nothing = pool.async_step_recv(min_get=0)
        assert (nothing.batch_size, len(nothing), list(nothing["env_index"])) == (torch.Size([0]), 0, [])
    step, following = pool.async_step_and_maybe_reset_recv(min_get=0)
    assert len(step) == len(following) == len(pool.async_reset_recv(min_get=0)) == 0
    pool.async_step_send(td)
    found = []
    while len(found) < 2:
        found += list(pool.async_step_recv(min_get=0)["env_index"])
        time.sleep(0.01)
    assert sorted(found) == [0, 1]
    pool.close()
