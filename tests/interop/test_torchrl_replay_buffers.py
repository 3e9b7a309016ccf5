"""Our transforms in TorchRL's replay buffers: undone when data are stored, done when they are read."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

rl = pytest.importorskip("torchrl.envs", reason="needs TorchRL")
from torchrl.data import (  # noqa: E402
    LazyTensorStorage,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)

import marlenv  # noqa: E402
from marlenv import from_torchrl, to_torchrl  # noqa: E402
from marlenv.errors import SpecTypeError, Unsupported  # noqa: E402
from marlenv.testing.comparison import differences  # noqa: E402
from marlenv.testing.mocks import CountingEnv  # noqa: E402

KEYS = {"in_keys": ["observation"], "in_keys_inv": ["observation"]}


def add_one(lib):
    """The documents' transform that has an inverse only."""

    class AddOneToAction(lib.Transform):
        def __init__(self):
            super().__init__(in_keys=[], out_keys=[], in_keys_inv=["action"], out_keys_inv=["action"])

        def _inv_apply_transform(self, action):
            return action + 1

    return AddOneToAction()


TRANSFORMS = {
    "reward to go": lambda lib: lib.Reward2GoTransform(gamma=0.5),
    "one more": add_one,
    "double in the env, float in the buffer": lambda lib: lib.DTypeCastTransform(torch.float64, torch.float32, **KEYS),
    "normalised when read": lambda lib: lib.ObservationNorm(1.0, 2.0, ["observation", ("next", "observation")]),
    "a chain": lambda lib: lib.Compose(lib.Reward2GoTransform(gamma=1.0), add_one(lib)),
}


def given(buffer, how, transform):
    storage = LazyTensorStorage(9)
    options = {"storage": storage, "sampler": SamplerWithoutReplacement(shuffle=False), "batch_size": 3}
    if how == "by the constructor":
        return buffer(transform=transform, **options)
    made = buffer(**options)
    if how == "appended":
        made.append_transform(transform)
    else:
        made.insert_transform(0, transform)
    return made


def stored_and_read(buffer, data):
    """What the buffer holds of the data, and what is sampled of it."""
    buffer.extend(data)
    return [buffer.storage[:3], buffer[:3].exclude("index"), buffer.sample().exclude("index")]


@pytest.mark.parametrize("how", ["by the constructor", "appended", "inserted"])
@pytest.mark.parametrize("buffer", [ReplayBuffer, TensorDictReplayBuffer])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_buffers_hold_and_give_what_they_do_with_torchrls(name, buffer, how):
    data = CountingEnv(3).rollout(3).exclude("terminated", ("next", "terminated"))
    data["observation"] = data["observation"].double() if "double" in name else data["observation"]
    ours = stored_and_read(given(buffer, how, to_torchrl(TRANSFORMS[name](marlenv))), data.clone())
    theirs = stored_and_read(given(buffer, how, TRANSFORMS[name](rl)), data.clone())
    assert not [said for one, other in zip(ours, theirs, strict=True) for said in differences(one, other)]


def test_rewards_to_go_are_stored():
    """Rewards of 1 at each of three steps are 3, 2 and 1 to the end."""
    for transform, rewards in ((to_torchrl(marlenv.Reward2GoTransform()), [3, 2, 1]), (None, [1, 1, 1])):
        buffer = ReplayBuffer(storage=LazyTensorStorage(9), transform=transform)
        buffer.extend(CountingEnv(3).rollout(3))
        assert buffer[:]["next", "reward"].flatten().tolist() == rewards


def test_an_inverted_transform_is_the_other_way_round():
    buffer = ReplayBuffer(storage=LazyTensorStorage(2))
    buffer.append_transform(to_torchrl(marlenv.ObservationNorm(1.0, 2.0, ["a"], in_keys_inv=["a"])), invert=True)
    buffer.extend(TensorDict({"a": torch.tensor([[1.0], [3.0]])}, [2]))
    assert buffer.storage[:]["a"].flatten().tolist() == [3, 7]  # 2 a + 1
    assert buffer[:]["a"].flatten().tolist() == [1, 3]


def test_the_statistics_of_a_transform_are_saved_with_the_buffer():
    made = [to_torchrl(marlenv.ObservationNorm(loc, 2.0, ["a"])) for loc in (1.0, 5.0)]
    one, other = (ReplayBuffer(storage=LazyTensorStorage(2), transform=transform) for transform in made)
    one.extend(TensorDict({"a": torch.zeros(2, 1)}, [2]))
    other.load_state_dict(one.state_dict())
    assert other[:]["a"].flatten().tolist() == [1, 1]


def test_a_transform_goes_there_and_back():
    ours = marlenv.RewardScaling(0.0, 2.0)
    theirs = to_torchrl(ours)
    assert isinstance(theirs, rl.Transform)
    assert from_torchrl(theirs) is ours
    assert repr(theirs) == f"to_torchrl({ours!r})"


def test_envs_of_torchrl_do_not_take_it():
    """Its specs are ours."""
    with pytest.raises(Unsupported, match=r"^to_torchrl\(RewardScaling\(...\)\): works on stored data"):
        rl.TransformedEnv(rl.PendulumEnv(), to_torchrl(marlenv.RewardScaling(0.0, 2.0))).rollout(1)


def test_a_class_of_transforms_is_refused():
    with pytest.raises(SpecTypeError, match=r"got type; call it first"):
        to_torchrl(marlenv.Reward2GoTransform)
