"""Transforms by functions of values of any kind: texts, hashes, tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, ClassVar

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, TensorDictBase
from torch import Tensor

from marlenv.envs import make_composite_from_td
from marlenv.errors import KeyMissing, SpecError, SpecTypeError
from marlenv.keys import NestedKey, beside, level, nested
from marlenv.optional import need
from marlenv.specs import Bounded, Composite, TensorSpec
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Kind, Transform
from marlenv.transforms.checks import called


class UnaryTransform(Transform):
    """Writes a function of entries of any kind.

    Args:
        in_keys: what the env gives.
        out_keys: where the results go.
        in_keys_inv: what the env is told.
        out_keys_inv: the same as the outside names it.
        fn: of a value; of a list of them where values that are no tensors are batched.
        inv_fn: of what the outside gives; ``fn`` when left out.
        use_raw_nontensor: hand ``NonTensorData`` and ``NonTensorStack`` to the functions as they are.

    >>> length = UnaryTransform(["text"], ["length"], fn=lambda text: torch.tensor(len(text)))
    >>> length(TensorDict({"text": "e2e4"}))["length"]
    tensor(4)
    """

    enable_inv_on_reset: ClassVar[bool] = True
    one_size: ClassVar[bool] = True
    takes_texts: ClassVar[bool] = True

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        fn: Callable[[Any], Any],
        inv_fn: Callable[[Any], Any] | None = None,
        use_raw_nontensor: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self.fn = called(type(self).__name__, "fn", fn)
        self.inv_fn = None if inv_fn is None else called(type(self).__name__, "inv_fn", inv_fn)
        self.use_raw_nontensor = use_raw_nontensor

    def _plain(self, value: Any) -> Any:
        if self.use_raw_nontensor or not isinstance(value, (NonTensorData, NonTensorStack)):
            return value
        return value.data if isinstance(value, NonTensorData) and not value.ndim else value.tolist()

    def _apply_transform(self, obs: Any) -> Any:
        return self.fn(self._plain(obs))

    def _inv_apply_transform(self, state: Any) -> Any:
        return (self.fn if self.inv_fn is None else self.inv_fn)(self._plain(state))

    def derive(self, spec: TensorSpec) -> TensorSpec:
        """The spec of what the function makes of an example."""
        return self._spec_of(self._apply_transform(spec.zero()))

    @staticmethod
    def _spec_of(made: Any) -> TensorSpec:
        return make_composite_from_td(TensorDict({"made": made}, []), unsqueeze_null_shapes=False)["made"]


class Hash(UnaryTransform):
    """Writes a hash of entries, by which texts can be told apart as tensors; of a tensor one for each row.

    Rows are those of the place where the hash goes: agents in a group, rows of the batch at the root.

    Args:
        in_keys: what the env gives.
        out_keys: where the hashes go; uint8 ``[32]`` of SHA-256.
        in_keys_inv: what the env is told.
        out_keys_inv: the hashes that the outside gives in their place; what was hashed before is found again.
        hash_fn: of a value, a row of a tensor, or a list of texts, and of the seed where there is one; gives a tensor.
        seed: text, or a number, that is put before every text.
        use_raw_nontensor: hand ``NonTensorData`` to the function as it is.
        repertoire: what is known beforehand: hashes (as tuples) and values.

    >>> Hash(["text"], ["hash"])(TensorDict({"text": "e2e4"}))["hash"][:3]
    tensor([ 62, 141, 180], dtype=torch.uint8)
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey],
        out_keys: Sequence[NestedKey],
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        hash_fn: Callable[..., Tensor] | None = None,
        seed: Any = None,
        use_raw_nontensor: bool = False,
        repertoire: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__(
            in_keys,
            out_keys,
            in_keys_inv,
            out_keys_inv,
            fn=self.call_hash_fn,
            inv_fn=self.get_input_from_hash,
            use_raw_nontensor=use_raw_nontensor,
        )
        self.repertoire = {} if repertoire is None and in_keys_inv else repertoire
        self.hash_fn, self.hash_seed = called("Hash", "hash_fn", hash_fn or self.reproducible_hash), seed

    def _apply_transform(self, obs: Any) -> Any:
        return self.call_hash_fn(self._plain(obs))

    def _inv_apply_transform(self, state: Any) -> Any:
        if isinstance(state, Tensor) and state.ndim > 1 and not self._knows(state):  # row by row
            values = [self._inv_apply_transform(one) for one in state]
            return torch.stack(values) if all(isinstance(one, Tensor) for one in values) else values
        return self.get_input_from_hash(state)

    def _knows(self, hash_tensor: Tensor) -> bool:
        return self.repertoire is None or self.hash_to_repertoire_key(hash_tensor) in self.repertoire

    def _of_rows(self, value: Tensor, ndim: int) -> Tensor:
        """The hash of every row ``[*B]`` of a tensor, of which ``ndim`` dimensions are of the batch."""
        if ndim == 0:
            return self.call_hash_fn(value)
        return torch.stack([self._of_rows(one, ndim - 1) for one in value])

    def _each(self, td: TensorDictBase, must: bool) -> set[NestedKey]:
        missing: set[NestedKey] = set()
        for old, new in zip(*self._keys(), strict=True):
            value = fetch(td, old)
            if isinstance(value, Tensor):
                place = fetch(td, level(new))
                td.set(new, self._of_rows(value, (td if place is None else place).ndim))
            elif value is not None:
                td.set(new, self._apply_transform(value))
            elif must and not self.missing_tolerance:
                raise self.no_entry(old, td.keys(True, True))
            else:
                missing.add(old)
        return missing

    def _respec_outputs(self, spec: Composite) -> Composite:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if old in spec:
                value, where = spec[old].zero(), level(new)
                place = spec[nested(where)] if where and nested(where) in spec.keys(True) else spec
                made = self._of_rows(value, place.ndim) if isinstance(value, Tensor) else self._apply_transform(value)
                spec[new] = self._spec_of(made)
        return spec

    def call_hash_fn(self, value: Any) -> Tensor:
        """The hash of a value, which is remembered where hashes are turned back."""
        made = self.hash_fn(value) if self.hash_seed is None else self.hash_fn(value, self.hash_seed)
        if not isinstance(made, Tensor):
            raise SpecTypeError(f"Hash: hash_fn must give a tensor, gave {type(made).__name__}")
        if self.repertoire is not None:
            held = value.clone() if isinstance(value, Tensor) else copy(value)
            self.repertoire[self.hash_to_repertoire_key(made)] = held
        return made

    def get_input_from_hash(self, hash_tensor: Any) -> Any:
        """What has the hash.

        Raises:
            SpecError: nothing is remembered.
            KeyMissing: nothing that was hashed has it.
        """
        if self.repertoire is None:
            raise SpecError(
                "Hash: hashes are not turned back, since nothing is remembered; give in_keys_inv or a repertoire"
            )
        key = self.hash_to_repertoire_key(hash_tensor)
        if key not in self.repertoire:
            raise KeyMissing(f"Hash: none of the {len(self.repertoire)} values that were hashed has the hash {key}")
        return self.repertoire[key]

    @classmethod
    def hash_to_repertoire_key(cls, hash_tensor: Any) -> Any:
        """A hash as a key of the repertoire: numbers, or tuples of them."""
        values = hash_tensor.tolist() if isinstance(hash_tensor, Tensor) else hash_tensor
        return tuple(cls.hash_to_repertoire_key(v) for v in values) if isinstance(values, list) else values

    @staticmethod
    def reproducible_hash(string: Any, seed: Any = None) -> Tensor:
        """SHA-256 of a text, the same in every process, on every device; uint8 ``[32]``, or ``[*B, 32]`` of a list.

        Of a tensor it is that of its dtype, its shape and all its numbers.
        """
        if isinstance(string, list):
            return torch.stack([Hash.reproducible_hash(one, seed) for one in string])
        data = ("" if seed is None else str(seed)).encode()
        if isinstance(string, Tensor):  # what is printed of it leaves digits and numbers out
            data += f"{string.dtype}{list(string.shape)}".encode()
            data += string.detach().cpu().flatten().view(torch.uint8).numpy().tobytes()
        else:
            data += ("" if string is None else str(string)).encode()
        return torch.frombuffer(bytearray(hashlib.sha256(data).digest()), dtype=torch.uint8)

    def get_extra_state(self) -> dict[str, Any]:
        """What is remembered."""
        return {"repertoire": self.repertoire}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Takes over what is remembered."""
        self.repertoire = state["repertoire"]


class Tokenizer(UnaryTransform):
    """Texts as numbers of tokens, by a tokenizer of ``transformers``; and numbers that the env is told as texts.

    Args:
        in_keys: texts that the env gives.
        out_keys: where the numbers go, int64; ``attention_mask`` stands beside them.
        in_keys_inv: texts that the env is told.
        out_keys_inv: the numbers that the outside gives in their place.
        tokenizer: a tokenizer, or the name of one to load.
        use_raw_nontensor: hand ``NonTensorData`` to the tokenizer as it is.
        additional_tokens: tokens to add to its vocabulary.
        skip_special_tokens: leave special tokens out of texts.
        add_special_tokens: begin and end texts with special tokens.
        padding: make the texts of a batch equally long.
        max_length: of all texts, padded to it; each its own when left out.
        return_attention_mask: mark what is no padding.
        missing_tolerance: pass over entries that are not there.
        call_before_reset: tokenize what a reset is given rather than what it answers.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
        *,
        tokenizer: Any = None,
        use_raw_nontensor: bool = False,
        additional_tokens: Sequence[str] | None = None,
        skip_special_tokens: bool = True,
        add_special_tokens: bool = False,
        padding: bool = True,
        max_length: int | None = None,
        return_attention_mask: bool = True,
        missing_tolerance: bool = True,
        call_before_reset: bool = False,
    ) -> None:
        keys = list(in_keys or ())
        super().__init__(
            keys,
            keys if out_keys is None else out_keys,
            in_keys_inv,
            out_keys_inv,
            fn=self.call_tokenizer_fn,
            inv_fn=self.call_tokenizer_inv_fn,
            use_raw_nontensor=use_raw_nontensor,
        )
        if tokenizer is None or isinstance(tokenizer, str):
            auto = need("transformers", "Tokenizer").AutoTokenizer
            tokenizer = auto.from_pretrained(tokenizer or "google-bert/bert-base-uncased")
        self.tokenizer = called("Tokenizer", "tokenizer", tokenizer)
        if additional_tokens:
            tokenizer.add_tokens(list(additional_tokens))
        self.skip_special_tokens, self.add_special_tokens = skip_special_tokens, add_special_tokens
        self.padding, self.max_length, self.return_attention_mask = padding, max_length, return_attention_mask
        self.missing_tolerance, self.call_before_reset = missing_tolerance, call_before_reset

    def call_tokenizer_fn(self, value: str | list[str]) -> Any:
        """The numbers of a text, ``[T]``, or of several, ``[*B, T]``; with the mask where it is asked for."""
        texts, lead = flat_texts(value)
        padding: Any = "max_length" if self.max_length is not None else self.padding and not isinstance(value, str)
        options = {"max_length": self.max_length} if self.max_length is not None else {}
        out = self.tokenizer(
            texts,
            add_special_tokens=self.add_special_tokens,
            return_attention_mask=self.return_attention_mask,
            return_tensors="pt",
            padding=padding,
            truncation=self.max_length is not None,
            **options,
        )
        found = [out[name] for name in ("input_ids", "attention_mask") if name in out]
        found = [one.reshape(*lead, one.shape[-1]) for one in found]
        return tuple(found) if self.return_attention_mask else found[0]

    def call_tokenizer_inv_fn(self, value: Tensor) -> Any:
        """The text of numbers ``[T]``, or the texts of ``[*B, T]``."""
        if value.ndim > 2:
            return NonTensorStack(*[self.call_tokenizer_inv_fn(row) for row in value])
        decode = self.tokenizer.decode if value.ndim == 1 else self.tokenizer.batch_decode
        made = decode(value.int(), skip_special_tokens=self.skip_special_tokens)
        return NonTensorStack(*made) if isinstance(made, list) else NonTensorData(made)

    def _apply_transform(self, obs: Any) -> Any:
        return self.call_tokenizer_fn(self._plain(obs))

    def _inv_apply_transform(self, state: Any) -> Any:
        return self.call_tokenizer_inv_fn(state)

    def _each(self, td: TensorDictBase, must: bool) -> set[NestedKey]:
        missing: set[NestedKey] = set()
        for old, new in zip(*self._keys(), strict=True):
            value = fetch(td, old)
            if value is None:
                if must and not self.missing_tolerance:
                    raise self.no_entry(old, td.keys(True, True))
                missing.add(old)
                continue
            made = self._apply_transform(value)
            ids, mask = made if self.return_attention_mask else (made, None)
            td.set(new, ids.to(td.device) if td.device is not None else ids)
            if mask is not None:
                td.set(beside(new, "attention_mask"), mask.to(td.device) if td.device is not None else mask)
        return missing

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if self.call_before_reset and tensordict is not None:
            self._each(tensordict, must=False)
            return tensordict
        return super()._reset_env_preprocess(tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset if self.call_before_reset else super()._reset(tensordict, tensordict_reset)

    def _numbers(self, spec: Composite, high: int) -> Bounded:
        shape = (*spec.shape, -1 if self.max_length is None else self.max_length)
        return Bounded(0, high, shape, device=spec.device, dtype=torch.int64)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Adds the numbers, and their masks."""
        for new in self.out_keys or ():
            observation_spec[new] = self._numbers(observation_spec, len(self.tokenizer))
            if self.return_attention_mask:
                observation_spec[beside(new, "attention_mask")] = self._numbers(observation_spec, 2)
        return observation_spec

    def _respec_inputs(self, spec: Composite) -> Composite:
        return spec

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Puts numbers in place of the texts that the env is told."""
        for inner, outer in zip(self.in_keys_inv, self.out_keys_inv, strict=True):
            kind = next((kind for kind in ("action", "state") if inner in specs[kind]), None)
            if kind is None:
                raise self.no_entry(
                    inner, [k for s in ("action", "state") for k in specs[s].keys(True, True)], "the env is told"
                )
            del specs[kind][inner]  # type: ignore[index]
            specs[kind][outer] = self._numbers(specs[kind], len(self.tokenizer))  # type: ignore[index]


def flat_texts(value: Any) -> tuple[list[Any], list[int]]:
    """The texts of nested lists one after the other, and how long the lists are; of one text no list.

    >>> flat_texts([["a", "b"], ["c", "d"]])
    (['a', 'b', 'c', 'd'], [2, 2])
    """
    lead: list[int] = []
    texts = [value]
    while texts and isinstance(texts[0], list):
        lead.append(len(texts[0]))
        texts = [text for row in texts for text in row]
    return texts, lead
