"""Machine operations that numba lacks: unaligned loads and stores, copies, and reads of files.

Most are LLVM intrinsics, so that compiled code uses them without a call. Addresses are ``uintp``
(``array.ctypes.data``). The operations do not check that an address lies inside a buffer. The caller checks it.
"""

from __future__ import annotations

from dumpfilter.base.compiler.kernels import inlined, intrinsic, is_compiling

if is_compiling:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.np.arrayobj import populate_array


def _load(bits: int):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer)
            value.align = 1
            return value

        return getattr(types, f"uint{bits}")(types.uintp), codegen

    return load


load_u8 = _load(8)
load_u16 = _load(16)
load_u32 = _load(32)
load_u64 = _load(64)


def _store(bits: int):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            builder.store(args[1], pointer).align = 1
            return context.get_dummy_value()

        return types.void(types.uintp, getattr(types, f"uint{bits}")), codegen

    return store


store_u8 = _store(8)
store_u32 = _store(32)


@intrinsic
def array_at(typingctx, address, length):
    """Return the uint32 array of ``length`` entries that begins at a memory address. The caller must keep this memory
    allocated.

    Unlike ``numba.carray``, this works in functions without numba's reference counts.
    """

    def codegen(context, builder, signature, args):
        address, size = args
        return _array(
            context, builder, signature, builder.inttoptr(address, ir.IntType(32).as_pointer()), size
        )

    return types.Array(types.uint32, 1, "C")(types.uintp, types.intp), codegen


def _array(context, builder, signature, data, size):
    """Return the array of ``size`` entries at the pointer ``data``, of the type that the intrinsic with this
    ``signature`` returns.
    """
    array = context.make_array(signature.return_type)(context, builder)
    width = context.get_constant(types.intp, signature.return_type.dtype.bitwidth // 8)
    populate_array(array, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
    return array._getvalue()


@intrinsic
def floats(typingctx, size):
    """Return an array of ``size`` 64-bit floats for use in one call of a kernel (compiled function). ``size`` must be a
    constant.

    The compiler knows that no other array shares this memory. Without this knowledge, it does not use vector
    instructions for short loops over several arrays.
    """
    if not isinstance(size, types.Literal):
        # numba then asks again with the constant.
        return None

    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        memory = cgutils.alloca_once(builder, ir.ArrayType(double, size.literal_value))
        data = builder.bitcast(memory, double.as_pointer())
        return _array(context, builder, signature, data, context.get_constant(types.intp, size.literal_value))

    return types.Array(types.float64, 1, "C")(size), codegen


@intrinsic
def copy_bytes(typingctx, target, source, length):
    """Copy ``length`` bytes from the address ``source`` to the address ``target`` (``memcpy``). The two areas must not
    overlap.
    """

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


@intrinsic
def read_file(typingctx, fd, parts, count, offset, flags):
    """Read from the file descriptor ``fd`` at the byte offset ``offset`` (``preadv2``), and return the number of bytes
    read, or -1 for an error. ``flags`` is 0, or ``RWF_NOWAIT`` to read only what is in the page cache.

    ``parts`` is the address of ``count`` pairs of int64: the address and the length of a part of the memory to fill.
    """

    def codegen(context, builder, signature, args):
        i32, i64 = ir.IntType(32), ir.IntType(64)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(i64, [i32, i64, i32, i64, i32]), "preadv2"
        )
        fd, parts, count, offset, flags = args
        fd, count, flags = (builder.trunc(each, i32) for each in (fd, count, flags))
        return builder.call(function, [fd, parts, count, offset, flags])

    return types.int64(types.int64, types.uintp, types.int64, types.int64, types.int64), codegen


@intrinsic
def prefetch(typingctx, array, index):
    """Ask the processor to load the cache line of ``array[index]``, without waiting for the line."""

    def codegen(context, builder, signature, args):
        array_type, _ = signature.args
        values = context.make_array(array_type)(context, builder, args[0])
        entry = cgutils.get_item_pointer(context, builder, array_type, values, [args[1]])
        pointer, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer], ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        )
        # to read, into all levels of the cache, and data instead of instructions
        builder.call(function, [builder.bitcast(entry, pointer), *(ir.Constant(i32, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@inlined
def prefetch_ahead(data, fetched, at):
    """Prefetch the next 2 KiB of ``data`` for a loop that goes from event to event. Return the offset in ``data`` after
    the prefetched bytes.

    The processor cannot predict these reads, because each event's header tells where the next event begins. The loop is
    at offset ``at`` of ``data``. The bytes up to ``fetched``, the result of the call before, are already prefetched.
    """
    while fetched < at + 2048:
        prefetch(data, fetched)
        fetched += 64
    return fetched
