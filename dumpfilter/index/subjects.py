"""Subjects: the tables and statements about which filters decide, numbered from 0.

The index stores the number of its subject with every event. A filter decides once about each subject whether to send
or drop its events. The dump thread looks the decision up in an array by the subject's number. WL#2387 proposes flags
on the server's table object for the same purpose.

:func:`read_statement` decodes a Query or Execute_load_query event into a statement, with the kind, databases and tables
that filters decide by.
"""

from __future__ import annotations

import functools
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.charsets import has_certain_names
from dumpfilter.binlog.cursor import decode_name, encode_name
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.query import QueryEvent, TableName, client_charset, decode_statement_event
from dumpfilter.binlog.statement.facts import LONGEST_REMEMBERED, statement_shape
from dumpfilter.binlog.statement.parse import make_statement, parse_statement
from dumpfilter.binlog.statement.statement import SchemaAndTable, Statement


@dataclass(frozen=True)
class TableSubject:
    """A table that Table_map events name. Filters decide about its row events, so the table is called their subject.

    The names are decoded from UTF-8. Other bytes are kept by surrogateescape.
    """

    database: str
    table: str

    def tables(self) -> tuple[TableName, ...]:
        """Return this table as a tuple of one name. Statements have a method of this name, too, so that callers treat
        both alike.
        """
        return (TableName(self.database, self.table),)

    def schemas(self) -> tuple[str, ...]:
        """Return the schema of this table as a tuple of one name. The tuple is empty for a table without a schema."""
        return (self.database,) if self.database else ()

    def schema_and_table(self) -> SchemaAndTable:
        """Return the table's schema and name as a pair."""
        return SchemaAndTable(self.database, self.table)


Subject = TableSubject | Statement


def numbers_on_tables(subjects: Sequence[Subject]) -> list[int]:
    """Return the indexes in ``subjects`` of the tables, and of the statements that concern tables. A caller that warns
    of misspelled rules checks whether a filter sends any of them.

    Other statements, such as CREATE DATABASE, are left out, because table rules send them even if no rule matches. If
    ``subjects`` has only such statements, the result has the indexes of all.
    """
    found = [
        number
        for number, subject in enumerate(subjects)
        if isinstance(subject, TableSubject) or subject.is_on_table
    ]
    return found or list(range(len(subjects)))


_LEAST_ROOM = 512
"""The least number of further tables for which the hash table of tables' names gets room when it is made or enlarged.
"""


class Subjects:
    """A register that gives a number to each subject of a binlog set, for all scans of the set. A subject is a table or
    a statement that filters decide about, or a set of them.

    :meth:`table` numbers tables, :meth:`statement` numbers statements, and :meth:`any_of` numbers sets. The compiled
    function that scans a file's events finds the numbers of tables in ``names``. A number is never given to another
    subject, so that a filter's verdicts by number stay valid. The mutex ``lock`` lets one scan at a time use the
    register.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._known: list[Subject | None] = []
        self._statements: dict[Statement, int] = {}
        self._tables: dict[bytes, int] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._members: dict[int, tuple[int, ...]] = {}
        self._make_room()

    @property
    def count(self) -> int:
        """The number of subjects registered so far: tables, statements, and sets of them. The next subject gets this
        number.
        """
        return len(self._known)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Subject:
        """Return the table or statement with the number ``number``. Raises KeyError for a number that stands for a set
        of tables and statements (see :meth:`members`).
        """
        subject = self._known[number]
        if subject is None:
            raise KeyError(number)
        return subject

    def members(self, number: int) -> tuple[int, ...] | None:
        """Return the numbers of the tables and statements in a set. ``number`` is the set's number, from
        :meth:`any_of`.

        The result is None when ``number`` belongs to a single table or statement.

        All numbers in the result are smaller than the set's number.
        """
        return self._members.get(number)

    def single(self, number: int) -> list[int]:
        """Return the numbers of the single tables and statements for which ``number`` stands.

        A number stands for one table or statement, or for a set of them. A set may have sets as members, which are
        replaced by their own members. The list is ascending and has no number twice.
        """
        members = self.members(number)
        if members is None:
            return [number]
        return sorted({inner for member in members for inner in self.single(member)})

    def since(self, first: int) -> Iterator[Subject]:
        """Yield the tables and statements with the numbers from ``first`` on, ascending. A number that stands for a set
        of tables and statements is skipped.
        """
        for number in range(first, self.count):
            if self.members(number) is None:
                yield self[number]

    def statement(self, statement: Statement) -> int:
        """Return the number by which this register and the filters' verdicts refer to a statement. A statement without
        a number gets the next one.

        Equal statements have one number.
        """
        number = self._statements.get(statement)
        if number is None:
            number = self._statements[statement] = self._add(statement)
        return number

    def table(self, key: bytes) -> int:
        """Return the number that this register has given to a table. A table without a number gets the next one.

        ``key`` has the table's names as a Table_map event has them: length and database, NUL, length and table, NUL.
        """
        number = self._tables.get(key)
        if number is None:
            database, table = key[1 : 1 + key[0]], key[3 + key[0] : -1]
            number = self._add(TableSubject(decode_name(database), decode_name(table)))
            self._tables[key] = number
            if number < self.names.start.size and self._heap_used + len(key) <= self.names.heap.size:
                self._enter(key, number)
            else:
                self._make_room()
        return number

    def number_of(self, subject: Subject) -> int:
        """Return the number that this register has given to ``subject``, a table or statement. A new one gets the next
        number.
        """
        if isinstance(subject, TableSubject):
            names = encode_name(subject.database), encode_name(subject.table)
            return self.table(b"".join(bytes([len(name)]) + name + b"\0" for name in names))
        return self.statement(subject)

    def any_of(self, numbers: Iterable[int]) -> int:
        """Return the number of a set of tables and statements, given their numbers. A filter sends an event that has
        this set as its subject if the filter sends any member.

        An XA COMMIT has such a set as its subject, for example. Equal sets have one number. A set of one table or
        statement has the number of that table or statement.
        """
        members = tuple(sorted(set(numbers)))
        if len(members) == 1:
            return members[0]
        number = self._sets.get(members)
        if number is None:
            number = self._sets[members] = self._add(None)
            self._members[number] = members
        return number

    def _add(self, subject: Subject | None) -> int:
        self._known.append(subject)
        return len(self._known) - 1

    def _make_room(self) -> None:
        """Replace ``names``, the hash table of the tables' names, by one with room for more tables, and enter the names
        of all tables.
        """
        # The import loads compiled code, or compiles it, and programs that only compare rules scan nothing.
        from dumpfilter.index import _scan as K

        more = 3 * len(self._tables) + _LEAST_ROOM
        self.names = K.Names(
            heap=np.zeros(32 * more + 2 * sum(map(len, self._tables)), np.uint8),
            start=np.zeros(self.count + more, np.int64),
            length=np.zeros(self.count + more, np.int64),
            slots=np.full(1 << (4 * more).bit_length(), -1, np.int64),
        )
        self._heap_used = 0
        for key, number in self._tables.items():
            self._enter(key, number)

    def _enter(self, key: bytes, number: int) -> None:
        """Write the names of a table to the hash table ``names``, in which the compiled scan looks for the table's
        number.
        """
        heap, start, length, slots = self.names
        slot = zlib.crc32(key) & slots.size - 1
        while slots[slot] >= 0:
            slot = slot + 1 & slots.size - 1
        end = self._heap_used + len(key)
        heap[self._heap_used : end] = np.frombuffer(key, np.uint8)
        start[number], length[number], slots[slot] = self._heap_used, len(key), number
        self._heap_used = end


_FRAMES = (b"ROLLBACK", b"SAVEPOINT ", b"RELEASE SAVEPOINT ")


def read_statement(event: bytes, fd: FormatDescription) -> tuple[Statement, int | None]:
    """Return two values: the statement of a Query or Execute_load_query event, and None or a role
    (:mod:`dumpfilter.binlog.roles`).

    A role says on what condition the master sends an event, for example with any other event of its transaction. A role
    is returned only for a Query_compressed event with a text such as XA END, which the compiled scan could not read.
    ``event`` is the event with its header, and ``fd`` the format description event in force. Raises BinlogCorrupt
    (without file and position) when the event is malformed.
    """
    kind = EventType(event[4])
    query = decode_statement_event(kind, fd.body(event), fd)
    frame: int | None = None
    if kind == EventType.QUERY_COMPRESSED:
        head = query.raw[:20].upper()
        if head.startswith(b"XA "):
            frame = R.XA
        elif head.startswith(_FRAMES):
            frame = R.FRAME
    return statement_of(query, fd), frame


def statement_of(query: QueryEvent, fd: FormatDescription) -> Statement:
    """Return the statement of a decoded Query event, with the tables and databases by which filters decide whether to
    send the event.

    ``fd`` is the format description event in force. Equal statements with other literals give equal results, because
    the statement's text is reduced to its shape, with ``?`` in place of literals.

    If the servers may read another name than Python, for example in a character set without a codec, the kind is
    UNKNOWN, and so are the tables.
    """
    status = query.status
    shape = statement_shape(query.text, family=fd.family, sql_mode=status.sql_mode or 0)
    if not query.has_certain_tokens or not (
        shape.isascii() or has_certain_names(shape, client_charset(status.charset_client))
    ):
        shape = ""
    read = _subject if len(shape) <= LONGEST_REMEMBERED else _subject.__wrapped__
    return read(
        shape, fd.family, query.db or None, query.updated_dbs, status.table_map_for_update, query.tables_info
    )


@functools.lru_cache(8192)
def _subject(
    shape: str,
    family: Family,
    current_database: str | None,
    updated_databases: tuple[str, ...] | None,
    table_map_for_update: int | None,
    tables_info: tuple[TableName, ...] | None,
) -> Statement:
    return make_statement(
        parse_statement(shape, family),
        current_database=current_database,
        updated_databases=updated_databases,
        table_map_for_update=table_map_for_update,
        tables_info=tables_info,
    )
