"""The GTIDs of all transactions before a binlog file, from its Previous_gtids (MySQL) or Gtid_list (MariaDB) event."""

from __future__ import annotations

import zlib

from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventHeader, EventType, event_name
from dumpfilter.binlog.gtid import GtidSet, decode_gtid_list, decode_previous_gtids
from dumpfilter.errors import BinlogCorrupt, BinlogError
from dumpfilter.index.fileset import BinlogFile

_IN_TRANSACTIONS = GTIDS | {EventType.QUERY}


def previous_gtids(file: BinlogFile) -> GtidSet | None:
    """Return the GTIDs of all transactions before a binlog file, from the event at the file's begin.

    This Previous_gtids or Gtid_list event stands before any transaction. Servers before MySQL 5.6 and MariaDB 10.0
    write no such event, so that the result is None. Raises BinlogCorrupt.
    """
    offset = file.first_event
    fd = file.format_description
    for _ in range(4):
        head = file.read_up_to(offset, HEADER_LENGTH)
        if len(head) < HEADER_LENGTH:
            return None
        header = EventHeader.unpack(head)
        end = header.size - fd.checksum_length
        if end < HEADER_LENGTH:
            raise BinlogCorrupt(f"an event's length is {header.size}", file=file.name, position=offset)
        if header.type in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
            if offset + header.size > file.size:
                return None
            event = file.read(offset, header.size)
            if fd.checksum and zlib.crc32(event[:end]) != int.from_bytes(event[end:], "little"):
                raise BinlogCorrupt(
                    f"checksum mismatch in a {event_name(header.type)} event", file=file.name, position=offset
                )
            try:
                if header.type == EventType.PREVIOUS_GTIDS:
                    return decode_previous_gtids(event[HEADER_LENGTH:end])
                return decode_gtid_list(event[HEADER_LENGTH:end]).position()
            except BinlogError as error:
                raise error.located(file.name, offset) from None
        if header.type in _IN_TRANSACTIONS:
            return None
        offset += header.size
    return None
