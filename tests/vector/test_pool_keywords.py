"""A pool takes every keyword of TorchRL's, and does with it what TorchRL does."""

from __future__ import annotations

import inspect

import pytest
import torch
import torchrl_oracle
from pools import assert_equal
from scripted_actions import Script
from tensordict import LazyStackedTensorDict
from twin_envs import load

import marlenv
from marlenv import ParallelEnv, SerialEnv, TransformedEnv
from marlenv.errors import EnvClosed, SpecError
from marlenv.testing import CountingEnv, GroupedEnv


def twins(**options):
    """TorchRL's pool and ours of the same env."""
    for library, lib in (("torchrl", torchrl_oracle.envs), ("marlenv", marlenv)):
        yield lib.SerialEnv(2, lambda library=library, **own: load("conventions", library).Counter(**own), **options)


FACES = {
    "SerialEnv": ["__init__", "configure_parallel", "start", "update_kwargs", "close"],
    "ParallelEnv": ["__init__", "configure_parallel", "start", "update_kwargs", "close"],
    "AsyncEnvPool": [
        *["__init__", "shutdown", "stats"],
        *[f"async_{kind}_{end}" for kind in ("step", "step_and_maybe_reset", "reset") for end in ("send", "recv")],
    ],
    "ProcessorAsyncEnvPool": ["__init__"],
    "ThreadingAsyncEnvPool": ["__init__"],
    "EnvCreator": ["__init__", "make_variant", "load_state_dict"],
    "MultiThreadedEnv": ["__init__"],
    "MultiThreadedEnvWrapper": ["__init__"],
}
"""What is called of every pool."""


@pytest.mark.reference
@pytest.mark.parametrize(("name", "method"), [(name, method) for name, methods in FACES.items() for method in methods])
def test_keywords_and_their_defaults_are_torchrls(name, method):
    theirs, ours = (
        inspect.signature(getattr(getattr(lib, name), method)).parameters for lib in (torchrl_oracle.envs, marlenv)
    )
    named = {n: p for n, p in theirs.items() if p.kind is not p.VAR_KEYWORD}
    assert {n: (p.kind, p.default) for n, p in named.items()} == {
        n: (p.kind, p.default) for n, p in ours.items() if n in named
    }
    places = [n for n, p in theirs.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [n for n, p in ours.items() if p.kind is p.POSITIONAL_OR_KEYWORD][: len(places)] == places


@pytest.mark.reference
@pytest.mark.parametrize("name", ["SerialEnv", "ParallelEnv", "ProcessorAsyncEnvPool", "ThreadingAsyncEnvPool"])
def test_nothing_public_of_torchrls_pools_is_missing(name):
    theirs, ours = (getattr(lib, name) for lib in (torchrl_oracle.envs, marlenv))
    own = [one for one in theirs.__mro__ if one.__module__.endswith(("batched_envs", "async_envs"))]
    public = {method for one in own for method in vars(one) if not method.startswith("_")}
    assert len(public) > 10
    missing = {method for method in public if not hasattr(ours, method)}
    assert missing <= {"select_and_clone", "non_blocking"}  # of its own buffers; an attribute of ours


@pytest.mark.reference
def test_asyncio_is_no_backend_of_either():
    for lib in (torchrl_oracle.envs, marlenv):
        with pytest.raises((NotImplementedError, ValueError)):
            lib.AsyncEnvPool([CountingEnv], backend="asyncio")


@pytest.mark.parametrize("consolidate", [True, False])
def test_data_without_buffers_are_one_message_per_process_however_they_are_packed(consolidate):
    """What ``consolidate`` is for: TorchRL's pieces are one message only with it."""
    options = {"num_processes": 2, "use_buffers": False, "consolidate": consolidate}
    env, same = ParallelEnv(4, GroupedEnv, **options), SerialEnv(4, GroupedEnv)
    data, sent = [], []
    for one in (env, same):
        one.set_seed(3)
        data.append(one.rollout(4))
    assert_equal(*data)
    td = env.rand_action(env.reset())
    for worker in env._workers:
        worker.pipe = Counted(worker.pipe, sent)
    env.step(td)
    assert sorted(sent) == ["recv_bytes", "recv_bytes", "send_bytes", "send_bytes"]
    env.close()


class Counted:
    """A pipe that notes what is sent and received."""

    def __init__(self, pipe, calls):
        self.pipe, self.calls = pipe, calls

    def __getattr__(self, name):
        if name in ("send_bytes", "recv_bytes"):
            self.calls.append(name)
        return getattr(self.pipe, name)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"pin_memory": True}, ValueError),
        ({"allow_step_when_done": True}, ValueError),
        ({"memmap": True}, RuntimeError),
        ({"mp_start_method": "spawn"}, TypeError),
        ({"metadata_from_workers": True}, TypeError),
        ({"create_env_kwargs": [{}]}, RuntimeError),
    ],
)
def test_what_torchrl_refuses_is_refused(options, error):
    theirs, ours = (lambda lib=lib: lib.SerialEnv(2, CountingEnv, **options) for lib in (torchrl_oracle.envs, marlenv))
    with pytest.raises(error):
        theirs()
    with pytest.raises(error):
        ours()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"pin_memory": True}, r"SerialEnv: pin_memory must be False, got True; leave it out"),
        ({"memmap": True}, r"SerialEnv: memmap and shared memory are mutually exclusive; pass shared_memory=False"),
        (
            {"mp_start_method": "spawn"},
            r"SerialEnv: mp_start_method is for child processes, got 'spawn'; use ParallelEnv",
        ),
        (
            {"share_individual_td": False, "create_env_kwargs": [{}, {"obs_agents": False}]},
            r"child 1 has the shape \[1, 3, 10\] in its observation entry \('agents', 'observation'\), and child 0 has "
            r"\[1, 3, 14\]",
        ),
    ],
)
def test_errors_say_what_to_do(options, text):
    with pytest.raises(SpecError, match=text):
        SerialEnv(2, lambda **own: marlenv.make("simple_spread", 1, **own), **options)


@pytest.mark.reference
@pytest.mark.parametrize("share", [None, True, False])
@pytest.mark.parametrize("buffers", [None, False])
def test_individual_data_come_as_a_lazy_stack(share, buffers):
    kinds = []
    for env in twins(share_individual_td=share, use_buffers=buffers):
        env.set_seed(0)
        td = env.reset()
        stepped = env.step(Script(env)(td))
        kinds.append([type(td) is LazyStackedTensorDict, type(stepped["next"]) is LazyStackedTensorDict])
        assert stepped["next", "reward"].shape == (2, 1)
    if buffers is None:
        assert kinds[0] == kinds[1]
    assert kinds[1] == [bool(share)] * 2


@pytest.mark.reference
def test_pools_start_once_and_start_again_after_they_were_closed():
    for env in twins():
        assert env.is_closed
        env.start()
        assert not env.is_closed
        with pytest.raises(RuntimeError):
            env.start()
        with pytest.raises(RuntimeError):
            env.configure_parallel(num_threads=2)
        env.rollout(2)
        env.close()
        assert env.is_closed
        with pytest.raises(RuntimeError):
            env.close()
        env.close(raise_if_closed=False)
        assert env.rollout(2)["next", "done"].shape == (2, 2, 1)
        assert env.configure_parallel is not None
    env.close()
    assert env.configure_parallel(num_threads=3) is env
    assert env.num_threads == 3
    with pytest.raises(EnvClosed, match=r"SerialEnv.start: the env runs already; close it first"):
        [env.start() for _ in range(2)]


def test_transformed_pools_start_again_too():
    env = TransformedEnv(SerialEnv(2, CountingEnv))
    env.rollout(3)
    env.close()
    assert env.is_closed
    assert env.rollout(3)["next", "observation"].flatten().tolist() == [1, 2, 3] * 2
    assert not env.is_closed


def test_new_keyword_arguments_are_used_at_the_next_start():
    env = SerialEnv(2, CountingEnv, create_env_kwargs={"max_steps": 3})
    env.update_kwargs({"max_steps": 2})
    assert env.max_steps == [2, 2]
    env.update_kwargs([{"max_steps": 4}, {"max_steps": 5}])
    assert env.max_steps == [2, 2]
    env.close()
    assert env.max_steps == [4, 5]
    with pytest.raises(SpecError, match=r"SerialEnv.update_kwargs: 2 workers need 2 entries in kwargs, got 1"):
        env.update_kwargs([{}])


def test_resets_take_keyword_arguments_for_all_children_or_for_each():
    calls = []

    class Told(CountingEnv):
        def _reset(self, tensordict, **options):
            calls.append(options)
            return super()._reset(tensordict)

    env = SerialEnv(2, Told)
    env.reset(level=1)
    env.reset(list_of_kwargs=[{"level": 2}, {"level": 3}], fast=True)
    assert calls == [{"level": 1}, {"level": 1}, {"level": 2, "fast": True}, {"level": 3, "fast": True}]
    with pytest.raises(SpecError, match=r"SerialEnv.reset: 2 workers need 2 entries in list_of_kwargs, got 1"):
        env.reset(list_of_kwargs=[{}])


def test_one_seed_for_all_children():
    env = SerialEnv(2, GroupedEnv)
    assert env.set_seed(4, static_seed=True) == 4
    a, b = env.rollout(3)["noise"]
    assert torch.equal(a, b)


@pytest.mark.reference
def test_state_dicts_have_an_entry_per_child():
    for env in twins():
        env.reset()
        saved = env.state_dict()
        assert list(saved) == ["worker0", "worker1"]
        env.load_state_dict(saved)
        env.load_state_dict(saved["worker0"])


def test_one_env_that_is_given_twice_is_copied():
    one = CountingEnv()
    env = SerialEnv(2, lambda: one)
    assert env.children_envs[0] is not env.children_envs[1]
    assert env.rollout(2)["next", "observation"].flatten().tolist() == [1, 2, 1, 2]
