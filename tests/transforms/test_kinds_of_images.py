"""Images of every kind of number in other sizes, and sizes that are none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marlenv import (
    Binary,
    Bounded,
    Composite,
    Crop,
    EnvBase,
    Resize,
    ToTensorImage,
    TransformedEnv,
    Unbounded,
    check_env_specs,
)
from marlenv.errors import SpecError, SpecTypeError
from marlenv.specs import TensorSpec

KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.bool)
SMOOTH = ("bilinear", "bicubic")
CHECKED = (torch.arange(6).reshape(6, 1) + torch.arange(8)) % 2  # a board of 0 and 1, whose edges are sharp


class Pictures(EnvBase):
    """Shows a board of the least and the greatest value of a spec."""

    def __init__(self, spec: TensorSpec, low: float, high: float) -> None:
        super().__init__()
        self.observation_spec, self.action_spec = Composite(pixels=spec), Unbounded((1,))
        self.reward_spec, self.done_spec = Unbounded((1,)), Binary(shape=(1,), dtype=torch.bool)
        self.board = torch.where(CHECKED.bool(), high, low).expand(spec.shape).to(spec.dtype)

    def _reset(self, tensordict, **_):
        return TensorDict({"pixels": self.board.clone()})

    def _step(self, tensordict):
        ends = torch.zeros(1, dtype=torch.bool)
        return TensorDict({"pixels": self.board.clone(), "reward": torch.zeros(1), "terminated": ends})

    def _set_seed(self, seed):
        pass


@pytest.mark.parametrize("mode", Resize.MODES)
@pytest.mark.parametrize("size", [(4, 5), (11, 13), (6, 8)])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.bool]
)
def test_images_of_other_sizes_are_in_their_spec(dtype, size, mode) -> None:
    low, high = (3, 200) if dtype == torch.uint8 else (0, 1)
    flags = Binary(shape=(3, 6, 8), dtype=torch.bool)
    spec = flags if dtype == torch.bool else Bounded(low, high, (3, 6, 8), dtype=dtype)
    env = TransformedEnv(Pictures(spec, low, high), Resize(*size, interpolation=mode))
    seen, given = env.reset()["pixels"], env.observation_spec["pixels"]
    assert (seen.dtype, seen.shape) == (dtype, (3, *size))
    check_env_specs(env)
    beyond = bool((seen < low).any() | (seen > high).any())
    assert beyond == (mode == "bicubic" and size == (11, 13) and dtype != torch.bool)
    bounded = dtype != torch.bool and (mode != "bicubic" or size == (6, 8))
    assert isinstance(given, Bounded) == bounded


@pytest.mark.parametrize("mode", SMOOTH)
@pytest.mark.parametrize(("dtype", "exact"), [(torch.float16, 2**-10), (torch.bfloat16, 2**-7)])
def test_half_floats_become_what_double_ones_do(dtype, exact, mode) -> None:
    image = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    seen = Resize(4, 5, interpolation=mode)(TensorDict({"pixels": image}))["pixels"]
    want = Resize(4, 5, interpolation=mode)(TensorDict({"pixels": image.double()}))["pixels"]
    assert seen.dtype == dtype
    assert float((seen.double() - want).abs().max()) <= exact


def test_small_floats_of_bytes() -> None:
    image = TensorDict({"pixels": torch.tensor([[[0], [255]]], dtype=torch.uint8)})
    chain = ToTensorImage(dtype=torch.float16), Resize(1, 1)
    for one in chain:
        image = one(image)
    assert image["pixels"].tolist() == [[[0.5]]]


def test_flags_are_those_of_most_of_their_area() -> None:
    flags = torch.tensor([[[True, True, True, False, False, False]]])
    assert Resize(1, 2)(TensorDict({"pixels": flags}))["pixels"].tolist() == [[[True, False]]]
    doubled = Resize(2, 12, interpolation="nearest")(TensorDict({"pixels": flags}))["pixels"]
    assert torch.equal(doubled, flags.repeat_interleave(2, -1).repeat_interleave(2, -2))


@pytest.mark.parametrize(("size", "want"), [(np.int64(3), (3, 3)), ((3, 4), (3, 4)), (np.array([3, 4]), (3, 4))])
def test_sizes_may_be_numpys(size, want) -> None:
    assert Resize(size)(TensorDict({"pixels": torch.zeros(1, 6, 8)}))["pixels"].shape == (1, *want)


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (lambda: Resize("3"), SpecError, "Resize: w must be an integer from 1 on, got '3'"),
        (lambda: Resize(84.0), SpecError, "Resize: w must be an integer from 1 on, got 84.0"),
        (lambda: Resize((3, 4, 5)), SpecError, r"Resize: w must be one size, or a pair .*, got \(3, 4, 5\)"),
        (lambda: Resize((3, 4), 5), SpecError, r"Resize: .* without h, got \(3, 4\) and h=5"),
        (lambda: Resize((3, 4.5)), SpecError, "Resize: h must be an integer from 1 on, got 4.5"),
        (lambda: Crop(2, top=1.5), SpecError, "Crop: top must be an integer, got 1.5"),
        (lambda: Crop(2, left=None), SpecError, "Crop: left must be an integer, got None"),
        (lambda: ToTensorImage(dtype="float32"), SpecTypeError, "ToTensorImage: dtype must be a torch.dtype"),
    ],
)
def test_what_is_no_size_is_said_when_it_is_made(make, error, what) -> None:
    with pytest.raises(error, match=what):
        make()
