"""Entries that are not there, and specs that do not fit: every transform says which, and what there is instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import marlenv
from marlenv import Compose, TransformedEnv
from marlenv.errors import KeyCollision, KeyMissing, SpecError
from marlenv.testing.mocks import CountingEnv, GroupedEnv
from marlenv.transforms.networks import ViT

WRONG = ["observatoin"]
OF_OBSERVATIONS: dict[str, Callable[[list[Any]], Any]] = {
    "ObservationNorm": lambda k: marlenv.ObservationNorm(0.0, 1.0, k),
    "ClipTransform": lambda k: marlenv.ClipTransform(k, low=0),
    "SignTransform": marlenv.SignTransform,
    "DTypeCastTransform": lambda k: marlenv.DTypeCastTransform(torch.float32, torch.float64, k),
    "UnsqueezeTransform": lambda k: marlenv.UnsqueezeTransform(-1, in_keys=k),
    "SqueezeTransform": lambda k: marlenv.SqueezeTransform(-1, in_keys=k),
    "PermuteTransform": lambda k: marlenv.PermuteTransform((-1,), k),
    "FlattenObservation": lambda k: marlenv.FlattenObservation(-1, -1, k),
    "CatTensors": lambda k: marlenv.CatTensors(k, "all"),
    "Stack": lambda k: marlenv.Stack(k, "all"),
    "CatFrames": lambda k: marlenv.CatFrames(2, -1, k),
    "TimeMaxPool": lambda k: marlenv.TimeMaxPool(k, T=2),
    "ObservationDelay": lambda k: marlenv.ObservationDelay(1, k),
    "DropMessages": lambda k: marlenv.DropMessages(0.1, "zero", k),
    "VecNorm": marlenv.VecNorm,
    "VecNormV2": marlenv.VecNormV2,
    "RenameTransform": lambda k: marlenv.RenameTransform(k, ["other"]),
    "SelectTransform": lambda k: marlenv.SelectTransform(*k),
    "ExcludeTransform": lambda k: marlenv.ExcludeTransform(*k),
    "UnaryTransform": lambda k: marlenv.UnaryTransform(k, ["other"], fn=lambda x: x),
    "Hash": lambda k: marlenv.Hash(k, ["other"]),
    "ToTensorImage": lambda k: marlenv.ToTensorImage(in_keys=k),
    "GrayScale": marlenv.GrayScale,
    "Resize": lambda k: marlenv.Resize(2, in_keys=k),
    "Crop": lambda k: marlenv.Crop(2, in_keys=k),
    "CenterCrop": lambda k: marlenv.CenterCrop(2, in_keys=k),
    "SharedObservation": marlenv.SharedObservation,
    "VideoRecorder": lambda k: marlenv.VideoRecorder(None, "film", k),
}
OF_REWARDS: dict[str, Callable[[list[Any]], Any]] = {
    "RewardSum": marlenv.RewardSum,
    "RewardScaling": lambda k: marlenv.RewardScaling(0.0, 1.0, k),
    "RewardClipping": lambda k: marlenv.RewardClipping(-1.0, 1.0, k),
    "BinarizeReward": marlenv.BinarizeReward,
    "TargetReturn": lambda k: marlenv.TargetReturn(1.0, in_keys=k),
    "LineariseRewards": marlenv.LineariseRewards,
}
OF_ACTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "ActionScaling": marlenv.ActionScaling,
    "ActionDelay": lambda k: marlenv.ActionDelay(1, k),
    "ActionDiscretizer": lambda k: marlenv.ActionDiscretizer(2, k[0]),
    "DiscreteActionProjection": lambda k: marlenv.DiscreteActionProjection(2, 4, k[0]),
}


@pytest.mark.parametrize("name", OF_OBSERVATIONS)
def test_an_observation_that_is_not_there(name: str) -> None:
    base = GroupedEnv({"g": ["a"]}) if name == "SharedObservation" else CountingEnv()
    nearest = r"\('g', 'observation'\)" if name == "SharedObservation" else "'observation'"
    with pytest.raises(KeyMissing, match=rf"^['\"]?{name}: no entry 'observatoin'; .* \[{nearest}"):
        TransformedEnv(base, OF_OBSERVATIONS[name](WRONG)).rollout(2)


@pytest.mark.parametrize("name", OF_REWARDS)
def test_a_reward_that_is_not_there(name: str) -> None:
    with pytest.raises(KeyMissing, match=rf"{name}: no entry 'rewadr'; .* \['reward'"):
        TransformedEnv(CountingEnv(), OF_REWARDS[name](["rewadr"])).rollout(2)


@pytest.mark.parametrize("name", OF_ACTIONS)
def test_an_action_that_is_not_there(name: str) -> None:
    with pytest.raises(KeyMissing, match=rf"{name}: no entry 'acton'; .* \['action'"):
        TransformedEnv(CountingEnv(), OF_ACTIONS[name](["acton"])).rollout(2)


def test_the_entries_that_there_are_stand_nearest_first() -> None:
    env = GroupedEnv({"wolves": ["w"], "sheep": ["s"]})
    with pytest.raises(KeyMissing, match=r"the env gives \[\('sheep', 'observation'\), \('wolves', 'observation'\)"):
        TransformedEnv(env, marlenv.VecNorm([("sheep", "observatoin")]))


OF_IMAGES: dict[str, Callable[[], Any]] = {
    "ToTensorImage": lambda: marlenv.ToTensorImage(in_keys=["observation"]),
    "GrayScale": lambda: marlenv.GrayScale(["observation"]),
    "Resize": lambda: marlenv.Resize(2, in_keys=["observation"]),
    "Crop": lambda: marlenv.Crop(2, in_keys=["observation"]),
    "CenterCrop": lambda: marlenv.CenterCrop(2, in_keys=["observation"]),
    "R3MTransform": lambda: marlenv.R3MTransform("resnet18", in_keys=["observation"]),
    "VIPTransform": lambda: marlenv.VIPTransform("resnet50", in_keys=["observation"]),
    "VC1Transform": lambda: marlenv.VC1Transform(["observation"], ["vec"], ViT(12, 1, 3, 32)),
}


@pytest.mark.parametrize("name", OF_IMAGES)
@pytest.mark.parametrize("rows", [[], [5, 6, 3]])
def test_a_vector_is_no_image(name: str, rows: list[int]) -> None:
    """Not even where a batch of three dimensions makes it look like one."""
    with pytest.raises(SpecError, match=r"expected images \[\.\.\., .*\], got a spec of shape .*1\]"):
        TransformedEnv(CountingEnv(batch_size=rows), Compose(OF_IMAGES[name]()))


DIMENSIONS: dict[str, Callable[[], Any]] = {
    "PermuteTransform": lambda: marlenv.PermuteTransform((-1, -3, -2), ["observation"]),
    "SqueezeTransform": lambda: marlenv.SqueezeTransform(-2, in_keys=["observation"]),
    "FlattenObservation": lambda: marlenv.FlattenObservation(-3, -1, ["observation"]),
    "CatFrames": lambda: marlenv.CatFrames(2, -3, ["observation"]),
}


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("rows", [[], [5, 6, 3]])
def test_dimensions_that_a_spec_does_not_have(name: str, rows: list[int]) -> None:
    with pytest.raises(SpecError, match=rf"{name}: there is no dimension -[23] behind the batch in a spec of shape"):
        TransformedEnv(CountingEnv(batch_size=rows), DIMENSIONS[name]())


def test_a_group_is_not_overwritten() -> None:
    for made in (marlenv.SharedObservation(), marlenv.ObservationNorm(0.0, 1.0, [("x", "observation")], ["state"])):
        with pytest.raises(KeyCollision, match=r"'state' is a group of the env already, with \['code'\]; pass another"):
            marlenv.make("tic_tac_toe").append_transform(made)
    env = TransformedEnv(marlenv.make("tic_tac_toe"), marlenv.SharedObservation(out_key="everything"))
    assert env.rollout(2)["everything"].shape == (2, 54)
    with pytest.raises(KeyCollision, match="'state' is a group"):
        env.append_transform(marlenv.SharedObservation())
    env.check_env_specs()  # as it was


def test_a_name_that_is_taken_is_not_overwritten() -> None:
    for keys in (([("observation")], ["done"]), (["observation"], ["reward"])):
        with pytest.raises(
            SpecError, match=rf"RenameTransform: 'observation' cannot become '{keys[1][0]}', which the env"
        ):
            TransformedEnv(CountingEnv(), marlenv.RenameTransform(*keys)).reset()
    free = Compose(marlenv.ExcludeTransform("step_count"), marlenv.RenameTransform(["observation"], ["step_count"]))
    env = TransformedEnv(CountingEnv(), Compose(marlenv.StepCounter(), free))
    assert env.rollout(3)["step_count"].dtype == CountingEnv().observation_spec["observation"].dtype
