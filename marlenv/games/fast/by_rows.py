"""Inside what numba compiles: a function for blocks of rows, in the threads of PyTorch's OpenMP library.

Importing this needs numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from marlenv.games.fast.plain_arrays import parts_of

LINE = 64  # rows; blocks begin at multiples of it: no two threads write to one line of a cache
BYTES, INT, LONG = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
SHARE, NUMBER = ir.FunctionType(ir.VoidType(), [BYTES]), ir.FunctionType(INT, [])
PARALLEL = ir.FunctionType(ir.VoidType(), [SHARE.as_pointer(), BYTES, INT, INT])
POOL = ir.LiteralStructType([kind.as_pointer() for kind in (PARALLEL, NUMBER, NUMBER)])
"""What :func:`marlenv.threads.pool` has: what runs a function in many threads; which of them one is; of how many."""
LEAST, FAILED, ROWS, WHERE, CODE, GIVEN = range(6)
"""Of what threads share: the least answer, whether there was an error, how many rows, the pool, the address of machine
code; then the arguments."""


def _typed(context: Any, function: Any, given: Any, rows: Any, threads: Any) -> Any:
    called, compiled = (*given, types.int64, types.int64), None
    if not isinstance(function, types.Integer):
        called = function.get_call_type(context, called, {})
        compiled = function.dispatcher.get_compile_result(called)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if compiled is not None:
            context.add_linking_libs([compiled.library])
        call = partial(_call, compiled, given)
        for array in _arrays(context, builder, given, values[1]):
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, array.meminfo)):
                context.call_conv.return_user_exc(builder, RuntimeError, ("by_rows: an array that is not bare",))
        many, pool = cgutils.unpack_tuple(builder, values[3])
        at = LONG(0) if compiled is not None else values[0]
        start = [LONG(2**63 - 1), LONG(0), values[2], builder.inttoptr(pool, POOL.as_pointer()), at]
        whole = cgutils.pack_struct(builder, [*start, *cgutils.unpack_tuple(builder, values[1])])
        work = cgutils.alloca_once_value(builder, whole)
        with builder.if_else(builder.icmp_signed("<", many, LONG(2))) as (alone, together):
            with alone:
                _play(context, builder, call, work, LONG(0), values[2])
            with together:
                share = _share(context, builder.module, call, work.type)
                parallel = builder.load(cgutils.gep_inbounds(builder, _part(builder, work, WHERE), 0, 0))
                builder.call(parallel, [share, builder.bitcast(work, BYTES), builder.trunc(many, INT), INT(0)])
        with cgutils.if_unlikely(builder, builder.icmp_signed("!=", _part(builder, work, FAILED), LONG(0))):
            context.call_conv.return_user_exc(builder, RuntimeError, ("an error in a block of rows",))
        return _part(builder, work, LEAST)

    return types.int64(function, given, rows, threads), code


by_rows: Any = intrinsic(_typed)
"""``by_rows(function, args, rows, threads)``: the least of what ``function(*args, start, stop)`` says about all blocks.

Args:
    function: is compiled; plays the rows from ``start`` to ``stop``, which depend on no others, and returns an int. Or
        the address of such machine code, compiled for these arguments.
    args: a tuple. Arrays in it are :data:`~marlenv.games.fast.plain_arrays.bare`: threads that count who holds the same
        array wait for one another, in every call that it is passed on to. Those that are counted are an error.
    rows: how many there are.
    threads: what :func:`marlenv.threads.shared` says.
"""


def _arrays(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[Any]:
    """The arrays among arguments, and in tuples of them."""
    if isinstance(kind, types.Array):
        yield context.make_array(kind)(context, builder, value)
    elif isinstance(kind, types.BaseTuple):
        for i, part in enumerate(parts_of(kind)):
            yield from _arrays(context, builder, part, builder.extract_value(value, i))


def _part(builder: Any, work: Any, i: int) -> Any:
    return builder.load(cgutils.gep_inbounds(builder, work, 0, i))


def call_at(context: Any, builder: Any, address: Any, kinds: Any, given: Any) -> Any:
    """Calls machine code for these arguments, compiled by numba, that returns an int; its status, and what it says."""
    kind = context.call_conv.get_function_type(types.int64, kinds)
    function = builder.inttoptr(address, kind.as_pointer())
    return context.call_conv.call_function(builder, function, types.int64, kinds, given)


def _call(compiled: Any, kinds: Any, context: Any, builder: Any, address: Any, given: Any) -> Any:
    """Calls the function that is compiled, else what is at the address."""
    if compiled is None:
        return call_at(context, builder, address, (*kinds, types.int64, types.int64), given)
    kind = compiled.fndesc
    function = context.declare_function(builder.module, kind)
    return context.call_conv.call_function(builder, function, kind.restype, compiled.signature.args, given)


def _play(context: Any, builder: Any, call: Any, work: Any, start: Any, stop: Any) -> None:
    """Calls the function for some rows, and notes what it says."""
    given = [_part(builder, work, i) for i in range(GIVEN, len(work.type.pointee.elements))]
    status, least = call(context, builder, _part(builder, work, CODE), [*given, start, stop])
    builder.atomic_rmw("min", cgutils.gep_inbounds(builder, work, 0, LEAST), least, "monotonic")
    with cgutils.if_unlikely(builder, status.is_error):
        builder.store(LONG(1), cgutils.gep_inbounds(builder, work, 0, FAILED))


def _share(context: Any, module: Any, call: Any, kind: Any) -> Any:
    """What a thread runs: its part of the rows, whole lines of them."""
    share = ir.Function(module, SHARE, module.get_unique_name("share"))
    share.linkage = "internal"
    builder = ir.IRBuilder(share.append_basic_block())
    work = builder.bitcast(share.args[0], kind)
    rows, pool = _part(builder, work, ROWS), _part(builder, work, WHERE)
    this, many = (builder.sext(builder.call(_part(builder, pool, i), []), LONG) for i in (1, 2))
    lines = builder.sdiv(builder.add(rows, LONG(LINE - 1)), LONG(LINE))
    start, stop = (
        builder.mul(builder.sdiv(builder.mul(lines, k), many), LONG(LINE)) for k in (this, builder.add(this, LONG(1)))
    )
    stop = builder.select(builder.icmp_signed("<", stop, rows), stop, rows)
    with builder.if_then(builder.icmp_signed("<", start, stop)):
        _play(context, builder, call, work, start, stop)
    builder.ret_void()
    return share
