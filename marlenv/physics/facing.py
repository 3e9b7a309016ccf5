"""Steps of machine code as tensordicts, with as few calls as can be: what is where is decided once.

One piece of memory per dtype holds all that a step gives; the entries of its tensordict are views of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Size, Tensor

from marlenv.physics.compiling import Compiled, rows_last
from marlenv.physics.kernel import Field
from marlenv.physics.simulation import SHARED
from marlenv.physics.state import State
from marlenv.tensordicts import new

if TYPE_CHECKING:
    from marlenv.physics.env import ScenarioEnv

FLAGS = ("terminated", "truncated", "done")
ALIGNED = 16  # numbers; what is written past the caches begins at a vector


class Leaf(NamedTuple):
    """An entry: which piece of memory, and which view of it."""

    piece: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


class Node:
    """A tensordict to be made: its entries and the tensordicts in it.

    Args:
        batch: its batch size.

    """

    def __init__(self, batch: Size) -> None:
        self.batch = batch
        self.leaves: dict[str, Leaf] = {}
        self.inner: dict[str, Node] = {}

    def below(self, name: str, batch: Size) -> Node:
        """The tensordict of this name in it, new or known."""
        return self.inner.setdefault(name, Node(batch))

    def made(self, pieces: list[Tensor], device: torch.device | None) -> TensorDict:
        """The tensordict over some memory."""
        data: dict[str, Any] = {
            name: pieces[piece].as_strided(size, stride, offset)
            for name, (piece, size, stride, offset) in self.leaves.items()
        }
        for name, node in self.inner.items():
            data[name] = node.made(pieces, device)
        return new(data, self.batch, device)


class Face:
    """The steps of an env that runs as machine code, with the groups of the world.

    Args:
        env: the env.
        engine: its engine.

    """

    def __init__(self, env: ScenarioEnv, engine: Compiled) -> None:
        self.env, self.engine, self.kernel = env, engine, engine.kernel
        rows = env.num_envs
        self._dtypes = list(dict.fromkeys(field.dtype for field in self.kernel.outs))
        self._sizes = [0] * len(self._dtypes)
        self._starts: list[tuple[int, int]] = []  # of each result: the piece, and the bytes before it
        self.root = Node(env.batch_size)
        paths = {group: path for path, group in env.seating.whole.items()}
        for field in self.kernel.outs:
            self._place(field, paths, rows)
        self._place_flags(rows)
        count = len(self.kernel.outs)
        self._acts = len(self.kernel.state)
        self._outs = self._acts + len(self.kernel.actions)
        self._flags = self._outs + count + len(self.kernel.seen)
        self._ended = torch.zeros(1, dtype=torch.uint8)
        self._state: State | None = None
        self._array: Any = None

    def _place(self, field: Field, paths: Mapping[str, tuple[str, ...]], rows: int) -> None:
        """Finds memory for a result, and its place in the tensordict."""
        piece = self._dtypes.index(field.dtype)
        offset = self._sizes[piece]
        self._sizes[piece] += -(-field.numbers * rows // ALIGNED) * ALIGNED
        self._starts.append((piece, offset * field.dtype.itemsize))
        group, what, *rest = field.name
        node = self.root if group == SHARED else self._group(paths[group])
        lone = what == "reward" or (what == "info" and len(field.shape) < 2 - (group == SHARED))
        strides, step = [], rows
        for size in reversed(field.shape):
            strides.append(step)
            step *= size
        for name in (what, *rest)[:-1]:
            node = node.below(name, node.batch)
        node.leaves[(what, *rest)[-1]] = Leaf(
            piece, (rows, *field.shape, *(1,) * lone), (1, *strides[::-1], *(1,) * lone), offset
        )

    def _group(self, path: tuple[str, ...]) -> Node:
        node = self.root
        for name in path[:-1]:
            node = node.below(name, self.env.batch_size)
        return node.below(path[-1], Size((*self.env.batch_size, len(self.env.tree.groups[path]))))

    def _place_flags(self, rows: int) -> None:
        """The flags of the rows are those of all agents in them."""
        piece = len(self._dtypes)
        groups = [self._group(path) for path in self.env.tree.groups]
        for k, name in enumerate(FLAGS):
            self.root.leaves[name] = Leaf(piece, (rows, 1), (1, 1), k * rows)
            for node in groups:
                node.leaves[name] = Leaf(piece, (*node.batch, 1), (1, 0, 1), k * rows)

    def step(self, actions: Mapping[str, Tensor]) -> TensorDict:
        """One step of all rows."""
        env, kernel, rows = self.env, self.kernel, self.env.num_envs
        if env._now is not self._state or self._state is None:
            state = env.own_state()
            nowhere = [None] * len(kernel.actions), [None] * len(kernel.outs), [None] * len(FLAGS)
            self._state, self._array = state, kernel.bind(state, *nowhere)
        array = self._array
        acts = [rows_last(actions[f.name[0]], f) for f in kernel.actions]
        for k, x in enumerate(acts, self._acts):
            array[k] = x.data_ptr()
        pieces = [torch.empty(size, dtype=dtype) for size, dtype in zip(self._sizes, self._dtypes, strict=True)]
        bases = [piece.data_ptr() for piece in pieces]
        for k, (piece, start) in enumerate(self._starts, self._outs):
            array[k] = bases[piece] + start
        flags = torch.empty(3 * rows, dtype=torch.bool)
        base = flags.data_ptr()
        for k in range(3):
            array[self._flags + k] = base + k * rows
        kernel.run(rows, array, self._ended, most=env.max_steps)
        pieces.append(flags)
        return self.root.made(pieces, env.device)


def face_of(env: ScenarioEnv) -> Face | None:
    """How an env makes the tensordicts of its steps, where it runs as machine code with the groups of the world."""
    engine = env.engine
    return Face(env, engine) if isinstance(engine, Compiled) and env._places is not None else None


__all__ = ["Face", "face_of"]
