"""Visual encoders: their architectures by known numbers, their transforms on small random ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from torch import nn

import marlenv
from marlenv import R3MTransform, TransformedEnv, VC1Transform, VIPRewardTransform, VIPTransform
from marlenv.errors import KeyMissing, SpecError, UnknownName
from marlenv.testing.mocks import CountingEnv
from marlenv.transforms.networks import ResNet, ViT, load_checkpoint

# of torchvision's networks without their last layer, and of timm's vit_base_patch16_224 without its head
PARAMETERS = {"resnet18": 11_176_512, "resnet34": 21_284_672, "resnet50": 23_508_032}


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_residual_networks_are_the_published_ones(name: str) -> None:
    with torch.device("meta"):
        net = ResNet(name)
        assert count(net) == PARAMETERS[name]
        assert net(torch.empty(2, 3, 224, 224)).shape == (2, 2048 if name == "resnet50" else 512)
    assert {
        "conv1.weight",
        "bn1.running_var",
        "layer2.0.downsample.0.weight",
        "layer4.1.conv2.weight",
    } <= net.state_dict().keys()


def test_transformers_are_the_published_ones() -> None:
    with torch.device("meta"):
        assert count(ViT()) == 85_798_656
        assert count(ViT(1024, 24, 16)) == 303_301_632
    net = ViT(size=24, depth=1, heads=3, image=32)
    theirs = nn.TransformerEncoderLayer(24, 3, 96, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True)
    ours = net.blocks[0]
    pairs = {
        "self_attn.in_proj_weight": ours.attn.qkv.weight, "self_attn.in_proj_bias": ours.attn.qkv.bias,
        "self_attn.out_proj.weight": ours.attn.proj.weight, "self_attn.out_proj.bias": ours.attn.proj.bias,
        "linear1.weight": ours.mlp["fc1"].weight, "linear1.bias": ours.mlp["fc1"].bias,
        "linear2.weight": ours.mlp["fc2"].weight, "linear2.bias": ours.mlp["fc2"].bias,
    }  # fmt: skip
    theirs.load_state_dict(pairs, strict=False)
    x = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(ours(x), theirs(x), atol=1e-5)


def test_checkpoints_are_loaded(tmp_path: Path) -> None:
    net, other = ResNet("resnet18"), ResNet("resnet18")
    held = {f"module.convnet.{k}": v for k, v in net.state_dict().items()} | {"module.lang.weight": torch.ones(1)}
    torch.save({"r3m": held}, tmp_path / "r3m.pt")
    load_checkpoint(other, str(tmp_path / "r3m.pt"), ["r3m"], "module.convnet.")
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), other.state_dict().values(), strict=True))
    made = R3MTransform("resnet18", ["pixels"], size=32, download=str(tmp_path / "r3m.pt"))
    assert torch.equal(made.encoder.conv1.weight, net.conv1.weight)


class Camera(CountingEnv):
    """Shows its count as a shade of grey, ``[*B, 20, 20, 3]``."""

    def __init__(self, names: tuple[str, ...] = ("pixels",)) -> None:
        super().__init__(9, batch_size=[2])
        self.names = names
        spec = marlenv.Composite(observation=marlenv.Unbounded((2, 1)), shape=(2,))
        for name in names:
            spec[name] = marlenv.Unbounded((2, 20, 20, 3), dtype=torch.uint8)
        self.observation_spec = spec

    def show(self, td: TensorDict) -> TensorDict:
        for i, name in enumerate(self.names):
            shade = (self.count * 20 + 5 * i).to(torch.uint8)
            td[name] = shade.reshape(2, 1, 1, 1).expand(2, 20, 20, 3).clone()
        return td

    def _reset(self, tensordict: TensorDict | None, **_: object) -> TensorDict:
        return self.show(super()._reset(tensordict))

    def _step(self, tensordict: TensorDict) -> TensorDict:
        return self.show(super()._step(tensordict))


def test_images_become_embeddings() -> None:
    env = TransformedEnv(Camera(), R3MTransform("resnet18", ["pixels"], size=32))
    out = env.rollout(2)["next"]
    assert out["r3m_vec"].shape == (2, 2, 512)
    assert "pixels" not in out.keys()
    env.check_env_specs()
    images = Camera().reset()["pixels"].movedim(-1, -3) / 255
    mean, std = (torch.tensor(x).reshape(3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    want = env.transform.encoder(
        nn.functional.interpolate((images - mean) / std, (32, 32), mode="bilinear", antialias=True)
    )
    assert torch.allclose(env.reset()["r3m_vec"], want, atol=1e-5)


def test_several_cameras() -> None:
    env = TransformedEnv(Camera(("left", "right")), R3MTransform("resnet18", ["left", "right"], size=32))
    assert env.reset()["r3m_vec"].shape == (2, 1024)
    env.check_env_specs()
    apart = TransformedEnv(
        Camera(("left", "right")), R3MTransform("resnet18", ["left", "right"], size=32, stack_images=False)
    )
    assert apart.reset()["r3m_vec_1"].shape == (2, 512)


def test_coming_nearer_to_a_goal_is_rewarded() -> None:
    torch.manual_seed(0)
    env = TransformedEnv(Camera(), VIPRewardTransform("resnet50", ["pixels"], size=32))
    goal = torch.full((2, 20, 20, 3), 60, dtype=torch.uint8)
    out = env.rollout(4, tensordict=TensorDict({"goal_image": goal}, [2]))
    apart = (out["vip_vec"] - out["goal_embedding"]).norm(dim=-1)
    after = (out["next", "vip_vec"] - out["goal_embedding"]).norm(dim=-1)
    assert torch.allclose(out["next", "reward"].squeeze(-1), apart - after, atol=1e-5)
    assert torch.allclose(after[:, 2], torch.zeros(2), atol=1e-4)  # the count is 3: the image is the goal
    with pytest.raises(KeyMissing, match="no entry 'goal_image'; give the reset one"):
        env.reset()


def test_patches_become_embeddings() -> None:
    small = ViT(size=24, depth=2, heads=3, image=32)
    env = TransformedEnv(Camera(), VC1Transform(["pixels"], ["vec"], small, del_keys=False))
    assert env.reset()["vec"].shape == (2, 24)
    env.check_env_specs()
    first, *others = env.rollout(3)["vec"][0]
    assert all(not torch.equal(first, other) for other in others)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: R3MTransform("resnet19", ["pixels"]), UnknownName,
         r"no network 'resnet19'; did you mean 'resnet18'\?"),
        (lambda: VIPTransform("resnet50", ["a", "b"], ["x", "y"]), SpecError,
         r"out_keys must be one, since the images are stacked, got \['x', 'y'\]"),
        (lambda: VC1Transform(["pixels"], ["vec"], "bas"), UnknownName, r"no model 'bas'; did you mean 'base'\?"),
    ],
)  # fmt: skip
def test_what_is_refused(make: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        make()
