"""The file writer of the I/O thread. Received events go to the relay log, and the position goes to ``master.info``.

The events come in chunks, the messages of the master's stream. The receiver checks each chunk before it writes
anything: the chunk's own CRC32, its position after the previous chunk, and the checksums of its events. Where the
master dropped transactions, the receiver writes a Gap event (:mod:`dumpfilter.binlog.gap_events`) with their GTIDs.

The order of the writes makes a crash harmless. The receiver writes the relay log before ``master.info``.
``master.info`` names only transaction boundaries up to which the relay log is complete (resume points).
"""

from __future__ import annotations

import re
import threading
from itertools import zip_longest
from pathlib import Path

from dumpfilter.base.errors import BinlogError, StreamDamaged, StreamError
from dumpfilter.base.options.values import SYNC_EVENTS
from dumpfilter.binlog.events import MAGIC, EventHeader
from dumpfilter.binlog.format import Family, FormatDescription, NameCollation
from dumpfilter.binlog.gap_events import Gap, make_gap, make_head, with_gaps
from dumpfilter.binlog.gtid import TAG, GtidSet, MariadbGtidSet, SourceKey
from dumpfilter.binlog.gtid_events import commit_time
from dumpfilter.dump.stream.message import NOTHING_KEPT, EventProof, Kept, chunk_crc32, gaps_from_proto
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.relay_position import AFRESH
from dumpfilter.slave.state import MasterInfo, Place
from dumpfilter.slave.threads import ChannelMeasurements, RelayEnd
from dumpfilter.v1 import dumpfilter_pb2 as pb

_TAG = re.compile(f"(?:{TAG})?")
"""The form of a GTID's tag in MySQL, which may be empty."""

_Run = tuple[SourceKey, int, int]
"""Consecutive GTIDs: their source (server UUID, or domain and server id), the first number and the last one."""

SAVE_PERIOD = 0.02
"""The shortest time between two periodic writes of ``master.info``, seconds.

Replacing the file takes about half a millisecond, so saving once in this period costs a few per cent of the time. After
a crash the slave asks the master again for the events that it received after the last write.
"""

MOST_WAITED_FOR = 100
"""The largest ``--sync-relay-log`` with which the I/O thread itself waits for the disk.

With a larger value another thread waits for the disk. In the meantime the I/O thread may receive as many further events
as the value says.
"""


class Receiver:
    """The writer of one channel's relay log and ``master.info``, from the chunks (messages) that the master sends.

    The constructor reads ``master.info``, and publishes the position there to the applier through ``relay_end``. At the
    beginning of a stream the relay log ends at the position, or after the received part of an incomplete transaction
    (:attr:`kept`). Only the I/O thread calls :meth:`receive`. Another thread may call :meth:`flush_if_due` at the same
    time.

    ``sync_every`` is the option ``--sync-relay-log``. After that many events the receiver forces the relay log and then
    ``master.info`` to the disk. With 0 the operating system decides when it writes the files. A crash of the process
    loses nothing in either case. A crash of the machine may lose data that was not yet on the disk. ``save_period`` is
    the shortest time between two periodic writes of ``master.info``, seconds.
    """

    def __init__(
        self,
        relay_log: RelayLog,
        relay_end: RelayEnd,
        *,
        sync_every: int = SYNC_EVENTS,
        measured: ChannelMeasurements | None = None,
        save_period: float = SAVE_PERIOD,
    ) -> None:
        self._relay_log = relay_log
        self._sync_every = sync_every
        self._relay_end = relay_end
        self._measured = measured or ChannelMeasurements()
        self._lock = threading.Lock()
        self.place = Place(MasterInfo, relay_log.directory, save_period=save_period)
        """The newest transaction boundary up to which everything is received, with the GTIDs. The next dump begins
        there. The applier, and other readers of the relay log, may read up to the boundary that was saved last.
        """
        self._unsynced_events = 0
        self._completed: list[_Run] = []
        """The GTIDs of received or dropped transactions that are not added to ``place.gtids`` yet. They are added when
        the next transaction boundary is recorded.
        """
        self._last: pb.Chunk | None = None
        """The last chunk (message) of this stream, after which the next one must follow. None before the first."""
        self._kept: Kept | None = NOTHING_KEPT
        """The size and CRC32 of the events in the relay log after the last recorded transaction boundary. None if the
        relay log has other bytes there, too, so that the transaction must be received again.
        """
        self._server_id = 0
        """The server id of the events that the slave itself makes, which is that of the master's format description."""
        self._checksum = False
        """Whether the master's events, and those that the slave makes, end in a checksum."""
        self._proof = EventProof(checksum=False)
        here = self.place.now
        self._master_uuid = here.master_uuid
        self._another_master = False
        self._except_gtids = here.except_gtids
        relay_end.publish(here.relay_position)

    @property
    def kept(self) -> Kept:
        """The size and CRC32 of the received part of an incomplete transaction at the end of the relay log. The master
        need not send this part again. Without such a part, the value is ``NOTHING_KEPT``.
        """
        return self._kept or NOTHING_KEPT

    def forget_kept(self) -> None:
        """Let the next stream begin at the last transaction boundary, and not after the received part of an incomplete
        transaction. The caller has found damage, and this part of the relay log may be damaged, too.
        """
        with self._lock:
            self._kept = None

    @property
    def first_relay_file(self) -> Path | None:
        """The path of the oldest relay log file. None before the first relay log file."""
        names = self._relay_log.names
        return self._relay_log.directory / names[0] if names else None

    def expire_relay_log(self, before: str, written_before: float) -> list[str]:
        """Remove the oldest relay log files, and return their names. A file is removed if it precedes the file named
        ``before``, and was last written before the Unix time ``written_before``. The removal ends at the first file
        that stays. Raises OutputError if a file cannot be removed.
        """
        with self._lock:
            return self._relay_log.expire(before, written_before)

    def begin_stream(
        self,
        *,
        master_uuid: str,
        family: Family,
        names: NameCollation = NameCollation.GENERAL_CI,
        filter_digest: str = "",
        auto_position: bool = False,
    ) -> bool:
        """Prepare for a new stream of events from the master ``master_uuid``. Return whether the slave shall request
        the stream by GTID.

        True means that the stream begins after the received GTIDs, and False that it begins at the saved position. With
        ``auto_position`` the first stream and the first stream from another master begin by GTID. The events of another
        master begin a new relay log file, even if the new master's binlog file has the same name as the old one's.

        If the previous stream ended inside a transaction, the events of this transaction stay in the relay log
        (:attr:`kept`). The first chunk (message) of the new stream tells whether the master leaves these events out.
        ``family`` is that of the servers that wrote the master's binlog, and ``names`` the collation by which the
        master compares names. ``filter_digest`` is a hash of the filter by which the master selects the events.

        Raises StreamError when the existing relay logs have another family or collation, and RelayLogDamaged when the
        relay log does not reach the saved position.
        """
        with self._lock:
            here = self.place.info
            if here.family not in ("", family):
                raise StreamError(
                    f"the master's binlogs are {family}'s, the relay logs are {here.family}'s; {AFRESH}"
                )
            if here.names not in ("", names):
                raise StreamError(
                    f"the master compares names by {names}, the relay logs were filtered by "
                    f"{here.names}; {AFRESH}"
                )
            # Until another master has accepted the position or sent its first chunk, the position belongs to the old
            # master's binlog file. The saved state must not combine this position with the other master's UUID.
            kept = {"family": family, "names": names.value, "filter_digest": filter_digest}
            is_other = here.master_uuid != master_uuid
            another_master = auto_position and bool(here.source_file) and is_other
            by_gtid = another_master or (auto_position and not here.source_file)
            self.place.go_back(here.model_copy(update=kept))
            self._master_uuid = master_uuid
            if is_other or not self._ends_with_kept():
                self._drop_kept(here)
            self._save(synced=False)
            self._completed.clear()
            self._last = None
            self._another_master = another_master
            self._except_gtids = here.retrieved if by_gtid else here.except_gtids
            return by_gtid

    def _ends_with_kept(self) -> bool:
        """Tell whether the relay log ends exactly with the received part of an incomplete transaction (:attr:`kept`).
        If so, the master need not send this part again.
        """
        begin, size = self.place.now.relay_position, self.kept.size
        ends = begin and begin._replace(offset=begin.offset + size)
        return size > 0 and ends is not None and self._relay_log.position == ends

    def _drop_kept(self, to: MasterInfo) -> None:
        """Truncate the relay log to the position in ``to`` (a content of ``master.info``), and so remove the received
        part of an incomplete transaction. Raises RelayLogDamaged if the relay log ends before the position.
        """
        self._kept = None
        self._relay_log.recover(to.relay_position)
        self._kept = NOTHING_KEPT

    def _note_master(self) -> None:
        description = FormatDescription.parse(self._relay_log.format_description())
        head = make_head(
            self._origin(), server_id=description.header.server_id, checksum=description.checksum
        )
        self.place.move(master_uuid=self._master_uuid, relay_offset=self._relay_log.append(head))

    def _origin(self) -> dict[str, str]:
        """Return the fields of a head event, which the slave writes into the relay log to name the master of the next
        events. The fields are ``master_uuid``, ``names`` (collation) and ``retrieved`` (the GTIDs received so far).
        """
        return {
            "master_uuid": self._master_uuid,
            "names": self.place.now.names,
            "retrieved": str(self.place.gtids),
        }

    def rewind(self, to: MasterInfo) -> None:
        """Truncate the relay log to the position in ``to`` (a content of ``master.info``), and save ``to``, because the
        master sends everything after that position again. No stream may be running.

        Raises RelayLogDamaged if the relay log ends before the position, and OutputError if a file cannot be written.
        """
        with self._lock:
            # Whoever reads the relay log must know before the events are gone.
            self._relay_end.publish(to.relay_position)
            self._drop_kept(to)
            self._completed.clear()
            other = bool(to.source_file) and to.filter_digest != self.place.now.filter_digest
            self.place.go_back(to.model_copy(update={"other_filters": to.other_filters or other}))
            self._save(synced=False)

    def receive(self, chunk: pb.Chunk, events: bytes | memoryview | None = None) -> None:
        """Write the events of a chunk (one message of the master's stream) to the relay log. Move the position to the
        end of the chunk's last complete transaction.

        ``events`` are the chunk's events; None: ``chunk`` itself holds them.

        Raises StreamDamaged for a damaged, missing or repeated chunk, and StreamError when the chunk breaks the rules
        of the stream. In both cases no event of the chunk is written. Raises OutputError when the slave cannot write a
        file.
        """
        with self._lock:
            events = chunk.events if events is None else events
            self._prove(chunk, len(events))
            if chunk.format_description:
                self._begin_events(chunk)
            self._enter_file(chunk)
            self._append(chunk, events)
            self._last = chunk
            self._unsynced_events += chunk.counts.events_sent
            is_due = bool(self._sync_every) and self._unsynced_events >= self._sync_every
            is_later = self._sync_every > MOST_WAITED_FOR
            if is_due or chunk.end_of_log or self.place.is_due:
                self._save(synced=is_due and not is_later)
            if is_due and is_later:
                self._relay_log.sync_later(self.place.path, self.place.path.parent)
                self._unsynced_events = 0

    def _prove(self, chunk: pb.Chunk, size: int) -> None:
        """Check the CRC32 of ``chunk`` (a message of the master's stream), and that the chunk follows the previous one.
        ``size`` is the number of bytes of the chunk's events. Raises StreamDamaged for a damaged, missing or repeated
        chunk.
        """
        where = f"{chunk.file}: at {chunk.begin_position}"
        if chunk.crc32 != chunk_crc32(chunk, size):
            raise StreamDamaged(f"{where}: a chunk of the stream is damaged (its CRC32 does not match)")
        last = self._last
        if last is None:
            return
        if chunk.file == last.file and not last.end_of_file:
            is_next = chunk.begin_position == last.end_position and not chunk.format_description
        else:
            is_next = last.end_of_file and chunk.previous_file == last.file != chunk.file
        if not is_next:
            raise StreamDamaged(
                f"{where}: a chunk of the stream is missing or repeated (the chunk before ended at "
                f"{last.end_position} of {last.file})"
            )

    def flush_if_due(self) -> None:
        """Write ``master.info`` if the received position has changed and the last write was at least ``save_period``
        seconds ago. A helper thread calls this method periodically, so that the position is saved even if no further
        events arrive.
        """
        with self._lock:
            if self.place.is_due:
                self._save(synced=False)

    def close(self) -> None:
        """Write ``master.info``, and close the relay log file. The next stream opens the relay log again, and receives
        an incomplete transaction again from its beginning. Raises OutputError if a file cannot be written.
        """
        with self._lock:
            try:
                self._save(synced=self._sync_every > 0)
            finally:
                self._relay_log.close()
                self._kept = None

    def _enter_file(self, chunk: pb.Chunk) -> None:
        """Begin a new relay log file if the events of ``chunk`` (a message of the master's stream) come from a new
        binlog file.

        Otherwise check that the events continue the current binlog file. Raises StreamError for events that do not
        continue the file, and for a new file that begins inside a transaction of the old one.
        """
        here, position = self.place.now, self._relay_log.position
        if not chunk.format_description and self._last is None:
            raise StreamError(f"{chunk.file}: the master began to send events without its start position")
        continues = chunk.file == here.source_file and not self._another_master
        if continues and chunk.format_description:
            self._check_continuation(chunk)
            if position is not None and here.master_uuid != self._master_uuid:
                # The master's binlogs hold no server_uuid, and the master restarted. The applier must learn the new id.
                self._note_master()
        if continues and position is not None:
            return
        if not chunk.file or not chunk.format_description:
            raise StreamError(f"the master sent events of {chunk.file!r} before its format description event")
        if position != here.relay_position:
            raise StreamError(
                f"the master continued with {chunk.file} inside a transaction of {here.source_file} "
                f"(after {here.source_position})"
            )
        begun = self._relay_log.rotate(
            chunk.file, chunk.start_position, chunk.format_description, self._origin()
        )
        self._another_master = False
        self.place.move(
            master_uuid=self._master_uuid,
            source_file=chunk.file,
            source_position=chunk.start_position,
            relay_file=begun.file,
            relay_offset=begun.offset,
            except_gtids=self._except_gtids,
        )

    def _begin_events(self, chunk: pb.Chunk) -> None:
        """Prepare for the first events of a stream. The received part of an incomplete transaction (:attr:`kept`) stays
        in the relay log if the master leaves these bytes out; otherwise it is removed.

        Raises StreamError if the master leaves out another number of bytes, and StreamDamaged for an unusable format
        description event.
        """
        if chunk.kept_bytes not in (0, self.kept.size):
            raise StreamError(
                f"{chunk.file}: the master leaves out {chunk.kept_bytes} bytes, but this slave has kept "
                f"{self.kept.size}"
            )
        if chunk.kept_bytes:
            return
        if self._last is None and self.kept.size:
            self._drop_kept(self.place.now)
        try:
            description = FormatDescription.parse(chunk.format_description)
        except BinlogError as error:
            raise StreamDamaged(f"the master sent an unusable format description event: {error}") from error
        self._server_id, self._checksum = description.header.server_id, description.checksum
        self._proof = EventProof(checksum=description.checksum)

    def _check_continuation(self, chunk: pb.Chunk) -> None:
        """Check that a new stream continues the master's binlog file at the position that the slave asked for.
        ``chunk`` is the first message of the stream.

        Raises StreamError for another position, and for a format description event that differs from the event in the
        relay log. Such an event shows that the master's file was replaced.
        """
        has_file = self._relay_log.position is not None
        if has_file and chunk.format_description != self._relay_log.format_description():
            raise StreamError(
                f"{chunk.file}: the master's file is not the file that this slave was reading "
                f"(was the master reset?); {AFRESH}"
            )
        here = self.place.now
        # The format description event comes first, whatever position before its end either side names.
        first = len(MAGIC) + EventHeader.unpack(chunk.format_description).size
        if max(chunk.start_position, first) != max(here.source_position, first):
            raise StreamError(
                f"{chunk.file}: the master continues at {chunk.start_position}, but this slave asked for "
                f"{here.source_position}"
            )

    def _append(self, chunk: pb.Chunk, events: bytes | memoryview) -> None:
        here = self.place.now
        if chunk.resume_position < here.source_position or chunk.resume_bytes > len(events):
            raise StreamError(
                f"{chunk.file}: the resume point {chunk.resume_position} (after {chunk.resume_bytes} of "
                f"{len(events)} bytes) lies before {here.source_position} or beyond the chunk"
            )
        position = self._relay_log.position
        assert position is not None
        begins_with_event = not self._proof.inside
        try:
            self._proof.check(events)
        except StreamDamaged as error:
            self._kept = None
            raise StreamDamaged(
                f"{chunk.file}: between {chunk.begin_position} and {chunk.end_position}: {error}"
            ) from None
        completed = _runs_of(chunk.completed, type(self.place.gtids))
        data = self._with_gaps(chunk, events)
        added = len(data) - len(events)
        if data:
            self._relay_log.append(data)
        if begins_with_event:
            self._measured.relay_delay.observe_since(commit_time(events, checksum=self._checksum))
        self._completed += completed
        incomplete = position.offset > here.relay_offset
        if not chunk.resume_bytes and (incomplete or chunk.resume_position == here.source_position):
            # The chunk completes no transaction of which the relay log has bytes. Either the chunk lies inside a
            # transaction, or the offset in the relay log that belongs to its resume position is unknown. The previous
            # resume point therefore stays valid.
            is_plain = not added and not chunk.HasField("completed")
            self._kept = self._kept.add(events) if is_plain and self._kept is not None else None
            return
        with self.place.lock:
            for run in self._completed:
                self.place.gtids.add_range(*run)
            self._completed.clear()
            self.place.move(
                source_position=chunk.resume_position,
                relay_offset=position.offset + chunk.resume_bytes + added,
            )
        self._kept = NOTHING_KEPT.add(events[chunk.resume_bytes :])

    def _with_gaps(self, chunk: pb.Chunk, events: bytes | memoryview) -> bytes | memoryview:
        """Return ``events``, the events of ``chunk`` (a message of the master's stream), with a Gap event inserted at
        each position where the master dropped transactions. A Gap event has the GTIDs of these transactions and the
        position after them.

        If the chunk has no events, and only moves the position, the result is a single Gap event without GTIDs. Raises
        StreamDamaged if transactions were dropped at a position outside of the chunk.
        """
        data = events
        if chunk.HasField("gaps"):
            gaps = gaps_from_proto(chunk.gaps)
            if len(gaps.offset) and int(gaps.offset[-1]) > len(events):
                raise StreamDamaged(f"{chunk.file}: at {chunk.begin_position}: a gap lies beyond its chunk")
            data = with_gaps(
                events, chunk.gaps.source, gaps, server_id=self._server_id, checksum=self._checksum
            )
        has_moved = chunk.resume_position != self.place.now.source_position
        if not data and has_moved:
            # The master skipped events that belong to no transaction. The applier's position must follow.
            return make_gap(Gap(chunk.resume_position), server_id=self._server_id, checksum=self._checksum)
        return data

    def _save(self, *, synced: bool) -> None:
        if synced:
            self._relay_log.sync()
            self._unsynced_events = 0
        if synced or self.place.now is not self.place.saved:
            self.place.save(synced=synced)
        self._relay_end.publish(self.place.now.relay_position)


def _runs_of(completed: pb.GtidRunsSet, kind: type[GtidSet]) -> list[_Run]:
    """Return the GTIDs in ``completed``, which the master sent with a chunk (message), as runs of consecutive GTIDs.
    ``kind`` is the type of the slave's GTID set.

    A run is a tuple of the GTID source, the first number and the last number. The source is a server UUID and tag, or
    MariaDB's domain and server id. The message encodes each run as two numbers: the distance from the end of the run
    before, and the number of GTIDs in the run. Raises StreamDamaged for a malformed message.
    """
    found: list[_Run] = []
    is_mysql = kind is not MariadbGtidSet
    for member in completed.members:
        is_sound = not is_mysql or (len(member.uuid) == 16 and bool(_TAG.fullmatch(member.tag)))
        key: SourceKey = (member.uuid, member.tag) if is_mysql else (member.domain_id, member.server_id)
        last = 0
        for gap, count in zip_longest(member.runs[::2], member.runs[1::2], fillvalue=0):
            first = last + gap
            last = first + count - 1
            is_sound = is_sound and 1 <= first <= last <= kind.max_number
            found.append((key, first, last))
        if not is_sound:
            raise StreamDamaged("the GTIDs of a chunk are malformed")
    return found
