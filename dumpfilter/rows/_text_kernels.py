"""The compiled conversion of cells (values of row images) to UTF-8 text, for the Arrow columns.

A cell that these functions cannot convert is *pending*. Python code makes its text, and :func:`splice` puts the text in
its place.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.decimals import DIGIT_BYTES
from dumpfilter.compiler.kernels import njit
from dumpfilter.rows._cell_kernels import NULL


class Form(enum.IntEnum):
    """The ways to convert a column's values to text."""

    PENDING = 0
    """The form of values that Python code converts."""
    SIGNED = 1
    UNSIGNED = 2
    YEAR = 3
    DATE = 4
    OLD_TIME = 5
    OLD_DATETIME = 6
    OLD_TIMESTAMP = 7
    TIME = 8
    """The form of TIME with fractions of a second; the parameter is the number of decimals, as in the next two."""
    DATETIME = 9
    TIMESTAMP = 10
    DECIMAL = 11
    """The form of DECIMAL; the parameter is ``precision << 8 | scale``."""
    BITS = 12
    """The form of BIT; the parameter is the number of bits."""
    SET_BITS = 13
    """The form of a SET whose members the binlog does not name: the bits of a little-endian number."""
    ENUM = 14
    """The form of an ENUM whose values the binlog names; the parameter is ``first label << 16 | number of labels``."""
    SET = 15
    """The form of a SET whose members the binlog names, with a parameter like that of ENUM."""
    UTF8 = 16
    LATIN1 = 17
    HEX = 18
    PADDED_HEX = 19
    """The form of BINARY, which the binlog stores without its last zero bytes; the parameter is the column's length."""
    REAL = 20
    """The form of FLOAT and DOUBLE, whose texts are made together; the parameter is the size of a value, bytes."""


class Labels(NamedTuple):
    """The names of the values of ENUM and SET columns, in UTF-8.

    Label k has the bytes ``text[at[k] : at[k + 1]]``.
    """

    text: npt.NDArray[np.uint8]
    at: npt.NDArray[np.int64]


_TIME_WIDTH = 48
"""More characters than any integer, date or time has, also a malformed one."""
_DECIMAL_SPARE = 48
"""More characters than a DECIMAL has besides its digits: sign, point, zero, and the excess of malformed groups."""
_SET_SPARE = 3 * 64
"""The most bytes of a SET's commas, and of the numbers of members without a name."""
_LATIN1_WIDTH = 3
"""The most bytes in UTF-8 of a character of MySQL's latin1, which is Windows' code page 1252."""

_CP1252 = np.array(
    [ord(bytes((byte,)).decode("cp1252", "ignore") or chr(byte)) for byte in range(256)], np.int64
)
"""The Unicode characters of latin1. The server maps the five bytes that code page 1252 lacks to themselves."""

_DIGIT_BYTES = np.array(DIGIT_BYTES, np.int64)
"""The sizes of groups of 0 to 9 decimal digits in a DECIMAL value, bytes."""

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@njit(cache=True, nogil=True, inline="always")
def little(data, at, width):
    """Return the little-endian number in ``width`` bytes, as uint64."""
    value = np.uint64(0)
    for k in range(width):
        value |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return value


@njit(cache=True, nogil=True, inline="always")
def big(data, at, width):
    """Return the big-endian number in ``width`` bytes, as int64."""
    value = np.int64(0)
    for k in range(width):
        value = value << 8 | np.int64(data[at + k])
    return value


@njit(cache=True, nogil=True, inline="always")
def put_number(out, at, value, least):
    """Write an unsigned number with at least ``least`` digits, and return the offset behind it."""
    digits = 1
    rest = value // np.uint64(10)
    while rest:
        digits += 1
        rest //= np.uint64(10)
    if digits < least:
        digits = least
    for k in range(digits - 1, -1, -1):
        out[at + k] = np.uint8(48) + np.uint8(value % np.uint64(10))
        value //= np.uint64(10)
    return at + digits


@njit(cache=True, nogil=True, inline="always")
def two(out, at, value, mark):
    """Write a number with at least two digits and ``mark`` (0: none), and return the offset behind them."""
    at = put_number(out, at, np.uint64(value), 2)
    if mark:
        out[at] = mark
        at += 1
    return at


@njit(cache=True, nogil=True, inline="always")
def _date(out, at, year, month, day):
    at = put_number(out, at, np.uint64(year), 4)
    out[at] = 45
    at = two(out, at + 1, month, 45)
    return two(out, at, day, 0)


@njit(cache=True, nogil=True, inline="always")
def _clock(out, at, hour, minute, second):
    at = two(out, at, hour, 58)
    at = two(out, at, minute, 58)
    return two(out, at, second, 0)


@njit(cache=True, nogil=True, inline="always")
def put_fraction(out, at, value, decimals):
    """Write ``decimals`` digits of a fraction, stored with two digits a byte, and return the offset behind them."""
    if decimals == 0:
        return at
    if decimals & 1:
        value //= 10
    out[at] = 46
    return put_number(out, at + 1, np.uint64(value), decimals)


@njit(cache=True, nogil=True, inline="always")
def _unix_time(out, at, seconds):
    if seconds == 0:
        at = _date(out, at, 0, 0, 0)
        out[at] = 32
        return _clock(out, at + 1, 0, 0, 0)
    days, rest = seconds // 86400, seconds % 86400
    # From days to a date of the Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    at = _date(out, at, year, month, day)
    out[at] = 32
    return _clock(out, at + 1, rest // 3600, rest // 60 % 60, rest % 60)


@njit(cache=True, nogil=True)
def time2(data, at, decimals, out, o):
    """Write a TIME with fractions of a second, and return the offset behind it."""
    width = (decimals + 1) >> 1
    whole = big(data, at, 3 + width)
    # The number is biased, so that times sort as their bytes do.
    value = whole - (np.int64(0x800000) << (8 * width))
    if value < 0:
        out[o] = 45
        o += 1
        value = -value
    seconds = value >> (8 * width)
    fraction = value & ((np.int64(1) << (8 * width)) - 1)
    o = _clock(out, o, seconds >> 12 & 0x3FF, seconds >> 6 & 63, seconds & 63)
    return put_fraction(out, o, fraction, decimals)


@njit(cache=True, nogil=True)
def datetime2(data, at, decimals, out, o):
    """Write a DATETIME with fractions of a second, and return the offset behind it."""
    value = big(data, at, 5) - 0x8000000000
    if value < 0:
        out[o] = 45
        o += 1
        value = -value
    days, clock = value >> 17, value & 0x1FFFF
    months = days >> 5
    o = _date(out, o, months // 13, months % 13, days & 31)
    out[o] = 32
    o = _clock(out, o + 1, clock >> 12, clock >> 6 & 63, clock & 63)
    return put_fraction(out, o, big(data, at + 5, (decimals + 1) >> 1), decimals)


@njit(cache=True, nogil=True)
def old_time(data, at, length, form, out, o):
    """Write a value of a temporal type without fractions, and return the offset behind it."""
    value = np.int64(little(data, at, length))
    if form == Form.OLD_TIME:
        if value >= 0x800000:
            value = 0x1000000 - value
            out[o] = 45
            o += 1
        return _clock(out, o, value // 10000, value // 100 % 100, value % 100)
    if form == Form.OLD_TIMESTAMP:
        return _unix_time(out, o, value)
    number = np.uint64(value)
    date, clock = number // np.uint64(1000000), np.int64(number % np.uint64(1000000))
    day = np.int64(date % np.uint64(10000))
    o = _date(out, o, date // np.uint64(10000), day // 100, day % 100)
    out[o] = 32
    return _clock(out, o + 1, clock // 10000, clock // 100 % 100, clock % 100)


@njit(cache=True, nogil=True)
def decimal(data, at, precision, scale, out, o):
    """Write a DECIMAL, and return the offset behind it."""
    # bin2decimal: big-endian groups of 9 digits in 4 bytes; the first bit is the sign, inverted, and a negative number
    # has all bits inverted.
    flip = np.int64(0) if data[at] & 0x80 else np.int64(0xFF)
    if flip:
        out[o] = 45
        o += 1
    whole = precision - scale
    begun = False
    here = at
    # The digits before the point begin with the smaller group. Those after the point end with the smaller group.
    left = whole
    first = True
    for part in range(2):
        while left > 0:
            if part == 0 and left % 9:
                digits = left % 9
            else:
                digits = min(left, 9)
            value = np.int64(0)
            for _ in range(_DIGIT_BYTES[digits]):
                byte = np.int64(data[here]) ^ flip
                if first:
                    byte ^= 0x80
                    first = False
                value = value << 8 | byte
                here += 1
            if begun:
                o = put_number(out, o, np.uint64(value), digits)
            elif value:
                begun = True
                o = put_number(out, o, np.uint64(value), 1)
            left -= digits
        if part == 0:
            if not begun:
                out[o] = 48
                o += 1
                begun = True
            left = scale
            if scale:
                out[o] = 46
                o += 1
    return o


@njit(cache=True, nogil=True, inline="always")
def bits(value, count, out, o):
    """Write the lowest ``count`` bits of a number as ``b'101'``, and return the offset behind them."""
    out[o] = 98
    out[o + 1] = 39
    for k in range(count):
        out[o + 2 + k] = np.uint8(48) + np.uint8(value >> np.uint64(count - 1 - k) & np.uint64(1))
    out[o + 2 + count] = 39
    return o + 3 + count


@njit(cache=True, nogil=True)
def is_utf8(data, at, end):
    """Tell whether bytes are UTF-8 as Unicode defines it: shortest form, no surrogates, at most U+10FFFF."""
    while at < end:
        byte = data[at]
        if byte < 0x80:
            at += 1
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= byte <= 0xDF:
            more = 1
        elif 0xE0 <= byte <= 0xEF:
            more = 2
            if byte == 0xE0:
                low = 0xA0
            elif byte == 0xED:
                high = 0x9F
        elif 0xF0 <= byte <= 0xF4:
            more = 3
            if byte == 0xF0:
                low = 0x90
            elif byte == 0xF4:
                high = 0x8F
        else:
            return False
        if at + more >= end or not low <= data[at + 1] <= high:
            return False
        for k in range(2, more + 1):
            if data[at + k] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@njit(cache=True, nogil=True, inline="always")
def _latin1(data, at, end, out, o):
    for k in range(at, end):
        character = _CP1252[data[k]]
        if character < 0x80:
            out[o] = character
            o += 1
        elif character < 0x800:
            out[o] = 0xC0 | character >> 6
            out[o + 1] = 0x80 | character & 63
            o += 2
        else:
            out[o] = 0xE0 | character >> 12
            out[o + 1] = 0x80 | character >> 6 & 63
            out[o + 2] = 0x80 | character & 63
            o += 3
    return o


@njit(cache=True, nogil=True, inline="always")
def _hexadecimal(data, at, end, out, o):
    out[o] = 48
    out[o + 1] = 120
    o += 2
    for k in range(at, end):
        out[o] = _HEX[data[k] >> 4]
        out[o + 1] = _HEX[data[k] & 15]
        o += 2
    return o


@njit(cache=True, nogil=True, inline="always")
def copied(data, at, end, out, o):
    """Copy bytes to ``out``, and return the offset behind them."""
    for k in range(at, end):
        out[o] = data[k]
        o += 1
    return o


@njit(cache=True, nogil=True)
def _named(data, at, length, form, parameter, labels, out, o):
    text, label_at = labels
    value = little(data, at, length)
    label, names = parameter >> 16, parameter & 0xFFFF
    if form == Form.ENUM:
        if value == 0:
            return o  # the empty string that stands for an invalid value
        if value > np.uint64(names):
            return put_number(out, o, value, 1)
        k = label + np.int64(value) - 1
        return copied(text, label_at[k], label_at[k + 1], out, o)
    begun = False
    for k in range(64):
        if value >> np.uint64(k) & np.uint64(1):
            if begun:
                out[o] = 44
                o += 1
            begun = True
            if k < names:
                o = copied(text, label_at[label + k], label_at[label + k + 1], out, o)
            else:
                o = put_number(out, o, np.uint64(k + 1), 1)
    return o


@njit(cache=True, nogil=True)
def most_bytes(length, column, forms, parameters, label_bytes):
    """Return the number of bytes that the texts of all cells need at most.

    ``column`` has each cell's column. ``label_bytes`` has the bytes of a SET's names, and of an ENUM's longest name.
    """
    total = np.int64(0)
    for k in range(length.size):
        size = length[k]
        if size < 0:
            continue
        c = column[k]
        form = forms[c]
        if form == Form.UTF8 or form == Form.HEX:
            total += 2 + 2 * size
        elif form == Form.PADDED_HEX:
            total += 2 + 2 * max(size, parameters[c])
        elif form == Form.LATIN1:
            total += _LATIN1_WIDTH * size
        elif form == Form.DECIMAL:
            total += (parameters[c] >> 8) + _DECIMAL_SPARE
        elif form == Form.BITS:
            total += parameters[c] + 3
        elif form == Form.SET_BITS:
            total += 8 * size + 3
        elif form == Form.ENUM or form == Form.SET:
            total += label_bytes[c] + _SET_SPARE
        elif form != Form.PENDING and form != Form.REAL:
            total += _TIME_WIDTH
    return total


@njit(cache=True, nogil=True)
def write_texts(data, start, length, column, forms, parameters, labels, out, out_at, pending):
    """Write the texts of all cells to ``out``, one after the other, and return the number of bytes written.

    ``out_at[k]`` gets the offset at which the text of cell k begins. The last entry gets the end. ``pending[k]``
    becomes true for a cell whose text Python code makes. ``out`` has :func:`most_bytes` bytes.
    """
    o = np.int64(0)
    for k in range(start.size):
        out_at[k] = o
        size = length[k]
        if size == NULL:
            continue
        at, c = start[k], column[k]
        form, parameter = forms[c], parameters[c]
        if size < NULL or form == Form.PENDING or form == Form.REAL:
            pending[k] = True
        elif form == Form.UTF8:
            if is_utf8(data, at, at + size):
                o = copied(data, at, at + size, out, o)
            else:
                o = _hexadecimal(data, at, at + size, out, o)
        elif form == Form.SIGNED:
            value = little(data, at, size)
            if value >> np.uint64(8 * size - 1) & np.uint64(1):
                out[o] = 45
                o += 1
                value = ~value + np.uint64(1)
                if size < 8:
                    value &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
            o = put_number(out, o, value, 1)
        elif form == Form.UNSIGNED:
            o = put_number(out, o, little(data, at, size), 1)
        elif form == Form.LATIN1:
            o = _latin1(data, at, at + size, out, o)
        elif form == Form.HEX:
            o = _hexadecimal(data, at, at + size, out, o)
        elif form == Form.PADDED_HEX:
            o = _hexadecimal(data, at, at + size, out, o)
            for _ in range(2 * (parameter - size)):
                out[o] = 48
                o += 1
        elif form == Form.DECIMAL:
            o = decimal(data, at, parameter >> 8, parameter & 255, out, o)
        elif form == Form.ENUM or form == Form.SET:
            o = _named(data, at, size, form, parameter, labels, out, o)
        elif form == Form.BITS:
            o = bits(np.uint64(big(data, at, size)), parameter, out, o)
        elif form == Form.SET_BITS:
            o = bits(little(data, at, size), 8 * size, out, o)
        else:
            o = _moment(data, at, size, form, parameter, out, o)
    out_at[start.size] = o
    return o


@njit(cache=True, nogil=True)
def _moment(data, at, size, form, decimals, out, o):
    if form == Form.TIMESTAMP:
        o = _unix_time(out, o, big(data, at, 4))
        return put_fraction(out, o, big(data, at + 4, (decimals + 1) >> 1), decimals)
    if form == Form.DATETIME:
        return datetime2(data, at, decimals, out, o)
    if form == Form.TIME:
        return time2(data, at, decimals, out, o)
    if form == Form.DATE:
        value = np.int64(little(data, at, 3))
        return _date(out, o, value >> 9, value >> 5 & 15, value & 31)
    if form == Form.YEAR:
        # The year 0000 is stored as 0, and the others from 1901 on.
        return put_number(out, o, np.uint64(1900 + data[at] if data[at] else 0), 4)
    return old_time(data, at, size, form, out, o)


@njit(cache=True, nogil=True)
def splice(texts, text_at, pending, more, more_at, out, out_at):
    """Join the texts of all cells with those that Python code has made; the n-th text of ``more`` is the n-th pending.

    ``out`` has room for the bytes of both.
    """
    o = np.int64(0)
    n = 0
    for k in range(pending.size):
        out_at[k] = o
        if pending[k]:
            o = copied(more, more_at[n], more_at[n + 1], out, o)
            n += 1
        else:
            o = copied(texts, text_at[k], text_at[k + 1], out, o)
    out_at[pending.size] = o


@njit(cache=True, nogil=True)
def gather(data, start, width, out):
    """Copy values of ``width`` bytes from the offsets ``start`` to ``out``, one after the other."""
    for k in range(start.size):
        for n in range(width):
            out[k * width + n] = data[start[k] + n]
