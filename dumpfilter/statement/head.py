"""What the first words of a statement tell: its kind, the database it is about, where its objects live.

The databases are those of the objects a statement creates, changes or drops. What cannot be told is None,
never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.statement.lexer import Token, tokens
from dumpfilter.statement.statement import StatementKind

_END = Token("end", "")
_MOST_TOKENS = 20_000
"""A statement is not read further: what then is not known is not told, and takes no time."""
_MODIFIERS = frozenset(
    [
        *["TEMPORARY", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "AGGREGATE", "ONLINE", "OFFLINE", "IGNORE"],
        *["LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "NO_WRITE_TO_BINLOG", "LOCAL", "CONCURRENT"],
    ]
)
_DATABASE_OPTIONS = frozenset(["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "COMMENT", "READ"])
_LISTED = frozenset(["TABLE", "TABLES", "VIEW", "SEQUENCE"])
_OBJECTS = frozenset(
    ["TABLE", "TABLES", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "INDEX", "SEQUENCE", "PACKAGE"]
)
_ACCOUNTS = frozenset(["USER", "ROLE", "SERVER", "TABLESPACE", "UNDO", "LOGFILE", "INSTANCE", "RESOURCE"])


class _Reader:
    """A cursor over tokens with one token of look-ahead; it ends early in a text that is very long."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[Token] = tokens(text)
        self._left = _MOST_TOKENS
        self.next = _END
        self.advance()

    def advance(self) -> Token:
        taken = self.next
        self.next = next(self._tokens, _END) if self._left else _END
        self._left -= self._left > 0
        return taken

    @property
    def cut(self) -> bool:
        """Whether there may be more than was read."""
        return not self._left

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these keywords or symbols; its spelling, or empty."""
        for word in words:
            if self.next.keyword == word or (self.next.kind == "symbol" and self.next.text == word):
                self.advance()
                return word
        return ""

    def skip_to(self, *words: str) -> str:
        """Pass over everything up to one of these words, outside parentheses, and take it."""
        depth = 0
        while self.next is not _END:
            if depth == 0:
                found = self.accept(*words)
                if found:
                    return found
            if self.next.kind == "symbol":
                depth += {"(": 1, ")": -1}.get(self.next.text, 0)
            self.advance()
        return ""

    def exists(self) -> None:
        if self.accept("IF"):
            self.accept("NOT")
            self.accept("EXISTS")

    def name(self) -> tuple[str | None, str] | None:
        """``db.object`` or ``object``; None when no name stands here."""
        if not self.next.is_name:
            return None
        first = self.advance().text
        if self.accept("."):
            if not self.next.is_name:
                return None
            return first, self.advance().text
        return None, first


def database_statement(text: str) -> tuple[StatementKind, str | None]:
    """The kind, and the database that CREATE, ALTER or DROP DATABASE names (None: the current one).

    >>> database_statement("CREATE SCHEMA IF NOT EXISTS `db,3`")
    (<StatementKind.CREATE_DATABASE: 'CREATE DATABASE'>, 'db,3')
    >>> database_statement("CREATE TABLE t (i INT)")
    (<StatementKind.OTHER: 'statement'>, None)
    """
    reader = _Reader(text)
    verb = reader.accept("CREATE", "ALTER", "DROP")
    if verb == "CREATE" and reader.accept("OR"):
        reader.accept("REPLACE")
    if not verb or not reader.accept("DATABASE", "SCHEMA"):
        return StatementKind.OTHER, None
    kind = StatementKind(f"{verb} DATABASE")
    reader.exists()
    # ALTER DATABASE without a name goes on with its first option
    if verb == "ALTER" and reader.next.keyword in _DATABASE_OPTIONS:
        return kind, None
    return kind, reader.advance().text if reader.next.is_name else None


def object_databases(text: str, current: str | None) -> tuple[str, ...] | None:
    """The databases of the objects a statement changes, sorted; empty for one that changes none of a
    database's (accounts, FLUSH); None when its first words do not tell.

    >>> object_databases("CREATE TABLE shop.t (i INT)", "hr")
    ('shop',)
    >>> object_databases("RENAME TABLE a TO d2.a, b TO c", "d1")
    ('d1', 'd2')
    >>> object_databases("CREATE USER u", "d1")
    ()
    """
    kind, database = database_statement(text)
    if kind.is_database:
        named = database or current
        return (named,) if named else None
    reader = _Reader(text)
    names = _object_names(reader)
    if names is None or reader.cut:
        return None
    found = {db if db is not None else current for db, _ in names}
    return None if None in found else tuple(sorted(db for db in found if db is not None))


def _object_names(reader: _Reader) -> list[tuple[str | None, str]] | None:
    verb = reader.advance().keyword
    if verb in ("GRANT", "REVOKE", "FLUSH", "SET"):
        return []
    while True:
        if reader.accept("OR"):
            reader.accept("REPLACE")
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
            break
    if verb in ("CREATE", "DROP", "ALTER"):
        if reader.next.keyword in _ACCOUNTS:
            return []
        sort = reader.accept(*_OBJECTS)
        if not sort:
            return None
        if sort == "PACKAGE":
            reader.accept("BODY")
        reader.exists()
        if sort == "INDEX":
            return _names(reader, 1) if reader.skip_to("ON") else None
        names = _names(reader, 0 if verb == "DROP" and sort in _LISTED else 1)
        if verb == "ALTER" and sort in ("TABLE", "EVENT") and names:
            return _altered(reader, names)
        return names
    if verb == "RENAME":
        if not reader.accept("TABLE", "TABLES"):
            return []  # RENAME USER
        found = []
        while True:
            reader.exists()
            pair = [reader.name()]
            if not reader.skip_to("TO"):
                return None
            pair.append(reader.name())
            for name in pair:
                if name is None:
                    return None
                found.append(name)
            if not reader.accept(","):
                return found
    if verb == "TRUNCATE":
        reader.accept("TABLE")
        return _names(reader, 1)
    if verb in ("INSERT", "REPLACE"):
        reader.accept("INTO")
        return _names(reader, 1)
    if verb == "DELETE":
        # several with USING
        return _names(reader, 0) if reader.accept("FROM") else None
    if verb == "UPDATE":
        names = _names(reader, 1)
        reader.accept("AS")
        if reader.next.is_name and reader.next.keyword != "SET":
            reader.advance()
        return names if reader.accept("SET") else None
    if verb in ("ANALYZE", "OPTIMIZE", "REPAIR", "CHECK"):
        return _names(reader, 0) if reader.accept("TABLE", "TABLES") else None
    if verb == "LOAD":
        return _names(reader, 1) if reader.skip_to("INTO") and reader.accept("TABLE") else None
    return None


def _altered(reader: _Reader, names: list[tuple[str | None, str]]) -> list[tuple[str | None, str]] | None:
    """The names of an ALTER TABLE or EVENT: its own, and those of what it renames to or exchanges with."""
    while verb := reader.skip_to("RENAME", "EXCHANGE", "CONVERT"):
        if verb == "RENAME":
            if reader.next.keyword in ("COLUMN", "INDEX", "KEY"):
                continue
            reader.accept("TO", "AS", "=")
        elif verb == "EXCHANGE":
            if not reader.skip_to("WITH"):
                return None
            reader.accept("TABLE")
        elif reader.accept("PARTITION"):
            if not (reader.skip_to("TO") and reader.accept("TABLE")):
                return None
        elif not reader.accept("TABLE"):
            continue  # CONVERT TO CHARACTER SET
        name = reader.name()
        if name is None:
            return None
        names = [*names, name]
    return names


def _names(reader: _Reader, most: int) -> list[tuple[str | None, str]] | None:
    """A list of names, ``most`` at the most (0: as many as there are)."""
    found = []
    while True:
        name = reader.name()
        if name is None:
            return None
        found.append(name)
        if len(found) == most or not reader.accept(","):
            return found
