"""Plain memory access for the kernels: no bounds check, no negative indices, unaligned loads, 32 bytes at a time.

Numba's own indexing asks at every access whether the index is negative; in loops over bytes that is most of the work.
Callers check their bounds once per field. All functions take an array or a ``pointer`` to one: arrays that are passed
on to another function have their references counted, each time by two locked instructions; pointers do not.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 32
"""How many bytes ``high_bits`` and ``equal_bits`` look at."""


def _data(context, builder, kind, value):
    if isinstance(kind, types.CPointer):
        return value
    return context.make_array(kind)(context, builder, value).data


@intrinsic
def pointer(typingctx, array):
    """Where the array's data begin. Whoever holds the pointer must hold the array, too."""
    signature = types.CPointer(array.dtype)(array)

    def codegen(context, builder, sig, args):
        return _data(context, builder, sig.args[0], args[0])

    return signature, codegen


@intrinsic
def behind(typingctx, start, count):
    """The pointer that many items further."""
    signature = start(start, types.int64)

    def codegen(context, builder, sig, args):
        return builder.gep(args[0], [args[1]])

    return signature, codegen


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


def _block(context, builder, kind, array, index):
    """The 32 bytes at an index as a vector."""
    place = builder.gep(_data(context, builder, kind, array), [index])
    vector = ir.VectorType(ir.IntType(8), BLOCK)
    block = builder.load(builder.bitcast(place, vector.as_pointer()))
    block.align = 1
    return block


def _bits(builder, flags):
    """One bit for each flag of a vector, the first the lowest."""
    return builder.zext(builder.bitcast(flags, ir.IntType(BLOCK)), ir.IntType(64))


@intrinsic
def high_bits(typingctx, array, index):
    """Which of the 32 bytes at ``array[index]`` are above 127, as bits."""
    signature = types.uint64(array, types.int64)

    def codegen(context, builder, sig, args):
        block = _block(context, builder, sig.args[0], args[0], args[1])
        return _bits(builder, builder.icmp_signed("<", block, ir.Constant(block.type, None)))

    return signature, codegen


@intrinsic
def equal_bits(typingctx, array, index, value):
    """Which of the 32 bytes at ``array[index]`` have this value, as bits."""
    signature = types.uint64(array, types.int64, types.uint8)

    def codegen(context, builder, sig, args):
        block = _block(context, builder, sig.args[0], args[0], args[1])
        one = builder.insert_element(ir.Constant(block.type, ir.Undefined), args[2], ir.IntType(32)(0))
        mask = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), None)
        every = builder.shuffle_vector(one, ir.Constant(block.type, ir.Undefined), mask)
        return _bits(builder, builder.icmp_unsigned("==", block, every))

    return signature, codegen


@intrinsic
def widened(typingctx, bits):
    """The bits of a binary32 number as those of the binary64 number of the same value."""
    signature = types.int64(types.int64)

    def codegen(context, builder, sig, args):
        single = builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())
        return builder.bitcast(builder.fpext(single, ir.DoubleType()), ir.IntType(64))

    return signature, codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """The number of the lowest bit that is set; some bit must be."""
    signature = types.int64(types.uint64)

    def codegen(context, builder, sig, args):
        return builder.cttz(args[0], ir.IntType(1)(1))

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
def copy_block(typingctx, target, target_index, source, source_index):
    """Copies 32 bytes from one array to another: quicker than ``copy`` for few bytes, if both have room for 32."""
    signature = types.void(target, types.int64, source, types.int64)

    def codegen(context, builder, sig, args):
        block = _block(context, builder, sig.args[2], args[2], args[3])
        to = builder.gep(_data(context, builder, sig.args[0], args[0]), [args[1]])
        stored = builder.store(block, builder.bitcast(to, block.type.as_pointer()))
        stored.align = 1
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
