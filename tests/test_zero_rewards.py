"""Who earns nothing gets 0, and not -0, which people see when they print it."""

from __future__ import annotations

import pytest
import torch

import marlenv


def minus_nothing(env: marlenv.EnvBase, data) -> list:
    found = [(key, data["next"].get(key)) for key in env.reward_keys]
    return [key for key, x in found if bool(((x == 0) & torch.signbit(x)).any())]


@pytest.mark.parametrize("name", [*marlenv.available("game"), "simple_tag", "simple_world_comm"])
def test_no_reward_is_minus_nothing(name: str) -> None:
    env = marlenv.make(name, 8, seed=0)
    assert minus_nothing(env, env.rollout(20, break_when_any_done=False)) == []
    td = env.rand_action(env.reset())
    td["_step"] = torch.arange(8) % 2 == 0  # the way without short cuts
    assert minus_nothing(env, env.step(td)) == []
