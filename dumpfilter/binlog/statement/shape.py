"""The shape of a statement: its text without comments, with question marks for literals. It is the key of a cache of
parsed statements.

Each literal becomes a question mark, and a list of literals becomes a single question mark. Comments are removed, and
white space becomes one space. Names, keywords and version comments stay. Statements of the same shape name the same
tables, so that each shape is parsed once and cached. A repeated statement with other values then costs one pass and a
look-up.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.statement.parse import parse_statement
from dumpfilter.binlog.statement.statement import StatementFacts

MODE_ANSI_QUOTES = 1 << 2
MODE_MSSQL = 1 << 10
MODE_NO_BACKSLASH_ESCAPES = 1 << 20

_BRACKETS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*+' | "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | /\*.*?\*/ | \#[^\n]* | --[ \t][^\n]*
        | \[((?:[^\]]|\]\])+)\]""",
    re.VERBOSE | re.DOTALL,
)
"""A quoted text or a comment, or a name in brackets, which is the group."""

_REMEMBERED = 8192
LONGEST_REMEMBERED = 1 << 13
"""The length limit of a shape (a statement without literals) in the cache, characters.

Longer shapes are rare and would fill the memory.
"""


def statement_shape(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> str:
    """Return the shape of a statement: its text without comments, and with question marks for literals.

    The shape names the same tables as the statement.

    >>> statement_shape("INSERT INTO  t VALUES (1, 'it''s'), /* c */ (-2.5e3, NULL)")
    'INSERT INTO t VALUES (?)'
    >>> statement_shape('SELECT "a"'), statement_shape('SELECT "a"', sql_mode=MODE_ANSI_QUOTES)
    ('SELECT ?', 'SELECT "a"')
    """
    # The import loads compiled code, or compiles it, and a client of the console only reads tokens.
    from dumpfilter.binlog.statement import _shape as K

    text = without_brackets(text, family=family, sql_mode=sql_mode)
    source = np.frombuffer(text.encode("utf-8", "surrogateescape") + bytes(K.PADDING), np.uint8)
    # The output has room for one space more after the opening of each version comment.
    out = np.empty(2 * source.size + 8, np.uint8)
    end = K.shape(
        source,
        out,
        bool(sql_mode & MODE_ANSI_QUOTES),
        not sql_mode & MODE_NO_BACKSLASH_ESCAPES,
        family == "mariadb",
    )
    return out[K.PADDING : end].tobytes().decode("utf-8", "surrogateescape")


def without_brackets(text: str, *, family: Family, sql_mode: int) -> str:
    """Return a statement with backticks around each name that stands in brackets, as MariaDB's sql_mode MSSQL allows.

    In other modes the text stays as it is.

    >>> without_brackets("DELETE FROM [a]] b] WHERE c = '[d]'", family="mariadb", sql_mode=MODE_MSSQL)
    "DELETE FROM `a] b` WHERE c = '[d]'"
    """
    if family != "mariadb" or not sql_mode & MODE_MSSQL or "[" not in text:
        return text
    return _BRACKETS.sub(_in_backticks, text)


def _in_backticks(found: re.Match[str]) -> str:
    name = found[1]
    return found[0] if name is None else "`" + name.replace("]]", "]").replace("`", "``") + "`"


def read_text(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> StatementFacts:
    """Parse a statement up to the names of its objects: its kind, updated tables, created and renamed objects.

    The function parses the statement's shape (the text without literals) and caches the result, so that statements that
    differ only in literals are parsed once.
    """
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    return _remembered(shape, family) if len(shape) <= LONGEST_REMEMBERED else parse_statement(shape, family)


_remembered = functools.lru_cache(_REMEMBERED)(parse_statement)
