"""Images embedded by published encoders: R3M, VIP and VC-1.

The encoders are made here, of torch's own modules; their parameters are random until ``download`` says where a
checkpoint is. Source: Nair et al. 2022, https://arxiv.org/abs/2203.12601; Ma et al. 2023,
https://arxiv.org/abs/2210.00030; Majumdar et al. 2023, https://arxiv.org/abs/2303.18240.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from marlenv.errors import KeyMissing, SpecError, UnknownName, nearest
from marlenv.keys import NestedKey
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.compose import Compose
from marlenv.transforms.networks import ResNet, ViT, load_checkpoint
from marlenv.transforms.norm import ObservationNorm
from marlenv.transforms.pixels import CenterCrop, Resize, ToTensorImage
from marlenv.transforms.shapes import CatTensors, FlattenObservation, UnsqueezeTransform

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, by colour
R3M = "https://pytorch.s3.amazonaws.com/models/rl/r3m/r3m_{}.pt"
VIP = "https://pytorch.s3.amazonaws.com/models/rl/vip/model.pt"
VC1 = "https://dl.fbaipublicfiles.com/eai-vc/{}.pth"
GOAL = "goal_embedding"


class _Embedding(Transform):
    """What a network makes of images; ``[*B, 3, H, W]`` becomes ``[*B, size]``."""

    def __init__(
        self, net: Any, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey], del_keys: bool, grad: bool = False
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.net, self.del_keys, self.grad = net.eval().requires_grad_(grad), del_keys, grad

    def train(self, mode: bool = True) -> _Embedding:
        """The network stays as it was trained: its statistics do not move."""
        super().train(mode)
        self.net.eval()
        return self

    def _apply_transform(self, obs: Tensor) -> Tensor:
        with torch.set_grad_enabled(self.grad and torch.is_grad_enabled()):
            return self.net(obs.reshape(-1, *obs.shape[-3:])).reshape(*obs.shape[:-3], self.net.size)

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The embedding."""
        return Unbounded((*spec.shape[:-3], self.net.size), device=spec.device)

    def _each(self, td: TensorDictBase, must: bool) -> set[NestedKey]:
        missing = super()._each(td, must)
        for key in self._gone():
            if fetch(td, key) is not None:
                del td[key]
        return missing

    def _gone(self) -> list[NestedKey]:
        return [key for key in self.in_keys or () if key not in (self.out_keys or ())] if self.del_keys else []

    def overwrites(self, key: NestedKey) -> bool:
        """Whether an entry is gone or another."""
        return key in (self.out_keys or ()) or key in self._gone()

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Leaves the images out."""
        for key in self._gone():
            if key in specs["observation"]:
                del specs["observation"][key]


def _normalised(keys: Sequence[NestedKey]) -> ObservationNorm:
    mean, deviation = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, DEVIATION))
    return ObservationNorm(mean, deviation, keys, standard_normal=True)


class _Encoder(Compose):
    """Images of one or more cameras through an encoder. Abstract."""

    name: ClassVar[str]

    def __init__(
        self,
        net: Any,
        in_keys: Any,
        out_keys: Any,
        size: int,
        stack_images: bool,
        raw_keys: Sequence[NestedKey] | None,
        grad: bool = False,
    ) -> None:
        who = type(self).__name__
        keys = ["pixels"] if in_keys is None else list(in_keys)
        many = len(keys) > 1 and stack_images
        named = [self.name] if stack_images or len(keys) == 1 else [f"{self.name}_{i}" for i in range(len(keys))]
        outs = list(out_keys) if out_keys else named
        if len(outs) != (1 if stack_images else len(keys)):
            want = "one, since the images are stacked" if stack_images else f"{len(keys)}, one for each image"
            raise SpecError(f"{who}: out_keys must be {want}, got {outs}")
        raw = zip(keys, raw_keys or (), strict=False)
        chain: list[Transform] = [CatTensors([key], copy, del_keys=False) for key, copy in raw]
        chain += [ToTensorImage(in_keys=keys), _normalised(keys), Resize(size, size, in_keys=keys)]
        if many:
            chain += [UnsqueezeTransform(-4, in_keys=keys), CatTensors(keys, outs[0], dim=-4)]
            chain += [_Embedding(net, outs, outs, False, grad), FlattenObservation(-2, -1, outs)]
        else:
            chain += [_Embedding(net, keys, outs, True, grad)]
        super().__init__(*chain)
        self.encoder, self.image_keys, self.embedding_keys = net, keys, outs


class R3MTransform(_Encoder):
    """Embeds images with R3M.

    Args:
        model_name: ``"resnet18"``, ``"resnet34"`` or ``"resnet50"``.
        in_keys: images ``[*B, H, W, 3]``.
        out_keys: where the embeddings go; ``r3m_vec`` when left out.
        size: that images are resized to.
        stack_images: put the embeddings of several images one after the other.
        download: load the published parameters; or the URL or file of others. Random ones when left out.
        download_path: the folder of downloads.
        tensor_pixels_keys: where copies of the images as they were go; none when left out.
        requires_grad: whether the parameters have gradients.

    >>> data = TensorDict({"pixels": torch.zeros(2, 8, 8, 3, dtype=torch.uint8)}, [2])
    >>> R3MTransform("resnet18", ["pixels"], size=32)(data)["r3m_vec"].shape
    torch.Size([2, 512])
    """

    name: ClassVar[str] = "r3m_vec"

    def __init__(
        self,
        model_name: str,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        size: int = 244,
        stack_images: bool = True,
        download: bool | str = False,
        download_path: str | None = None,
        tensor_pixels_keys: Sequence[NestedKey] | None = None,
        requires_grad: bool = False,
    ) -> None:
        net = ResNet(model_name)
        if download:
            source = R3M.format(model_name[-2:]) if download is True else download
            load_checkpoint(net, source, ["r3m"], "module.convnet.", download_path)
        super().__init__(net, in_keys, out_keys, size, stack_images, tensor_pixels_keys, requires_grad)


class VIPTransform(_Encoder):
    """Embeds images with VIP, a ResNet-50 with 1024 numbers.

    Args:
        model_name: ``"resnet50"``.
        in_keys: images ``[*B, H, W, 3]``.
        out_keys: where the embeddings go; ``vip_vec`` when left out.
        size: that images are resized to.
        stack_images: put the embeddings of several images one after the other.
        download: load the published parameters; or the URL or file of others. Random ones when left out.
        download_path: the folder of downloads.
        tensor_pixels_keys: where copies of the images as they were go; none when left out.
    """

    name: ClassVar[str] = "vip_vec"

    def __init__(
        self,
        model_name: str = "resnet50",
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        size: int = 244,
        stack_images: bool = True,
        download: bool | str = False,
        download_path: str | None = None,
        tensor_pixels_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        net = ResNet(model_name, 1024)
        if download:
            load_checkpoint(net, VIP if download is True else download, ["vip"], "module.convnet.", download_path)
        super().__init__(net, in_keys, out_keys, size, stack_images, tensor_pixels_keys)


class VIPRewardTransform(VIPTransform):
    """Embeds images with VIP, and rewards coming nearer to a goal.

    ``reset`` is given the image of the goal, ``goal_image``; the reward of a step is how much nearer the embedding came
    to the goal's, ``[*B, 1]``. The goal's embedding stands in the data.

    Args:
        *args: as of :class:`VIPTransform`.
        **kwargs: as of :class:`VIPTransform`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.append(_GoalReward(self))


class _GoalReward(Transform):
    """The reward of :class:`VIPRewardTransform`."""

    def __init__(self, encoder: VIPTransform) -> None:
        super().__init__()
        self.image, self.embedding = encoder.image_keys[0], encoder.embedding_keys[0]
        self.embed = Compose(*(t.clone() for t in encoder))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the goal, and gives the reward no bounds."""
        inner = self.container.base_env.full_observation_spec
        if self.image not in inner:
            raise self.no_entry(self.image, inner.keys(True, True), "the env observes")
        specs["state"]["goal_image"] = inner[self.image].clone()
        specs["observation"][GOAL] = specs["observation"][self.embedding].clone()
        shape = (*specs["reward"].shape, 1)
        specs["reward"]["reward"] = Unbounded(shape, device=specs["reward"].device)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        image, known = fetch(tensordict, "goal_image"), fetch(tensordict, GOAL)
        if image is not None:
            given = tensordict.empty().set(self.image, image)
            known = self.embed(given).get(self.embedding)
        if known is None:
            raise KeyMissing(
                "VIPRewardTransform: no entry 'goal_image'; give the reset one, env.reset(TensorDict({'goal_image': "
                "...}, env.batch_size))"
            )
        tensordict_reset.set(GOAL, known.clone())
        return tensordict_reset

    def _restored(self, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        goal = fetch(tensordict, GOAL)
        before, now = (
            torch.linalg.norm(fetch(td, self.embedding) - goal, dim=-1) for td in (tensordict, next_tensordict)
        )
        write(next_tensordict, GOAL, goal.clone())
        next_tensordict.set("reward", (before - now).unsqueeze(-1))
        return next_tensordict


VC1_MODELS: dict[str, tuple[str | None, dict[str, int]]] = {
    "base": ("vc1_vitb", {}),
    "large": ("vc1_vitl", {"size": 1024, "depth": 24, "heads": 16}),
    "default": (None, {}),
}


class VC1Transform(Compose):
    """Embeds images with VC-1.

    Args:
        in_keys: images ``[*B, H, W, 3]``.
        out_keys: where the embeddings go.
        model_name: ``"base"`` or ``"large"``, with the published parameters; ``"default"`` with random ones. Or a
            network with ``size`` and ``image``.
        del_keys: leave the images out.
        download_path: the folder of downloads.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        model_name: str | nn.Module,
        del_keys: bool = True,
        download_path: str | None = None,
    ) -> None:
        if isinstance(model_name, str):
            if model_name not in VC1_MODELS:
                raise UnknownName(f"VC1Transform: no model {model_name!r}; {nearest(model_name, VC1_MODELS)}")
            file, sizes = VC1_MODELS[model_name]
            net: Any = ViT(**sizes)
            if file is not None:
                load_checkpoint(net, VC1.format(file), ["model"], "", download_path)
        else:
            net = model_name
        keys, image = list(in_keys), net.image
        chain = [ToTensorImage(in_keys=keys), Resize(round(image * 256 / 224), interpolation="bicubic", in_keys=keys)]
        super().__init__(
            *chain, CenterCrop(image, in_keys=keys), _normalised(keys), _Embedding(net, keys, out_keys, del_keys)
        )
