"""The compiled printing of row images as the comment lines of ``mysqlbinlog -v`` and ``mariadb-binlog -v``."""

from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.compiler.kernels import njit
from dumpfilter.rows import _text_kernels as K
from dumpfilter.rows._cell_kernels import NULL


class Printed(enum.IntEnum):
    """The ways to print a column's values."""

    PENDING = 0
    """The form of values that Python code prints."""
    INTEGER = 1
    """The form of integers. The programs do not know whether a column is UNSIGNED, and print both numbers."""
    NUMBER = 2
    """The form of numbers without a sign: values of ENUM, and TIMESTAMP without fractions."""
    YEAR = 3
    DATE = 4
    OLD_TIME = 5
    OLD_DATETIME = 6
    TIME = 7
    """The form of TIME with fractions of a second; the parameter is the number of decimals, as in the next two."""
    DATETIME = 8
    TIMESTAMP = 9
    DECIMAL = 10
    """The form of DECIMAL; the parameter is ``precision << 8 | scale``."""
    BITS = 11
    """The form of BIT; the parameter is the number of bits."""
    SET = 12
    """The form of SET: the bits of its bytes in the order in which they are stored."""
    STRING = 13


_TEXTS = 3
"""The texts of a column's line: before the value, behind the value, and instead of both when the value is NULL."""

_QUOTE = 39
_WIDEST = 80
"""More characters than any integer, date or time has, also a malformed one."""
_ESCAPE = 4
"""The most bytes that one byte of a string is printed as."""


class Template(NamedTuple):
    """The lines of one image: the columns of the image, and the texts around their values."""

    form: npt.NDArray[np.uint8]
    parameter: npt.NDArray[np.int64]
    text: npt.NDArray[np.uint8]
    at: npt.NDArray[np.int64]
    """The offset of each text in ``text``, three for each column, and the end."""


class ImageCells(NamedTuple):
    """The cells of one kind of images. Row r has the cells from ``r * columns`` on."""

    start: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    made: npt.NDArray[np.int64]
    """The number of the text that Python code made for each cell, or -1; empty if Python code made none."""


class Made(NamedTuple):
    """The texts that Python code made: text k is ``text[at[k] : at[k + 1]]``."""

    text: npt.NDArray[np.uint8]
    at: npt.NDArray[np.int64]


class Heads(NamedTuple):
    """The lines before the image before the change (or the only image), and before that after it."""

    first: npt.NDArray[np.uint8]
    second: npt.NDArray[np.uint8]


class Escapes(NamedTuple):
    """The bytes that each byte of a string is printed as: byte b as ``text[b, : length[b]]``."""

    text: npt.NDArray[np.uint8]
    length: npt.NDArray[np.uint8]


@njit(cache=True, nogil=True)
def most_bytes(rows, before, after, made, heads):
    """Return the number of bytes that the lines of all rows need at most."""
    total = rows * (heads.first.size + heads.second.size) + made.text.size
    for template, cells in (before, after):
        columns = template.form.size
        if not columns:
            continue
        around = template.text.size
        total += rows * around
        for c in range(columns):
            form, parameter = template.form[c], template.parameter[c]
            if form == Printed.STRING:
                for r in range(rows):
                    total += 2 + _ESCAPE * max(np.int64(0), cells.length[r * columns + c])
            elif form == Printed.SET:
                total += rows * (8 * 8 + 3)
            elif form == Printed.DECIMAL:
                total += rows * ((parameter >> 8) + _WIDEST)
            elif form != Printed.PENDING:
                total += rows * _WIDEST
    return total


@njit(cache=True, nogil=True)
def print_rows(data, rows, before, after, made, heads, escapes, out):
    """Write the lines of all rows to ``out``, and return the number of bytes written.

    ``before`` has the template and the cells of the images before the change, and ``after`` of those after it. ``out``
    has :func:`most_bytes` bytes.
    """
    o = np.int64(0)
    for r in range(rows):
        o = K.copied(heads.first, 0, heads.first.size, out, o)
        o = _image(data, r, before, made, escapes, out, o)
        o = K.copied(heads.second, 0, heads.second.size, out, o)
        o = _image(data, r, after, made, escapes, out, o)
    return o


@njit(cache=True, nogil=True)
def _image(data, r, image, made, escapes, out, o):
    template, cells = image
    columns = template.form.size
    for c in range(columns):
        o = _line(data, r * columns + c, c, template, cells, made, escapes, out, o)
    return o


@njit(cache=True, nogil=True)
def _line(data, k, c, template, cells, made, escapes, out, o):
    text, at = template.text, template.at
    first = _TEXTS * c
    prefix, suffix, null_text, end = at[first], at[first + 1], at[first + 2], at[first + 3]
    o = K.copied(text, prefix, suffix, out, o)
    length = cells.length[k]
    if length == NULL:
        return K.copied(text, null_text, end, out, o)
    if cells.made.size and cells.made[k] >= 0:
        which = cells.made[k]
        o = K.copied(made.text, made.at[which], made.at[which + 1], out, o)
    else:
        o = _value(data, cells.start[k], length, template.form[c], template.parameter[c], escapes, out, o)
    return K.copied(text, suffix, null_text, out, o)


@njit(cache=True, nogil=True)
def _value(data, at, size, form, parameter, escapes, out, o):
    if form == Printed.STRING:
        out[o] = _QUOTE
        o += 1
        for k in range(at, at + size):
            byte = data[k]
            if escapes.length[byte] == 1:
                out[o] = escapes.text[byte, 0]
                o += 1
            else:
                for n in range(escapes.length[byte]):
                    out[o + n] = escapes.text[byte, n]
                o += np.int64(escapes.length[byte])
        out[o] = _QUOTE
        return o + 1
    if form == Printed.INTEGER:
        return _integer(data, at, size, out, o)
    if form == Printed.NUMBER:
        return K.put_number(out, o, K.little(data, at, size), 1)
    if form == Printed.DECIMAL:
        return K.decimal(data, at, parameter >> 8, parameter & 255, out, o)
    if form == Printed.BITS:
        return K.bits(np.uint64(K.big(data, at, size)), parameter, out, o)
    if form == Printed.SET:
        return K.bits(np.uint64(K.big(data, at, size)), 8 * size, out, o)
    if form == Printed.YEAR:
        return K.put_number(out, o, np.uint64(1900 + np.int64(data[at])), 4)
    if form == Printed.TIMESTAMP:
        o = K.put_number(out, o, np.uint64(K.big(data, at, 4)), 1)
        return K.put_fraction(out, o, K.big(data, at + 4, (parameter + 1) >> 1), parameter)
    out[o] = _QUOTE
    o += 1
    if form == Printed.DATE:
        value = np.int64(K.little(data, at, 3))
        o = K.put_number(out, o, np.uint64(value >> 9), 4)
        out[o] = 58
        o = K.two(out, o + 1, value >> 5 & 15, 58)
        o = K.two(out, o, value & 31, 0)
    elif form == Printed.TIME:
        o = K.time2(data, at, parameter, out, o)
    elif form == Printed.DATETIME:
        o = K.datetime2(data, at, parameter, out, o)
    elif form == Printed.OLD_TIME:
        o = K.old_time(data, at, size, K.Form.OLD_TIME, out, o)
    else:
        o = K.old_time(data, at, size, K.Form.OLD_DATETIME, out, o)
    out[o] = _QUOTE
    return o + 1


@njit(cache=True, nogil=True, inline="always")
def _integer(data, at, size, out, o):
    value = K.little(data, at, size)
    if not value >> np.uint64(8 * size - 1) & np.uint64(1):
        return K.put_number(out, o, value, 1)
    negative = ~value + np.uint64(1)
    if size < 8:
        negative &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    out[o] = 45
    o = K.put_number(out, o + 1, negative, 1)
    out[o] = 32
    out[o + 1] = 40
    o = K.put_number(out, o + 2, value, 1)
    out[o] = 41
    return o + 1
