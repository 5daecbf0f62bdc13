"""What a binlog file says came before it: its Previous_gtids (MySQL) or Gtid_list (MariaDB) event."""

from __future__ import annotations

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.fileset import BinlogFile
from dumpfilter.binlog.gtid import GtidSet, decode_gtid_list, decode_previous_gtids
from dumpfilter.errors import BinlogCorrupt


def previous_gtids(file: BinlogFile) -> GtidSet | None:
    """The GTIDs before a file; None when it does not say (before MySQL 5.6 and MariaDB 10.0).

    The event stands among the first of the file, before any transaction. Raises BinlogCorrupt.
    """
    offset = file.first_event
    fd = file.format_description
    for _ in range(4):
        head = file.read(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            return None
        header = EventHeader.unpack(head)
        body_length = header.size - HEADER_LENGTH - fd.checksum_length
        if header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            body = file.read(offset + HEADER_LENGTH, body_length)
            try:
                if header.type == EventType.PREVIOUS_GTIDS:
                    return decode_previous_gtids(body)
                return decode_gtid_list(body).position()
            except BinlogCorrupt as error:
                raise error.located(file.name, offset) from None
        if header.type in (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.MARIADB_GTID, EventType.QUERY):
            return None
        offset += header.size
    return None
