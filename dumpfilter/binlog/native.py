"""Machine operations that numba lacks: unaligned loads and stores, copies, and CRC32 by carry-less multiplication.

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


# CRC32 is computed by folding: carry-less multiplication moves 16 bytes forward by a fixed distance. The constants
# _FOLD_* are the factors for the polynomial 0xEDB88320, and their names give the distances in bytes. (V. Gopal et
# al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009.)
_FOLD_64 = (0x0154442BD4, 0x01C6E41596)
_FOLD_16 = (0x01751997D0, 0x00CCAA009E)
_FOLD_8 = (0x0163CD6124, 0)
_BARRETT = (0x01DB710641, 0x01F7011641)


def _reduce(builder, clmul, folded):
    i32, vec, wide = ir.IntType(32), ir.VectorType(ir.IntType(64), 2), ir.IntType(128)

    def shift_right(value, n_bytes):
        return builder.bitcast(
            builder.lshr(builder.bitcast(value, wide), ir.Constant(wide, 8 * n_bytes)), vec
        )

    def low_half(value):
        return builder.and_(value, ir.Constant(vec, [0xFFFFFFFF, 0xFFFFFFFF]))

    fold_16, fold_8, barrett = (ir.Constant(vec, list(pair)) for pair in (_FOLD_16, _FOLD_8, _BARRETT))
    x = builder.xor(shift_right(folded, 8), clmul(folded, fold_16, 0x10))
    x = builder.xor(clmul(low_half(x), fold_8, 0x00), shift_right(x, 4))
    quotient = clmul(low_half(x), barrett, 0x10)
    x = builder.xor(x, clmul(low_half(quotient), barrett, 0x00))
    return builder.extract_element(builder.bitcast(x, ir.VectorType(i32, 4)), ir.Constant(i32, 1))


@intrinsic
def crc32_fold(typingctx, address, length, crc):
    """Return the raw CRC32 register ``crc`` after ``length`` bytes more. ``length`` is a positive multiple of 16.

    Needs :data:`~dumpfilter.compiler.kernels.HAS_CLMUL`.
    """
    signature = types.uint32(types.uintp, types.uintp, types.uint32)

    def codegen(context, builder, sig, args):
        i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        vec = ir.VectorType(i64, 2)
        address, length, crc = args
        clmul_fn = builder.module.declare_intrinsic(
            "llvm.x86.pclmulqdq", (), ir.FunctionType(vec, [vec, vec, i8])
        )

        def const(pair):
            return ir.Constant(vec, list(pair))

        def clmul(a, b, select):
            return builder.call(clmul_fn, [a, b, ir.Constant(i8, select)])

        def load(addr, offset=0):
            if offset:
                addr = builder.add(addr, ir.Constant(i64, offset))
            value = builder.load(builder.inttoptr(addr, vec.as_pointer()))
            value.align = 1
            return value

        def fold(value, key, data):
            return builder.xor(builder.xor(clmul(value, key, 0x00), clmul(value, key, 0x11)), data)

        def seed(value):
            low = builder.insert_element(const((0, 0)), builder.zext(crc, i64), ir.Constant(i32, 0))
            return builder.xor(value, low)

        wide_head = builder.append_basic_block("wide_head")
        wide_loop = builder.append_basic_block("wide_loop")
        wide_done = builder.append_basic_block("wide_done")
        narrow_head = builder.append_basic_block("narrow_head")
        narrow_test = builder.append_basic_block("narrow_test")
        narrow_loop = builder.append_basic_block("narrow_loop")
        finish = builder.append_basic_block("finish")
        sixty_four, sixteen = ir.Constant(i64, 64), ir.Constant(i64, 16)

        builder.cbranch(builder.icmp_unsigned(">=", length, sixty_four), wide_head, narrow_head)

        builder.position_at_end(wide_head)
        lanes0 = [load(address, 16 * k) for k in range(4)]
        lanes0[0] = seed(lanes0[0])
        head_at = builder.add(address, sixty_four)
        head_left = builder.sub(length, sixty_four)
        builder.cbranch(builder.icmp_unsigned(">=", head_left, sixty_four), wide_loop, wide_done)

        builder.position_at_end(wide_loop)
        at = builder.phi(i64)
        left = builder.phi(i64)
        lanes = [builder.phi(vec) for _ in range(4)]
        folded = [fold(lane, const(_FOLD_64), load(at, 16 * k)) for k, lane in enumerate(lanes)]
        at_next = builder.add(at, sixty_four)
        left_next = builder.sub(left, sixty_four)
        builder.cbranch(builder.icmp_unsigned(">=", left_next, sixty_four), wide_loop, wide_done)
        for phi, first, again in zip(
            [at, left, *lanes], [head_at, head_left, *lanes0], [at_next, left_next, *folded], strict=True
        ):
            phi.add_incoming(first, wide_head)
            phi.add_incoming(again, wide_loop)

        builder.position_at_end(wide_done)
        done_at = builder.phi(i64)
        done_left = builder.phi(i64)
        done = [builder.phi(vec) for _ in range(4)]
        for phi, first, again in zip(
            [done_at, done_left, *done],
            [head_at, head_left, *lanes0],
            [at_next, left_next, *folded],
            strict=True,
        ):
            phi.add_incoming(first, wide_head)
            phi.add_incoming(again, wide_loop)
        one = done[0]
        for lane in done[1:]:
            one = fold(one, const(_FOLD_16), lane)
        builder.branch(narrow_test)

        builder.position_at_end(narrow_head)
        short = seed(load(address))
        short_at = builder.add(address, sixteen)
        short_left = builder.sub(length, sixteen)
        builder.branch(narrow_test)

        builder.position_at_end(narrow_test)
        x = builder.phi(vec)
        n_at = builder.phi(i64)
        n_left = builder.phi(i64)
        builder.cbranch(builder.icmp_unsigned(">=", n_left, sixteen), narrow_loop, finish)

        builder.position_at_end(narrow_loop)
        x_next = fold(x, const(_FOLD_16), load(n_at))
        n_at_next = builder.add(n_at, sixteen)
        n_left_next = builder.sub(n_left, sixteen)
        builder.branch(narrow_test)
        for phi, a, b, c in zip(
            [x, n_at, n_left],
            [one, done_at, done_left],
            [short, short_at, short_left],
            [x_next, n_at_next, n_left_next],
            strict=True,
        ):
            phi.add_incoming(a, wide_done)
            phi.add_incoming(b, narrow_head)
            phi.add_incoming(c, narrow_loop)

        builder.position_at_end(finish)
        return _reduce(builder, clmul, x)

    return signature, codegen
