"""The part of the I/O thread that writes files: received events go to the relay log, the position to ``master.info``.

The events come in chunks, the messages of the master's stream. The order of the writes makes a crash harmless. The
receiver writes the relay log before ``master.info``. ``master.info`` names only positions between two transactions up
to which the relay log is complete (resume points).
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
"""The longest time that ``master.info`` may lag behind the received events, seconds.

Replacing the file takes about half a millisecond, so saving once in this period costs a few per cent of the time.
After a crash the slave asks the master again for the events that it received in this period.
"""

_NO_VERSION = 1 << 63
"""A version number that no filter ever has.

While a change of filter is under way, the receiver waits for this version, so that it accepts no events meanwhile.
"""


class Receiver:
    """The object that writes one channel's relay log and ``master.info`` from the chunks that the master sends.

    The constructor reads ``master.info``, and truncates the relay log to the position there. Then it tells the applier
    that position through ``relay_end``. Only the I/O thread calls :meth:`receive`. Another thread may call
    :meth:`flush_if_due` at the same time.
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
        """Uses of filter rules that the master counted before the newest resume point, the position between two
        transactions up to which everything is received. The applier has not been told these counts yet."""
        self._later_hits: Counter[BaseRuleKind] = Counter()
        """Uses of filter rules that the master counted for transactions after the newest resume point.

        When these transactions are complete, the resume point moves, and the counts are added to ``_hits``.
        """
        self._awaited_version = 0
        self.filter_digest = self._info.filter_digest
        """A hash of the filter by which the master selects the events that the receiver writes from now on."""
        self._master_uuid = self._info.master_uuid
        self._another_master = False
        relay_log.recover(self._info.relay_position)
        relay_end.publish(self._info)

    @property
    def info(self) -> MasterInfo:
        """The newest position between two transactions up to which everything is received. The next dump begins there.

        The position may be newer than the one in the file ``master.info`` by up to ``save_period`` seconds. The
        member ``retrieved``, the set of received GTIDs, is brought up to date only when the file is written.
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
        """Prepare for a new stream of events from the master, which begins at the position of :attr:`info`.

        If the stream before broke off inside a transaction, the receiver removes this transaction from the relay log.
        ``family`` says which servers wrote the master's binlogs, and ``names`` how the master compares names. With
        ``another_master`` the next events begin a new relay log file. Another master's binlog file is a different
        file even if it has the same name.

        Raises StreamError when the family or the collation differs from the one of the existing relay logs.
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
            # Until the new master has sent its first chunk, the position belongs to the old master's binlog file. The
            # saved state must not combine this position with the new master's UUID.
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
        """Truncate the relay log to the position ``to``, because the master sends everything after it again.

        This is the context manager for a change of filter. Inside the ``with`` block the caller asks the master to
        change the filter, and the receiver writes nothing. After the block the receiver discards chunks that the old
        filter selected, until a new stream begins or a chunk has the version given to :meth:`await_version`.
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
        """Discard all chunks until the master sends one that the filter with this version number selected.

        The master numbers the filters of a registration. Call this method inside the block of :meth:`rewinding`.
        """
        self._awaited_version = version

    def receive(self, chunk: pb.Chunk) -> bool:
        """Write a chunk's events to the relay log, and advance the position to the chunk's last complete transaction.

        Return False, without writing, for a chunk that the master sent before it changed the filter. The master sends
        the transactions of such a chunk again with the new filter.

        Raises StreamError when the chunk does not continue the stream, and OutputError when the slave cannot write
        a file.
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
        """Write ``master.info`` if the position has changed and the last write is ``save_period`` seconds ago."""
        with self._lock:
            self._save_if_due()

    def close(self) -> None:
        """Write ``master.info``, and close the relay log file."""
        with self._lock:
            self._save(synced=self._file.sync_every > 0)
            self._relay_log.close()

    def _enter_file(self, chunk: pb.Chunk) -> None:
        """Begin a new relay log file if the chunk comes from a new binlog file of the master.

        Otherwise check that the chunk continues the current file. Raises StreamError when it does not.
        """
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
        # The applier must be told about the end of the old relay log file before the new file begins. An applier that
        # stops at the beginning of the new file needs the GTIDs that the master dropped at the end of the old file.
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
        """Check that a new stream continues the master's binlog file at the position that the slave asked for.

        A different format description event shows that the master's file was replaced. Raises StreamError.
        """
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
        """Return the offset in the master's binlog file at which the format description event ends."""
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
            # The chunk completes no transaction of which the relay log has bytes. Either the chunk lies inside a
            # transaction, or the offset in the relay log that belongs to its resume position is unknown. The previous
            # resume point therefore stays valid.
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
