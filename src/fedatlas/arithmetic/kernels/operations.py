"""Operations of processors that numba has none for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic


@intrinsic
def wide_product(typing: Any, a: Any, b: Any) -> Any:
    """The upper and the lower 64 of the 128 bits of a product of uint64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        left, right = (builder.zext(argument, wide) for argument in arguments)
        product = builder.mul(left, right)
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        parts = upper, builder.trunc(product, word)
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), code


@intrinsic
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Ask for array[place] ahead of its use; a place that is not there does no harm."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        function = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To be read, soon and again, as data.
        builder.call(function, [address, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), code
