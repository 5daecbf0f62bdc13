"""Conversion of text from clients and binlogs into text that is safe in terminals, logs, JSON and HTML."""

from __future__ import annotations

import unicodedata

LONGEST_IN_LOG = 200
"""The number of characters to which a log line cuts a text that comes from a client."""

_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


def printable(text: str, most: int = LONGEST_IN_LOG) -> str:
    r"""Return the text on one line, with control characters escaped. A text longer than ``most`` characters is cut, and
    ends in ``…``.

    >>> printable("a\nb\x1b[2J"), printable("x" * 300, 10)
    ('a\\nb\\x1b[2J', 'xxxxxxxxxx…')
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"


def for_terminal(text: str) -> str:
    r"""Return the text with all control characters escaped but tabs and line ends, so that the text cannot command a
    terminal.

    >>> for_terminal("a\tb\x1b]0;title\x07\n")
    'a\tb\\x1b]0;title\\x07\n'
    """
    return "".join(
        c if c in "\t\n" or unicodedata.category(c) != "Cc" else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def visible(name: str) -> str:
    r"""Return a name with each invisible character escaped: control characters, direction marks, lone surrogates.

    >>> visible("a\u202eb\n")
    'a\\u202eb\\n'
    """
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in _UNSEEN else c for c in name
    )


def replace_invalid_utf8(name: str) -> str:
    r"""Return a name with a question mark for each byte that is not UTF-8.

    Python decoded the name with ``surrogateescape``, which keeps such bytes as lone surrogates.

    >>> replace_invalid_utf8("caf\udce9")
    'caf?'
    """
    return name.encode("utf-8", "replace").decode("utf-8")


def escape_invalid_utf8(name: str) -> str:
    r"""Return a name with ``\xNN`` for each byte that is not UTF-8.

    Python decoded the name with ``surrogateescape``, which keeps such bytes as lone surrogates.

    >>> escape_invalid_utf8("caf\udce9")
    'caf\\xe9'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
