"""The words between CREATE, ALTER or DROP and the kind of the object, such as OR REPLACE and DEFINER."""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.binlog.statement.reader import TokenReader

_MODIFIERS = (
    *("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "AGGREGATE", "ONLINE", "OFFLINE", "IGNORE", "UNDO"),
    *("JSON", "RELATIONAL", "DUALITY", "MATERIALIZED"),
)


class Modifiers(NamedTuple):
    """The words before the kind of an object that decide what a statement does."""

    replaces: bool = False
    """Whether the statement says OR REPLACE."""
    temporary: bool = False


def skip_modifiers(reader: TokenReader) -> Modifiers:
    """Read on to the word for the kind of the object, and return what the words before it say."""
    replaces = temporary = False
    while True:
        if reader.accept("OR"):
            replaces |= bool(reader.accept("REPLACE"))
        elif reader.accept("TEMPORARY"):
            temporary = True
        elif reader.accept("DEFINER"):
            reader.accept("=")
            reader.advance()
            if reader.accept("@"):
                reader.advance()
            elif reader.accept("("):
                reader.accept(")")
        elif reader.accept("ALGORITHM"):
            reader.accept("=")
            reader.advance()
        elif reader.accept("SQL"):
            reader.advance()
            reader.advance()
        elif not reader.accept(*_MODIFIERS):
            return Modifiers(replaces, temporary)
