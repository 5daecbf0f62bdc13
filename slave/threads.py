"""The code that a replication channel's two threads, the I/O thread and the SQL thread (applier), share. The module has
the threads' base class, the conditions on which they wait for one another, and the channel's counts and latencies.

The counts survive restarts of the channel's threads and of the slave. The file ``counters.info`` keeps them.
Replication does not depend on them. Therefore a damaged file is set aside with a warning, and the channel counts from
zero.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from dumpfilter.base import files
from dumpfilter.base.errors import RelayLogDamaged
from dumpfilter.console.facts import DELAY_BUCKETS, WORK_BUCKETS, Latency
from dumpfilter.filter.rules import Hits
from dumpfilter.slave.relay_position import RelayPosition
from dumpfilter.slave.state import CountersInfo
from dumpfilter.v1 import dumpfilter_pb2 as pb


class Progress:
    """A condition variable: threads wait in :meth:`until` until another thread calls :meth:`told`. A waiting thread
    tests its condition without holding a lock, so that the applier does not wait for the tests of many statements.

    All channels of a slave share one such object. SQL statements that wait for an applier wake when an applier has
    completed a transaction or has ended.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._version = 0
        self.waiting = 0
        """The number of threads that wait."""

    def told(self) -> None:
        """Notify all threads that wait in :meth:`until`, so that they test their conditions again. Any thread may call
        this method.
        """
        if self.waiting:
            with self._changed:
                self._version += 1
                self._changed.notify_all()

    def until(self, ask: Callable[[], bool], seconds: float) -> bool:
        """Wait until the function ``ask`` returns True, for at most ``seconds``. Return the last result of ``ask``.

        ``ask`` is called at once, and again after each call of :meth:`told`.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            self.waiting += 1
        try:
            while True:
                seen, left = self._version, deadline - time.monotonic()
                if (answer := ask()) or left <= 0:
                    return answer
                with self._changed:
                    if seen == self._version:
                        self._changed.wait(left)
        finally:
            with self._changed:
                self.waiting -= 1


class RelayEnd(Progress):
    """The position up to which the I/O thread has completed the relay log and recorded it in ``master.info``.

    The position is a transaction boundary, and the applier may read up to there. The I/O thread moves the position with
    :meth:`publish`, and the applier waits for a later position with :meth:`until`. All methods may be called from any
    thread.

    ``on_publish`` is called with each published position, so that another reader of the relay log knows it, too. Before
    the slave truncates the relay log, it publishes the new end, and waits until ``on_publish`` has returned.
    """

    def __init__(self, on_publish: Callable[[RelayPosition | None], None] = lambda position: None) -> None:
        super().__init__()
        self._on_publish = on_publish
        self.position: RelayPosition | None = None
        """The position up to which the relay log is complete. None before the first relay log file."""
        self.is_last = False
        """Whether the I/O thread has ended, so that the applier ends at :attr:`position`. Read this attribute before
        :attr:`position`. Otherwise the position may be older than the end of the I/O thread.
        """

    def publish(self, position: RelayPosition | None) -> None:
        """Set the position up to which the relay log is complete, and wake the applier, which may read up to there. The
        position moves back when the slave is about to truncate the relay log, because the master sends that part again.
        None: there is no relay log.
        """
        self.position = position
        self.told()
        self._on_publish(position)

    def close(self) -> None:
        """Record that the I/O thread has ended, and wake the applier. The applier then ends when it has applied the
        whole relay log.
        """
        self.is_last = True
        self.told()


class Owner(Protocol):
    """The interface through which each of a channel's two threads tells the channel how a run has ended."""

    def discard_damaged(self, damage: RelayLogDamaged, finder: ChannelThread) -> bool:
        """Discard the damaged part of the relay log, so that the master sends it again, and start the threads again.
        The run of ``finder``, the calling thread, has ended because of the damage. Return False if the damage came back
        too often. The run then ends with the error ``damage``.
        """

    def ended(self, thread: ChannelThread) -> None:
        """Record that the run of ``thread`` has ended, and wake the SQL statements that wait for an applier."""


class ChannelThread:
    """One run of one of a channel's two threads (I/O or SQL), from START REPLICA until STOP REPLICA, an error, or the
    end of the work.

    ``name`` is the name of the thread. When the run ends, the thread tells the channel ``owner``.
    """

    def __init__(self, name: str, owner: Owner) -> None:
        self._owner = owner
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._stop = threading.Event()
        self.works = False
        """Whether the thread was started and :meth:`run` has not ended yet."""
        self.error: BaseException | None = None
        """The error that ended the run. None while the thread runs, or if it ended without an error."""
        self.failure: BaseException | None = None
        """The error that ended the run. For the I/O thread, also the error of the newest attempt to connect, if it
        failed. None without an error, and after a successful attempt.
        """
        self.failed_at = 0.0
        """The Unix time of the newest failure, seconds; 0 without one."""

    @property
    def running(self) -> bool:
        """Whether the thread has started and has not ended."""
        return self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The operating system's number of the running thread. None while the thread does not run."""
        return self._thread.native_id if self.running else None

    @property
    def stopping(self) -> bool:
        """Whether :meth:`stop` was called, so that the thread ends soon or has ended."""
        return self._stop.is_set()

    def run(self) -> None:
        """Do the thread's work, and return at its end. A subclass implements this method, and it is called once."""
        raise NotImplementedError

    def start(self) -> None:
        """Call :meth:`run` in a new thread."""
        self.works = True
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for its end. Any thread may call this method."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the thread has ended. A signal can interrupt the wait."""
        while self.running:
            self._thread.join(0.5)

    def _main(self) -> None:
        try:
            try:
                self.run()
            except RelayLogDamaged as damage:
                if not self._owner.discard_damaged(damage, self):
                    raise
        except BaseException as caught:
            self.failed_at = time.time()
            self.error = self.failure = caught
        self.works = False
        self._owner.ended(self)


_LONGEST_ERROR = 2000
"""The length to which the text of an error is cut, characters."""


@dataclass
class ChannelMeasurements:
    """The counts of a channel's applier over all its starts, and histograms of two delays. After an error, transactions
    that are applied again count twice.

    ``relay_delay`` is the time from a transaction's commit on the server until the slave has received the transaction.
    ``apply_delay`` is the time from this commit until the slave has applied the transaction.
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
        self.info = self._file.load_or_set_aside() or CountersInfo(since=time.time())
        """The present counts. The object is replaced at each change."""
        self._saved = self.info
        self.last_chunk_at = 0.0
        """The Unix time of the newest message of the master's stream, seconds; 0 before the first message of this
        process.
        """
        self.begin()

    def begin(self) -> None:
        """Prepare for a new run of the I/O thread: let the counts of :attr:`received`, which belong to one run, begin
        at zero. The counts since the channel's first start stay.
        """
        self._begun = self.info
        self.last_heartbeat_at = 0.0
        """The Unix time of the newest heartbeat since the start of the I/O thread, seconds; 0 before the first
        heartbeat.
        """

    @property
    def received(self) -> Counter[str]:
        """The counts since the I/O thread was last started, by name, such as ``connections`` or ``bytes_received``."""
        since = Counter(self.info.counts)
        since.subtract(self._begun.counts)
        return since

    def count_chunk(self, chunk: pb.Chunk, size: int) -> None:
        """Count one message (chunk) that came from the master. Add the master's own counts in the message, such as
        events read and dropped, to the channel's counts. ``size`` is the size of the message's events, bytes.
        """
        self.last_chunk_at = time.time()
        if chunk.heartbeat:
            self.last_heartbeat_at = self.last_chunk_at
        counts = {field.name: number for field, number in chunk.counts.ListFields()}
        self._add(counts | {"chunks": 1, "bytes_received": size, "heartbeats": int(chunk.heartbeat)})

    def count_connection(self) -> None:
        """Count one connection on which a dump (stream of events) began."""
        self._add({"connections": 1})

    def count_hits(self, hits: Hits) -> None:
        """Add new rule hits (matches of filter rules with events) to the counts. ``hits`` has their numbers by kind of
        rule, such as Replicate_Do_DB.
        """
        self._add({kind.option: count for kind, count in hits.items()}, to="hits")

    def count_error(self, thread: Literal["io", "sql"], text: str) -> None:
        """Count an error of a thread, and store its text and time. The error ended the thread or, for the I/O thread,
        only a connection.
        """
        text = text[:_LONGEST_ERROR].encode("utf-8", "backslashreplace").decode("utf-8")
        newest: dict[str, Any] = {f"last_{thread}_error": text, f"last_{thread}_error_at": time.time()}
        self._add({f"{thread}_errors": 1}, **newest)

    def _add(
        self, more: Mapping[str, int], *, to: Literal["counts", "hits"] = "counts", **newest: Any
    ) -> None:
        """Add the numbers ``more`` to the channel's counts of the same names. ``to`` says which counts these are:
        events, bytes and errors (``counts``), or matches of filter rules (``hits``).

        ``newest`` has new values for single fields of :class:`CountersInfo`, such as ``last_io_error``.
        """
        with self._lock:
            known: dict[str, int] = getattr(self.info, to)
            newest[to] = known | {name: known.get(name, 0) + number for name, number in more.items()}
            self.info = self.info.model_copy(update=newest)

    def save(self) -> None:
        """Write the counts to ``counters.info`` if they have changed. The first of several failures in a row is logged.
        No error is raised.
        """
        with self._saving:
            info = self.info
            if info is not self._saved and self._file.try_save(info):
                self._saved = info

    def remove(self) -> None:
        """Remove the file ``counters.info``, because the channel is removed. Raises OutputError if the file cannot be
        removed.
        """
        with self._saving:
            self._saved = self.info
            files.remove(self._file.path)
