"""Four or eight words of 64 bits at once, inside what numba compiles: a vector of LLVM behind Python's operators.

Numba itself makes no vectors of code without a loop. ``&``, ``|``, ``^``, ``+``, ``-``, ``*`` and ``>>`` (by less than
64) take lanes and lanes, or lanes and a word (uint64), which then stands in every lane; ``~`` takes lanes. Importing
this needs numba.
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

WORD = ir.IntType(64)
Four: TypeAlias = Any
Eight: TypeAlias = Any
"""So many words, to people; numba finds the types itself."""


class Lanes(types.Type):
    """The type of ``n`` words in numba."""

    def __init__(self, n: int) -> None:
        self.n = n
        super().__init__(name=f"Lanes({n})")


FOUR, EIGHT = Lanes(4), Lanes(8)


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(WORD, lanes.n))


def _spread(builder: Any, value: Any, lanes: Lanes) -> Any:
    """Lanes as they are, or a word in every lane."""
    if isinstance(value.type, ir.VectorType):
        return value
    none = ir.Constant(ir.VectorType(WORD, lanes.n), ir.Undefined)
    one = builder.insert_element(none, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, none, ir.Constant(ir.VectorType(ir.IntType(32), lanes.n), [0] * lanes.n))


def _template(operation: Any, arguments: int) -> Any:
    def generic(self: Any, args: Any, kws: Any) -> Any:
        lanes = [kind for kind in args if isinstance(kind, Lanes)]
        if len(args) == arguments and lanes and all(kind in (lanes[0], types.uint64) for kind in args):
            return signature(lanes[0], *args)
        return None

    return type(f"Lanes_{operation.__name__}", (AbstractTemplate,), {"key": operation, "generic": generic})


def _binary(operation: Any, emit: str) -> None:
    """Teaches numba an operator between lanes and lanes, or lanes and a word."""
    infer_global(operation)(_template(operation, 2))

    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        first, second = (_spread(builder, arg, sig.return_type) for arg in args)
        return getattr(builder, emit)(first, second)

    for kinds in ((Lanes, Lanes), (Lanes, types.uint64), (types.uint64, Lanes)):
        lower_builtin(operation, *kinds)(code)


for _operation, _emit in {
    (operator.and_, operator.iand): "and_",
    (operator.or_, operator.ior): "or_",
    (operator.xor, operator.ixor): "xor",
    (operator.add, operator.iadd): "add",
    (operator.sub, operator.isub): "sub",
    (operator.mul, operator.imul): "mul",
    (operator.rshift, operator.irshift): "lshr",
}.items():
    _binary(_operation[0], _emit)
    _binary(_operation[1], _emit)
infer_global(operator.invert)(_template(operator.invert, 1))
lower_builtin(operator.invert, Lanes)(lambda context, builder, sig, args: builder.not_(args[0]))


def _called(builder: Any, name: str, returned: Any, *args: Any) -> Any:
    """What a function of LLVM on vectors returns."""
    kind = ir.FunctionType(returned, [arg.type for arg in args])
    name = f"llvm.{name}.v{args[0].type.count}i64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _where_in(builder: Any, context: Any, kind: Any, array: Any, at: Any, n: int) -> Any:
    """The address of ``n`` words of an array without gaps, which may begin anywhere."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), ir.VectorType(WORD, n).as_pointer())


def _loading(lanes: Lanes) -> Any:
    def load(context: Any, array: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            array, at = args
            return builder.load(_where_in(builder, context, sig.args[0], array, at, lanes.n), align=8)

        return lanes(array, types.intp), code

    return intrinsic(load)


four: Any = _loading(FOUR)
"""``four(words, at)``: the words ``at`` to ``at + 3`` of an array."""
eight: Any = _loading(EIGHT)
"""``eight(words, at)``: the words ``at`` to ``at + 7`` of an array."""


def _rotated(context: Any, lanes: Any, by: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        words, turns = (_spread(builder, arg, by) for arg in args)
        return _called(builder, "fshr", words.type, words, words, turns)

    return by(lanes, by), code


rotated: Any = intrinsic(_rotated)
"""``rotated(words, by)``: lanes, or one word for all, whose bits are moved towards the lowest, around the end."""


def _lane(context: Any, lanes: Any, at: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.uint64(lanes, types.intp), code


lane: Any = intrinsic(_lane)
"""``lane(lanes, at)``: one of them."""


def _twice(context: Any, lanes: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        order = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0, 1, 2, 3] * 2)
        return builder.shuffle_vector(args[0], args[0], order)

    return EIGHT(FOUR), code


twice: Any = intrinsic(_twice)
"""``twice(lanes)``: the same four lanes again behind them."""


def _where(context: Any, test: Any, lanes: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zeros = ir.Constant(args[1].type, [0] * lanes.n)
        return builder.select(builder.icmp_unsigned("!=", args[0], zeros), args[1], zeros)

    return lanes(test, lanes), code


where: Any = intrinsic(_where)
"""``where(test, lanes)``: the lanes where those of ``test`` are not 0, else 0."""


def _reducing(name: str) -> Any:
    def reduce(context: Any, lanes: Any) -> Any:
        def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return _called(builder, f"vector.reduce.{name}", WORD, args[0])

        return types.uint64(lanes), code

    return intrinsic(reduce)


joined: Any = _reducing("or")
"""``joined(lanes)``: the bits that any lane has."""
total: Any = _reducing("add")
"""``total(lanes)``: the sum of the lanes."""


def _put(context: Any, lanes: Any, array: Any, first: Any, second: Any) -> Any:
    def code(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        for half, at in enumerate(args[2:]):
            order = ir.Constant(ir.VectorType(ir.IntType(32), 4), [4 * half + i for i in range(4)])
            words = builder.shuffle_vector(args[0], args[0], order)
            builder.store(words, _where_in(builder, context, sig.args[1], args[1], at, 4), align=8)
        return context.get_dummy_value()

    return types.void(EIGHT, array, types.intp, types.intp), code


put: Any = intrinsic(_put)
"""``put(lanes, words, first, second)``.

Writes four of eight lanes to ``first`` and on of an array, four to ``second``.
"""
