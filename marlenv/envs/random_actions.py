"""Random actions: a stream of numbers per row, turned into actions many steps at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs.plan import ActionEntry, Plan
from marlenv.envs.stepping import check_input
from marlenv.errors import NeedsReset
from marlenv.rng import RowRNG
from marlenv.tensordicts import get, is_nested, lazy, new, parts, put

if TYPE_CHECKING:
    from marlenv.envs.env import EnvBase

ACTIONS = 1  # the stream of RowRNG that random actions come from
BLOCK = 1 << 14  # random numbers made at once, at most


def rand_action(env: EnvBase, td: TensorDictBase | None) -> TensorDictBase:
    """Writes a random action into ``td``, or into a new tensordict."""
    plan = env.plan
    if td is None:
        shape, out = env.batch_size, new({}, env.batch_size, env.device)
    else:
        check_input(env, td)
        shape, out = td.batch_size, td
    stream = env.action_stream
    if plan.rows is not None and len(shape) == plan.batch_ndim:
        return _rand_rows(plan.rows, out, stream, shape)
    if not plan.dense_actions:
        lead = shape[: len(shape) - plan.batch_ndim]
        rng = stream.rng(shape)
        out.update(env.full_action_spec.rand(lead, rng=rng))
        stream.skip(1 << 20)
        _obey_masks(plan, out, rng)
        return out
    for entry, value in zip(plan.actions, stream.take(shape, plan.actions), strict=True):
        if entry.masked:
            value = entry.spec.from_unit(value, entry.legal(td))
        node: Any = out
        for name, batch in entry.levels:
            below = get(node, name)
            if not is_nested(below):
                below = new({}, Size((*shape, *batch[plan.batch_ndim :])), env.device)
                put(node, name, below)
            node = below
        put(node, entry.path[-1], value)
    return out


def rand_step(env: EnvBase) -> TensorDictBase:
    """A step with random actions from where the env stands; from a reset, if it was never reset and needs one."""
    try:
        return env.step(env.rand_action())
    except NeedsReset:
        if env._was_reset:
            raise
    return env.step(env.rand_action(env.reset()))


def _obey_masks(plan: Plan, out: TensorDictBase, rng: RowRNG) -> None:
    """Draws again what masks speak of, where the agents of a group are lazily stacked."""
    for td, entry in plan.acts(out):
        if (mask := entry.legal(td)) is not None:
            unit = rng.uniform(shape=entry.draw, dtype=entry.spec.unit_dtype)
            td.set(entry.key, entry.spec.from_unit(unit, mask))


@contextmanager
def drawing_from(env: EnvBase, stream: ActionStream) -> Iterator[None]:
    """Lets the random actions of an env come from another stream for a while; its own stands still."""
    held = env.__dict__["_actions"]
    env.__dict__["_actions"] = stream
    try:
        yield
    finally:
        env.__dict__["_actions"] = held


def _rand_rows(
    entries: list[list[ActionEntry]], out: TensorDictBase, stream: ActionStream, shape: Size
) -> TensorDictBase:
    """Random actions of rows that differ; each draws what it would draw among rows of its own kind."""
    most = max(sum(prod(entry.draw) for entry in own) for own in entries)
    units = stream.rng(shape).uniform(shape=(most,), dtype=torch.float64).unbind(0)
    stream.skip(most)
    tds = list(out.unbind(0))
    for td, own, unit in zip(tds, entries, units, strict=True):
        at = 0
        for entry in own:
            part = unit[..., at : at + prod(entry.draw)].reshape(Size((*shape[1:], *entry.draw)))
            at += prod(entry.draw)
            td.set(entry.key, entry.spec.from_unit(part.to(entry.spec.unit_dtype), entry.legal(td)))
    return out if parts(out) is not None else lazy(tds, 0)


class ActionStream:
    """The random actions of an env: a stream of numbers per row, turned into actions many steps at a time.

    Row ``i`` gets the same numbers whatever the number of rows, and whatever is drawn at once.

    Args:
        seed: of the env.
        device: where actions live.
    """

    def __init__(self, seed: int, device: torch.device | None) -> None:
        self.seed, self.device = seed, device
        self._used = 0  # numbers that every row has used
        self._block: _Block | None = None
        self._keys: Tensor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the actions that wait, which a copy draws again: tensors copied in inference mode are bound to it."""
        return {**self.__dict__, "_block": None}

    @classmethod
    def of(cls, keys: Tensor) -> ActionStream:
        """The stream of rows whose keys are given, int64 ``[*B]``, from its beginning."""
        stream = cls(0, keys.device)
        stream._keys = keys
        return stream

    def take(self, rows: Size, entries: list[ActionEntry]) -> list[Tensor]:
        """One draw per action leaf: the action itself, or, for leaves with a mask, the numbers behind it."""
        block = self._block
        if block is None or block.entries is not entries or block.rows != rows or block.step == block.steps:
            with torch.inference_mode(False), torch.no_grad():
                block = self._block = self._make(rows, entries)
        step = block.step
        block.step += 1
        self._used += block.count
        return [values[step] for values in block.values]

    def _make(self, rows: Size, entries: list[ActionEntry]) -> _Block:
        shapes = [entry.draw for entry in entries]
        count = sum(prod(shape) for shape in shapes)
        steps = max(1, min(64, BLOCK // max(1, prod(rows) * count)))
        wide = any(entry.spec.unit_dtype == torch.float64 for entry in entries)
        unit = self.rng(rows).uniform(shape=(steps, count), dtype=torch.float64 if wide else torch.float32)
        unit = unit.movedim(len(rows), 0)
        values, at = [], 0
        for entry, shape in zip(entries, shapes, strict=True):
            part = unit[..., at : at + prod(shape)].reshape(steps, *rows, *shape)
            at += prod(shape)
            values.append(part if entry.masked else entry.spec.from_unit(part))
        return _Block(rows, entries, values, count, steps)

    def rng(self, rows: Size) -> RowRNG:
        """A generator that stands where the stream stands."""
        if self._keys is None or self._keys.shape != rows:
            with torch.inference_mode(False):  # they outlive the mode
                self._keys = RowRNG(self.seed, rows, self.device).fork(ACTIONS).key
        return RowRNG.of(self._keys, torch.full_like(self._keys, self._used))

    def to(self, device: torch.device) -> ActionStream:
        """The same stream, from where it stands, on another device."""
        moved = ActionStream(self.seed, device)
        moved._used = self._used
        return moved

    @property
    def used(self) -> int:
        """How many numbers every row has used."""
        return self._used

    def skip(self, count: int) -> None:
        """Counts numbers as used that were drawn from :meth:`rng`."""
        self._used += count
        self._block = None


class _Block:
    """The draws of the next steps."""

    __slots__ = ("count", "entries", "rows", "step", "steps", "values")

    def __init__(self, rows: Size, entries: list[ActionEntry], values: list[Tensor], count: int, steps: int) -> None:
        self.rows, self.entries, self.values, self.count, self.steps = rows, entries, values, count, steps
        self.step = 0
