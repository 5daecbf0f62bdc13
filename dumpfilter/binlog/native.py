"""Machine operations that numba lacks: unaligned loads and stores, copies, and CRC32 by carry-less multiplication.

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
    """Prefetch the next 2 KiB of a loop from event to event, and return the offset in ``data`` after the prefetched
    bytes.

    The processor cannot predict these reads, because each event's header tells where the next event begins. The loop is
    at offset ``at`` of ``data``. The bytes up to ``fetched``, the result of the call before, are already prefetched.
    """
    while fetched < at + 2048:
        prefetch(data, fetched)
        fetched += 64
    return fetched


# CRC32 is computed by folding: carry-less multiplication moves 16 bytes forward by a fixed distance. The constants
# _FOLD_* are the factors for the polynomial 0xEDB88320, and their names give the distances in bytes. (V. Gopal et
# al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009.)
_FOLD_16 = (0x01751997D0, 0x00CCAA009E)
_FOLD_8 = (0x0163CD6124, 0)
_BARRETT = (0x01DB710641, 0x01F7011641)


@intrinsic
def crc32_fold(typingctx, address, length, crc):
    """Continue a CRC32 computation over ``length`` bytes at the memory address ``address`` with carry-less
    multiplication, and return the new register.

    ``crc`` is the register (intermediate state) so far, without the final inversion of its bits. ``length`` is a
    positive multiple of 16. The processor must have the instruction
    (:data:`~dumpfilter.base.compiler.kernels.HAS_CLMUL`).
    """

    def codegen(context, builder, signature, args):
        i8, i32, i64, i128 = (ir.IntType(bits) for bits in (8, 32, 64, 128))
        vec = ir.VectorType(i64, 2)
        multiply = builder.module.declare_intrinsic(
            "llvm.x86.pclmulqdq", (), ir.FunctionType(vec, [vec, vec, i8])
        )
        fold_16, fold_8, barrett = (ir.Constant(vec, list(pair)) for pair in (_FOLD_16, _FOLD_8, _BARRETT))

        def clmul(a, b, halves):
            return builder.call(multiply, [a, b, ir.Constant(i8, halves)])

        def load(at):
            value = builder.load(builder.inttoptr(at, vec.as_pointer()))
            value.align = 1
            return value

        def shift_right(value, n_bytes):
            shifted = builder.lshr(builder.bitcast(value, i128), ir.Constant(i128, 8 * n_bytes))
            return builder.bitcast(shifted, vec)

        def low_half(value):
            return builder.and_(value, ir.Constant(vec, [0xFFFFFFFF, 0xFFFFFFFF]))

        begin, length, crc = args
        end = builder.add(begin, length)
        seed = builder.insert_element(ir.Constant(vec, [0, 0]), builder.zext(crc, i64), ir.Constant(i32, 0))
        head = builder.block
        loop, body, done = (builder.append_basic_block(name) for name in ("fold", "fold_body", "folded"))
        first, second = builder.xor(load(begin), seed), builder.add(begin, ir.Constant(i64, 16))
        builder.branch(loop)

        builder.position_at_end(loop)
        folded, at = builder.phi(vec), builder.phi(i64)
        builder.cbranch(builder.icmp_unsigned("<", at, end), body, done)

        builder.position_at_end(body)
        product = builder.xor(clmul(folded, fold_16, 0x00), clmul(folded, fold_16, 0x11))
        following, after = builder.xor(product, load(at)), builder.add(at, ir.Constant(i64, 16))
        builder.branch(loop)
        for phi, before, again in ((folded, first, following), (at, second, after)):
            phi.add_incoming(before, head)
            phi.add_incoming(again, body)

        builder.position_at_end(done)
        x = builder.xor(shift_right(folded, 8), clmul(folded, fold_16, 0x10))
        x = builder.xor(clmul(low_half(x), fold_8, 0x00), shift_right(x, 4))
        quotient = clmul(low_half(x), barrett, 0x10)
        x = builder.xor(x, clmul(low_half(quotient), barrett, 0x00))
        return builder.extract_element(builder.bitcast(x, ir.VectorType(i32, 4)), ir.Constant(i32, 1))

    return types.uint32(types.uintp, types.uintp, types.uint32), codegen
