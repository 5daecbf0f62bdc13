"""Conversion of text from clients and binlogs into text that is safe in terminals, logs, JSON and HTML."""

from __future__ import annotations

import re
import unicodedata

LONGEST_IN_LOG = 200
"""The number of characters to which a log line cuts a text that comes from a client."""

_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""The control characters but tab and line end, and the characters that change the direction of text."""

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
    r"""Return the text with what commands a terminal or misleads its reader escaped: control characters but tabs and
    line ends, and characters that change the direction of text.

    >>> for_terminal("a\tb\x1b]0;title\x07\n"), for_terminal("\u202egpj")
    ('a\tb\\x1b]0;title\\x07\n', '\\u202egpj')
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


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
