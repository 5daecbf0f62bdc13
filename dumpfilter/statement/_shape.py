"""The compiled code that makes the shape of a statement: its text without comments, with question marks for literals.

:func:`shape` looks at the byte at ``at`` and calls the function for what begins there, such as a comment, a quoted
text or a word. These functions read ``text`` from ``at`` and write to ``out`` from ``n``. They return the new
positions.
"""

# ruff: noqa: SIM109 (numba compares with a tuple more slowly)
from __future__ import annotations

import numpy as np

from dumpfilter.compiler.kernels import njit

_NEWLINE, _SPACE = ord("\n"), ord(" ")
_EXCLAMATION, _DOUBLE_QUOTE, _HASH, _DOLLAR, _QUOTE = ord("!"), ord('"'), ord("#"), ord("$"), ord("'")
_OPEN, _CLOSE, _STAR, _PLUS, _COMMA, _MINUS = ord("("), ord(")"), ord("*"), ord("+"), ord(","), ord("-")
_DOT, _SLASH, _ZERO, _NINE, _QUESTION = ord("."), ord("/"), ord("0"), ord("9"), ord("?")
_CAPITAL_M = ord("M")
_BACKSLASH, _UNDERSCORE, _BACKTICK = ord("\\"), ord("_"), ord("`")
_A, _B, _E, _F, _X = ord("a"), ord("b"), ord("e"), ord("f"), ord("x")
_NOT_ASCII = 128
_LOWER = 32
"""The bit by which a lower-case ASCII letter differs from its upper-case letter. It is set in the lower-case letter."""
_NULL, _TRUE, _FALSE, _DEFAULT = (
    np.uint64(int.from_bytes(word, "big")) for word in (b"null", b"true", b"false", b"default")
)
_WORD_BYTES = np.array(
    [c >= _NOT_ASCII or chr(c).isalnum() or c == _UNDERSCORE or c == _DOLLAR for c in range(256)]
)
"""A table that tells for each value of a byte whether the byte can be part of a word in SQL, bool[256]."""
_SHORTEST_LITERAL, _LONGEST_LITERAL = len("null"), len("default")


@njit(cache=True, nogil=True)
def _is_digit(c):
    return _ZERO <= c <= _NINE


@njit(cache=True, nogil=True)
def _is_word(c):
    return _WORD_BYTES[c]


@njit(cache=True, nogil=True)
def _byte(text, k):
    return text[np.uintp(k)]


@njit(cache=True, nogil=True)
def _put(out, n, c):
    out[np.uintp(n)] = c
    return n + 1


@njit(cache=True, nogil=True)
def _copy(text, start, end, out, n):
    for k in range(start, end):
        n = _put(out, n, _byte(text, k))
    return n


@njit(cache=True, nogil=True)
def _skip_digits(text, at, end):
    while at < end and _is_digit(_byte(text, at)):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _end_of_word(text, at):
    while at < text.size and _is_word(_byte(text, at)):
        at += 1
    return at


@njit(cache=True, nogil=True)
def _is_number(text, start, end):
    if not _is_digit(_byte(text, start)):
        return False
    if (
        _byte(text, start) == _ZERO
        and end - start > 2
        and (_byte(text, start + 1) == _X or _byte(text, start + 1) == _B)
    ):
        for k in range(start + 2, end):
            is_hex_letter = _byte(text, start + 1) == _X and _A <= (_byte(text, k) | _LOWER) <= _F
            if not (_is_digit(_byte(text, k)) or is_hex_letter):
                return False
        return True
    at = _skip_digits(text, start, end)
    if at == end:
        return True
    return _byte(text, at) | _LOWER == _E and _skip_digits(text, at + 1, end) == end


@njit(cache=True, nogil=True)
def _is_literal_word(text, start, end):
    if not _SHORTEST_LITERAL <= end - start <= _LONGEST_LITERAL:
        return False
    word = np.uint64(0)
    for k in range(start, end):
        word = word << np.uint64(8) | np.uint64(_byte(text, k) | _LOWER)
    return word == _NULL or word == _TRUE or word == _FALSE or word == _DEFAULT


@njit(cache=True, nogil=True)
def _before_spaces(out, n):
    while n > 0 and _byte(out, n - 1) == _SPACE:
        n -= 1
    return n


@njit(cache=True, nogil=True)
def _put_space(out, n):
    if n > 0 and _byte(out, n - 1) != _SPACE:
        n = _put(out, n, _SPACE)
    return n


@njit(cache=True, nogil=True)
def _put_literal(out, n):
    m = _before_spaces(out, n)
    if m > 0 and (_byte(out, m - 1) == _PLUS or _byte(out, m - 1) == _MINUS):
        k = _before_spaces(out, m - 1)
        if k > 0 and (_byte(out, k - 1) == _COMMA or _byte(out, k - 1) == _OPEN):
            m = n = k
    if m > 1 and _byte(out, m - 1) == _COMMA:
        k = _before_spaces(out, m - 1)
        if k > 0 and _byte(out, k - 1) == _QUESTION:
            return k
    return _put(out, n, _QUESTION)


@njit(cache=True, nogil=True)
def _begins_item(out, n):
    m = _before_spaces(out, n)
    return m > 0 and (_byte(out, m - 1) == _OPEN or _byte(out, m - 1) == _COMMA)


@njit(cache=True, nogil=True)
def _before_introducer(out, n):
    k = n
    while k > 0 and _is_word(_byte(out, k - 1)):
        k -= 1
    return k if k < n and (_byte(out, k) == _UNDERSCORE or n - k == 1) else n


@njit(cache=True, nogil=True)
def _line_comment(text, out, at, n):
    while at < text.size and _byte(text, at) != _NEWLINE:
        at += 1
    return at, _put_space(out, n)


@njit(cache=True, nogil=True)
def _comment(text, out, at, n, mariadb):
    size = text.size
    third = _byte(text, at + 2) if at + 2 < size else np.uint8(0)
    fourth = _byte(text, at + 3) if at + 3 < size else np.uint8(0)
    at += 2
    if third != _EXCLAMATION and not (mariadb and third == _CAPITAL_M and fourth == _EXCLAMATION):
        while at < size and not (
            _byte(text, at) == _STAR and at + 1 < size and _byte(text, at + 1) == _SLASH
        ):
            at += 1
        return at + 2, _put_space(out, n)
    start = at - 2
    at = _skip_digits(text, at + (1 if third == _EXCLAMATION else 2), size)
    # The version number of a version comment (/*!NNNNN … */) is copied here, so that it does not become a question
    # mark like a literal.
    n = _copy(text, start, at, out, n)
    return at, _put(out, n, _SPACE)


@njit(cache=True, nogil=True)
def _quoted_name(text, out, at, n):
    quote = _byte(text, at)
    n = _put(out, n, quote)
    at += 1
    while at < text.size:
        c = _byte(text, at)
        n = _put(out, n, c)
        at += 1
        if c == quote:
            if at == text.size or _byte(text, at) != quote:
                break
            n = _put(out, n, quote)
            at += 1
    return at, n


@njit(cache=True, nogil=True)
def _end_of_string(text, at, backslash_escapes):
    quote = _byte(text, at)
    escape = np.uint8(_BACKSLASH) if backslash_escapes else quote
    at += 1
    while at < text.size:
        c = _byte(text, at)
        at += 1
        if c == quote:
            if at == text.size or _byte(text, at) != quote:
                break
            at += 1
        elif c == escape:
            at += 1
    return at


@njit(cache=True, nogil=True)
def _end_of_number(text, at):
    size = text.size
    if at < size and _byte(text, at) == _DOT:
        k = _end_of_word(text, at + 1)
        if k == at + 1 or _is_number(text, at + 1, k):
            at = k
    if (
        at + 1 < size
        and _byte(text, at - 1) | _LOWER == _E
        and (_byte(text, at) == _MINUS or _byte(text, at) == _PLUS)
    ):
        k = _skip_digits(text, at + 1, size)
        if k > at + 1:
            at = k
    return at


@njit(cache=True, nogil=True)
def _put_close(out, n):
    m = _before_spaces(out, n)
    if m >= 2 and _byte(out, m - 1) == _QUESTION and _byte(out, m - 2) == _OPEN:
        k = _before_spaces(out, m - 2)
        if k > 0 and _byte(out, k - 1) == _COMMA:
            k = _before_spaces(out, k - 1)
            if (
                k >= 3
                and _byte(out, k - 1) == _CLOSE
                and _byte(out, k - 2) == _QUESTION
                and _byte(out, k - 3) == _OPEN
            ):
                n = k - 1
    return _put(out, n, _CLOSE)


@njit(cache=True, nogil=True)
def shape(text, out, ansi_quotes, backslash_escapes, mariadb):
    """Write the shape of a statement (its text without comments, with question marks for literals) to ``out``.

    Returns the length of the shape. ``text`` and ``out`` are uint8. ``out`` has at least ``2 * text.size + 8`` bytes,
    since a space is added after each version comment's opening.
    """
    at = 0
    n = 0
    size = text.size
    while at < size:
        c = _byte(text, at)
        second = _byte(text, at + 1) if at + 1 < size else np.uint8(0)
        if c <= _SPACE:
            at += 1
            n = _put_space(out, n)
        elif _is_word(c):
            start, at = at, _end_of_word(text, at)
            is_after_dot = n > 0 and _byte(out, n - 1) == _DOT
            if not is_after_dot and _is_number(text, start, at):
                at = _end_of_number(text, at)
                n = _put_literal(out, n)
            elif _begins_item(out, n) and _is_literal_word(text, start, at):
                n = _put_literal(out, n)
            else:
                n = _copy(text, start, at, out, n)
        elif c == _HASH or (
            c == _MINUS and second == _MINUS and (at + 2 >= size or _byte(text, at + 2) <= _SPACE)
        ):
            at, n = _line_comment(text, out, at, n)
        elif c == _SLASH and second == _STAR:
            at, n = _comment(text, out, at, n, mariadb)
        elif c == _BACKTICK or (c == _DOUBLE_QUOTE and ansi_quotes):
            at, n = _quoted_name(text, out, at, n)
        elif c == _QUOTE or c == _DOUBLE_QUOTE:
            at = _end_of_string(text, at, backslash_escapes)
            n = _put_literal(out, _before_introducer(out, n))
        elif c == _CLOSE:
            n = _put_close(out, n)
            at += 1
        else:
            n = _put(out, n, c)
            at += 1
    return _before_spaces(out, n)
