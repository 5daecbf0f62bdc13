"""The protocol between the applier and a target."""

from __future__ import annotations

from typing import Any, Protocol

from dumpfilter.binlog.rows import RowsHeader, TableMap


class Target(Protocol):
    """The object that a slave applies transactions to.

    A target receives the events that passed the slave's filter, in the binlog's order, from one thread. The
    applier calls ``begin``, then ``rows`` and ``statement`` any number of times, then ``commit``. After a crash
    the applier calls ``restore`` with the state that it saved last, and continues with the following transaction.
    """

    def begin(self, gtid: str | None) -> None:
        """Begin a transaction. Undo an earlier transaction that was not committed."""

    def rows(
        self,
        database: str,
        table: str,
        table_map: TableMap,
        header: RowsHeader,
        data: bytes | memoryview,
    ) -> None:
        """Apply the rows of one event.

        ``database`` and ``table`` are the names after rewriting. ``data`` are the rows, uncompressed.
        """

    def statement(self, database: str | None, text: bytes) -> None:
        """Apply a statement. ``text`` is in the client's character set. ``database`` is the default database,
        None or "" for none."""

    def commit(self) -> None:
        """Commit the transaction."""

    def state(self) -> dict[str, Any]:
        """Return the state after the last commit, as types of JSON. :meth:`restore` takes it."""

    def restore(self, state: dict[str, Any]) -> None:
        """Return to a state that :meth:`state` returned, and undo an open transaction.

        Raises ValueError, TypeError or KeyError when ``state`` is no state of this target.
        """

    def text(self) -> str:
        """Return the state after the last commit as text for people."""
