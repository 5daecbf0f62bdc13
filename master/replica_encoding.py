"""The messages of a dump for real replicas of MySQL and MariaDB: binlog events, one directly after another.

The connection of a replica makes packets of the events (:mod:`dumpfilter.dump.packets.protocol`), because packets are
numbered by connection. The events are the same for all replicas at one position.

A real replica adds a GTID to its GTID set only when it has executed a transaction with this GTID. Therefore a stand-in
(an empty transaction with the GTID) replaces a dropped transaction (:mod:`dumpfilter.dump.packets.stand_ins`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.dump.chunk import ChunkPlan, Counts, Window
from dumpfilter.dump.packets.protocol import format_description, rotate
from dumpfilter.dump.packets.stand_ins import NOTHING_DROPPED, Dropped, find_dropped, with_stand_ins
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace, Encoding
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.placed import Extent, PlacedPlan, extent_of, join, read_window

_MOST_STAND_INS = 32_768
"""The largest number of stand-ins in one message. A Gap event of a few bytes may name millions of dropped GTIDs."""


@dataclass(eq=False, slots=True)
class ReplicaPlan(PlacedPlan):
    """The description of a chunk (one message to slaves), or of a part of a chunk, for a real replica (MySQL or MariaDB
    server). It lists the byte ranges of binlog events to send, and makes one message of these plain events.
    """

    dropped: Dropped = NOTHING_DROPPED
    """The dropped transactions for which the replica gets stand-ins (empty transactions with their GTIDs)."""
    begin: int = 0
    """The number of bytes of the plan's events that belong to earlier parts."""
    stop: int | None = None
    """The number of bytes of the plan's events up to the end of this part; None for all."""
    bytes_gtid: int = 0
    """The bytes of the stand-ins. 0 until messages are made."""

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the message, and the bytes of its stand-ins (empty
        transactions for dropped ones).

        If a chunk was split into several messages, only the last one counts the chunk's events. The others count only
        their stand-ins.
        """
        counts = self.plan.counts if self.stop is None else Counts()
        return replace(counts, bytes_gtid=self.bytes_gtid) if self.bytes_gtid else counts

    @property
    def reads_extent(self) -> bool:
        return not self.dropped.sequence.any()

    @property
    def extent(self) -> Extent | None:
        """The part of the binlog file, from the first to the last byte, that is needed to make the chunk (the message
        to the replica). None if no byte is needed.

        The part contains the events that are sent. It also contains the Gtid events of dropped transactions, if they
        are copied from the file into stand-ins. A stand-in is an empty transaction that gives the replica the dropped
        transaction's GTID.
        """
        own, dropped = extent_of(self.plan), self.dropped
        if not len(dropped.place) or self._family == "mariadb" or not self.reads_extent:
            return own
        low, high = dropped.gtid_span
        gtids = Extent(low, high, len(dropped.place), int(dropped.size.sum()))
        return gtids if own is None else join(own, gtids)

    @property
    def _family(self) -> str:
        return self.source.file.format_description.family

    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield one message with the chunk's events. The message is empty if the chunk has neither events nor stand-ins
        (empty transactions for dropped ones).

        ``chunk_size`` is not used. ``window`` has bytes of the file that are in memory already; None for none. Raises
        BinlogError.
        """
        source, dropped, extent = self.source, self.dropped, self.extent
        if window is None and len(dropped.place) and extent is not None:
            # The events and the Gtid events of the stand-ins are read together, where they are near one another.
            window = read_window(source, extent)
        events = self.events(window)[self.begin : self.stop]
        if not len(dropped.place):
            yield _as_bytes(events)
            return
        fd = source.file.format_description
        try:
            out = with_stand_ins(events, dropped, fd, source.gtid_source, source.read, window)
        except BinlogCorrupt as error:
            raise error.located(source.name, int(dropped.offset[0])) from None
        self.bytes_gtid = len(out) - len(events)
        source.check()
        yield bytes(out)

    def parts(self, resume: int) -> Iterator[ReplicaPlan]:
        """Split the chunk (one message), and yield parts with at most ``_MOST_STAND_INS`` stand-ins each, so that no
        message becomes too large. A stand-in is an empty transaction that replaces a dropped one.

        ``resume`` is the last transaction boundary at or before the chunk, a byte offset at which a dump can begin
        again.
        """
        pages = list(self.dropped.pages(_MOST_STAND_INS))
        begin = 0
        for page, following in zip(pages, [*pages[1:], None], strict=True):
            stop = None if following is None else int(following.place[0])
            # A part before the last one ends between two stand-ins, at no position of the writer.
            plan = self.plan if stop is None else replace(self.plan, resume=resume, resume_bytes=0)
            yield replace(
                self, plan=plan, dropped=page._replace(place=page.place - begin), begin=begin, stop=stop
            )
            begin = stop or 0


def _as_bytes(events: bytes | memoryview) -> bytes:
    """Return ``events`` as bytes. The bytes are not copied if ``events`` covers a whole bytes object."""
    whole = events.obj if isinstance(events, memoryview) else events
    return whole if isinstance(whole, bytes) and len(whole) == len(events) else bytes(events)


@dataclass(frozen=True)
class ReplicaEncoding(Encoding):
    """The message format of dumps for real replicas (MySQL and MariaDB servers): plain binlog events. A replica that
    uses GTIDs gets stand-ins (empty transactions) for dropped transactions.

    The end of a file is told by the artificial Rotate event of the next file. The replica's connection itself writes
    heartbeats and the packet at the end of a dump, because it knows the replica's position.
    """

    by_gtid: bool
    """Whether dropped transactions need stand-ins, because the replica's GTID set must stay complete."""
    checksum: bool
    """Whether the replica was told that events end in a checksum (``@source_binlog_checksum``)."""
    keeps_temporary_tables: bool = False
    """Whether the replica has the first transaction of the file in which the dump begins.

    If so, the replica knows of the server's start at the beginning of the file, and is not told to drop its temporary
    tables again.
    """

    def pieces(self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan]) -> list[PlacedPlan]:
        """Return an object for each chunk of ``plans`` that makes the chunk's message, with stand-ins (empty
        transactions) for the dropped transactions. A chunk is the byte ranges of one message.

        The chunks are consecutive in ``segment`` (scanned events), and begin at ``place``, the dump's position. In a
        relay log a chunk with very many stand-ins is split into several objects.
        """
        source, resume = place.source, place.thread.resume
        pieces: list[PlacedPlan] = []
        for plan, told in zip(plans, place.positions(segment, plans), strict=True):
            whole = ReplicaPlan(plan, source, told)
            if self.by_gtid and len(plan.gaps.runs):
                whole.dropped = find_dropped(plan, segment, resume, source.read, source.gtid_source)
            pieces += [whole] if segment.position is None else whole.parts(resume)
        return pieces

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the first events of a dump or of the next binlog file in a dump: an artificial Rotate event, which
        names file and position, and the format description event.

        A replica reads the Rotate event before it knows the format of the new file. So the Rotate event has a checksum
        if the events of the previous file have one.
        """
        file = place.source.file
        fd = file.format_description
        is_whole_file = place.position == file.first_event and file.is_whole
        name, position = place.told
        return b"".join(
            (
                rotate(
                    name,
                    FIRST_EVENT if is_whole_file else position,
                    server_id=fd.header.server_id,
                    checksum=self.checksum if previous is None else previous.file.format_description.checksum,
                ),
                format_description(
                    fd,
                    is_whole_file=is_whole_file,
                    # Servers of MySQL keep the tables for all files of the dump.
                    keeps_temporary_tables=self.keeps_temporary_tables
                    and (previous is None or fd.family == "mysql"),
                ),
            )
        )
