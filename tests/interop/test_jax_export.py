"""Rollouts as JAX's arrays: the same memory, the same numbers, and arithmetic in JAX that agrees with ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

import marlenv
from marlenv import from_jax, to_jax
from marlenv.errors import DtypeError, ShapeError, SpecError, SpecTypeError

pytestmark = pytest.mark.slow
jax = pytest.importorskip("jax", reason="needs JAX: VENV=.venv tests/simulators.sh jaxmarl")


def rollout(name: str = "simple_spread", num_envs: int = 8, steps: int = 16) -> Any:
    options = {} if name == "connect_four" else {"compile": "none"}
    env = marlenv.make(name, num_envs=num_envs, seed=0, **options)
    return env.rollout(steps, break_when_any_done=False)


@pytest.mark.parametrize("name", ["simple_spread", "simple_tag", "connect_four"])
def test_all_entries_are_there_and_equal(name: str) -> None:
    data = rollout(name)
    keys = list(data.keys(True, True))
    with jax.enable_x64(name == "connect_four"):  # its boards are bits
        arrays = to_jax(data)
    assert len(jax.tree.leaves(arrays)) == len(keys)
    for key in keys:
        found = arrays
        for part in key if isinstance(key, tuple) else (key,):
            found = found[part]
        np.testing.assert_array_equal(np.asarray(found), data[key].numpy(), err_msg=str(key))


def test_large_entries_are_views() -> None:
    """Whatever the order of dimensions in memory."""
    data = rollout(num_envs=64)
    for key in ("observation", "action"):
        tensor = data["agents", key]
        assert to_jax(data)["agents"][key].unsafe_buffer_pointer() == tensor.data_ptr()
    for tensor in (torch.randn(64, 8), torch.randn(8, 64, 4).permute(2, 0, 1), torch.randn(8, 1, 64)):
        assert to_jax(TensorDict({"x": tensor}))["x"].unsafe_buffer_pointer() == tensor.data_ptr()
    sliced, expanded = torch.randn(8, 64)[:, ::2], torch.randn(8, 1).expand(8, 5)
    arrays = to_jax(TensorDict({"sliced": sliced, "expanded": expanded}))
    np.testing.assert_array_equal(np.asarray(arrays["sliced"]), sliced.numpy())
    np.testing.assert_array_equal(np.asarray(arrays["expanded"]), expanded.numpy())


def test_returns_in_jax_are_ours() -> None:
    """A compiled scan over the rewards of a rollout, and the same sum with PyTorch."""
    data = rollout()

    @jax.jit
    def returns(rewards: Any, done: Any) -> Any:
        def back(later: Any, now: Any) -> Any:
            value = now[0] + 0.9 * later * (1 - now[1])
            return value, value

        steps = (rewards.swapaxes(0, 1), done.swapaxes(0, 1))
        return jax.lax.scan(back, rewards[:, 0] * 0, steps, reverse=True)[1].swapaxes(0, 1)

    arrays = to_jax(data)["next"]["agents"]
    theirs = returns(arrays["reward"][..., 0], arrays["done"][..., 0])
    later = torch.zeros(8, 3)
    for step in reversed(range(16)):
        over = data["next", "agents", "done"][:, step, :, 0]
        later = data["next", "agents", "reward"][:, step, :, 0] + 0.9 * later * ~over
    np.testing.assert_allclose(np.asarray(theirs)[:, 0], later.numpy(), rtol=1e-5)


def test_there_and_back_is_the_same_memory() -> None:
    data = rollout(num_envs=64)
    back = from_jax(to_jax(data), data.batch_size)
    assert all(torch.equal(back[key], data[key]) for key in data.keys(True, True))
    key = ("agents", "observation")
    assert back[key].data_ptr() == data[key].data_ptr()
    assert back.batch_size == data.batch_size


def test_a_policy_in_jax_plays_our_env() -> None:
    env = marlenv.make("simple_spread", num_envs=8, seed=0, compile="none")
    policy = jax.jit(lambda seen: jax.numpy.tanh(seen[..., :2]))

    def act(td: Any) -> Any:
        played = {"agents": {"action": policy(to_jax(td.select(("agents", "observation")))["agents"]["observation"])}}
        return td.update(from_jax(played, td.batch_size))

    data = env.rollout(5, act)
    seen = data["agents", "observation"][..., :2]
    assert torch.allclose(data["agents", "action"], seen.tanh(), atol=1e-6)


def test_numbers_with_64_bits() -> None:
    small, large = torch.tensor([3, -4]), torch.tensor([1 << 40])
    assert to_jax(TensorDict({"x": small}))["x"].tolist() == [3, -4]
    with pytest.raises(DtypeError, match=r"entry 'state/board' has torch.int64 numbers beyond torch.int32.*enable_x64"):
        to_jax(TensorDict({"state": TensorDict({"board": large})}))
    with jax.enable_x64(True):
        assert to_jax(TensorDict({"x": large}))["x"].tolist() == [1 << 40]


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda: to_jax({"x": 1}), SpecTypeError, "expected a tensordict, got dict"),
        (lambda: to_jax(TensorDict({"text": "e4"})), SpecError, "entry 'text' is .*, which JAX has no array for"),
        (lambda: to_jax(TensorDict.lazy_stack([TensorDict({"x": torch.zeros(n)}) for n in (2, 3)])),
         SpecError, "agents of entry 'x' differ in shape"),
        (lambda: from_jax(jax.numpy.ones(3)), SpecTypeError, "expected nested dicts of arrays, got ArrayImpl"),
        (lambda: from_jax({"x": jax.numpy.ones(3)}, 3), ShapeError, r"must be a list of sizes, such as \[4\], got 3"),
        (lambda: from_jax({"a": {"x": jax.numpy.ones((3, 4))}}, [4]), ShapeError,
         r"entry 'a/x' must begin with the batch size \[4\], got \[3, 4\]"),
        (lambda: from_jax({"x": jax.numpy.ones(3)}, [3, 1]), ShapeError, r"the batch size \[3, 1\], got \[3\]"),
        (lambda: from_jax({"x": [1, 2]}, [2]), SpecTypeError, "entry 'x' must be an array of numbers, got list"),
        (lambda: from_jax({"x": jax.random.key(0)}), SpecTypeError, "got PRNGKeyArray; .* jax.random.key_data of"),
        (lambda: from_jax({"x": jax.numpy.ones(3, "int4")}, [3]), DtypeError, "entry 'x', of int4, cannot become a"),
        (lambda: from_jax({3: jax.numpy.ones(3)}), SpecTypeError, "names of entries must be texts, got 3"),
        (lambda: jax.jit(lambda x: from_jax({"x": x}, [3])["x"].sum())(jax.numpy.ones(3)), SpecTypeError,
         "entry 'x' is traced by JAX, .*; call from_jax outside of jax.jit"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        call()
