"""Chunks in, relay log and ``master.info`` out: the I/O thread without the network.

The order of the writes is what makes a crash harmless: first the relay log, then ``master.info``, and
``master.info`` only ever names a resume point that lies wholly in the relay log.
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
"""How long, seconds, ``master.info`` may stay behind what has been received. A file replaced costs about
half a millisecond, so this bounds the cost to a few per cent; a crash within it only makes the slave ask
again for what it had."""


class Receiver:
    """Writes one slave's chunks. Loads and recovers the directory when it is made.

    :meth:`receive` belongs to one thread; :meth:`flush_if_due` may be called from another one.
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
        """The master's hits up to the resume point that are not published yet."""
        self._later_hits: Counter[BaseRuleKind] = Counter()
        """Those that go with ``_completed``: beyond it."""
        self._awaited_version = 0
        self.filter_digest = self._info.filter_digest
        """What filter the relay log's events were chosen with from now on."""
        self._master_uuid = self._info.master_uuid
        self._another_master = False
        relay_log.recover(self._info.relay_position)
        relay_end.publish(self._info)

    @property
    def info(self) -> MasterInfo:
        """How far the slave is: from here a dump goes on. May be ahead of the file by ``save_period``; its
        ``retrieved`` is brought up to date when it is saved, so after :meth:`begin_stream` too."""
        return self._info

    def begin_stream(
        self,
        *,
        master_uuid: str,
        family: Family,
        names: NameCollation = NameCollation.GENERAL_CI,
        another_master: bool = False,
    ) -> None:
        """A new stream follows, from :attr:`info`'s position on. ``names`` is the collation the master filters with.

        What an earlier stream left incomplete is given up. With ``another_master`` the files are another
        server's although they may have the same names: the next chunk begins a new relay log.
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
            # a position of the old master's must not be taken for one of the new master's
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
        """Give up the relay log beyond ``to``, from where the master sends anew, filtered anew.

        No chunk is taken as long as the block runs, in which the master is told; after it, only those of the filter
        version that :meth:`await_version` named, or of a new stream.
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
            self._awaited_version = self._NONE
            self._save(synced=False)
            self._relay_end.rewind(self._info)
            yield

    _NONE = 1 << 63

    def await_version(self, version: int) -> None:
        """Inside :meth:`rewinding`: chunks of this filter version and of later ones go on."""
        self._awaited_version = version

    def receive(self, chunk: pb.Chunk) -> bool:
        """Write a chunk and advance to its resume point. False for one that an earlier filter has chosen, which was
        under way when it changed: there will be another in its place.

        Raises :class:`StreamError` when it does not continue what was received, and
        :class:`~dumpfilter.errors.OutputError` when it cannot be written.
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
        """Save ``master.info`` when it has been behind for ``save_period``."""
        with self._lock:
            self._save_if_due()

    def close(self) -> None:
        """Record how far the slave is and close the relay log."""
        with self._lock:
            self._save(synced=self._file.sync_every > 0)
            self._relay_log.close()

    def _enter_file(self, chunk: pb.Chunk) -> None:
        """Begin the relay log of the chunk's file, or see that the current one goes on."""
        here = self._info
        if chunk.file == here.source_file and not self._another_master:
            if chunk.format_description:
                self._check_continuation(chunk)
            elif self._awaited_version:
                raise StreamError(
                    f"{chunk.file}: the master goes on with another filter and does not say where"
                )
            self._awaited_version = 0
            return
        if not chunk.file or not chunk.format_description:
            raise StreamError(f"the master sent events of {chunk.file!r} before its format description event")
        position = self._relay_log.position
        if position != here.relay_position:
            raise StreamError(
                f"the master went on to {chunk.file} inside a transaction of {here.source_file} "
                f"(after {here.source_position})"
            )
        # An applier that stops at the new file's beginning has to know what the master dropped at the old one's end.
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
        """The stream goes on in the file the relay log ends with: is it the same file, and the place?"""
        here = self._info
        if chunk.format_description != self._relay_log.format_description():
            raise StreamError(
                f"{chunk.file}: is another file than the one this slave was reading (was the master reset?); "
                f"{AFRESH}"
            )
        first = self._first_position(chunk)
        if max(chunk.start_position, first) != max(here.source_position, first):
            raise StreamError(
                f"{chunk.file}: the master goes on at {chunk.start_position}, {here.source_position} was "
                "asked for"
            )

    @staticmethod
    def _first_position(chunk: pb.Chunk) -> int:
        """Where the first event after the format description event stands."""
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
            # Inside a transaction. A resume point beyond it without a byte of it cannot be placed in the
            # relay log: staying at the one before is always right.
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
