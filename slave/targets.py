"""Targets: the objects to which a slave applies transactions, where a server has its tables.

The protocol :class:`Target` says what a target must do. docs/targets.md shows how to add one.

:class:`SummaryTarget` keeps only counts and hashes of the applied changes, so that two slaves can be compared quickly.
For each table it counts row changes and computes a hash over them, the digest. Each row change is hashed together with
the digest before it: ``digest(n) = blake2b-128(digest(n-1), kind, columns, lengths, images)``. ``kind`` is insert,
update or delete. ``columns`` are the number of columns and the bitmaps of the columns present. ``lengths`` are those of
the before-image and the after-image.

The digest of a table depends on the row changes and their order alone. It does not depend on the grouping of rows into
events and transactions, or on table ids, event versions or compression. A digest is 16 bytes, which the slave can save
after any transaction and restore.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from io import StringIO
from typing import Any, Protocol

from rich.console import Console, Group

from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.printable import escape_invalid_utf8
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.row_walk import row_images
from dumpfilter.binlog.rows_events import RowsHeader, TableMap


class Target(Protocol):
    """The object to which a slave applies transactions, for example a database or a summary of all changes.

    A target receives only events that passed the slave's filter, in the binlog's order and from one thread. For
    each transaction the applier calls ``begin``, then ``rows`` and ``statement`` any number of times, then
    ``commit``. After a crash the applier calls ``restore`` with the state that the slave saved last. The applier
    then continues with the transaction that follows this state.
    """

    def begin(self, gtid: str | None) -> None:
        """Begin a transaction. Undo the changes of an earlier transaction that was not committed.

        ``gtid`` is the transaction's GTID as text. In a binlog without GTIDs ``gtid`` is None.
        """

    def rows(
        self, database: str, table: str, table_map: TableMap, header: RowsHeader, data: bytes | memoryview
    ) -> None:
        """Apply the row changes of one rows event (insert, update or delete).

        ``database`` and ``table`` are the names after the slave's rewrite rules (``--replicate-rewrite-db``).
        ``table_map`` describes the columns, and ``header`` the kind of change. ``data`` holds the row images, not
        compressed.
        """

    def statement(self, database: str | None, text: bytes) -> None:
        """Apply an SQL statement that the master logged as text.

        ``text`` is in the character set of the client that ran the statement. ``database`` is the statement's default
        database after the slave's rewrite rules, or None or "" if there was none.
        """

    def commit(self) -> None:
        """Commit the transaction that :meth:`begin` began."""

    def state(self) -> dict[str, Any]:
        """Return the state of this target (the object to which a slave applies transactions) after the last commit, as
        values that JSON can represent.

        The slave saves the state in ``relay-log.info``, and gives it to :meth:`restore` after a restart. Each class of
        targets chooses what the state contains, for example counts and hashes.
        """

    def restore(self, state: dict[str, Any]) -> None:
        """Restore an earlier state of this target (the object to which a slave applies transactions), a result of
        :meth:`state`, and undo an open transaction. The value ``{}`` stands for the empty state.
        """

    def text(self) -> str:
        """Return the state after the last commit of this target (the object to which a slave applies transactions), as
        text that the slave prints for people.
        """


DIGEST_BYTES = 16
_START = bytes(DIGEST_BYTES).hex()
_LENGTHS = struct.Struct("<II")
_KIND = {"insert": 1, "update": 2, "delete": 3}
_PARTIAL_UPDATE = 4
"""The number that is hashed as the kind of change for rows of a PARTIAL_UPDATE_ROWS event.

The number differs from that of a plain update, because these after-images hold JSON diffs and have another layout.
"""
_TEXT_WIDTH = 110
"""The largest width of the tables that are printed for people, characters."""
_DIGEST_SHOWN = 12
"""The number of hex digits of a digest (hash) that are printed for people. 12 of the 32 digits suffice to compare."""


Summary = dict[str, Any]
"""The summary of one table or database: counts, and a hash (digest) over all its changes in order, in hex.

A table counts the rows ``inserted``, ``updated`` and ``deleted``. A database counts the ``statements`` that had the
database as their default, and the hash is over their texts.
"""

_NEW: dict[str, Summary] = {
    "tables": {"inserted": 0, "updated": 0, "deleted": 0, "digest": _START},
    "databases": {"statements": 0, "digest": _START},
}
"""The summaries of a table and of a database without changes. The keys are those of :meth:`SummaryTarget.state`."""


def qualified_name(database: str, table: str) -> str:
    """Return ``database.table``. An empty name, or a name with a period or a backtick, is quoted with backticks.

    >>> qualified_name("shop", "orders"), qualified_name("db,3", "odd.name")
    ('shop.orders', 'db,3.`odd.name`')
    """
    return f"{_quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    name = escape_invalid_utf8(name)
    return f"`{name.replace('`', '``')}`" if not name or "." in name or "`" in name else name


class SummaryTarget:
    """A target (the object to which a slave applies transactions) that keeps counts and hashes of the applied row
    changes and statements, but no data.

    The changes of the open transaction become part of :meth:`state` when the transaction commits. The memory depends on
    the number of tables and databases, not on the number of rows.
    """

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, Summary]] = {kind: {} for kind in _NEW}
        self._changed: dict[str, dict[str, Summary]] = {kind: {} for kind in _NEW}
        """The summaries (counts and a hash) of the tables and databases that the open transaction has changed."""

    def begin(self, gtid: str | None) -> None:
        """Begin a transaction. Undo the changes of an earlier transaction that was not committed."""
        for changed in self._changed.values():
            changed.clear()

    def commit(self) -> None:
        """Commit the open transaction, so that the counts and hashes of :meth:`state` include its changes."""
        for kind, changed in self._changed.items():
            self._committed[kind].update(changed)

    def rows(
        self, database: str, table: str, table_map: TableMap, header: RowsHeader, data: bytes | memoryview
    ) -> None:
        """Add the row changes of one event to the counts and the hash of the table.

        Raises BinlogCorrupt when a row cannot be parsed. In that case no row of the event is counted.
        """
        images = row_images(table_map, header, data)
        if not images.end.size:
            return
        name = qualified_name(database, table)
        have = self._summary("tables", name)
        partial = header.type == EventType.PARTIAL_UPDATE_ROWS
        kind = bytes([_PARTIAL_UPDATE if partial else _KIND[header.kind]])
        columns = header.columns_before + (header.columns_after or b"")
        head = kind + header.column_count.to_bytes(2, "little") + columns
        digest = bytes.fromhex(have["digest"])
        content = memoryview(data)
        for start, middle, end in zip(*(one.tolist() for one in images), strict=True):
            lengths = _LENGTHS.pack(middle - start, end - middle)
            link = blake2b(digest + head + lengths, digest_size=DIGEST_BYTES)
            link.update(content[start:end])
            digest = link.digest()
        count = {"insert": "inserted", "update": "updated", "delete": "deleted"}[header.kind]
        changed = {count: have[count] + images.end.size, "digest": digest.hex()}
        self._changed["tables"][name] = have | changed

    def statement(self, database: str | None, text: bytes) -> None:
        """Count a statement under its default database, and add its text to the hash of this database's statements.

        Statements without a default database are counted under the empty name.
        """
        name = escape_invalid_utf8(database or "")
        have = self._summary("databases", name)
        link = blake2b(bytes.fromhex(have["digest"]), digest_size=DIGEST_BYTES)
        link.update(len(text).to_bytes(8, "little"))
        link.update(text)
        self._changed["databases"][name] = {"statements": have["statements"] + 1, "digest": link.hexdigest()}

    def _summary(self, kind: str, name: str) -> Summary:
        """Return the counts and the hash of a table or database ``name``, with the changes of the open transaction.
        ``kind`` is ``tables`` or ``databases``.
        """
        return self._changed[kind].get(name) or self._committed[kind].get(name) or _NEW[kind]

    def state(self) -> dict[str, Any]:
        """Return the counts and hashes of the changes up to the last commit.

        The member ``tables`` has a summary for each ``database.table``, and ``databases`` one for each default
        database. Both are sorted by name.

        >>> SummaryTarget().state()
        {'tables': {}, 'databases': {}}
        """
        return {kind: dict(sorted(committed.items())) for kind, committed in self._committed.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Set the counts and hashes to those of ``state``, an earlier result of :meth:`state`. The value ``{}`` stands
        for no applied changes.
        """
        self.begin(None)
        self._committed = {kind: dict(state.get(kind, {})) for kind in _NEW}

    def text(self) -> str:
        """Return the counts and hashes of the changes up to the last commit as tables for people.

        If no change was committed, the text is "nothing was applied".
        """
        state = self.state()
        if not state["tables"] and not state["databases"]:
            return "nothing was applied"
        out = StringIO()
        Console(file=out, width=_TEXT_WIDTH, color_system=None, force_terminal=False).print(_tables_of(state))
        return out.getvalue().rstrip("\n")


def _tables_of(state: dict[str, dict[str, Summary]]) -> Group:
    tables = []
    for kind, summaries in state.items():
        counts = [name for name in _NEW[kind] if name != "digest"]
        rows = []
        for name, summary in sorted(summaries.items()):
            numbers = [f"{summary[count]:,}" for count in counts]
            rows.append((name or "(none)", *numbers, summary["digest"][:_DIGEST_SHOWN]))
        if rows:
            tables.append(table((kind.removesuffix("s"), *counts, "digest"), rows, numbers=counts))
    return Group(*tables)
