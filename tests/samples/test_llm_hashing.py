"""Hashed token chains: Python's own SipHash, TorchRL's data step by step, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
from tensordict import TensorDict, TensorDictBase

from marlenv.errors import ResetError, SpecError
from marlenv.samples import LLMHashingEnv, SipHash
from marlenv.testing import run_contract

PYTHONS = "import sys; print(*(hash(bytes.fromhex(line)) for line in sys.stdin))"


class Letters:
    """A tokenizer whose tokens are letters."""

    vocab_size = 26

    def __call__(self, text: str | list[str]) -> Any:
        return [self(t) for t in text] if isinstance(text, list) else [ord(c) - ord("a") for c in text]

    def decode(self, tokens: torch.Tensor) -> str:
        return "".join(chr(ord("a") + int(t)) for t in tokens)

    def batch_decode(self, tokens: torch.Tensor) -> list[str]:
        return [self.decode(t) for t in tokens]


def test_hashes_are_those_of_python_with_hash_seed_0() -> None:
    generator = torch.Generator().manual_seed(0)
    texts, hashes = [], []
    for dtype in (torch.int64, torch.uint8, torch.float32, torch.bool):
        for n in range(1, 20):
            rows = torch.randint(0, 2 if dtype == torch.bool else 200, (5, n), generator=generator).to(dtype)
            hashes += SipHash()(rows).tolist()
            texts += SipHash(as_tensor=False)(rows)
    environment, lines = {**os.environ, "PYTHONHASHSEED": "0"}, "\n".join(text.hex() for text in texts)
    command = [sys.executable, "-S", "-c", PYTHONS]
    run = subprocess.run(command, env=environment, input=lines, capture_output=True, text=True, check=True)
    assert hashes == [int(word) for word in run.stdout.split()]


@pytest.mark.reference
@pytest.mark.parametrize("prompt", ["hello", ["hello", "world"]])
def test_torchrl_gives_the_same_data_with_the_same_hash(prompt: str | list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchrl.envs import LLMHashingEnv as Peer

        class Tensors(Letters):
            def __call__(self, text: str | list[str]) -> Any:
                return torch.tensor(Letters()(text))

        peer = Peer(tokenizer=Tensors(), hashing_module=SipHash())
    env = LLMHashingEnv(tokenizer=Letters())
    ours, other = env.make_tensordict(prompt), peer.make_tensordict(prompt)
    generator = torch.Generator().manual_seed(0)
    for _ in range(6):
        for key in ("observation", "hashing", "done", "terminated"):
            assert torch.equal(ours[key], other[key]), key
        assert ours["text"] == other["text"]
        assert set(ours.keys()) == set(other.keys())
        action = torch.randint(0, 26, (*ours.batch_size, 1), generator=generator)
        ours, other = env.step(ours.set("action", action)), peer.step(other.set("action", action))
        assert set(ours["next"].keys()) - {"reward"} == set(other["next"].keys()) - {"reward"}
        ours, other = env.step_mdp(ours), peer.step_mdp(other)
    assert env.action_spec.shape == peer.action_spec.shape


def test_chains_are_equal_where_their_hashes_are() -> None:
    env = LLMHashingEnv(3, text_output=False)
    prompts = torch.tensor([[0]]).expand(81, 1)
    td = env.reset(TensorDict(observation=prompts, batch_size=[81]))
    tokens = torch.arange(81)
    for place in (27, 9, 3, 1):
        td = env.step_mdp(env.step(td.set("action", (tokens // place % 3).unsqueeze(-1))))
        assert len(td["hashing"].unique()) == 81 // place
    again = env.reset(TensorDict(observation=torch.tensor([0])))
    for token in (2, 2, 2, 2):
        again = env.step_mdp(env.step(again.set("action", torch.tensor([token]))))
    assert torch.equal(again["hashing"], td["hashing"][-1])


def test_any_batch_shape_is_taken() -> None:
    env = LLMHashingEnv(tokenizer=Letters())
    tokens = torch.arange(12).reshape(2, 2, 3)
    td = env.reset(TensorDict(observation=tokens, batch_size=[2, 2]))
    assert td["text"] == [["abc", "def"], ["ghi", "jkl"]]
    assert torch.equal(td["hashing"][1, 0], env.reset(TensorDict(observation=tokens[1, 0]))["hashing"])


class Prompted(LLMHashingEnv):
    """Begins with a prompt of its own."""

    def _reset(self, tensordict: TensorDictBase | None, **options: Any) -> TensorDictBase:
        lead = [] if tensordict is None else tensordict.batch_size
        prompt = TensorDict({"observation": torch.zeros((*lead, 2), dtype=torch.int64)}, lead)
        return super()._reset(prompt, **options)


def test_the_contract_holds_for_an_env_with_a_prompt() -> None:
    assert not [r for r in run_contract(lambda: Prompted(5, text_output=False)) if r.verdict == "broken"]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="expected vocab_size, or a tokenizer"):
        LLMHashingEnv()
    with pytest.raises(SpecError, match="text_output=True needs a tokenizer"):
        LLMHashingEnv(5)
    with pytest.raises(ResetError, match="requires a prompt: tokens under 'observation'"):
        LLMHashingEnv(5, text_output=False).reset()
    with pytest.raises(SpecError, match="no tokenizer"):
        LLMHashingEnv(5, text_output=False).make_tensordict("a")
    with pytest.raises(SpecError, match="same number of tokens"):
        LLMHashingEnv(tokenizer=Letters()).make_tensordict(["a", "bc"])
