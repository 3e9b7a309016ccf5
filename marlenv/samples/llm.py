"""TorchRL's env of growing token chains, each identified by a hash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import EnvBase
from marlenv.errors import ResetError, SpecError
from marlenv.keys import NestedKey
from marlenv.samples.hashing import SipHash
from marlenv.specs import Categorical, Composite, NonTensor, TensorSpec, Unbounded


class Tokenizer(Protocol):
    """What this env needs of a tokenizer; those of ``transformers`` have it."""

    vocab_size: int

    def __call__(self, text: str | list[str]) -> Any:
        """The tokens of a text, or of several of the same length."""

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens."""

    def batch_decode(self, tokens: Tensor) -> list[str]:
        """The texts of rows of tokens."""


class LLMHashingEnv(EnvBase):
    """Text that grows by a token per step, and a hash that identifies it. Keys and numbers are TorchRL's.

    Equal chains of tokens have equal hashes, so that hashes can name the nodes of a search tree. A step hashes the hash
    before and the new token, not the whole text.

    | key | shape | meaning |
    |---|---|---|
    | `observation` | int64 `[*B, n]` | the tokens so far; longer by one after each step |
    | `hashing` | int64 `[*B, 1]` | what identifies them |
    | `text` | `[*B]` strings | the same as text |
    | `action` | int64 `[*B, 1]` | the next token |

    An episode never ends. ``reset`` needs tokens to begin with: a prompt.

    Args:
        vocab_size: how many tokens there are; the tokenizer's when left out.
        hashing_module: hashes rows, ``[B, n]`` to int64 ``[B]``; :class:`~marlenv.samples.SipHash` when left out.
        observation_key: of the tokens.
        text_output: whether there is a text.
        tokenizer: makes texts of tokens, and tokens of texts for :meth:`make_tensordict`.
        text_key: of the text.

    Raises:
        TypeError: neither a number of tokens nor a tokenizer.
        SpecError: texts are asked for, but there is no tokenizer.

    >>> env = LLMHashingEnv(10, text_output=False)
    >>> td = env.reset(TensorDict(observation=torch.tensor([[1, 2], [1, 3]]), batch_size=[2]))
    >>> td = env.step(td.set("action", torch.tensor([[4], [4]])))
    >>> td["next", "observation"].tolist(), bool(td["next", "hashing"][0] == td["next", "hashing"][1])
    ([[1, 2, 4], [1, 3, 4]], False)

    Source: torchrl 0.14.1 ``LLMHashingEnv``.
    """

    batch_locked = False

    def __init__(
        self,
        vocab_size: int | None = None,
        *,
        hashing_module: Callable[[Tensor], Tensor] | None = None,
        observation_key: NestedKey = "observation",
        text_output: bool = True,
        tokenizer: Tokenizer | None = None,
        text_key: NestedKey | None = "text",
    ) -> None:
        super().__init__()
        if vocab_size is None:
            if tokenizer is None:
                raise TypeError("LLMHashingEnv: expected vocab_size, or a tokenizer that has one; got neither")
            vocab_size = tokenizer.vocab_size
        if text_output and tokenizer is None:
            raise SpecError("LLMHashingEnv: text_output=True needs a tokenizer; pass one, or text_output=False")
        self._hashing_module: Callable[[Tensor], Any] = SipHash() if hashing_module is None else hashing_module
        self._tokenizer = tokenizer
        self.observation_key = observation_key
        self.text_output = text_output
        self.text_key: NestedKey | None = (text_key or "text") if text_output else None
        observations: dict[NestedKey, TensorSpec] = {
            observation_key: Categorical(vocab_size, (-1,)),
            "hashing": Unbounded((1,), dtype=torch.int64),
        }
        if self.text_key is not None:
            observations[self.text_key] = NonTensor(shape=())
        self.observation_spec = Composite(observations)
        self.action_spec = Composite(action=Categorical(vocab_size, (1,)))

    def make_tensordict(self, input: str | list[str]) -> TensorDictBase:
        """The data to start from: one text, or a row for each of several texts with the same number of tokens.

        Raises:
            SpecError: there is no tokenizer, or the texts have different numbers of tokens.
        """
        if self._tokenizer is None:
            raise SpecError("LLMHashingEnv.make_tensordict: no tokenizer; give tokens to reset instead")
        tokens = self._tokenizer(input)
        tokens = tokens["input_ids"] if isinstance(tokens, Mapping) else tokens
        try:
            tokens = torch.as_tensor(tokens)
        except (TypeError, ValueError) as error:
            raise SpecError(
                f"LLMHashingEnv.make_tensordict: all texts must have the same number of tokens ({error}); let "
                "the tokenizer "
                f"pad them"
            ) from None
        batch = [len(input)] if isinstance(input, list) else []
        return self.reset(TensorDict({self.observation_key: tokens}, batch, device=self.device))

    def _reset(self, tensordict: TensorDictBase | None) -> TensorDictBase:
        tokens = None if tensordict is None else tensordict.get(self.observation_key, None)
        if tensordict is None or tokens is None:
            raise ResetError(
                f"{type(self).__name__}: a reset requires a prompt: tokens under {self.observation_key!r}, "
                "int64 [*B, n]"
            )
        return self._data(tensordict, tokens, tokens)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        action = tensordict.get("action")
        tokens = torch.cat((tensordict.get(self.observation_key), action), -1)
        return self._data(tensordict, tokens, torch.cat((tensordict.get("hashing"), action), -1))

    def _data(self, before: TensorDictBase, tokens: Tensor, hashed: Tensor) -> TensorDictBase:
        """Tokens, what ``hashed`` hashes to, and the text."""
        lead = before.batch_size
        out = TensorDict({self.observation_key: tokens}, lead, device=before.device)
        hashes = self._hashing_module(hashed.reshape(-1, hashed.shape[-1]))
        out.set("hashing", hashes.reshape(*lead, 1))
        if self.text_key is not None and self._tokenizer is not None:
            out.set(self.text_key, _text(self._tokenizer, tokens))
        return out

    def _set_seed(self, seed: int | None) -> None:
        """Nothing here is random."""


def _text(tokenizer: Tokenizer, tokens: Tensor) -> NonTensorData | NonTensorStack:
    """The text of each row; ``[*B]`` of tokens ``[*B, n]``."""
    if tokens.ndim == 1:
        return NonTensorData(tokenizer.decode(tokens))
    if tokens.ndim > 2:
        return NonTensorStack(*(_text(tokenizer, rows) for rows in tokens))
    return NonTensorStack.from_list(tokenizer.batch_decode(tokens))
