"""The properties of the server that wrote the binlog set, as the answers to a replica's queries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from dumpfilter.base.errors import BinlogMissing, BinlogUnreadable, PositionError
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import MariadbGtidSet
from dumpfilter.binlog.rows_events import Cursor, TableMap, decode_table_map
from dumpfilter.console.sql.plain import Value
from dumpfilter.index.segment import Segment
from dumpfilter.master.dump_start import find_position, is_event, is_gap
from dumpfilter.master.logged import add_transactions
from dumpfilter.master.store import BinlogStore

_COLUMN_NAMES = 4
"""The kind of the metadata field with the column names (``COLUMN_NAME`` in MySQL's source code)."""

_NO_GTID = -1
"""The value in the column ``txn_source`` of segments for a transaction without a GTID."""


_MOST_FILES = 16
"""The largest number of binlog files in which Table_map events are searched for the answer to one query."""


class Source:
    """The properties of the server that wrote a binlog set, for the queries of replicas. The methods may read binlog
    files.
    """

    def __init__(self, store: BinlogStore, server_uuid: str) -> None:
        self.store = store
        self.family = store.family
        self.version = store.format_description.server_version
        self.server_id = store.format_description.header.server_id
        self.server_uuid = server_uuid

    def variable(self, name: str) -> Value:
        """Return the value of a system variable of the server that wrote the binlog, such as ``server_id``. ``name`` is
        in lower case. Return None for a variable that replicas do not query.
        """
        match name, self.family:
            case "server_id", _:
                return self.server_id
            case "version", _:
                return self.version
            case "binlog_checksum", _:
                return "CRC32" if self.has_checksums() else "NONE"
            case "binlog_row_metadata", _:
                return self.row_metadata()
            case "gtid_domain_id", "mariadb":
                # The id belongs to events without GTIDs, from servers before MariaDB 10.0.
                return 0
            case "gtid_mode", "mysql":
                return self.gtid_mode()
            case "server_uuid", "mysql":
                return self.server_uuid
        return None

    def has_checksums(self) -> bool:
        """Tell whether the events of the newest binlog file end in a checksum."""
        store = self.store
        return store.open_file(store.binlogs.names[-1]).file.format_description.checksum

    def row_metadata(self) -> str:
        """Return ``binlog_row_metadata`` of the server, FULL or MINIMAL, judged by a recent Table_map event.

        FULL means that Table_map events have column names. Programs query the variable to know this. Without a
        Table_map event the answer is MINIMAL.
        """
        for segment in islice(self._first_segments(), _MOST_FILES):
            (maps,) = np.nonzero(segment.type == EventType.TABLE_MAP)
            if maps.size:
                file = self.store.open_file(segment.file).file
                body = segment.format_description.body(file.read_event(int(segment.offset[maps[-1]])))
                length = segment.format_description.post_header_length(EventType.TABLE_MAP)
                table = decode_table_map(body, length)
                return "FULL" if _has_names(table) else "MINIMAL"
        return "MINIMAL"

    def gtid_mode(self) -> str:
        """Return MySQL's ``gtid_mode`` of the server, ON or OFF, judged by the newest binlog file with transactions.

        Without any transaction the answer is ON, so that a replica may replicate by GTIDs.
        """
        for segment in self._first_segments():
            if (segment.txn_source >= 0).any():
                return "ON"
            if (segment.txn_source == _NO_GTID).any():
                return "OFF"
        return "ON"

    def _first_segments(self) -> Iterator[Segment]:
        """Yield the first segment (up to 4 MiB of events) of each binlog file, the newest file first."""
        store = self.store
        for name in reversed(store.binlogs.names):
            segment = store.segment_at(name, store.first_position(name))
            if segment is not None:
                yield segment


def _has_names(table: TableMap) -> bool:
    """Tell whether a Table_map event contains the column names in its optional metadata."""
    fields = Cursor(table.optional, "Table_map")
    while fields.left:
        kind = fields.integer(1, "the kind of a metadata field")
        if kind == _COLUMN_NAMES:
            return True
        fields.take(fields.packed("the length of a metadata field"), "a metadata field")
    return False


def gtid_position(store: BinlogStore, file: str, position: int) -> str | None:
    """Return MariaDB's GTID position at a file and position of the binlog, as BINLOG_GTID_POS does. Return None if the
    binlog does not have the position, and an empty text for MySQL.

    As on a server, a transaction counts as done from its Gtid event on. A replica that resumes inside a transaction
    takes the answer for its ``gtid_slave_pos``. No later event would tell the GTID of this transaction.
    """
    try:
        place = find_position(file, position, store)
        found = store.previous_gtids(place.file)
    except (BinlogMissing, PositionError, BinlogUnreadable):
        return None
    if not isinstance(found, MariadbGtidSet):
        return ""
    indexed = store.open_file(place.file)
    if not (store.is_relay_log or is_event(position, indexed, store)):
        return None
    is_inside = place.end and not is_gap(indexed, place.position)
    until = place.position + 1 if is_inside else place.position
    for segment in store.segments(place.file):
        if segment.start >= until:
            break
        begun = int(np.searchsorted(segment.txn_start, until))
        if begun:
            is_part = begun < len(segment.txn_start)
            add_transactions(found, segment.before(begun) if is_part else segment, store.sources)
    return ",".join(map(str, found.gtids()))
