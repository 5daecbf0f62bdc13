"""Machine operations that numba lacks: unaligned loads and stores, and copies.

Each operation is an LLVM intrinsic, so that compiled code uses it without a call. Addresses are ``uintp``
(``array.ctypes.data``). The operations do not check that an address lies inside a buffer. The caller checks it.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


def _load(bits: int, result):
    llvm_type = ir.IntType(bits)

    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], llvm_type.as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value

        return result(types.uintp), codegen

    return load


load_u8 = _load(8, types.uint8)
load_u16 = _load(16, types.uint16)
load_u32 = _load(32, types.uint32)
load_u64 = _load(64, types.uint64)


def _store(bits: int, value_type):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(args[1], pointer).align = 1
            return context.get_dummy_value()

        return types.void(types.uintp, value_type), codegen

    return store


store_u8 = _store(8, types.uint8)
store_u16 = _store(16, types.uint16)
store_u32 = _store(32, types.uint32)
store_u64 = _store(64, types.uint64)


@intrinsic
def array_at(typingctx, address, length):
    """Return the uint32 array of ``length`` entries at an address.

    Unlike ``numba.carray``, this works in functions without numba's reference counts. The caller keeps the memory.
    """
    array_type = types.Array(types.uint32, 1, "C")

    def codegen(context, builder, signature, args):
        array = context.make_array(array_type)(context, builder)
        size = context.get_constant(types.intp, 4)
        populate_array(
            array,
            data=builder.inttoptr(args[0], ir.IntType(32).as_pointer()),
            shape=[args[1]],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return array_type(types.uintp, types.intp), codegen


@intrinsic
def copy_bytes(typingctx, target, source, length):
    """Copy ``length`` bytes between two addresses (``memcpy``). The two areas must not overlap."""

    def codegen(context, builder, signature, args):
        pointer = ir.IntType(8).as_pointer()
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [pointer, pointer, ir.IntType(64)])
        builder.call(
            memcpy,
            [
                builder.inttoptr(args[0], pointer),
                builder.inttoptr(args[1], pointer),
                args[2],
                ir.Constant(ir.IntType(1), 0),
            ],
        )
        return context.get_dummy_value()

    return types.void(types.uintp, types.uintp, types.uintp), codegen
