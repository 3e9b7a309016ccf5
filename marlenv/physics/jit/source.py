"""The C++ of a simulation: a step, a new episode and random actions of one row, and the order of its data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

import torch
from torch import Size, Tensor

from marlenv.physics.jit import operations
from marlenv.physics.jit.codegen import CARE, SLOTS, Emitter, aligned
from marlenv.physics.jit.graph import ROWS, TYPES, Graph, LooksAtData, Node, TooLarge, Untraceable
from marlenv.physics.jit.loops import repeat
from marlenv.physics.jit.repeatable import Trace, check_agreement, elsewhere, trace_of, unchanged
from marlenv.physics.jit.tracer import INSTEAD, cells_of, traced
from marlenv.physics.maths import rowwise
from marlenv.physics.simulation import Simulation, leaves
from marlenv.rng import RowRNG

DTYPES = {"f": torch.float32, "d": torch.float64, "l": torch.int64, "b": torch.bool}
KINDS = {kind: number for number, kind in enumerate("fdlb")}
LANES = 16
"""Rows per vector."""
EASY = 1_000  # expressions of a new episode; up to this rows that nobody asked for may be computed with the others
LARGEST = 150_000  # expressions; more take minutes to compile


class Field(NamedTuple):
    """An entry of a state, of actions or of results: ``[*shape, B]`` in memory."""

    name: tuple[str, ...]
    shape: Size
    dtype: torch.dtype

    @property
    def numbers(self) -> int:
        """How many numbers a row has."""
        return math.prod(self.shape)

    @property
    def kind(self) -> str:
        """The type of its numbers."""
        return TYPES[self.dtype]

    def empty(self, rows: int, steps: int | None = None, device: torch.device | None = None) -> Tensor:
        """Room for it: ``[*shape, B]``, or ``[T, *shape, B]``."""
        lead = () if steps is None else (steps,)
        return torch.empty((*lead, *self.shape, rows), dtype=self.dtype, device=device)

    def room(self, rows: int, device: torch.device | None, *, by_rows: bool) -> Tensor:
        """Room for it as it is in data, ``[B, *shape]``: contiguous, or with the rows last in memory."""
        if not by_rows:
            return self.empty(rows, device=device).movedim(-1, 0)
        return torch.empty((rows, *self.shape), dtype=self.dtype, device=device)

    def read(self, x: Tensor, *, by_rows: bool) -> Tensor:
        """Values ``[B, *shape]``, or with a dimension of one behind, in this dtype and contiguous: ``[*shape, B]``, or
        ``[B, *shape]`` row by row.
        """
        if x.ndim - 1 > len(self.shape):
            x = x.squeeze(-1)
        if x.dtype != self.dtype:
            x = x.to(self.dtype)
        return (x if by_rows else x.movedim(0, -1)).resolve_neg().contiguous()


class Piece(NamedTuple):
    """Numbers of an entry of the state, side by side."""

    entry: int
    first: int
    """Of its numbers."""
    kind: str
    slot: int
    """Of the first."""
    many: int


@lru_cache
def runtime(name: str) -> str:
    """C++ that is the same for every scenario: a file of ``runtime/``, with those that it includes from there."""
    lines = files("marlenv.physics.jit").joinpath("runtime", name).read_text("utf-8").splitlines()
    return "\n".join(runtime(line.split('"')[1]) if line.startswith('#include "') else line for line in lines)


Draw = Callable[[Tensor], Mapping[str, Tensor]]
"""From uniform numbers ``[B, n]`` to the actions of the groups."""


class Source:
    """The C++ of a simulation, and the order of its data.

    Args:
        simulation: what is compiled.
        draw: how random actions are made, if they are.
        draws: from how many numbers per row.
        wide: whether from float64 ones.
        largest: how many expressions there may be.
        keep: whether what the functions compute is kept in :attr:`functions`, for those who count it.

    """

    def __init__(
        self,
        simulation: Simulation,
        draw: Draw | None = None,
        draws: int = 0,
        *,
        wide: bool = False,
        largest: int = LARGEST,
        keep: bool = False,
    ) -> None:
        self.simulation, self.largest, self.keep = simulation, largest, keep
        self.functions: dict[str, Emitter] = {}
        """What ``step``, ``reset`` and ``act`` compute, if it is kept."""
        with elsewhere(1), torch.inference_mode(False):
            blank = simulation.start(RowRNG(rows=[2]))
        self.state = [Field((name,), x.shape[:-1], x.dtype) for name, x in blank.items()]
        _stored(self.state)
        self.actions = action_fields(simulation)
        self.draw, self.draws, self.wide = draw, draws, wide
        self.held, self.held_slots = self._slots(self.state, 0)
        self.read: dict[str, set[str]] = {}
        """Where what ``step``, ``reset`` and ``act`` read is."""
        self.names: dict[str, list[str]] = {}
        """The C++ functions of each."""
        self.unsound: set[str] = set()
        """Entries of the state that may be infinite or no numbers."""
        try:
            check_agreement(self._trace, lambda rows, seed: copy(self)._trace(rows, seed, only=True), ROWS)
        except Untraceable:
            raise
        except Exception as error:
            if "not supported for tensor subclasses" in str(error):  # x.numpy() and x.tolist(), which PyTorch refuses
                raise LooksAtData(f"looks at the numbers of the data ({error}); {INSTEAD}") from error
            raise Untraceable(f"cannot be traced: {type(error).__name__}: {error}") from error
        self.text = self._whole(self.held)

    # --- tracing ---------------------------------------------------------------------------------

    def _trace(self, rows: int, seed: int, *, only: bool = False) -> Trace:
        """Traces everything, and writes the code unless a trace is the only thing that is wanted."""
        self.rows, self.only = rows, only
        while True:
            self.top, self.size, self.parts = CARE + 1, 0, list[str]()
            self.traces, self.loose = list[Any](), set[str]()
            with (
                elsewhere(seed),
                unchanged(self.simulation.scenario),
                torch.inference_mode(False),
                torch.no_grad(),
            ):
                self._trace_step(self.held)
                self._trace_reset(self.held)
                self._trace_draw()
            if self.loose <= self.unsound:
                return self.traces
            self.unsound |= self.loose  # what was taken for finite numbers need not be

    def _slots(self, fields: Sequence[Field], start: int) -> tuple[list[int], int]:
        """The first slot of each field, and the first one behind them."""
        at = []
        for field in fields:
            at.append(aligned(start, field.kind))
            start = at[-1] + SLOTS[field.kind] * field.numbers
        return at, start

    def _more(self, fields: Sequence[Field]) -> list[int]:
        """Scratch slots for fields."""
        at, self.top = self._slots(fields, self.top)
        return at

    def _trace_step(self, held: list[int]) -> None:
        simulation = self.simulation
        self.key = aligned(self.top, "l")
        self.top = self.key + 4
        self.action_slots = self._more(self.actions)
        graph = Graph(self.largest, self.rows)
        places: dict[int, str] = {}
        state = self._inputs(graph, self.state, held, "st", places, -1)
        actions = self._inputs(graph, self.actions, self.action_slots, "s", places, 0)
        with rowwise.graph(partial(repeat, graph)):
            after, observations, rewards, _, infos = simulation.transition(state, actions)
        values = leaves(observations, infos, rewards)
        self.outs = _fields(values)
        self.observations = self.outs[: -len(rewards)]
        if self.outs != result_fields(simulation)[0]:
            raise Untraceable("gives other entries in a step than after a reset, or rewards that are not float32")
        self.out_slots = self._more(self.outs)
        old = {name: state[name] for name in after}
        moved = [field for field in self.state if after[field.name[0]] is not old[field.name[0]]]
        new_slots = self._more(moved)
        roots, self.settled = [], []
        for field, slot in zip(moved, new_slots, strict=True):
            where = held[self.state.index(field)]
            pairs = _cells(graph, after[field.name[0]], field, -1), _cells(graph, old[field.name[0]], field, -1)
            self._settle(field, pairs[0])
            for k, (node, was) in enumerate(zip(*pairs, strict=True)):
                if node is not was:
                    step = SLOTS[field.kind] * k
                    roots.append((node, slot + step))
                    self.settled += [(where + step + j, slot + step + j) for j in range(SLOTS[field.kind])]
        for field, x, slot in zip(self.outs, values.values(), self.out_slots, strict=True):
            roots += [(node, slot + SLOTS[field.kind] * k) for k, node in enumerate(_cells(graph, x, field, 0))]
        self._emit("step", graph, places, roots)

    def _trace_reset(self, held: list[int]) -> None:
        graph = Graph(self.largest, self.rows)
        places: dict[int, str] = {}
        state = self._inputs(graph, self.state, held, "st", places, -1)
        with rowwise.graph(partial(repeat, graph)):
            fresh, observations, infos = self.simulation.reset(state)
        first = leaves(observations, infos)
        if _fields(first) != self.observations:
            raise Untraceable("a reset shows other entries than a step, or in other shapes")
        self.fresh_slots, self.first_slots = self._more(self.state), self._more(self.observations)
        roots = []
        for field, slot in zip(self.state, self.fresh_slots, strict=True):
            cells = _cells(graph, fresh[field.name[0]], field, -1)
            self._settle(field, cells)
            roots += [(node, slot + SLOTS[field.kind] * k) for k, node in enumerate(cells)]
        for field, slot in zip(self.observations, self.first_slots, strict=True):
            cells = _cells(graph, first[field.name], field, 0)
            roots += [(node, slot + SLOTS[field.kind] * k) for k, node in enumerate(cells)]
        self.fresh_size = self._emit("reset", graph, places, roots)

    def _trace_draw(self) -> None:
        if self.draw is None:
            self.parts.append("WHOLE act(Slot *st, Slot *s) {}")
            return
        graph = Graph(self.largest, self.rows)
        places: dict[int, str] = {}
        pair = self._inputs(graph, [Field(("rng",), Size((2,)), torch.int64)], [self.key], "s", places, -1)["rng"]
        rng = RowRNG.from_state(pair.movedim(-1, 0))
        drawn = self.draw(rng.uniform(shape=(self.draws,), dtype=torch.float64 if self.wide else torch.float32))
        roots = []
        for field, slot in zip(self.actions, self.action_slots, strict=True):
            cells = _cells(graph, drawn[field.name[0]], field, 0)
            roots += [(node, slot + SLOTS[field.kind] * k) for k, node in enumerate(cells)]
        self._emit("act", graph, places, roots)

    def _inputs(
        self, graph: Graph, fields: Sequence[Field], slots: Sequence[int], base: str, places: dict[int, str], row: int
    ) -> dict[str, Tensor]:
        """Tensors that stand for data in slots."""
        made: dict[str, Tensor] = {}
        for field, slot in zip(fields, slots, strict=True):
            shape = (*field.shape, 1) if row == -1 else (1, *field.shape)
            x = traced(graph, shape, field.dtype, row, sound=field.name[0] not in self.unsound)
            made[field.name[0]] = x
            for k, node in enumerate(x.cells.reshape(-1).tolist()):
                places[node.at] = f"{base} + {slot + SLOTS[field.kind] * k}"
        return made

    def _settle(self, field: Field, cells: Sequence[Node]) -> None:
        """Notes what a scenario remembers that may not be finite."""
        if field.name[0].startswith("memory.") and not all(node.sound for node in cells):
            self.loose.add(field.name[0])

    def _emit(self, name: str, graph: Graph, places: dict[int, str], roots: list[tuple[Node, int]]) -> int:
        self.traces += trace_of(graph, [node for node, _ in roots])
        if self.only:
            return 0
        emitter = Emitter(name, graph, places, roots, self.top)
        self.size += emitter.size
        if self.size > self.largest:
            raise TooLarge(f"is too large: more than {self.largest} expressions")
        self.parts.append(emitter.code())
        self.read[name] = {places[at] for at in emitter.live if at in places}
        self.names[name] = emitter.names
        if self.keep:
            self.functions[name] = emitter
        self.top = emitter.scratch
        return emitter.size

    # --- the text --------------------------------------------------------------------------------

    def _whole(self, held: list[int]) -> str:
        names = [field.name[0] for field in self.state]
        numbers = {
            "NSTATE": len(self.state), "NACTS": len(self.actions), "NOUTS": len(self.outs),
            "NSEEN": len(self.observations), "NSLOTS": self.top, "NHELD": self.held_slots, "CARE": CARE,
            "KEY": self.key, "DRAWS": self.draws, "OVER": held[names.index("over")],
            "STEPS": held[names.index("steps")], "RNG": names.index("rng"),
            "BLENDS": int(self.fresh_size <= EASY),
        }  # fmt: skip
        tables = {
            "STATE": (self.state, held), "ACTS": (self.actions, self.action_slots), "OUTS": (self.outs, self.out_slots),
            "FRESH": (self.state, self.fresh_slots), "FIRST": (self.observations, self.first_slots),
        }  # fmt: skip
        lines = [runtime("vectors.h"), *(f"#define {name} {value}" for name, value in numbers.items())]
        lines += [f"static void {name}(Slot *st, Slot *s) FETCHED;" for name in self.names["step"]] + self.parts
        for name, (fields, slots) in tables.items():
            rows = ", ".join(f"{{{KINDS[f.kind]}, {slot}, {f.numbers}}}" for f, slot in zip(fields, slots, strict=True))
            lines.append(f"static const Field {name}[] = {{{rows or '{0, 0, 0}'}}};")
        lines += [_listed(name, pieces) for name, pieces in self._state_pieces().items()]
        return "\n".join((*lines, self.settling, runtime("driver.cpp")))

    @property
    def changed(self) -> list[Piece]:
        """The numbers of the state that a step changes."""
        return self.pieces({to for to, _ in self.settled}.__contains__)

    def pieces(self, wanted: Callable[[int], bool]) -> list[Piece]:
        """The numbers of the state whose slots are wanted, those side by side together."""
        found: list[Piece] = []
        for entry, (field, slot) in enumerate(zip(self.state, self.held, strict=True)):
            wide = SLOTS[field.kind]
            some = [k for k in range(field.numbers) if wanted(slot + wide * k)]
            for first in (k for k in some if k - 1 not in some):
                many = next(n for n in range(1, field.numbers + 1) if first + n not in some)
                found.append(Piece(entry, first, field.kind, slot + wide * first, many))
        return found

    def _state_pieces(self) -> dict[str, list[Piece]]:
        """What a step does with the state, as ``runtime/driver.cpp`` lists it."""
        changed = {to for to, _ in self.settled}
        looked = {self.held[i] for i, field in enumerate(self.state) if field.name[0] in ("over", "steps")}
        read = looked | {int(at.removeprefix("st + ")) for at in self.read["step"] if at.startswith("st + ")}
        return {
            "READ": self.pieces(lambda slot: slot in read),
            "CHANGED": self.changed,
            "LEFT": self.pieces(lambda slot: slot not in changed),
            "OTHER": self.pieces(lambda slot: slot not in changed | read),
        }

    @property
    def settling(self) -> str:
        """The function that makes what a step gave the state."""
        moves = [f"  st[{to}] = s[{of}];" for to, of in self.settled]
        return "\n".join(("IN void settle(Slot *st, Slot *s) {", *moves, "}"))


def _listed(name: str, pieces: Sequence[Piece]) -> str:
    """A list of pieces in C++, which ends with one of no numbers."""
    rows = [f"{{{entry}, {first}, {{{KINDS[kind]}, {slot}, {many}}}}}" for entry, first, kind, slot, many in pieces]
    return f"static const Piece {name}[] = {{{', '.join((*rows, '{0, 0, {0, 0, 0}}'))}}};"


assert operations.FILES  # the tracer knows what they handle


def result_fields(simulation: Simulation) -> tuple[list[Field], int]:
    """What a step gives, observations and infos before rewards; and how many of the first."""
    shown = leaves(simulation.observations, simulation.infos)
    observations = [Field(name, x.shape[1:], x.dtype) for name, x in shown.items()]
    rewards = [Field((name, "reward"), Size((c.agents,)), torch.float32) for name, c in simulation.controls.items()]
    return [*observations, *rewards], len(observations)


def action_fields(simulation: Simulation) -> list[Field]:
    """The actions of the groups."""
    integer, flat = simulation.mode != "continuous", simulation.mode == "discrete"
    return [
        Field((name,), Size((c.agents,) if flat else (c.agents, c.width)), torch.int64 if integer else torch.float32)
        for name, c in simulation.controls.items()
    ]


def _fields(leaves: Mapping[tuple[str, ...], Tensor]) -> list[Field]:
    return _stored([Field(name, x.shape[1:], x.dtype) for name, x in leaves.items()])


def _stored(fields: list[Field]) -> list[Field]:
    """The same; raises where machine code has no place for numbers of a dtype."""
    for field in fields:
        if field.dtype not in DTYPES.values():
            path, of_memory = field.name, field.name[0].startswith("memory.")
            what = f"memory {path[0].removeprefix('memory.')!r}" if of_memory else repr(path)
            raise Untraceable(f"has {what} of {field.dtype}; it can be of {sorted(map(str, DTYPES.values()))}")
    return fields


def _cells(graph: Graph, x: Tensor, field: Field, row: int) -> list[Node]:
    """The expressions of an entry, in the order of its memory."""
    cells = cells_of(graph, x, field.kind)
    shape = (*field.shape, 1) if row == -1 else (1, *field.shape)
    return cells.reshape(shape).reshape(-1).tolist()


__all__ = ["LANES", "Draw", "Field", "Source", "action_fields", "leaves", "result_fields"]
