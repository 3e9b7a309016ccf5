"""What an env is told is found once per step: transforms that ask for it again get what was told."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv import (
    ActionDelay,
    ActionDiscretizer,
    Compose,
    ConditionalPolicySwitch,
    DiscreteActionProjection,
    FrameSkipTransform,
    MultiAction,
    OneHot,
    Timer,
    Transform,
    TransformedEnv,
)
from marlenv.errors import ShapeError, SpecError
from marlenv.testing import CountingEnv

ANYWHERE = ActionDiscretizer.SamplingStrategy.RANDOM


class Told(CountingEnv):
    """Remembers the actions of every step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.told: list[torch.Tensor] = []

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.told.append(tensordict["action"].clone())
        return super()._step(tensordict)


def test_an_action_that_is_drawn_is_repeated_by_a_frame_skip() -> None:
    env = TransformedEnv(
        Told(9, batch_size=[3]), Compose(FrameSkipTransform(3), ActionDiscretizer(4, sampling=ANYWHERE))
    )
    env.set_seed(0)
    env.rollout(2)
    told = torch.stack(env.base_env.told).reshape(2, 3, 3)
    assert (told == told[:, :1]).all()
    assert (told[0] != told[1]).any()


def test_an_action_that_is_drawn_arrives_late_as_it_was_drawn() -> None:
    env = TransformedEnv(Told(9), Compose(ActionDelay(1), ActionDiscretizer(4, sampling=ANYWHERE)))
    env.set_seed(0)
    drawn = []
    leaf = env.transform[1]
    apply = leaf._inv_apply_transform
    leaf._inv_apply_transform = lambda x: drawn.append(apply(x)) or drawn[-1]
    env.rollout(5)
    assert len(drawn) == 5
    assert torch.equal(torch.stack(env.base_env.told[1:]), torch.stack(drawn[:-1]))


class Counts(Transform):
    """Counts how often it was asked what the env is told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self.asked += 1
        return tensordict


def stays(td: TensorDictBase) -> TensorDictBase:
    return td.set("action", torch.zeros(1))


ASKING: dict[str, Callable[[], Transform]] = {
    "FrameSkipTransform": lambda: FrameSkipTransform(2),
    "MultiAction": MultiAction,
    "ActionDelay": ActionDelay,
    "ConditionalPolicySwitch": lambda: ConditionalPolicySwitch(stays, lambda td: td["observation"] % 2 == 1),
}


@pytest.mark.parametrize("name", ASKING)
def test_inverses_are_called_once_per_step(name: str) -> None:
    counts = Counts()
    env = TransformedEnv(CountingEnv(99), Compose(ASKING[name](), counts))
    td = env.reset()
    for n in range(1, 5):
        action = torch.zeros(2, 1) if name == "MultiAction" else torch.zeros(1)
        td = env.step_mdp(env.step(td.set("action", action)))
        assert counts.asked == n
    env.transform.pop()  # and what was told is not kept
    assert not env._told


def test_a_timer_behind_a_frame_skip_measures_all_frames() -> None:
    class Slow(CountingEnv):
        def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
            time.sleep(0.05)
            return super()._step(tensordict)

    out = TransformedEnv(Slow(99), Compose(FrameSkipTransform(2), Timer())).rollout(2)["next"]
    assert (out["time_step"] >= 0.1).all()
    assert (out["time_policy"] < 0.05).all()


# --- one-hot actions ------------------------------------------------------------------------------


class Few(CountingEnv):
    """With two actions."""

    def __init__(self) -> None:
        super().__init__(batch_size=[2])
        self.action_spec = OneHot(2, (2, 2))


def few() -> Any:
    return TransformedEnv(Few(), DiscreteActionProjection(2, 3))


def cut() -> Any:
    return TransformedEnv(CountingEnv(batch_size=[2]), ActionDiscretizer(3, categorical=False))


NONE = [[0.0, 0, 0], [1, 1, 0], [0.5, 0.5, 0], [float("nan")] * 3, [2, 0, 0], [-1, 1, 1]]


@pytest.mark.parametrize("make", [few, cut])
@pytest.mark.parametrize("vector", NONE, ids=str)
def test_what_is_not_one_hot_is_refused(make: Callable[[], Any], vector: list[float]) -> None:
    env = make()
    both = torch.tensor([[0.0, 1, 0], vector])
    td = env.reset().set("action", both)
    with pytest.raises(SpecError, match=r": 'action' must be one-hot, got \["):
        env.step(td.copy())
    out = env.step(td.set("_step", torch.tensor([True, False])))["next"]  # rows that stand still are not looked at
    assert out["observation"].squeeze(-1).tolist() == [1, 0]


@pytest.mark.parametrize("make", [few, cut])
def test_one_hot_vectors_of_another_length_are_refused(make: Callable[[], Any]) -> None:
    env = make()
    with pytest.raises(ShapeError, match=r": 'action' must have 3 numbers, got \[2, 4\]"):
        env.transform.inv(TensorDict({"action": torch.eye(4)[:2]}, [2]))


def test_straight_through_samples_are_the_choices_that_they_were() -> None:
    nearly = torch.tensor([[2e-7, 1 - 2e-7, 0.0], [0.0, -1e-7, 1 - 1e-7]])
    env = cut()
    told = env.transform.inv(TensorDict({"action": nearly}, [2]))["action"].squeeze(-1)
    assert torch.allclose(told, torch.tensor([0.0, 2 / 3]))
    wide = DiscreteActionProjection(3, 4)
    assert wide(TensorDict({"action": nearly}, [2]))["action"].argmax(-1).tolist() == [1, 2]
    vectors = torch.cat((nearly, torch.zeros(2, 1)), -1)
    assert wide.inv(TensorDict({"action": vectors}, [2]))["action"].argmax(-1).tolist() == [1, 2]
