"""A statement's error, with the server's number, SQLSTATE and wording."""

from __future__ import annotations

from dumpfilter.errors import DumpfilterError


class SqlError(DumpfilterError):
    """What a client is answered: ``ERROR number (sqlstate): message``."""

    def __init__(self, number: int, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.number = number
        self.sqlstate = sqlstate
        self.message = message

    def __str__(self) -> str:
        return f"ERROR {self.number} ({self.sqlstate}): {self.message}"
