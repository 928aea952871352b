"""Plain memory access for the kernels: no bounds check, no negative indices, unaligned loads.

Numba's own indexing asks at every access whether the index is negative; in loops over bytes that is most of the work. Callers check
their bounds once per field.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _data(context, builder, kind, value):
    return context.make_array(kind)(context, builder, value).data


@intrinsic
def at(typingctx, array, index):
    """``array[index]``"""
    signature = array.dtype(array, types.int64)

    def codegen(context, builder, sig, args):
        place = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        return context.unpack_value(builder, sig.return_type, place)

    return signature, codegen


@intrinsic
def store(typingctx, array, index, value):
    """``array[index] = value``"""
    signature = types.void(array, types.int64, array.dtype)

    def codegen(context, builder, sig, args):
        place = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        context.pack_value(builder, sig.args[2], args[2], place)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def load_little(typingctx, array, index):
    """Eight bytes of a byte array as a little-endian unsigned integer."""
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, sig, args):
        place = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return signature, codegen


@intrinsic
def swapped(typingctx, word):
    """The same bytes in the opposite order."""
    signature = types.uint64(types.uint64)

    def codegen(context, builder, sig, args):
        return builder.bswap(args[0])

    return signature, codegen


@intrinsic
def copy(typingctx, target, target_index, source, source_index, count):
    """Copies bytes from one array to another."""
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def codegen(context, builder, sig, args):
        to = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        place = builder.gep(_data(context, builder, sig.args[2], args[2]), [args[3]])
        cgutils.raw_memcpy(builder, to, place, args[4], 1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Asks for the bytes at ``array[index]``, which need not exist, to be brought nearer."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, sig, args):
        place = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type, ir.IntType(32), ir.IntType(32), ir.IntType(32)])
        name = f"llvm.prefetch.p0{'i8' if not getattr(place.type, 'is_opaque', False) else ''}"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        number = ir.IntType(32)
        builder.call(function, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, codegen
