"""The I/O thread without the network: chunks come in, the relay log and ``master.info`` go out.

The order of the writes makes a crash harmless. The receiver writes the relay log before ``master.info``, and
``master.info`` names only resume points up to which the relay log is complete.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dumpfilter.binlog.events import MAGIC, EventHeader
from dumpfilter.binlog.format import Family, NameCollation
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.errors import StreamError
from dumpfilter.filter.convert import hits_from_proto
from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.slave.state import AFRESH
from dumpfilter.slave.state.master_info import MasterInfo, MasterInfoFile
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.gtids import add_runs
from dumpfilter.slave.threads.relay_end import RelayEnd
from dumpfilter.v1 import dumpfilter_pb2 as pb

SAVE_PERIOD = 0.02
"""The longest time, seconds, that ``master.info`` may lag behind the received chunks.

Replacing the file takes about half a millisecond, and this period bounds the cost to a few per cent. After a
crash the slave requests again at most what it received in this period.
"""

_NO_VERSION = 1 << 63
"""A filter version that no chunk has. The receiver awaits this version while the master changes the filter,
and accepts no chunk meanwhile."""


class Receiver:
    """The writer of one channel's relay log and ``master.info``.

    The constructor loads ``master.info`` and recovers the relay log. One thread calls :meth:`receive`.
    Another thread may call :meth:`flush_if_due`.
    """

    def __init__(
        self,
        relay_log: RelayLog,
        file: MasterInfoFile,
        relay_end: RelayEnd,
        *,
        save_period: float = SAVE_PERIOD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._relay_log = relay_log
        self._file = file
        self._relay_end = relay_end
        self._save_period = save_period
        self._clock = clock
        self._lock = threading.Lock()
        self._info = self._saved = file.load()
        self._retrieved = parse_gtid_set(self._info.retrieved, self._info.family or None)
        self._saved_at = clock()
        self._unsynced_events = 0
        self._retrieved_more = False
        self._completed: list[pb.GtidRunsSet] = []
        self._hits: Counter[BaseRuleKind] = Counter()
        """Hits up to the resume point that the receiver has not published to the applier yet."""
        self._later_hits: Counter[BaseRuleKind] = Counter()
        """Hits of transactions received after the resume point. They join ``_hits`` when the resume point moves."""
        self._awaited_version = 0
        self.filter_digest = self._info.filter_digest
        """The digest of the filter that selects the events from now on."""
        self._master_uuid = self._info.master_uuid
        self._another_master = False
        relay_log.recover(self._info.relay_position)
        relay_end.publish(self._info)

    @property
    def info(self) -> MasterInfo:
        """The newest resume point, from which the next dump begins.

        The resume point may be newer than the file ``master.info`` by up to ``save_period``. Its member
        ``retrieved`` is current only after a save; :meth:`begin_stream` saves.
        """
        return self._info

    def begin_stream(
        self,
        *,
        master_uuid: str,
        family: Family,
        names: NameCollation = NameCollation.GENERAL_CI,
        another_master: bool = False,
    ) -> None:
        """Prepare for a new stream that begins at the position of :attr:`info`.

        ``names`` is the collation for names with which the master filters. The receiver discards an
        incomplete transaction of an earlier stream. With ``another_master`` the next chunk begins a new relay
        log, because another master's binlog file is a different file even if it has the same name.

        Raises :class:`StreamError` when the family or the collation differs from the one of the relay logs.
        """
        with self._lock:
            if self._info.family not in ("", family):
                raise StreamError(
                    f"the master's binlogs are {family}'s, the relay logs are {self._info.family}'s; {AFRESH}"
                )
            if self._info.name_collation not in (None, names):
                raise StreamError(
                    f"the master compares names by {names}, the relay logs were filtered by "
                    f"{self._info.name_collation}; {AFRESH}"
                )
            if not self._info.family:
                self._retrieved = parse_gtid_set("", family)
            # The position is still one in the old master's file. It must not be combined with the new master's UUID.
            kept = {"family": family, "names": names.value, "filter_digest": self.filter_digest}
            if not another_master:
                kept["master_uuid"] = master_uuid
            self._info = self._info.model_copy(update=kept)
            self._master_uuid = master_uuid
            self._save(synced=False)
            self._relay_log.recover(self._info.relay_position)
            self._completed.clear()
            self._later_hits.clear()
            self._awaited_version = 0
            self._another_master = another_master

    @contextmanager
    def rewinding(self, to: MasterInfo) -> Iterator[None]:
        """Truncate the relay log to ``to``, from where the master sends again with another filter.

        The receiver accepts no chunk while the block runs. Inside the block the caller requests the change
        from the master. After the block the receiver accepts chunks of the filter version that
        :meth:`await_version` set, and chunks of a new stream.
        """
        with self._lock:
            self._relay_log.recover(to.relay_position)
            self._completed.clear()
            self._later_hits.clear()
            self._hits.clear()
            self._retrieved = parse_gtid_set(to.retrieved, to.family or None)
            self._retrieved_more = False
            other = bool(to.relay_file) and to.filter_digest != self.filter_digest
            self._info = to.model_copy(update={"other_filters": to.other_filters or other})
            self.filter_digest = to.filter_digest
            self._awaited_version = _NO_VERSION
            self._save(synced=False)
            self._relay_end.rewind(self._info)
            yield

    def await_version(self, version: int) -> None:
        """Accept chunks of this filter version and of later ones. Call this method inside :meth:`rewinding`."""
        self._awaited_version = version

    def receive(self, chunk: pb.Chunk) -> bool:
        """Write a chunk and advance to its resume point. Return False for a chunk of an earlier filter
        version.

        The master had sent that chunk before it changed the filter. The master sends the chunk's transactions
        again with the new filter.

        Raises :class:`StreamError` when the chunk does not continue the stream, and
        :class:`~dumpfilter.errors.OutputError` when the slave cannot write the chunk.
        """
        with self._lock:
            if chunk.filter_version < self._awaited_version:
                return False
            if chunk.heartbeat and (not chunk.file or chunk.file != self._info.source_file):
                return True
            self._enter_file(chunk)
            self._append(chunk)
            events = chunk.counts.events_sent
            self._unsynced_events += events
            due = self._file.sync_every and self._unsynced_events >= self._file.sync_every
            if due or chunk.end_of_log:
                self._save(synced=bool(due))
            else:
                self._save_if_due()
            return True

    def flush_if_due(self) -> None:
        """Save ``master.info`` when the file has lagged behind for ``save_period``."""
        with self._lock:
            self._save_if_due()

    def close(self) -> None:
        """Save ``master.info`` and close the relay log."""
        with self._lock:
            self._save(synced=self._file.sync_every > 0)
            self._relay_log.close()

    def _enter_file(self, chunk: pb.Chunk) -> None:
        """Begin a relay log for the chunk's file, or check that the chunk continues the current file."""
        here = self._info
        if chunk.file == here.source_file and not self._another_master:
            if chunk.format_description:
                self._check_continuation(chunk)
            elif self._awaited_version:
                raise StreamError(
                    f"{chunk.file}: the master sent a chunk of another filter version without its start position"
                )
            self._awaited_version = 0
            return
        if not chunk.file or not chunk.format_description:
            raise StreamError(f"the master sent events of {chunk.file!r} before its format description event")
        position = self._relay_log.position
        if position != here.relay_position:
            raise StreamError(
                f"the master continued with {chunk.file} inside a transaction of {here.source_file} "
                f"(after {here.source_position})"
            )
        # Record the end of the old file. An applier that stops at the beginning of the new file needs the GTIDs that
        # the master dropped at the end of the old one.
        self._save(synced=False)
        here = self._info
        self._relay_log.rotate(chunk.file, chunk.start_position, chunk.format_description)
        self._another_master = False
        self._awaited_version = 0
        begun = self._relay_log.position
        assert begun is not None
        self._info = here.model_copy(
            update={
                "master_uuid": self._master_uuid,
                "source_file": chunk.file,
                "source_position": chunk.start_position,
                "relay_file": begun.file,
                "relay_offset": begun.offset,
            }
        )

    def _check_continuation(self, chunk: pb.Chunk) -> None:
        """Check that the stream continues the file that the relay log ends with, at the requested position."""
        here = self._info
        if chunk.format_description != self._relay_log.format_description():
            raise StreamError(
                f"{chunk.file}: the master's file is not the file that this slave was reading "
                f"(was the master reset?); {AFRESH}"
            )
        first = self._first_position(chunk)
        if max(chunk.start_position, first) != max(here.source_position, first):
            raise StreamError(
                f"{chunk.file}: the master continues at {chunk.start_position}, but this slave asked for "
                f"{here.source_position}"
            )

    @staticmethod
    def _first_position(chunk: pb.Chunk) -> int:
        """Return the position of the first event after the format description event."""
        return len(MAGIC) + EventHeader.unpack(chunk.format_description).size

    def _append(self, chunk: pb.Chunk) -> None:
        here = self._info
        events = chunk.events
        if chunk.resume_position < here.source_position or chunk.resume_bytes > len(events):
            raise StreamError(
                f"{chunk.file}: the resume point {chunk.resume_position} (after {chunk.resume_bytes} of "
                f"{len(events)} bytes) lies before {here.source_position} or beyond the chunk"
            )
        position = self._relay_log.position
        assert position is not None
        if events:
            self._relay_log.append(events, events=chunk.counts.events_sent)
        if chunk.HasField("completed"):
            self._completed.append(chunk.completed)
        self._later_hits.update(hits_from_proto(chunk.hits))
        incomplete = position.offset > here.relay_offset
        if not chunk.resume_bytes and (incomplete or chunk.resume_position == here.source_position):
            # The chunk ends inside a transaction, or it names a resume point whose offset in the relay log is unknown
            # because the chunk holds no byte of the completed transaction. The previous resume point stays valid.
            return
        for runs in self._completed:
            add_runs(self._retrieved, runs)
            self._retrieved_more = True
        self._completed.clear()
        self._hits.update(self._later_hits)
        self._later_hits.clear()
        self._info = here.model_copy(
            update={
                "source_position": chunk.resume_position,
                "relay_offset": position.offset + chunk.resume_bytes,
                "filter_version": chunk.filter_version,
            }
        )

    def _save_if_due(self) -> None:
        if self._info is not self._saved and self._clock() - self._saved_at >= self._save_period:
            self._save(synced=False)

    def _save(self, *, synced: bool) -> None:
        if self._retrieved_more:
            self._info = self._info.model_copy(update={"retrieved": str(self._retrieved)})
            self._retrieved_more = False
        if synced:
            self._relay_log.sync()
            self._unsynced_events = 0
        if synced or self._info is not self._saved:
            self._file.save(self._info, synced=synced)
        self._saved = self._info
        self._saved_at = self._clock()
        if self._relay_end.info is not self._info or self._hits:
            self._relay_end.publish(self._info, self._hits)
            self._hits.clear()
