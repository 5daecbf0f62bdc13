"""A target that counts and digests: what two slaves have in common shows in a few lines.

Digests are chained, one link a row: ``digest(n) = blake2b-128(digest(n-1), kind, columns, lengths, images)``,
where ``columns`` are the bitmaps of the columns present. They depend on a table's rows and their order and on
nothing else: not on how rows are grouped into events or transactions, not on table ids, event versions or
compression. 16 bytes are the whole state, so it can be saved at any transaction and taken up again.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.row_image import ColumnPlan, row_images
from dumpfilter.binlog.rows import RowsHeader, TableMap
from dumpfilter.printable import escape_invalid_utf8
from dumpfilter.slave.targets.render import as_text

_T = TypeVar("_T")

DIGEST_BYTES = 16
_START = bytes(DIGEST_BYTES).hex()
_LENGTHS = struct.Struct("<II")
_KIND = {"insert": 1, "update": 2, "delete": 3}
_PARTIAL_UPDATE = 4  # its after-images have another layout
_PLANS = 1024  # plans kept; a few kilobytes each


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Rows inserted, updated and deleted in a table, and the chained digest of their images (hex)."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    digest: str = _START


@dataclass(frozen=True, slots=True)
class DatabaseSummary:
    """Statements run with a default database, and the chained digest of their texts (hex)."""

    statements: int = 0
    digest: str = _START


def qualified_name(database: str, table: str) -> str:
    """``database.table``, with names in backticks that could be taken for something else.

    >>> qualified_name("shop", "orders"), qualified_name("db,3", "odd.name")
    ('shop.orders', 'db,3.`odd.name`')
    """
    return f"{_quoted(database)}.{_quoted(table)}"


def _quoted(name: str) -> str:
    name = escape_invalid_utf8(name)
    return f"`{name.replace('`', '``')}`" if not name or "." in name or "`" in name else name


class SummaryTarget:
    """Counts and digests of what was applied; a :class:`dumpfilter.slave.targets.Target`.

    ``state()`` always tells the last commit: while a transaction is open, the summaries of the tables it has
    touched are kept beside, as they were, however many rows it has.
    """

    def __init__(self) -> None:
        self._tables: dict[str, TableSummary] = {}
        self._databases: dict[str, DatabaseSummary] = {}
        # What the open transaction changed, as it was before; None: was not there.
        self._tables_before: dict[str, TableSummary | None] = {}
        self._databases_before: dict[str, DatabaseSummary | None] = {}
        self._open = False
        self._plans: dict[tuple[bytes, bytes], ColumnPlan] = {}

    def begin(self, gtid: str | None) -> None:
        """Start a transaction; one that is open still was cut off and is undone."""
        self._undo()
        self._open = True

    def commit(self) -> None:
        """What was done since ``begin`` now shows in :meth:`state`."""
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
        """Count and digest the rows of an event. Raises BinlogCorrupt when they cannot be taken apart, and
        then none of them counts."""
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
            end = at + before_length + after_length  # images follow one another without gaps
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
        """Count and digest a statement, under its default database ("" for none)."""
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
        """The summary at the last commit: ``tables`` by qualified name, ``databases`` by name, both sorted.

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
        """Go on from ``state``, which :meth:`state` once returned (``{}``: from nothing).

        Raises ValueError or TypeError when it did not.
        """
        tables = {k: TableSummary(**v) for k, v in state.get("tables", {}).items()}
        databases = {k: DatabaseSummary(**v) for k, v in state.get("databases", {}).items()}
        for digest in (s.digest for group in (tables, databases) for s in group.values()):
            if len(bytes.fromhex(digest)) != DIGEST_BYTES:
                raise ValueError(f"not a digest: {digest!r}")
        self.commit()
        self._tables, self._databases = tables, databases

    def table(self) -> str:
        """The summary at the last commit as a table for people (:func:`dumpfilter.slave.targets.render.as_table`)."""
        return as_text(self.state())

    def _undo(self) -> None:
        _put_back(self._tables, self._tables_before)
        _put_back(self._databases, self._databases_before)
        self.commit()

    def _plan(self, table_map: TableMap) -> ColumnPlan:
        key = (table_map.column_types, table_map.metadata)
        plan = self._plans.get(key)
        if plan is None:
            plan = ColumnPlan.from_table_map(table_map)
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan


def _put_back(now: dict[str, _T], before: dict[str, _T | None]) -> None:
    for name, summary in before.items():
        if summary is None:
            now.pop(name, None)
        else:
            now[name] = summary
