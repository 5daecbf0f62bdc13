"""The small interface between the applier and whatever it applies to."""

from __future__ import annotations

from typing import Any, Protocol

from dumpfilter.binlog.rows import RowsHeader, TableMap


class Target(Protocol):
    """Takes what passed the slave's filter, in the binlog's order, from one thread.

    The applier calls ``begin``, then ``rows`` and ``statement`` any number of times, then ``commit``; after a
    crash it calls ``restore`` with a state it saved, and goes on with the transaction after it.
    """

    def begin(self, gtid: str | None) -> None:
        """A transaction starts. What an earlier one did that never came to its ``commit`` is to be undone."""

    def rows(
        self,
        database: str,
        table: str,
        table_map: TableMap,
        header: RowsHeader,
        data: bytes | memoryview,
    ) -> None:
        """Rows of one event. ``database`` and ``table`` are the rewritten names; ``data`` the rows, opened if
        compressed."""

    def statement(self, database: str | None, text: bytes) -> None:
        """A statement in the client's character set. ``database``: its default database, None or "": none."""

    def commit(self) -> None:
        """The transaction is complete."""

    def state(self) -> dict[str, Any]:
        """What :meth:`restore` needs to go on after the last commit, as JSON's types."""

    def restore(self, state: dict[str, Any]) -> None:
        """Become what :meth:`state` told; undoes an open transaction."""
