"""Entries that a policy needs at the first step: hidden states, noise, anything that the env does not give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Size, Tensor

from marlenv.errors import NotInSpec, ShapeError, SpecError, SpecTypeError
from marlenv.keys import NestedKey, under
from marlenv.specs import Composite, TensorSpec, Unbounded
from marlenv.tensordicts import fetch
from marlenv.transforms.base import Kind
from marlenv.transforms.streams import Drawing

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

Default = float | Callable[..., Any] | Mapping[NestedKey, Any] | None


class TensorDictPrimer(Drawing):
    """Gives entries a value at every reset; they stay as they are at a step, unless the policy changes them.

    What a policy writes under ``("next", key)``, as recurrent modules do with their hidden states, is what the next
    step starts from.

    Args:
        primers: specs by key, or a composite.
        random: draw the values from their specs, from a stream of every row.
        default_value: the value; 0 when left out. A function gives it; a mapping has one per key.
        reset_key: TorchRL's argument; the env knows which flags govern an entry.
        expand_specs: give the specs the batch size of the env; False: their leaves have it. When left out, specs get it
            unless they come in a composite that has it.
        single_default_value: ``default_value`` is a function that gives all entries as one tensordict.
        call_before_env_reset: give the values to the env's reset rather than to what it answers.
        **kwargs: specs by name, in place of ``primers``.

    >>> primer = TensorDictPrimer(hidden=Unbounded((2,)), default_value=1.0)
    >>> TransformedEnv(marlenv.testing.CountingEnv(), primer).reset()["hidden"]
    tensor([1., 1.])
    """

    def __init__(
        self,
        primers: Mapping[str, TensorSpec] | Composite | None = None,
        random: bool | None = None,
        default_value: Default = None,
        reset_key: NestedKey | None = None,
        expand_specs: bool | None = None,
        single_default_value: bool = False,
        call_before_env_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        device, shape = kwargs.pop("device", None), kwargs.pop("shape", None)
        if primers is not None and kwargs:
            raise SpecError(f"TensorDictPrimer: give primers or keywords, not both; got {sorted(kwargs)} too")
        given = kwargs if primers is None else primers
        if not isinstance(given, Composite):
            wrong = [key for key, leaf in given.items() if not isinstance(leaf, TensorSpec)]
            if wrong:
                raise SpecTypeError(
                    f"TensorDictPrimer: {wrong[0]!r} must be a spec, got {type(given[wrong[0]]).__name__}"
                )
            given = Composite(dict(given), device=device, shape=shape or ())
        self.given = self.primers = given
        if random and default_value:
            raise SpecError("TensorDictPrimer: random=True draws the values; leave default_value out")
        keys = set(given.keys(True, True))
        if isinstance(default_value, Mapping) and set(TensorDict(default_value).keys(True, True)) != keys:
            raise SpecError(f"TensorDictPrimer: default_value must have the keys {sorted(map(str, keys))}")
        self.default_value = 0.0 if default_value is None else default_value
        self.random, self.expand_specs = bool(random), expand_specs
        self.single_default_value, self.call_before_env_reset = single_default_value, call_before_env_reset
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Raises where a number that was given as a value is not in its spec."""
        for key, leaf in self.given.items(True, True):
            value = self._default_of(key)
            if not (self.random or callable(value)) and -1 not in leaf.shape:
                self._checked(key, self._constant(leaf, Size(), value), leaf)

    def join(self, env: EnvBase) -> None:
        """Gives the specs the batch size of the env."""
        super().join(env)
        batch = env.batch_size
        if self.given.shape[: len(batch)] == batch:
            self.primers = self.given
        elif self.expand_specs or (self.expand_specs is None and not self.given.shape):
            self.primers = self.given.expand(*batch, *self.given.shape)
        elif self.expand_specs is None:
            raise ShapeError(
                f"TensorDictPrimer: the primers must begin with the batch size {list(batch)}, got "
                f"{list(self.given.shape)}; pass expand_specs=True to give it to them, or False where their leaves "
                f"have it"
            )
        else:
            self.primers = self.given.clone()
            self.primers.shape = batch

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the entries; one that is an action or a state of the env keeps its place there."""
        for key, leaf in self.primers.items(True, True):
            held = next((kind for kind in ("action", "state") if key in specs[kind]), None)
            specs[held or "observation"][key] = leaf.clone()  # type: ignore[index]

    def _values(self, lead: Size, where: Tensor | None) -> dict[NestedKey, Any]:
        """A value for every entry; of a function, which says what it wants to know, for the rows that are reset."""
        if self.single_default_value and callable(self.default_value):
            made = self.default_value(reset=where) if where is not None else self.default_value()
            return {key: self._checked(key, made.get(key), leaf) for key, leaf in self.primers.items(True, True)}
        found: dict[NestedKey, Any] = {}
        for key, leaf in self.primers.items(True, True):
            value = self._default_of(key)
            if self.random:
                found[key] = self._drawn(leaf, lead, where)
            elif callable(value):
                found[key] = self._checked(key, value(), leaf)
            else:
                found[key] = self._constant(leaf, lead, value)
        return found

    @staticmethod
    def _constant(leaf: TensorSpec, lead: Size, value: Any) -> Tensor:
        """A number in every place of an entry."""
        return torch.full((*lead, *leaf.shape), value, device=leaf.device, dtype=leaf.dtype)

    def _drawn(self, leaf: TensorSpec, lead: Size, where: Tensor | None) -> Any:
        """A draw from a spec; only the streams of the rows that are reset move."""
        if where is None or self.stream.rows != (*lead, *leaf.shape)[: len(self.stream.rows)]:
            return leaf.rand(lead, rng=self.stream)
        return self.draw(where, lambda stream: leaf.rand(lead, rng=stream))

    def _default_of(self, key: NestedKey) -> Any:
        if isinstance(self.default_value, Mapping):
            return TensorDict(self.default_value).get(key)
        return self.default_value

    def _checked(self, key: NestedKey, value: Any, leaf: TensorSpec) -> Any:
        if value is None or not leaf.is_in(value):
            raise NotInSpec(f"TensorDictPrimer: the default of {key!r} must be in {leaf!r}, got {value!r}")
        return value

    def _prime(self, td: TensorDictBase, where: Tensor | None) -> TensorDictBase:
        for key, value in self._values(td.batch_size[: td.ndim - self.primers.ndim], where).items():
            td.set(key, value)
        return td

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        if not self.call_before_env_reset:
            return tensordict
        held = TensorDict({}, self.primers.shape, device=self.primers.device) if tensordict is None else tensordict
        return self._prime(held, self.asked(held).any(-1))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self.call_before_env_reset:
            return tensordict_reset
        return self._prime(tensordict_reset, self.asked(tensordict).any(-1))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.primers.keys(True, True):
            if fetch(next_tensordict, key) is not None:
                continue
            value = fetch(tensordict, under("next", key))  # of the policy
            value = fetch(tensordict, key) if value is None else value
            if value is not None:
                next_tensordict.set(key, value.clone())
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Gives data the entries."""
        want = tensordict.batch_size
        if self.primers.shape[: len(want)] != want and self.primers.shape:
            raise ShapeError(
                f"TensorDictPrimer: the primers must begin with the batch size of the data, {list(want)}, got "
                f"{list(self.primers.shape)}"
            )
        return self._prime(tensordict, None)

    def __repr__(self) -> str:
        return f"TensorDictPrimer({list(self.primers.keys(True, True))}, random={self.random})"


class gSDENoise(TensorDictPrimer):  # noqa: N801
    """Noise for generalised state-dependent exploration, drawn at every reset.

    Writes ``_eps_gSDE`` ``[*shape, action_dim, state_dim]``, or ``[*shape, 1]`` of zeros where a size is not known.

    Args:
        state_dim: how many numbers the state has.
        action_dim: how many numbers the action has.
        shape: the batch size of the env.
        **kwargs: handed to :class:`TensorDictPrimer`.

    >>> TransformedEnv(marlenv.testing.CountingEnv(), gSDENoise(3, 1)).reset()["_eps_gSDE"].shape
    torch.Size([1, 3])
    """

    def __init__(
        self, state_dim: int | None = None, action_dim: int | None = None, shape: Any = None, **kwargs: Any
    ) -> None:
        known = state_dim is not None and action_dim is not None
        shape = tuple(shape or ())
        tail = (action_dim, state_dim) if known else (1,)
        super().__init__(Composite({"_eps_gSDE": Unbounded((*shape, *tail))}, shape=shape), random=known, **kwargs)
        self.state_dim, self.action_dim = state_dim, action_dim
