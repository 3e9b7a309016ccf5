"""Transforms of data that are stored, in replay buffers and elsewhere."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from marlenv import (
    BurnInTransform,
    CatFrames,
    Compose,
    ObservationNorm,
    RandomCropTensorDict,
    Reward2GoTransform,
    RewardScaling,
    TransformedEnv,
)
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv


def test_stored_data_are_transformed_like_an_envs() -> None:
    """``forward`` on a rollout of the bare env is a rollout of the transformed one, where no memory is needed."""
    chain = lambda: Compose(ObservationNorm(1.0, 2.0, ["observation"]), RewardScaling(0.0, 3.0))  # noqa: E731
    bare, env = CountingEnv(3, batch_size=[2]), TransformedEnv(CountingEnv(3, batch_size=[2]), chain())
    for one in (bare, env):
        one.set_seed(0)
    assert not differences(chain()(bare.rollout(3)), env.rollout(3))


def test_named_entries_of_stored_data_are_transformed_once() -> None:
    data = TensorDict({"observation": torch.ones(2, 1), "next": {"observation": torch.ones(2, 1)}}, [2])
    ObservationNorm(0.0, 2.0, ["observation", ("next", "observation")])(data)
    assert data["observation"].flatten().tolist() == data["next", "observation"].flatten().tolist() == [2, 2]


def test_frames_of_stored_data_are_those_of_the_env() -> None:
    for padding in ("same", "constant"):
        keys = ["observation", ("next", "observation")]
        bare = CountingEnv(3, batch_size=[2])
        env = TransformedEnv(CountingEnv(3, batch_size=[2]), CatFrames(3, -1, ["observation"], padding=padding))
        stored, want = (one.rollout(7, break_when_any_done=False) for one in (bare, env))
        made = CatFrames(3, -1, keys, padding=padding)(stored)
        for key in keys:
            assert torch.equal(made[key], want[key]), (padding, key)


def test_crops_lie_within_trajectories() -> None:
    data = TensorDict({"t": torch.arange(10).expand(200, 10), "mask": torch.arange(10).expand(200, 10) < 7}, [200, 10])
    made = RandomCropTensorDict(3, mask_key="mask", generator=torch.Generator().manual_seed(0))(data)
    assert made.shape == (200, 3)
    assert made["mask"].all()
    assert set(made["t"][:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert (made["t"].diff(dim=-1) == 1).all()


def test_rewards_that_are_still_to_come() -> None:
    """Against the closed form: 1 + g + g**2 + ... to the end of the episode."""
    done = torch.zeros(2, 6, 1, dtype=torch.bool)
    done[:, [2, 5]] = True
    data = TensorDict({"next": {"reward": torch.ones(2, 6, 1), "done": done}}, [2, 6])
    out = Reward2GoTransform(0.9).inv(data)["next", "reward"][0].flatten()
    assert torch.allclose(out, torch.tensor([2.71, 1.9, 1.0] * 2))


def test_burning_in_hands_on_the_hidden_state() -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return h[:, :1].expand(x.shape) + x.cumsum(1)

    module = TensorDictModule(Sum(), in_keys=["x", "h"], out_keys=[("next", "h")])
    data = TensorDict({"x": torch.ones(2, 5, 1), "h": torch.zeros(2, 5, 1)}, [2, 5])
    out = BurnInTransform(module, 3)(data)
    assert out.shape == (2, 2)
    assert out["h"][:, 0].flatten().tolist() == [3, 3]


# --- texts ----------------------------------------------------------------------------------------
