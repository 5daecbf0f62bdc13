"""Rules as lines of an option file (``my.cnf``), as servers read them."""

from __future__ import annotations

import re

from dumpfilter.filter.rules import Rule

_ESCAPE = re.compile(r"""\\(?=[ntrbs"'\\]|$)|"|\n|\r""")
"""The characters that need an escape sequence: quotes, line ends, and a backslash that would begin a sequence."""

_SEQUENCES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"}

_PLAIN = re.compile(r"[^#'\"\s;]*")


def option_line(rule: Rule) -> str:
    r"""Return a rule as one line of an option file.

    A backslash before ``_`` or ``%`` stays, because it is no escape sequence of option files.

    >>> from dumpfilter.filter.rules import parse_option
    >>> print(option_line(parse_option(r"--replicate-wild-ignore-table=shop\_01.tmp\_%")))
    replicate-wild-ignore-table=shop\_01.tmp\_%
    >>> print(option_line(parse_option("--replicate-ignore-table=shop.a #1")))
    replicate-ignore-table="shop.a #1"
    """
    value = _ESCAPE.sub(lambda match: _SEQUENCES[match[0]], rule.value)
    if _PLAIN.fullmatch(rule.value) is None:
        value = f'"{value}"'
    return f"{rule.kind.option}={value}"
