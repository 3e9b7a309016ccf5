"""Transforms of images, against Pillow, and of texts."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tensordict import NonTensorStack, TensorDict

import marlenv
from marlenv import (
    CenterCrop,
    Crop,
    Hash,
    Resize,
    TransformedEnv,
)
from marlenv.testing.mocks import CountingEnv, GroupedEnv


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


def sha(row: torch.Tensor) -> list[int]:
    """SHA-256 of a tensor of floats, by hand."""
    return list(hashlib.sha256(f"torch.float32{list(row.shape)}".encode() + row.numpy().tobytes()).digest())


@pytest.mark.parametrize("rows", [3, 32])  # as many rows as bytes, too
def test_every_row_of_a_tensor_has_a_hash_of_its_own(rows: int) -> None:
    env = TransformedEnv(CountingEnv(9, batch_size=[rows]), Hash(["observation"], ["hash"]))
    env.check_env_specs()
    assert env.reset()["hash"].tolist() == [sha(torch.zeros(1))] * rows
    stored = Hash(["observation"], ["hash"])(CountingEnv(9, batch_size=[2]).rollout(4))["next", "hash"]
    assert stored.tolist() == [[sha(torch.tensor([n])) for n in (1.0, 2.0, 3.0, 4.0)]] * 2


def test_hashes_of_agents_and_custom_ones() -> None:
    where = ("agents", "observation")
    env = TransformedEnv(GroupedEnv(batch_size=[2]), Hash([where], [("agents", "hash")]))
    env.check_env_specs()
    td = env.reset()
    assert td["agents", "hash"].tolist() == [[sha(agent) for agent in row] for row in td[where]]
    whole = Hash([where], ["hash"])(td)["hash"]  # at the root
    assert whole.tolist() == [sha(row) for row in td[where]]
    total = Hash(["observation"], ["hash"], hash_fn=torch.sum)
    assert total(TensorDict({"observation": torch.arange(6).reshape(3, 2)}, [3]))["hash"].tolist() == [1, 5, 9]


def test_hashes_of_rows_are_turned_back_in_any_order() -> None:
    codes = Hash(["x"], ["hash"], ["x"], ["hash"])
    given = torch.arange(6.0).reshape(3, 2)
    found = codes(TensorDict({"x": given.clone()}, [3]))["hash"]
    assert codes.inv(TensorDict({"hash": found[[2, 0]]}, [2]))["x"].tolist() == [[4, 5], [0, 1]]
    assert codes.inv(TensorDict({"hash": found[1]}))["x"].tolist() == [2, 3]


def test_hashes_of_texts_are_torchrls() -> None:
    torchrl = pytest.importorskip("torchrl.envs.transforms", reason="comes with the extra peers")
    for text, seed in (("e2e4", None), ("e2e4", "salt"), (None, None), ("", "salt")):
        assert torch.equal(Hash.reproducible_hash(text, seed), torchrl.Hash.reproducible_hash(text, seed))


def tokenizer_of_words() -> Any:
    tokenizers = pytest.importorskip("tokenizers", reason="comes with the extra text")
    transformers = pytest.importorskip("transformers", reason="comes with the extra text")
    words = {"[PAD]": 0, "[UNK]": 1, "move": 2, "the": 3, "king": 4}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]")


def test_texts_as_tokens() -> None:
    real = tokenizer_of_words()
    tokens = marlenv.Tokenizer(["text"], ["tokens"], ["text"], ["tokens"], tokenizer=real, max_length=5)
    out = tokens(TensorDict({"text": "move the king"}))
    assert out["tokens"].tolist() == [2, 3, 4, 0, 0]
    assert out["attention_mask"].tolist() == [1, 1, 1, 0, 0]
    assert tokens.inv(TensorDict({"tokens": out["tokens"]})).get("text").data == "move the king"


def test_stored_texts_as_tokens_and_back() -> None:
    """Rows of two steps are not taken for pairs of texts."""
    stored = [["move", "the king"], ["king", "the"], ["move the king", "move"]]
    want = [[[2, 0, 0], [3, 4, 0]], [[4, 0, 0], [3, 0, 0]], [[2, 3, 4], [2, 0, 0]]]
    tokens = marlenv.Tokenizer(["text"], ["tokens"], ["text"], ["tokens"], tokenizer=tokenizer_of_words())
    texts = NonTensorStack(*[NonTensorStack(*row) for row in stored])
    out = tokens(TensorDict({"text": texts}, [3, 2]))
    assert out["tokens"].tolist() == want
    assert out["attention_mask"].tolist() == [[[int(n > 0) for n in one] for one in row] for row in want]
    assert tokens.inv(TensorDict({"tokens": out["tokens"]}, [3, 2])).get("text").tolist() == stored
    flat = TensorDict({"text": NonTensorStack("king", "move the")}, [2])
    assert tokens(flat)["tokens"].tolist() == [[4, 0], [2, 3]]
