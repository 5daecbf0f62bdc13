"""The compiled part of a statement's shape: one pass over its bytes (see :mod:`dumpfilter.statement.shape`)."""

from __future__ import annotations

import numpy as np
from numba import njit

_SPACE = 32
_NEWLINE = 10


@njit(cache=True, nogil=True)
def _is_word(c):
    return (
        (48 <= c <= 57)
        or (65 <= c <= 90)
        or (97 <= c <= 122)
        or c == 95
        or c == 36
        or c >= 128  # 0-9 A-Z a-z _ $
    )


@njit(cache=True, nogil=True)
def _is_number(text, start, end):
    """Whether a word is a number: digits, 0x…, 0b…, or digits with an exponent."""
    if not 48 <= text[start] <= 57:
        return False
    at = start
    if text[at] == 48 and end - at > 2 and (text[at + 1] == 120 or text[at + 1] == 98):
        for k in range(at + 2, end):
            c = text[k] | 32
            digit = 48 <= text[k] <= 57
            if not (digit or (text[at + 1] == 120 and 97 <= c <= 102)):
                return False
        return True
    while at < end and 48 <= text[at] <= 57:
        at += 1
    if at == end:
        return True
    if text[at] | 32 != 101:
        return False
    at += 1
    while at < end and 48 <= text[at] <= 57:
        at += 1
    return at == end


@njit(cache=True, nogil=True)
def _is_literal_word(text, start, end):
    """NULL, TRUE, FALSE, DEFAULT."""
    length = end - start
    if length < 4 or length > 7:
        return False
    key = np.uint64(0)
    for k in range(start, end):
        key = key << np.uint64(8) | np.uint64(text[k] | 32)
    return (
        key == np.uint64(0x6E756C6C)
        or key == np.uint64(0x74727565)
        or key == np.uint64(0x66616C7365)
        or key == np.uint64(0x64656661756C74)
    )


@njit(cache=True, nogil=True)
def _before(out, n):
    """The position after the last byte of ``out[:n]`` that is no space."""
    while n > 0 and out[n - 1] == _SPACE:
        n -= 1
    return n


@njit(cache=True, nogil=True)
def _put_literal(out, n):
    """Write a question mark for a literal; one after another in a list, and its sign, become one."""
    m = _before(out, n)
    if m > 0 and (out[m - 1] == 43 or out[m - 1] == 45):  # + -
        k = _before(out, m - 1)
        if k > 0 and (out[k - 1] == 44 or out[k - 1] == 40):  # , (
            m = k
            n = k
    if m > 1 and out[m - 1] == 44:
        k = _before(out, m - 1)
        if k > 0 and out[k - 1] == 63:  # ?,
            return k
    out[n] = 63
    return n + 1


@njit(cache=True, nogil=True)
def shape(text, out, ansi_quotes, backslash_escapes, mariadb):
    """Write the shape of ``text`` (uint8) to ``out`` (uint8, at least as long plus 8); its length."""
    at = 0
    n = 0
    size = text.size
    while at < size:
        c = text[at]
        following = text[at + 1] if at + 1 < size else np.uint8(0)
        if c <= _SPACE:
            at += 1
            if n > 0 and out[n - 1] != _SPACE:
                out[n] = _SPACE
                n += 1
        elif c == 35 or (c == 45 and following == 45 and (at + 2 >= size or text[at + 2] <= _SPACE)):  # # --
            while at < size and text[at] != _NEWLINE:
                at += 1
            if n > 0 and out[n - 1] != _SPACE:
                out[n] = _SPACE
                n += 1
        elif c == 47 and following == 42:  # /*
            third = text[at + 2] if at + 2 < size else np.uint8(0)
            code = third == 33 or (  # ! M!
                mariadb and third == 77 and at + 3 < size and text[at + 3] == 33
            )
            if code:
                # the opener with its version goes in whole, so that its digits are not taken for a literal
                out[n : n + 2] = text[at : at + 2]
                n += 2
                at += 2
                while at < size and (text[at] == 33 or text[at] == 77 or 48 <= text[at] <= 57):
                    digit = 48 <= text[at] <= 57
                    out[n] = text[at]
                    n += 1
                    at += 1
                    if digit and not (at < size and 48 <= text[at] <= 57):
                        break
                    if not digit and text[at - 1] == 33 and not (at < size and 48 <= text[at] <= 57):
                        break
                out[n] = _SPACE
                n += 1
            else:
                at += 2
                while at < size and not (text[at] == 42 and at + 1 < size and text[at + 1] == 47):
                    at += 1
                at += 2
                if n > 0 and out[n - 1] != _SPACE:
                    out[n] = _SPACE
                    n += 1
        elif c == 96 or (c == 34 and ansi_quotes):  # ` "
            out[n] = c
            n += 1
            at += 1
            while at < size:
                out[n] = text[at]
                n += 1
                at += 1
                if text[at - 1] == c:
                    if at < size and text[at] == c:
                        out[n] = c
                        n += 1
                        at += 1
                    else:
                        break
        elif c == 39 or c == 34:  # ' "
            at += 1
            while at < size:
                if text[at] == 92 and backslash_escapes:
                    at += 2
                elif text[at] == c:
                    at += 1
                    if at < size and text[at] == c:
                        at += 1
                    else:
                        break
                else:
                    at += 1
            # a character set or x, b, n before it belongs to it
            k = n
            while k > 0 and _is_word(out[k - 1]):
                k -= 1
            if k < n and (out[k] == 95 or n - k == 1):
                n = k
            n = _put_literal(out, n)
        elif _is_word(c):
            start = at
            while at < size and _is_word(text[at]):
                at += 1
            after_dot = n > 0 and out[n - 1] == 46
            if not after_dot and _is_number(text, start, at):
                if at < size and text[at] == 46:  # a fraction
                    k = at + 1
                    while k < size and _is_word(text[k]):
                        k += 1
                    if k == at + 1 or _is_number(text, at + 1, k):
                        at = k
                if at + 1 < size and (text[at - 1] | 32) == 101 and (text[at] == 45 or text[at] == 43):
                    k = at + 1
                    while k < size and 48 <= text[k] <= 57:
                        k += 1
                    if k > at + 1:
                        at = k  # 1e-5
                n = _put_literal(out, n)
            else:
                m = _before(out, n)
                if m > 0 and (out[m - 1] == 40 or out[m - 1] == 44) and _is_literal_word(text, start, at):
                    n = _put_literal(out, n)
                else:
                    for k in range(start, at):
                        out[n] = text[k]
                        n += 1
        elif c == 41:  # )
            m = _before(out, n)
            # (?),(? becomes (?
            if m >= 2 and out[m - 1] == 63 and out[m - 2] == 40:
                k = _before(out, m - 2)
                if k > 0 and out[k - 1] == 44:
                    k = _before(out, k - 1)
                    if k >= 3 and out[k - 1] == 41 and out[k - 2] == 63 and out[k - 3] == 40:
                        m = k - 1
                        n = m
            out[n] = c
            n += 1
            at += 1
        else:
            out[n] = c
            n += 1
            at += 1
    return _before(out, n)
