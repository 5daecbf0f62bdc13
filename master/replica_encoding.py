"""The messages of a dump for real replicas of MySQL and MariaDB: binlog events, one directly after another.

The connection of a replica makes packets of the events (:mod:`dumpfilter.packets.framing`), because packets have
numbers of their connection. The events are the same for all replicas at one place.

A real replica counts a transaction in its GTID set only when the replica has executed something with this GTID.
Therefore a stand-in takes the place of a dropped transaction (:mod:`dumpfilter.packets.empties`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dumpfilter.dump import ChunkPlan
from dumpfilter.dump.chunk import Counts, Window
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.placed import Extent, PlacedPlan, extent_of, join, read_window
from dumpfilter.master.relay_plans import relay_pieces
from dumpfilter.options.defaults import FIRST_EVENT
from dumpfilter.packets.control import format_description, rotate
from dumpfilter.packets.empties import NO_EMPTIES, Empties, find_empties, with_empties


@dataclass(eq=False, slots=True)
class ReplicaPlan(PlacedPlan):
    """A plan that becomes events for real replicas."""

    empties: Empties = NO_EMPTIES
    """The stand-ins of the transactions that the filter drops."""
    _counts: Counts | None = None

    @property
    def counts(self) -> Counts:
        """The chunk's counts, with the bytes of the stand-ins.

        The plan itself does not have them, because a slave of dumpfilter at the same place may share the plan.
        """
        if self._counts is None:
            size = self.empties.size(self.source.file.format_description.checksum)
            self._counts = replace(self.plan.counts, bytes_gtid=size) if size else self.plan.counts
        return self._counts

    @property
    def extent(self) -> Extent | None:
        """The bytes of the file from which messages are made: the events, and the Gtid events of the stand-ins."""
        own, empties = extent_of(self.plan), self.empties
        if not empties.reads_gtids:
            return own
        low, high = empties.gtid_span
        gtids = Extent(low, high, len(empties), int(empties.gtid_size.sum()))
        return gtids if own is None else join(own, gtids)

    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield the chunk's events as one message, which is empty if the chunk has neither events nor stand-ins."""
        if window is None and self.empties.reads_gtids and self.extent is not None:
            # The events and the Gtid events of the stand-ins are read together, where they are near one another.
            window = read_window(self.source, self.extent)
        events = self.events(window) if self.plan.size else b""
        self.note_commit_time(events)
        if not len(self.empties):
            yield _as_bytes(events)
            return
        source = self.source
        made = with_empties(events, self.empties, source.read, source.file.format_description, window)
        source.check()
        yield bytes(made)


def _as_bytes(events: bytes | memoryview) -> bytes:
    """Return events as bytes, without a copy if the events were read as one piece."""
    whole = events.obj if isinstance(events, memoryview) else events
    return whole if isinstance(whole, bytes) and len(whole) == len(events) else bytes(events)


@dataclass(frozen=True)
class ReplicaEncoding:
    """The encoding of dumps for real replicas."""

    by_gtid: bool
    """Whether the replica names GTIDs, so that dropped transactions need stand-ins."""
    checksum: bool
    """Whether the replica was told that events end in a checksum (``@source_binlog_checksum``)."""
    keeps_temporary_tables: bool = False
    """Whether the replica has the first transaction of the file in which the dump begins.

    The start of the server at the beginning of the file is then no news to the replica. The replica would drop its
    temporary tables otherwise.
    """

    def pieces(
        self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan], filter_version: int
    ) -> list[PlacedPlan]:
        """Return the plans of one segment with the stand-ins of the transactions that each drops."""
        source, positions = place.source, place.positions(segment, plans)
        empties = [NO_EMPTIES] * len(plans)
        if self.by_gtid and segment.writer is not None:
            return relay_pieces(place, segment, plans, positions, filter_version)
        if self.by_gtid:
            empties = find_empties(plans, segment, place.thread.resume, source.read, source.gtid_source)
        return [
            ReplicaPlan(plan, source, told, filter_version, of_plan)
            for plan, told, of_plan in zip(plans, positions, empties, strict=True)
        ]

    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return an artificial Rotate event, which names file and position, and the format description event.

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

    def end_of_file(self, place: DumpPlace) -> list[bytes]:
        """Return no message. The artificial Rotate event of the next file says that a file has ended."""
        return []

    def heartbeat(self, place: DumpPlace) -> bytes:
        """Return an empty message. The connection writes heartbeats, because it knows the replica's position."""
        return b""

    def end_of_log(self, place: DumpPlace) -> bytes:
        """Return an empty message. The connection tells the end with a packet of its own."""
        return b""
