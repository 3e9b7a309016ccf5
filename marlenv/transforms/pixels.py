"""Transforms of images ``[*B, C, H, W]``, and of ``[*B, H, W, C]`` for :class:`ToTensorImage`, made of torch alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from marlenv.errors import SpecError, SpecTypeError, whole
from marlenv.keys import NestedKey
from marlenv.specs import Composite, Stacked, TensorSpec
from marlenv.transforms.base import Transform, unbounded

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Keys = Sequence[NestedKey] | None
GREY = (0.2989, 0.587, 0.114)  # ITU-R BT.601, as rounded in common use


class _OfImages(Transform):
    """A transform of images: the entries called ``pixels`` when no keys are given. Abstract."""

    default_name: ClassVar[str | None] = "pixels"
    monotone: ClassVar[bool] = True
    layout = "[..., channels, height, width]"
    batch_ndim = 0

    def __init__(self, in_keys: Keys = None, out_keys: Keys = None) -> None:
        super().__init__(in_keys, out_keys)

    def join(self, env: EnvBase) -> None:
        """Finds the images.

        Raises:
            KeyMissing: there are none.
        """
        super().join(env)
        if not self.in_keys:
            raise self.no_entry("pixels", env.observation_keys, "name one in in_keys; the env observes")

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an image has a shape that the transform is for."""
        return len(shape) >= 3

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec of the images.

        Raises:
            SpecError: it is of no image.
        """
        if not self.fits(spec.shape[self.batch_ndim :]):
            raise SpecError(
                f"{type(self).__name__}: expected images {self.layout}, got a spec of shape {list(spec.shape)}; name "
                f"images in in_keys"
            )
        return super().derive(spec)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """The specs of the images after the transform."""
        self.batch_ndim = observation_spec.ndim
        return super().transform_observation_spec(observation_spec)


class ToTensorImage(_OfImages):
    """Images ``[*B, H, W, C]`` of bytes as ``[*B, C, H, W]`` of floats from 0 to 1.

    Args:
        from_int: divide by 255; where left out, what is not floating.
        unsqueeze: give a single image a first dimension of size one.
        dtype: of the result; torch's default when left out.
        in_keys: images; entries called ``pixels`` when left out.
        out_keys: where the results go.
        shape_tolerant: leave images alone whose last dimension is not 3.

    >>> image = TensorDict({"pixels": torch.full((2, 4, 3), 255, dtype=torch.uint8)})
    >>> ToTensorImage()(image)["pixels"].shape, image["pixels"].max()
    (torch.Size([3, 2, 4]), tensor(1.))
    """

    pure: ClassVar[bool] = True
    layout = "[..., height, width, channels]"

    def __init__(
        self,
        from_int: bool | None = None,
        unsqueeze: bool = False,
        dtype: torch.dtype | None = None,
        *,
        in_keys: Keys = None,
        out_keys: Keys = None,
        shape_tolerant: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.from_int, self.unsqueeze, self.shape_tolerant = from_int, unsqueeze, shape_tolerant
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise SpecTypeError(f"ToTensorImage: dtype must be a torch.dtype, got {dtype!r}")
        self.dtype = torch.get_default_dtype() if dtype is None else dtype

    def _apply_transform(self, obs: Tensor) -> Tensor:
        if not self.shape_tolerant or obs.shape[-1] == 3:
            obs = obs.movedim(-1, -3)
        if self.from_int or (self.from_int is None and not obs.is_floating_point()):
            obs = obs.div(255)
        obs = obs.to(self.dtype)
        return obs.unsqueeze(0) if self.unsqueeze and obs.ndim == 3 else obs


class GrayScale(_OfImages):
    """Colours ``[*B, 3, H, W]`` as shades of grey ``[*B, 1, H, W]``.

    Args:
        in_keys: images; entries called ``pixels`` when left out.
        out_keys: where the results go.

    >>> GrayScale()(TensorDict({"pixels": torch.ones(3, 1, 1)}))["pixels"]
    tensor([[[0.9999]]])
    """

    pure: ClassVar[bool] = True
    layout = "[..., 3, height, width]"

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether it has three colours."""
        return len(shape) >= 3 and shape[-3] == 3

    def _apply_transform(self, obs: Tensor) -> Tensor:
        red, green, blue = obs.unbind(-3)
        return (GREY[0] * red + GREY[1] * green + GREY[2] * blue).to(obs.dtype).unsqueeze(-3)


class _Part(_OfImages):
    """A part of images, of a size; black where it reaches over the edge. Abstract."""

    def __init__(self, w: int, h: int | None, in_keys: Keys, out_keys: Keys) -> None:
        super().__init__(in_keys, out_keys)
        name = type(self).__name__
        self.w, self.h = whole(name, "w", w, 1), whole(name, "h", w if h is None else h, 1)

    def _corner(self, height: int, width: int) -> tuple[int, int]:
        """Where it begins in an image of that size, from the top and from the left."""
        raise NotImplementedError

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return cut(obs, *self._corner(obs.shape[-2], obs.shape[-1]), self.w, self.h)


class Crop(_Part):
    """A part of images; black where it reaches over the edge.

    Args:
        w: the size of the part along the last dimension but one, as in TorchRL.
        h: the size along the last dimension; ``w`` when left out.
        top: where it begins along the last dimension but one.
        left: where it begins along the last dimension.
        in_keys: images; entries called ``pixels`` when left out.
        out_keys: where the results go.

    >>> Crop(2, top=1)(TensorDict({"pixels": torch.arange(9.0).reshape(1, 3, 3)}))["pixels"]
    tensor([[[3., 4.],
             [6., 7.]]])
    """

    pure: ClassVar[bool] = True

    def __init__(
        self,
        w: int,
        h: int | None = None,
        top: int = 0,
        left: int = 0,
        in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:
        super().__init__(w, h, in_keys, out_keys)
        for name, given in (("top", top), ("left", left)):
            if not isinstance(given, Integral) or isinstance(given, bool):
                raise SpecError(f"Crop: {name} must be an integer, got {given!r}")
        self.top, self.left = int(top), int(left)

    def _corner(self, height: int, width: int) -> tuple[int, int]:
        return self.top, self.left

    def __repr__(self) -> str:
        return f"Crop(w={self.w}, h={self.h}, top={self.top}, left={self.left})"


class CenterCrop(_Part):
    """The middle of images; black where it reaches over the edge.

    Args:
        w: the size along the last dimension but one, as in TorchRL.
        h: the size along the last dimension; ``w`` when left out.
        in_keys: images; entries called ``pixels`` when left out.
        out_keys: where the results go.

    >>> CenterCrop(1)(TensorDict({"pixels": torch.arange(9.0).reshape(1, 3, 3)}))["pixels"]
    tensor([[[4.]]])
    """

    pure: ClassVar[bool] = True

    def __init__(self, w: int, h: int | None = None, in_keys: Keys = None, out_keys: Keys = None) -> None:
        super().__init__(w, h, in_keys, out_keys)

    def _corner(self, height: int, width: int) -> tuple[int, int]:
        sizes = ((self.w, height), (self.h, width))
        top, left = (-((size - have) // 2) if size > have else round((have - size) / 2.0) for size, have in sizes)
        return top, left

    def __repr__(self) -> str:
        return f"CenterCrop(w={self.w}, h={self.h})"


def cut(image: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part of images ``[..., H, W]``; zeros outside them.

    >>> cut(torch.ones(2, 2), -1, 0, 2, 2)
    tensor([[0., 0.],
            [1., 1.]])
    """
    inside = image[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    before = min(max(-left, 0), width), min(max(-top, 0), height)
    after = width - before[0] - inside.shape[-1], height - before[1] - inside.shape[-2]
    if not any((*before, *after)):
        return inside
    return nn.functional.pad(inside, (before[0], after[0], before[1], after[1]))


class Resize(_OfImages):
    """Images of another size, smoothed where they become smaller.

    ``"bicubic"`` reaches over the bounds of images at edges. Whole numbers and flags are rounded.

    Args:
        w: the size along the last dimension but one, as in TorchRL; or a pair of both sizes.
        h: the size along the last dimension; ``w`` when left out.
        interpolation: ``"bilinear"``, ``"bicubic"``, ``"nearest"``, ``"nearest-exact"`` or ``"area"``.
        in_keys: images; entries called ``pixels`` when left out.
        out_keys: where the results go.

    >>> Resize(1, 2)(TensorDict({"pixels": torch.tensor([[[0.0, 1.0], [1.0, 1.0]]])}))["pixels"]
    tensor([[[0.5000, 1.0000]]])
    """

    pure: ClassVar[bool] = True
    MODES = ("bilinear", "bicubic", "nearest", "nearest-exact", "area")

    def __init__(
        self,
        w: int | Sequence[int],
        h: int | None = None,
        interpolation: str = "bilinear",
        in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if isinstance(w, Iterable) and not isinstance(w, str):
            sizes = list(w)
            if len(sizes) != 2 or h is not None:
                raise SpecError(f"Resize: w must be one size, or a pair of both without h, got {w} and h={h}")
            w, h = sizes
        if interpolation not in self.MODES:
            raise SpecError(f"Resize: interpolation must be one of {list(self.MODES)}, got {interpolation!r}")
        self.w, self.h = whole("Resize", "w", w, 1), whole("Resize", "h", w if h is None else h, 1)
        self.interpolation = interpolation

    def _apply_transform(self, obs: Tensor) -> Tensor:
        size = (self.w, self.h)
        if obs.shape[-2:] == size:
            return obs
        lead, smooth = obs.shape[:-3], self.interpolation in ("bilinear", "bicubic")
        image = obs.reshape(-1, *obs.shape[-3:])
        image = image if image.dtype in (torch.float32, torch.float64) else image.float()
        options = {"antialias": True, "align_corners": False} if smooth else {}
        image = nn.functional.interpolate(image, size, mode=self.interpolation, **options)
        if not obs.is_floating_point():
            ends = torch.iinfo(torch.uint8 if obs.dtype == torch.bool else obs.dtype)
            image = image.round().clamp(ends.min, 1 if obs.dtype == torch.bool else ends.max)
        return image.to(obs.dtype).reshape(*lead, *image.shape[1:])

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec of the images; without bounds where the result does not keep to them."""
        made = super().derive(spec)
        if self.interpolation != "bicubic" or isinstance(spec, Stacked) or spec.shape[-2:] == (self.w, self.h):
            return made
        return unbounded(made)

    def __repr__(self) -> str:
        return f"Resize(w={self.w}, h={self.h}, interpolation={self.interpolation!r})"
