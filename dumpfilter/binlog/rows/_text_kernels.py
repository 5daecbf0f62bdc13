"""The compiled conversion of cells (values of row images) to text.

A cell that these functions cannot convert is *pending*. Python code makes the text of such cells first, and
:func:`write_texts` inserts this text.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.compiler.kernels import inlined, inner, kernel
from dumpfilter.binlog.row_image import DIGIT_BYTES
from dumpfilter.binlog.row_walk import NULL


class Form(enum.IntEnum):
    """The ways to convert the stored values of a column to text, such as a signed integer or a DATE.

    Some ways need a number, such as the count of decimals, which is in the field ``parameter`` of :class:`Columns`.
    """

    PENDING = 0
    """Python code converts the value."""
    SIGNED = 1
    UNSIGNED = 2
    BOTH = 3
    """A number of which the binlog does not tell whether it is signed. A negative number is followed by its unsigned
    value in parentheses.
    """
    DATE = 4
    """A DATE. The column's ``parameter`` is the code of the character between year, month and day."""
    OLD_TIME = 5
    OLD_DATETIME = 6
    OLD_TIMESTAMP = 7
    TIME = 8
    """A TIME with fractions of a second. The column's ``parameter`` is the number of decimals, also for DATETIME,
    TIMESTAMP and SECONDS.
    """
    DATETIME = 9
    TIMESTAMP = 10
    SECONDS = 11
    """A TIMESTAMP as seconds since 1970."""
    DECIMAL = 12
    """A DECIMAL. The column's ``parameter`` is ``precision << 8 | scale``."""
    UTF8 = 13
    MAPPED = 14
    """A string in which each byte is replaced by up to four bytes. The column's ``parameter`` is the :class:`ByteMap`.
    """
    HEX = 15
    """A binary string, as hexadecimal digits. The column's ``parameter`` is the minimum length, since the binlog stores
    BINARY without trailing zero bytes.
    """
    TOGETHER = 16
    """A number whose texts Python code makes for all values at once, such as a FLOAT or an ENUM. The column's
    ``parameter`` is the size of a value, bytes.
    """
    COPY = 17
    """Bytes that are copied as they are, with zero bytes up to the length in the column's ``parameter``."""
    BASE64 = 18
    """Lines of 76 characters in base64."""
    CHECKSUM = 19
    """A CRC32, whose stored bytes are little-endian, as hexadecimal digits."""


class ByteMap(enum.IntEnum):
    """The mappings that replace each byte of a string by up to four bytes, to convert its character set or to escape
    it.
    """

    LATIN1 = 0
    """MySQL's latin1, which is Windows' code page 1252. The server maps the five undefined bytes to themselves."""
    HEX = 1
    MYSQL = 2
    """The escapes of ``mysqlbinlog -v``."""
    MARIADB = 3
    """The escapes of ``mariadb-binlog -v``, which escapes neither quotes nor backslashes."""


_ESCAPES = {ord(c): f"\\{name}".encode() for c, name in zip("'\\\b\t\n\f\r", "'\\btnfr", strict=True)}
_LOWEST = 32
"""The lowest byte that is no control character."""
_MAPS = {
    ByteMap.LATIN1: lambda byte: (bytes((byte,)).decode("cp1252", "ignore") or chr(byte)).encode(),
    ByteMap.HEX: lambda byte: b"%02X" % byte,
    ByteMap.MARIADB: lambda byte: b"\\x%02x" % byte if byte < _LOWEST else bytes((byte,)),
    ByteMap.MYSQL: lambda byte: _ESCAPES.get(byte) or _MAPS[ByteMap.MARIADB](byte),
}
MAPPED_BYTES = 4
"""The maximum number of bytes by which a :class:`ByteMap` replaces one byte of a string."""
_MAPPED = [[_MAPS[one](byte) for byte in range(256)] for one in ByteMap]
_MAP_LENGTH = np.array([[len(text) for text in texts] for texts in _MAPPED], np.uint8)
_MAP_TEXT = np.array([[[*text.ljust(MAPPED_BYTES, b"\0")] for text in texts] for texts in _MAPPED], np.uint8)

_DIGIT_BYTES = np.array(DIGIT_BYTES, np.int64)
"""The sizes of groups of 0 to 9 decimal digits in a DECIMAL value, bytes."""

_PAIRS = np.array([[*b"%02d" % k] for k in range(100)], np.uint8)
_POWERS = 10 ** np.arange(20, dtype=np.uint64)
_BIG, _LITTLE = True, False
_OPEN, _CLOSE, _MINUS, _POINT, _ZERO, _COLON, _BLANK, _LETTER_X = np.frombuffer(b"()-.0: x", np.uint8)
_PAD, _LINE_END = np.frombuffer(b"=\n", np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_BASE64_LINE = 57
"""The number of bytes that one line of base64 encodes."""


class Columns(NamedTuple):
    """The rules by which the values of many table columns become text: how a column's values are converted, and the
    texts before and after each value. ``form``, ``parameter``, ``room`` and ``room_per_byte`` have one entry for each
    column.
    """

    form: Bytes
    parameter: Int64s
    around: Bytes
    """Three texts for each column: one before a value, one after a value, and one that stands for NULL."""
    around_at: Int64s
    """The offset in ``around`` of each of its texts, and at the end the length of ``around``."""
    room: Int64s
    """The largest size of a cell's text with the texts around it, bytes. The part that grows with the value
    (:attr:`room_per_byte`) and texts from Python code are not included.
    """
    room_per_byte: Int64s
    """The largest number of bytes by which a cell's text grows with each byte of the value."""


@inlined
def _number(data, at, width, is_big):
    """Return the unsigned integer in the ``width`` bytes at offset ``at`` of ``data``, as uint64. With ``is_big`` the
    bytes are big-endian, otherwise little-endian.
    """
    value = np.uint64(0)
    for k in range(width):
        value = value << np.uint64(8) | np.uint64(data[at + (k if is_big else width - 1 - k)])
    return value


@inner
def _digits(out, at, value, least):
    """Write an unsigned number with at least ``least`` digits to ``out`` at offset ``at``. Return the offset after the
    number.
    """
    digits, power = least, _POWERS[least]
    while digits < 20 and value >= power:
        digits += 1
        power *= np.uint64(10)
    k = np.uint64(at + digits)
    for _ in range(digits >> 1):
        rest = value // np.uint64(100)
        pair = value - rest * np.uint64(100)
        k -= np.uint64(2)
        out[k] = _PAIRS[pair, 0]
        out[k + np.uint64(1)] = _PAIRS[pair, 1]
        value = rest
    if digits & 1:
        out[at] = _ZERO + np.uint8(value)
    return at + digits


@inlined
def _copied(data, at, end, out, o):
    """Copy the bytes ``data[at:end]`` to ``out`` at offset ``o``. Return the offset after the copied bytes."""
    size, first, to = np.uint64(end - at), np.uint64(at), np.uint64(o)
    for k in range(size):
        out[to + k] = data[first + k]
    return o + end - at


@inner
def _mapped(data, at, end, table, out, o):
    """Write ``data[at:end]`` to ``out`` at offset ``o``, with each byte replaced as the :class:`ByteMap` ``table``
    says. Return the offset after the text.
    """
    for k in range(at, end):
        byte = data[k]
        for n in range(_MAP_LENGTH[table, byte]):
            out[o] = _MAP_TEXT[table, byte, n]
            o += 1
    return o


@inner
def _moment(data, at, size, form, parameter, out, o):
    """Write the date or time value at ``data[at]`` as text to ``out`` at offset ``o``. Return the offset after the
    text.

    ``form`` (a :class:`Form`) tells how the value is stored and shown. ``parameter`` is the number that this form
    needs, such as the number of decimals. ``size`` is the size of the stored value, bytes.
    """
    years, months, days = np.int64(0), np.int64(0), np.int64(0)
    hour, minute, second = np.int64(0), np.int64(0), np.int64(0)
    has_date, has_clock = form != Form.TIME and form != Form.OLD_TIME, form != Form.DATE
    mark, decimals, fraction, is_negative = _MINUS, np.int64(0), np.int64(0), False
    if form == Form.DATE:
        value = np.int64(_number(data, at, 3, _LITTLE))
        years, months, days = value >> 9, value >> 5 & 15, value & 31
        mark = np.uint8(parameter)
    elif form == Form.OLD_TIME or form == Form.OLD_DATETIME:
        number = _number(data, at, size, _LITTLE)
        is_negative = form == Form.OLD_TIME and number >= np.uint64(0x800000)
        number = np.uint64(0x1000000) - number if is_negative else number
        date = np.int64(number // np.uint64(1000000)) if has_date else np.int64(0)
        clock = np.int64(number % np.uint64(1000000) if has_date else number)
        years, months, days = date // 10000, date % 10000 // 100, date % 100
        hour, minute, second = clock // 10000, clock // 100 % 100, clock % 100
    elif form == Form.TIME:
        # The number is biased, so that times sort as their bytes do.
        decimals, width = parameter, (parameter + 1) >> 1
        value = np.int64(_number(data, at, 3 + width, _BIG)) - (np.int64(0x800000) << (8 * width))
        is_negative = value < 0
        value = abs(value)
        clock = value >> (8 * width)
        hour, minute, second = clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63
        fraction = value & ((np.int64(1) << (8 * width)) - 1)
    elif form == Form.DATETIME:
        decimals = parameter
        value = np.int64(_number(data, at, 5, _BIG)) - 0x8000000000
        is_negative = value < 0
        value = abs(value)
        date, clock = value >> 17, value & 0x1FFFF
        years, months, days = (date >> 5) // 13, (date >> 5) % 13, date & 31
        hour, minute, second = clock >> 12, clock >> 6 & 63, clock & 63
        fraction = np.int64(_number(data, at + 5, (decimals + 1) >> 1, _BIG))
    else:
        decimals = parameter if form != Form.OLD_TIMESTAMP else np.int64(0)
        seconds = np.int64(_number(data, at, 4, form != Form.OLD_TIMESTAMP))
        fraction = np.int64(_number(data, at + 4, (decimals + 1) >> 1, _BIG))
        if form == Form.SECONDS:
            has_date = has_clock = False
            o = _digits(out, o, np.uint64(seconds), 1)
        elif seconds or fraction:
            # From days to a date of the Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
            z = seconds // 86400 + 719468
            era = z // 146097
            doe = z - era * 146097
            yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
            doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
            mp = (5 * doy + 2) // 153
            days = doy - (153 * mp + 2) // 5 + 1
            months = mp + 3 if mp < 10 else mp - 9
            years = yoe + era * 400 + (1 if months <= 2 else 0)
            hour, minute, second = seconds // 3600 % 24, seconds // 60 % 60, seconds % 60
    if is_negative:
        out[o] = _MINUS
        o += 1
    if has_date:
        o = _digits(out, o, np.uint64(years), 4)
        out[o] = mark
        o = _digits(out, o + 1, np.uint64(months), 2)
        out[o] = mark
        o = _digits(out, o + 1, np.uint64(days), 2)
        if has_clock:
            out[o] = _BLANK
            o += 1
    if has_clock:
        o = _digits(out, o, np.uint64(hour), 2)
        out[o] = _COLON
        o = _digits(out, o + 1, np.uint64(minute), 2)
        out[o] = _COLON
        o = _digits(out, o + 1, np.uint64(second), 2)
    if decimals:
        # A fraction is stored with two digits a byte.
        out[o] = _POINT
        o = _digits(out, o + 1, np.uint64(fraction // 10 if decimals & 1 else fraction), decimals)
    return o


@inner
def _decimal(data, at, precision, scale, out, o):
    """Write the DECIMAL(``precision``, ``scale``) at ``data[at]`` as text to ``out`` at offset ``o``. Return the
    offset after the text.
    """
    # bin2decimal: big-endian groups of 9 digits in 4 bytes; the first bit is the sign, inverted, and a negative number
    # has all bits inverted.
    flip = np.int64(0) if data[at] & 0x80 else np.int64(0xFF)
    if flip:
        out[o] = _MINUS
        o += 1
    begun = False
    here = at
    # The digits before the point begin with the smaller group. Those after the point end with the smaller group.
    left = precision - scale
    first = True
    for part in range(2):
        while left > 0:
            digits = left % 9 if part == 0 and left % 9 else min(left, 9)
            value = np.int64(0)
            for _ in range(_DIGIT_BYTES[digits]):
                byte = np.int64(data[here]) ^ flip
                if first:
                    byte ^= 0x80
                    first = False
                value = value << 8 | byte
                here += 1
            if begun or value:
                o = _digits(out, o, np.uint64(value), digits if begun else 1)
                begun = True
            left -= digits
        if part == 0:
            if not begun:
                out[o] = _ZERO
                o += 1
                begun = True
            left = scale
            if scale:
                out[o] = _POINT
                o += 1
    return o


@inner
def _is_utf8(data, at, end):
    """Tell whether the bytes ``data[at:end]`` are valid UTF-8 by Unicode: shortest form, no surrogates, at most
    U+10FFFF.
    """
    others = np.uint8(0)
    for k in range(np.uint64(at), np.uint64(end)):
        others |= data[k]
    if others < 0x80:
        return True
    # How many bytes of a character are left, and the values that the next of them may have.
    left, low, high = 0, 0x80, 0xBF
    for k in range(at, end):
        byte = data[k]
        if left:
            if not low <= byte <= high:
                return False
            left, low, high = left - 1, 0x80, 0xBF
        elif byte >= 0x80:
            left = int(byte >= 0xC2) + int(byte >= 0xE0) + int(byte >= 0xF0)
            if not left or byte > 0xF4:
                return False
            # Some second bytes would make an overlong form, a surrogate, or a character beyond U+10FFFF.
            low = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
            high = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
    return left == 0


@inner
def _base64(data, at, end, out, o):
    """Write the bytes ``data[at:end]`` to ``out`` at offset ``o`` as lines of base64. Return the offset after the
    lines.
    """
    while at < end:
        line = min(at + _BASE64_LINE, end)
        while at < line:
            count = min(line - at, 3)
            bits = np.uint32(0)
            for k in range(3):
                bits = bits << 8 | (np.uint32(data[at + k]) if k < count else np.uint32(0))
            for k in range(4):
                out[o + k] = _BASE64[bits >> 18 - 6 * k & 63] if k <= count else _PAD
            at += count
            o += 4
        out[o] = _LINE_END
        o += 1
    return o


@kernel
def write_texts(
    data: Bytes,
    start: Int64s,
    length: Int64s,
    column: Int64s,
    columns: Columns,
    more: Bytes,
    more_at: Int64s,
    k: int,
    n: int,
    out: Bytes,
    o: int,
    out_at: Int64s,
):
    """Write the texts of the cells (values of single columns) from cell ``k`` on to ``out`` from offset ``o`` on. Stop
    when the next text may not fit into ``out``.

    Cell i lies at ``start[i]`` in ``data`` with ``length[i]`` bytes; the length -1 means NULL. ``column[i]`` is the
    index in ``columns`` of the cell's column, which tells how its values become text. ``more`` has the texts that
    Python code has made, one after the other. ``more_at`` has the offset of each, and at the end the length of
    ``more``. The next of these texts has the index ``n``. Unless ``out_at`` is empty, ``out_at[i]`` gets the offset of
    the text of cell i, and one more entry after the last cell gets the end of the texts.

    Return a tuple: the index of the first cell that was not written, the next ``n``, and the offset after the texts.
    """
    forms, parameters, around, around_at, rooms, rooms_per_byte = columns
    while k < start.size:
        size, c = length[k], column[k]
        form, parameter = forms[c], parameters[c]
        is_pending = size != NULL and (form == Form.PENDING or form == Form.TOGETHER)
        room = rooms[c] + max(size, 0) * rooms_per_byte[c]
        if is_pending:
            room += more_at[n + 1] - more_at[n]
        if o + room > out.size:
            break
        if out_at.size:
            out_at[k] = o
        at = start[k]
        k += 1
        if size == NULL:
            o = _copied(around, around_at[3 * c + 2], around_at[3 * c + 3], out, o)
            continue
        o = _copied(around, around_at[3 * c], around_at[3 * c + 1], out, o)
        if is_pending:
            o = _copied(more, more_at[n], more_at[n + 1], out, o)
            n += 1
        elif form == Form.COPY or (form == Form.UTF8 and _is_utf8(data, at, at + size)):
            o = _copied(data, at, at + size, out, o)
            for _ in range(parameter - size):
                out[o] = 0
                o += 1
        elif form == Form.MAPPED:
            o = _mapped(data, at, at + size, parameter, out, o)
        elif form == Form.UTF8 or form == Form.HEX:
            out[o] = _ZERO
            out[o + 1] = _LETTER_X
            o = _mapped(data, at, at + size, ByteMap.HEX, out, o + 2)
            for _ in range(2 * (parameter - size)):
                out[o] = _ZERO
                o += 1
        elif form == Form.DECIMAL:
            o = _decimal(data, at, parameter >> 8, parameter & 255, out, o)
        elif form == Form.BASE64:
            o = _base64(data, at, at + size, out, o)
        elif form == Form.CHECKSUM:
            for byte in range(size):
                out[o + 2 * byte] = _HEX[data[at + size - 1 - byte] >> 4]
                out[o + 2 * byte + 1] = _HEX[data[at + size - 1 - byte] & 15]
            o += 2 * size
        elif Form.DATE <= form <= Form.SECONDS:
            o = _moment(data, at, size, form, parameter, out, o)
        else:
            value = _number(data, at, size, _LITTLE)
            if form == Form.UNSIGNED or not value >> np.uint64(8 * size - 1) & np.uint64(1):
                o = _digits(out, o, value, 1)
            else:
                bits = ~np.uint64(0) >> np.uint64(64 - 8 * size)
                out[o] = _MINUS
                o = _digits(out, o + 1, (~value + np.uint64(1)) & bits, 1)
                if form == Form.BOTH:
                    out[o] = _BLANK
                    out[o + 1] = _OPEN
                    o = _digits(out, o + 2, value, 1)
                    out[o] = _CLOSE
                    o += 1
        o = _copied(around, around_at[3 * c + 1], around_at[3 * c + 2], out, o)
    if out_at.size and k == start.size:
        out_at[k] = o
    return k, n, o
