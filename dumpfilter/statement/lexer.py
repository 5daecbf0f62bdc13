"""Tokens of a MySQL or MariaDB statement, for what can be told from its first words.

Comments are passed over; the content of version comments (``/*!50003 … */``, MariaDB's ``/*M! … */``) is read as
code: the server that logged the statement ran it (what it did not run, it logged as a plain comment).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--(?=\s|$)[^\n]*|\#[^\n]*)
    | (?P<open>(?:/\*!\d*+)++)
    | (?P<open_mariadb>/\*M!\d*+)
    | (?P<comment>/\*)
    | (?P<close>(?:\*/)++)
    | (?P<quoted>`(?:[^`]++|``)*+`)
    | (?P<string>'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+")
    | (?P<unclosed>[`'"].*)
    | (?P<word>[0-9A-Za-z_$\u0080-\U0010ffff\udc80-\udcff]+)
    | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_LONGEST_KEYWORD = 64


class Token(NamedTuple):
    """``kind`` is "word", "quoted" (an identifier), "string" or "symbol"; ``text`` without quotes."""

    kind: str
    text: str

    @property
    def keyword(self) -> str:
        """The word in upper case; empty for what cannot be a keyword."""
        return self.text.upper() if self.kind == "word" and len(self.text) <= _LONGEST_KEYWORD else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be an identifier (double quotes: under ANSI_QUOTES)."""
        return self.kind in ("word", "quoted", "string")


def tokens(text: str, *, mariadb: bool = False) -> Iterator[Token]:
    """The tokens of ``text``, read as far as the caller asks; what is not closed goes on to the end.

    >>> [t.text for t in tokens("/* c */ DROP /*!40005 TEMPORARY */ TABLE `a``b`.c")]
    ['DROP', 'TEMPORARY', 'TABLE', 'a`b', '.', 'c']
    >>> [t.text for t in tokens("DROP /*M! TABLE */ x")], [t.text for t in tokens("/*M! a */", mariadb=True)]
    (['DROP', 'x'], ['a'])
    """
    at = 0
    while match := _TOKEN.match(text, at):
        at = match.end()
        kind = match.lastgroup
        if kind == "comment" or (kind == "open_mariadb" and not mariadb):
            end = text.find("*/", at)
            at = end + 2 if end >= 0 else len(text)
        elif kind == "word" or kind == "symbol":
            yield Token(kind, match[0])
        elif kind == "quoted":
            yield Token("quoted", match[0][1:-1].replace("``", "`"))
        elif kind == "string":
            quote = match[0][0]
            yield Token("string", match[0][1:-1].replace(quote * 2, quote))
