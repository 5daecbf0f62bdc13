"""The GTIDs of all transactions before a binlog file, from its Previous_gtids (MySQL) or Gtid_list (MariaDB) event.

A slave's relay log file also has a head event with the GTIDs that the slave had received before the file.
"""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.gtid import GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import decode_gtid_list, decode_previous_gtids
from dumpfilter.index.fileset import BinlogFile, FileBegin

_IN_TRANSACTIONS = GTIDS | {EventType.QUERY}


class GtidsBefore(NamedTuple):
    """The GTIDs of all transactions before a binlog file, as the events at the file's beginning list them."""

    logged: GtidSet | None
    """The GTIDs that the server had logged before, from the Previous_gtids or Gtid_list event. None if the file has no
    such event.
    """
    received: GtidSet | None
    """The GTIDs that a slave had received before this file of its relay log. None if the slave had received none, and
    for a server's binlog.
    """
    listed: tuple[MariadbGtid, ...] = ()
    """The last GTID of each domain and server before the file (MariaDB). Within a domain they stand in the order in
    which they were logged.
    """

    @property
    def all(self) -> GtidSet | None:
        """All GTIDs before the file, or None if no event of the file names any."""
        if self.logged is None or self.received is None:
            return self.received if self.logged is None else self.logged
        return self.logged | self.received


def gtids_before(file: BinlogFile) -> GtidsBefore:
    """Return the GTIDs before a binlog file, from the events at the file's beginning. Raises BinlogCorrupt.

    The Previous_gtids or Gtid_list event stands before any transaction. Servers before MySQL 5.6 and MariaDB 10.0 write
    no such event. A relay log file whose slave had received nothing before it may have none either.
    """
    received = _received(file.begin)
    offset = file.begin.end
    for _ in range(4):
        head = file.read_up_to(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            break
        header = EventHeader.unpack(head)
        if header.type in _IN_TRANSACTIONS or offset + header.size > file.size:
            break
        event = file.read_event(offset)
        if header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            logged, listed = _logged(file, offset, event)
            return GtidsBefore(logged, received, (*_positions(received), *listed))
        offset += header.size
    return GtidsBefore(None, received, _positions(received))


def _positions(received: GtidSet | None) -> tuple[MariadbGtid, ...]:
    return received.gtids() if isinstance(received, MariadbGtidSet) else ()


def _logged(file: BinlogFile, offset: int, event: bytes) -> tuple[GtidSet, tuple[MariadbGtid, ...]]:
    """Return the content of a Previous_gtids or Gtid_list event: the GTID set, and the last GTID of each domain and
    server.

    The second part is empty for MySQL. Raises BinlogCorrupt, with file and position.
    """
    body = file.format_description.body(event)
    try:
        if event[4] == EventType.PREVIOUS_GTIDS:
            return decode_previous_gtids(body), ()
        found = decode_gtid_list(body)
        return found.position(), found.gtids
    except BinlogError as error:
        raise error.located(file.name, offset) from None


def _received(begin: FileBegin) -> GtidSet | None:
    """Return the GTIDs that a slave had received before a relay log file, from the file's head event. None without
    GTIDs.
    """
    text = begin.origin.get("retrieved")
    return parse_gtid_set(text, begin.format_description.family) if isinstance(text, str) and text else None
