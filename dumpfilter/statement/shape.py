"""A statement's shape: its text without what no filter asks about.

Literals become question marks, lists of them one; comments go, white space becomes one space; names, keywords and
version comments stay. Statements of one shape touch the same tables, so a shape is parsed once and remembered: a
statement that comes again with other values costs one pass and a look-up, and a value list of 16 MB nothing more.
"""

from __future__ import annotations

import functools

import numpy as np

from dumpfilter.binlog.format import Family
from dumpfilter.statement import _shape as K
from dumpfilter.statement.parse import StatementText, parse_statement

MODE_ANSI_QUOTES = 1 << 2
MODE_NO_BACKSLASH_ESCAPES = 1 << 20

_REMEMBERED = 8192
LONGEST_REMEMBERED = 1 << 13
"""Characters; longer shapes are rare, and would fill the memory."""


def statement_shape(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> str:
    """The shape of a statement, itself a statement as far as its tables go.

    >>> statement_shape("INSERT INTO  t VALUES (1, 'it''s'), /* c */ (-2.5e3, NULL)")
    'INSERT INTO t VALUES (?)'
    >>> statement_shape('SELECT "a"'), statement_shape('SELECT "a"', sql_mode=MODE_ANSI_QUOTES)
    ('SELECT ?', 'SELECT "a"')
    """
    source = np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
    # a word may be written again with a space after its version comment
    out = np.empty(2 * source.size + 8, np.uint8)
    length = K.shape(
        source,
        out,
        bool(sql_mode & MODE_ANSI_QUOTES),
        not sql_mode & MODE_NO_BACKSLASH_ESCAPES,
        family == "mariadb",
    )
    return out[:length].tobytes().decode("utf-8", "surrogateescape")


def read_text(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> StatementText:
    """:func:`~dumpfilter.statement.parse.parse_statement` by shape, remembered."""
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    return _remembered(shape, family) if len(shape) <= LONGEST_REMEMBERED else parse_statement(shape, family)


_remembered = functools.lru_cache(_REMEMBERED)(parse_statement)
