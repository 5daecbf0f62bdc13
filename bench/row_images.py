"""The speed of decoding row images into Arrow maps, beside python-mysql-replication.

Both read the same events from memory, in one thread, and make the values of all rows before and after the change.
python-mysql-replication (``pip install mysql-replication``) usually reads from a server. Here its event decoder gets
the events of the file, without a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from pymysql.protocol import MysqlPacket

from bench._common import Options, Report, binlogs, processor_time
from dumpfilter.binlog.events import HEADER_LENGTH, ROWS, EventHeader, EventType
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows import RowImageReader
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects

try:
    from pymysqlreplication.packet import BinLogPacketWrapper
    from pymysqlreplication.row_event import (
        DeleteRowsEvent,
        TableMapEvent,
        UpdateRowsEvent,
        WriteRowsEvent,
    )
except ImportError:
    BinLogPacketWrapper = None

SIZE = 32 << 20
"""The size of the binlog, bytes. The other library needs seconds for it."""
_WANTED = ROWS | {EventType.TABLE_MAP}


class _Connection:
    """A stand-in for the connection to a server, with the facts that the other library asks for."""

    charset = "utf8mb4"

    def _get_dbms(self) -> str:
        return "mysql"


def ours(made: GeneratedSet) -> int:
    rows, images = 0, RowImageReader()
    for segment, data, starts in _segments(made):
        found = images.read(
            data, starts, segment.size, segment.type, segment.offset, segment.format_description
        )
        rows += found.event.size
    return rows


def _segments(made: GeneratedSet) -> Iterator[tuple]:  # type: ignore[type-arg]
    binlogs = BinlogSet.open(made.index)
    for name in binlogs.names:
        with binlogs.file(name) as file:
            reader = SegmentReader(file, Subjects(), SourceNumbers(), verify=False)
            while (segment := reader.next()) is not None:
                yield segment, reader.data, segment.offset - reader.data_offset


def theirs(made: GeneratedSet) -> int:
    rows = 0
    tables: dict[int, object] = {}
    classes = (TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)
    connection = _Connection()
    for path in made.files:
        data = path.read_bytes()
        at = 4
        while at + HEADER_LENGTH <= len(data):
            header = EventHeader.unpack(data, at)
            if header.type in _WANTED:
                packet = BinLogPacketWrapper(
                    MysqlPacket(b"\0" + data[at : at + header.size], "utf8"),
                    tables,
                    connection,
                    (9, 7, 0),
                    True,
                    classes,
                    None,
                    None,
                    None,
                    None,
                    False,
                    False,
                    False,
                    True,
                    False,
                )
                event = packet.event
                if header.type == EventType.TABLE_MAP:
                    tables[event.table_id] = event.get_table()
                else:
                    rows += len(event.rows)
            at += header.size
    return rows


def run(report: Report, options: Options) -> None:
    made = binlogs(min(options.size, SIZE))
    report.nbytes = made.bytes
    readers: dict[str, Callable[[GeneratedSet], int]] = {"dumpfilter": ours}
    if BinLogPacketWrapper is None:
        report.note("mysql-replication is not installed: pip install mysql-replication")
    else:
        readers["python-mysql-replication"] = theirs
    rows = {name: reader(made) for name, reader in readers.items()}
    assert len(set(rows.values())) == 1
    cases = {name: partial(processor_time, partial(reader, made)) for name, reader in readers.items()}
    for name, seconds in report.measure(cases, options.runs).items():
        report.row(f"{name}, rows a second", rows[name] / seconds, "{:12,.0f}")
    if BinLogPacketWrapper is not None:
        title = "times as fast as python-mysql-replication, in processor time"
        report.ratio(title, "python-mysql-replication", "dumpfilter", 5)
