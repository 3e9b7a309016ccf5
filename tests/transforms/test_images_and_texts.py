"""Transforms of images, against Pillow, and of texts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image
from tensordict import TensorDict

import marlenv
from marlenv import (
    CenterCrop,
    Crop,
    Hash,
    Resize,
)


def picture(height: int = 12, width: int = 9) -> torch.Tensor:
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("size", [(6, 5), (4, 9), (3, 3)])
@pytest.mark.parametrize(("mode", "filter_"), [("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)])
def test_smaller_images_are_pillows(size: tuple[int, int], mode: str, filter_: int) -> None:
    """Within one shade: Pillow rounds after each of its two passes."""
    given = picture()
    ours = Resize(*size, interpolation=mode)(TensorDict({"pixels": given}))["pixels"]
    theirs = Image.fromarray(given.movedim(0, -1).numpy()).resize(size[::-1], filter_)
    assert ours.shape == (3, *size)
    assert (ours.int() - torch.from_numpy(np.array(theirs)).movedim(-1, 0).int()).abs().max() <= 1


@pytest.mark.parametrize("box", [(0, 0, 5, 4), (2, 3, 4, 6), (10, 7, 5, 5), (-1, -2, 4, 4)])
def test_parts_of_images_are_pillows(box: tuple[int, int, int, int]) -> None:
    top, left, height, width = box
    given = picture()
    ours = Crop(height, width, top, left)(TensorDict({"pixels": given}))["pixels"]
    theirs = Image.fromarray(given.movedim(0, -1).numpy()).crop((left, top, left + width, top + height))
    assert torch.equal(ours, torch.from_numpy(np.array(theirs)).movedim(-1, 0))


def test_middles_of_images() -> None:
    given = torch.arange(20.0).reshape(1, 4, 5)
    assert CenterCrop(2, 1)(TensorDict({"pixels": given}))["pixels"].flatten().tolist() == [7, 12]
    wide = CenterCrop(4, 7)(TensorDict({"pixels": given}))["pixels"]
    assert torch.equal(wide[..., 1:6], given)
    assert not wide[..., [0, 6]].any()


def test_hashes_are_turned_back() -> None:
    codes = Hash(["text"], ["hash"], ["text"], ["hash"])
    data = codes(TensorDict({"text": "e2e4"}))
    assert codes.inv(TensorDict({"hash": data["hash"]})).get("text").data == "e2e4"
    twin = Hash(["text"], ["hash"], ["text"], ["hash"])
    twin.load_state_dict(codes.state_dict())
    assert twin.inv(TensorDict({"hash": data["hash"]})).get("text").data == "e2e4"


@pytest.mark.parametrize("seed", ["3", 3])
def test_seeds_are_put_before_texts(seed: str | int) -> None:
    made = Hash(["text"], ["hash"], seed=seed)(TensorDict({"text": "e2e4"}))["hash"]
    assert bytes(made.tolist()) == hashlib.sha256(b"3e2e4").digest()


@pytest.mark.parametrize("seed", [None, "salt"])
def test_tensors_that_differ_have_other_hashes(seed: str | None) -> None:
    """Though what is printed of them is the same: digits, and the middle of what is long, are left out there."""
    long = torch.arange(2000)
    other = long.clone()
    other[1000] = -1
    given = [
        torch.tensor(0.123456), torch.tensor(0.123457), torch.tensor([0.123456]), torch.tensor(0.123456).double(),
        long, other, long.reshape(40, 50), long.bfloat16(), torch.empty(0), torch.empty(0, dtype=torch.bool),
    ]  # fmt: skip
    hashes = [tuple(Hash.reproducible_hash(x, seed).tolist()) for x in given]
    assert len(set(hashes)) == len(given)
    turned = long.reshape(40, 50).T.contiguous().T  # the same numbers, lying otherwise
    assert tuple(Hash.reproducible_hash(turned, seed).tolist()) == hashes[6]


def test_hashes_of_texts_are_torchrls() -> None:
    torchrl = pytest.importorskip("torchrl.envs.transforms", reason="comes with the extra peers")
    for text, seed in (("e2e4", None), ("e2e4", "salt"), (None, None), ("", "salt")):
        assert torch.equal(Hash.reproducible_hash(text, seed), torchrl.Hash.reproducible_hash(text, seed))


def test_texts_as_tokens() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="comes with the extra text")
    transformers = pytest.importorskip("transformers", reason="comes with the extra text")
    words = {"[PAD]": 0, "[UNK]": 1, "move": 2, "the": 3, "king": 4}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    real = transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]")
    tokens = marlenv.Tokenizer(["text"], ["tokens"], ["text"], ["tokens"], tokenizer=real, max_length=5)
    out = tokens(TensorDict({"text": "move the king"}))
    assert out["tokens"].tolist() == [2, 3, 4, 0, 0]
    assert out["attention_mask"].tolist() == [1, 1, 1, 0, 0]
    assert tokens.inv(TensorDict({"tokens": out["tokens"]})).get("text").data == "move the king"
