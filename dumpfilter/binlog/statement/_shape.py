"""The compiled code that makes the shape of a statement. A shape is the statement's text without comments, with one
question mark for each literal or list of literals.

For example, the shape of ``INSERT INTO t VALUES (1, 'a') /* c */`` is ``INSERT INTO t VALUES (?)``. Statements of one
shape name the same tables, so that the parser runs once per shape.
"""

# ruff: noqa: SIM109 (numba compares with a tuple more slowly)
from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import inner, kernel

PADDING = 4
"""The number of zero bytes that must follow a statement's text in the input of :func:`shape`. As many stand before the
shape (the text with question marks for literals) in the output.
"""

_NEWLINE, _SPACE = ord("\n"), ord(" ")
_EXCLAMATION, _DOUBLE_QUOTE, _HASH, _DOLLAR, _QUOTE = ord("!"), ord('"'), ord("#"), ord("$"), ord("'")
_OPEN, _CLOSE, _STAR, _PLUS, _COMMA, _MINUS = ord("("), ord(")"), ord("*"), ord("+"), ord(","), ord("-")
_DOT, _SLASH, _ZERO, _ONE, _NINE, _QUESTION = ord("."), ord("/"), ord("0"), ord("1"), ord("9"), ord("?")
_CAPITAL_M = ord("M")
_BACKSLASH, _UNDERSCORE, _BACKTICK = ord("\\"), ord("_"), ord("`")
_A, _B, _E, _F, _X = ord("a"), ord("b"), ord("e"), ord("f"), ord("x")
_DELETE = 127
_NOT_ASCII = 128
_LOWER = 32
"""The bit by which a lower-case ASCII letter differs from its upper-case letter. The bit is set in the lower-case
letter.
"""
_NULL, _TRUE, _FALSE, _DEFAULT = (
    np.uint64(int.from_bytes(word, "big")) for word in (b"null", b"true", b"false", b"default")
)
_WORD_BYTES = np.array(
    [c >= _NOT_ASCII or chr(c).isalnum() or c == _UNDERSCORE or c == _DOLLAR for c in range(256)]
)
"""For each value of a byte, whether the byte can be part of a word in SQL, bool[256]."""
_DIGITS_OF_VERSION = 5
_SHORTEST_LITERAL, _LONGEST_LITERAL = len("null"), len("default")


@inner
def _end_of_word(text, at):
    while _WORD_BYTES[text[at]]:
        at += 1
    return at


@inner
def _end_of_digits(text, at):
    while _ZERO <= text[at] <= _NINE:
        at += 1
    return at


@inner
def _is_number(text, start, end):
    at = _end_of_digits(text, start)
    if at == start or at == end:
        return at > start
    if at == start + 1 and text[start] == _ZERO and (text[at] == _X or text[at] == _B) and end - at > 1:
        for k in range(at + 1, end):
            is_digit = text[k] == _ZERO or text[k] == _ONE
            if text[at] == _X:
                is_digit = _ZERO <= text[k] <= _NINE or _A <= text[k] | _LOWER <= _F
            if not is_digit:
                return False
        return True
    if text[at] | _LOWER != _E:
        return False
    if at + 1 < end:
        return _end_of_digits(text, at + 1) == end
    # 1e is a name, and 1e-5 is a number.
    return (text[end] == _MINUS or text[end] == _PLUS) and _ZERO <= text[end + 1] <= _NINE


@inner
def _end_of_version(text, at, mariadb):
    """Return the offset after the version of a version comment, or ``at`` if no version stands there. A version has
    five or six digits. MySQL takes the sixth digit for the comment's text unless white space follows it.
    """
    end = _end_of_digits(text, at)
    if end - at <= _DIGITS_OF_VERSION:
        return end if end - at == _DIGITS_OF_VERSION else at
    at += _DIGITS_OF_VERSION
    return at + 1 if mariadb or (end == at + 1 and text[end] <= _SPACE) else at


@inner
def _end_of_number(text, at):
    """Return the offset in ``text`` after a number whose first word (digits, letters) ends at offset ``at``. A fraction
    or a signed exponent may follow the word.
    """
    if text[at] == _DOT:
        end = _end_of_word(text, at + 1)
        if end == at + 1 or _is_number(text, at + 1, end):
            at = end
    if text[at - 1] | _LOWER == _E and (text[at] == _MINUS or text[at] == _PLUS):
        end = _end_of_digits(text, at + 1)
        if end > at + 1:
            at = end
    return at


@inner
def _is_literal_word(text, start, end):
    if not _SHORTEST_LITERAL <= end - start <= _LONGEST_LITERAL:
        return False
    word = np.uint64(0)
    for k in range(start, end):
        word = word << np.uint64(8) | np.uint64(text[k] | _LOWER)
    return word == _NULL or word == _TRUE or word == _FALSE or word == _DEFAULT


@inner
def _before_spaces(out, n):
    while out[n - 1] == _SPACE:
        n -= 1
    return n


@inner
def _put_literal(out, n):
    """Write a question mark for a literal to the output ``out`` at offset ``n``. Return the offset after it.

    If another literal and a comma stand before, its question mark stands for both literals, and the comma is removed. A
    sign before the literal is removed if a comma or an opening parenthesis stands before the sign.
    """
    m = _before_spaces(out, n)
    if out[m - 1] == _PLUS or out[m - 1] == _MINUS:
        k = _before_spaces(out, m - 1)
        if out[k - 1] == _COMMA or out[k - 1] == _OPEN:
            m = n = k
    if out[m - 1] == _COMMA:
        k = _before_spaces(out, m - 1)
        if out[k - 1] == _QUESTION:
            return k
    out[n] = _QUESTION
    return n + 1


@inner
def _put_close(out, n):
    """Write a closing parenthesis to the output ``out`` at offset ``n``. Return the offset after it.

    If this parenthesis completes a list ``(?)`` that follows another list ``(?)`` and a comma, the second list is
    removed. So the rows of an INSERT become one list.
    """
    m = _before_spaces(out, n)
    if out[m - 1] == _QUESTION and out[m - 2] == _OPEN:
        k = _before_spaces(out, m - 2)
        if out[k - 1] == _COMMA:
            k = _before_spaces(out, k - 1)
            if out[k - 1] == _CLOSE and out[k - 2] == _QUESTION and out[k - 3] == _OPEN:
                n = k - 1
    out[n] = _CLOSE
    return n + 1


@inner
def _end_of_quoted(text, at, escape):
    """Return the offset after the quoted text that begins at offset ``at`` of ``text``. An unclosed quoted text ends
    with the whole text.

    ``escape`` is the escape character: a backslash, or the quote itself if backslashes escape nothing.
    """
    quote = text[at]
    size = text.size - PADDING
    at += 1
    while at < size:
        c = text[at]
        at += 1
        if c == quote:
            if at == size or text[at] != quote:
                break
            at += 1
        elif c == escape:
            at += 1
    return at


@kernel
def shape(text: Bytes, out: Bytes, ansi_quotes: bool, backslash_escapes: bool, mariadb: bool):
    """Write the shape of a statement into the buffer ``out``. Return the offset in ``out`` at which the shape ends.

    The shape is the statement's text with one ``?`` for each literal, and for each list of literals:
    ``VALUES (1, 'a'), (2, 'b')`` becomes ``VALUES (?)``. White space and comments become one space. Version comments
    stay. The words NULL, TRUE, FALSE and DEFAULT count as literals only after an opening parenthesis or a comma. A
    literal includes the introducer before its quote, such as ``_utf8mb4`` or ``x``.

    Parameters:
        text: the statement in UTF-8, followed by PADDING zero bytes, so that reading ahead needs no bounds checks.
        out: the output. The function writes PADDING zero bytes and then the shape. The size must be at least
            ``2 * text.size + 8``, since a space is added after the opening of each version comment.
        ansi_quotes: whether double quotes enclose names (ANSI_QUOTES) instead of strings.
        backslash_escapes: whether a backslash in a string is an escape character.
        mariadb: whether MariaDB's version comments (``/*M!``) stay. If False, they are removed like other comments.
            MySQL's version comments (``/*!``) always stay.
    """
    at = 0
    n = PADDING
    out[:n] = 0
    size = text.size - PADDING
    while at < size:
        c = text[at]
        start = at
        is_gap = c <= _SPACE
        if is_gap:
            start = at = at + 1
        elif _WORD_BYTES[c]:
            at = _end_of_word(text, at)
            if out[n - 1] != _DOT and _is_number(text, start, at):
                at = _end_of_number(text, at)
                n = _put_literal(out, n)
                start = at
            elif _is_literal_word(text, start, at):
                before = out[_before_spaces(out, n) - 1]
                if before == _OPEN or before == _COMMA:
                    n = _put_literal(out, n)
                    start = at
        elif c == _HASH or (
            c == _MINUS and text[at + 1] == _MINUS and (text[at + 2] <= _SPACE or text[at + 2] == _DELETE)
        ):
            is_gap = True
            while at < size and text[at] != _NEWLINE:
                at += 1
            start = at
        elif c == _SLASH and text[at + 1] == _STAR:
            if text[at + 2] == _EXCLAMATION:
                at = _end_of_version(text, at + 3, mariadb)
            elif mariadb and text[at + 2] == _CAPITAL_M and text[at + 3] == _EXCLAMATION:
                at = _end_of_version(text, at + 4, mariadb)
            else:
                at += 2
                while at < size and not (text[at] == _STAR and text[at + 1] == _SLASH):
                    at += 1
                start = at = at + 2
            is_gap = True
        elif c == _BACKTICK or (c == _DOUBLE_QUOTE and ansi_quotes):
            at = _end_of_quoted(text, at, c)
        elif c == _QUOTE or c == _DOUBLE_QUOTE:
            start = at = _end_of_quoted(text, at, _BACKSLASH if backslash_escapes else c)
            # An introducer such as _utf8mb4, N or x belongs to the literal.
            k = n
            while _WORD_BYTES[out[k - 1]]:
                k -= 1
            n = _put_literal(out, k if k < n and (out[k] == _UNDERSCORE or n - k == 1) else n)
        elif c == _CLOSE:
            n = _put_close(out, n)
            start = at = at + 1
        else:
            at += 1
        for k in range(start, at):
            out[n] = text[k]
            n += 1
        if is_gap and n > PADDING and out[n - 1] != _SPACE:
            out[n] = _SPACE
            n += 1
    return _before_spaces(out, n)
