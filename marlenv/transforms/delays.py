"""Transforms of bad lines: actions and observations that come late, and messages that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marlenv.errors import SpecError, whole
from marlenv.keys import NestedKey, beside, last, level
from marlenv.rng import RowRNG
from marlenv.specs import Binary, Composite, Unbounded
from marlenv.tensordicts import fetch, write
from marlenv.transforms.base import Kind, ObservationTransform, Transform
from marlenv.transforms.checks import remembered
from marlenv.transforms.streams import Drawing

if TYPE_CHECKING:
    from marlenv.envs import EnvBase

RNG = "_messages_rng"


class ActionDelay(Transform):
    """Lets actions arrive some steps after they were given; before the first one arrives, zeros are played.

    What is on its way stands in the data, in an entry of the action's name with underscores.

    Args:
        steps: how many.
        in_keys_inv: actions; all of the env's when left out.

    >>> env = TransformedEnv(marlenv.PendulumEnv(), ActionDelay(1))
    >>> td = env.reset().set("action", torch.ones(1))
    >>> env.transform.inv(td)["action"], env.step(td)["next", "_action_line"]
    (tensor([0.]), tensor([[1.]]))
    """

    only_in_env = "it delays what an env is told"
    asks_what_was_told: ClassVar[bool] = True
    one_for_each: ClassVar[bool] = True
    on: ClassVar[Kind] = "action"

    def __init__(self, steps: int = 1, in_keys_inv: Sequence[NestedKey] | None = None) -> None:
        super().__init__(in_keys_inv=in_keys_inv)
        self.steps, self.finds_actions = whole("ActionDelay", "steps", steps, 1), in_keys_inv is None

    def join(self, env: EnvBase) -> None:
        """Finds the actions."""
        if self.finds_actions:
            self.in_keys_inv = list(env.action_keys)
            self.out_keys_inv = list(env.action_keys)
        super().join(env)

    def _line(self, key: NestedKey) -> NestedKey:
        return self.own(beside(key, f"_{last(key)}_line"))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds what is on its way."""
        self.lines = {}
        for key in self.in_keys_inv:
            if key not in specs["action"]:
                raise self.no_entry(key, specs["action"].keys(True, True), "the actions are")
            leaf = specs["action"][key]
            spec = Unbounded((*leaf.shape, self.steps), device=leaf.device, dtype=leaf.dtype)
            specs["observation"][self._line(key)] = self.lines[key] = spec

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        lead = tensordict_reset.batch_size[: tensordict_reset.ndim - len(self.container.batch_size)]
        for key, spec in self.lines.items():
            tensordict_reset.set(self._line(key), spec.zero(lead))
        return tensordict_reset

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.in_keys_inv:
            if fetch(tensordict, key) is not None:
                write(tensordict, key, self._held(tensordict, key)[..., 0])
        return tensordict

    def _held(self, td: TensorDictBase, key: NestedKey) -> Tensor:
        return remembered("ActionDelay", td, self._line(key), self.steps)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        told = self.told(tensordict)
        for key in self.in_keys_inv:
            line, given = self._held(tensordict, key), fetch(told, key)
            next_tensordict.set(self._line(key), torch.cat((line[..., 1:], given.unsqueeze(-1).to(line.dtype)), -1))
        return next_tensordict

    def __repr__(self) -> str:
        return f"ActionDelay({self.steps})"


class ObservationDelay(ObservationTransform):
    """Shows observations some steps late; the first one until the second arrives.

    Args:
        steps: how many.
        in_keys: observations; those called ``observation`` when left out.
        out_keys: where the results go.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(), ObservationDelay(2))
    >>> env.rollout(4)["next", "observation"].squeeze(-1)
    tensor([0., 0., 1., 2.])
    """

    only_in_env = "stored data keep what was shown"
    default_name: ClassVar[str | None] = "observation"
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        steps: int = 1,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.steps = whole("ObservationDelay", "steps", steps, 1)

    def memories(self) -> list[NestedKey]:
        """What is shown, which does not follow from the env's state alone."""
        return list(self.out_keys or ())

    def _line(self, key: NestedKey) -> NestedKey:
        return self.own(beside(key, f"_{last(key)}_line"))

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds what is on its way."""
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if old not in specs["observation"]:
                raise self.no_entry(old, specs["observation"].keys(True, True), "the env observes")
            leaf = specs["observation"][old]
            specs["observation"][new] = leaf.clone()
            line = Unbounded((*leaf.shape, self.steps), device=leaf.device, dtype=leaf.dtype)
            specs["observation"][self._line(new)] = line

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            value = fetch(tensordict_reset, old)
            tensordict_reset.set(self._line(new), torch.stack([value] * self.steps, -1))
            tensordict_reset.set(new, value.clone())
        return tensordict_reset

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            line = remembered("ObservationDelay", tensordict, self._line(new), self.steps)
            value = fetch(next_tensordict, old)
            next_tensordict.set(self._line(new), torch.cat((line[..., 1:], value.unsqueeze(-1)), -1))
            next_tensordict.set(new, line[..., 0].clone())
        return next_tensordict

    def __repr__(self) -> str:
        return f"ObservationDelay({self.steps})"


class DropMessages(ObservationTransform, Drawing):
    """Loses observations on the way, each agent's by itself and at random.

    The streams of random numbers stand in the data, one per row: a row loses the same messages whatever others do.

    Args:
        prob: of losing one.
        mode: ``"zero"`` shows zeros in its place, ``"last"`` what was shown before.
        in_keys: observations; those called ``observation`` when left out.
        out_keys: where the results go.
        flag_name: an entry beside them that says what arrived, bool ``[*B]``, or in a group ``[*B, A]``.

    >>> env = TransformedEnv(marlenv.testing.CountingEnv(batch_size=[1000]), DropMessages(0.25, flag_name="arrived"))
    >>> env.set_seed(0), env.rollout(2)["next", "arrived"].float().mean() > 0.7
    (795726461, tensor(True))
    """

    only_in_env = "stored data keep what arrived"
    default_name: ClassVar[str | None] = "observation"
    one_for_each: ClassVar[bool] = True

    def __init__(
        self,
        prob: float,
        mode: Literal["zero", "last"] = "zero",
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        flag_name: str | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        if not 0 <= prob <= 1:
            raise SpecError(f"DropMessages: prob must be from 0 to 1, got {prob}")
        if mode not in ("zero", "last"):
            raise SpecError(f"DropMessages: mode must be 'zero' or 'last', got {mode!r}")
        self.prob, self.mode, self.flag_name = prob, mode, flag_name
        self.inner: dict[NestedKey, int] = {}
        """How many dimensions of an entry one message has."""

    def respec(self, specs: dict[Kind, Composite]) -> None:
        """Adds the flags, and the streams."""
        spec, self.inner = specs["observation"], {}
        spec[self.own(RNG)] = Unbounded((*spec.shape, 2), device=spec.device, dtype=torch.int64)
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            if old not in spec:
                raise self.no_entry(old, spec.keys(True, True), "the env observes")
            leaf = spec[old]
            for where in {new, self.memory_of(new)}:
                spec[where] = Unbounded(leaf.shape, device=leaf.device, dtype=leaf.dtype)
            one_each = max((spec[level(key)].shape if level(key) else spec.shape for key in (old, new)), key=len)
            self.inner[new] = leaf.ndim - len(one_each)
            if self.flag_name is not None:
                spec[beside(new, self.flag_name)] = Binary(shape=one_each, dtype=torch.bool, device=leaf.device)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        key = self.draw(self.asked(tensordict).any(-1), lambda stream: stream.bits())
        tensordict_reset.set(self.own(RNG), torch.stack((key, torch.zeros_like(key)), -1))
        return self._shown(tensordict_reset, None)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._shown(next_tensordict, tensordict)

    def memories(self) -> list[NestedKey]:
        """What is shown, which does not follow from the env's state alone."""
        return list(self.out_keys or ())

    def _shown(self, td: TensorDictBase, before: TensorDictBase | None) -> TensorDictBase:
        where = self.own(RNG)
        state = remembered("DropMessages", td if before is None else before, where, 2)
        stream = RowRNG.of(*state.unbind(-1))
        for old, new in zip(self.in_keys or (), self.out_keys or (), strict=True):
            value, inner = fetch(td, old), self.inner[new]
            arrived = stream.uniform(shape=value.shape[len(stream.rows) : value.ndim - inner]) >= self.prob
            kept = None if before is None or self.mode == "zero" else fetch(before, self.memory_of(new))
            everywhere = arrived.reshape((*arrived.shape, *[1] * inner))
            made = torch.where(everywhere, value, torch.zeros_like(value) if kept is None else kept)
            td.set(new, made)
            if self.memory_of(new) != new:
                td.set(self.memory_of(new), made.clone())
            if self.flag_name is not None:
                td.set(beside(new, self.flag_name), arrived)
        td.set(where, stream.state)
        return td

    def __repr__(self) -> str:
        return f"DropMessages({self.prob}, mode={self.mode!r})"
