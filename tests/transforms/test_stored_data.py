"""Transforms of data that are stored, in replay buffers and elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchrl_oracle
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

import marlenv
from marlenv import (
    AgentIndex,
    BurnInTransform,
    CatFrames,
    CatTensors,
    Compose,
    ObservationNorm,
    RandomCropTensorDict,
    RegroupTransform,
    Reward2GoTransform,
    RewardScaling,
    SharedObservation,
    TeamReward,
    TransformedEnv,
)
from marlenv.errors import KeyMissing, ShapeError, SpecError, Unsupported
from marlenv.testing.comparison import differences
from marlenv.testing.mocks import CountingEnv, GroupedEnv


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


@pytest.mark.reference
@pytest.mark.parametrize("padding", ["same", "constant"])
@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize("n", [1, 3, 9])
@pytest.mark.parametrize("flags", [True, False])
def test_windows_into_both_ways_and_their_masks_are_torchrls(padding: str, future: bool, n: int, flags: bool) -> None:
    """Episodes that end within the data, windows longer than they are; looking ahead also where nothing ends."""
    if not (flags or future):
        with pytest.raises(KeyMissing, match="no entry \\('next', 'done'\\)"):
            CatFrames(n, -1, ["x"])(TensorDict({"x": torch.ones(2, 1)}, [2]))
        return
    stream = torch.Generator().manual_seed(n)
    data = TensorDict({"x": torch.rand(4, 7, 2, 3, generator=stream)}, [4, 7], names=[None, "time"])
    if flags:
        data["next", "done"] = torch.rand(4, 7, 1, generator=stream) < 0.3
    options = {"padding": padding, "padding_value": -1.0, "future": future, "mask_key": "absent"}
    made = [lib.CatFrames(n, -2, ["x"], ["windows"], **options)(data.clone()) for lib in (torchrl_oracle.envs, marlenv)]
    for key in ("windows", "absent"):
        assert torch.equal(*(td[key] for td in made)), key
    turned = CatFrames(n, -2, ["x"], ["windows"], **options)(data.clone().transpose(0, 1))
    assert torch.equal(turned["absent"].transpose(0, 1), made[1]["absent"])
    assert torch.equal(turned["windows"].transpose(0, 1), made[1]["windows"])


def test_windows_ahead_of_what_comes_next() -> None:
    """torchrl refuses these."""
    data = CountingEnv(3).rollout(5, break_when_any_done=False)
    keys = ["observation", ("next", "observation")]
    made = CatFrames(2, -1, keys, future=True)(data)
    assert made["observation"].tolist() == [[0, 1], [1, 2], [2, 2], [0, 1], [1, 1]]
    assert made["next", "observation"].tolist() == [[1, 2], [2, 3], [3, 3], [1, 2], [2, 2]]


@pytest.mark.parametrize("option", [{"future": True}, {"mask_key": "absent"}, {"as_inverse": True}])
def test_an_env_does_not_look_ahead(option: dict[str, object]) -> None:
    name = next(iter(option))
    with pytest.raises(SpecError, match=rf"CatFrames: {name}=.* is for stored data; leave it out in an env"):
        TransformedEnv(CountingEnv(), CatFrames(2, -1, ["observation"], **option))


OF_NOBODY = {
    "CatTensors": (CatTensors, "CatTensors: an env says which entries there are; outside one give in_keys"),
    "TeamReward": (TeamReward, "TeamReward: an env says which entries there are; outside one give in_keys"),
    "SharedObservation": (SharedObservation, "SharedObservation: an env says which entries there are; outside one"),
    "AgentIndex": (AgentIndex, "AgentIndex: who the agents are comes from an env; put it into one first"),
    "RegroupTransform": (
        lambda: RegroupTransform({"all": ["a"]}),
        "RegroupTransform: the groups as they are come from",
    ),
}


@pytest.mark.parametrize("name", OF_NOBODY)
def test_what_only_an_env_can_tell_is_asked_for_outside_one(name: str) -> None:
    make, says = OF_NOBODY[name]
    data = GroupedEnv({"g": ["a", "b"]}).rollout(2)
    with pytest.raises(Unsupported, match=says):
        make()(data)


def test_stored_data_of_groups_become_what_the_env_gives() -> None:
    """Transforms that have been in an env, or are told the keys, make of its bare data what it gives."""
    chain = [
        lambda: TeamReward(in_keys=[("g", "reward")]),
        AgentIndex,
        lambda: SharedObservation([("g", "observation"), ("h", "observation")]),
    ]
    bare = GroupedEnv({"g": ["a", "b"], "h": ["c"]})
    for make in chain:
        env = TransformedEnv(GroupedEnv({"g": ["a", "b"], "h": ["c"]}), make())
        for one in (bare, env):
            one.set_seed(0)
        data = env.transform(bare.rollout(3))
        assert not differences(data, env.rollout(3)), make


def test_crops_lie_within_trajectories() -> None:
    data = TensorDict({"t": torch.arange(10).expand(200, 10), "mask": torch.arange(10).expand(200, 10) < 7}, [200, 10])
    made = RandomCropTensorDict(3, mask_key="mask", generator=torch.Generator().manual_seed(0))(data)
    assert made.shape == (200, 3)
    assert made["mask"].all()
    assert set(made["t"][:, 0].tolist()) == {0, 1, 2, 3, 4}
    assert (made["t"].diff(dim=-1) == 1).all()


@pytest.mark.parametrize("dim", [-1, 0])
def test_all_steps_of_a_crop_are_there(dim: int) -> None:
    """Wherever the marked steps begin, and where some are missing between."""
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 0, 0], [1, 1, 0, 0, 1, 1, 1, 0]] * 100).bool()
    data = TensorDict({"t": torch.arange(8).expand(200, 8), "mask": mask}, [200, 8])
    data = data if dim == -1 else data.transpose(0, 1).contiguous()
    made = RandomCropTensorDict(2, dim, "mask", torch.Generator().manual_seed(0))(data)
    made = made if dim == -1 else made.transpose(0, 1)
    assert made["mask"].all()
    assert set(map(tuple, made["t"][::2].tolist())) == {(3, 4), (4, 5)}
    assert set(map(tuple, made["t"][1::2].tolist())) == {(0, 1), (4, 5), (5, 6)}
    with pytest.raises(ShapeError, match=r"'mask' marks no 3 steps in a row in some trajectory; take a lower one"):
        RandomCropTensorDict(3, dim, "mask")(TensorDict({"mask": mask[1].roll(2)}, [8]))


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


def test_burning_in_says_what_it_lacks() -> None:
    module = TensorDictModule(torch.add, in_keys=["x", "h"], out_keys=[("next", "h")])
    data = TensorDict({"x": torch.ones(2, 3, 1), "h": torch.zeros(2, 3, 1), "next": {}}, [2, 3])
    for steps in (3, 4):
        with pytest.raises(ShapeError, match=rf"burn_in is {steps}, but the data have 3 steps only; take a lower one"):
            BurnInTransform(module, steps)(data.clone())
    with pytest.raises(KeyMissing, match=r"BurnInTransform: no entry \('next', 'z'\); the data and the modules have"):
        BurnInTransform(module, 1, out_keys=["z"])(data.clone())


@pytest.mark.parametrize("named", [None, ("next", "agents", "h"), ("agents", "h")])
def test_hidden_states_of_agents_are_handed_on(named: Any) -> None:
    """Wherever the keys say that the states stand."""

    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return h[:, :1].expand(x.shape) + x.cumsum(1)

    module = TensorDictModule(Sum(), in_keys=[("agents", "x"), ("agents", "h")], out_keys=[("next", "agents", "h")])
    agents = {"x": torch.ones(2, 5, 3, 1), "h": torch.zeros(2, 5, 3, 1)}
    out = BurnInTransform(module, 3, None if named is None else [named])(TensorDict({"agents": agents}, [2, 5]))
    assert out["agents", "h"][:, 0].flatten().tolist() == [3] * 6


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "why"),
    [
        (marlenv.StepCounter(3), "ends and beginnings of episodes"),
        (marlenv.TimeLimit(3), "ends and beginnings of episodes"),
        (marlenv.InitTracker(), "ends and beginnings of episodes"),
        (marlenv.FrameSkipTransform(2), "it steps the env"),
        (marlenv.ActionDelay(1), "it delays what an env is told"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_works_in_an_env_only_says_so(transform: marlenv.Transform, why: str) -> None:
    """Data would come back as they were, and TorchRL's ``TransformedEnv`` calls a transform of ours on data."""
    data = CountingEnv(5).rollout(4)
    kept = data.clone()
    with pytest.raises(Unsupported, match=rf"{type(transform).__name__}: works in an env only: .*{why}; Transformed"):
        transform(data)
    assert not differences(kept, data)
