"""Copies of envs draw on in the stream of their env, wherever they were made."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import marlenv


def actions(env, count):
    """The random actions of steps, and whether one of them cannot leave inference mode."""
    drawn = [env.rand_action()[env.action_keys[0]] for _ in range(count)]
    return torch.stack(drawn), any(action.is_inference() for action in drawn)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("name", ["simple_spread", "tic_tac_toe"])
def test_a_copy_made_in_inference_mode_draws_what_its_env_draws(name, copied):
    options = {} if name == "tic_tac_toe" else {"compile": "none"}
    env, never = (marlenv.make(name, num_envs=4, seed=0, **options) for _ in range(2))
    begun, _ = actions(env, 3)  # in the middle of those that are drawn at once
    with torch.inference_mode():
        other = copied(env)
    whole, _ = actions(never, 80)
    mine, _ = actions(env, 77)
    its, bound = actions(other, 77)
    assert not bound
    torch.testing.assert_close(torch.cat([begun, its]), whole, rtol=0, atol=0)
    torch.testing.assert_close(mine, its, rtol=0, atol=0)


def test_a_shallow_copy_takes_nothing_from_its_env():
    env, never = (marlenv.make("simple_spread", num_envs=2, seed=0, compile="none") for _ in range(2))
    env.rand_action()
    stream = copy.copy(env.action_stream)
    stream.take(env.batch_size, env.plan.actions)
    stream.take(env.batch_size, env.plan.actions)
    never.rand_action()
    assert torch.equal(actions(env, 3)[0], actions(never, 3)[0])
