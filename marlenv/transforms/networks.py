"""Networks of published visual encoders, with the names of their checkpoints' parameters: ResNet, and ViT.

Source: He et al. 2016, https://arxiv.org/abs/1512.03385; Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from marlenv.errors import SpecError, UnknownName, nearest

DEPTHS = {"resnet18": (False, (2, 2, 2, 2)), "resnet34": (False, (3, 4, 6, 3)), "resnet50": (True, (3, 4, 6, 3))}


class _Block(nn.Module):
    """Two or three convolutions beside a shortcut."""

    def __init__(self, have: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        out = width * 4 if bottleneck else width
        sizes = (
            [(have, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
            if bottleneck
            else [(have, width, 3, stride), (width, out, 3, 1)]
        )
        self.depth = len(sizes)
        for i, (a, b, kernel, step) in enumerate(sizes, 1):
            self.add_module(f"conv{i}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if stride != 1 or have != out:
            self.downsample = nn.Sequential(nn.Conv2d(have, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """``[N, C, H, W]``."""
        shortcut = x if self.downsample is None else self.downsample(x)
        for i in range(1, self.depth + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            x = x.relu() if i < self.depth else x
        return (x + shortcut).relu()


class ResNet(nn.Module):
    """A residual network; ``[N, 3, H, W]`` becomes ``[N, size]``.

    Args:
        name: ``"resnet18"``, ``"resnet34"`` or ``"resnet50"``.
        size: how many numbers come out; those of the last stage when left out, without a layer behind them.

    >>> ResNet("resnet18")(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 512])
    """

    def __init__(self, name: str, size: int | None = None) -> None:
        super().__init__()
        if name not in DEPTHS:
            raise UnknownName(f"ResNet: no network {name!r}; {nearest(name, DEPTHS)}")
        bottleneck, depths = DEPTHS[name]
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(3, 2, 1)
        have = 64
        for stage, depth in enumerate(depths):
            width, blocks = 64 * 2**stage, []
            for i in range(depth):
                blocks.append(_Block(have, width, 2 if i == 0 and stage else 1, bottleneck))
                have = width * 4 if bottleneck else width
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.size = have if size is None else size
        self.fc: nn.Module = nn.Identity() if size is None else nn.Linear(have, size)

    def forward(self, x: Tensor) -> Tensor:
        """The features of images."""
        x = self.pool(self.bn1(self.conv1(x)).relu())
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((-2, -1)))


class _Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(size, size * 3), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """``[N, T, size]``."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _Layer(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(size, 1e-6), _Attention(size, heads)
        self.norm2 = nn.LayerNorm(size, 1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(size, 4 * size), "fc2": nn.Linear(4 * size, size)})

    def forward(self, x: Tensor) -> Tensor:
        """``[N, T, size]``."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](nn.functional.gelu(self.mlp["fc1"](self.norm2(x))))


class ViT(nn.Module):
    """A vision transformer whose class token is the embedding; ``[N, 3, image, image]`` becomes ``[N, size]``.

    Args:
        size: of the embedding.
        depth: how many layers.
        heads: how many in each.
        image: the size of images.
        patch: the size of patches.

    >>> ViT(size=12, depth=1, heads=3, image=32)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 12])
    """

    def __init__(self, size: int = 768, depth: int = 12, heads: int = 12, image: int = 224, patch: int = 16) -> None:
        super().__init__()
        self.size, self.image = size, image
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, size, patch, patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, size))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, size))
        self.blocks = nn.ModuleList(_Layer(size, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(size, 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """The embeddings of images."""
        tokens = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), tokens), 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.norm(x)[:, 0]


def load_checkpoint(net: nn.Module, source: str, below: Sequence[str], prefix: str, folder: str | None = None) -> None:
    """Loads parameters from a published checkpoint: a URL, or a file.

    Args:
        net: what they are loaded into.
        source: where the checkpoint is.
        below: the names under which it holds the parameters.
        prefix: what the names of those of the network begin with.
        folder: where a download is kept; torch's own folder when left out.

    Raises:
        SpecError: there is no such file, it cannot be had, or it holds the parameters of another network.
    """
    try:
        if "://" in source:
            held = torch.hub.load_state_dict_from_url(source, model_dir=folder, map_location="cpu", progress=False)
        else:
            held = torch.load(source, map_location="cpu", weights_only=True)
    except OSError as error:
        raise SpecError(
            f"cannot get the parameters from {source!r}: {error}; download the file elsewhere and put it into "
            f"download_path={folder or torch.hub.get_dir() + '/checkpoints'!r}"
        ) from error
    for name in below:
        held = held.get(name, held)
    found = {name[len(prefix) :]: value for name, value in held.items() if name.startswith(prefix)}
    want = net.state_dict()
    unfit = [name for name, value in want.items() if name not in found or found[name].shape != value.shape]
    if unfit:
        raise SpecError(
            f"{source!r} holds no parameters of a {type(net).__name__} like this: {len(unfit)} of {len(want)} are not "
            f"there in their shape, such as {prefix + unfit[0]!r}; it holds {sorted(held)[:3]}, ..."
        )
    net.load_state_dict({name: found[name] for name in want})
