"""Envs that reset themselves: the data of the end are told apart from those of the next beginning."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from marlenv import (
    AutoResetEnv,
    AutoResetTransform,
    Binary,
    Bounded,
    Compose,
    Composite,
    EnvBase,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    Unbounded,
)
from marlenv.envs.autoreset import blank_of


class SelfResetting(EnvBase):
    """Counts to its limit and starts again by itself; row ``i`` ends ``i`` steps later. Resets are counted."""

    def __init__(self, limit=3, batch_size=(), nested=False):
        super().__init__(batch_size=batch_size)
        shape = (*self.batch_size, 1)
        self.limit, self.resets, self.nested = limit, 0, nested
        seen = Composite(
            observation=Unbounded(shape), number=Unbounded(shape, dtype=torch.int64), shape=self.batch_size
        )
        self.observation_spec = Composite(agent=seen, shape=self.batch_size) if nested else seen
        self.action_spec = Bounded(-1, 1, shape)
        self.reward_spec = Unbounded(shape)
        self.done_spec = Binary(shape=shape, dtype=torch.bool)
        self.rows = torch.arange(max(1, self.batch_size.numel())).reshape(shape)
        self.count = torch.zeros(shape)

    def _seen(self):
        seen = TensorDict({"observation": self.count, "number": self.count.long()}, self.batch_size)
        return TensorDict({"agent": seen}, self.batch_size) if self.nested else seen

    def _reset(self, tensordict=None):
        self.resets += 1
        self.count = torch.zeros_like(self.count)
        return self._seen()

    def _step(self, tensordict):
        self.count = self.count + 1
        done = self.count >= self.limit + self.rows
        self.count = torch.where(done, 0.0, self.count)
        return self._seen().update({"reward": torch.ones_like(self.count), "done": done})

    def _set_seed(self, seed):
        pass


NAN = float("nan")


def test_observations_of_the_end_are_blanked_and_the_first_of_the_next_episode_kept():
    env = SelfResetting(auto_reset=True, auto_reset_replace=True)
    rollout = env.rollout(7, break_when_any_done=False)
    assert str(rollout["next", "observation"].flatten().tolist()) == str([1.0, 2.0, NAN, 1.0, 2.0, NAN, 1.0])
    assert rollout["next", "number"].flatten().tolist() == [1, 2, -1, 1, 2, -1, 1]
    assert rollout["observation"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert rollout["next", "done"].flatten().tolist() == [False, False, True, False, False, True, False]
    assert not rollout["done"].any()
    assert env.resets == 1  # it is never reset from outside again


def test_without_replacing_the_observations_stay():
    rollout = SelfResetting(auto_reset=True, auto_reset_replace=False).rollout(7, break_when_any_done=False)
    assert rollout["next", "observation"].flatten().tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert rollout["observation"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("nested", [False, True])
def test_rows_end_at_their_own_step(nested):
    env = SelfResetting(limit=2, batch_size=[2], nested=nested, auto_reset=True)
    rollout = env.rollout(6, break_when_any_done=False)
    key = ("agent", "number") if nested else "number"
    following = rollout["next", "agent", "number"] if nested else rollout["next", "number"]
    assert following.squeeze(-1).tolist() == [[1, -1, 1, -1, 1, -1], [1, 2, -1, 1, 2, -1]]
    assert rollout[key].squeeze(-1).tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]


def test_a_rollout_that_stops_at_the_end_can_go_on():
    env = SelfResetting(limit=2, auto_reset=True)
    first = env.rollout(5)
    assert first.shape == (2,)
    td = env.maybe_reset(env.step_mdp(first[-1]))
    rest = env.rollout(3, auto_reset=False, tensordict=td, break_when_any_done=False)
    assert rest["observation"].flatten().tolist() == [0, 1, 0]
    assert env.resets == 1


def test_transforms_start_their_episodes_with_the_env():
    env = TransformedEnv(SelfResetting(limit=2, batch_size=[2], auto_reset=True), StepCounter())
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["step_count"].squeeze(-1).tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert rollout["number"].squeeze(-1).tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]


def test_in_series():
    env = SerialEnv(
        2, lambda limit: SelfResetting(limit, auto_reset=True), create_env_kwargs=[{"limit": 2}, {"limit": 3}]
    )
    rollout = env.rollout(6, break_when_any_done=False)
    assert rollout["next", "number"].squeeze(-1).tolist() == [[1, -1, 1, -1, 1, -1], [1, 2, -1, 1, 2, -1]]
    assert rollout["number"].squeeze(-1).tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert [child.resets for child in env.children_envs] == [1, 1]


def test_blanks():
    for dtype, want in ((torch.float64, NAN), (torch.int8, -1), (torch.uint8, 0), (torch.bool, False)):
        blank = blank_of(torch.zeros(1, dtype=dtype))
        assert blank.dtype == dtype
        assert str(blank.item()) == str(want)


def test_the_arguments_reach_every_env():
    assert SelfResetting()._auto_reset is None
    assert type(SelfResetting(auto_reset=False)) is SelfResetting
    assert SelfResetting(auto_reset=True).transform.replace
    assert not SelfResetting(auto_reset=True, auto_reset_replace=False).transform.replace
    assert not SelfResetting(auto_reset=True, spec_locked=False).is_spec_locked


def test_what_stands_in_for_final_observations_is_chosen():
    def played(transform):
        out = AutoResetEnv(SelfResetting(limit=2), transform).rollout(3, break_when_any_done=False)["next"]
        return out["observation"].flatten().tolist(), out["number"].flatten().tolist()

    assert played(AutoResetTransform(fill_float=-5.0, fill_int=9)) == ([1, -5, 1], [1, 9, 1])
    assert played(AutoResetTransform(fill_float=None)) == ([1, 0, 1], [1, -1, 1])
    assert played(AutoResetTransform(replace=False)) == ([1, 0, 1], [1, 0, 1])
    assert type(AutoResetEnv(SelfResetting()).transform) is AutoResetTransform


def test_the_transform_says_the_same_in_a_chain():
    chain = TransformedEnv(SelfResetting(limit=2), Compose(AutoResetTransform(), StepCounter()))
    known = SelfResetting(limit=2, auto_reset=True).append_transform(StepCounter())
    seen = [env.rollout(5, break_when_any_done=False).exclude("action") for env in (chain, known)]
    assert seen[0]["step_count"].flatten().tolist() == seen[1]["step_count"].flatten().tolist() == [0, 1, 0, 1, 0]
    assert torch.equal(*(one["next", "number"] for one in seen))
    assert chain.base_env.resets == known.base_env.resets == 1
