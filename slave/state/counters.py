"""The counts of a channel since its first start, such as connections, events and errors, and its latencies. The file
``counters.info`` keeps the counts.

The counts survive restarts of the channel's threads and of the slave. Replication does not depend on them. Therefore a
damaged file is set aside with a warning, and the channel counts from zero.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import structlog

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError
from dumpfilter.console.metrics import DELAY_BUCKETS, WORK_BUCKETS, Latency
from dumpfilter.filter.rules import Hits
from dumpfilter.slave.state.infos import CountersInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = structlog.get_logger("dumpfilter.slave")

_LONGEST_ERROR = 2000
"""The length to which the text of an error is cut, characters."""


@dataclass
class ChannelMeasurements:
    """The counts of a channel's applier over all its starts, and histograms of two delays. After an error, transactions
    that are applied again count twice.

    The delays run from a transaction's commit on the server until the slave has received it, and until the slave has
    applied it.
    """

    events_filtered: int = 0
    """The number of row events and statements that the slave's own filter dropped."""
    transactions: int = 0
    """The number of transactions that the applier has completed."""
    committed_at: float | None = None
    """The Unix time at which the server committed the newest transaction, seconds. None if the binlog does not hold
    the time.
    """
    relay_delay: Latency = field(default_factory=lambda: Latency(DELAY_BUCKETS))
    apply_delay: Latency = field(default_factory=lambda: Latency(DELAY_BUCKETS))


SYNC_TIME = Latency(WORK_BUCKETS)
"""The latency of syncs to the disk. All channels of the process share it, as they share the disk."""
files.SYNC_OBSERVERS.append(SYNC_TIME.observe)


class ChannelCounters:
    """The counts of one channel since its first start, such as connections, events and errors. Any thread can add to
    them, and :meth:`save` writes them to ``counters.info``.
    """

    def __init__(self, directory: Path) -> None:
        self._file = CountersInfo.file(directory)
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._failing = False
        found = self._file.load_or_set_aside(self._warn) or CountersInfo(since=time.time())
        counts = {name: found.counts.get(name, 0) for name in CountersInfo().counts}
        self.info = found.model_copy(update={"counts": counts})
        """The present counts. The object is replaced at each change."""
        self._saved = self.info
        self.last_chunk_at = 0.0
        """The Unix time of the newest message of the master's stream, seconds; 0 before the first message of this
        process.
        """
        self.begin()

    def begin(self) -> None:
        """Let the counts of :attr:`received` begin at zero, because the I/O thread starts."""
        self._begun = self.info
        self.last_heartbeat_at = 0.0
        """The Unix time of the newest heartbeat since the start of the I/O thread, seconds; 0 before the first
        heartbeat.
        """

    @property
    def received(self) -> CountersInfo:
        """The counts since the I/O thread was last started: connections, heartbeats, messages and bytes, and the
        numbers of events that the master has read, sent and dropped.
        """
        names = ("connections", "heartbeats", "chunks", "bytes_received")
        before: dict[str, Any] = {name: -getattr(self._begun, name) for name in names}
        before["counts"] = {name: -number for name, number in self._begun.counts.items()}
        return _sum(self.info, {}, before)

    def count_chunk(self, chunk: pb.Chunk, size: int) -> None:
        """Count one received message of the master's stream. ``size`` is the size of its events, bytes."""
        self.last_chunk_at = time.time()
        if chunk.heartbeat:
            self.last_heartbeat_at = self.last_chunk_at
        counts = {name: getattr(chunk.counts, name) for name in self.info.counts}
        self._add(chunks=1, bytes_received=size, heartbeats=int(chunk.heartbeat), counts=counts)

    def count_connection(self) -> None:
        """Count one connection on which a dump (stream of events) began."""
        self._add(connections=1)

    def count_hits(self, hits: Hits) -> None:
        """Add new uses of filter rules to the counts. ``hits`` has the number of new uses by kind of rule, such as
        Replicate_Do_DB.
        """
        self._add(hits={kind.option: count for kind, count in hits.items()})

    def count_error(self, thread: Literal["io", "sql"], text: str) -> None:
        """Count an error of a thread, and store its text and time. The error ended the thread or, for the I/O thread,
        only a connection.
        """
        text = text[:_LONGEST_ERROR].encode("utf-8", "backslashreplace").decode("utf-8")
        newest = {f"last_{thread}_error": text, f"last_{thread}_error_at": time.time()}
        self._add(newest, **{f"{thread}_errors": 1})

    def _add(self, newest: Mapping[str, Any] | None = None, **more: int | Mapping[str, int]) -> None:
        """Add the numbers ``more`` to the fields with these names, and replace the values of the fields ``newest``."""
        with self._lock:
            self.info = _sum(self.info, newest or {}, more)

    def save(self) -> None:
        """Write the counts to ``counters.info`` if they have changed. The first of several failures in a row is logged.
        No error is raised.
        """
        with self._saving:
            info = self.info
            if info is self._saved:
                return
            try:
                self._file.save(info)
            except OutputError as error:
                if not self._failing:
                    log.error(
                        "counters not saved",
                        reason=str(error),
                        hint="the slave goes on, and tries again; a restart would lose the counts since the last save",
                    )
                self._failing = True
            else:
                self._saved, self._failing = info, False

    def _warn(self, reason: str, aside: str) -> None:
        log.warning(
            "counters cannot be used",
            file=str(self._file.path),
            reason=reason,
            hint=f"the channel counts from zero; the file is kept as {aside}",
        )

    def remove(self) -> None:
        """Remove the file ``counters.info``, because the channel is removed. Raises OutputError."""
        with self._saving:
            self._saved = self.info
            files.remove(self._file.path)


def _sum(
    info: CountersInfo, newest: Mapping[str, Any], more: Mapping[str, int | Mapping[str, int]]
) -> CountersInfo:
    changed = dict(newest)
    for name, number in more.items():
        known = getattr(info, name)
        if isinstance(number, int):
            changed[name] = known + number
        else:
            changed[name] = known | {key: known.get(key, 0) + count for key, count in number.items()}
    return info.model_copy(update=changed)
