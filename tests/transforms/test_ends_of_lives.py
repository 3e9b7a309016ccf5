"""Who is cut off by a transform does not live and act any more, as with a limit of the env's own."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDictBase

import marlenv
from marlenv import EnvBase, RandomTruncationTransform, SerialEnv, StepCounter, TimeLimit, Transform, TransformedEnv

NATIVE = {"predator_prey": {"max_steps": 4}, "tic_tac_toe": {"max_plies": 4}}


class EndsAtFour(Transform):
    """A transform of a user, which sets one flag."""

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        over = next_tensordict["step_count"] >= 4
        next_tensordict["truncated"] = next_tensordict["truncated"] | over
        return next_tensordict


LIMITS = {
    "counter": lambda: [StepCounter(4)],
    "limit": lambda: [TimeLimit(4)],
    "random": lambda: [StepCounter(), RandomTruncationTransform(4, 4, first_episode_prob=0.0)],
    "own": lambda: [StepCounter(), EndsAtFour()],
}


def limited(name: str, limit: str) -> EnvBase:
    return TransformedEnv(marlenv.make(name, num_envs=5, seed=3), marlenv.Compose(*LIMITS[limit]()))


@pytest.mark.parametrize("limit", ["counter", "limit", "own"])
@pytest.mark.parametrize("name", NATIVE)
def test_a_limit_by_transforms_is_one_of_the_env_itself(name: str, limit: str) -> None:
    native, env = marlenv.make(name, num_envs=5, seed=3, **NATIVE[name]), limited(name, limit)
    one, other = (e.rollout(6, break_when_any_done=False) for e in (native, env))
    assert not one["next", "done"].all()
    for group in native.group_map:
        for key in ("alive", "mask", "done"):
            assert torch.equal(one["next", group, key], other["next", group, key]), (group, key)
            if key != "done":
                assert torch.equal(one[group, key], other[group, key]), (group, key)
    env.check_env_specs()


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", NATIVE)
def test_nobody_is_alive_and_done(name: str, limit: str) -> None:
    env = SerialEnv(2, lambda: limited(name, limit))
    td = env.rollout(9, break_when_any_done=False)["next"]
    for group in env.group_map:
        assert td[group, "truncated"].any()
        assert not (td[group, "alive"] & td[group, "done"].squeeze(-1)).any()
        assert not (td[group, "mask"] & ~td[group, "alive"]).any()


def test_a_state_at_the_limit_is_one_where_nobody_lives() -> None:
    env = limited("predator_prey", "counter")
    td = env.rollout(4)[..., -1]["next"]
    again = env.set_state(env.get_state(td))
    for group in env.group_map:
        assert again[group, "done"].all()
        assert not again[group, "alive"].any()
