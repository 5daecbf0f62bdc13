"""The numbering of GTID sources for compiled code, which compares small numbers.

A GTID source is a server UUID with its tag (MySQL), or a domain id with a server id (MariaDB). A segment (consecutive
events scanned at once) stores a transaction's GTID as two integers: the number of its GTID source, and its gno or
seq_no.
"""

from __future__ import annotations

from dumpfilter.binlog.gtid import SourceKey


class SourceNumbers:
    """A register that gives each GTID source of a binlog set a number, from 0 on.

    A GTID source is a server UUID with its tag, or MariaDB's domain id and server id. Compiled code stores the small
    number instead of the UUID with each transaction. All readers of the binlog set share one register.
    """

    def __init__(self) -> None:
        self._numbers: dict[SourceKey, int] = {}
        self._keys: list[SourceKey] = []

    @property
    def count(self) -> int:
        """The number of GTID sources (server UUIDs, or MariaDB's domain and server ids) that are registered so far."""
        return len(self._keys)

    def number(self, key: SourceKey) -> int:
        """Return the number that stands for a GTID source in compiled code. A new source gets the next free number.

        A GTID source is (server UUID, tag), or MariaDB's (domain id, server id).
        """
        number = self._numbers.get(key)
        if number is None:
            number = len(self._keys)
            self._keys.append(key)
            self._numbers[key] = number
        return number

    def key(self, number: int) -> SourceKey:
        """Return the GTID source for which a number stands: (server UUID, tag), or MariaDB's (domain id, server id)."""
        return self._keys[number]
