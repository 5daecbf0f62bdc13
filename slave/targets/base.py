"""The protocol of targets: the calls with which the applier hands transactions to a target."""

from __future__ import annotations

from typing import Any, Protocol

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

        ``gtid`` is the transaction's GTID as text. It is None in a binlog without GTIDs.
        """

    def rows(
        self,
        database: str,
        table: str,
        table_map: TableMap,
        header: RowsHeader,
        data: bytes | memoryview,
    ) -> None:
        """Apply the row changes of one rows event (insert, update or delete).

        ``database`` and ``table`` are the names after the slave's rewrite rules (``--replicate-rewrite-db``).
        ``table_map`` describes the columns, and ``header`` the kind of change. ``data`` holds the row images, not
        compressed.
        """

    def statement(self, database: str | None, text: bytes) -> None:
        """Apply an SQL statement that the master logged as text.

        ``text`` is in the character set of the client that ran the statement. ``database`` is the statement's
        default database after the slave's rewrite rules. It is None or "" if there was no default database.
        """

    def commit(self) -> None:
        """Commit the transaction that :meth:`begin` began."""

    def state(self) -> dict[str, Any]:
        """Return the target's state after the last commit, as values that JSON can represent.

        The slave saves the state in ``relay-log.info``, and gives it to :meth:`restore` after a restart. What the state
        has to contain is the target's own choice.
        """

    def restore(self, state: dict[str, Any]) -> None:
        """Return to an earlier state, which :meth:`state` returned, and undo an open transaction.

        Raises ValueError, TypeError or KeyError when ``state`` is no state of this target.
        """

    def text(self) -> str:
        """Return the target's state after the last commit as text that the slave prints for people."""
