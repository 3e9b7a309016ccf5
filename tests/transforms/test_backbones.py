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
from marlenv.transforms import backbones
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


def test_published_checkpoints_are_asked_for_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their URLs, which point at files here: small random networks in the layouts that were published."""
    small = {"size": 24, "depth": 2, "heads": 3, "image": 32}
    nets = {"r3m_18": ResNet("resnet18"), "model": ResNet("resnet18", 1024), "vc1_vitb": ViT(**small)}
    heads = {"decoder.weight": torch.ones(1), "lang_rew.pred.0.weight": torch.ones(1)}
    for file, net in nets.items():
        inner = "" if file == "vc1_vitb" else "module.convnet."
        held = {f"{inner}{name}": value for name, value in net.state_dict().items()} | heads
        below = {"r3m_18": "r3m", "model": "vip", "vc1_vitb": "model"}[file]
        torch.save({below: held}, tmp_path / f"{file}.pt")
    for name, url in {"R3M": "r3m_{}.pt", "VIP": "model.pt", "VC1": "{}.pt"}.items():
        monkeypatch.setattr(backbones, name, f"{tmp_path.as_uri()}/{url}")
    monkeypatch.setitem(backbones.VC1_MODELS, "base", ("vc1_vitb", small))
    kept = str(tmp_path / "kept")
    made = {
        "r3m_18": R3MTransform("resnet18", ["pixels"], download=True, download_path=kept).encoder,
        "model": VIPTransform("resnet18", ["pixels"], download=True, download_path=kept).encoder,
        "vc1_vitb": VC1Transform(["pixels"], ["vec"], "base", download_path=kept)[-1].net,
    }
    for file, net in made.items():
        theirs = nets[file].state_dict()
        assert all(torch.equal(value, theirs[name]) for name, value in net.state_dict().items()), file
        assert (tmp_path / "kept" / f"{file}.pt").exists(), file
    seen = TransformedEnv(Camera(), VC1Transform(["pixels"], ["vec"], "base", download_path=kept)).reset()["vec"]
    assert seen.shape == (2, 24)


def test_checkpoints_that_are_not_there_or_of_another_network(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"cannot get the parameters from 'file:///nowhere/r3m.pt': .*download_path='/k'"
    ):
        R3MTransform("resnet18", ["pixels"], download="file:///nowhere/r3m.pt", download_path="/k")
    with pytest.raises(SpecError, match=r"cannot get the parameters from '/nowhere/r3m.pt': "):
        R3MTransform("resnet18", ["pixels"], download="/nowhere/r3m.pt")
    torch.save({"r3m": ResNet("resnet18").state_dict()}, tmp_path / "bare.pt")
    with pytest.raises(
        SpecError, match=r"holds no parameters of a ResNet like this: 120 of 120 .* 'module.convnet.conv1"
    ):
        R3MTransform("resnet18", ["pixels"], download=str(tmp_path / "bare.pt"))
    with pytest.raises(SpecError, match=r"holds no parameters of a ResNet like this: "):
        load_checkpoint(ResNet("resnet34"), str(tmp_path / "bare.pt"), ["r3m"], "")


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
