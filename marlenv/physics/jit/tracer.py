"""From PyTorch code to the expressions of one row: runs a function on tensors that hold expressions instead of numbers.

The dimension of the rows has a prime size, ``graph.rows``, which nothing else has; in the arrays of expressions its
size is 1. Rows may be joined with other dimensions, as ``x.reshape(B * A, d)`` does: such a dimension has the size
``outer * rows * inner``.

Every operation has a handler (:func:`handles`), whose parameters are the arguments of the operation that it handles. An
argument that it does not name must have its default. What is not known, what would look at data and what mixes rows is
:class:`~marlenv.physics.jit.graph.Untraceable`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Size, Tensor

from marlenv.physics.jit.graph import DTYPES, TYPES, Graph, LooksAtData, Node, Untraceable

Cells: TypeAlias = "np.ndarray[Any, Any]"
"""Expressions in the shape of a tensor; the dimension of the rows has size 1."""
Layout: TypeAlias = "tuple[int, int]"
"""Of a dimension of the rows: how many entries of other dimensions were joined with it, left and right."""
Handler: TypeAlias = "Callable[..., Cells | list[Cells]]"

APART = (1, 1)
HANDLERS: dict[str, Handler] = {}
"""What is known, by the name of the operation."""
TAKES: dict[str, frozenset[str]] = {}
"""The arguments that are handled, by the name of the operation."""
SIMPLER: dict[str, dict[str, Callable[[Any], Any]]] = {}
PASSED = {"memory_format", "non_blocking", "pin_memory", "copy"}
"""Arguments that change where numbers lie, never what they are."""
LOOKS = {"_local_scalar_dense", "item", "nonzero", "nonzero_static", "masked_select", "equal", "is_nonzero",
         "unique_dim", "_unique2", "unique_consecutive", "bincount", "histc", "allclose"}  # fmt: skip
INSTEAD = "use torch.where instead of if, and masks as factors"
"""Of a look at numbers."""


def handles(*names: str, **simpler: Callable[[Any], Any]) -> Callable[[Handler], Handler]:
    """Makes a function the handler of operations; its parameters after the first are the arguments that it handles.

    A parameter with a default is one that only some of the operations have.

    Args:
        names: of the operations.
        simpler: what makes an argument one that can be looked at without its numbers.

    """

    def keep(handler: Handler) -> Handler:
        taken = frozenset(list(inspect.signature(handler).parameters)[1:])
        for name in names:
            assert name not in HANDLERS, name
            HANDLERS[name], TAKES[name], SIMPLER[name] = handler, taken, simpler
        return handler

    return keep


class Traced(Tensor):
    """A tensor of expressions."""

    cells: Cells
    graph: Graph
    joined: Layout
    shared: bool
    """Whether other tensors may look at the same numbers, so that nothing can be written."""

    @staticmethod
    def __new__(
        cls: type[Traced],
        cells: Cells,
        shape: Sequence[int],
        dtype: torch.dtype,
        graph: Graph,
        joined: Layout = APART,
        *,
        shared: bool = False,
    ) -> Traced:
        """Expressions that look like a tensor of a shape and a dtype."""
        made: Traced = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype, device=torch.device("cpu"))
        made.cells, made.graph, made.joined, made.shared = cells, graph, joined, shared
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Traced({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Does on expressions what ``func`` does on numbers."""
        name = _name(func)
        if name in ("detach", "alias", "lift_fresh_copy", "contiguous"):
            args[0].shared = True
            return Traced(args[0].cells, args[0].shape, args[0].dtype, args[0].graph, args[0].joined, shared=True)
        written = func._schema.is_mutable and name.removesuffix("_") in HANDLERS
        if name not in HANDLERS and not written:
            raise _unknown(func, name)
        try:
            if written:
                return _written(func, name.removesuffix("_"), args, kwargs or {})
            return _done(func, name, _bound(func, name, args, kwargs or {}))
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(f"uses {_called(func)} in a way that is not known here ({_first_line(error)})") from error


class Call:
    """A call of an operation: what is common to its arguments, and the shapes and dtypes of what comes out.

    Args:
        graph: gets the expressions.
        layout: of the rows in the arguments.
        outs: tensors without data, like the results.
        name: of the operation.

    """

    def __init__(self, graph: Graph, layout: Layout, outs: Sequence[Tensor], name: str) -> None:
        self.graph, self.layout, self.outs, self.name = graph, layout, outs, name

    @property
    def dtype(self) -> torch.dtype:
        """Of the first result."""
        return self.outs[0].dtype

    @property
    def kind(self) -> str:
        """The type of the first result."""
        return TYPES[self.dtype]

    @property
    def shape(self) -> Size:
        """Of the expressions of the first result."""
        return squeezed(self.graph, self.outs[0].shape)

    def cells(self, x: Any, kind: str | None = None) -> Cells:
        """An argument as expressions, of a type."""
        return cells_of(self.graph, x, kind, self.layout)

    def const(self, value: Any, kind: str) -> Cells:
        """A number as an expression."""
        return np.array(self.graph.const(value, kind), dtype=object)

    def map(self, op: str, kind: str, *xs: Cells) -> Cells:
        """``op`` on every entry."""
        return _each(lambda *nodes: self.graph.make(op, kind, *nodes), *xs)

    def cast(self, x: Cells, kind: str) -> Cells:
        """Every entry as another type."""
        return _each(lambda node: self.graph.cast(node, kind), x)

    def along(self, x: Tensor, dim: int, what: str = "takes rows apart or puts them together") -> int:
        """A dimension counted from the start, which is not that of the rows."""
        dim = dim % x.ndim if x.ndim else 0
        if x.ndim and _has_rows(self.graph, x.shape[dim]):
            raise Untraceable(f"{what} ({self.name})")
        return dim

    def dims(self, x: Tensor, dim: int | Sequence[int] | None) -> list[int]:
        """Dimensions counted from the start, which are not that of the rows; all when left out or empty."""
        dims = range(x.ndim) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        return [self.along(x, d) for d in dims]


# --- one operation -------------------------------------------------------------------------------


def _name(func: Any) -> str:
    return str(func._schema.name).split("::")[1]


def _called(func: Any) -> str:
    return str(func).removesuffix(".default")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"


def _unknown(func: Any, name: str) -> Untraceable:
    """Why an operation cannot be traced."""
    called = _called(func)
    if name in LOOKS:
        return LooksAtData(f"looks at the numbers of the data ({called}); {INSTEAD}")
    if torch.Tag.nondeterministic_seeded in func.tags:
        return Untraceable(f"draws from PyTorch's generator ({called}); use self.uniform, self.normal or self.randint")
    if func._schema.is_mutable:
        return Untraceable(
            f"writes into a tensor ({called}); use torch.where, torch.stack or torch.cat, which make a new one"
        )
    return Untraceable(f"uses {called}, which is not known here")


def _bound(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, those left out with their defaults; raises for what the handler does not handle."""
    values = {}
    for place, argument in enumerate(func._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        given = args[place] if place < len(args) else kwargs.get(argument.name, default)
        if argument.name == "device" and given is not None and torch.device(given).type != "cpu":
            raise Untraceable(f"puts numbers on {given} ({_called(func)}); use self.device")
        if argument.name == "layout" and given not in (None, torch.strided):
            raise Untraceable(f"makes a tensor of layout {given} ({_called(func)})")
        if argument.name in TAKES[name] or argument.name in PASSED or argument.name in ("device", "layout"):
            values[argument.name] = given
        elif isinstance(given, Tensor) or given != default:
            raise Untraceable(f"calls {_called(func)} with {argument.name}={given!r}, which is not known here")
    return values


def _done(func: Any, name: str, values: dict[str, Any]) -> Any:
    """The results of a call whose arguments are bound."""
    for key, simpler in SIMPLER[name].items():
        values[key] = simpler(values[key])
    tensors = [x for x in _flat(values.values()) if isinstance(x, Traced)]
    graph, layout = tensors[0].graph, APART
    for x in tensors:
        if x.graph is not graph:
            raise Untraceable(
                f"uses a tensor of an earlier call ({name}); declare it in build with world.remember(...) and use "
                f"self.memory"
            )
        if any(n % (graph.rows * graph.rows) == 0 for n in x.shape if n):
            raise Untraceable(f"pairs rows with rows ({name})")
        if x.joined != APART:
            if layout not in (APART, x.joined):
                raise Untraceable(f"joins the rows with other dimensions in two ways ({name})")
            layout = x.joined
    like = func(**{key: _meta(x) for key, x in values.items() if key != "device"})
    outs = [like] if isinstance(like, Tensor) else list(like)
    _check(graph, outs, name)
    call = Call(graph, layout, outs, name)
    made = HANDLERS[name](call, **{key: x for key, x in values.items() if key in TAKES[name]})
    cells = made if isinstance(made, list) else [made]
    new = [_made(call, x, cell) for x, cell in zip(outs, cells, strict=True)]
    if any(one.alias_info is not None for one in func._schema.returns):
        for x in (*tensors, *new):
            x.shared = True
    return new[0] if isinstance(like, Tensor) else new


def _written(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation that writes into its first argument: as one that makes a new tensor, if no other tensor sees it."""
    into = args[0]
    if not isinstance(into, Traced) or into.shared or str(_name(func)) == name:
        raise _unknown(func, name)
    plain = getattr(getattr(torch.ops.aten, name), func._overloadname or "default")
    made = _done(plain, name, _bound(plain, name, args, kwargs))
    if made.shape != into.shape:
        raise _unknown(func, name)
    kind, graph = TYPES[into.dtype], into.graph
    into.cells = _wrapped(graph, into.dtype, _each(lambda node: graph.cast(node, kind), made.cells))
    return into


def _check(graph: Graph, outs: Sequence[Tensor], name: str) -> None:
    for x in outs:
        if x.dtype not in TYPES:
            raise Untraceable(f"makes numbers of dtype {x.dtype} ({name}); they can be {DTYPES}")
        if sum(_has_rows(graph, n) for n in x.shape) > 1 or any(n % graph.rows**2 == 0 for n in x.shape if n):
            raise Untraceable(f"pairs rows with rows ({name})")


def _made(call: Call, like: Tensor, cells: Cells) -> Traced:
    """A result."""
    shape = squeezed(call.graph, like.shape)
    if [n for n in cells.shape if n != 1] != [n for n in shape if n != 1]:
        raise Untraceable(f"uses {call.name} in a way that is not known here (shape {list(like.shape)})")
    cells = _wrapped(call.graph, like.dtype, cells)
    times = next((n // call.graph.rows for n in like.shape if _has_rows(call.graph, n)), 1)
    layout = call.layout if times == math.prod(call.layout) else APART
    if times != math.prod(layout):
        raise Untraceable(f"joins the rows with other dimensions ({call.name})")
    return Traced(cells.reshape(shape), like.shape, like.dtype, call.graph, layout)


def _wrapped(graph: Graph, dtype: torch.dtype, cells: Cells) -> Cells:
    """Integers of fewer than 64 bits as they are after an overflow."""
    if dtype not in WRAPS:
        return cells
    low, count = WRAPS[dtype]
    return _each(lambda node: graph.wrap(node, low, count), cells)


WRAPS = {
    torch.int32: (-(1 << 31), 1 << 32),
    torch.int16: (-(1 << 15), 1 << 16),
    torch.int8: (-(1 << 7), 1 << 8),
    torch.uint8: (0, 1 << 8),
}


# --- tensors and their expressions ---------------------------------------------------------------


def _flat(xs: Any) -> Iterator[Any]:
    for x in xs:
        if isinstance(x, (list, tuple)):
            yield from _flat(x)
        else:
            yield x


def _meta(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_meta(y) for y in x)
    if not isinstance(x, Tensor):
        return x
    wrapped = not isinstance(x, Traced) and x.ndim == 0 and x.device.type == "cpu"
    return torch.empty_like(x, device="meta") if wrapped else torch.empty(x.shape, dtype=x.dtype, device="meta")


def _has_rows(graph: Graph, size: int) -> bool:
    return size > 0 and size % graph.rows == 0


def squeezed(graph: Graph, shape: Sequence[int]) -> Size:
    """The shape of the expressions of a tensor: 1 where the rows are."""
    return Size(n // graph.rows if _has_rows(graph, n) else n for n in shape)


def _each(f: Callable[..., Node], *xs: Cells) -> Cells:
    with np.errstate(all="ignore"):
        made = np.frompyfunc(f, len(xs), 1)(*xs)
    return made if isinstance(made, np.ndarray) else np.array(made, dtype=object)


def cells_of(graph: Graph, x: Any, kind: str | None = None, layout: Layout = APART) -> Cells:
    """Numbers, tensors and traced tensors as expressions of a type."""
    if isinstance(x, Traced):
        made = x.cells
    elif isinstance(x, Tensor):
        made = _constants(graph, x, layout)
    else:
        own = "b" if isinstance(x, bool) else "l" if isinstance(x, int) else "d"
        made = np.array(graph.const(x, kind or own), dtype=object)
    return made if kind is None else _each(lambda node: graph.cast(node, kind), made)


def _constants(graph: Graph, x: Tensor, layout: Layout) -> Cells:
    if x.dtype not in TYPES or x.layout != torch.strided:
        raise Untraceable(f"makes numbers of dtype {x.dtype}; they can be {DTYPES}")
    if x.device.type != "cpu":
        raise Untraceable(f"mixes tensors on {x.device} and cpu; use self.device")
    for dim, size in enumerate(x.shape):
        if _has_rows(graph, size):
            parts = (layout[0], graph.rows, layout[1]) if size > graph.rows else (1, graph.rows, 1)
            if math.prod(parts) != size:
                raise Untraceable("joins the rows of a tensor of its own with other dimensions")
            spread = x.unflatten(dim, parts)
            first = spread.narrow(dim + 1, 0, 1)
            if not bool(((spread == first) | (spread.isnan() & first.isnan())).all()):
                raise Untraceable(
                    "makes a tensor by itself that differs from row to row; for random numbers use self.uniform, "
                    "self.normal or self.randint"
                )
            x = first.flatten(dim, dim + 2)
    kind, out = TYPES[x.dtype], np.empty(x.numel(), dtype=object)
    out[:] = [graph.const(value, kind) for value in x.reshape(-1).tolist()]
    return out.reshape(tuple(x.shape))


def traced(graph: Graph, shape: Sequence[int], dtype: torch.dtype, row_dim: int, *, sound: bool = False) -> Traced:
    """A tensor of new inputs of the graph, numbered in order.

    Args:
        graph: gets the inputs.
        shape: with any size where the rows are.
        dtype: of the numbers.
        row_dim: where the rows are.
        sound: whether they are never infinite, and always numbers.

    """
    sizes = list(shape)
    sizes[row_dim] = 1
    start = sum(node.op == "input" for node in graph.nodes)
    cells = np.empty(math.prod(sizes), dtype=object)
    cells[:] = [graph.input(start + i, TYPES[dtype], sound=sound) for i in range(len(cells))]
    full = [graph.rows if d == row_dim % len(sizes) else n for d, n in enumerate(sizes)]
    return Traced(cells.reshape(sizes), full, dtype, graph, shared=True)
