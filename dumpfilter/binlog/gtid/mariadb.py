"""GTID sets of MariaDB.

A MariaDB server only knows positions (``gtid_slave_pos``: the last GTID of each domain). A position stands for the set
of all GTIDs up to the last GTID of each domain. A filtered stream can have other sets, with holes, which are written
like ``0-11-5:74``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid.base import GtidSet
from dumpfilter.binlog.gtid.gtids import (
    MARIADB_TEXT,
    SEQ_NO_MAX,
    Gtid,
    Key,
    MariadbGtid,
    mariadb_ids,
    read_number,
    shortened,
)
from dumpfilter.binlog.gtid.intervals import Intervals


class MariadbGtidSet(GtidSet):
    """A set of MariaDB's GTIDs: intervals of seq_no for each domain.

    Only domain and seq_no count. The server id says which server wrote a transaction, so sets that differ only in
    server ids are equal. The text has the server id of the last GTID of each domain; 0 stands for an unknown one.

    A domain whose numbers are 1 to n is written ``domain-server-n``, which is a position as in ``gtid_slave_pos``.
    Another domain writes each of its intervals as ``domain-server-first:last``. A position with seq_no 0 adds nothing.

    >>> done = MariadbGtidSet.parse("0-11-74,1-12-5")
    >>> done.add(MariadbGtid.parse("0-11-75"))
    >>> done.add(MariadbGtid.parse("2-13-500"))       # just this one
    >>> str(done)
    '0-11-75,1-12-5,2-13-500:500'
    >>> done.advance(MariadbGtid.parse("2-13-500"))   # a position: all up to it
    >>> str(done)
    '0-11-75,1-12-5,2-13-500'
    """

    family = "mariadb"
    max_number = SEQ_NO_MAX
    __slots__ = ("_servers",)

    def __init__(self) -> None:
        super().__init__()
        # The dictionary holds, for each domain id, the seq_no and the server id of the last GTID.
        self._servers: dict[int, tuple[int, int]] = {}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a position (``gtid_slave_pos``) or the text of a set names.

        White space around commas is allowed.

        Raises GtidError, also for a domain with two positions, as the server does (error 1943).
        """
        made = cls()
        positions: set[int] = set()
        for piece in text.split(","):
            item = piece.strip()
            if not item:
                if text.strip():
                    raise GtidError(f"an empty piece in {shortened(text.strip())!r}")
                continue
            match = MARIADB_TEXT.fullmatch(item)
            if not match:
                raise GtidError(f"not a GTID of MariaDB: {shortened(item)!r} (domain-server-number)")
            domain, server = mariadb_ids(match)
            first, last = 1, read_number(match[3], SEQ_NO_MAX, item, least=0)
            if match[4] is not None:
                first, last = last, read_number(match[4], SEQ_NO_MAX, item)
                if not 1 <= first <= last:
                    raise GtidError(f"{first}:{last} is no interval, in {item!r}")
            elif domain in positions:
                raise GtidError(f"domain {domain} has two positions in {shortened(text.strip())!r}")
            else:
                positions.add(domain)
            if first <= last:
                made.add_range(domain, first, last, server_id=server)
        return made

    def __str__(self) -> str:
        pieces: list[str] = []
        for domain in sorted(self._sets):
            one = self._sets[domain]
            server = self.server_id(domain)
            if len(one) == 1 and one.starts[0] == 1:
                pieces.append(f"{domain}-{server}-{one.ends[0]}")
            else:
                pieces += [f"{domain}-{server}-{a}:{b}" for a, b in zip(one.starts, one.ends, strict=True)]
        return ",".join(pieces)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return super().__iter__()  # type: ignore[return-value]  # the keys are this family's

    def server_id(self, domain_id: int) -> int:
        """Return the server id of the last GTID of a domain; 0 when the set does not know the server id."""
        return self._servers.get(domain_id, (0, 0))[1]

    def gtids(self) -> tuple[MariadbGtid, ...]:
        """Return the last GTID of each domain, as ``gtid_slave_pos`` would hold them, sorted by domain."""
        return tuple(MariadbGtid(d, self.server_id(d), self._sets[d].ends[-1]) for d in sorted(self._sets))

    def is_position(self) -> bool:
        """Tell whether each domain has all its GTIDs from 1 to the last, so that a server can take the set's text for
        a position.
        """
        return all(len(one) == 1 and one.starts[0] == 1 for one in self._sets.values())

    def add(self, gtid: Gtid) -> None:
        """Add one GTID. Raises GtidError for a GTID of MySQL or a seq_no out of range."""
        domain, seq_no = self._place(gtid)
        self.add_range(domain, seq_no, seq_no, server_id=gtid.server_id)  # type: ignore[union-attr]

    def advance(self, gtid: Gtid) -> None:
        """Add ``gtid`` and all GTIDs of its domain with smaller seq_nos."""
        domain, seq_no = self._place(gtid)
        self.add_range(domain, 1, seq_no, server_id=gtid.server_id)  # type: ignore[union-attr]

    def add_range(self, key: Key, first: int, last: int, *, server_id: int = 0) -> None:
        """Add the GTIDs of a domain with the seq_nos ``first`` to ``last``.

        ``server_id`` is the server id of the GTID ``last``, or 0 when it is unknown.
        """
        super().add_range(key, first, last)
        self._served(key, last, server_id)

    def add_many(self, key: Key, numbers: npt.NDArray[np.integer[Any]], *, server_id: int = 0) -> None:
        """Add the GTIDs of a domain with many seq_nos.

        ``server_id`` is the server id of the GTID with the largest seq_no, or 0 when it is unknown.
        """
        super().add_many(key, numbers)
        if len(numbers):
            self._served(key, int(np.asarray(numbers).max()), server_id)

    def update(self, other: GtidSet) -> None:
        """Add every GTID of ``other`` to this set. Each domain keeps the server id of its largest seq_no."""
        super().update(other)
        if isinstance(other, MariadbGtidSet):
            for domain, (seq_no, server) in other._servers.items():
                self._served(domain, seq_no, server)

    def copy(self) -> Self:
        made = super().copy()
        made._servers = dict(self._servers)
        return made

    def _with(self, sets: dict[Any, Intervals]) -> Self:
        made = super()._with(sets)
        # A difference or intersection may have removed the last GTID of a domain. Its server id is the best guess for
        # the new last GTID.
        made._servers = {
            domain: (one.ends[-1], self._servers[domain][1])
            for domain, one in made._sets.items()
            if domain in self._servers
        }
        return made

    def _served(self, domain: Key, seq_no: int, server_id: int) -> None:
        assert isinstance(domain, int)
        if server_id and seq_no >= self._servers.get(domain, (0, 0))[0]:
            self._servers[domain] = (seq_no, server_id)

    def _place(self, gtid: Gtid) -> tuple[int, int]:
        if not isinstance(gtid, MariadbGtid):
            raise GtidError(f"not a GTID of MariaDB: {gtid}")
        return gtid.domain_id, gtid.seq_no

    def _check_key(self, key: Key) -> None:
        if not (isinstance(key, int) and 0 <= key < 2**32):
            raise GtidError(f"not a domain id: {key!r}")
