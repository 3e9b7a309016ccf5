"""Shared memory that is allocated once: one block per field of the specs, for all envs of a pool.

The memory has no name in the file system: it is gone when the last process that uses it is, however that ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Iterable
from multiprocessing import reduction
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Size, Tensor

from marlenv.envs import EnvBase
from marlenv.errors import SpecError
from marlenv.groups.reset import RESET
from marlenv.keys import Path, nested
from marlenv.specs import Composite, NonTensor
from marlenv.tensordicts import get, is_nested, new, plant, put

ALIGN = 64  # bytes: fields begin at a line of the cache
FLAGS = 8  # numbers per worker: command, answer, the env at work, whether anything is done
COMMAND, ANSWER, AT, DONE = range(4)
ABSENT, SENT, KNOWN = range(3)  # of an entry of the data: there is none, it is in the buffers, the worker has it


class Field(NamedTuple):
    """A leaf that travels: its path, and the shape of one env's data with its dtype."""

    path: Path
    shape: Size
    dtype: torch.dtype


class Layout:
    """What travels in buffers, read off the specs of a pool.

    Args:
        env: the pool.
    """

    def __init__(self, env: EnvBase) -> None:
        self.batch = env.batch_size
        states, seen, done = env.full_state_spec, env.full_observation_spec, env.full_done_spec
        self.inputs = _fields(env.full_action_spec, states, seen, done)
        held = [one for one in _fields(states, seen) if nested(one.path) in env.remembered]
        self.inputs += [one._replace(path=("next", *one.path)) for one in held]  # what a policy says of it
        self.states = {field.path for field in _fields(states)}
        """What a reset needs, if anything: the rest of its data may be what transforms made of it."""
        self.needed = {field.path for field in _fields(env.full_action_spec, states)}
        """The same of a step."""
        self.root = _fields(states, seen, done)
        self.following = _fields(env.full_reward_spec, states, seen, done)
        self.masks = [Field((*level.path, RESET), level.shape[1:], torch.bool) for level in env.plan.done.levels] + [
            Field(("_step",), env.batch_size[1:], torch.bool)
        ]
        self.sizes = _batch_sizes(env)
        self.sizes |= {("next", *where): size for where, size in self.sizes.items()}

    AREAS = ("inputs", "root", "following", "masks")

    def build(
        self, leaves: Iterable[tuple[Path, Any]], rows: int, device: torch.device | None = None
    ) -> TensorDictBase:
        """A tensordict of ``rows`` envs from its leaves; groups have their batch sizes."""
        out = new({}, Size((rows, *self.batch[1:])), device)
        nodes: dict[Path, TensorDictBase] = {(): out}
        for path, value in leaves:
            node = nodes.get(path[:-1])
            put(self._grown(nodes, path[:-1], rows, device) if node is None else node, path[-1], value)
        return out

    def _grown(
        self, nodes: dict[Path, TensorDictBase], where: Path, rows: int, device: torch.device | None
    ) -> TensorDictBase:
        """The tensordict of a group, made with those above it."""
        above = nodes.get(where[:-1])
        if above is None:
            above = self._grown(nodes, where[:-1], rows, device)
        td = nodes[where] = new({}, Size((rows, *self.sizes.get(where, self.batch[1:]))), device)
        put(above, where[-1], td)
        return td


def _fields(*specs: Composite) -> list[Field]:
    found: dict[Path, Field] = {}
    for spec in specs:
        for key, leaf in spec.items(True, True):
            path = (key,) if isinstance(key, str) else tuple(key)
            found.setdefault(path, Field(path, leaf.shape[1:], leaf.dtype))
    return list(found.values())


def _batch_sizes(env: EnvBase) -> dict[Path, Size]:
    """The batch size of every group of one env."""
    found: dict[Path, Size] = {}
    for spec in (env.full_action_spec, env.full_state_spec, env.full_observation_spec, env.full_reward_spec):
        for key in spec.keys(True, False):
            if isinstance(spec[key], Composite):
                path = (key,) if isinstance(key, str) else tuple(key)
                found[path] = spec[key].shape[1:]
    return found


def fit_for_buffers(env: EnvBase) -> str | None:
    """Why the data of a pool cannot travel in buffers, or None."""
    for side in (env.output_spec, env.input_spec):
        for key, leaf in side.items(True, True):
            if isinstance(leaf, NonTensor) or leaf.dtype is None:
                return f"{key!r} holds data that are no tensors"
            if -1 in leaf.shape:
                return f"{key!r} has a size that is not known"
        if any("Stacked" in type(node).__name__ for node in (side, *side.values(True, False))):
            return "groups have agents of different sizes"
    return None


class Handle:
    """A file descriptor that can be sent to a child process while it starts."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        return _received, (reduction.DupFd(self.fd),)

    def close(self) -> None:
        """Closes it; once."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _received(sent: Any) -> Handle:
    return Handle(sent.detach())


def allocate(size: int, *, on_disk: bool = False) -> Handle:
    """Memory that processes can share, filled with zeros."""
    if hasattr(os, "memfd_create") and not on_disk:
        fd = os.memfd_create("marlenv")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, size)
    return Handle(fd)


class Bell:
    """Wakes another process, which waits for it by ``poll``."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            fd = os.eventfd(0, os.EFD_NONBLOCK)
            self.ear = self.hand = Handle(fd)
        else:
            ear, hand = os.pipe()
            os.set_blocking(ear, False)
            self.ear, self.hand = Handle(ear), Handle(hand)

    @classmethod
    def of(cls, handle: Handle) -> Bell:
        """One end of a bell, as another process gave it."""
        bell = cls.__new__(cls)
        bell.ear = bell.hand = handle
        return bell

    def ring(self) -> None:
        """Wakes whoever waits."""
        os.write(self.hand.fd, _ONE)

    def hush(self) -> None:
        """Forgets what was rung."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.ear.fd, 8)

    def close(self) -> None:
        """Lets go of it."""
        self.ear.close()
        self.hand.close()


_ONE = (1).to_bytes(8, "little")


class Buffers:
    """The blocks of a pool, as tensors over shared memory.

    Args:
        layout: what they hold; None where data go through pipes.
        envs: how many envs there are.
        workers: how many workers there are.
        handle: the memory, where it is there already; it grows as needed.
        on_disk: keep them in a file.
    """

    def __init__(
        self, layout: Layout | None, envs: int, workers: int, handle: Handle | None = None, *, on_disk: bool = False
    ) -> None:
        self.layout, self.envs, self.workers = layout, envs, workers
        places, size = self._places()
        self.handle = handle or allocate(size, on_disk=on_disk)
        if os.fstat(self.handle.fd).st_size < size:
            os.ftruncate(self.handle.fd, size)
        self._map = mmap.mmap(self.handle.fd, size)
        self.flags = np.frombuffer(self._map, np.int64, workers * FLAGS).reshape(workers, FLAGS)
        self.failures = torch.frombuffer(self._map, dtype=torch.int64, count=envs, offset=_aligned(workers * FLAGS * 8))
        """How often each env failed and was started again."""
        self.there: dict[str, np.ndarray[Any, Any]] = {}
        """Per area, worker and field: whether it is there."""
        self.blocks: dict[str, list[Tensor]] = {}
        """Per area and field: the data of all envs ``[N, ...]``."""
        for area, at, blocks in places:
            fields = getattr(layout, area)
            self.there[area] = np.frombuffer(self._map, np.uint8, workers * len(fields), at).reshape(workers, -1)
            self.blocks[area] = [self._block(field, start) for field, start in zip(fields, blocks, strict=True)]

    def _places(self) -> tuple[list[tuple[str, int, list[int]]], int]:
        at, places = _aligned(_aligned(self.workers * FLAGS * 8) + self.envs * 8), []
        for area in () if self.layout is None else Layout.AREAS:
            fields = getattr(self.layout, area)
            there, at, blocks = at, _aligned(at + self.workers * len(fields)), []
            for one in fields:
                blocks.append(at)
                at = _aligned(at + self.envs * one.shape.numel() * one.dtype.itemsize)
            places.append((area, there, blocks))
        return places, max(at, mmap.PAGESIZE)

    def _block(self, field: Field, at: int) -> Tensor:
        shape = (self.envs, *field.shape)
        count = Size(shape).numel()
        if not count:
            return torch.empty(shape, dtype=field.dtype)
        return torch.frombuffer(self._map, dtype=field.dtype, count=count, offset=at).view(shape)

    def rows(self, start: int, stop: int) -> dict[str, list[Tensor]]:
        """The part of the blocks that belongs to envs ``start .. stop - 1``."""
        return {area: [block[start:stop] for block in blocks] for area, blocks in self.blocks.items()}

    def close(self) -> None:
        """Lets go of the memory; it lives on as long as a tensor of it does."""
        self.blocks.clear()
        self.there.clear()
        del self.flags, self.failures
        with contextlib.suppress(BufferError):  # somebody still looks at it: it goes with them
            self._map.close()
        self.handle.close()


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def write(fields: list[Field], blocks: list[Tensor], there: Any, td: TensorDictBase, who: str) -> None:
    """Copies the leaves of ``td`` into the blocks of its envs, and notes which there are.

    Raises:
        SpecError: an entry has another shape or dtype than its spec says.
    """
    for i, (one, block) in enumerate(zip(fields, blocks, strict=True)):
        value: Any = td
        for name in one.path:
            value = get(value, name)
            if value is None or not (isinstance(value, Tensor) or is_nested(value)):
                break
        if value is None:
            there[i] = 0
            continue
        if not isinstance(value, Tensor) or value.shape != block.shape or value.dtype != block.dtype:
            got = f"{value.dtype} {list(value.shape[1:])}" if isinstance(value, Tensor) else "sizes that differ"
            raise SpecError(
                f"{who}: entry {nested(one.path)!r} must be {one.dtype} {list(one.shape)} as its spec says, got {got}; "
                f"mend the spec or the data, or pass use_buffers=False"
            )
        block.copy_(value)
        there[i] = 1


def masked(td: TensorDictBase, layout: Layout, masks: dict[Path, Tensor]) -> TensorDictBase:
    """Writes masks into data."""
    for path, mask in masks.items():
        plant(td, path, mask)
    return td
