"""A target that counts and digests the applied transactions, so that two slaves can be compared in a few
lines.

A digest is a chain with one link for each row: ``digest(n) = blake2b-128(digest(n-1), kind, columns, lengths,
images)``. ``columns`` are the bitmaps of the columns present. The digest of a table depends on its rows and
their order alone. It does not depend on the grouping of rows into events and transactions, on table ids,
event versions or compression. The state of a digest is 16 bytes, which can be saved after any transaction and
restored.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from io import StringIO
from typing import Any, TypeVar

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Column, Table

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.row_image import ColumnPlan, row_images
from dumpfilter.binlog.rows import RowsHeader, TableMap
from dumpfilter.printable import escape_invalid_utf8

_T = TypeVar("_T")

DIGEST_BYTES = 16
_START = bytes(DIGEST_BYTES).hex()
_LENGTHS = struct.Struct("<II")
_KIND = {"insert": 1, "update": 2, "delete": 3}
_PARTIAL_UPDATE = 4
"""The kind of rows of PARTIAL_UPDATE_ROWS, whose after-images have their own layout."""
_MOST_PLANS = 1024
"""The number of column plans in the cache. A plan takes a few kilobytes."""
_TEXT_WIDTH = 110
"""The largest width of text for people, columns."""
_DIGEST_SHOWN = 12
"""The number of hex digits of a digest in text for people."""


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Counts of rows inserted, updated and deleted in a table, and the chained digest of their images (hex)."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    digest: str = _START


@dataclass(frozen=True, slots=True)
class DatabaseSummary:
    """The count of statements run with a default database, and the chained digest of their texts (hex)."""

    statements: int = 0
    digest: str = _START


def qualified_name(database: str, table: str) -> str:
    """Return ``database.table``. A name that contains a period or a backtick is quoted.

    >>> qualified_name("shop", "orders"), qualified_name("db,3", "odd.name")
    ('shop.orders', 'db,3.`odd.name`')
    """
    return f"{_quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    name = escape_invalid_utf8(name)
    return f"`{name.replace('`', '``')}`" if not name or "." in name or "`" in name else name


class SummaryTarget:
    """Counts and digests of the applied transactions, a :class:`dumpfilter.slave.targets.Target`.

    :meth:`state` shows the last commit. While a transaction is open, the target keeps a copy of each summary
    that the transaction has changed. The memory does not depend on the number of rows.
    """

    def __init__(self) -> None:
        self._tables: dict[str, TableSummary] = {}
        self._databases: dict[str, DatabaseSummary] = {}
        # Copies of the summaries that the open transaction has changed, from before it. None: the summary is new.
        self._tables_before: dict[str, TableSummary | None] = {}
        self._databases_before: dict[str, DatabaseSummary | None] = {}
        self._open = False
        self._plans: dict[tuple[bytes, bytes], ColumnPlan] = {}

    def begin(self, gtid: str | None) -> None:
        """Begin a transaction. Undo a transaction that was not committed."""
        self._undo()
        self._open = True

    def commit(self) -> None:
        """Make the changes since ``begin`` visible in :meth:`state`."""
        self._open = False
        self._tables_before.clear()
        self._databases_before.clear()

    def rows(
        self,
        database: str,
        table: str,
        table_map: TableMap,
        header: RowsHeader,
        data: bytes | memoryview,
    ) -> None:
        """Count and digest the rows of an event.

        Raises BinlogCorrupt when the rows cannot be parsed. Then none of them counts.
        """
        images = row_images(self._plan(table_map), header, data)
        if len(images) == 0:
            return
        name = qualified_name(database, table)
        have = self._tables.get(name)
        if self._open:
            self._tables_before.setdefault(name, have)
        have = have or TableSummary()
        partial = header.type == EventType.PARTIAL_UPDATE_ROWS
        head = b"".join(
            (
                bytes((_PARTIAL_UPDATE if partial else _KIND[header.kind],)),
                header.column_count.to_bytes(2, "little"),
                header.columns_before,
                header.columns_after or b"",
            )
        )
        digest = bytes.fromhex(have.digest)
        content = memoryview(data)
        at = 0
        nothing = [0] * len(images)
        before = (images.before_end - images.before_start).tolist() or nothing
        after = (images.after_end - images.after_start).tolist() or nothing
        for before_length, after_length in zip(before, after, strict=True):
            end = at + before_length + after_length  # the images of rows lie without gaps in the event
            lengths = _LENGTHS.pack(before_length, after_length)
            link = blake2b(digest + head + lengths, digest_size=DIGEST_BYTES)
            link.update(content[at:end])
            digest = link.digest()
            at = end
        rows = len(images)
        self._tables[name] = TableSummary(
            have.inserted + rows * (header.kind == "insert"),
            have.updated + rows * (header.kind == "update"),
            have.deleted + rows * (header.kind == "delete"),
            digest.hex(),
        )

    def statement(self, database: str | None, text: bytes) -> None:
        """Count and digest a statement under its default database, "" for none."""
        name = escape_invalid_utf8(database or "")
        have = self._databases.get(name)
        if self._open:
            self._databases_before.setdefault(name, have)
        have = have or DatabaseSummary()
        link = blake2b(bytes.fromhex(have.digest), digest_size=DIGEST_BYTES)
        link.update(len(text).to_bytes(8, "little"))
        link.update(text)
        self._databases[name] = replace(have, statements=have.statements + 1, digest=link.hexdigest())

    def state(self) -> dict[str, Any]:
        """Return the summaries after the last commit: ``tables`` by qualified name, ``databases`` by name,
        both sorted.

        >>> SummaryTarget().state()
        {'tables': {}, 'databases': {}}
        """
        tables = {**self._tables, **self._tables_before}
        databases = {**self._databases, **self._databases_before}
        return {
            "tables": {k: asdict(v) for k, v in sorted(tables.items()) if v is not None},
            "databases": {k: asdict(v) for k, v in sorted(databases.items()) if v is not None},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state that :meth:`state` returned. ``{}`` is the empty state.

        Raises ValueError or TypeError when ``state`` is no such state.
        """
        tables = {k: TableSummary(**v) for k, v in state.get("tables", {}).items()}
        databases = {k: DatabaseSummary(**v) for k, v in state.get("databases", {}).items()}
        for digest in (s.digest for group in (tables, databases) for s in group.values()):
            if len(bytes.fromhex(digest)) != DIGEST_BYTES:
                raise ValueError(f"not a digest: {digest!r}")
        self.commit()
        self._tables, self._databases = tables, databases

    def text(self) -> str:
        """Return the summaries after the last commit as tables, or "nothing was applied"."""
        state = self.state()
        if not state["tables"] and not state["databases"]:
            return "nothing was applied"
        out = StringIO()
        Console(file=out, width=_TEXT_WIDTH, color_system=None, force_terminal=False).print(_tables_of(state))
        return out.getvalue().rstrip("\n")

    def _undo(self) -> None:
        _put_back(self._tables, self._tables_before)
        _put_back(self._databases, self._databases_before)
        self.commit()

    def _plan(self, table_map: TableMap) -> ColumnPlan:
        key = (table_map.column_types, table_map.metadata)
        plan = self._plans.get(key)
        if plan is None:
            plan = ColumnPlan.from_table_map(table_map)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan


def _tables_of(state: dict[str, Any]) -> Group:
    """Return a table of the tables' summaries and a table of the databases' summaries, without empty ones."""
    tables = Table("table", *(_right(name) for name in ("inserted", "updated", "deleted")), "digest")
    for name, counts in sorted(state["tables"].items()):
        numbers = (f"{counts[key]:,}" for key in ("inserted", "updated", "deleted"))
        tables.add_row(escape(name), *numbers, counts["digest"][:_DIGEST_SHOWN])
    databases = Table("database", _right("statements"), "digest")
    for name, counts in sorted(state["databases"].items()):
        shown = escape(name) if name else "(none)"
        databases.add_row(shown, f"{counts['statements']:,}", counts["digest"][:_DIGEST_SHOWN])
    return Group(*(table for table in (tables, databases) if table.row_count))


def _right(name: str) -> Column:
    return Column(name, justify="right")


def _put_back(now: dict[str, _T], before: dict[str, _T | None]) -> None:
    for name, summary in before.items():
        if summary is None:
            now.pop(name, None)
        else:
            now[name] = summary
