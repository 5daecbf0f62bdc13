"""``python -m dumpfilter.warm_up``: compile the numba kernels once, into the cache beside the modules.

Without the cache the first command that needs a kernel compiles the kernel, which takes some seconds. Commands that
start at the same time would each compile it.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np

from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.analyse.traffic.transactions import TransactionTally, TransactionTraffic
from dumpfilter.base.compiler.progress import compilations_told
from dumpfilter.binlog.compression import encode_transaction_payload
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.gap_events import with_gaps
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.row_image import ColumnPlan
from dumpfilter.binlog.row_walk import row_images
from dumpfilter.binlog.rows_events import TableMap, decode_rows_header, decode_table_map
from dumpfilter.binlog.statement import statement_shape
from dumpfilter.binlog.workload.generate import GeneratedSet, generate
from dumpfilter.binlog.writer import BinlogSetWriter, make_event, rebase_array, with_body
from dumpfilter.dump.chunk import ChunkPlan, render
from dumpfilter.dump.packets.control import rotate
from dumpfilter.dump.packets.empties import find_dropped, make_empties, with_empties
from dumpfilter.dump.packets.framing import frame, last_events
from dumpfilter.dump.stream.event_proof import EventProof
from dumpfilter.dump.stream.gaps import gaps_from_proto, gaps_to_proto
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader
from dumpfilter.index.scanner import no_table_ids, with_double_room
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.receiver.binlog_file import find_end
from dumpfilter.receiver.deframing import Deframer
from dumpfilter.simulation.hop import MICROSECOND, Hop, cross, looks
from dumpfilter.v1 import dumpfilter_pb2 as pb

_COMPRESSED = 1 << 15
"""The size of the set with compressed transactions, bytes."""


def warm_up(directory: Path) -> None:
    """Run the compiled functions over a small binlog, which is written to ``directory``.

    The process has one thread afterwards, and may fork. Row images are apart (:func:`warm_up_row_images`).
    """
    made = generate(directory, 1 << 18)
    _write_packets(made, "mysql")
    _write_packets(generate(directory / "mariadb", 1 << 16, style="mariadb"), "mariadb")
    subjects, sources = Subjects(), SourceNumbers()
    flags = TableFlags(Filter.from_options(["--replicate-do-db=shop_01"]), subjects)
    thread = DumpThread(flags, sources)
    tally = Tally(subjects, sources, filters=[(flags, None)])
    by_transaction = TransactionTally(
        subjects, sources, filters=[(flags.filter, None)], schemas_of=lambda subject: ()
    )
    compressed = _compress(made.files[0], directory / "compressed")
    for reader, segment in chain.from_iterable(
        BinlogSet.open(index).segments(subjects, sources) for index in (made.index, compressed)
    ):
        thread.start_file(segment.start, reader.file.read)
        plan_many([thread.fork()], segment)
        for plan in thread.plan(segment):
            for data in (reader.data, reader.data.tobytes()):  # compiled twice, since bytes are read-only
                render(plan, data, reader.data_offset, reader.file.read, segment.format_description)
            _write_relay_log(directory / "relay", plan, segment, reader)
        tally.add(segment, reader.file.read)
        by_transaction.add(segment, reader.data, reader.data_offset, reader.file.read)
        rebase_array(reader.data[:0].copy(), 4, checksum=True)
    tallied = tally.take().summed()
    tallied.sent(tallied.flags(flags), number=0)
    _simulate(by_transaction.take())
    subjects.grow()
    with_double_room(no_table_ids(1))
    statement_shape("SELECT 1")
    _receive_one_event(made.files[0])
    _walk_one_row_image(made.files[0])


def _write_relay_log(directory: Path, plan: ChunkPlan, segment: Segment, reader: SegmentReader) -> None:
    """Prove events, write them with their gaps as the receiver thread of a slave does, and read them again."""
    fd = segment.format_description
    events = bytes(render(plan, reader.data, reader.data_offset, reader.file.read, fd))
    gaps = gaps_from_proto(pb.Gaps.FromString(gaps_to_proto(plan.gaps, lambda _: (bytes(16), ""))))
    EventProof(checksum=fd.checksum).check(events)
    with BinlogSetWriter(directory, "relay", overwrite=True) as writer:
        writer.begin(fd)
        writer.append(rotate("binlog.000001", 4, 1, fd.checksum))
        writer.append(bytes(with_gaps(events, gaps, server_id=1, checksum=fd.checksum)))
        writer.close()
    for _ in BinlogSet.open(writer.index).segments(Subjects(), SourceNumbers()):
        pass
    last_events(events)


def _simulate(traffic: TransactionTraffic) -> None:
    """Send transactions over a simulated link."""
    sent = traffic.of_filter(0)
    committed = (traffic.time - traffic.time[0])[sent.transaction]
    crossed = cross(committed * MICROSECOND, sent.bytes, Hop(1_000_000))
    looks(crossed.received, 1, 1)


def _write_packets(made: GeneratedSet, family: str) -> None:
    """Write the events of a binlog as a real replica gets them, without the first transactions."""
    subjects, sources = Subjects(), SourceNumbers()
    thread = DumpThread(TableFlags(Filter.from_options(["--replicate-do-db=none"]), subjects), sources)

    def gtid_source(number: int) -> SourceKey:
        return sources.key(number, family)

    for reader, segment in BinlogSet.open(made.index).segments(subjects, sources):
        fd, read = segment.format_description, reader.file.read
        thread.start_file(segment.start, read)
        plans = thread.plan(segment)
        for plan in plans:
            dropped = find_dropped(plan, segment, segment.start, read, gtid_source)
            events = render(plan, reader.data, reader.data_offset, read, fd)
            frame(with_empties(events, make_empties(dropped, fd, gtid_source, read), fd), 1)


def _compress(file: Path, directory: Path) -> Path:
    """Write a binlog set with the first transactions of a file, compressed, and return its index file."""
    with file.open("rb") as source, BinlogSetWriter(directory, "bin") as writer:
        inner: list[bytes] = []
        gtid = b""
        for event in iter_events(source, file=file.name):
            if event.type == EventType.FORMAT_DESCRIPTION:
                writer.begin(event.fd)
            elif event.type == EventType.GTID:
                gtid = event.raw
            elif gtid:
                inner.append(with_body(event.header, bytes(event.body), checksum=False))
            if event.type == EventType.XID:
                payload = encode_transaction_payload(b"".join(inner))
                writer.append(
                    gtid + make_event(EventType.TRANSACTION_PAYLOAD, payload, checksum=event.fd.checksum)
                )
                inner.clear()
            if writer.position > _COMPRESSED:
                break
        writer.close()
        return writer.index


def _receive_one_event(file: Path) -> None:
    with BinlogFile(file) as opened:
        find_end(file, opened.format_description)
    event = make_event(EventType.XID, bytes(8))
    packet = (len(event) + 1).to_bytes(3, "little") + b"\1\0" + event
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(packet)
        deframer = Deframer(ours, lambda: ("", 4))
        deframer.checksum = True
        deframer.fill()
        deframer.next()


_ROW_EVENTS = ROWS | {EventType.TABLE_MAP}


def _walk_one_row_image(file: Path) -> None:
    with file.open("rb") as source:
        tables: dict[int, TableMap] = {}
        for event in iter_events(source, file=file.name):
            if event.type == EventType.TABLE_MAP:
                table = decode_table_map(event.body)
                tables[table.table_id] = table
            elif event.type in ROWS:
                rows = decode_rows_header(event.type, event.body)
                row_images(
                    ColumnPlan.from_table_map(tables[rows.table_id]), rows, event.body[rows.rows_offset :]
                )
                break


def warm_up_row_images(directory: Path) -> None:
    """Run the compiled functions that decode and print row images, over a small binlog written to ``directory``.

    These kernels work on Arrow, whose import starts a thread. A process that forks must not run this function.
    """
    from dumpfilter.analyse.printing.load_files import LoadFiles
    from dumpfilter.analyse.printing.text import TextPrinter
    from dumpfilter.binlog.rows import RowImageReader
    from dumpfilter.dump.event_stream import kept_pieces

    file = generate(directory, 1 << 16).files[0]
    with file.open("rb") as source:
        data = np.frombuffer(source.read(), np.uint8)
        source.seek(0)
        found = [event for event in iter_events(source, file=file.name) if event.type in _ROW_EVENTS]
    offsets = np.array([event.offset for event in found], np.int64)
    RowImageReader().read(
        data,
        offsets,
        np.array([len(event.raw) for event in found], np.int64),
        np.array([event.type for event in found], np.uint8),
        offsets,
        found[0].fd,
    )
    printer = TextPrinter(lambda text: None, load_files=LoadFiles(None), verbosity=1)
    for kept in kept_pieces(BinlogSet.open([file]), Filter()):
        printer.events(kept)
    printer.end()


def _main() -> None:
    def tell(line: str) -> None:
        print(f"dumpfilter: {line}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as directory, compilations_told(tell):
        warm_up(Path(directory) / "all")
        warm_up_row_images(Path(directory) / "rows")


if __name__ == "__main__":
    _main()
