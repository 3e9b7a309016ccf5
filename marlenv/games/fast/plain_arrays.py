"""Arrays that nobody counts, of memory that somebody else holds, inside what numba compiles. Importing it needs numba.

numba counts who holds an array wherever it is passed on, and that takes longer than most of what games do with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic

Change = Callable[..., tuple[Any, Any]]
"""``change(context, builder, kind, value, *more)`` gives the kind and the value of an array in place of another; of no
value, the kind and None."""


def each_array(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """The arrays of tuples of tuples, one after another, with their kinds."""
    if isinstance(kind, types.Array):
        yield kind, context.make_array(kind)(context, builder, value)
        return
    for i, part in enumerate(kind):
        yield from each_array(context, builder, part, builder.extract_value(value, i))


def made(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """An array of side by side numbers over memory that somebody else holds."""
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    steps = [size]
    for length in reversed(shape[1:]):
        steps.insert(0, builder.mul(steps[0], length))
    array = context.make_array(kind)(context, builder)
    context.populate_array(array, data=data, shape=shape, strides=steps, itemsize=size, meminfo=None)
    return array._getvalue()


def changed(arrays: Any, change: Change, *more: Any) -> tuple[Any, Any]:
    """What an intrinsic is that changes all arrays of tuples of tuples; other values stay.

    Args:
        arrays: their kind.
        change: what becomes of one.
        more: the kinds of what ``change`` is given besides.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _mapped(context, builder, arrays, args[0], change, args[1:])[1]

    return _mapped(None, None, arrays, None, change, [None for _ in more])[0](arrays, *more), code


def _mapped(context: Any, builder: Any, kind: Any, value: Any, change: Change, more: list[Any]) -> tuple[Any, Any]:
    """The kind and the value of what results."""
    if isinstance(kind, types.Array):
        return change(context, builder, kind, value, *more)
    if not isinstance(kind, types.BaseTuple):
        return kind, value
    parts = [
        _mapped(context, builder, one, None if value is None else builder.extract_value(value, i), change, more)
        for i, one in enumerate(parts_of(kind))
    ]
    whole = types.Tuple([one for one, _ in parts])
    return whole, None if value is None else context.make_tuple(builder, whole, [each for _, each in parts])


def parts_of(kind: Any) -> list[Any]:
    """The kinds of what is in a tuple."""
    return list(kind)


def _bared(context: Any, arrays: Any) -> Any:
    def change(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if kind.layout != "C":
            raise TypeError(f"kernels read arrays without gaps, got {kind}")
        plain = types.Array(kind.dtype, kind.ndim, "C")
        if value is None:
            return plain, None
        array = context.make_array(kind)(context, builder, value)
        return plain, made(context, builder, plain, array.data, cgutils.unpack_tuple(builder, array.shape))

    return changed(arrays, change)


bare: Any = intrinsic(_bared)
"""``bare(arrays)``: the same memory, of arrays in tuples of tuples, which must be kept."""


def _read(context: Any, like: Any, addresses: Any, rows: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        left = iter(cgutils.unpack_tuple(builder, args[1]))

        def change(context: Any, builder: Any, kind: Any, value: Any) -> Any:
            array = context.make_array(kind)(context, builder, value)
            shape = [args[2], *cgutils.unpack_tuple(builder, array.shape)[1:]]
            data, plain = builder.inttoptr(next(left), array.data.type), types.Array(kind.dtype, kind.ndim, "C")
            return plain, made(context, builder, plain, data, shape)

        return _mapped(context, builder, like, args[0], change, [])[1]

    return _bared(context, like)[0].return_type(like, addresses, types.int64), code


arrays_at: Any = intrinsic(_read)
"""``arrays_at(like, addresses, rows)``: arrays in tuples of tuples as others that have one row, at these addresses."""


def _from(context: Any, arrays: Any, first: Any) -> Any:
    def change(context: Any, builder: Any, kind: Any, value: Any, first: Any) -> Any:
        flat = types.Array(kind.dtype, 1, "C")
        if value is None:
            return flat, None
        array = context.make_array(kind)(context, builder, value)
        rows, width = cgutils.unpack_tuple(builder, array.shape)
        data = cgutils.pointer_add(builder, array.data, builder.mul(first, builder.extract_value(array.strides, 0)))
        return flat, made(context, builder, flat, data, [builder.mul(builder.sub(rows, first), width)])

    return changed(arrays, change, types.int64)


rows_from: Any = intrinsic(_from)
"""``rows_from(arrays, first)``: the numbers of arrays ``[n, w]`` in tuples from a row on, side by side."""

# --- rows that stay at hand --------------------------------------------------------------------------

LINE = 64
"""Bytes of a line of the cache."""


def _row(builder: Any, array: Any, rows: Any) -> Any:
    """Bytes of so many rows."""
    return builder.mul(builder.extract_value(array.strides, 0), rows)


def _sized(context: Any, arrays: Any, rows: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total = args[1].type(0)
        for _, array in each_array(context, builder, arrays, args[0]):
            total = builder.add(total, _lines(builder, _row(builder, array, args[1])))
        return total

    return types.int64(arrays, types.int64), code


def _lines(builder: Any, size: Any) -> Any:
    """Bytes of the lines that so many bytes take."""
    return builder.and_(builder.add(size, size.type(LINE - 1)), size.type(-LINE))


bytes_of: Any = intrinsic(_sized)
"""``bytes_of(arrays, rows)``: what :data:`rows_at_hand` takes."""


def _near(context: Any, arrays: Any, memory: Any, first: Any, rows: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = [context.make_array(memory)(context, builder, args[1]).data]

        def change(context: Any, builder: Any, kind: Any, value: Any) -> Any:
            array = context.make_array(kind)(context, builder, value)
            data = cgutils.pointer_add(builder, place[0], builder.neg(_row(builder, array, args[2])))
            place[0] = cgutils.pointer_add(builder, place[0], _lines(builder, _row(builder, array, args[3])))
            shape = cgutils.unpack_tuple(builder, array.shape)
            return kind, made(context, builder, kind, builder.bitcast(data, array.data.type), shape)

        return _mapped(context, builder, arrays, args[0], change, [])[1]

    return arrays(arrays, memory, types.int64, types.int64), code


rows_at_hand: Any = intrinsic(_near)
"""``rows_at_hand(arrays, memory, first, rows)``: arrays as others are, ``[n, w]``, that have no rows but those ``rows``
from the ``first`` on, in memory, bytes."""


def _copied(context: Any, to: Any, source: Any, first: Any, rows: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = (each_array(context, builder, *one) for one in zip((to, source), args[:2], strict=True))
        for (_, mine), (_, other) in zip(*both, strict=True):
            start, size = (_row(builder, other, count) for count in args[2:])
            into, read = (cgutils.pointer_add(builder, one.data, start, cgutils.voidptr_t) for one in (mine, other))
            cgutils.raw_memcpy(builder, into, read, size, 1)
        return context.get_dummy_value()

    return types.void(to, source, types.int64, types.int64), code


copy_rows: Any = intrinsic(_copied)
"""``copy_rows(to, source, first, rows)``: copies ``rows`` of arrays ``[n, w]`` in tuples, from the ``first`` on."""
