"""The indexes of GTID sources, which compiled code stores and compares instead of UUIDs.

A GTID source is a server UUID with its tag (MySQL), or a domain id with a server id (MariaDB). A segment (consecutive
events scanned at once) stores a transaction's GTID as two integers. The two integers are the index of the GTID source
in :class:`SourceNumbers`, and the gno or seq_no.
"""

from __future__ import annotations

import threading

from dumpfilter.binlog.gtid import MariadbGtid, MysqlGtid, SourceKey


class SourceNumbers:
    """A list of the GTID sources of a binlog set, in which each source has an index from 0 on, its *source number*.

    A GTID source is a server UUID with its tag, or MariaDB's domain id and server id. Compiled code stores the index
    instead of the UUID with each transaction. All readers of the binlog set share one such list, in any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[SourceKey, int] = {}
        self._keys: list[SourceKey] = []

    @property
    def count(self) -> int:
        """The number of GTID sources (server UUIDs, or MariaDB's domain and server ids) that are registered so far."""
        return len(self._keys)

    def number(self, key: SourceKey) -> int:
        """Return the index (from 0 on) that stands for a GTID source in compiled code. A source that has no index yet
        is added and gets the next one.

        ``key`` is the GTID source: (server UUID, tag), or MariaDB's (domain id, server id).
        """
        if key not in self._numbers:
            with self._lock:
                if key not in self._numbers:
                    # Another thread may use the number as soon as the dictionary has it.
                    self._keys.append(key)
                    self._numbers[key] = len(self._keys) - 1
        return self._numbers[key]

    def key(self, number: int) -> SourceKey:
        """Return the GTID source that has the index ``number`` (a result of :meth:`number`): (server UUID, tag), or
        MariaDB's (domain id, server id).
        """
        return self._keys[number]

    def gtid(self, number: int, last: int) -> str:
        """Return a GTID as text. ``number`` is the index of the GTID's source (server UUID with a tag, or MariaDB's
        domain and server id), and ``last`` its gno or seq_no.
        """
        first, second = self._keys[number]
        if isinstance(first, bytes):
            return str(MysqlGtid(first, last, str(second)))
        return str(MariadbGtid(first, int(second), last))
