"""The compiled part of :mod:`dumpfilter.statement.shape`: one pass over the bytes of a statement.

:func:`shape` looks at the byte at ``at`` and calls the function for what begins there: a comment, quotes, a word.
Each of these functions reads ``text`` from ``at``, writes to ``out`` from ``n``, and returns both new positions.
The functions that every value of a long INSERT needs are inlined, which makes the pass a sixth faster.
"""

# ruff: noqa: SIM109 (numba compares with a tuple more slowly)
from __future__ import annotations

import numpy as np
from numba import njit

_NEWLINE, _SPACE = ord("\n"), ord(" ")
_EXCLAMATION, _DOUBLE_QUOTE, _HASH, _DOLLAR, _QUOTE = ord("!"), ord('"'), ord("#"), ord("$"), ord("'")
_OPEN, _CLOSE, _STAR, _PLUS, _COMMA, _MINUS = ord("("), ord(")"), ord("*"), ord("+"), ord(","), ord("-")
_DOT, _SLASH, _ZERO, _NINE, _QUESTION = ord("."), ord("/"), ord("0"), ord("9"), ord("?")
_CAPITAL_A, _CAPITAL_M, _CAPITAL_Z = ord("A"), ord("M"), ord("Z")
_BACKSLASH, _UNDERSCORE, _BACKTICK = ord("\\"), ord("_"), ord("`")
_A, _B, _E, _F, _X, _Z = ord("a"), ord("b"), ord("e"), ord("f"), ord("x"), ord("z")
_NOT_ASCII = 128
_LOWER = 32
"""The bit that makes an ASCII letter lower case."""
_NULL, _TRUE, _FALSE, _DEFAULT = (
    np.uint64(int.from_bytes(word, "big")) for word in (b"null", b"true", b"false", b"default")
)
_SHORTEST_LITERAL, _LONGEST_LITERAL = len("null"), len("default")


@njit(cache=True, nogil=True, inline="always")
def _is_digit(c):
    return _ZERO <= c <= _NINE


@njit(cache=True, nogil=True, inline="always")
def _is_word(c):
    return (
        _is_digit(c)
        or (_CAPITAL_A <= c <= _CAPITAL_Z)
        or (_A <= c <= _Z)
        or c == _UNDERSCORE
        or c == _DOLLAR
        or c >= _NOT_ASCII
    )


@njit(cache=True, nogil=True, inline="always")
def _skip_digits(text, at, end):
    while at < end and _is_digit(text[at]):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _is_number(text, start, end):
    """Tell whether a word is a number: digits, ``0x…``, ``0b…``, or digits with an exponent."""
    if not _is_digit(text[start]):
        return False
    if text[start] == _ZERO and end - start > 2 and (text[start + 1] == _X or text[start + 1] == _B):
        for k in range(start + 2, end):
            is_hex_letter = text[start + 1] == _X and _A <= (text[k] | _LOWER) <= _F
            if not (_is_digit(text[k]) or is_hex_letter):
                return False
        return True
    at = _skip_digits(text, start, end)
    if at == end:
        return True
    return text[at] | _LOWER == _E and _skip_digits(text, at + 1, end) == end


@njit(cache=True, nogil=True)
def _is_literal_word(text, start, end):
    """Tell whether a word is NULL, TRUE, FALSE or DEFAULT."""
    if not _SHORTEST_LITERAL <= end - start <= _LONGEST_LITERAL:
        return False
    word = np.uint64(0)
    for k in range(start, end):
        word = word << np.uint64(8) | np.uint64(text[k] | _LOWER)
    return word == _NULL or word == _TRUE or word == _FALSE or word == _DEFAULT


@njit(cache=True, nogil=True, inline="always")
def _before_spaces(out, n):
    """Return the position after the last byte of ``out[:n]`` that is no space."""
    while n > 0 and out[n - 1] == _SPACE:
        n -= 1
    return n


@njit(cache=True, nogil=True, inline="always")
def _put_space(out, n):
    """Write a space, unless it would be the first byte or follow another space. Return the new ``n``."""
    if n > 0 and out[n - 1] != _SPACE:
        out[n] = _SPACE
        n += 1
    return n


@njit(cache=True, nogil=True, inline="always")
def _put_literal(out, n):
    """Write a question mark for a literal. Return the new ``n``.

    The sign before the literal is removed. A literal after another in a list adds nothing.
    """
    m = _before_spaces(out, n)
    if m > 0 and (out[m - 1] == _PLUS or out[m - 1] == _MINUS):
        k = _before_spaces(out, m - 1)
        if k > 0 and (out[k - 1] == _COMMA or out[k - 1] == _OPEN):
            m = n = k
    if m > 1 and out[m - 1] == _COMMA:
        k = _before_spaces(out, m - 1)
        if k > 0 and out[k - 1] == _QUESTION:
            return k
    out[n] = _QUESTION
    return n + 1


@njit(cache=True, nogil=True)
def _line_comment(text, out, at, n):
    while at < text.size and text[at] != _NEWLINE:
        at += 1
    return at, _put_space(out, n)


@njit(cache=True, nogil=True)
def _comment(text, out, at, n, mariadb):
    """Replace ``/* … */`` by a space. Keep the opening of a version comment with its version."""
    size = text.size
    third = text[at + 2] if at + 2 < size else np.uint8(0)
    fourth = text[at + 3] if at + 3 < size else np.uint8(0)
    at += 2
    if third != _EXCLAMATION and not (mariadb and third == _CAPITAL_M and fourth == _EXCLAMATION):
        while at < size and not (text[at] == _STAR and at + 1 < size and text[at + 1] == _SLASH):
            at += 1
        return at + 2, _put_space(out, n)
    start = at - 2
    at = _skip_digits(text, at + (1 if third == _EXCLAMATION else 2), size)
    # the version is copied here, so that it is not taken for a literal
    for k in range(start, at):
        out[n] = text[k]
        n += 1
    out[n] = _SPACE
    return at, n + 1


@njit(cache=True, nogil=True)
def _quoted_name(text, out, at, n):
    """Copy a name in quotes. A doubled quote does not end the name."""
    quote = text[at]
    out[n] = quote
    n += 1
    at += 1
    while at < text.size:
        c = text[at]
        out[n] = c
        n += 1
        at += 1
        if c == quote:
            if at == text.size or text[at] != quote:
                break
            out[n] = quote
            n += 1
            at += 1
    return at, n


@njit(cache=True, nogil=True, inline="always")
def _string(text, out, at, n, backslash_escapes):
    size = text.size
    quote = text[at]
    at += 1
    while at < size:
        if text[at] == _BACKSLASH and backslash_escapes:
            at += 2
        elif text[at] == quote:
            at += 1
            if at == size or text[at] != quote:
                break
            at += 1
        else:
            at += 1
    # the character set (_utf8mb4) or the letter (x, b, n) before the quote belongs to the literal
    k = n
    while k > 0 and _is_word(out[k - 1]):
        k -= 1
    if k < n and (out[k] == _UNDERSCORE or n - k == 1):
        n = k
    return at, _put_literal(out, n)


@njit(cache=True, nogil=True, inline="always")
def _word(text, out, at, n):
    """Copy a name or keyword. Replace a number, and NULL and its kin at the beginning of a list's item."""
    size = text.size
    start = at
    while at < size and _is_word(text[at]):
        at += 1
    is_after_dot = n > 0 and out[n - 1] == _DOT
    if not is_after_dot and _is_number(text, start, at):
        return _end_of_number(text, at), _put_literal(out, n)
    m = _before_spaces(out, n)
    if m > 0 and (out[m - 1] == _OPEN or out[m - 1] == _COMMA) and _is_literal_word(text, start, at):
        return at, _put_literal(out, n)
    for k in range(start, at):
        out[n] = text[k]
        n += 1
    return at, n


@njit(cache=True, nogil=True, inline="always")
def _end_of_number(text, at):
    """Return the end of a number whose first word ends at ``at``: after its fraction and its signed exponent."""
    size = text.size
    if at < size and text[at] == _DOT:
        k = at + 1
        while k < size and _is_word(text[k]):
            k += 1
        if k == at + 1 or _is_number(text, at + 1, k):
            at = k
    if at + 1 < size and text[at - 1] | _LOWER == _E and (text[at] == _MINUS or text[at] == _PLUS):
        k = _skip_digits(text, at + 1, size)
        if k > at + 1:
            at = k
    return at


@njit(cache=True, nogil=True, inline="always")
def _put_close(out, n):
    """Write a closing parenthesis; ``(?), (?)`` becomes ``(?)``. Return the new ``n``."""
    m = _before_spaces(out, n)
    if m >= 2 and out[m - 1] == _QUESTION and out[m - 2] == _OPEN:
        k = _before_spaces(out, m - 2)
        if k > 0 and out[k - 1] == _COMMA:
            k = _before_spaces(out, k - 1)
            if k >= 3 and out[k - 1] == _CLOSE and out[k - 2] == _QUESTION and out[k - 3] == _OPEN:
                n = k - 1
    out[n] = _CLOSE
    return n + 1


@njit(cache=True, nogil=True)
def shape(text, out, ansi_quotes, backslash_escapes, mariadb):
    """Write the shape of ``text`` (uint8) to ``out``, and return its length.

    ``out`` (uint8) has at least ``2 * text.size + 8`` bytes, since a space is added after each version comment's
    opening.
    """
    at = 0
    n = 0
    size = text.size
    while at < size:
        c = text[at]
        second = text[at + 1] if at + 1 < size else np.uint8(0)
        if c <= _SPACE:
            at += 1
            n = _put_space(out, n)
        elif _is_word(c):
            at, n = _word(text, out, at, n)
        elif c == _HASH or (c == _MINUS and second == _MINUS and (at + 2 >= size or text[at + 2] <= _SPACE)):
            at, n = _line_comment(text, out, at, n)
        elif c == _SLASH and second == _STAR:
            at, n = _comment(text, out, at, n, mariadb)
        elif c == _BACKTICK or (c == _DOUBLE_QUOTE and ansi_quotes):
            at, n = _quoted_name(text, out, at, n)
        elif c == _QUOTE or c == _DOUBLE_QUOTE:
            at, n = _string(text, out, at, n, backslash_escapes)
        elif c == _CLOSE:
            n = _put_close(out, n)
            at += 1
        else:
            out[n] = c
            n += 1
            at += 1
    return _before_spaces(out, n)
