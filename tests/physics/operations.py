"""Runs single operations as machine code: many functions in one library, sixteen rows at a time or one."""

import ctypes
import math

import numpy as np
import torch
from torch import Tensor

from marlenv.physics.jit import cache, operations, source, tracer
from marlenv.physics.jit.codegen import CARE, SLOTS, Emitter, aligned
from marlenv.physics.jit.graph import TYPES, Graph

ROWS = 16
KINDS = "fdlb"
DTYPES = {"f": torch.float32, "d": torch.float64, "l": torch.int64, "b": torch.bool}
TAIL = """
extern "C" void put(Slot *s, int kind, const void *p) {
  if (kind == 0) *(F *)s = loadf((const float *)p, 16);
  else if (kind == 1) *(D *)s = loadd((const double *)p, 16);
  else if (kind == 2) *(L *)s = loadl((const int64_t *)p, 16);
  else *(M *)s = loadb((const uint8_t *)p, 16);
}
extern "C" void get(const Slot *s, int kind, void *p) {
  if (kind == 0) storef((float *)p, *(const F *)s, 16);
  else if (kind == 1) stored((double *)p, *(const D *)s, 16);
  else if (kind == 2) storel((int64_t *)p, *(const L *)s, 16);
  else storeb((uint8_t *)p, *(const M *)s, 16);
}
"""
TAIL_OF_ONE = """
#define EVERY_KIND(DO) DO(0, F, float) DO(1, D, double) DO(2, L, int64_t) DO(3, M, bool)
#define PUT(number, T, entry) if (kind == number) *(T *)s = T{*(const entry *)p};
#define GET(number, T, entry) if (kind == number) memcpy(p, s, sizeof(entry));
extern "C" void put(Slot *s, int kind, const void *p) { EVERY_KIND(PUT) }
extern "C" void get(const Slot *s, int kind, void *p) { EVERY_KIND(GET) }
"""
assert operations.FILES


class Traced:
    """A function of tensors ``[B, ...]`` as C++.

    Args:
        name: of the C++ function.
        f: the function; gives a tensor ``[B, ...]`` or several.
        inputs: the shapes and dtypes of its arguments, without the rows.

    """

    def __init__(self, name, f, inputs):
        graph, top, places, self.inputs, args = Graph(), CARE + 1, {}, [], []
        for shape, dtype in inputs:
            x = tracer.traced(graph, (1, *shape), dtype, 0)
            for node in x.cells.reshape(-1).tolist():
                top = aligned(top, node.kind)
                places[node.at] = f"s + {top}"
                self.inputs.append((top, node.kind))
                top += SLOTS[node.kind]
            args.append(x)
        with torch.no_grad():
            made = f(*args)
        made = made if isinstance(made, (tuple, list)) else (made,)
        self.outs, roots = [], []
        for x in made:
            cells = tracer.cells_of(graph, x)
            assert x.shape[0] == graph.rows, "a function must give the rows first"
            kind = TYPES[x.dtype]
            top = aligned(top, kind)
            self.outs.append((tuple(x.shape[1:]), x.dtype, top))
            for node in np.broadcast_to(cells, (1, *x.shape[1:])).reshape(-1).tolist():
                roots.append((graph.cast(node, kind), top))
                top += SLOTS[kind]
        emitter = Emitter(name, graph, places, roots, top)
        self.code = emitter.code()
        self.slots = emitter.scratch


class Library:
    """Machine code of many functions.

    Args:
        functions: each with the shapes and dtypes of its arguments, by name.
        lanes: how many rows it takes at a time, 16 or, as in a thread of a GPU, 1.

    """

    def __init__(self, functions, lanes=ROWS):
        self.lanes = lanes
        head, tail = ("scalar.h", TAIL_OF_ONE) if lanes == 1 else ("vectors.h", TAIL)
        self.made = {name: Traced(f"case{i}", f, inputs) for i, (name, (f, inputs)) in enumerate(functions.items())}
        calls = "\n".join(f'extern "C" void go{i}(Slot *s) {{ case{i}(s, s); }}' for i in range(len(self.made)))
        codes = (traced.code for traced in self.made.values())
        path, _ = cache.build("\n".join((source.runtime(head), *codes, calls, tail)))
        self.library = ctypes.CDLL(str(path))
        self.number = {name: i for i, name in enumerate(self.made)}

    def __call__(self, name: str, *args: Tensor) -> list[Tensor]:
        """What a function gives, on tensors of sixteen rows."""
        if self.lanes < ROWS == len(args[0]):
            parts = [self(name, *(x[i : i + 1] for x in args)) for i in range(ROWS)]
            return [torch.cat(rows) for rows in zip(*parts, strict=True)]
        made, width = self.made[name], 4 * self.lanes
        room = np.zeros(64 * (made.slots + 2), dtype=np.uint8)
        start = -(-room.ctypes.data // 64) * 64
        numbers = [x.movedim(0, -1).reshape(-1, self.lanes) for x in args]
        for (slot, kind), number in zip(made.inputs, [row for x in numbers for row in x], strict=True):
            row = number.to(DTYPES[kind]).contiguous()
            self.library.put(ctypes.c_void_p(start + width * slot), KINDS.index(kind), ctypes.c_void_p(row.data_ptr()))
        getattr(self.library, f"go{self.number[name]}")(ctypes.c_void_p(start))
        outs = []
        for shape, dtype, slot in made.outs:
            kind = TYPES[dtype]
            out = torch.empty(math.prod(shape), self.lanes, dtype=DTYPES[kind])
            for k, row in enumerate(out):
                place = start + width * (slot + SLOTS[kind] * k)
                self.library.get(ctypes.c_void_p(place), KINDS.index(kind), ctypes.c_void_p(row.data_ptr()))
            outs.append(out.reshape(*shape, self.lanes).movedim(-1, 0).to(dtype))
        return outs


class Watched:
    """Notes which arguments of which operations were given, beside their defaults, while code is traced."""

    def __init__(self):
        self.given = set()

    def __enter__(self):
        self.real = tracer._bound

        def bound(func, name, args, kwargs):
            for place, argument in enumerate(func._schema.arguments):
                default = argument.default_value if argument.has_default_value() else None
                value = args[place] if place < len(args) else kwargs.get(argument.name, default)
                if isinstance(value, Tensor) or value != default or not argument.has_default_value():
                    self.given.add((name, argument.name))
            return self.real(func, name, args, kwargs)

        tracer._bound = bound
        return self

    def __exit__(self, *_):
        tracer._bound = self.real


def declared():
    """Every declared argument of every operation that is known, as far as the operation has it."""
    found = set()
    for name, taken in tracer.TAKES.items():
        packet = getattr(torch.ops.aten, name)
        has = {a.name for overload in packet.overloads() for a in getattr(packet, overload)._schema.arguments}
        found |= {(name, argument) for argument in taken & has}
    return found
