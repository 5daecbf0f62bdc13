# mypy: ignore-errors
"""A compiled loop that writes packed lists of numbers in the wire format of protocol buffers."""

from __future__ import annotations

from dumpfilter.base.compiler.arrays import Bytes, Int64s, UInt64s
from dumpfilter.base.compiler.kernels import inlined, kernel

_PACKED = 2
"""The wire type of a packed list, and of other values with a length."""


@inlined
def _write(number, out, at):
    """Write a number (uint64) as a varint of protocol buffers at offset ``at`` of ``out``, and return the offset after
    it.
    """
    while number > 0x7F:
        out[at] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@kernel
def write_lists(numbers: UInt64s, until: Int64s, first: int, out: Bytes):
    """Write lists of unsigned integers into ``out`` as packed repeated fields of a protocol buffers message. Return the
    size of these fields, bytes.

    ``numbers`` has the numbers of all lists, one list after the other, and ``until`` the index after each list's last
    number. List number i becomes the field with the number ``first`` + i. ``out`` must have 10 bytes for each number
    and list.
    """
    at = begin = 0
    for i in range(until.size):
        size = 0
        for k in range(begin, until[i]):
            number = numbers[k]
            size += 1
            while number > 0x7F:
                number >>= 7
                size += 1
        if size:
            at = _write((first + i) << 3 | _PACKED, out, at)
            at = _write(size, out, at)
            for k in range(begin, until[i]):
                at = _write(numbers[k], out, at)
        begin = until[i]
    return at
